//! The ordering of one ring (002 III): the token's rules, the receive window, what is safe.
//! Requests for packets are in `requests`, marks for messages that some members must hold in
//! `resilience`.
//!
//! One value a ring, from its first token to the recovery after its last. It decides what a visit
//! of the token sends and how it changes the token; when the token comes and goes, and who the
//! members are, is decided elsewhere.

mod requests;
mod resilience;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::delivery::Cursor;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::marks::MarkTable;
use groupcast_core::mech::window::Insert;
use groupcast_core::{ConfigId, MemberId, Time};

use self::requests::Answer;
use super::config::{CLAIMED_MOST, RingConfig};
use super::delivery::Streams;
use super::numbers::{Attempt, Claimed, Hop, Index, REPRESENTATIVE, Round, Seq, Window};
use super::packet_size::PacketSize;
use super::planted::Plants;
use super::wire::{Data, Packet, Recovered, RingKey, RingTag, Token};
use crate::packing::Record;

/// State of one ring's order.
#[derive(Debug)]
pub(super) struct Ordering {
    pub(super) id: ConfigId,
    /// Ascending; the token goes from each to the next.
    pub(super) members: Vec<MemberId>,
    /// The attempts of the members that the ring was formed by, as the representative told them.
    pub(super) attempts: Vec<Attempt>,
    /// This member's place among them.
    pub(super) me: Index,
    pub(super) packet_size: PacketSize,
    pub(super) window: Window,
    pub(super) cursor: Cursor<Record>,
    pub(super) streams: Streams,
    /// All members hold all up to here (Global_aru; 002 III-A.4).
    pub(super) safe: Seq,
    /// Up to where each member holds all, as far as the token told; it tells while resilient
    /// messages are about.
    pub(super) marks: MarkTable,
    /// The last packet that is known to have a part of a message that waits for marks.
    resilient_until: Seq,
    /// A majority of this many members must hold what is delivered as `majority`.
    pub(super) max_n: usize,
    /// What of that this member knows itself, and declares when the next ring forms.
    pub(super) own_max_n: usize,
    /// The round of what is sent now.
    pub(super) round: Round,
    /// Hop of the last token that was taken.
    pub(super) hop: Hop,
    /// seq of the token received in the round before: retransmissions are requested up to here only
    /// (002 III-A.2).
    requestable: Seq,
    /// aru of the token sent in the round before.
    aru_sent: Seq,
    /// The last sequence number that this member claimed.
    pub(super) own_high: Seq,
    /// The member that holds the token's aru down, at which number, since when: shows a member that
    /// cannot receive.
    stuck: Option<(Index, Seq, Time)>,
    /// Where the token's aru is below its seq, and since when.
    behind: Option<(Seq, Time)>,
    /// Most requests to answer at a visit: fewer while answers are lost, as a burst larger than
    /// some queue would be again and again.
    answers_max: usize,
    /// Requests that this member answered: should they come again, another member answers.
    answers: BTreeMap<Seq, Answer>,
    /// What this member added to the token's fcc, retransmissions and backlog in the round before.
    contribution: Contribution,
    /// Members whose messages must be delivered behind a gap, because others may have installed the
    /// next ring relying on it (Totem's obligation set).
    pub(super) obligations: Indices,
    pub(super) plants: Plants,
}

#[derive(Clone, Copy, Default, Debug)]
struct Contribution {
    sent: u32,
    retransmissions: u32,
    backlog: u32,
}

/// What a visit may send (002 III-A.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) personal: u32,
    pub(super) global: u32,
    pub(super) seq_gap: u32,
}

/// What a visit sends: all retransmissions, then the new packets.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) retransmissions: Vec<Seq>,
    pub(super) new: Claimed,
    /// The window, not want of messages, ended the visit.
    pub(super) limited: bool,
}

/// The body of a new packet, and its old place if it is recovered from an old ring.
pub(super) type NewPacket = (Option<Recovered>, Bytes);

impl Ordering {
    /// A ring whose first packet is `start + 1`.
    pub(super) fn new(
        id: ConfigId,
        members: Vec<MemberId>,
        me: Index,
        start: Seq,
        packet_size: PacketSize,
        config: &RingConfig,
    ) -> Self {
        let max_n = members.len();
        let marks = MarkTable::new(max_n, start);
        let round = Hop::last_of_commit(max_n).round(max_n);
        let streams = Streams::new(members.len(), config.message_max);
        Self {
            id,
            attempts: vec![Attempt::default(); max_n],
            members,
            me,
            packet_size,
            window: Window::new(start, config.seq_gap_max as usize * 2),
            cursor: Cursor::new(start),
            streams,
            safe: start,
            marks,
            resilient_until: start,
            max_n,
            own_max_n: max_n,
            round,
            hop: Hop::default(),
            requestable: start,
            aru_sent: start,
            own_high: start,
            stuck: None,
            behind: None,
            answers_max: usize::MAX,
            answers: BTreeMap::new(),
            contribution: Contribution::default(),
            obligations: Indices::default(),
            plants: config.plants(),
        }
    }

