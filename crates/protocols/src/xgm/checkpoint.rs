//! Checkpoints (003 4.5.2): which members have the stream up to a place in it.
//!
//! The place names the checkpoint, as 003 proposes (the sequence number of the marker). The
//! source's entity sends the marker on the entities' own channel, and a member that reaches the
//! place says so out of band.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::MemberId;

/// Whether a member has the stream up to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holding {
    /// The member said that it has it.
    Has,
    /// The member said that it takes part no more and does not have it.
    HasNot,
    /// The member fell silent or does not know the connection any more, and had not said that it
    /// has it.
    Unknown,
    /// The member takes part, and has not reached the place yet.
    Open,
}

/// A member in an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accounted {
    /// The member.
    pub member: MemberId,
    /// Its name.
    pub name: Bytes,
    /// Whether it has the stream up to the place.
    pub holding: Holding,
    /// How far it had come when it last said so: bytes from the start of the stream.
    pub progress: u64,
}

/// The account of a checkpoint: every member that was watched when it was set, or joined later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The source's number of the connection.
    pub number: u32,
    /// The checkpoint's place: the account says who has the bytes below it.
    pub place: u64,
    /// Each member; none is [open](Holding::Open) once the checkpoint is settled.
    pub members: Vec<Accounted>,
}
