//! Several senders of one content at once.
//!
//! A receiver takes the content from one of them, and tells the others what becomes of it: they
//! *follow*. So it does not matter which of them a receiver has heard first, and all senders end
//! with the same outcome. A sender that was killed and started again is a new one, too, and the
//! former is not there any more; so the new one waits until the former is heard once more. If it is
//! not, the new one takes over what has come.
//!
//! A receiver that follows has told its sender that it holds everything. If the one that brings the
//! content breaks off, sends something else than it announced, or brings nothing for
//! [`STALLED`](Followers::STALLED), the receiver tells the next of the others what it really holds,
//! and that one brings the rest; one that has stalled follows it.
//!
//! Transfers that wait for all receivers before they put anything in place (`--together`) do not
//! follow, and nothing follows them: of two whose senders are both there the one with the lower
//! number is taken, at every receiver, whichever it has heard first, and the other one is refused
//! or told. Nor do those whose senders do not ask what becomes of them, and those of relays: a
//! relay has released what a receiver has said to hold, and could not bring the rest. There the
//! later one takes over.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_protocols::bulk::{Acceptance, DeliverTo, Order, TransferId};

use super::Service;
use super::event::{Described, ReceiveEvent};
use crate::about::{About, Content};
use crate::incoming::{Incoming, State};
use crate::manifest::ContentId;

/// Transfers whose content is under way from other senders.
pub(super) struct Followers {
    waiting: Vec<Waiting>,
    following: Vec<Following>,
    /// How long the transfer that others follow may bring nothing.
    pub(super) patience: Duration,
    /// How often in a row a transfer of a content has brought nothing at all until another one took
    /// its place.
    in_vain: BTreeMap<ContentId, u32>,
    /// Those that have ended well, and when their senders were first told so, until these end them.
    concluded: Vec<(TransferId, Time)>,
}

impl Default for Followers {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            following: Vec::new(),
            patience: Self::STALLED,
            in_vain: BTreeMap::new(),
            concluded: Vec::new(),
        }
    }
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
    about: About,
    /// The transfer that brings the content; `None`: it is to be found anew.
    leader: Option<TransferId>,
    /// Whether bytes are kept that former transfers have brought.
    kept: bool,
    /// Whether the protocol knows that it holds everything.
    is_received: bool,
    end: Option<End>,
}

/// How the transfer has ended that others follow.
#[derive(Clone)]
pub(super) enum End {
    Complete,
    /// Whether bytes are kept, too.
    Failed {
        reason: String,
        kept: bool,
    },
}

impl Followers {
    /// How long a sender may be silent that is there: it repeats announcements and questions more
    /// often than each second.
    const HEARD_WITHIN: Duration = Duration::from_millis(1500);
    /// How long a transfer may bring nothing: a sender that waits for a short while, as for its
    /// turn at a slow receiver, goes on.
    const STALLED: Duration = Duration::from_secs(30);
    /// How often the patience doubles at most: each change of the leader has all that has come read
    /// again, so where all senders stall, each change that brings nothing doubles it.
    const DOUBLINGS_MAX: u32 = 5;

    /// Forgets a transfer that has ended; returns it if it followed another one.
    fn forget(&mut self, id: TransferId) -> Option<Described> {
        self.waiting.retain(|it| it.described.id != id);
        self.concluded.retain(|(concluded, _)| *concluded != id);
        let mut followed = self
            .following
            .extract_if(.., |it| it.described.id == id)
            .map(|it| it.described);
        followed.next()
    }

    /// Everything of a transfer has come: whether it is one of these.
    pub(super) fn is_received(&mut self, id: TransferId) -> bool {
        let mut following = self.following.iter_mut();
        let one = following.find(|it| it.described.id == id);
        one.map(|it| it.is_received = true).is_some()
    }

    /// A transfer has come to an end: how, for those that follow it.
    pub(super) fn ended(&mut self, leader: TransferId, end: &End) {
        for one in &mut self.following {
            if one.leader == Some(leader) && one.end.is_none() {
                one.end = Some(end.clone());
            }
        }
    }

    /// A transfer brings its content no more, and what it has brought is `kept`, or not: those that
    /// follow it have another one to follow.
    pub(super) fn led_by_nobody(&mut self, leader: TransferId, kept: bool) {
        for one in &mut self.following {
            if one.leader.take_if(|it| *it == leader).is_some() {
                one.kept = kept;
            }
        }
    }

    /// When the followers ended well whose senders may not have heard so.
    pub(super) fn concluded(&self) -> impl Iterator<Item = Time> {
        self.concluded.iter().map(|(_, at)| *at)
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
        let leader = self.brings(content, id)?;
        let bulk = self.host.bulk();
        // The leader follows, too, if it stalls.
        let mut both = [leader, id].into_iter();
        let follows = both.all(|id| bulk.may_hold_less(id));
        follows.then_some(leader)
    }

