//! Goal: what one member declares falsely while rings form is over when it is gone.
//! Method: a member that is real but for fields of the commit token; hosts crash and come back, so
//! that rings form; then it is gone, and the others must take messages of all services.

use std::time::Duration;

use groupcast_core::{Instrumented, MemberId, Rng, Service, SocketClass, Time};
use groupcast_protocols::ring::FAMILY;
use groupcast_sim::{Cluster, ClusterConfig};

use super::honest;
use crate::insider::liar::{Lie, each_is_over};
use crate::insider::mutating::is_outlived;
use crate::insider::{Conduct, Group, Insider};

const COMMIT: u8 = 11;
/// Bytes of what a commit token begins with, up to the members that have left.
const HEAD: usize = 1 + 8 + 24;
/// Where the ring's counter in it ends.
const COUNTER_END: usize = 1 + 8 + 8;
/// Bytes of a member of it, and where its fields begin.
const PART: usize = 16 + 8 + 1 + 2 + 24 + 24 + 16;
const ATTEMPT: usize = 16;
const FILLED: usize = 16 + 8;
const OLD_RING: usize = FILLED + 1 + 2;
const HIGH: usize = OLD_RING + 24 + 8;
/// Bytes of what the entry of an old ring begins with, up to its MaxN.
const RING: usize = 24;

/// The highest position that decodes.
const LAST: [u8; 8] = [0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff];
/// As many members as there are indices.
const ALL: [u8; 2] = [0, 128];

fn number(body: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([body[at], body[at + 1]]))
}

/// Where the declarations of a commit token begin, and its entries of old rings.
fn places(body: &[u8]) -> (Vec<usize>, Vec<usize>) {
    if body[0] != COMMIT {
        return (Vec::new(), Vec::new());
    }
    let members = HEAD + 2 + 16 * number(body, HEAD);
    let first = members + 2;
    let parts = (0..number(body, members)).map(|it| first + PART * it);
    let parts: Vec<usize> = parts.collect();
    let mut at = first + PART * parts.len();
    let filled = parts.into_iter().filter(|it| body[it + FILLED] == 1);
    let filled = filled.collect();
    let mut old = Vec::new();
    if at < body.len() {
        let count = number(body, at);
        at += 2;
        for _ in 0..count {
            old.push(at);
            at += RING + 2 + 2 + 8 * number(body, at + RING + 2);
        }
    }
    (filled, old)
}

fn write(body: &mut [u8], at: usize, value: &[u8]) {
    body[at..at + value.len()].copy_from_slice(value);
}

#[test]
fn a_false_max_n_is_over_when_its_teller_is_gone() {
    let lies: &[(&str, Lie)] = &[
        ("of every old ring", |body| {
            for at in places(body).1 {
                write(body, at + RING, &ALL);
            }
        }),
        ("of a ring that is not", |body| {
            for at in places(body).1 {
                write(body, at, &7_u64.to_be_bytes());
                write(body, at + RING, &ALL);
            }
        }),
        ("of a ring that all come from, it says", |body| {
            let (parts, old) = places(body);
            for at in parts.into_iter().map(|it| it + OLD_RING).chain(old.clone()) {
                write(body, at, &7_u64.to_be_bytes());
            }
            for at in old {
                write(body, at + RING, &ALL);
            }
        }),
    ];
    each_is_over(honest, FAMILY.contract, lies);
}

#[test]
fn a_false_position_is_over_when_its_teller_is_gone() {
    let lies: &[(&str, Lie)] = &[
        ("of the last to declare", |body| {
            if let Some(at) = places(body).0.last() {
                write(body, at + HIGH, &LAST);
            }
        }),
        ("of all", |body| {
            for at in places(body).0 {
                write(body, at + HIGH, &LAST);
            }
        }),
    ];
    each_is_over(honest, FAMILY.contract, lies);
}

#[test]
fn a_false_attempt_is_over_when_its_teller_is_gone() {
    // Of each second ring only: who refuses two in a row is given up, and that lasts.
    let lies: &[(&str, Lie)] = &[("of the last member", |body| {
        if body[0] == COMMIT && body[COUNTER_END - 1] % 2 == 0 {
            let members = HEAD + 2 + 16 * number(body, HEAD);
            let last = number(body, members) - 1;
            write(body, members + 2 + PART * last + ATTEMPT, &[u8::MAX; 8]);
        }
    })];
    each_is_over(honest, FAMILY.contract, lies);
}

/// The kinds of the ring's messages; those of data have flags besides.
const KINDS: [u8; 10] = [1, 2, 6, 7, 8, 10, 11, 12, 13, 14];

#[test]
fn nothing_that_one_member_sends_keeps_the_others_apart_when_it_is_gone() {
    for kind in KINDS {
        (0..2).for_each(|seed| is_outlived(honest, kind..=kind, seed));
    }
    for seed in 0..12 {
        is_outlived(honest, 0..=255, seed);
        is_outlived(honest, 11..=11, seed);
    }
}

/// It had left the ring, and its false tokens claimed for that what nobody had sent.
#[test]
fn a_stranger_steers_no_ring() {
    for seed in [149, 151] {
        is_outlived(honest, 0..=255, seed);
    }
}

const JOIN: u8 = 10;
/// In the kind of a data packet: it is recovered. Where the index of its old origin is, with a flag
/// for a part, and what follows it.
const RECOVERED: u8 = 2 << 4;
const OLD_ORIGIN: usize = 23;
const A_PART: u8 = 0x80;
/// Bytes of records in a packet of the preset.
const RECORDS: usize = 1_431 - 17 - 7;

