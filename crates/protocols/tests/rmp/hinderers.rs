//! Goal: members whose reformations one member hindered again and again go on soon after it is
//! gone: the time that others followed those that polled is not held against these.
//! Method: a member is real, but begins a poll that it does not go on with, and does not say that
//! it accepts what follows from that, but each second time; then it is gone.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, SocketClass, Time, Transmit};
use groupcast_protocols::rmp::FAMILY;
use groupcast_sim::ClusterConfig;

use super::{honest, poll};
use crate::insider::{Conduct, Group, Insider, group, works};

const HOSTS: usize = 5;
const BEGINS: Time = Time::from_millis(2_000);
const INTERVAL: Duration = Duration::from_millis(600);
const ACCEPT: u8 = 42;
/// No honest member has made so many attempts.
const ATTEMPTS: u64 = 1 << 40;

struct Hinders {
    peers: Vec<MemberId>,
    next: Time,
    attempt: u64,
    /// The configuration that it accepted, or did not, last.
    last: Vec<u8>,
    accepts: bool,
}

impl Conduct for Hinders {
    fn note_heard(&mut self, from: MemberId, _body: &Bytes) {
        if !self.peers.contains(&from) {
            self.peers.push(from);
        }
    }

    fn instead(&mut self, now: Time, body: &[u8]) -> Vec<u8> {
        if body[0] != ACCEPT || now < BEGINS {
            return body.to_vec();
        }
        if self.last != body[1..] {
            self.last = body[1..].to_vec();
            self.accepts = !self.accepts;
        }
        match self.accepts {
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
fn members_that_one_hindered_go_on_when_it_is_gone() {
    for seconds in [6, 24] {
        let config = ClusterConfig {
            contract: FAMILY.contract,
            ..ClusterConfig::new(HOSTS, 1)
        };
        let mut group: Group = group(config, HOSTS - 1, honest, |inner, _, _| {
            let conduct = Hinders {
                peers: Vec::new(),
                next: BEGINS,
                attempt: ATTEMPTS,
                last: Vec::new(),
                accepts: true,
            };
            Box::new(Insider::new(inner, conduct))
        });
        group.start_all();
        group.run_to(BEGINS);
        assert!(group.all_in_one_configuration());
        group.run_for(Duration::from_secs(seconds));
        group.crash(HOSTS - 1);
        works(&mut group, "a member that hindered the others");
    }
}
