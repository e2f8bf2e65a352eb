//! What loopback cannot show: a link with an MTU of 1500, a slow one, one that goes down, and the
//! multicast loop.
//!
//! Two network namespaces joined by a virtual link. A socket belongs to the namespace in which its
//! thread opened it, so all members still live in one thread.

use std::fs::File;
use std::net::SocketAddrV4;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use groupcast_core::{Destination, SocketClass};
use groupcast_net::{EndpointConfig, random_u64};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::bed::{Bed, batch, open, random_group, random_member, sealing};

/// Two namespaces; hosts 1 and 2 have the addresses 10.79.N.1 and 10.79.N.2.
struct Wire {
    names: [String; 2],
    subnet: u8,
}

fn ip(arguments: &str) {
    run("ip", arguments);
}

fn run(program: &str, arguments: &str) {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {stderr}");
}

/// The kernel notices a new link's carrier up to a second later, and drops silently what is sent
/// before.
fn await_carrier(name: &str) {
    let is_up = || {
        let shown = Command::new("ip")
            .args(["-n", name, "link", "show", "wire"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("state UP")
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_up() {
        assert!(
            Instant::now() < deadline,
            "the link of {name} has no carrier"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

impl Wire {
    fn new() -> Self {
        let [id, subnet, ..] = random_u64().unwrap().to_ne_bytes();
        let names = [1, 2].map(|host| format!("gc-w{id:02x}{subnet:02x}-{host}"));
        let wire = Self { names, subnet };
        let [one, two] = &wire.names;
        ip(&format!("netns add {one}"));
        ip(&format!("netns add {two}"));
        ip(&format!(
            "-n {one} link add wire type veth peer name wire netns {two}"
        ));
        for (host, name) in wire.names.iter().enumerate() {
            let address = wire.address(host, 0);
            ip(&format!(
                "-n {name} address add {}/24 dev wire",
                address.ip()
            ));
            ip(&format!("-n {name} link set wire up"));
        }
        for name in &wire.names {
            await_carrier(name);
        }
        wire
    }

    fn address(&self, host: usize, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new([10, 79, self.subnet, host as u8 + 1].into(), port)
    }

    /// Members on the given hosts (0 or 1), each at a port of its own.
    fn members(&self, hosts: &[usize], tweak: impl Fn(&mut EndpointConfig) + Copy) -> Bed {
        let group = random_group();
        let mut bed = Bed {
            endpoints: Vec::new(),
            members: Vec::new(),
        };
        for (index, host) in hosts.iter().enumerate() {
            let listen = self.address(*host, 4000 + index as u16);
            let mut config = EndpointConfig::multicast(listen, group);
            tweak(&mut config);
            let member = random_member();
            let name = self.names[*host].clone();
            bed.endpoints
                .push(within(&name, || open(config, member, sealing()).unwrap()));
            bed.members.push(member);
        }
        bed
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Calls `act` with this thread in the namespace `name`.
fn within<T>(name: &str, act: impl FnOnce() -> T) -> T {
    let home = File::open("/proc/thread-self/ns/net").unwrap();
    let there = File::open(format!("/run/netns/{name}")).unwrap();
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(there.as_fd(), network).unwrap();
    let result = act();
    move_into_link_name_space(home.as_fd(), network).unwrap();
    result
}

/// Member 0 sends the batch to the group; member 1 has all of it, in order.
fn arrives(bed: &mut Bed, datagrams: &[Vec<u8>]) {
    bed.courier(1).inbox.clear();
    bed.courier(0).send_data(datagrams.to_vec());
    bed.drive(|bed| bed.courier(1).inbox.len() >= datagrams.len());
    let sender = bed.members[0];
    assert!(bed.courier(1).from(sender) == datagrams);
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn datagrams_above_the_mtu_are_fragmented_and_offload_stays_for_the_others() {
    let wire = Wire::new();
    let mut bed = wire.members(&[0, 1], |_| {}).introduced();
    arrives(&mut bed, &batch(1, 40, 1350));
    let before = bed.endpoints[0].counters().sent;
    assert!(before.segmented >= 1 && before.offload_refused == 0);

    arrives(&mut bed, &batch(2, 7, 8850));
    arrives(&mut bed, &batch(3, 7, 8850));
    let after = bed.endpoints[0].counters().sent;
    assert_eq!(after.offload_refused, 1, "asked only once");
    assert_eq!(after.segmented, before.segmented);
    assert_eq!(after.too_large, 0);

    arrives(&mut bed, &batch(4, 40, 1350));
    assert_eq!(
        bed.endpoints[0].counters().sent.segmented,
        before.segmented + 1
    );

    bed.courier(1).inbox.clear();
    let peer = Destination::Member(bed.members[1]);
    let token = vec![0x79; 60_000];
    bed.courier(0)
        .send(peer, SocketClass::Control, vec![token.clone()]);
    bed.drive(|bed| bed.courier(1).inbox.len() == 1);
    let sender = bed.members[0];
    assert!(bed.courier(1).from(sender) == [token]);
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn the_largest_unfragmented_datagram_is_that_of_the_interface() {
    let wire = Wire::new();
    let bed = wire.members(&[0], |_| {});
    let max = within(&wire.names[0], || bed.endpoints[0].datagram_max());
    assert_eq!(max, Some(1472));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn members_of_one_host_hear_each_other_only_with_the_loop_on() {
    let wire = Wire::new();
    for (loops, heard) in [(None, 0), (Some(true), 5)] {
        let mut bed = wire.members(&[0, 0, 1], |config| config.multicast_loop = loops);
        for _ in 0..5 {
            bed.courier(0).send_data(vec![b"hello".to_vec()]);
        }
        bed.turn(0);
        bed.settle();
        assert_eq!(bed.endpoints[1].counters().data.datagrams, heard);
        assert_eq!(bed.endpoints[2].counters().data.datagrams, 5);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn an_interface_that_goes_down_and_up_again_is_survived() {
    let wire = Wire::new();
    let mut bed = wire.members(&[0, 1], |_| {}).introduced();
    let name = &wire.names[0];
    ip(&format!("-n {name} link set wire down"));
    bed.courier(0).send_data(batch(1, 10, 1350));
    let peer = Destination::Member(bed.members[1]);
    bed.courier(0)
        .send(peer, SocketClass::Control, batch(2, 1, 100));
    bed.settle();
    let sent = bed.endpoints[0].counters().sent;
    assert_eq!(sent.unreachable, 11, "{sent:?}");
    ip(&format!("-n {name} link set wire up"));
    thread::sleep(Duration::from_millis(100));
    bed.courier(1).inbox.clear();
    arrives(&mut bed, &batch(3, 10, 1350));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_slow_link_slows_the_sender_down_and_loses_nothing() {
    let wire = Wire::new();
    run(
        "tc",
        &format!(
            "-n {} qdisc add dev wire root tbf rate 50mbit burst 20kb limit 20mb",
            wire.names[0]
        ),
    );
    let mut bed = wire
        .members(&[0, 1], |config| config.send_buffer = 32 << 10)
        .introduced();
    let all: Vec<Vec<u8>> = (0..20).flat_map(|seed| batch(seed, 40, 1350)).collect();
    for part in all.chunks(40) {
        bed.courier(0).send_data(part.to_vec());
    }
    let mut ready = Vec::new();
    let mut turns = 0;
    while bed.courier(1).inbox.len() < all.len() {
        // The sender sleeps until there is room: it does not spin.
        bed.endpoints[0]
            .turn(Some(Duration::from_millis(20)), &mut ready)
            .unwrap();
        bed.turn(1);
        turns += 1;
        assert!(turns < 5_000);
    }
    let sender = bed.members[0];
    assert!(bed.courier(1).from(sender) == all);
    let sent = bed.endpoints[0].counters().sent;
    assert!(sent.blocked > 0, "{sent:?}");
    assert_eq!(sent.dropped_blocked, 0);
}
