//! What forms a ring: joins, announcements, the commit token.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::peers::Peers;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, MemberId};

use super::Kind;
use crate::ring::config::BODY_LEAST;
use crate::ring::numbers::{Attempt, Hop, Seq};

const FLAG_LEAVING: u8 = 1;
/// Sequence numbers that no ring reaches; a peer's bug must not make ours overflow.
const SEQ_LIMIT: u64 = 1 << 47;
/// Counters of rings that none of ours reaches, whatever it hears
/// (`core::mech::peers::Peers::next_counter`).
const COUNTER_LIMIT: u64 = 1 << 62;

/// The most members that a commit token tells to have left.
pub(in crate::ring) const LEFT_MAX: usize = Peers::MAX;
/// The most marks of a commit token, those of all old rings together: with as many members as a
/// ring may have, as many old rings, and all that left, the token is still a datagram.
pub(in crate::ring) const MARKS_MAX: usize = 4096;

/// A member's view of who is there (Totem's join message).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Join {
    /// The sender's count of its own changes of mind: a lower one is stale, an equal one a
    /// repetition.
    pub(in crate::ring) attempt: Attempt,
    /// The highest ring counter that the sender has seen.
    pub(in crate::ring) counter: u64,
    /// The sender says good-bye.
    pub(in crate::ring) leaving: bool,
    /// Who should be in the next ring.
    pub(in crate::ring) proc: Vec<MemberId>,
    /// Who should not.
    pub(in crate::ring) fail: Vec<MemberId>,
    /// Who said good-bye.
    pub(in crate::ring) left: Vec<MemberId>,
    /// Strangers that the sender hears: evidence for them that the way back works.
    pub(in crate::ring) heard: Vec<MemberId>,
    /// The last position that the sender has received of.
    pub(in crate::ring) high: Seq,
    /// What the sender knows itself of MaxN.
    pub(in crate::ring) max_n: u16,
}

impl Join {
    /// Those that `from`, which sent it, wants in the next ring with it.
    pub(in crate::ring) fn wanted(&self, from: MemberId) -> impl Iterator<Item = MemberId> {
        let given_up: BTreeSet<&MemberId> = self.fail.iter().collect();
        let wanted = self.proc.iter().filter(move |it| !given_up.contains(it));
        wanted.copied().chain([from])
    }
}

/// The commit token: the next ring's members, and what each holds of its old ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Commit {
    /// Hop k·n + i arrives at member i on its k-th pass.
    pub(in crate::ring) hop: Hop,
    pub(in crate::ring) ring: ConfigId,
    pub(in crate::ring) left: Vec<MemberId>,
    pub(in crate::ring) members: Vec<CommitMember>,
    /// Of the old rings that had several members, or should have.
    pub(in crate::ring) marks: Vec<OldMarks>,
}

/// What the members of one old ring know together of how far each of that ring's members holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct OldMarks {
    pub(in crate::ring) ring: ConfigId,
    /// A majority of this many members held what was delivered as `majority` there.
    pub(in crate::ring) max_n: u16,
    /// By the index of the member in that ring.
    pub(in crate::ring) marks: Vec<Seq>,
}

impl OldMarks {
    /// How many more marks a commit token takes that has these.
    pub(in crate::ring) fn room(all: &[Self]) -> usize {
        let marks: usize = all.iter().map(|old| old.marks.len()).sum();
        match all.len() < Indices::MAX {
            true => MARKS_MAX.saturating_sub(marks),
            false => 0,
        }
    }
}

/// One member's part of the commit token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ring) struct CommitMember {
    pub(in crate::ring) member: MemberId,
    /// The attempt of its join that the representative agreed with.
    pub(in crate::ring) attempt: Attempt,
    /// The most bytes of a datagram body that its way carries; 0 until the token has passed it.
    pub(in crate::ring) body_max: u16,
    /// What it holds; `None` until the token has passed it.
    pub(in crate::ring) holding: Option<Holding>,
}

/// What a ring tells strangers from time to time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Announcement {
    pub(in crate::ring) ring: ConfigId,
    pub(in crate::ring) members: Vec<MemberId>,
    /// Strangers that the sender hears.
    pub(in crate::ring) heard: Vec<MemberId>,
}

fn counter(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let counter = reader.u64("counter")?;
    if counter < COUNTER_LIMIT {
        Ok(counter)
    } else {
        Err(reader.invalid("counter", counter))
    }
}

fn ring_id(reader: &mut Reader<'_>) -> Result<ConfigId, DecodeError> {
    Ok(ConfigId {
        counter: counter(reader)?,
        representative: reader.member("representative")?,
    })
}

