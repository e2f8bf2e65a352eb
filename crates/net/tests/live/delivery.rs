//! Everybody gets every datagram once, bit by bit, by multicast and in a mesh, with and without
//! offload.

use groupcast_core::{Destination, SocketClass};
use groupcast_net::{Endpoint, EndpointConfig};

use crate::bed::{Bed, Courier, batch};

/// Every member sends `rounds` batches of `count` datagrams of `len` bytes to the group; all must
/// arrive, in order.
fn everybody_to_everybody(bed: &mut Bed, rounds: u64, count: usize, len: usize) {
    let members = bed.members.clone();
    let sent: Vec<Vec<Vec<u8>>> = (0..members.len() as u64)
        .map(|member| {
            (0..rounds)
                .flat_map(|round| batch(member << 32 | round, count, len))
                .collect()
        })
        .collect();
    for (index, datagrams) in sent.iter().enumerate() {
        for round in datagrams.chunks(count) {
            bed.courier(index).send_data(round.to_vec());
        }
    }
    let expected = (members.len() - 1) * rounds as usize * count;
    bed.drive(|bed| (0..members.len()).all(|index| bed.courier(index).inbox.len() >= expected));
    bed.settle();
    for receiver in 0..members.len() {
        for (sender, datagrams) in sent.iter().enumerate() {
            let got = bed.courier(receiver).from(members[sender]);
            if sender == receiver {
                assert!(got.is_empty(), "nobody hears itself");
            } else {
                assert!(got == *datagrams, "from {sender} to {receiver}");
            }
        }
    }
}

#[test]
fn multicast_with_offload() {
    let mut bed = Bed::multicast(4, |_, _| {}).introduced();
    everybody_to_everybody(&mut bed, 8, 40, 1350);
    for endpoint in &mut bed.endpoints {
        let counters = endpoint.counters();
        assert!(counters.sent.segmented >= 8, "{counters:?}");
        assert_eq!(counters.sent.offload_refused, 0);
        assert!(counters.data.coalesced >= 24, "{counters:?}");
        assert_eq!(counters.data.kernel_drops, 0);
        assert!(endpoint.node().counters().own >= 320);
        assert_eq!(endpoint.node().counters().forged, 0);
    }
}

#[test]
fn multicast_without_offload() {
    let off = |_: usize, config: &mut EndpointConfig| config.offload = false;
    let mut bed = Bed::multicast(3, off).introduced();
    everybody_to_everybody(&mut bed, 8, 40, 1350);
    for endpoint in &mut bed.endpoints {
        let counters = endpoint.counters();
        assert_eq!((counters.sent.segmented, counters.data.coalesced), (0, 0));
        assert!(counters.sent.datagrams >= 320 && counters.sent.calls < 320);
    }
}

#[test]
fn members_with_and_without_offload_understand_each_other() {
    let mixed = |index: usize, config: &mut EndpointConfig| config.offload = index == 0;
    let mut bed = Bed::multicast(3, mixed).introduced();
    everybody_to_everybody(&mut bed, 4, 16, 1350);
}

#[test]
fn large_datagrams() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    everybody_to_everybody(&mut bed, 3, 7, 8850);
    everybody_to_everybody_once(&mut bed, 60_000);
}

/// One datagram of `len` bytes from each to the group, and one to the other by name.
fn everybody_to_everybody_once(bed: &mut Bed, len: usize) {
    let members = bed.members.clone();
    for index in 0..2 {
        bed.courier(index).inbox.clear();
        let other = Destination::Member(members[1 - index]);
        let body = || vec![vec![index as u8; len]];
        bed.courier(index).send_data(body());
        bed.courier(index).send(other, SocketClass::Control, body());
    }
    bed.drive(|bed| (0..2).all(|index| bed.courier(index).inbox.len() == 2));
    for index in 0..2 {
        let whole = vec![1 - index as u8; len];
        assert_eq!(
            bed.courier(index).from(members[1 - index]),
            [&whole, &whole]
        );
    }
}

