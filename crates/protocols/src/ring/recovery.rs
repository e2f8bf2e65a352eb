//! Recovery: members of one old ring exchange what some of them lack of it, as packets of the new
//! ring; then the old configuration is finished and the new one installed (Totem, TOCS 1995,
//! section 6; EVS).
//!
//! The token carries the progress, so that no member can lag a rotation behind an installed one:
//! - `backlog`: packets that members still have to re-originate. A member that receives 0 twice in
//!   a row knows that all have contributed to it, and that nothing is left: it sets
//! - `install` to the token's seq. A member that holds the new ring up to there holds all that
//!   anybody held of its old ring.
//! - A member that receives the token with aru ≥ install twice in a row knows that all hold it: it
//!   installs the ring and says so (`installed`); the others follow when the token reaches them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::claims::Claims;
use groupcast_core::mech::closing::{Closing, start_above};
use groupcast_core::status::GivenUp;
use groupcast_core::{Configuration, ConfigurationKind, Event, MemberId, Time};

use super::config::{CLAIMED_MOST, RingConfig};
use super::gather::Gather;
use super::numbers::{Index, Round, Seq};
use super::operational::Operational;
use super::ordering::{NewPacket, Ordering};
use super::packet_size::PacketSize;
use super::parts::{PART_HEADER, Part, Partial, cut};
use super::wire::{Commit, Data, Packet, Recovered, Token};
use super::{Cause, Ring, State, Timer};
use crate::packing::refused;

/// The most bytes in parts of packets that are not whole. Honest members send one packet at a time
/// each, so that few are not whole: those of which a part was lost.
const PARTIAL_MOST: usize = 64 << 20;

/// The forming ring and what is to be recovered through it.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) ordering: Ordering,
    /// The last ring that was installed, into which recovered packets go.
    pub(super) old: Option<Ordering>,
    /// How the old ring is finished.
    pub(super) closing: Closing,
    left: Vec<MemberId>,
    /// Packets of the old ring that this member holds, not all members hold, and no member has
    /// re-originated yet.
    pub(super) queue: BTreeSet<Seq>,
    /// The rest of the packet that this member re-originates in parts.
    rest: VecDeque<NewPacket>,
    /// Packets of the old ring of which some parts have come: their number, and who sends them.
    /// What one sends is put together from its parts alone: it may cut otherwise than another one,
    /// or send no more.
    partial: BTreeMap<(Seq, Index), Partial>,
    /// Bytes of all of them.
    partial_bytes: usize,
    /// Packets that this member would re-originate if another one did not do so in parts; and
    /// whether one has come of them since the last visit.
    awaited: BTreeMap<Seq, bool>,
    /// Those with which another one began and did not go on: they are not left to others again.
    taken_up: BTreeSet<Seq>,
    /// A member that sent what no honest one sends: parts that contradict each other, or too many.
    liar: Option<Index>,
    /// What the transitional members know together of how far each member of the old ring holds it.
    marks: Vec<Seq>,
    /// Visits in a row at which the token's backlog was 0.
    clear_visits: u32,
    /// Visits in a row at which the token's aru covered `install`.
    complete_visits: u32,
    /// A ring of one: the token on its way to itself.
    pub(super) resting: Option<Token>,
    started: bool,
}