    /// The transfer that brings `content`, other than `id`.
    fn brings(&self, content: ContentId, id: TransferId) -> Option<TransferId> {
        let mut transfers = self.transfers.iter();
        let leader = transfers.find(|(other, one)| {
            let comes = matches!(one.state, State::Preparing | State::Receiving);
            **other != id && comes && one.content_id() == Some(content)
        });
        Some(*leader?.0)
    }

    /// Whether of two transfers the one with the lower number is taken: one of them waits for all
    /// receivers before it puts anything in place, and neither comes through a relay.
    fn go_by_number(&mut self, transfers: [TransferId; 2]) -> bool {
        let bulk = self.host.bulk();
        let moments = transfers.map(|id| bulk.deliver_to(id));
        let is_together = moments
            .into_iter()
            .flatten()
            .any(|it| it != DeliverTo::AtOnce);
        is_together && transfers.into_iter().all(|id| bulk.is_rewindable(id))
    }

    /// Whether the files that are announced are under way from another sender: then it is seen
    /// later what becomes of them.
    pub(super) fn waits(&mut self, described: &Described, about: &About) -> bool {
        let Content::Files { id: content, .. } = about.content else {
            return false;
        };
        // With too many it is refused, as others are.
        let has_room = self.followers.len() < Self::TRANSFERS_MAX;
        if !has_room || self.brings(content, described.id).is_none() {
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
            let other = content.and_then(|content| self.brings(content, id));
            let leader = content.and_then(|content| self.leader(content, id));
            let heard = other.and_then(|other| self.host.bulk().heard(other));
            let is_there = heard > Some(one.since);
            let is_over = now - one.since >= Followers::HEARD_WITHIN;
            let rival = other
                .filter(|other| leader.is_none() && is_there && self.go_by_number([*other, id]));
            // Else it would end the other one, and bring nothing.
            let is_heard = self.host.bulk().heard(id) > Some(one.since);
            match (leader, other) {
                (Some(leader), _) if is_there => self.follows(one, leader, tell),
                _ if rival.is_some_and(|rival| id < rival) && !is_heard && !is_over => {
                    self.followers.waiting.push(one);
                }
                _ if rival.is_some_and(|rival| rival < id || !is_heard) => {
                    self.refuse(&one.described, super::ending::UNDER_WAY, tell);
                }
                (_, Some(_)) if !is_there && !is_over => self.followers.waiting.push(one),
                // The other one has ended meanwhile, its sender is gone, or it gives way.
                _ => self.begin(one.described, &one.about, tell),
            }
        }
        self.lead_anew(tell);
        let has_ended = |one: &mut Following| match &one.end {
            None => false,
            Some(End::Complete) => one.is_received,
            Some(End::Failed { .. }) => true,
        };
        let ended: Vec<Following> = self.followers.following.extract_if(.., has_ended).collect();
        for one in ended {
            match one.end {
                Some(End::Failed { reason, kept }) => {
                    self.fails_here(&one.described, &reason, kept, tell);
                }
                _ => {
                    let id = one.described.id;
                    self.totals.complete += 1;
                    self.host.bulk().conclude(now, id, Ok(()));
                    let concluded = &mut self.followers.concluded;
                    concluded.retain(|(_, at)| now - *at < Self::LAST_WORDS);
                    concluded.push((id, now));
                    tell(ReceiveEvent::Complete {
                        transfer: &one.described,
                        received: 0,
                        took: Duration::ZERO,
                    });
                }
            }
        }
    }

    /// A transfer that was taken comes to nothing here: tells its sender and the user.
    fn fails_here(
        &mut self,
        transfer: &Described,
        reason: &str,
        kept: bool,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let now = self.host.now();
        self.totals.failed += 1;
        self.host.bulk().conclude(now, transfer.id, Err(reason));
        tell(ReceiveEvent::Failed {
            transfer,
            reason,
            kept,
        });
    }

