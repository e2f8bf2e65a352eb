//! Datagrams that a hostile member may send without cause, for the swarm: polls, asks, and words
//! about connections that do not exist. None of them may change anything for the other members.

use core::time::Duration;

use groupcast_core::{Destination, Incarnation, MemberId, Rng};

use super::entity::Xgm;
use super::wire::{Ask, Message, Poll, Report, Told};
use super::{Key, Standing, Subgroups};

/// Numbers from here on name connections that do not exist.
const NOBODYS: u32 = 1 << 31;

impl Xgm {
    /// Queues `count` random datagrams: to all, or to `peer` about connections of `peer`. Those
    /// that find no room are dropped.
    pub(crate) fn make_noise(&mut self, count: usize, peer: MemberId, rng: &mut Rng) {
        for _ in 0..count {
            let number = NOBODYS | rng.next_u64() as u32;
            let standing = match rng.below(4) {
                0 => Standing::Within,
                1 => Standing::Complete,
                2 => Standing::Left,
                _ => Standing::Closed,
            };
            let subgroups = Subgroups::ALL.draw(rng);
            let (progress, round) = (rng.next_u64(), rng.next_u64() as u32);
            let to_peer = Destination::Member(peer);
            let (to, message) = match rng.below(4) {
                0 => {
                    let poll = Poll {
                        census: number,
                        number: 0,
                        list: rng.chance(0.5),
                        asked: Subgroups::ALL,
                        first: 0,
                        last: u32::MAX,
                        spread: Duration::ZERO,
                        heard: [].into(),
                    };
                    (Destination::Group, Message::Poll(poll))
                }
                1 => {
                    let is_all = rng.chance(0.5);
                    let ask = Ask {
                        number,
                        round,
                        only: if is_all {
                            Incarnation(0)
                        } else {
                            peer.incarnation
                        },
                        spread: Duration::ZERO,
                        places: [progress].into(),
                    };
                    (Destination::Group, Message::Ask(ask))
                }
                2 => {
                    let told = Told {
                        number,
                        round,
                        standing,
                        subgroups,
                        progress,
                    };
                    (to_peer, Message::Told(told))
                }
                _ => {
                    let report = Report {
                        number,
                        key: Key(rng.next_u64()),
                        standing,
                        subgroups,
                        progress,
                        name: self.name.clone(),
                    };
                    (to_peer, Message::Report(report))
                }
            };
            let _ = self.post(to, &message);
        }
    }
}