impl Recovery {
    /// What the commit token's declarations mean for this member.
    pub(super) fn new(
        commit: &Commit,
        local: MemberId,
        mut old: Option<Ordering>,
        claims: &Claims,
        config: &RingConfig,
    ) -> Self {
        let holdings = commit.holdings();
        let old_members = old.as_ref().map_or(&[][..], |old| &old.members);
        let closing = Closing::new(&holdings, local, old_members);
        if let Some(old) = &mut old {
            // Members with a larger gap hold more of the old ring than this one's window spans: up
            // to what any settings allow. A member that declares more is not honest.
            old.window
                .reach(closing.high.min(old.safe.plus(CLAIMED_MOST)));
        }
        let queue = match &old {
            Some(old) => closing
                .low
                .max(old.window.discarded())
                .up_to(closing.high.min(old.window.high()))
                .filter(|seq| old.window.get(*seq).is_some())
                .collect(),
            None => BTreeSet::new(),
        };
        let mut start = start_above(&holdings);
        config.plants().ring_starts(&mut start);
        let members: Vec<MemberId> = holdings.iter().map(|(member, _)| *member).collect();
        let me = members
            .iter()
            .position(|member| *member == local)
            .unwrap_or(0);
        let packet_size = PacketSize::agreed(commit, config);
        let mut ordering = Ordering::new(
            commit.ring,
            members,
            Index(me as u16),
            start,
            packet_size,
            config,
        );
        let parts = commit.members.iter();
        let declared = parts.filter(|part| part.holding.is_some());
        ordering.attempts = declared.map(|part| part.attempt).collect();
        (ordering.max_n, ordering.own_max_n) = commit.max_n(claims, &holdings, local, old.as_ref());
        let mut of_old = commit.marks.iter();
        let of_old = of_old.find(|it| old.as_ref().is_some_and(|old| old.id == it.ring));
        let mut recovery = Self {
            marks: of_old.map(|it| it.marks.clone()).unwrap_or_default(),
            closing,
            ordering,
            old,
            left: commit.left.clone(),
            queue,
            rest: VecDeque::new(),
            partial: BTreeMap::new(),
            partial_bytes: 0,
            awaited: BTreeMap::new(),
            taken_up: BTreeSet::new(),
            liar: None,
            clear_visits: 0,
            complete_visits: 0,
            resting: None,
            started: false,
        };
        config.plants().recovery_planned(&mut recovery);
        recovery
    }

    /// Whether there is room for the packet of the old ring that `data` brings, if it does. What is
    /// not kept counts as not come: the others would deliver it, and this member not.
    pub(super) fn has_room_for(&self, data: &Data) -> bool {
        let recovered = data.packet.recovered.as_ref();
        let of_ours = self.closing.same.get(data.packet.origin.at()) == Some(&true);
        match (recovered, &self.old) {
            (Some(recovered), Some(old)) if of_ours => {
                recovered.seq <= old.window.end() || recovered.seq > self.closing.high
            }
            _ => true,
        }
    }

    /// A packet of the new ring came: if it brings one of the old ring, that is kept, and need not
    /// be sent again.
    pub(super) fn handle_recovered(&mut self, data: &Data) {
        let (Some(recovered), Some(old)) = (data.packet.recovered, &self.old) else {
            return;
        };
        let Recovered { seq, origin, part } = recovered;
        // Nobody holds more than was declared.
        if self.closing.same.get(data.packet.origin.at()) != Some(&true)
            || origin.at() >= old.members.len()
            || seq > self.closing.high
        {
            return;
        }
        let mut whole = Some(data.packet.body.clone());
        if let Some(part) = part {
            let held = old.window.get(seq).is_some() || seq <= old.window.discarded();
            let is_left_to_others = self.queue.contains(&seq) || self.awaited.contains_key(&seq);
            if held && (!is_left_to_others || self.taken_up.contains(&seq)) {
                return;
            }
            whole = self.add_part(seq, data.packet.origin, part, &data.packet.body);
        }
        let Some(body) = whole else {
            return;
        };
        self.queue.remove(&seq);
        self.awaited.remove(&seq);
        self.forget_parts(seq);
        let packet = Packet {
            origin,
            round: Round::default(),
            recovered: None,
            body,
        };
        if let Some(old) = &mut self.old {
            old.window.insert(seq, packet);
        }
    }

    /// `sender` re-originates the packet of the old ring at `seq` in parts: one of them. All of the
    /// packet, once it is here. A member that holds it, too, leaves it to the sender as long as
    /// that goes on.
    fn add_part(&mut self, seq: Seq, sender: Index, part: Part, bytes: &Bytes) -> Option<Bytes> {
        if !part.is_long(bytes.len(), PacketSize::RECORDS_LEAST - PART_HEADER) {
            return None;
        }
        let partial = self.partial.entry((seq, sender)).or_default();
        if partial.contradicts(part, bytes) {
            self.liar = Some(sender);
            return None;
        }
        let before = partial.len();
        // A copy: the part is a slice of all that was received with it.
        let whole = partial.add(part, Bytes::copy_from_slice(bytes));
        let after = partial.len();
        self.partial_bytes = self.partial_bytes - before + after;
        if self.partial_bytes > PARTIAL_MOST {
            self.liar = self.sends_most_parts();
        }
        if after > before {
            if self.queue.remove(&seq) {
                self.awaited.insert(seq, true);
            } else if let Some(goes_on) = self.awaited.get_mut(&seq) {
                *goes_on = true;
            }
        }
        whole
    }

