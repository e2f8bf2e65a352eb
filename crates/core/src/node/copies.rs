//! Who gets a unicast copy of what is sent to the group: the extended multicast address of 000 ch.
//! 8, an address of IP multicast and the members that it does not reach.
//!
//! A member that has multicast sends each datagram of the group once to the multicast address, and
//! a copy to each admitted peer that has said in its echo that it has none. A member without sends
//! a copy to each address of its configuration and to all that it has admitted. Nobody is in the
//! list on the word of a datagram alone: admission proves who says so, and that it is alive now.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use super::Reach;
use super::peer::{Peer, Recipient};
use crate::time::Time;

/// The addresses that get copies.
pub(super) struct Copies {
    reach: Reach,
    /// The most, where there is multicast.
    max: usize,
    recipients: Vec<Recipient>,
    /// Whether an admitted peer has no multicast.
    any_without: bool,
    /// When quiet peers are next asked whether they are alive.
    ask_at: Time,
}

impl Copies {
    /// How often quiet peers may be asked.
    const ASK_INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new(reach: Reach, max: usize) -> Self {
        let mut copies = Self {
            reach,
            max,
            recipients: Vec::new(),
            any_without: false,
            ask_at: Time::ZERO,
        };
        copies.list(core::iter::empty());
        copies
    }

    /// Each address once.
    pub(super) fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    /// Whether multicasts reach this member.
    pub(super) fn has_multicast(&self) -> bool {
        self.reach == Reach::Multicast
    }

    /// Whether the peers decide who gets copies, so that a change of them is to be
    /// [`list`](Self::list)ed.
    pub(super) fn depend_on_peers(&self) -> bool {
        self.any_without || !self.has_multicast()
    }

    /// Whether a peer without multicast at `address` may get copies.
    pub(super) fn have_room_for(&self, address: SocketAddr) -> bool {
        !self.has_multicast() || self.lists(address) || self.recipients.len() < self.max
    }

    /// Whether a peer that was gone, and is heard again, may be a peer as before: not if it has no
    /// multicast and others have its place.
    pub(super) fn may_return(&self, peer: &Peer) -> bool {
        peer.multicast || self.have_room_for(peer.address)
    }

    /// Whether quiet peers are to be asked now, at a moment at which copies are sent.
    pub(super) fn begin_asking(&mut self, now: Time) -> bool {
        let due = self.any_without && self.has_multicast() && now >= self.ask_at;
        if due {
            self.ask_at = now + Self::ASK_INTERVAL;
        }
        due
    }

    /// Makes the list anew.
    pub(super) fn list<'a>(&mut self, peers: impl Iterator<Item = &'a Peer> + Clone) {
        self.recipients.clear();
        self.any_without = peers.clone().any(|peer| !peer.multicast);
        let known = peers.filter(|peer| !peer.is_gone());
        let all: Vec<Recipient> = match &self.reach {
            Reach::Multicast => {
                let without = known.filter(|peer| !peer.multicast);
                without.map(Peer::recipient).collect()
            }
            Reach::Mesh(seeds) => {
                let configured = seeds.iter().map(|seed| {
                    let peer = known.clone().find(|peer| peer.address == *seed);
                    peer.map_or(Recipient::plain(*seed), Peer::recipient)
                });
                let admitted = known.clone().map(Peer::recipient);
                configured.chain(admitted).collect()
            }
        };
        for recipient in all {
            if !self.lists(recipient.address) {
                self.recipients.push(recipient);
            }
        }
    }

    fn lists(&self, address: SocketAddr) -> bool {
        self.recipients.iter().any(|it| it.address == address)
    }
}
