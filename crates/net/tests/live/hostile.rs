//! Forged, replayed, damaged and foreign datagrams change counters only; nothing travels in clear.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use groupcast_core::node::{Recipient, Route};
use groupcast_core::wire::PREFIX_LEN;
use groupcast_core::{Destination, Rng, SocketClass};
use groupcast_net::{EndpointConfig, Key, Sealing};
use socket2::{Domain, Protocol, Socket, Type};

use crate::bed::{Bed, batch, open, random_group, random_listen, random_member, sealing};

/// Hears everything that is sent to the group.
struct Tap(Socket);

impl Tap {
    fn on(group: SocketAddrV4) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&group.into()).unwrap();
        socket
            .join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST)
            .unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        Self(socket)
    }

    fn captured(self) -> Vec<Vec<u8>> {
        let socket = UdpSocket::from(self.0);
        let mut room = vec![0; 65_536];
        std::iter::from_fn(|| {
            let len = socket.recv(&mut room).ok()?;
            Some(room[..len].to_vec())
        })
        .collect()
    }
}

/// Sends to the group from a loopback address that no member has.
fn stranger() -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    socket
        .bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into())
        .unwrap();
    socket.into()
}

/// What member 0 multicasts (20 datagrams of text), as heard on the wire; member 1 has received
/// them.
fn overheard(bed: &mut Bed) -> Vec<Vec<u8>> {
    let tap = Tap::on(bed.group());
    let text = |index| format!("the quick brown fox number {index:04}").into_bytes();
    bed.courier(0).send_data((0..20).map(text).collect());
    bed.settle();
    assert_eq!(bed.courier(1).inbox.len(), 20);
    let captured = tap.captured();
    assert_eq!(captured.len(), 20);
    captured
}

#[test]
fn the_wire_shows_no_plaintext() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    for datagram in overheard(&mut bed) {
        assert!(!datagram.windows(5).any(|window| window == b"quick"));
    }
}

#[test]
fn a_replay_is_refused_from_wherever_it_comes() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    let captured = overheard(&mut bed);
    let before = bed.endpoints[1].node().counters();
    let (stranger, group) = (stranger(), bed.group());
    for datagram in &captured {
        stranger.send_to(datagram, group).unwrap();
    }
    bed.settle();
    let after = bed.endpoints[1].node().counters();
    assert_eq!(bed.courier(1).inbox.len(), 20);
    assert_eq!(after.replayed, before.replayed + 20);
    assert_eq!(after.accepted, before.accepted);
}

#[test]
fn a_replay_to_a_restarted_member_is_refused() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    let captured = overheard(&mut bed);
    // A new life at a new address, and everything that was ever said before is said to it again.
    let config = EndpointConfig::multicast(random_listen(), bed.group());
    let member = random_member();
    bed.endpoints[1] = open(config, member, sealing()).unwrap();
    bed.members[1] = member;
    let (stranger, group) = (stranger(), bed.group());
    bed.endpoints.remove(0);
    for datagram in &captured {
        stranger.send_to(datagram, group).unwrap();
    }
    bed.settle();
    let counters = bed.endpoints[0].node().counters();
    assert_eq!(counters.unadmitted, 20);
    assert_eq!((counters.accepted, counters.admitted), (0, 0));
}

#[test]
fn what_is_for_one_member_is_refused_by_another() {
    let mut bed = Bed::multicast(3, |_, _| {}).introduced();
    let listen = |bed: &Bed, index: usize| bed.endpoints[index].config().listen;
    let [sender, addressee, _] = bed.members[..] else {
        panic!("three members");
    };
    // Sealed for member 1 and taken off the wire before it gets there.
    let to = Destination::Member(addressee);
    let body = b"the token".to_vec();
    bed.courier(0)
        .send(to, SocketClass::Control, vec![body.clone()]);
    let now = bed.endpoints[0].now();
    let node = bed.endpoints[0].node_mut();
    let mut buf = node.transmit_buf(1);
    let outgoing = node.poll_transmit(now, &mut buf).unwrap();
    let to_one = Recipient {
        address: listen(&bed, 1).into(),
        data_apart: false,
    };
    assert_eq!(outgoing.route, Route::Unicast(to_one));

    let before = bed.endpoints[2].node().counters();
    let stranger = stranger();
    for to in [listen(&bed, 2), bed.group()] {
        stranger.send_to(buf.as_bytes(), to).unwrap();
        bed.settle();
    }
    let after = bed.endpoints[2].node().counters();
    assert!(bed.courier(2).inbox.is_empty());
    assert_eq!(after.forged - before.forged, 2);
    assert_eq!(after.accepted, before.accepted);
    assert_eq!(after.sealed, before.sealed, "no answer");
    // The group's copy reached member 1 too: it is good there, wherever it comes from.
    assert_eq!(bed.courier(1).from(sender), [&body[..]]);
    assert_eq!(bed.endpoints[1].node().counters().forged, 0);
}