fn members(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<MemberId>, DecodeError> {
    let count = reader.count(field, 16)?;
    (0..count).map(|_| reader.member(field)).collect()
}

fn put_members(writer: &mut Writer<'_>, members: &[MemberId]) {
    writer.count(members.len());
    for member in members {
        writer.member(*member);
    }
}

fn position(reader: &mut Reader<'_>, field: &'static str) -> Result<Seq, DecodeError> {
    let position = reader.u64(field)?;
    if position < SEQ_LIMIT {
        Ok(Seq(position))
    } else {
        Err(reader.invalid(field, position))
    }
}

pub(super) fn join(reader: &mut Reader<'_>) -> Result<Join, DecodeError> {
    let flags = reader.u8("flags")?;
    Ok(Join {
        leaving: flags & FLAG_LEAVING != 0,
        attempt: Attempt(reader.u64("attempt")?),
        counter: counter(reader)?,
        proc: members(reader, "proc")?,
        fail: members(reader, "fail")?,
        left: members(reader, "left")?,
        heard: members(reader, "heard")?,
        high: position(reader, "high")?,
        max_n: reader.u16("max n")?,
    })
}

fn indices(reader: &mut Reader<'_>) -> Result<Indices, DecodeError> {
    let (high, low) = (reader.u64("obligations")?, reader.u64("obligations")?);
    Ok(Indices::from_bits(u128::from(high) << 64 | u128::from(low)))
}

pub(super) fn commit(reader: &mut Reader<'_>) -> Result<Commit, DecodeError> {
    let hop = Hop(reader.u64("hop")?);
    let ring = ring_id(reader)?;
    let left = members(reader, "left")?;
    if left.len() > LEFT_MAX {
        return Err(reader.invalid("left", left.len() as u64));
    }
    let count = reader.count("members", 16 + 8 + 1 + 2 + 24 + 24 + 16)?;
    if count > Indices::MAX {
        return Err(reader.invalid("members", count as u64));
    }
    let mut parts: Vec<CommitMember> = Vec::with_capacity(count);
    for _ in 0..count {
        let member = reader.member("member")?;
        if parts.last().is_some_and(|before| before.member >= member) {
            return Err(reader.invalid("member", member.node.0));
        }
        let attempt = Attempt(reader.u64("attempt")?);
        let filled = reader.u8("filled")? != 0;
        let body_max = reader.u16("body max")?;
        if filled && usize::from(body_max) < BODY_LEAST {
            return Err(reader.invalid("body max", u64::from(body_max)));
        }
        let holding = Holding {
            config: ring_id(reader)?,
            aru: Seq(reader.u64("aru")?),
            high: Seq(reader.u64("high")?),
            safe: Seq(reader.u64("safe")?),
            obligations: indices(reader)?,
        };
        if filled
            && (holding.aru > holding.high
                || holding.safe > holding.aru
                || holding.high.0 >= SEQ_LIMIT)
        {
            return Err(reader.invalid("holding", holding.aru.0));
        }
        parts.push(CommitMember {
            member,
            attempt,
            body_max,
            holding: filled.then_some(holding),
        });
    }
    let marks = if reader.remaining() > 0 {
        all_marks(reader)?
    } else {
        Vec::new()
    };
    Ok(Commit {
        hop,
        ring,
        left,
        members: parts,
        marks,
    })
}

/// The marks of each old ring.
fn all_marks(reader: &mut Reader<'_>) -> Result<Vec<OldMarks>, DecodeError> {
    let count = reader.count("old rings", 24 + 2 + 2)?;
    if count > Indices::MAX {
        return Err(reader.invalid("old rings", count as u64));
    }
    let mut all: Vec<OldMarks> = Vec::with_capacity(count);
    for _ in 0..count {
        let old = old_marks(reader)?;
        if old.marks.len() > OldMarks::room(&all) {
            return Err(reader.invalid("marks", old.marks.len() as u64));
        }
        all.push(old);
    }
    Ok(all)
}

fn old_marks(reader: &mut Reader<'_>) -> Result<OldMarks, DecodeError> {
    let ring = ring_id(reader)?;
    let max_n = reader.u16("max n")?;
    let count = reader.count("marks", 8)?;
    if count > Indices::MAX {
        return Err(reader.invalid("marks", count as u64));
    }
    let mut marks = Vec::with_capacity(count);
    for _ in 0..count {
        marks.push(position(reader, "mark")?);
    }
    Ok(OldMarks { ring, max_n, marks })
}

fn put_old_marks(writer: &mut Writer<'_>, old: &[OldMarks]) {
    if old.is_empty() {
        return;
    }
    writer.count(old.len());
    for OldMarks { ring, max_n, marks } in old {
        writer.config(*ring).u16(*max_n).count(marks.len());
        for mark in marks {
            writer.u64(mark.0);
        }
    }
}

pub(super) fn put_commit(writer: &mut Writer<'_>, commit: &Commit) {
    writer
        .u8(Kind::Commit as u8)
        .u64(commit.hop.0)
        .config(commit.ring);
    put_members(writer, &commit.left);
    writer.count(commit.members.len());
    for CommitMember {
        member,
        attempt,
        body_max,
        holding,
    } in &commit.members
    {
        let empty = Holding {
            config: commit.ring,
            aru: Seq::ZERO,
            high: Seq::ZERO,
            safe: Seq::ZERO,
            obligations: Indices::default(),
        };
        let Holding {
            config,
            aru,
            high,
            safe,
            obligations,
        } = holding.unwrap_or(empty);
        writer
            .member(*member)
            .u64(attempt.0)
            .u8(holding.is_some().into())
            .u16(*body_max);
        writer
            .config(config)
            .u64(aru.0)
            .u64(high.0)
            .u64(safe.0)
            .put(&obligations.bits().to_be_bytes());
    }
    put_old_marks(writer, &commit.marks);
}

pub(super) fn put_join(writer: &mut Writer<'_>, join: &Join) {
    writer
        .u8(Kind::Join as u8)
        .u8(if join.leaving { FLAG_LEAVING } else { 0 });
    writer.u64(join.attempt.0).u64(join.counter);
    for list in [&join.proc, &join.fail, &join.left, &join.heard] {
        put_members(writer, list);
    }
    writer.u64(join.high.0).u16(join.max_n);
}

pub(super) fn announcement(reader: &mut Reader<'_>) -> Result<Announcement, DecodeError> {
    Ok(Announcement {
        ring: ring_id(reader)?,
        members: members(reader, "members")?,
        heard: members(reader, "heard")?,
    })
}

pub(super) fn put_announcement(writer: &mut Writer<'_>, announcement: &Announcement) {
    writer
        .u8(Kind::Announcement as u8)
        .config(announcement.ring);
    put_members(writer, &announcement.members);
    put_members(writer, &announcement.heard);
}
