//! Goal: a member that polls on and on, and never comes to an end, stops the others for some
//! seconds and not for as long as it likes.
//! Method: the lowest member is real, then sends nothing but polls, each a new one; the others
//! publish, and how long they deliver nothing is measured.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Service, SocketClass, Time, Transmit};
use groupcast_protocols::rmp::FAMILY;
use groupcast_sim::ClusterConfig;

use super::{honest, poll};
use crate::insider::{Conduct, Group, Insider, group, works};

const HOSTS: usize = 5;
const BEGINS: Time = Time::from_millis(2_000);
const INTERVAL: Duration = Duration::from_millis(5);
/// No honest member has made this many attempts.
const ATTEMPTS: u64 = 1 << 40;

struct PollsOn {
    peers: Vec<MemberId>,
    next: Time,
    attempt: u64,
}

impl Conduct for PollsOn {
    fn note_heard(&mut self, from: MemberId, _body: &Bytes) {
        if !self.peers.contains(&from) {
            self.peers.push(from);
        }
    }

    fn instead(&mut self, now: Time, body: &[u8]) -> Vec<u8> {
        match now < BEGINS {
            true => body.to_vec(),
            // No message is of this kind.
            false => vec![0],
        }
    }

    fn invent(&mut self, now: Time) -> Vec<(Transmit, Vec<u8>)> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + INTERVAL;
        self.attempt += 1;
        let to_all = Transmit {
            destination: Destination::Group,
            class: SocketClass::Control,
        };
        vec![(to_all, poll(self.attempt, 1, &self.peers, &self.peers))]
    }

    fn due(&self) -> Option<Time> {
        Some(self.next)
    }
}

#[test]
fn a_member_that_polls_on_and_never_proposes_stops_the_others_for_some_seconds() {
    let config = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(HOSTS, 1)
    };
    let mut group: Group = group(config, 0, honest, |inner, _, _| {
        let conduct = PollsOn {
            peers: Vec::new(),
            next: BEGINS,
            attempt: ATTEMPTS,
        };
        Box::new(Insider::new(inner, conduct))
    });
    group.start_all();
    group.run_to(BEGINS);
    let (mut silent, mut longest) = (Duration::ZERO, Duration::ZERO);
    let (mut seen, mut silent_in_all) = (0, Duration::ZERO);
    let step = Duration::from_millis(50);
    for _ in 0..1_200 {
        // Refused where too much waits.
        let _ = group.submit(2, Service::Agreed, "a few words");
        group.run_for(step);
        let delivered = group.deliveries(3).len();
        silent = match delivered > seen {
            true => Duration::ZERO,
            false => silent + step,
        };
        if silent > Duration::ZERO {
            silent_in_all += step;
        }
        seen = delivered;
        longest = longest.max(silent);
    }
    println!("silent for {longest:?} at most, {silent_in_all:?} in all of a minute");
    assert!(longest < Duration::from_secs(7), "{longest:?}");
    assert!(silent_in_all < Duration::from_secs(20), "{silent_in_all:?}");
    group.crash(0);
    works(&mut group, "a member that polled on");
}
