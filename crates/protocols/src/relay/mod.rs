//! A relay: it receives bulk transfers as one of their receivers, and sends the pieces on into
//! another group as they come.
//!
//! From no paper: it serves groups that multicast does not join. `docs/relay.md` is for users; ADR
//! 0044 has the reasons.
//!
//! ```text
//!  sender ──▶ group above ──▶ upper endpoint ─┐                 ┌─▶ lower endpoint ──▶ group below
//!                                             └─ Relay: bytes ──┘
//!         ◀── accounts ◀──── who is below, and what became of each ◀──────────────────┘
//! ```
//!
//! [`Relay`] joins two [`Bulk`] endpoints, which know nothing of it; their host (sockets, a test)
//! hands it their notices and calls [`Relay::work`]. An [`Accounts`] runs beside each endpoint.
//!
//! # A transfer
//!
//! ```text
//!  announced above ──▶ Gathering ── those below have registered ──▶ Accepted ── counted in above ──▶
//!     ──▶ Passing ── all below are settled ──▶ Concluding ── the account is delivered ──▶ Concluded
//! ```
//!
//! - The relay announces a transfer below with the same bytes as it was announced above, so that
//!   receivers verify it by the hashes of its sender.
//! - It registers above when the receivers below have had time to register, and begins below when
//!   it is counted in above.
//! - It consumes a byte above when there is room for it below: its credit is that of the slowest
//!   receiver below. It keeps as many bytes as the settings of its upper endpoint allow
//!   (`buffer_max`), and the window of its lower one.
//! - It cannot go back: there is one pass below, all receivers wait for the slowest, and a receiver
//!   that registers after the start is told that it is late.
//! - It says its last word above when every receiver below is settled and the sender has their
//!   account: the relay is complete if they all are, else it has failed, and names those that did.
//!
//! # Guarantees
//! If a relay says that a transfer is complete, every receiver that ever registered below has it
//! complete. A relay refuses a transfer that leads back to where it came from ([`Relay::offered`]).
//!
//! Files: `passage` has one transfer, `queue` its bytes, `account` the account of its receivers,
//! `accounts` and `wire` the account's way to the sender.

mod account;
mod accounts;
mod passage;
mod queue;
#[cfg(test)]
mod tests;
mod wire;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{MemberId, NodeId, Time};

pub use self::account::{Account, Row, Word};
pub use self::accounts::{AccountEvent, Accounts, ReportState, Said};
use self::passage::Passage;
use crate::bulk::{Bulk, DeliverTo, Notice, Outcome, Policy, Served, Transfer, TransferId, Wanted};
use crate::xgm::Subgroups;

/// The failure of a receiver behind a relay that is not heard any more.
pub const RELAY_GONE: &str = "the relay that it is behind is gone";
/// The failure of a relay that was stopped.
pub const RELAY_STOPPED: &str = "the relay was stopped";

/// Settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The relay's name as a receiver above.
    pub name: Bytes,
    /// How long the relay lets receivers below register after the first one, if it does not know
    /// which are there. Default 250 ms: five announcements. Too small: a receiver that hears the
    /// first announcement late is left out. Too large: the relay itself is late for a sender that
    /// does not wait for receivers.
    pub gather: Duration,
    /// How long the relay waits for the receivers that answered the list of the same files before.
    /// Default 20 s. Too small: what they hold is sent again, or they are left out. Too large: one
    /// that has gone since holds up all.
    pub known_within: Duration,
    /// The most transfers at once; more are refused. Default 8. Each may hold twice the protocol's
    /// `buffer_max` above and three windows below.
    pub transfers_max: usize,
}

impl RelayConfig {
    /// The defaults, for a relay called `name`.
    pub fn new(name: &[u8]) -> Self {
        Self {
            name: Bytes::copy_from_slice(name),
            gather: Duration::from_millis(250),
            known_within: Duration::from_secs(20),
            transfers_max: 8,
        }
    }
}

/// What a transfer carries, as far as a relay has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// Files: receivers may already hold parts of them.
    Files,
    /// A stream, of which no receiver holds a part.
    Stream,
    /// The list of the files that are about to be sent: receivers say whether they hold any, and
    /// the list is complete above if it is complete at any receiver below.
    List,
}

