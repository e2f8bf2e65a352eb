//! What strangers may cost: how many of their datagrams are opened, and how many are answered.
//!
//! Opening the first datagram of a sender derives a key, an answer is sealed and sent. Both are
//! limited a second in all, and shared out, so that a flood takes the part of others as little as
//! possible: openings by the source's address, answers by the sender. The shares lie in tables of
//! fixed size, at places that a secret decides: there is nothing to fill, and nobody can choose
//! whom to share a place with.

use alloc::boxed::Box;
use alloc::vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::admission::AdmissionConfig;
use crate::id::{Incarnation, fnv1a};
use crate::mech::allowance::Allowance;
use crate::rng::Rng;
use crate::time::Time;

/// The limits of one node.
pub(super) struct Limits {
    secret: Rng,
    openings: Allowance,
    openings_of_source: Box<[Allowance]>,
    answers: Allowance,
    challenges: Paces,
    echoes: Paces,
}

impl Limits {
    const SOURCES: usize = 64;
    /// The part of a second's openings and answers that may be taken at once.
    const BURST: u32 = 4;

    pub(super) fn new(secret: Rng, config: &AdmissionConfig) -> Self {
        let allowance = |rate: u32| Allowance::per_second(rate, rate.div_ceil(Self::BURST));
        let first = config.challenge_interval;
        Self {
            openings: allowance(config.openings_max),
            openings_of_source: vec![allowance(config.source_openings_max); Self::SOURCES].into(),
            answers: allowance(config.answers_max),
            challenges: Paces::new(secret.fork("challenges"), first, config.peers_max),
            echoes: Paces::new(secret.fork("echoes"), first, config.peers_max),
            secret,
        }
    }

    /// Whether a datagram from `source` may be opened that costs a key.
    pub(super) fn may_open(&mut self, now: Time, source: SocketAddr) -> bool {
        let hash = match source.ip() {
            IpAddr::V4(ip) => fnv1a(&ip.octets()),
            IpAddr::V6(ip) => fnv1a(&ip.octets()),
        };
        let place = self.secret.fork_index(hash).below(Self::SOURCES as u64) as usize;
        self.openings_of_source[place].take(now) && self.openings.take(now)
    }

    /// Whether `sender`, which said something, may be challenged. `span` is that of the cookies.
    pub(super) fn may_challenge(&mut self, now: Time, span: u64, sender: Incarnation) -> bool {
        self.challenges.take(now, span, sender) && self.answers.take(now)
    }

    /// Whether `sender`, which challenged us and has proved nothing, may be answered.
    pub(super) fn may_echo(&mut self, now: Time, span: u64, sender: Incarnation) -> bool {
        self.echoes.take(now, span, sender) && self.answers.take(now)
    }
}

/// How often each sender is answered: less and less often, until the next span.
struct Paces {
    secret: Rng,
    first: Duration,
    paces: Box<[Pace]>,
}

#[derive(Clone, Copy)]
struct Pace {
    span: u64,
    next: Time,
    pause: Duration,
}

impl Paces {
    /// Places at least.
    const SENDERS: usize = 512;
    /// Nobody waits longer.
    const PAUSE_MAX: Duration = Duration::from_secs(3_600);

    /// Twice as many places as there are peers: where all of a large group come at once, few share
    /// a place, and nobody waits for many others.
    fn new(secret: Rng, first: Duration, peers_max: usize) -> Self {
        let first = first.min(Self::PAUSE_MAX);
        let pace = Pace {
            span: 0,
            next: Time::ZERO,
            pause: first,
        };
        Self {
            secret,
            first,
            paces: vec![pace; Self::SENDERS.max(peers_max.saturating_mul(2))].into(),
        }
    }