    /// Of whose packets most bytes are here in parts.
    fn sends_most_parts(&self) -> Option<Index> {
        let mut bytes: BTreeMap<Index, usize> = BTreeMap::new();
        for ((_, sender), partial) in &self.partial {
            *bytes.entry(*sender).or_default() += partial.len();
        }
        let most = bytes.into_iter().max_by_key(|(_, bytes)| *bytes);
        most.map(|(sender, _)| sender)
    }

    /// The packet of the old ring at `seq` is here: its parts are no more needed.
    fn forget_parts(&mut self, seq: Seq) {
        while let Some((which, _)) = self.partial.range((seq, Index(0))..).next()
            && which.0 == seq
        {
            let which = *which;
            let partial = self.partial.remove(&which);
            self.partial_bytes -= partial.map_or(0, |it| it.len());
        }
    }

    /// The token is here. If all that was sent before is, too, this member sends the packets itself
    /// that others began and did not go on with since the last such visit.
    fn take_up(&mut self, token: &Token) {
        if self.ordering.window.aru() < token.seq {
            return;
        }
        let mut left = Vec::new();
        self.awaited.retain(|seq, goes_on| {
            let waits = core::mem::take(goes_on);
            if !waits {
                left.push(*seq);
            }
            waits
        });
        for seq in left {
            self.forget_parts(seq);
            self.queue.insert(seq);
            self.taken_up.insert(seq);
        }
    }

    /// Whether this member has all packets of the new ring up to the end of recovery.
    fn holds_all(&self, token: &Token) -> bool {
        let install = token.install;
        install.is_some_and(|install| self.ordering.window.aru() >= install)
    }

    /// Whether the end of recovery was set although this member still has packets to send, which it
    /// said. Of what nobody sends whole, parts may remain: it is held by no honest member, and all
    /// lack it alike.
    fn is_cheated(&self, token: &Token) -> bool {
        self.holds_all(token) && self.backlog() > 0
    }

    /// Packets that this member still has to re-originate, or parts of them.
    fn backlog(&self) -> u32 {
        (self.queue.len() + self.rest.len() + self.awaited.len()) as u32
    }
}

/// What the packet of the old ring at `seq` is re-originated as, where packets have at most `most`
/// bytes of records: itself, or parts of it.
fn reoriginated(seq: Seq, packet: &Packet, most: usize) -> VecDeque<NewPacket> {
    let place = |part| Recovered {
        seq,
        origin: packet.origin,
        part,
    };
    if packet.body.len() <= most {
        return [(Some(place(None)), packet.body.clone())].into();
    }
    let parts = cut(&packet.body, most - PART_HEADER);
    let part = |(part, body): (Part, Bytes)| (Some(place(Some(part))), body);
    parts.map(part).collect()
}

impl Ring {
    /// The representative has the commit token back from its second pass: the ring's own token
    /// starts.
    pub(super) fn start_token(&mut self, now: Time) {
        let recovery = self.state.expect_recovery();
        if recovery.started {
            return;
        }
        recovery.started = true;
        let token = recovery.ordering.first_token();
        self.recovery_token(now, token);
    }