    /// Whether `member` is of this ring.
    pub(super) fn has(&self, member: MemberId) -> bool {
        self.members.binary_search(&member).is_ok()
    }

    /// Whether the ring was formed by this attempt of `member`, or a later one.
    pub(super) fn is_formed_by(&self, member: MemberId, attempt: Attempt) -> bool {
        let place = self.members.binary_search(&member).ok();
        let formed = place.and_then(|place| self.attempts.get(place));
        formed.is_some_and(|formed| attempt <= *formed)
    }

    pub(super) fn key(&self) -> RingKey {
        self.id.into()
    }

    pub(super) fn tag(&self) -> RingTag {
        self.key().tag()
    }

    pub(super) fn is_representative(&self) -> bool {
        self.me == REPRESENTATIVE
    }

    /// The member to which `hops` hops lead from here: 1 to the successor.
    pub(super) fn after(&self, hops: u16) -> MemberId {
        self.members[(self.me.at() + usize::from(hops)) % self.members.len()]
    }

    /// Whether the token that came round says that everybody holds all that was ever claimed.
    pub(super) fn is_settled(&self, token: &Token) -> bool {
        self.stable(token.aru) == token.seq && token.rtr.is_empty()
    }

    /// Up to where all hold everything, if the token is here with `aru`: between this visit and the
    /// one before every member could lower it (002 III-A.4).
    fn stable(&self, aru: Seq) -> Seq {
        self.safe.max(self.aru_sent.min(aru))
    }

    /// The token that [is settled](Self::is_settled) is not passed on: what it says is taken note
    /// of. Whether it confirms packets that were not known to be everywhere.
    pub(super) fn note_settled(&mut self, token: &Token) -> bool {
        let before = core::mem::replace(&mut self.safe, token.seq);
        before < token.seq
    }

    pub(super) fn predecessor(&self) -> Index {
        Index(((self.me.at() + self.members.len() - 1) % self.members.len()) as u16)
    }

    /// The first token.
    pub(super) fn first_token(&self) -> Token {
        Token {
            ring: self.key(),
            hop: Hop::last_of_commit(self.members.len()),
            seq: self.safe,
            aru: self.safe,
            aru_by: None,
            fcc: 0,
            retransmissions: 0,
            backlog: 0,
            install: None,
            installed: false,
            idle: false,
            called: false,
            rtr: Vec::new(),
            resilience: None,
        }
    }

    /// Whether `token` can be this ring's next: a peer's bug, or a token of a life that we forgot,
    /// must not break us.
    pub(super) fn plausible(&self, token: &Token) -> bool {
        // Each hop leads to the next member: a token for another one, sent here by an adversary, is
        // not ours.
        token.hop.member(self.members.len()) == self.me.at()
            && token.seq >= self.requestable
            && token.seq.above(self.safe) <= CLAIMED_MOST
            && token.aru >= self.safe
            && token
                .aru_by
                .is_none_or(|index| index.at() < self.members.len())
            && token
                .resilience
                .as_ref()
                .is_none_or(|known| known.marks.len() == self.members.len())
    }

    /// A data packet arrived.
    pub(super) fn handle_data(&mut self, data: &Data) -> Insert {
        if data.packet.origin.at() >= self.members.len() {
            return Insert::Beyond;
        }
        self.window.insert(data.seq, data.packet.clone())
    }

