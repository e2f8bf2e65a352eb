//! Several senders of one content at once.
//!
//! A receiver takes the content from one of them, and tells the others what becomes of it: they
//! *follow*. So it does not matter which of them a receiver has heard first, and all senders end
//! with the same outcome. A sender that was killed and started again is a new one, too, and the
//! former is not there any more; so the new one waits until the former is heard once more. If it is
//! not, the new one takes over what has come.
//!
//! Transfers that wait for all receivers before they put anything in place (`--together`) do not
//! follow, and nothing follows them: the later one takes over.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_protocols::bulk::{Acceptance, DeliverTo, Order, TransferId};

use super::Service;
use super::event::{Described, ReceiveEvent};
use crate::about::{About, Content};
use crate::incoming::State;
use crate::manifest::ContentId;

/// Transfers whose content is under way from other senders.
#[derive(Default)]
pub(super) struct Followers {
    waiting: Vec<Waiting>,
    following: Vec<Following>,
}

/// A transfer that was announced while another one of the same content was under way.
struct Waiting {
    described: Described,
    about: About,
    since: Time,
}

/// A transfer that ends as another one of the same content does.
struct Following {
    described: Described,
    leader: TransferId,
    /// Whether its sender may be told the outcome.
    is_received: bool,
    outcome: Option<Result<(), String>>,
}

impl Followers {
    /// How long a sender may be silent that is there: it repeats announcements and questions more
    /// often than each second.
    const HEARD_WITHIN: Duration = Duration::from_millis(1500);

    /// Forgets a transfer that has ended.
    pub(super) fn forget(&mut self, id: TransferId) {
        self.waiting.retain(|it| it.described.id != id);
        self.following.retain(|it| it.described.id != id);
    }

    /// Everything of a transfer has come: whether it is one of these.
    pub(super) fn is_received(&mut self, id: TransferId) -> bool {
        let mut following = self.following.iter_mut();
        let one = following.find(|it| it.described.id == id);
        one.map(|it| it.is_received = true).is_some()
    }

    /// A transfer has come to an end: how, for those that follow it.
    pub(super) fn ended(&mut self, leader: TransferId, outcome: &Result<(), String>) {
        for one in &mut self.following {
            if one.leader == leader && one.outcome.is_none() {
                one.outcome = Some(outcome.clone());
            }
        }
    }

    /// How many follow another one.
    #[cfg(test)]
    pub(super) fn following(&self) -> usize {
        self.following.len()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.following.len()
    }
}

impl Service {
    /// The transfer that brings `content`, of another sender than that of `id`, if anything may
    /// follow it.
    fn leader(&mut self, content: ContentId, id: TransferId) -> Option<TransferId> {
        let mut transfers = self.transfers.iter();
        let leader = transfers.find(|(other, one)| {
            let comes = matches!(one.state, State::Preparing | State::Receiving);
            **other != id && comes && one.content_id() == Some(content)
        });
        let leader = *leader?.0;
        let both = [leader, id].map(|id| self.host.bulk().deliver_to(id));
        (both == [Some(DeliverTo::AtOnce); 2]).then_some(leader)
    }

    /// Whether the files that are announced are under way from another sender: then it is seen
    /// later what becomes of them.
    pub(super) fn waits(&mut self, described: &Described, about: &About) -> bool {
        let Content::Files { id: content, .. } = about.content else {
            return false;
        };
        // With too many it is refused, as others are.
        let has_room = self.followers.len() < Self::TRANSFERS_MAX;
        if !has_room || self.leader(content, described.id).is_none() {
            return false;
        }
        self.followers.waiting.push(Waiting {
            described: described.clone(),
            about: about.clone(),
            since: self.host.now(),
        });
        true
    }

    /// Looks after transfers whose content is under way, and those that follow another one.
    pub(super) fn follow(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let now = self.host.now();
        for one in std::mem::take(&mut self.followers.waiting) {
            let content = one.about.content_id();
            let id = one.described.id;
            let leader = content.and_then(|content| self.leader(content, id));
            let heard = leader.and_then(|leader| self.host.bulk().heard(leader));
            let is_over = now - one.since >= Followers::HEARD_WITHIN;
            match leader {
                Some(leader) if heard > Some(one.since) => self.follows(one, leader, tell),
                Some(_) if !is_over => self.followers.waiting.push(one),
                // It has ended meanwhile, or its sender is gone.
                _ => self.begin(one.described, &one.about, tell),
            }
        }
        let has_ended = |one: &mut Following| match &one.outcome {
            None => false,
            Some(outcome) => one.is_received || outcome.is_err(),
        };
        let ended: Vec<Following> = self.followers.following.extract_if(.., has_ended).collect();
        for one in ended {
            let (id, transfer) = (one.described.id, &one.described);
            match one.outcome {
                Some(Err(reason)) => {
                    self.totals.failed += 1;
                    self.host.bulk().conclude(now, id, Err(&reason));
                    let reason = &reason;
                    let kept = true;
                    tell(ReceiveEvent::Failed {
                        transfer,
                        reason,
                        kept,
                    });
                }
                _ => {
                    self.totals.complete += 1;
                    self.host.bulk().conclude(now, id, Ok(()));
                    let (received, took) = (0, Duration::ZERO);
                    tell(ReceiveEvent::Complete {
                        transfer,
                        received,
                        took,
                    });
                }
            }
        }
    }

    /// A transfer follows `leader`: to its sender it holds everything, and does not say yet that it
    /// is well.
    fn follows(
        &mut self,
        one: Waiting,
        leader: TransferId,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let Some(length) = one.described.length else {
            return;
        };
        let now = self.host.now();
        let whole = 0..length;
        let acceptance = Acceptance {
            held: vec![whole],
            order: Order::AsTheyCome,
            name: Bytes::copy_from_slice(self.receiving.link.name.as_bytes()),
        };
        let id = one.described.id;
        if self.host.bulk().accept(now, id, &acceptance).is_ok() {
            tell(ReceiveEvent::Accepted {
                transfer: &one.described,
                held: length,
            });
            self.followers.following.push(Following {
                described: one.described,
                leader,
                is_received: false,
                outcome: None,
            });
        }
    }

    /// The receiver is stopped: refuses what waits.
    pub(super) fn refuse_waiting(&mut self) {
        let now = self.host.now();
        for one in std::mem::take(&mut self.followers.waiting) {
            let name = self.receiving.link.name.as_bytes();
            let id = one.described.id;
            let reason = super::ending::STOPPED_HERE;
            self.host.bulk().refuse(now, id, reason, name);
        }
    }
}
