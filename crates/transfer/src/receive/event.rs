//! What a receiver tells its user.

use std::time::Duration;

use groupcast_net::Stranger;
use groupcast_protocols::bulk::TransferId;

/// A transfer, for people and programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The transfer that it concerns.
    pub id: TransferId,
    /// What its sender calls it.
    pub label: String,
    /// What its sender is called.
    pub sender: String,
    /// Bytes of its stream, manifest and hashes included; unknown for a pipe.
    pub length: Option<u64>,
}

/// Something that a receiver's user may want to see.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveEvent<'a> {
    /// It is ready for transfers.
    Listening,
    /// A transfer is taken.
    Accepted {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// Bytes of it that are here from an earlier one.
        held: u64,
    },
    /// A transfer is not taken: nothing of it was written.
    Refused {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
    },
    /// About ten times a second for each transfer that moves on.
    Progress {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// Bytes that are here.
        received: u64,
    },
    /// This receiver misses what the sender has released (protocol `xtp`). Files come again in a
    /// later pass; of a pipe nothing more comes.
    Outrun {
        /// The transfer that it concerns.
        transfer: &'a Described,
    },
    /// Everything is verified and in place.
    Complete {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// Bytes that arrived: what was held before is not among them.
        received: u64,
        /// Since it was accepted.
        took: Duration,
    },
    /// It broke off: nothing was put in place. If a move into place itself failed, `reason` says
    /// so; the rest follows when the receiver is started again, or the same content is sent.
    Failed {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
        /// Whether what has arrived is kept for the next attempt.
        kept: bool,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each of the two.
    Stranger(Stranger),
}

/// How a receiver ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Received {
    /// Transfers that are in place.
    pub complete: usize,
    /// Transfers that were taken and broke off.
    pub failed: usize,
}
