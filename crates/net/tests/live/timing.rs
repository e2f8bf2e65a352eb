//! Timers finer than a millisecond, sleeping, waking, and gaps.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use groupcast_core::{Destination, SocketClass, Time};
use groupcast_net::Spin;
use mio::net::UnixStream;
use mio::{Interest, Token};

use crate::bed::{Bed, CHANNEL, Courier};

type Endpoint = groupcast_net::Endpoint<Courier>;

fn courier(endpoint: &mut Endpoint) -> &mut Courier {
    endpoint.node_mut().instance_mut(CHANNEL).unwrap()
}

#[test]
fn timers_are_finer_than_a_millisecond_and_never_early() {
    let mut bed = Bed::multicast(1, |_, config| config.spin = Spin::Off);
    let endpoint = &mut bed.endpoints[0];
    let mut ready = Vec::new();
    let mut least = Duration::MAX;
    for _ in 0..50 {
        let due = endpoint.now() + Duration::from_micros(300);
        courier(endpoint).due = Some(due);
        while courier(endpoint).due.is_some() {
            endpoint.turn(None, &mut ready).unwrap();
        }
        let (fired, _) = courier(endpoint).fired.pop().unwrap();
        assert!(fired >= due);
        least = least.min(fired - due);
    }
    // A wait in whole milliseconds would be 700 µs late every time.
    assert!(least < Duration::from_micros(600), "at best {least:?} late");
}

#[test]
fn an_idle_endpoint_sleeps() {
    let mut bed = Bed::multicast(1, |_, _| {});
    let mut ready = Vec::new();
    let start = Instant::now();
    let mut turns = 0;
    while start.elapsed() < Duration::from_millis(600) {
        bed.endpoints[0].turn(None, &mut ready).unwrap();
        turns += 1;
    }
    assert!(turns <= 6, "{turns} turns in 600 ms");
}

#[test]
fn a_datagram_wakes_a_sleeper() {
    let mut bed = Bed::multicast(2, |_, _| {}).introduced();
    let to = bed.endpoints[1].config().listen;
    let waker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(30));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"good morning", to).unwrap();
    });
    let before = bed.endpoints[1].node().counters().malformed;
    let start = Instant::now();
    while bed.endpoints[1].node().counters().malformed == before {
        bed.endpoints[1].turn(None, &mut Vec::new()).unwrap();
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    waker.join().unwrap();
}

/// A source of the caller's, with the token 7, and its other end.
fn source(endpoint: &Endpoint) -> (UnixStream, std::os::unix::net::UnixStream) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut ours = UnixStream::from_std(ours);
    endpoint
        .registry()
        .register(&mut ours, Token(7), Interest::READABLE)
        .unwrap();
    (ours, theirs)
}

/// Two members that do not spin. The first one sent the other a datagram of each class that is
/// named, and they are there.
fn with_datagrams(classes: &[SocketClass]) -> Bed {
    let mut bed = Bed::multicast(2, |_, config| config.spin = Spin::Off).introduced();
    // What the turns before left to be tried is read.
    bed.settle();
    let to = bed.members[1];
    for class in classes {
        let destination = match class {
            SocketClass::Data => Destination::Group,
            SocketClass::Control => Destination::Member(to),
        };
        bed.courier(0)
            .send(destination, *class, vec![b"news".to_vec()]);
    }
    bed.turn(0);
    bed
}

/// Longer than an endpoint sleeps at most.
const LONG: Duration = Duration::from_secs(3_600);

/// A turn of an endpoint with something to read from a source of its caller, whose protocol dozes
/// for `doze`; what is done to it before the turn is `prepare`. Afterwards the source is reported.
/// When the turn began and ended, and how many datagrams the protocol was given.
fn doze(
    classes: &[SocketClass],
    doze: Duration,
    prepare: impl Fn(&mut Endpoint),
) -> (Time, Time, usize) {
    let mut bed = with_datagrams(classes);
    let endpoint = &mut bed.endpoints[1];
    prepare(endpoint);
    let (_ours, mut theirs) = source(endpoint);
    theirs.write_all(b"x").unwrap();
    let begun = endpoint.now();
    courier(endpoint).dozes_until = Some(begun + doze);
    let mut ready = Vec::new();
    endpoint.turn(None, &mut ready).unwrap();
    assert_eq!(ready.len(), 1);
    (begun, endpoint.now(), courier(endpoint).inbox.len())
}

