//! An admitted peer: where it is, what reaches it, and whether it is heard.

use core::net::SocketAddr;
use core::time::Duration;

use crate::id::{Incarnation, MemberId, NodeId};
use crate::seal::ReplayWindow;
use crate::time::Time;

/// One address to which unicast datagrams go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it takes data at the port after that of `address`, as a member without multicast
    /// does. False for others, and for those that are not admitted: all goes to `address` then.
    pub data_apart: bool,
}

impl Recipient {
    /// What is sent to `address` goes there, whatever its class.
    pub(super) fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            data_apart: false,
        }
    }
}

pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) address: SocketAddr,
    /// Whether multicasts reach it, as it said itself.
    pub(super) multicast: bool,
    replay: ReplayWindow,
    pub(super) heard: Time,
    /// How often it was asked since whether it is alive.
    unanswered: u32,
}

impl Peer {
    /// A peer that is not heard for this long is asked whether it is alive, if copies go to it.
    const QUIET: Duration = Duration::from_secs(5);
    /// After this many questions without an answer it is taken for gone.
    const QUESTIONS_MAX: u32 = 10;
    /// Of a peer that is gone, one of this many chances to ask is taken.
    const GONE_PACE: u32 = 64;

    /// A peer whose datagrams count from counter `first` on.
    pub(super) fn new(
        now: Time,
        node: NodeId,
        address: SocketAddr,
        multicast: bool,
        first: u64,
    ) -> Self {
        Self {
            node,
            address,
            multicast,
            replay: ReplayWindow::starting_at(first),
            heard: now,
            unanswered: 0,
        }
    }

    /// Takes the datagram with `counter`; false if it was taken before.
    pub(super) fn take(&mut self, now: Time, counter: u64) -> bool {
        let new = self.replay.take(counter);
        if new {
            self.heard = now;
            self.unanswered = 0;
        }
        new
    }

    /// Whether it was asked in vain, or has begun a new life since.
    pub(super) fn is_gone(&self) -> bool {
        self.unanswered > Self::QUESTIONS_MAX
    }

    /// Its node has begun a new life.
    pub(super) fn supersede(&mut self) {
        self.unanswered = u32::MAX;
    }

    /// A chance to ask it whether it is alive: whether that is due.
    pub(super) fn note_chance_to_ask(&mut self, now: Time) -> bool {
        if now.since(self.heard) < Self::QUIET {
            return false;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        !self.is_gone() || self.unanswered.is_multiple_of(Self::GONE_PACE)
    }

    /// Who it is, if `incarnation` is its own.
    pub(super) fn member(&self, incarnation: Incarnation) -> MemberId {
        MemberId {
            node: self.node,
            incarnation,
        }
    }

    pub(super) fn recipient(&self) -> Recipient {
        Recipient {
            address: self.address,
            data_apart: !self.multicast,
        }
    }
}
