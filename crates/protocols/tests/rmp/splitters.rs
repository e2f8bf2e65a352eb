//! Goal: members that one member took apart, each into a configuration with itself alone, come
//! together soon after it is gone.
//! Method: a member is real, then polls each of the others for all of them, and proposes to each
//! one a configuration of the two, several times in a row; then it is gone.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Ordered as _, SocketClass, Time, Transmit};
use groupcast_protocols::rmp::FAMILY;
use groupcast_sim::ClusterConfig;

use super::{honest, poll, put_member};
use crate::insider::{Conduct, Group, Insider, group, works};

const HOSTS: usize = 5;
const BEGINS: Time = Time::from_millis(2_000);
/// It splits the group again after this: longer than the shortest quarantine.
const INTERVAL: Duration = Duration::from_millis(350);
const TICK: Duration = Duration::from_millis(1);
/// No honest member has made so many attempts.
const ATTEMPTS: u64 = 1 << 40;

struct Splits {
    local: MemberId,
    peers: Vec<MemberId>,
    tick: Time,
    next: Time,
    attempt: u64,
    counter: u64,
    outgoing: VecDeque<(Transmit, Vec<u8>)>,
}

impl Splits {
    fn says(&mut self, to: MemberId, body: Vec<u8>) {
        let transmit = Transmit {
            destination: Destination::Member(to),
            class: SocketClass::Control,
        };
        self.outgoing.push_back((transmit, body));
    }

    /// A poll for all that were heard, who are all heard, as it says.
    fn poll(&self) -> Vec<u8> {
        let all: Vec<MemberId> = self.peers.iter().copied().chain([self.local]).collect();
        poll(self.attempt, self.counter, &all, &self.peers)
    }

    /// A configuration of this member and the one that has given this answer.
    fn proposal(&self, to: MemberId, answer: &[u8]) -> Vec<u8> {
        let (body_max, from, high) = (&answer[33..35], &answer[35..59], &answer[65..71]);
        let mut body = vec![41];
        body.extend(self.attempt.to_be_bytes());
        body.extend(self.counter.to_be_bytes());
        put_member(&mut body, self.local);
        body.extend(high);
        // MaxN, and none who left.
        body.extend([0, 2, 0, 0, 0, 2]);
        let mut members = [(self.local, [0; 24]), (to, [0; 24])];
        members[1].1.copy_from_slice(from);
        members.sort_unstable();
        for (it, from) in members {
            put_member(&mut body, it);
            body.extend(from);
            body.extend(body_max);
        }
        body
    }
}

impl Conduct for Splits {
    fn note_heard(&mut self, from: MemberId, body: &Bytes) {
        if !self.peers.contains(&from) {
            self.peers.push(from);
        }
        let mut own = Vec::new();
        put_member(&mut own, self.local);
        match body[0] {
            40 | 54 if body[1..17] == own && body[17..25] == self.attempt.to_be_bytes() => {
                self.counter += 1;
                let proposal = self.proposal(from, body);
                self.says(from, proposal);
            }
            42 if body[9..25] == own => {
                let mut install = body.to_vec();
                install[0] = 43;
                self.says(from, install);
            }
            _ => {}
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
        self.tick = now + TICK;
        if now >= self.next {
            self.next = now + INTERVAL;
            self.attempt += 1;
            let poll = self.poll();
            for peer in self.peers.clone() {
                self.says(peer, poll.clone());
            }
        }
        self.outgoing.drain(..).collect()
    }

    fn due(&self) -> Option<Time> {
        Some(self.tick)
    }
}

#[test]
fn members_that_one_member_took_apart_come_together_when_it_is_gone() {
    let config = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(HOSTS, 1)
    };
    let mut group: Group = group(config, 0, honest, |inner, _, _| {
        let conduct = Splits {
            local: inner.local(),
            peers: Vec::new(),
            tick: Time::ZERO,
            next: BEGINS,
            attempt: ATTEMPTS,
            counter: 1_000,
            outgoing: VecDeque::new(),
        };
        Box::new(Insider::new(inner, conduct))
    });
    group.start_all();
    group.run_to(BEGINS);
    assert!(group.all_in_one_configuration());
    group.run_for(INTERVAL * 8);
    group.crash(0);
    works(&mut group, "a member that took the others apart");
}