    /// The token is here: claims sequence numbers for what `source` gives, answers and makes
    /// requests, and updates the token (002 III-A.1 and III-A.2). `backlog` is what this member
    /// still has to re-originate.
    pub(super) fn visit(
        &mut self,
        token: &mut Token,
        mut limits: Limits,
        mut source: impl FnMut() -> Option<NewPacket>,
    ) -> Visit {
        // Hops, not visits, are counted: a token that was called skips some members, who must not
        // fall behind.
        self.plants.limits_set(&mut limits);
        self.round = token.hop.round(self.members.len());
        let received_seq = token.seq;
        let retransmissions = self.answer_requests(token, limits);

        let aru_before = self.window.aru();
        let most = self.most_new(token, limits, retransmissions.len() as u32);
        let count = self.claim_new(token, most, &mut source);

        self.update_aru(token, aru_before);
        self.plants.aru_updated(token);
        self.update_counts(token, count as u32, retransmissions.len() as u32);
        self.make_requests(token);
        self.requestable = received_seq;
        self.safe = self.stable(token.aru);
        self.plants.safe_computed(&mut self.safe, token);
        self.aru_sent = token.aru;
        Visit {
            retransmissions,
            new: Claimed {
                above: received_seq,
                last: token.seq,
            },
            limited: count == most,
        }
    }

    /// The token is here because it was called: claims sequence numbers for what `source` gives,
    /// and returns them.
    ///
    /// All else stays as it is, in the token and here, as if it had not come. A packet is known to
    /// be held by all when every other member could lower aru between two visits (002 III-A.4). A
    /// called token skips those members, so this is no visit.
    pub(super) fn claim(
        &mut self,
        token: &mut Token,
        mut limits: Limits,
        mut source: impl FnMut() -> Option<NewPacket>,
    ) -> Claimed {
        self.plants.limits_set(&mut limits);
        self.round = token.hop.round(self.members.len());
        let received_seq = token.seq;
        let most = self.most_new(token, limits, 0);
        self.claim_new(token, most, &mut source);
        self.plants.claimed(token, self.window.aru());
        Claimed {
            above: received_seq,
            last: token.seq,
        }
    }

    /// 002 III-A.1: how many new packets a visit may send beside `retransmissions`.
    fn most_new(&self, token: &Token, limits: Limits, retransmissions: u32) -> u64 {
        let by_global = limits
            .global
            .saturating_sub(token.fcc)
            .saturating_sub(retransmissions);
        let by_gap = self.safe.plus(limits.seq_gap.into()).above(token.seq);
        // What is claimed is kept here, or nobody would ever have it.
        let by_room = self.window.room_above(token.seq);
        u64::from(limits.personal.min(by_global))
            .min(by_gap)
            .min(by_room)
    }

    /// Claims at most `most` numbers for what `source` gives; how many it were.
    fn claim_new(
        &mut self,
        token: &mut Token,
        most: u64,
        source: &mut impl FnMut() -> Option<NewPacket>,
    ) -> u64 {
        let mut count = 0;
        while count < most
            && let Some((recovered, body)) = source()
        {
            count += 1;
            token.seq = token.seq.next();
            let packet = Packet {
                origin: self.me,
                round: self.round,
                recovered,
                body,
            };
            self.window.insert(token.seq, packet);
            self.own_high = token.seq;
        }
        count
    }

    /// 002 III-A.2. The rules of Totem: lower aru to what is missing here; raise it if it was
    /// lowered here; let it move along with seq while no member misses anything. Calls leave it
    /// behind seq: then it rises to what is held here.
    fn update_aru(&self, token: &mut Token, aru_before: Seq) {
        let lowered_here = token.aru_by == Some(self.me);
        let complete = token.aru_by.is_none();
        if aru_before < token.aru {
            token.aru = aru_before;
            token.aru_by = Some(self.me);
        } else if lowered_here || complete {
            // The window's own mark includes the packets just claimed if nothing before them is
            // missing.
            token.aru = self.window.aru().min(token.seq);
            token.aru_by = (token.aru < token.seq).then_some(self.me);
        }
    }

    fn update_counts(&mut self, token: &mut Token, new: u32, retransmissions: u32) {
        let before = self.contribution;
        let now = Contribution {
            sent: new + retransmissions,
            retransmissions,
            backlog: before.backlog,
        };
        token.fcc = token
            .fcc
            .saturating_sub(before.sent)
            .saturating_add(now.sent);
        token.retransmissions = token
            .retransmissions
            .saturating_sub(before.retransmissions)
            .saturating_add(now.retransmissions);
        self.contribution = now;
    }

    /// Recovery: replaces this member's share of the token's backlog.
    pub(super) fn set_backlog(&mut self, token: &mut Token, backlog: u32) {
        token.backlog = token
            .backlog
            .saturating_sub(self.contribution.backlog)
            .saturating_add(backlog);
        self.contribution.backlog = backlog;
    }

    /// Forgets what everybody holds and what was delivered.
    pub(super) fn discard(&mut self) {
        self.window
            .discard_to(self.safe.min(self.cursor.delivered()));
    }
}

#[cfg(test)]
pub(super) mod tests;
