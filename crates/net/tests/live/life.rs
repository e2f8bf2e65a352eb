//! Opening, refusing to open, partitions by filter, full receive buffers, the probe.

use std::net::Ipv4Addr;

use groupcast_net::{EndpointConfig, NetError, probe_multicast};

use crate::bed::{Bed, Courier, batch, open, random_group, random_listen, random_member, sealing};

fn refusal(config: EndpointConfig) -> NetError {
    let member = random_member();
    match open(config, member, sealing()) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

#[test]
fn what_cannot_be_opened_is_refused_with_a_remedy() {
    let bed = Bed::mesh(1, |_, _| {});
    let taken = bed.endpoints[0].config().listen;
    let error = refusal(EndpointConfig::multicast(taken, random_group()));
    assert!(matches!(error, NetError::InUse { address } if address == taken));
    assert!(error.to_string().contains(&taken.to_string()));

    // The port before: its data port is taken.
    let mut before = taken;
    before.set_port(taken.port() - 1);
    let error = refusal(EndpointConfig::mesh(before, vec![]));
    assert!(matches!(error, NetError::InUse { address } if address == taken));

    let elsewhere = "203.0.113.77:4803".parse().unwrap();
    let error = refusal(EndpointConfig::multicast(elsewhere, random_group()));
    assert!(matches!(error, NetError::NotLocal { .. }));
    assert!(error.to_string().contains("ip -4 address"), "{error}");
}

#[test]
fn several_members_of_one_host_share_the_group_address() {
    let group = random_group();
    let _members: Vec<groupcast_net::Endpoint<Courier>> = (0..8)
        .map(|_| {
            let member = random_member();
            let config = EndpointConfig::multicast(random_listen(), group);
            open(config, member, sealing()).unwrap()
        })
        .collect();
}

#[test]
fn a_filter_cuts_members_off_and_heals() {
    let mut bed = Bed::multicast(3, |_, _| {}).introduced();
    let cut_off = bed.endpoints[0].config().listen;
    let keep = move |from: std::net::SocketAddr| from != cut_off.into();
    bed.endpoints[2].set_filter(Some(Box::new(keep)));
    bed.courier(0).send_data(batch(1, 5, 100));
    bed.courier(1).send_data(batch(2, 5, 100));
    bed.settle();
    assert_eq!(bed.courier(1).inbox.len(), 5);
    let (member, other) = (bed.members[0], bed.members[1]);
    assert!(bed.courier(2).from(member).is_empty());
    assert_eq!(bed.courier(2).from(other).len(), 5);
    assert_eq!(bed.endpoints[2].counters().data.filtered, 5);

    bed.endpoints[2].set_filter(None);
    bed.courier(0).send_data(batch(3, 5, 100));
    bed.settle();
    assert_eq!(bed.courier(2).from(member), batch(3, 5, 100));
}

#[test]
fn what_the_kernel_drops_at_a_full_buffer_is_counted() {
    let small = |index: usize, config: &mut EndpointConfig| {
        config.offload = false;
        if index == 1 {
            config.receive_buffer = 16 << 10;
        }
    };
    let mut bed = Bed::multicast(2, small).introduced();
    for seed in 0..10 {
        bed.courier(0).send_data(batch(seed, 40, 1350));
    }
    bed.turn(0);
    bed.settle();
    let arrived = bed.courier(1).inbox.len() as u64;
    let dropped = bed.endpoints[1].counters().data.kernel_drops;
    assert!(dropped > 0 && arrived > 0);
    assert_eq!(arrived + dropped, 400);
    assert_eq!(bed.endpoints[0].counters().data.kernel_drops, 0);
}

#[test]
fn the_probe_tells_whether_multicast_works() {
    assert!(probe_multicast(Ipv4Addr::LOCALHOST, *random_group().ip()));
    let elsewhere = Ipv4Addr::new(203, 0, 113, 77);
    assert!(!probe_multicast(elsewhere, *random_group().ip()));
}

#[test]
fn the_largest_unfragmented_datagram_is_known() {
    let bed = Bed::multicast(1, |_, _| {});
    assert_eq!(bed.endpoints[0].datagram_max(), Some(65_507));
}