    /// Has those that follow nobody any more, or one that brings nothing, follow another one; the
    /// first of them brings what is missing, if nobody does.
    fn lead_anew(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        self.find_stalled();
        for at in 0..self.followers.following.len() {
            let one = &self.followers.following[at];
            let (id, content) = (one.described.id, one.about.content_id());
            if one.leader.is_none()
                && one.end.is_none()
                && let Some(content) = content
            {
                let leader = self.leader(content, id);
                let may_go_on = leader.is_some() || self.brings(content, id).is_none();
                let one = &mut self.followers.following[at];
                one.leader = leader;
                if !may_go_on {
                    // It may not follow that one, which goes on with what has come.
                    one.end = Some(End::Failed {
                        reason: super::ending::SENT_ANEW.into(),
                        kept: one.kept,
                    });
                }
            }
        }
        let is_stopped = self.is_stopped;
        loop {
            // The protocol has said everything of what it was told to hold.
            let leads = |one: &mut Following| {
                one.leader.is_none() && one.end.is_none() && (one.is_received || is_stopped)
            };
            let Some(one) = self.followers.following.extract_if(.., leads).next() else {
                return;
            };
            let started = match is_stopped {
                true => Err(super::ending::STOPPED_HERE.into()),
                false => self.start(&one.described, &one.about),
            };
            if let Err(reason) = started {
                self.fails_here(&one.described, &reason, one.kept, tell);
                continue;
            }
            let leader = one.described.id;
            let content = one.about.content_id();
            for other in &mut self.followers.following {
                if other.about.content_id() == content && other.end.is_none() {
                    other.leader.get_or_insert(leader);
                }
            }
        }
    }

    /// Has transfers that bring nothing for too long follow those that follow them.
    fn find_stalled(&mut self) {
        let now = self.host.now();
        let Followers {
            following,
            in_vain,
            patience,
            ..
        } = &mut self.followers;
        in_vain.retain(|content, _| {
            let mut following = following.iter();
            following.any(|one| one.about.content_id() == Some(*content))
        });
        // What has brought something has the whole patience of a first one.
        let in_vain_before = |one: &Incoming| match one.content_id() {
            Some(content) if one.received == 0 => in_vain.get(&content).copied(),
            _ => None,
        };
        let is_stalled = |one: &Incoming| {
            let doublings = in_vain_before(one).unwrap_or_default();
            let patience = *patience * (1 << doublings.min(Followers::DOUBLINGS_MAX));
            one.state == State::Receiving && now - one.moved >= patience
        };
        let is_ready = |one: &&Following| one.is_received && one.end.is_none();
        let followers = following.iter().filter(is_ready);
        let mut stalled: Vec<TransferId> = followers.filter_map(|one| one.leader).collect();
        stalled.dedup();
        stalled.retain(|leader| self.transfers.get(leader).is_some_and(is_stalled));
        for id in stalled {
            let Some(incoming) = self.transfers.remove(&id) else {
                continue;
            };
            if let Some(content) = incoming.content_id() {
                let in_vain = self.followers.in_vain.entry(content).or_default();
                *in_vain = match incoming.received {
                    0 => *in_vain + 1,
                    _ => 0,
                };
            }
            let described = incoming.described.clone();
            let about = About {
                host: described.sender.clone(),
                label: described.label.clone(),
                content: incoming.content,
            };
            let kept = incoming.is_kept;
            self.retire(incoming);
            self.followers.led_by_nobody(id, kept);
            // It is the last to lead again.
            self.followers.following.push(Following {
                described,
                about,
                leader: None,
                kept,
                is_received: false,
                end: None,
            });
            self.hold_all(id);
        }
    }

    /// A transfer that was taken follows another one: tells its sender that everything is here.
    fn hold_all(&mut self, id: TransferId) {
        let now = self.host.now();
        let following = self.followers.following.iter_mut();
        let one = following.rev().find(|one| one.described.id == id);
        let Some(one) = one else {
            return;
        };
        let Some(acceptance) = whole(&one.described, &self.receiving.link.name) else {
            return;
        };
        let held = self.host.bulk().hold_again(now, id, &acceptance);
        if held.is_err() {
            // The protocol is about to say how it has ended.
            one.is_received = true;
        }
    }

    /// Forgets a transfer whose sender ends it, or is gone. If it followed another one, its user
    /// hears that it has ended.
    pub(super) fn unfollow(
        &mut self,
        id: TransferId,
        reason: &str,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        if let Some(described) = self.followers.forget(id) {
            self.fails_here(&described, reason, false, tell);
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
        let Some(acceptance) = whole(&one.described, &self.receiving.link.name) else {
            return;
        };
        let now = self.host.now();
        let id = one.described.id;
        if self.host.bulk().accept(now, id, &acceptance).is_ok() {
            tell(ReceiveEvent::Accepted {
                transfer: &one.described,
                held: one.described.length.unwrap_or_default(),
            });
            self.followers.following.push(Following {
                described: one.described,
                about: one.about,
                leader: Some(leader),
                kept: false,
                is_received: false,
                end: None,
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

/// What a receiver called `name` says of a transfer that it holds everything of; `None` if nobody
/// knows how much that is.
fn whole(described: &Described, name: &str) -> Option<Acceptance> {
    let held = 0..described.length?;
    Some(Acceptance {
        held: vec![held],
        order: Order::AsTheyCome,
        name: Bytes::copy_from_slice(name.as_bytes()),
    })
}