/// The endpoints of a relay, and the accounts beside them.
#[derive(Debug)]
pub struct Sides<'a> {
    /// The endpoint in the group that the relay receives in.
    pub upper: &'a mut Bulk,
    /// The endpoint in the group that the relay sends into.
    pub lower: &'a mut Bulk,
    /// Beside the upper endpoint: the accounts that the relay gives to senders.
    pub told: &'a mut Accounts,
    /// Beside the lower endpoint: the accounts that relays below give.
    pub kept: &'a mut Accounts,
}

/// What a relay tells its user. `id` names a transfer as above.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RelayEvent {
    /// The relay does not take a transfer, and has told its sender why.
    Refused {
        /// The transfer.
        id: TransferId,
        /// The reason, as the sender is told.
        reason: String,
    },
    /// The relay takes part above for the receivers below.
    Accepted {
        /// The transfer.
        id: TransferId,
        /// How many have registered below.
        receivers: usize,
    },
    /// A receiver has registered below.
    Registered {
        /// The transfer.
        id: TransferId,
        /// The receiver's name; behind another relay `relay/name`.
        name: Bytes,
    },
    /// The sender says when the relay is served, and the receivers below with it.
    Served {
        /// The transfer.
        id: TransferId,
        /// When.
        served: Served,
    },
    /// A receiver below has its outcome.
    Settled {
        /// The transfer.
        id: TransferId,
        /// The receiver's name.
        name: Bytes,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A receiver below came too late. It gets nothing, and is in no account; the sender is told.
    CameLate {
        /// The transfer.
        id: TransferId,
        /// The receiver's name.
        name: Bytes,
    },
    /// A transfer is over at this relay.
    Concluded {
        /// The transfer.
        id: TransferId,
        /// The number of receivers below that are complete.
        complete: usize,
        /// The number of receivers below that are not.
        failed: usize,
        /// Bytes that came from above.
        bytes: u64,
        /// Whether it is complete for all receivers below, or why not; the reason may also lie with
        /// the sender or with the relay.
        result: Result<(), String>,
    },
}

/// Joins two endpoints. See the [module](self).
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    passages: BTreeMap<TransferId, Passage>,
    /// The transfers that others have announced below, with the bytes of their announcements.
    beside: BTreeMap<TransferId, Bytes>,
    /// The nodes that answered the last list of each of these senders.
    known: VecDeque<(MemberId, BTreeSet<NodeId>)>,
    /// Transfers that are over, and of whose account the sender may hold a part.
    past: VecDeque<TransferId>,
    events: VecDeque<RelayEvent>,
}

/// Refusal of a transfer that was relayed before: a relay cannot begin another account under the
/// same number.
const LOST: &str = "the relay has lost this sender, or was given up by it: send it again";

/// Refusal of a transfer that leads back, or comes twice.
const LOOP: &str = "the group below has the same from another sender: if relays form a loop, or two serve one group, end one \
                    of them";

impl Relay {
    /// The most senders whose lists are remembered.
    const KNOWN_MAX: usize = 16;
    /// The most transfers that are remembered after their end.
    const PAST_MAX: usize = 256;
    /// A transfer that no receiver below has answered for this long makes room for another.
    const UNANSWERED: Duration = Duration::from_secs(10);

