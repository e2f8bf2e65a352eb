//! What reforms the group: polls, answers, proposals, announcements.

use alloc::vec::Vec;

use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::peers::{Attempt, Peers};
use groupcast_core::mech::seq::Seq;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, MemberId};

use super::lists::{Passed, passed, put_passed};
use super::{Kind, put_six, six};
use crate::rmp::config::{BODY_LEAST, GAP_MOST};
use crate::rmp::numbers::Number;

/// Positions that no group reaches; a peer's bug must not make ours overflow.
const SEQ_LIMIT: u64 = 1 << 47;
/// Counters of configurations that none of ours reaches, whatever it hears
/// (`Peers::next_counter`).
const COUNTER_LIMIT: u64 = 1 << 62;
/// The most bytes of [`Inventory::held`]: a bit for each position that an order keeps, with the
/// largest `gap_max`. This and the limits of lists keep what is told on (kind 59) far below the
/// longest datagram, though it is longer than it was heard.
const HELD_MAX: usize = (GAP_MOST as usize * 2).div_ceil(8);

/// The question which members are there (000 ch. 8: "repeatedly poll the sites listening").
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Poll {
    /// The poller's count of its polls: a lower one is stale, an equal one a repetition.
    pub(in crate::rmp) attempt: Attempt,
    /// The highest counter of a configuration that the poller has seen.
    pub(in crate::rmp) counter: u64,
    /// The members that should be in the next configuration.
    pub(in crate::rmp) wanted: Vec<MemberId>,
    /// Those that should not.
    pub(in crate::rmp) failed: Vec<MemberId>,
    /// Those that said good-bye.
    pub(in crate::rmp) left: Vec<MemberId>,
    /// The members that the poller hears: evidence for them that the way back works.
    pub(in crate::rmp) heard: Vec<MemberId>,
}

/// What is known of one member of an old configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(in crate::rmp) struct Declared {
    /// Up to which number it knows the positions of its own packets.
    pub(in crate::rmp) known: Number,
    /// Up to where it holds everything, and may deliver it as agreed.
    pub(in crate::rmp) ready: Seq,
    /// The last of its packets in which a message ends that comes early; all up to it are held.
    pub(in crate::rmp) early: Number,
}

/// What a member holds of its old configuration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct Inventory {
    /// The configuration, and how far all is held.
    pub(in crate::rmp) holding: Holding,
    /// MaxN of that configuration; 0 if there is none.
    pub(in crate::rmp) max_n: u16,
    /// What is known of each member of that configuration.
    pub(in crate::rmp) members: Vec<Declared>,
    /// The list that it passed last, as long as a member may be before it.
    pub(in crate::rmp) passed: Option<Passed>,
    /// How many members the configuration has, where it began with a list: the table has members of
    /// the past, too.
    pub(in crate::rmp) size: Option<u16>,
    /// For each position above aru, from the lowest bit of the first byte on, whether it is held
    /// with its packet.
    pub(in crate::rmp) held: Vec<u8>,
}

impl Inventory {
    /// How many members its configuration has.
    pub(in crate::rmp) fn size(&self) -> usize {
        self.size.map_or(self.members.len(), usize::from)
    }

    /// Whether `seq` is held.
    pub(in crate::rmp) fn has(&self, seq: Seq) -> bool {
        if seq <= self.holding.aru {
            return true;
        }
        let bit = seq.above(self.holding.aru) - 1;
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        self.held
            .get(byte)
            .is_some_and(|bits| bits >> (bit % 8) & 1 != 0)
    }

    /// Marks `seq`, which is above aru, as held.
    pub(in crate::rmp) fn insert(&mut self, seq: Seq) {
        let bit = seq.above(self.holding.aru) - 1;
        let byte = (bit / 8) as usize;
        if self.held.len() <= byte {
            self.held.resize(byte + 1, 0);
        }
        self.held[byte] |= 1 << (bit % 8);
    }
}

/// The answer to a poll.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct Answer {
    /// The poller, and which of its polls.
    pub(in crate::rmp) poller: MemberId,
    pub(in crate::rmp) attempt: Attempt,
    /// The highest counter of a configuration that the sender has seen.
    pub(in crate::rmp) counter: u64,
    /// The most bytes of a datagram body that its way carries.
    pub(in crate::rmp) body_max: u16,
    pub(in crate::rmp) inventory: Inventory,
}

/// The next configuration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct Proposal {
    /// The poll that it follows from.
    pub(in crate::rmp) attempt: Attempt,
    pub(in crate::rmp) config: ConfigId,
    /// Its positions begin above this one.
    pub(in crate::rmp) start: Seq,
    /// A majority of this many members must hold what is delivered as `majority`.
    pub(in crate::rmp) max_n: u16,
    pub(in crate::rmp) left: Vec<MemberId>,
    /// Its members, ascending, each with the configuration that it comes from.
    pub(in crate::rmp) members: Vec<(MemberId, ConfigId)>,
    /// Of each of them, the most bytes of a datagram body that its way carries.
    pub(in crate::rmp) sizes: Vec<u16>,
}

