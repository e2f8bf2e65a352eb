//! What was said in a reformation, asked of third members.

use alloc::boxed::Box;

use bytes::Bytes;
use groupcast_core::MemberId;
use groupcast_core::mech::peers::Attempt;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::{Kind, Message};

/// What `member` said is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Missing {
    /// The poller, and which of its polls.
    pub(in crate::rmp) poller: MemberId,
    pub(in crate::rmp) attempt: Attempt,
    pub(in crate::rmp) member: MemberId,
    /// True: its acceptance of the proposal is missing, or, where the member is the poller, the
    /// proposal. False: its answer to the poll.
    pub(in crate::rmp) accepts: bool,
}

/// What `member` said: an answer, a proposal or an acceptance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Told {
    pub(in crate::rmp) member: MemberId,
    pub(in crate::rmp) said: Box<Message>,
}

pub(super) fn missing(reader: &mut Reader<'_>) -> Result<Missing, DecodeError> {
    Ok(Missing {
        accepts: reader.u8("flags")? & 1 != 0,
        poller: reader.member("poller")?,
        attempt: Attempt(reader.u64("attempt")?),
        member: reader.member("member")?,
    })
}

pub(super) fn put_missing(writer: &mut Writer<'_>, missing: &Missing) {
    writer
        .u8(Kind::Missing as u8)
        .u8(u8::from(missing.accepts))
        .member(missing.poller)
        .u64(missing.attempt.0)
        .member(missing.member);
}

pub(super) fn told(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Message, DecodeError> {
    let member = reader.member("member")?;
    let body = bytes.slice(reader.position()..);
    let kind = reader.u8("kind of what was said")?;
    // Nothing that was told is told on.
    let is_said = [
        Kind::Answer,
        Kind::AnswerListed,
        Kind::Proposal,
        Kind::Accept,
    ]
    .into_iter()
    .any(|it| it as u8 == kind);
    if !is_said {
        return Err(reader.invalid("kind of what was said", u64::from(kind)));
    }
    let said = Box::new(Message::decode(&body)?);
    Ok(Message::Told(Told { member, said }))
}

pub(super) fn put_told(writer: &mut Writer<'_>, told: &Told) {
    let writer = writer.u8(Kind::Told as u8).member(told.member);
    writer.put(&told.said.encode());
}
