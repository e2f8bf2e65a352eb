//! Gossip with a member that holds the key and names messages that another has not sent. Goal: it
//! silences nobody that can be heard, however long it goes on. Method: an insider among honest
//! members, which multicasts repairs of ever higher numbers; all that the honest ones are told.

use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Contract;
use groupcast_core::{
    Destination, Instrumented, MemberId, NodeId, Rng, Service, SocketClass, Time, Transmit,
};
use groupcast_protocols::gossip::{Gossip, GossipConfig};
use groupcast_sim::ClusterConfig;

use crate::insider::{self, Conduct, Insider};

const HOSTS: usize = 6;
const LIAR: usize = 5;
const SECOND: Duration = Duration::from_secs(1);

/// Says that it repairs messages of the first host, each with a higher number than the one before.
struct Rising {
    of: Option<MemberId>,
    number: u64,
    every: Duration,
    due: Time,
}

impl Conduct for Rising {
    fn note_heard(&mut self, from: MemberId, _body: &Bytes) {
        if from.node == NodeId(1) {
            self.of = Some(from);
        }
    }

    fn instead(&mut self, _now: Time, body: &[u8]) -> Vec<u8> {
        body.to_vec()
    }

    fn invent(&mut self, now: Time) -> Vec<(Transmit, Vec<u8>)> {
        let Some(of) = self.of.filter(|_| self.due <= now) else {
            return Vec::new();
        };
        self.due = now + self.every;
        self.number += 1;
        let mut body = vec![2, 255, 255];
        for word in [of.node.0, of.incarnation.0, self.number] {
            body.extend(word.to_be_bytes());
        }
        body.extend(b"never sent");
        let transmit = Transmit {
            destination: Destination::Group,
            class: SocketClass::Data,
        };
        vec![(transmit, body)]
    }

    fn due(&self) -> Option<Time> {
        self.of.map(|_| self.due)
    }
}

fn honest(member: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(Gossip::new(GossipConfig::lan(), member, rng, now).unwrap())
}

#[test]
fn who_names_ever_higher_numbers_of_a_sender_does_not_silence_it() {
    for rounds in 1..=3 {
        let every = GossipConfig::lan().step_interval * rounds;
        let config = ClusterConfig {
            contract: Contract::Gapped,
            ..ClusterConfig::new(HOSTS, u64::from(rounds))
        };
        let mut group = insider::group(config, LIAR, honest, move |inner, _, now| {
            let rising = Rising {
                of: None,
                number: 1_000,
                every,
                due: now + SECOND,
            };
            Box::new(Insider::new(inner, rising))
        });
        group.start_all();
        group.run_for(2 * SECOND);
        group.set_loss(0.02);
        for _ in 0..40 {
            let id = group.submit(0, Service::Fifo, "true").unwrap();
            let delivered = |group: &insider::Group| {
                let mut honest = (0..HOSTS).filter(|host| *host != LIAR);
                honest.all(|host| group.has_delivered(host, id))
            };
            group.must("delivered", delivered, 2 * SECOND);
            group.run_for(Duration::from_millis(300));
        }
        for host in (0..HOSTS).filter(|host| *host != LIAR) {
            assert!(group.gaps(host).is_empty(), "{rounds}: host {host}");
            assert_eq!(group.deliveries(host).len(), 40, "{rounds}: host {host}");
        }
    }
}
