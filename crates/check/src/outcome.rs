//! How a run ended: what the caller knows beyond the histories, and what it expects at the end.
//!
//! Safety needs none of it; [`Outcome::default`] judges files of live daemons, where a history that
//! just ends may be of a member that was killed or of one that still runs.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{MemberId, MessageId};

/// How a member's history ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The member was alive when the run ended.
    Alive,
    /// It left gracefully.
    Left,
    /// It crashed; its history is whole up to there.
    Crashed,
    /// Nobody knows: it may have crashed or still run, and its last observations may be lost.
    Unknown,
}

/// What is known about the end of a run.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    /// How each history ended. One that ends in Leave or Crash needs no entry; any other without
    /// one is [`Ending::Unknown`].
    pub endings: BTreeMap<MemberId, Ending>,
    /// The run ended in quiescence: nothing was in flight and nobody had work left. Only then must
    /// members that are [`Ending::Alive`] have delivered everything. Default: false.
    pub complete: bool,
    /// The protocol has no configurations (bulk), so nobody needs to be in one. Default: false.
    pub without_configurations: bool,
    /// What must have come about by the end. Default: nothing.
    pub together: Vec<Together>,
    /// Who had heard of whom before what was sent. Default: nobody, so a member may begin with any
    /// message of a sender.
    pub heard_before: Vec<HeardBefore>,
}

/// A member that had heard of a sender before it sent these messages: if both live at the end, it
/// has delivered or reported the first of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeardBefore {
    /// Who owes the account.
    pub observer: MemberId,
    /// Of whose messages.
    pub sender: MemberId,
    /// From which number on.
    pub since: u64,
}

/// After healing: these members share one configuration at the end, and each has delivered these
/// messages.
#[derive(Clone, Default, Debug)]
pub struct Together {
    /// The members of the configuration that each of them is in at the end: exactly these.
    pub members: BTreeSet<MemberId>,
    /// Messages that each of them must have delivered.
    pub messages: Vec<MessageId>,
}