/// Without news an endpoint that dozes for long sleeps on for 250 ms. A busy machine may be as
/// slow, but not every time.
fn wakes_at_once(turn: impl Fn() -> (Time, Time, usize)) -> bool {
    (0..20).any(|_| {
        let (begun, ended, _) = turn();
        ended - begun < Duration::from_millis(200)
    })
}

#[test]
fn an_endpoint_that_dozes_wakes_when_that_ends_and_takes_what_came() {
    let length = Duration::from_millis(30);
    let (begun, ended, taken) = doze(&[SocketClass::Data], length, |_| {});
    assert!(ended >= begun + length, "it woke early");
    assert_eq!(taken, 1);
}

#[test]
fn an_endpoint_that_dozes_wakes_for_control_and_takes_everything() {
    assert!(wakes_at_once(|| {
        let came = [SocketClass::Data, SocketClass::Control];
        let (begun, ended, taken) = doze(&came, LONG, |_| {});
        assert_eq!(taken, 2);
        (begun, ended, taken)
    }));
}

#[test]
fn an_endpoint_that_may_not_doze_wakes_for_everything() {
    assert!(wakes_at_once(|| {
        doze(&[], LONG, |endpoint| endpoint.set_may_doze(false))
    }));
}

#[test]
fn an_endpoint_that_dozes_wakes_for_its_timer() {
    let mut bed = with_datagrams(&[]);
    let endpoint = &mut bed.endpoints[1];
    let due = endpoint.now() + Duration::from_millis(10);
    courier(endpoint).due = Some(due);
    courier(endpoint).dozes_until = Some(due + LONG);
    endpoint.turn(None, &mut Vec::new()).unwrap();
    assert_eq!(courier(endpoint).fired.len(), 1);
}

#[test]
fn a_source_of_the_caller_is_reported_with_its_token() {
    let mut bed = Bed::multicast(1, |_, _| {});
    let endpoint = &mut bed.endpoints[0];
    let (_ours, mut theirs) = source(endpoint);
    let mut ready = Vec::new();
    theirs.write_all(b"x").unwrap();
    endpoint.turn(None, &mut ready).unwrap();
    let [(token, readiness)] = ready[..] else {
        panic!("{ready:?}");
    };
    assert_eq!(token, Token(7));
    assert!(readiness.readable && !readiness.closed);
    drop(theirs);
    endpoint.turn(None, &mut ready).unwrap();
    assert!(
        ready
            .iter()
            .any(|(token, readiness)| *token == Token(7) && readiness.closed)
    );
}

#[test]
fn a_caller_with_work_left_does_not_wait() {
    let mut bed = Bed::multicast(1, |_, _| {});
    let start = Instant::now();
    for _ in 0..100 {
        bed.turn(0);
    }
    assert!(start.elapsed() < Duration::from_secs(2));
}

/// After a gap in which 20 tokens came and a timer was due: how many gaps were counted, and how
/// many tokens had been read whenever the timer fired.
fn after_a_gap() -> (u64, Vec<usize>) {
    let mut bed = Bed::multicast(2, |_, config| config.receive_max = 1).introduced();
    let member = Destination::Member(bed.members[1]);
    for _ in 0..20 {
        bed.courier(0)
            .send(member, SocketClass::Control, vec![b"token".to_vec()]);
    }
    bed.courier(1).due = Some(bed.endpoints[1].now() + Duration::from_millis(20));
    bed.turn(0);
    let before = bed.endpoints[1].counters().gaps;
    thread::sleep(Duration::from_millis(300));
    for _ in 0..40 {
        bed.turn(1);
    }
    let gaps = bed.endpoints[1].counters().gaps - before;
    let fired = bed.courier(1).fired.iter().map(|(_, read)| *read);
    (gaps, fired.collect())
}

/// A machine that is busy in the middle of it shows another gap, or runs the timer with a part of
/// the tokens read; but not every time.
#[test]
fn after_a_gap_what_has_arrived_is_read_before_timers_run_and_the_gap_is_counted() {
    assert!((0..20).any(|_| after_a_gap() == (1, vec![20])));
}

#[test]
fn timers_run_though_a_socket_never_empties() {
    let mut bed = Bed::multicast(1, |_, config| config.receive_max = 1);
    let listen = bed.endpoints[0].config().listen;
    bed.courier(0).due = Some(bed.endpoints[0].now());
    let flooder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    while bed.courier(0).fired.is_empty() {
        for _ in 0..3 {
            flooder.send_to(&[0; 40], listen).unwrap();
        }
        bed.turn(0);
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
