//! Which socket is read first, and for how long (002 III-C).

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use groupcast_core::{Destination, SocketClass};

use crate::bed::{Bed, batch};

/// Member 0 has ten batches of data and, behind them, a token for member 1, all sent before member
/// 1 reads anything. Where the token comes in member 1's inbox, if it reads `first` first.
fn place_of_the_token(first: SocketClass) -> usize {
    let mut bed = Bed::multicast(2, |_, config| config.receive_max = 100_000).introduced();
    let token = Destination::Member(bed.members[1]);
    bed.courier(1).first = first;
    for seed in 0..10 {
        bed.courier(0).send_data(batch(seed, 30, 1000));
    }
    bed.courier(0)
        .send(token, SocketClass::Control, vec![b"token".to_vec()]);
    bed.turn(0);
    bed.turn(1);
    let inbox = &bed.courier(1).inbox;
    assert_eq!(inbox.len(), 301, "one turn reads all");
    inbox.iter().position(|(_, body)| body == "token").unwrap()
}

#[test]
fn with_the_token_first_it_overtakes_the_data() {
    assert_eq!(place_of_the_token(SocketClass::Control), 0);
}

#[test]
fn with_the_data_first_all_of_it_is_read_before_the_token() {
    assert_eq!(place_of_the_token(SocketClass::Data), 300);
}

/// Five turns with more to read than they may: how long they take.
fn five_turns() -> Duration {
    let mut bed = Bed::multicast(2, |_, config| config.receive_max = 60).introduced();
    for seed in 0..10 {
        bed.courier(0).send_data(batch(seed, 30, 1000));
    }
    bed.turn(0);
    let mut ready = Vec::new();
    let start = Instant::now();
    for turn in 1..=5 {
        bed.endpoints[1].turn(None, &mut ready).unwrap();
        let len = bed.courier(1).inbox.len();
        assert!(len <= turn * 90, "{len} after {turn} turns");
    }
    let took = start.elapsed();
    bed.settle();
    assert_eq!(bed.courier(1).inbox.len(), 300);
    took
}

/// Four waits would be a second. A busy machine may be as slow, but not every time.
#[test]
fn a_turn_is_bounded_and_the_next_goes_on_without_waiting() {
    assert!((0..20).any(|_| five_turns() < Duration::from_millis(500)));
}

#[test]
fn junk_on_the_preferred_socket_does_not_starve_the_other() {
    let mut bed = Bed::multicast(2, |_, config| config.receive_max = 100).introduced();
    let listen = bed.endpoints[1].config().listen;
    let flooder = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..400 {
        flooder.send_to(&[0x5a; 100], listen).unwrap();
    }
    bed.courier(0).send_data(batch(1, 30, 1000));
    bed.turn(0);
    bed.turn(1);
    assert_eq!(bed.courier(1).inbox.len(), 30, "read within one short turn");
    assert!(bed.endpoints[1].node().counters().malformed < 400);
}
