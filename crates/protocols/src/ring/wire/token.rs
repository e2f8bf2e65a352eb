//! The token.

use alloc::vec::Vec;

use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::{Kind, RingKey, key, put_key};
use crate::ring::numbers::{Hop, Index, Run, Seq};

/// The most runs of missing sequence numbers that a token carries.
pub(in crate::ring) const RTR_RUNS_MAX: usize = 64;

/// The extension with marks: until 8, and for each member how far its mark is below seq, 4.
const EXTENSION_MARKS: u8 = 1;
/// Stands for a mark of which nothing is known.
const UNKNOWN: u32 = u32::MAX;

const FLAG_IDLE: u8 = 1;
const FLAG_INSTALLED: u8 = 2;
const FLAG_CALLED: u8 = 4;
const NOBODY: Index = Index(u16::MAX);

/// The token (002 III-A), with what recovery and idling add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Token {
    pub(in crate::ring) ring: RingKey,
    /// Grows with every hop: tells a retransmitted token from the next one.
    pub(in crate::ring) hop: Hop,
    /// The last sequence number claimed.
    pub(in crate::ring) seq: Seq,
    /// All-received-up-to: no member is known to miss a packet up to here.
    pub(in crate::ring) aru: Seq,
    /// The member that lowered aru, if one did.
    pub(in crate::ring) aru_by: Option<Index>,
    /// Packets multicast during the last rotation, retransmissions included.
    pub(in crate::ring) fcc: u32,
    /// Retransmissions among them.
    pub(in crate::ring) retransmissions: u32,
    /// Recovery: packets that members still have to re-originate.
    pub(in crate::ring) backlog: u32,
    /// Recovery: who holds all up to here holds everything of its old ring.
    pub(in crate::ring) install: Option<Seq>,
    /// Recovery: some member has installed the ring.
    pub(in crate::ring) installed: bool,
    /// No member had anything to send: receivers acknowledge the token, the representative may hold
    /// it.
    pub(in crate::ring) idle: bool,
    /// It goes from the representative straight to a member that called for it, or straight back.
    pub(in crate::ring) called: bool,
    /// Missing packets, ascending.
    pub(in crate::ring) rtr: Vec<Run>,
    /// While resilient messages are about: who holds what.
    pub(in crate::ring) resilience: Option<Resilience>,
}

/// What the token tells of the members while messages are about that are delivered once some of
/// them, not all, hold them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Resilience {
    /// The last packet that has a part of such a message.
    pub(in crate::ring) until: Seq,
    /// Each member holds all up to its mark.
    pub(in crate::ring) marks: Vec<Seq>,
}

fn resilience(bytes: &[u8], last: Seq) -> Result<Resilience, DecodeError> {
    let mut reader = Reader::new(bytes);
    let until = Seq(reader.u64("until")?);
    if until > last {
        return Err(reader.invalid("until", until.0));
    }
    let mut marks = Vec::with_capacity(reader.remaining() / 4);
    while reader.remaining() > 0 {
        let below = reader.u32("mark")?;
        let mark = match below {
            UNKNOWN => Some(0),
            _ => last.0.checked_sub(u64::from(below)),
        };
        marks.push(Seq(
            mark.ok_or_else(|| reader.invalid("mark", below.into()))?
        ));
    }
    Ok(Resilience { until, marks })
}

fn put_resilience(writer: &mut Writer<'_>, resilience: &Resilience, last: Seq) {
    let len = 8 + 4 * resilience.marks.len();
    writer
        .u8(EXTENSION_MARKS)
        .u16(len as u16)
        .u64(resilience.until.0);
    for mark in &resilience.marks {
        let below = u32::try_from(last.above(*mark)).unwrap_or(UNKNOWN);
        writer.u32(below);
    }
}

pub(super) fn token(reader: &mut Reader<'_>) -> Result<Token, DecodeError> {
    let flags = reader.u8("flags")?;
    let mut token = Token {
        ring: key(reader)?,
        hop: Hop(reader.u64("hop")?),
        seq: Seq(reader.u64("seq")?),
        aru: Seq(reader.u64("aru")?),
        aru_by: Some(Index(reader.u16("aru by")?)).filter(|index| *index != NOBODY),
        fcc: reader.u32("fcc")?,
        retransmissions: reader.u32("retransmissions")?,
        backlog: reader.u32("backlog")?,
        install: Some(Seq(reader.u64("install")?)).filter(|seq| *seq != Seq::MAX),
        installed: flags & FLAG_INSTALLED != 0,
        idle: flags & FLAG_IDLE != 0,
        called: flags & FLAG_CALLED != 0,
        rtr: Vec::new(),
        resilience: None,
    };
    if token.aru > token.seq {
        return Err(reader.invalid("aru", token.aru.0));
    }
    let runs = reader.count("rtr", 10)?;
    if runs > RTR_RUNS_MAX {
        return Err(reader.invalid("rtr", runs as u64));
    }
    for _ in 0..runs {
        let run = Run {
            first: Seq(reader.u64("rtr first")?),
            count: reader.u16("rtr count")?,
        };
        let before = token.rtr.last();
        let follows = before.is_none_or(|before| run.first > before.end());
        if run.count == 0 || !follows || run.end().0 > token.seq.0.saturating_add(1) {
            return Err(reader.invalid("rtr first", run.first.0));
        }
        token.rtr.push(run);
    }
    while reader.remaining() > 0 {
        let kind = reader.u8("extension type")?;
        let len = reader.u16("extension length")?;
        let extension = reader.take("extension", usize::from(len))?;
        if kind == EXTENSION_MARKS {
            token.resilience = Some(resilience(extension, token.seq)?);
        }
    }
    Ok(token)
}

pub(super) fn put_token(writer: &mut Writer<'_>, token: &Token) {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(token.idle, FLAG_IDLE)
        | flag(token.installed, FLAG_INSTALLED)
        | flag(token.called, FLAG_CALLED);
    writer.u8(Kind::Token as u8).u8(flags);
    put_key(writer, token.ring);
    writer
        .u64(token.hop.0)
        .u64(token.seq.0)
        .u64(token.aru.0)
        .u16(token.aru_by.unwrap_or(NOBODY).0);
    writer
        .u32(token.fcc)
        .u32(token.retransmissions)
        .u32(token.backlog);
    writer
        .u64(token.install.unwrap_or(Seq::MAX).0)
        .count(token.rtr.len());
    for run in &token.rtr {
        writer.u64(run.first.0).u16(run.count);
    }
    if let Some(resilience) = &token.resilience {
        put_resilience(writer, resilience, token.seq);
    }
}