/// Of each packet that it recovers it sends the first part and no other.
struct FirstParts {
    fits: bool,
}

impl Conduct for FirstParts {
    fn instead(&mut self, _now: Time, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        if body[0] & 0x0f != 1 || body[0] & RECOVERED == 0 {
            return body;
        }
        // Padding is at the end, which is no more.
        body[0] &= !(8 << 4);
        body[OLD_ORIGIN] |= A_PART;
        body.resize(OLD_ORIGIN + 1 + RECORDS - 4 - usize::from(!self.fits), 7);
        let place = [0, (2 * RECORDS) as u16].map(u16::to_be_bytes).concat();
        body.splice(OLD_ORIGIN + 1..OLD_ORIGIN + 1, place);
        body
    }
}

/// A ring breaks while one member lacks much, and the lowest one recovers it only in part. Who
/// lacks it installs no ring before it has all, which the other one that holds it sends.
#[test]
fn who_sends_only_the_first_part_of_what_it_recovers_makes_nobody_deliver_less_or_later() {
    for (fits, seed) in [(true, 95), (false, 96), (true, 97), (false, 98)] {
        let factory = move |member: MemberId, rng: Rng, now| {
            let inner = honest(member, rng, now);
            match member.node.0 {
                1 => Box::new(Insider::new(inner, FirstParts { fits })),
                _ => inner,
            }
        };
        let mut group: Group = Cluster::new(ClusterConfig::new(4, seed), factory);
        group.start_all();
        let whole = Group::all_in_one_configuration;
        group.must("one ring", whole, Duration::from_secs(2));
        // Host 2 hears no data: nothing becomes safe, and there is much to recover.
        group.drop_all(|info| {
            info.to == 2 && info.class == SocketClass::Data && info.bytes.len() > 1_000
        });
        for _ in 0..5 {
            for host in 0..2 {
                let submitted = group.submit(host, Service::Agreed, vec![host as u8; 20_000]);
                submitted.expect("there is room");
            }
        }
        group.run_for(Duration::from_millis(10));
        group.crash(3);
        let seen = group.transitions().len();
        let forms = |group: &Group| {
            let mut since = group.transitions()[seen..].iter();
            since.any(|it| it.transition.to == "commit")
        };
        group.must("a ring forms", forms, Duration::from_secs(2));
        group.heal();
        let three = |group: &Group| {
            let of = |host| group.current_configuration(host);
            of(1).is_some_and(|it| it.members.len() == 3) && of(1) == of(2)
        };
        group.must("the three are together", three, Duration::from_secs(1));
        group.run_for(Duration::from_millis(100));
        assert_eq!(group.deliveries(2).len(), 10);
        group.crash(0);
        let pair = |group: &Group| {
            let of = |host| group.current_configuration(host);
            of(1).is_some_and(|it| it.members.len() == 2) && of(1) == of(2)
        };
        group.must("the others are together", pair, Duration::from_secs(5));
        assert_eq!(group.deliveries(1).len(), group.deliveries(2).len());
        assert_eq!(group.deliveries(1).len(), 10);
        group.check();
    }
}

/// Bytes of what a join begins with, up to its lists.
const JOIN_HEAD: usize = 1 + 1 + 8 + 8;

/// The list of members at `at`, and where what follows it begins.
fn list(body: &[u8], at: usize) -> (&[u8], usize) {
    let end = at + 2 + 16 * number(body, at);
    (&body[at..end], end)
}

/// Says of all that are given up that they have left.
#[derive(Default)]
struct Farewells {
    given_up: Vec<u8>,
}

impl Conduct for Farewells {
    fn instead(&mut self, _now: Time, body: &[u8]) -> Vec<u8> {
        let (kept, rest) = match body[0] {
            JOIN => {
                let (_, fail) = list(body, JOIN_HEAD);
                let (given_up, left) = list(body, fail);
                self.given_up = given_up.to_vec();
                (left, list(body, left).1)
            }
            COMMIT if !self.given_up.is_empty() => (HEAD, list(body, HEAD).1),
            _ => return body.to_vec(),
        };
        [&body[..kept], &self.given_up, &body[rest..]].concat()
    }
}

/// Of a ring of five two are cut off, of which one says that the other three have left. They are
/// no majority: the three are one.
#[test]
fn who_says_that_others_have_left_makes_no_majority() {
    for liar in [0, 1] {
        let build = move |member: MemberId, rng: Rng, now| -> Box<dyn Instrumented> {
            let inner = honest(member, rng, now);
            match member.node.0 as usize == liar + 1 {
                true => Box::new(Insider::new(inner, Farewells::default())),
                false => inner,
            }
        };
        let mut group: Group = Cluster::started(ClusterConfig::new(5, 80), build);
        let whole = Cluster::all_in_one_configuration;
        group.must("one ring", whole, Duration::from_secs(2));
        group.partition(&[&[0, 1], &[2, 3, 4]]);
        group.run_for(Duration::from_secs(2));
        let mut delivered = |host: usize| {
            let submitted = group.submit(host, Service::Majority, "of five");
            group.run_for(Duration::from_secs(1));
            submitted.is_ok_and(|id| group.has_delivered(host, id))
        };
        assert!(!delivered(1 - liar), "liar {liar}");
        assert!(delivered(2) && delivered(4));
    }
}