#[test]
fn every_kind_of_damage_is_refused() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    let captured = overheard(&mut bed);
    let before = bed.endpoints[1].node().counters();
    let (stranger, group) = (stranger(), bed.group());
    let whole = &captured[0];
    // A bit flipped anywhere from the sender's instance on: the seal does not fit.
    let bits = (PREFIX_LEN - 16) * 8..whole.len() * 8;
    let flipped = bits.len() as u64;
    for bit in bits {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        stranger.send_to(&damaged, group).unwrap();
    }
    bed.settle();
    let after = bed.endpoints[1].node().counters();
    assert_eq!(after.forged - before.forged, flipped);
    // Cut short anywhere.
    for len in 0..whole.len() {
        stranger.send_to(&whole[..len], group).unwrap();
    }
    bed.settle();
    let cut = bed.endpoints[1].node().counters();
    // A tag of 16 bytes and a channel of one are the least.
    let least = PREFIX_LEN + 16 + 1;
    assert_eq!(cut.malformed - after.malformed, least as u64);
    assert_eq!(cut.forged - after.forged, (whole.len() - least) as u64);
    assert_eq!(cut.unknown_channel, after.unknown_channel);
    assert_eq!(cut.accepted, before.accepted);
    assert_eq!(bed.courier(1).inbox.len(), 20);
}

#[test]
fn another_cluster_on_the_same_address_is_counted_as_such() {
    let group = random_group();
    let mut bed = Bed {
        endpoints: Vec::new(),
        members: Vec::new(),
    };
    let other_key = Key::from_bytes([3; 32]);
    for index in 0..3 {
        let member = random_member();
        let sealing = match index {
            0 => sealing(),
            1 => Sealing::Key(other_key.clone()),
            _ => Sealing::Insecure,
        };
        let config = EndpointConfig::multicast(random_listen(), group);
        bed.endpoints.push(open(config, member, sealing).unwrap());
        bed.members.push(member);
    }
    for index in 0..3 {
        bed.courier(index).send_data(batch(1, 4, 100));
    }
    bed.settle();
    for index in 0..3 {
        assert!(bed.courier(index).inbox.is_empty());
        let counters = bed.endpoints[index].node().counters();
        assert_eq!((counters.other_cluster, counters.forged), (8, 0));
    }
}

#[test]
fn members_without_a_key_understand_each_other() {
    let group = random_group();
    let mut bed = Bed {
        endpoints: Vec::new(),
        members: Vec::new(),
    };
    for _ in 0..2 {
        let member = random_member();
        let config = EndpointConfig::multicast(random_listen(), group);
        let endpoint = open(config, member, Sealing::Insecure).unwrap();
        bed.endpoints.push(endpoint);
        bed.members.push(member);
    }
    let mut bed = bed.introduced();
    let (sender, sent) = (bed.members[0], batch(1, 9, 500));
    bed.courier(0).send_data(sent.clone());
    bed.settle();
    assert_eq!(bed.courier(1).from(sender), sent);
}

#[test]
fn a_flood_on_every_port_changes_counters_only() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    let (stranger, group) = (stranger(), bed.group());
    let listen = bed.endpoints[1].config().listen;
    let mut prefix = overheard(&mut bed)[0][..PREFIX_LEN].to_vec();
    bed.courier(1).inbox.clear();
    let before = bed.endpoints[1].node().counters();
    let mut rng = Rng::new(79);
    let mut sent = 0;
    for _ in 0..1000 {
        for _ in 0..10 {
            let mut junk: Vec<u8> = (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect();
            if rng.chance(0.5) && junk.len() >= PREFIX_LEN {
                // The right cluster; a sender that does or does not exist.
                prefix[15] = rng.below(2) as u8;
                junk[..PREFIX_LEN].copy_from_slice(&prefix);
            }
            let to = if rng.chance(0.5) { group } else { listen };
            stranger.send_to(&junk, to).unwrap();
            sent += 1;
        }
        // The members' own traffic goes on.
        bed.courier(0).send_data(vec![b"still here".to_vec()]);
        bed.turn(0);
        bed.turn(1);
    }
    bed.settle();
    let after = bed.endpoints[1].node().counters();
    assert_eq!(bed.courier(1).inbox.len(), 1000);
    assert_eq!(after.accepted - before.accepted, 1000);
    assert_eq!(after.admitted, before.admitted);
    let refused = |counters: &groupcast_core::node::NodeCounters| {
        counters.malformed
            + counters.other_version
            + counters.other_cluster
            + counters.forged
            + counters.unexamined
            + counters.unknown_channel
    };
    assert_eq!(refused(&after) - refused(&before), sent);
}
