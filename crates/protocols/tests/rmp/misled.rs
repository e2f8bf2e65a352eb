//! Goal: one that polls only one other member, on and on, keeps that one from the group for a
//! minute at a time at most, as `SECURITY.md` says, and hardly hinders the others.
//! Method: the lowest member is real, but polls one other alone, each time anew; how long that one
//! is not together with the rest, who all work.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    ConfigurationKind, Destination, MemberId, Service, SocketClass, Time, Transmit,
};
use groupcast_protocols::rmp::FAMILY;
use groupcast_sim::ClusterConfig;

use super::{honest, poll};
use crate::insider::{Conduct, Group, Insider, group, works};

const HOSTS: usize = 5;
const MISLED: usize = 3;
const BEGINS: Time = Time::from_millis(2_000);
/// No honest member has made so many attempts.
const ATTEMPTS: u64 = 1 << 40;

struct Misleads {
    peers: Vec<MemberId>,
    next: Time,
    interval: Duration,
    attempt: u64,
}

impl Conduct for Misleads {
    fn note_heard(&mut self, from: MemberId, _body: &Bytes) {
        if !self.peers.contains(&from) {
            self.peers.push(from);
            self.peers.sort_unstable();
        }
    }

    fn instead(&mut self, _now: Time, body: &[u8]) -> Vec<u8> {
        body.to_vec()
    }

    fn invent(&mut self, now: Time) -> Vec<(Transmit, Vec<u8>)> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + self.interval;
        self.attempt += 1;
        let misled = self.peers.iter().find(|it| it.node.0 == MISLED as u64 + 1);
        let to_one = misled.map(|misled| Transmit {
            destination: Destination::Member(*misled),
            class: SocketClass::Control,
        });
        to_one
            .map(|to| (to, poll(self.attempt, 1, &self.peers, &self.peers)))
            .into_iter()
            .collect()
    }

    fn due(&self) -> Option<Time> {
        Some(self.next)
    }
}

#[test]
fn one_that_polls_one_other_on_and_on_keeps_it_out_for_a_minute_at_most_at_a_time() {
    for interval in [5, 40, 400] {
        let config = ClusterConfig {
            contract: FAMILY.contract,
            ..ClusterConfig::new(HOSTS, 1)
        };
        let mut group: Group = group(config, 0, honest, move |inner, _, _| {
            let conduct = Misleads {
                peers: Vec::new(),
                next: BEGINS,
                interval: Duration::from_millis(interval),
                attempt: ATTEMPTS,
            };
            Box::new(Insider::new(inner, conduct))
        });
        group.start_all();
        group.run_to(BEGINS);
        assert!(group.all_in_one_configuration());
        let honest = [1, 2, 4].map(|host| group.member(host).expect("it runs"));
        let step = Duration::from_millis(50);
        let (mut out, mut longest, mut in_all) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let (mut seen, mut silent, mut silence) = (0, Duration::ZERO, Duration::ZERO);
        for _ in 0..3 * 1_200 {
            let _ = group.submit(2, Service::Agreed, "a few words");
            group.run_for(step);
            let configuration = group.current_configuration(2);
            let misled = group.member(MISLED).expect("it runs");
            let within = configuration.is_some_and(|it| {
                it.members.contains(&misled) && honest.iter().all(|one| it.members.contains(one))
            });
            out = if within { Duration::ZERO } else { out + step };
            in_all += if within { Duration::ZERO } else { step };
            longest = longest.max(out);
            let delivered = group.deliveries(2).len();
            silent = if delivered > seen {
                Duration::ZERO
            } else {
                silent + step
            };
            seen = delivered;
            silence = silence.max(silent);
        }
        let changes = group
            .configurations(2)
            .iter()
            .filter(|it| it.kind == ConfigurationKind::Regular)
            .count();
        println!("each {interval} ms: out for {longest:?} at most, {in_all:?} of three minutes");
        println!("others: silent for {silence:?} at most, {changes} configurations");
        assert!(longest <= Duration::from_millis(61_000), "{longest:?}");
        assert!(silence <= Duration::from_secs(1), "{silence:?}");
        group.crash(0);
        works(&mut group, "one that misled another");
    }
}
