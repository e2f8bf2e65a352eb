//! When repairs are multicast, by the size of the group: one member, asked and told by others that
//! it knows.

use core::iter;

use bytes::Bytes;
use groupcast_core::{
    Incarnation, MemberId, MessageId, NodeId, Ordered, Protocol, Rng, Service, Time,
};

use super::super::round::RoundNumber;
use super::super::wire::{Gossip as Digest, Heartbeat, Holding, Message, Run, SelfDescription};
use super::super::{Gossip, GossipConfig};

fn other(number: u64) -> MemberId {
    MemberId {
        node: NodeId(1000 + number),
        incarnation: Incarnation(1),
    }
}

/// One member of a group.
struct Asked {
    member: Gossip,
    id: MessageId,
    others: u64,
}

impl Asked {
    /// It knows as many others of a group of `size` as its view takes, has sent a message, and is
    /// in its first round.
    fn new(size: u64, config: GossipConfig) -> Self {
        let now = Time::ZERO;
        let mut member = Gossip::new(config, other(0), Rng::new(1), now).unwrap();
        (1..size).for_each(|number| member.meet(other(number)));
        let id = member
            .submit(now, Service::Fifo, Bytes::from_static(b"M"))
            .unwrap();
        member.begin_round();
        let others = 0;
        Self { member, id, others }
    }

    fn is_told(&mut self, message: &Message) {
        self.others += 1;
        let from = other(self.others);
        self.member
            .handle_datagram(Time::ZERO, from, message.encode());
    }

    /// Yet another one asks for the message. Whether that is answered by a multicast.
    fn multicasts(&mut self) -> bool {
        let before = self.member.counters().multicast_repairs;
        let id = self.id;
        self.is_told(&Message::Request {
            round: RoundNumber(1),
            id,
        });
        self.member.counters().multicast_repairs > before
    }

    /// Yet another one gossips that it has repaired the message.
    fn hears_of_a_repair(&mut self) {
        let number = self.id.number;
        let mut run = Run::of(number, number);
        run.set_repaired(number);
        let about = SelfDescription {
            heartbeat: Heartbeat(1),
            zone: 0,
            link: false,
            sent: 0,
        };
        self.is_told(&Message::Gossip(Digest {
            round: RoundNumber(1),
            about,
            alive: alloc::vec![],
            digest: alloc::vec![Holding {
                origin: self.id.sender,
                runs: alloc::vec![run],
                gaps: alloc::vec![],
            }],
        }));
    }
}

/// Which request for a message is the first that is answered by a multicast, if one of eight is.
fn first_multicast(size: u64, config: GossipConfig) -> Option<usize> {
    let mut asked = Asked::new(size, config);
    iter::repeat_with(|| asked.multicasts())
        .take(8)
        .position(|multicast| multicast)
        .map(|at| at + 1)
}

#[test]
fn the_larger_the_group_the_more_often_a_message_is_asked_for_before_it_is_multicast() {
    let config = GossipConfig {
        view_max: 20_000,
        ..GossipConfig::lan()
    };
    let sizes = [10, 100, 101, 1000, 1001, 10_000, 10_001];
    let multicasts = sizes.map(|size| first_multicast(size, config.clone()));
    assert_eq!(multicasts, [2, 2, 3, 3, 4, 4, 5].map(Some));
}

#[test]
fn as_004_has_it_the_size_of_the_group_does_not_matter() {
    let config = GossipConfig {
        threshold_grows: false,
        view_max: 20_000,
        ..GossipConfig::lan()
    };
    assert_eq!(first_multicast(10_000, config), Some(2));
}

#[test]
fn nothing_is_multicast_where_the_view_is_a_sample() {
    let config = |threshold_grows| GossipConfig {
        threshold_grows,
        view_max: 64,
        ..GossipConfig::lan()
    };
    assert_eq!(first_multicast(60, config(true)), Some(2));
    assert_eq!(first_multicast(80, config(true)), None);
    assert_eq!(first_multicast(80, config(false)), Some(2));
}

#[test]
fn the_larger_the_group_the_more_others_have_to_have_repaired_a_message_before_it_is_multicast() {
    for (size, needed) in [(100, 1), (101, 2)] {
        let config = GossipConfig {
            threshold: 100,
            ..GossipConfig::lan()
        };
        let mut asked = Asked::new(size, config);
        for _ in 0..needed {
            assert!(!asked.multicasts());
            asked.hears_of_a_repair();
        }
        assert!(asked.multicasts(), "{size} members");
    }
}