impl Proposal {
    /// The most bytes of a datagram body that the way of `member` carries.
    pub(in crate::rmp) fn size_of(&self, member: MemberId) -> Option<u16> {
        let mut members = self.members.iter().zip(&self.sizes);
        let found = members.find(|((it, _), _)| *it == member);
        found.map(|(_, size)| *size)
    }

    /// The most that the ways of all its members carry.
    pub(in crate::rmp) fn body_max(&self) -> u16 {
        self.sizes.iter().min().copied().unwrap_or_default()
    }
}

/// What a group tells strangers from time to time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Announcement {
    pub(in crate::rmp) config: ConfigId,
    pub(in crate::rmp) members: Vec<MemberId>,
    /// Strangers that the sender hears.
    pub(in crate::rmp) heard: Vec<MemberId>,
}

pub(super) fn counter(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let counter = reader.u64("counter")?;
    if counter < COUNTER_LIMIT {
        Ok(counter)
    } else {
        Err(reader.invalid("counter", counter))
    }
}

pub(super) fn config(reader: &mut Reader<'_>) -> Result<ConfigId, DecodeError> {
    Ok(ConfigId {
        counter: counter(reader)?,
        representative: reader.member("representative")?,
    })
}

pub(super) fn position(reader: &mut Reader<'_>, field: &'static str) -> Result<Seq, DecodeError> {
    let seq = six(reader, field)?;
    if seq < SEQ_LIMIT {
        Ok(Seq(seq))
    } else {
        Err(reader.invalid(field, seq))
    }
}

pub(super) fn members(
    reader: &mut Reader<'_>,
    field: &'static str,
) -> Result<Vec<MemberId>, DecodeError> {
    let count = reader.count(field, 16)?;
    (0..count).map(|_| reader.member(field)).collect()
}

/// The count of a list of at most `most` items of `item_len` bytes.
pub(super) fn count_to(
    reader: &mut Reader<'_>,
    field: &'static str,
    item_len: usize,
    most: usize,
) -> Result<usize, DecodeError> {
    let count = reader.count(field, item_len)?;
    if count <= most {
        Ok(count)
    } else {
        Err(reader.invalid(field, count as u64))
    }
}

pub(super) fn put_members(writer: &mut Writer<'_>, members: &[MemberId]) {
    writer.count(members.len());
    for member in members {
        writer.member(*member);
    }
}

pub(super) fn body_max(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    let body_max = reader.u16("body max")?;
    if usize::from(body_max) >= BODY_LEAST {
        Ok(body_max)
    } else {
        Err(reader.invalid("body max", u64::from(body_max)))
    }
}

/// MaxN: no configuration has more members than there are indices.
pub(super) fn max_n(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    let max_n = reader.u16("max n")?;
    if usize::from(max_n) <= Indices::MAX {
        Ok(max_n)
    } else {
        Err(reader.invalid("max n", u64::from(max_n)))
    }
}

pub(super) fn poll(reader: &mut Reader<'_>) -> Result<Poll, DecodeError> {
    Ok(Poll {
        attempt: Attempt(reader.u64("attempt")?),
        counter: counter(reader)?,
        wanted: members(reader, "wanted")?,
        failed: members(reader, "failed")?,
        left: members(reader, "left")?,
        heard: members(reader, "heard")?,
    })
}

pub(super) fn put_poll(writer: &mut Writer<'_>, poll: &Poll) {
    writer
        .u8(Kind::Poll as u8)
        .u64(poll.attempt.0)
        .u64(poll.counter);
    for list in [&poll.wanted, &poll.failed, &poll.left, &poll.heard] {
        put_members(writer, list);
    }
}

fn indices(reader: &mut Reader<'_>) -> Result<Indices, DecodeError> {
    let (high, low) = (reader.u64("obligations")?, reader.u64("obligations")?);
    Ok(Indices::from_bits(u128::from(high) << 64 | u128::from(low)))
}

