//! Checkpoints (003 4.5.2): who has the stream up to a place in it.
//!
//! A checkpoint is named by its place, as 003 proposes (the sequence number of the marker). The
//! marker is told on the entities' own channel; whoever comes to the place says so out of band.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::MemberId;

/// Whether a member has the stream up to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holding {
    /// It has it: it said so.
    Has,
    /// It has not, and takes part no more: it said so.
    HasNot,
    /// It fell silent, or does not know the connection any more, and had not said that it has it.
    Unknown,
    /// It takes part, and is not there yet.
    Open,
}

/// A member in an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accounted {
    /// Who.
    pub member: MemberId,
    /// What it is called.
    pub name: Bytes,
    /// Whether it has it.
    pub holding: Holding,
    /// How far it was when it last said so: bytes from the start of the stream.
    pub progress: u64,
}

/// What became of a checkpoint: every member that was watched then or came later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The source's number of the connection.
    pub number: u32,
    /// Its place: it is about the bytes below.
    pub place: u64,
    /// Each member; nobody is [open](Holding::Open) once it is over.
    pub members: Vec<Accounted>,
}
