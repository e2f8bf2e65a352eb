//! The events of a receiver, for its user.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use groupcast_net::Stranger;
use groupcast_protocols::bulk::{Served, TransferId};

/// A transfer as events describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The transfer.
    pub id: TransferId,
    /// The sender's label for it.
    pub label: String,
    /// The sender's name.
    pub sender: String,
    /// The length of its stream, manifest and hashes included; `None` for a pipe.
    pub length: Option<u64>,
}

/// An event at a receiver.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveEvent<'a> {
    /// Other users can write to the directory: they can replace what arrives there.
    Shared {
        /// The directory.
        directory: &'a Path,
    },
    /// The directory, or the receiver's folder in it, was removed or moved away while the receiver
    /// ran. It was made anew for the next transfer; transfers under way fail, unless it was only
    /// moved within its file system.
    Renewed {
        /// The directory.
        directory: &'a Path,
    },
    /// The interface was gone and is back, or its address has changed: the receiver has joined the
    /// group again.
    Rejoined {
        /// Its new address; `None` if it is as before.
        address: Option<Ipv4Addr>,
    },
    /// The receiver cannot join the group or leave it, or not at the address that its interface has
    /// now. It tries again each second; reported once until that works.
    Trouble {
        /// What it cannot, and why, in words.
        problem: &'a str,
    },
    /// Something that goes on in spite of it, and that a user could do something about: the receive
    /// buffer is smaller than asked for, something of an earlier transfer in the directory cannot
    /// be put in place or removed, or is removed to make room.
    Warning {
        /// What it is, in words.
        problem: &'a str,
    },
    /// The receiver is ready for transfers.
    Listening,
    /// A transfer is taken.
    Accepted {
        /// The transfer.
        transfer: &'a Described,
        /// How many of its bytes are here from an earlier transfer.
        held: u64,
    },
    /// A transfer is refused: nothing of it was written.
    Refused {
        /// The transfer.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
    },
    /// The progress of a transfer, about ten times a second while bytes come.
    Progress {
        /// The transfer.
        transfer: &'a Described,
        /// How many bytes are here.
        received: u64,
    },
    /// When this receiver is served has changed: after the others, not before the sender goes on,
    /// or now.
    Served {
        /// The transfer.
        transfer: &'a Described,
        /// When.
        served: Served,
    },
    /// A stream that cannot be read again goes by, and began before this receiver came: nothing of
    /// it comes here. Told once for each.
    Missed {
        /// The address of its sender, if it is known.
        address: Option<SocketAddr>,
    },
    /// The sender has released data that this receiver misses (protocol `xtp`). Files come again in
    /// a later pass; of a pipe nothing more comes.
    Outrun {
        /// The transfer.
        transfer: &'a Described,
    },
    /// Everything is verified and in place.
    Complete {
        /// The transfer.
        transfer: &'a Described,
        /// How many bytes arrived, without those that were held before.
        received: u64,
        /// The time since it was accepted.
        took: Duration,
    },
    /// A transfer broke off: nothing was put in place. If a move into place itself failed, `reason`
    /// says so; the rest follows when the receiver is started again, or the same content is sent.
    /// If the [command](crate::Receiving::on_arrival) failed, everything is in place, and `reason`
    /// says that.
    Failed {
        /// The transfer.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
        /// Whether the bytes that have arrived are kept for the next attempt.
        kept: bool,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each host, and again after ten minutes.
    Stranger(Stranger),
}

/// The totals of a receiver that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Received {
    /// How many transfers are in place.
    pub complete: usize,
    /// How many transfers were taken and broke off.
    pub failed: usize,
    /// How many transfers were refused, but for those that came while a receiver that takes
    /// [one](crate::Receiving::once) had one.
    pub refused: usize,
}