fn inventory(reader: &mut Reader<'_>, listed: bool) -> Result<Inventory, DecodeError> {
    let holding = Holding {
        config: config(reader)?,
        aru: position(reader, "aru")?,
        high: position(reader, "high")?,
        safe: position(reader, "safe")?,
        obligations: indices(reader)?,
    };
    if holding.aru > holding.high || holding.safe > holding.aru {
        return Err(reader.invalid("aru", holding.aru.0));
    }
    let max_n = max_n(reader)?;
    let count = count_to(reader, "members", 18, Indices::MAX)?;
    let members: Result<Vec<Declared>, DecodeError> =
        (0..count).map(|_| declared(reader)).collect();
    let (mut size, mut behind) = (None, None);
    if listed {
        size = Some(reader.u16("size")?);
        if reader.u8("passed")? != 0 {
            let passed = passed(reader)?;
            if passed.from.counter >= holding.config.counter {
                return Err(reader.invalid("configuration before the list", passed.from.counter));
            }
            behind = Some(passed);
        }
    }
    let held = reader.rest();
    // No position above high is held.
    let most = holding.high.above(holding.aru).div_ceil(8);
    if held.len() as u64 > most || held.len() > HELD_MAX {
        return Err(reader.invalid("held", held.len() as u64));
    }
    Ok(Inventory {
        holding,
        max_n,
        members: members?,
        passed: behind,
        size,
        held: held.to_vec(),
    })
}

fn declared(reader: &mut Reader<'_>) -> Result<Declared, DecodeError> {
    Ok(Declared {
        known: Number(six(reader, "known")?),
        ready: position(reader, "ready")?,
        early: Number(six(reader, "early")?),
    })
}

/// An answer; with what is told after a list, if it is of the kind that is `listed`.
pub(super) fn answer(reader: &mut Reader<'_>, listed: bool) -> Result<Answer, DecodeError> {
    Ok(Answer {
        poller: reader.member("poller")?,
        attempt: Attempt(reader.u64("attempt")?),
        counter: counter(reader)?,
        body_max: body_max(reader)?,
        inventory: inventory(reader, listed)?,
    })
}

pub(super) fn put_answer(writer: &mut Writer<'_>, answer: &Answer) {
    let kind = match answer.inventory.size {
        Some(_) => Kind::AnswerListed,
        None => Kind::Answer,
    };
    writer
        .u8(kind as u8)
        .member(answer.poller)
        .u64(answer.attempt.0)
        .u64(answer.counter)
        .u16(answer.body_max);
    let Inventory {
        holding,
        max_n,
        members,
        passed,
        size,
        held,
    } = &answer.inventory;
    writer.config(holding.config);
    for mark in [holding.aru, holding.high, holding.safe] {
        put_six(writer, mark.0);
    }
    writer
        .put(&holding.obligations.bits().to_be_bytes())
        .u16(*max_n)
        .count(members.len());
    for member in members {
        put_six(writer, member.known.0);
        put_six(writer, member.ready.0);
        put_six(writer, member.early.0);
    }
    if let Some(size) = size {
        writer.u16(*size).u8(passed.is_some().into());
        if let Some(passed) = passed {
            put_passed(writer, passed);
        }
    }
    writer.put(held);
}

pub(super) fn proposal(reader: &mut Reader<'_>) -> Result<Proposal, DecodeError> {
    let attempt = Attempt(reader.u64("attempt")?);
    let id = config(reader)?;
    let start = position(reader, "start")?;
    let max_n = max_n(reader)?;
    let left = members(reader, "left")?;
    if left.len() > Peers::MAX {
        return Err(reader.invalid("left", left.len() as u64));
    }
    let count = count_to(reader, "members", 42, Indices::MAX)?;
    let mut members: Vec<(MemberId, ConfigId)> = Vec::with_capacity(count);
    let mut sizes = Vec::with_capacity(count);
    for _ in 0..count {
        let member = reader.member("member")?;
        if members.last().is_some_and(|(before, _)| *before >= member) {
            return Err(reader.invalid("member", member.node.0));
        }
        members.push((member, config(reader)?));
        sizes.push(body_max(reader)?);
    }
    Ok(Proposal {
        attempt,
        config: id,
        start,
        max_n,
        left,
        members,
        sizes,
    })
}

pub(super) fn put_proposal(writer: &mut Writer<'_>, proposal: &Proposal) {
    writer
        .u8(Kind::Proposal as u8)
        .u64(proposal.attempt.0)
        .config(proposal.config);
    put_six(writer, proposal.start.0);
    writer.u16(proposal.max_n);
    put_members(writer, &proposal.left);
    writer.count(proposal.members.len());
    for ((member, from), size) in proposal.members.iter().zip(&proposal.sizes) {
        writer.member(*member).config(*from).u16(*size);
    }
}

pub(super) fn announcement(reader: &mut Reader<'_>) -> Result<Announcement, DecodeError> {
    let config = config(reader)?;
    let count = count_to(reader, "members", 16, Indices::MAX)?;
    let all: Result<Vec<MemberId>, DecodeError> =
        (0..count).map(|_| reader.member("members")).collect();
    Ok(Announcement {
        config,
        members: all?,
        heard: members(reader, "heard")?,
    })
}

pub(super) fn put_announcement(writer: &mut Writer<'_>, announcement: &Announcement) {
    writer
        .u8(Kind::Announcement as u8)
        .config(announcement.config);
    put_members(writer, &announcement.members);
    put_members(writer, &announcement.heard);
}