#[test]
fn a_mesh_sends_each_a_copy_and_keeps_the_classes_apart() {
    let mut bed = Bed::mesh(4, |_, _| {}).introduced();
    let before: Vec<_> = bed.endpoints.iter_mut().map(Endpoint::counters).collect();
    everybody_to_everybody(&mut bed, 4, 20, 1350);
    for (endpoint, before) in bed.endpoints.iter_mut().zip(&before) {
        let counters = endpoint.counters();
        assert_eq!(counters.data.datagrams - before.data.datagrams, 240);
        assert_eq!(counters.control.datagrams, before.control.datagrams);
        assert_eq!(endpoint.node().counters().own, 0, "no copy for itself");
    }
    bed.courier(0)
        .send(Destination::Group, SocketClass::Control, vec![vec![7; 9]]);
    bed.settle();
    for (endpoint, before) in bed.endpoints[1..].iter_mut().zip(&before[1..]) {
        let counters = endpoint.counters();
        assert_eq!(counters.control.datagrams, before.control.datagrams + 1);
    }
}

#[test]
fn members_with_and_without_multicast_are_one_group() {
    let mut bed = Bed::mixed(3, 2).introduced();
    let replayed = |endpoint: &Endpoint<Courier>| endpoint.node().counters().replayed;
    let counted = |endpoint: &mut Endpoint<Courier>| (endpoint.counters(), replayed(endpoint));
    let before: Vec<_> = bed.endpoints.iter_mut().map(counted).collect();
    everybody_to_everybody(&mut bed, 4, 20, 1350);
    for (index, (before, replays)) in before.iter().enumerate() {
        let endpoint = &mut bed.endpoints[index];
        let counters = endpoint.counters();
        let copies = counters.sent.copies - before.sent.copies;
        let sent = counters.sent.datagrams - before.sent.datagrams;
        let data = counters.data.datagrams - before.data.datagrams;
        let control = counters.control.datagrams - before.control.datagrams;
        match index < 3 {
            // Its own multicasts come back; what members without multicast send comes by the other
            // socket.
            true => assert_eq!((sent, copies, data, control), (240, 160, 240, 160)),
            false => assert_eq!((sent, copies, data, control), (320, 320, 320, 0)),
        }
        assert_eq!(replayed(endpoint), *replays, "each once");
    }
}

#[test]
fn in_a_mesh_a_peer_that_was_not_configured_makes_itself_known() {
    // The first member knows no other; the other two know the first.
    let mut bed = Bed::mesh(3, |index, config| {
        if let groupcast_net::Group::Mesh(peers) = &mut config.group {
            peers.truncate(usize::from(index > 0));
        }
    });
    bed.drive(|bed| {
        for index in 1..3 {
            bed.courier(index).send_data(vec![b"hello".to_vec()]);
        }
        bed.endpoints[0].node().peers().count() == 2
    });
    bed.settle();
    bed.courier(0).send_data(vec![b"welcome".to_vec()]);
    bed.settle();
    let first = bed.members[0];
    for index in 1..3 {
        assert_eq!(bed.courier(index).from(first), [b"welcome"]);
    }
}

#[test]
fn a_member_that_does_not_listen_is_not_in_the_group_and_comes_back() {
    let mut bed = Bed::multicast(3, |_, _| {}).introduced();
    let sender = bed.members[0];
    let got = |bed: &mut Bed, index: usize| bed.courier(index).from(sender).len();
    // Whether member 1 is in the group, and what it has then of a multicast and of what is sent to
    // it alone.
    for (listens, expected) in [(false, 1), (true, 3), (false, 4), (true, 6)] {
        bed.courier(1).listens = listens;
        bed.turn(1);
        bed.courier(0).send_data(vec![b"to all".to_vec()]);
        let only = Destination::Member(bed.members[1]);
        bed.courier(0)
            .send(only, SocketClass::Control, vec![b"to one".to_vec()]);
        let before = got(&mut bed, 2);
        bed.drive(|bed| got(bed, 2) > before && got(bed, 1) >= expected);
        bed.settle();
        assert_eq!(got(&mut bed, 1), expected, "listens: {listens}");
    }
}