    fn take(&mut self, now: Time, span: u64, sender: Incarnation) -> bool {
        // Which senders share a place changes with every span.
        let mut place = self.secret.fork_index(span).fork_index(sender.0);
        let places = self.paces.len() as u64;
        let pace = &mut self.paces[place.below(places) as usize];
        if pace.span != span {
            *pace = Pace {
                span,
                next: now,
                pause: self.first,
            };
        }
        let due = now >= pace.next;
        if due {
            pace.next = now + pace.pause;
            pace.pause = (pace.pause * 2).min(Self::PAUSE_MAX);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits::new(Rng::new(1), &AdmissionConfig::default())
    }

    fn source(ip: u32) -> SocketAddr {
        SocketAddr::from((ip.to_be_bytes(), 7000))
    }

    #[test]
    fn a_flood_from_one_address_leaves_the_others_their_openings() {
        let mut limits = limits();
        let mut opened = [0, 0];
        // A million a second from one, a hundred a second from another.
        for micros in 0..200_000 {
            let now = Time::from_nanos(micros * 1_000);
            opened[0] += u32::from(limits.may_open(now, source(1)));
            if micros.is_multiple_of(10_000) {
                opened[1] += u32::from(limits.may_open(now, source(2)));
            }
        }
        let config = AdmissionConfig::default();
        let most = config.source_openings_max;
        assert!((most / 4..=most).contains(&opened[0]), "{opened:?}");
        assert_eq!(opened[1], 20);
    }

    #[test]
    fn a_flood_from_forged_addresses_is_bounded_in_all() {
        let mut limits = limits();
        let tries = (0..1_000_000u32).map(|micros| {
            let now = Time::from_nanos(u64::from(micros) * 1_000);
            limits.may_open(now, source(micros.wrapping_mul(2_654_435_761)))
        });
        let opened = tries.filter(|opened| *opened).count() as u32;
        let config = AdmissionConfig::default();
        let most = config.openings_max * 5 / 4 + 1;
        assert!((config.openings_max..=most).contains(&opened), "{opened}");
    }

    #[test]
    fn one_sender_is_answered_less_and_less_often_and_the_next_span_begins_anew() {
        let mut limits = limits();
        let mut answers = |span: u64, millis: core::ops::Range<u64>| {
            let asked = millis.filter(|now| {
                let now = Time::from_millis(*now);
                limits.may_challenge(now, span, Incarnation(9))
            });
            asked.collect::<vec::Vec<u64>>()
        };
        assert_eq!(answers(0, 0..1_000), [0, 5, 15, 35, 75, 155, 315, 635]);
        assert_eq!(answers(1, 1_000..1_010), [1_000, 1_005]);
    }

    /// Each of them is challenged and answered once: the pace of a sender bounds none of them.
    #[test]
    fn however_many_lives_there_are_they_are_answered_at_a_bounded_rate() {
        let config = AdmissionConfig {
            peers_max: 20_000,
            ..AdmissionConfig::default()
        };
        let mut limits = Limits::new(Rng::new(1), &config);
        let mut answers = 0;
        for life in 0..20_000 {
            let now = Time::from_nanos(life * 50_000);
            answers += u32::from(limits.may_challenge(now, 0, Incarnation(life)));
            answers += u32::from(limits.may_echo(now, 0, Incarnation(life)));
        }
        let most = config.answers_max * 5 / 4 + 1;
        assert!((config.answers_max..=most).contains(&answers), "{answers}");
    }

    #[test]
    fn a_large_group_that_comes_at_once_is_answered_within_a_third_of_a_second() {
        for seed in 0..20 {
            let config = AdmissionConfig {
                peers_max: 1_000,
                ..AdmissionConfig::default()
            };
            let mut limits = Limits::new(Rng::new(seed), &config);
            let mut waiting: vec::Vec<u64> = (0..1_000).collect();
            for now in (0..=315).map(Time::from_millis) {
                waiting.retain(|it| !limits.may_echo(now, 0, Incarnation(*it)));
            }
            assert!(waiting.is_empty(), "seed {seed}: {waiting:?}");
        }
    }

    #[test]
    fn a_challenge_does_not_cost_the_echo_that_may_follow_at_once() {
        let mut limits = limits();
        assert!(limits.may_challenge(Time::ZERO, 0, Incarnation(9)));
        assert!(!limits.may_challenge(Time::ZERO, 0, Incarnation(9)));
        assert!(limits.may_echo(Time::ZERO, 0, Incarnation(9)));
    }
}