    /// The forming ring's token is here.
    pub(super) fn recovery_token(&mut self, now: Time, mut token: Token) {
        let recovery = self.state.expect_recovery();
        let covered = token.install.is_some_and(|install| token.aru >= install);
        recovery.complete_visits = if covered {
            recovery.complete_visits + 1
        } else {
            0
        };
        if let Some(liar) = recovery.liar {
            let liar = recovery.ordering.members[liar.at()];
            self.exclude_liar(now, liar);
            return;
        }
        if recovery.is_cheated(&token) {
            self.counters.malformed += 1;
            self.forming_failed(now);
            return;
        }
        let holds_all = recovery.holds_all(&token);
        if holds_all && (token.installed || recovery.complete_visits >= 2) {
            token.installed = true;
            self.install(now);
            self.operational_token(now, token);
            return;
        }
        recovery.clear_visits = if token.backlog == 0 {
            recovery.clear_visits + 1
        } else {
            0
        };

        recovery.take_up(&token);
        let limits = self.flow.limits();
        let (fcc, retransmissions) = (token.fcc, token.retransmissions);
        let Recovery {
            ordering,
            old,
            queue,
            rest,
            ..
        } = recovery;
        let most = ordering.packet_size.records_max();
        let visit = ordering.visit(&mut token, limits, || {
            if rest.is_empty() {
                let seq = queue.pop_first()?;
                *rest = reoriginated(seq, old.as_ref()?.window.get(seq)?, most);
            }
            rest.pop_front()
        });
        let backlog = recovery.backlog();
        recovery.ordering.set_backlog(&mut token, backlog);
        if recovery.clear_visits >= 2 && token.install.is_none() {
            token.install = Some(token.seq);
        }
        let holds_all = recovery.holds_all(&token) && !recovery.is_cheated(&token);
        if let Some(old) = recovery.old.as_mut().filter(|_| holds_all) {
            // From now on others may install the ring and rely on this member to deliver (Totem's
            // obligation set).
            old.obligations = old.obligations.union(recovery.closing.bound);
            old.plants.obliged(&mut old.obligations);
        }
        let members = recovery.ordering.members.len() as u32;
        self.flow
            .adapt(visit.limited && backlog > 0, members, fcc, retransmissions);
        let deaf = recovery
            .ordering
            .cannot_receive(now, &token, self.config.fail_to_receive);
        let bytes = recovery.ordering.missed_bytes(&token);
        let patience = self.config.fail_to_receive;
        let stuck = recovery.ordering.waits_in_vain(now, &token, patience);
        self.counters.visits += 1;
        if let Some(deaf) = deaf {
            self.exclude_deaf(now, deaf, bytes);
            return;
        }
        if stuck {
            self.forming_failed(now);
            return;
        }
        self.send_visit(now, &visit, token);
        self.state.expect_recovery().ordering.skip_recovered();
    }

    /// A member of the forming ring sent what no honest one sends. Others may have put together
    /// what this one did not, so it installs nothing with them; they form a ring without that
    /// member.
    fn exclude_liar(&mut self, now: Time, liar: MemberId) {
        self.counters.malformed += 1;
        if liar == self.local {
            self.forming_failed(now);
            return;
        }
        self.accuse(now, liar, GivenUp::Unbelievable);
        let mut gather = Gather::default();
        gather.fail.insert(liar);
        let cause = Cause::of("parts contradict each other", Some(liar));
        self.gather(now, cause, gather);
    }

    /// A ring without a majority of MaxN delivers no message that a majority must hold: those that
    /// wait are reported as lost, in order, and no more are taken.
    fn refuse_majority(&mut self) {
        if !self.state.expect_operational().ordering.is_minority() {
            return;
        }
        for number in self.queue.take_majority() {
            self.events.push_back(refused(self.local, number));
        }
    }

    /// Finishes the old configuration and begins the new one (EVS): the rest of the regular one,
    /// the transitional one and its messages, the next regular one.
    fn install(&mut self, now: Time) {
        let recovery = self.state.expect_recovery();
        let events = &mut self.events;
        if let Some(old) = &mut recovery.old {
            let mut emit = |event| events.push_back(event);
            old.plants.marks_shared(&mut recovery.marks);
            old.marks.merge(&recovery.marks);
            old.deliver_regular_end(recovery.closing.safe, &mut emit);
            emit(Event::Configuration(Configuration {
                kind: ConfigurationKind::Transitional,
                id: old.id,
                members: recovery.closing.members.clone(),
                left: recovery.left.clone(),
            }));
            let along = recovery.closing.members.len();
            old.deliver_transitional(recovery.closing.bound, along, &recovery.left, &mut emit);
            old.plants.old_ring_finished(events);
        }
        events.push_back(Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: recovery.ordering.id,
            members: recovery.ordering.members.clone(),
            left: recovery.left.clone(),
        }));
        self.transition("all hold all", |before| match before {
            State::Recovery(recovery) => {
                State::Operational(Operational::new(now, recovery.ordering))
            }
            other => other,
        });
        self.config.plants().rewind(&mut self.queue);
        self.refuse_majority();
        self.claims.clear();
        self.goodbyes.clear();
        self.reach.forget_unacknowledged();
        let ring = &self.state.expect_operational().ordering;
        self.peers.note_installed(ring.id.counter);
        self.peers.note_well(now, &ring.members);
        self.absences.end(now, &ring.members);
        self.counters.configurations += 1;
        self.timers.set(Timer::Loss, now + self.token_loss());
        self.plan_first_announcement(now);
    }
}

#[cfg(test)]
mod tests;
