//! The member's side of connections (003 4.5.2): what the local entity knows of each connection
//! that a member of this host is in, and what it tells the source, asked or not.
//!
//! The transport tells the entity how far the member has come. The source's entity asks
//! (`monitor.rs`), and names the places in the stream at which it has set checkpoints. The member's
//! entity answers out of band with how far the member has come, and a member that has not reached a
//! place yet says so when it does. The entity reports joining, leaving and an abnormal close at
//! once. It remembers the end of a connection for a while, so that an answer replaces a report that
//! is lost.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::mech::allowance::Allowance;
use groupcast_core::{Destination, Incarnation, MemberId, Time};

use super::entity::{SPREAD_MAX, Xgm};
use super::wire::{Ask, Message, PLACES_MAX, Report, Told};
use super::{Key, Subgroups};

/// The most connections that are remembered after their end.
const PAST_MAX: usize = 64;

/// A connection, as group management names it (003 4.5.2: connection-id).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId {
    /// The member that sends.
    pub source: MemberId,
    /// The source's number for it.
    pub number: u32,
}

/// The state of a member in a connection, as the member says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It takes part, and does not have everything yet.
    Within,
    /// It has everything.
    Complete,
    /// It has left without having everything.
    Left,
    /// Its end was closed abnormally: by a fault, or because its source was not heard.
    Closed,
    /// It knows nothing of this connection.
    Stranger,
}

/// A host's end of a connection.
#[derive(Debug)]
struct End {
    key: Key,
    standing: Standing,
    progress: u64,
    /// The checkpoints of the source that the member has not reached.
    places: BTreeSet<u64>,
    /// The number of the last ask that came.
    round: u32,
    /// When the member answers, and which ask.
    pending: Option<(Time, u32)>,
    allowance: Allowance,
}

/// The ends of a host.
#[derive(Debug)]
pub(super) struct Ends {
    ends: BTreeMap<ConnectionId, End>,
    /// The connections that are over, the oldest first.
    past: VecDeque<ConnectionId>,
    /// Bounds the answers about connections that the host does not know.
    strangers: Allowance,
}

impl Ends {
    pub(super) fn new(answers_max: u32) -> Self {
        Self {
            ends: BTreeMap::new(),
            past: VecDeque::new(),
            strangers: Allowance::per_second(answers_max, answers_max),
        }
    }

    pub(super) fn due(&self) -> Option<Time> {
        let pending = self.ends.values().filter_map(|end| end.pending);
        pending.map(|(due, _)| due).min()
    }

    /// Remembers the end of a connection, and forgets the oldest if there are too many.
    fn end(&mut self, id: ConnectionId) {
        if self.past.len() >= PAST_MAX
            && let Some(oldest) = self.past.pop_front()
        {
            self.ends.remove(&oldest);
        }
        self.past.push_back(id);
    }
}

impl Xgm {
    /// A local member takes part in a connection from now on; the entity reports that to the source
    /// (003 4.5.2: report). The transport bounds the number of connections.
    pub fn enter(&mut self, now: Time, key: Key, id: ConnectionId) {
        self.ends.past.retain(|past| *past != id);
        let answers_max = self.config.answers_max;
        let end = End {
            key,
            standing: Standing::Within,
            progress: 0,
            places: BTreeSet::new(),
            round: 0,
            pending: None,
            allowance: Allowance::per_second(answers_max, answers_max),
        };
        self.ends.ends.insert(id, end);
        self.report(now, id);
    }

    /// A local member has the first `progress` bytes of the stream, without a gap. If it has
    /// reached a checkpoint of the source, the entity says so.
    pub fn advance(&mut self, now: Time, id: ConnectionId, progress: u64) {
        let Some(end) = self.ends.ends.get_mut(&id) else {
            return;
        };
        if end.standing != Standing::Within || progress <= end.progress {
            return;
        }
        end.progress = progress;
        let ahead = end.places.split_off(&(progress + 1));
        let reached = core::mem::replace(&mut end.places, ahead);
        // If the allowance is used up, the answer to the next ask tells it.
        if !reached.is_empty() && end.allowance.take(now) {
            self.tell_standing(id, 0);
        }
    }