    /// A relay without transfers.
    pub fn new(config: RelayConfig) -> Self {
        Self {
            config,
            passages: BTreeMap::new(),
            beside: BTreeMap::new(),
            known: VecDeque::new(),
            past: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes a transfer that is announced above, or refuses it: if the same is under way from
    /// another sender, above or below; if the relay has as many as it takes; or if the transfer
    /// asks for what a relay cannot do.
    pub fn offered(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        id: TransferId,
        about: &Bytes,
        length: Option<u64>,
        carries: Carries,
    ) {
        if self.passages.contains_key(&id) || self.past.contains(&id) {
            return self.refuse(now, sides, id, LOST);
        }
        let is_same = |passage: &Passage| passage.about == *about && !passage.is_concluded();
        let mut is_loop = self.beside.values().any(|other| other == about);
        for (former, passage) in self.passages.iter_mut().filter(|(_, it)| is_same(it)) {
            if former.sender.node != id.sender.node {
                is_loop = true;
            } else if carries != Carries::Stream {
                // Its sender was restarted: receivers below go on with what they have. They keep
                // nothing of a stream, and all streams of a sender have the same announcement.
                passage.give_up(now, sides, "the same content is sent anew");
            }
        }
        let refusal = match is_loop {
            true => Some(LOOP),
            false => {
                self.make_room(now, sides);
                self.cannot(sides, id)
            }
        };
        if let Some(reason) = refusal {
            return self.refuse(now, sides, id, reason);
        }
        let transfer = Transfer {
            about: about.clone(),
            length,
            rewindable: false,
            // It does not begin by itself: the relay begins it when it is counted in above.
            receivers: Wanted::Count(sides.lower.config().receivers_max),
            subgroups: sides
                .upper
                .subgroups_announced(id)
                .unwrap_or(Subgroups::ALL),
            confirm: true,
            deliver_to: DeliverTo::AtOnce,
            strict: false,
            replies: false,
        };
        match sides.lower.send(now, transfer) {
            Ok(lower) => {
                sides.kept.open(lower.number);
                let known = self.known.iter().find(|(sender, _)| *sender == id.sender);
                let known = known.map(|(_, nodes)| nodes.clone());
                let expected = known.filter(|_| carries != Carries::Stream);
                let expected = expected.unwrap_or_default();
                let passage =
                    Passage::new(now, (id, lower), (about.clone(), length), carries, expected);
                self.passages.insert(id, passage);
            }
            Err(error) => self.refuse(now, sides, id, &alloc::format!("{error}")),
        }
    }

    /// If the relay has as many transfers as it takes, lets go of the one that no receiver below
    /// has answered for longest. Its sender has not heard of the relay, so it does not wait for it.
    fn make_room(&mut self, now: Time, sides: &mut Sides<'_>) {
        if self.passages.len() < self.config.transfers_max {
            return;
        }
        let waits = |passage: &&mut Passage| passage.is_unanswered(now, Self::UNANSWERED);
        let unanswered = self.passages.values_mut().filter(waits);
        let Some(passage) = unanswered.min_by_key(|passage| passage.since()) else {
            return;
        };
        let (id, lower) = (passage.id, passage.lower);
        sides.lower.cancel(now, lower, "nobody has answered");
        sides.kept.close(lower.number);
        self.passages.remove(&id);
        let reason = "nobody below has answered, and others need the room".into();
        self.events.push_back(RelayEvent::Refused { id, reason });
    }

    /// Why a relay cannot take a transfer.
    fn cannot(&self, sides: &Sides<'_>, id: TransferId) -> Option<&'static str> {
        if self.passages.len() >= self.config.transfers_max {
            return Some("this relay takes no more transfers at once");
        }
        let is_passed_on = |policy| {
            matches!(
                policy,
                Policy::Ack | Policy::Nak { .. } | Policy::Ring | Policy::Tree { .. }
            )
        };
        if !sides.upper.policy_announced(id).is_some_and(is_passed_on) {
            return Some(
                "a relay takes part with the protocols nak, ack, ring and tree: send with one of these, or to each group by \
                 itself",
            );
        }
        if sides.upper.carries_messages(id) {
            return Some("a relay passes on files and streams, not the messages of a connection");
        }
        if sides.upper.deliver_to(id) != Some(DeliverTo::AtOnce) {
            return Some(
                "a relay cannot hold back what receivers below have verified: send without --together",
            );
        }
        None
    }

    fn refuse(&mut self, now: Time, sides: &mut Sides<'_>, id: TransferId, reason: &str) {
        sides.upper.refuse(now, id, reason, &self.config.name);
        let reason = reason.into();
        self.events.push_back(RelayEvent::Refused { id, reason });
    }

    /// Takes in a notice of the upper endpoint, except announcements: these go to
    /// [`offered`](Self::offered).
    pub fn hear_upper(&mut self, now: Time, sides: &mut Sides<'_>, notice: Notice) {
        let id = match &notice {
            Notice::Enrolled { id }
            | Notice::Data { id, .. }
            | Notice::Received { id, .. }
            | Notice::Served { id, .. }
            | Notice::Failed { id, .. }
            | Notice::Ended { id } => *id,
            _ => return,
        };
        if let Some(passage) = self.passages.get_mut(&id) {
            if let Notice::Served { served, .. } = notice {
                self.events.push_back(RelayEvent::Served { id, served });
            }
            passage.hear_upper(now, sides, notice);
        }
    }

    /// Takes in a notice of the lower endpoint.
    pub fn hear_lower(&mut self, now: Time, sides: &mut Sides<'_>, notice: Notice) {
        let id = match &notice {
            Notice::Announced { id, about, .. } => {
                self.beside.insert(*id, about.clone());
                return self.look_for_twin(now, sides, *id, about);
            }
            Notice::Failed { id, .. } | Notice::Ended { id } => {
                self.beside.remove(id);
                return;
            }
            Notice::Registered { id, .. }
            | Notice::Settled { id, .. }
            | Notice::CameLate { id, .. }
            | Notice::Sent { id } => *id,
            _ => return,
        };
        let mut passages = self.passages.values_mut();
        if let Some(passage) = passages.find(|passage| passage.lower == id) {
            passage.hear_lower(now, sides, notice, &mut self.events);
        }
    }

    /// Another sender announces below what this relay is about to send there: one of two relays
    /// withdraws.
    fn look_for_twin(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        other: TransferId,
        about: &Bytes,
    ) {
        let yields = other.sender < sides.lower.local();
        let mut passages = self.passages.values_mut();
        let twin = passages.find(|it| it.about == *about && it.is_gathering());
        if let Some(passage) = twin.filter(|_| yields) {
            let id = passage.id;
            passage.withdraw(now, sides, LOOP, &self.config.name);
            let reason = LOOP.into();
            self.events.push_back(RelayEvent::Refused { id, reason });
        }
    }

    /// Takes in what a relay below has said. To be called before the notices of the lower endpoint
    /// are taken.
    pub fn hear_account(&mut self, now: Time, sides: &mut Sides<'_>, event: &AccountEvent) {
        let mut passages = self.passages.values_mut();
        let passage = passages.find(|passage| passage.lower.number == event.number);
        if let Some(passage) = passage {
            passage.hear_account(now, sides, event, &mut self.events);
        }
    }

    /// Does what is due; to be called after anything was taken in, and when time has passed.
    pub fn work(&mut self, now: Time, sides: &mut Sides<'_>) {
        for (id, passage) in &mut self.passages {
            passage.work(now, sides, &self.config, &mut self.events);
            if let Some(answered) = passage.take_audience() {
                self.known.retain(|(sender, _)| *sender != id.sender);
                self.known.truncate(Self::KNOWN_MAX - 1);
                self.known.push_front((id.sender, answered));
            }
        }
        let is_over = |_: &TransferId, passage: &mut Passage| passage.is_over();
        for (id, passage) in self.passages.extract_if(.., is_over) {
            sides.told.forget(id);
            sides.kept.close(passage.lower.number);
            self.past.truncate(Self::PAST_MAX - 1);
            self.past.push_front(id);
        }
    }

    /// Ends the relay: tells both sides that every transfer under way ends.
    pub fn stop(&mut self, now: Time, sides: &mut Sides<'_>) {
        for passage in self.passages.values_mut() {
            if passage.is_gathering() {
                passage.withdraw(now, sides, RELAY_STOPPED, &self.config.name);
            } else {
                passage.give_up(now, sides, RELAY_STOPPED);
            }
        }
    }

    /// Whether no transfer is under way.
    pub fn is_idle(&self) -> bool {
        self.passages.is_empty()
    }

    /// The next event for the relay's user.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        self.events.pop_front()
    }

    /// When to call [`work`](Self::work) if nothing is taken in before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = |passage: &Passage| passage.poll_timeout(&self.config);
        self.passages.values().filter_map(due).min()
    }
}