    /// A local member takes part no more; the entity remembers and reports `standing`.
    pub fn exit(&mut self, now: Time, id: ConnectionId, standing: Standing) {
        let Some(end) = self.ends.ends.get_mut(&id) else {
            return;
        };
        if end.standing == Standing::Within {
            end.standing = standing;
            end.places.clear();
            self.ends.end(id);
            self.report(now, id);
        }
    }

    /// How a local member stands in a connection, and how far it has come in bytes; `None` if the
    /// entity does not know the connection, or has forgotten it.
    pub fn standing(&self, id: ConnectionId) -> Option<(Standing, u64)> {
        let end = self.ends.ends.get(&id)?;
        Some((end.standing, end.progress))
    }

    fn report(&mut self, now: Time, id: ConnectionId) {
        let name = self.name.clone();
        let Some(end) = self.ends.ends.get_mut(&id) else {
            return;
        };
        if !end.allowance.take(now) {
            return;
        }
        let report = Report {
            number: id.number,
            key: end.key,
            standing: end.standing,
            subgroups: self.members.subgroups(end.key).unwrap_or(Subgroups::NONE),
            progress: end.progress,
            name,
        };
        // A report may be lost, as all datagrams here: the answer to the next ask makes up for it.
        let _ = self.post(Destination::Member(id.source), &Message::Report(report));
    }

    /// Tells the source how a member stands, in answer to the ask of `round`; 0: unasked.
    fn tell_standing(&mut self, id: ConnectionId, round: u32) {
        let told = match self.ends.ends.get(&id) {
            Some(end) => Told {
                number: id.number,
                round,
                standing: end.standing,
                subgroups: self.members.subgroups(end.key).unwrap_or(Subgroups::NONE),
                progress: end.progress,
            },
            None => Told {
                number: id.number,
                round,
                standing: Standing::Stranger,
                subgroups: Subgroups::NONE,
                progress: 0,
            },
        };
        let sent = self.post(Destination::Member(id.source), &Message::Told(told));
        self.counters.standings += u64::from(sent.is_ok());
    }

    /// Takes in an ask of a connection's source. An ask that is not newer than the last one changes
    /// nothing.
    pub(super) fn handle_ask(&mut self, now: Time, source: MemberId, ask: &Ask) {
        self.counters.asks += 1;
        let local = self.local.incarnation;
        let is_for_one = ask.only != Incarnation(0);
        if is_for_one && ask.only != local {
            return;
        }
        let number = ask.number;
        let id = ConnectionId { source, number };
        let wait = self
            .rng
            .duration(Duration::ZERO, ask.spread.min(SPREAD_MAX));
        let Some(end) = self.ends.ends.get_mut(&id) else {
            if is_for_one && self.ends.strangers.take(now) {
                self.tell_standing(id, ask.round);
            }
            return;
        };
        if ask.round <= end.round {
            self.counters.stale += 1;
            return;
        }
        if !end.allowance.take(now) {
            self.counters.unanswered += 1;
            return;
        }
        end.round = ask.round;
        if end.standing == Standing::Within {
            let ahead = ask.places.iter().filter(|place| **place > end.progress);
            end.places = ahead.copied().take(PLACES_MAX).collect();
        }
        let due = end
            .pending
            .map_or(now + wait, |(due, _)| due.min(now + wait));
        end.pending = Some((due, ask.round));
    }

    /// Gives the answers that are due.
    pub(super) fn answer_asks(&mut self, now: Time) {
        let ends = self.ends.ends.iter_mut();
        let due = ends.filter_map(|(id, end)| {
            let (_, round) = end.pending.take_if(|(due, _)| *due <= now)?;
            Some((*id, round))
        });
        let due: Vec<(ConnectionId, u32)> = due.collect();
        for (id, round) in due {
            self.tell_standing(id, round);
        }
    }
}
