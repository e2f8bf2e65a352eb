//! Who gets a unicast copy of what is sent to the group: the extended multicast address of 000 ch.
//! 8, an address of IP multicast and the members that it does not reach.
//!
//! A member that has multicast sends each datagram of the group once to the multicast address, and
//! a copy to each admitted peer that has said in its echo that it has none. A member without sends
//! a copy to each address of its configuration and to all that it has admitted. Nobody is in the
//! list on the word of a datagram alone: admission proves who says so, and that it is alive now.
//!
//! Of two members of which one has no multicast, one must know the other's address. The one that
//! has none knows it by its configuration; or the other *invites* it: it sends a datagram that says
//! nothing to the address now and then, until a peer there is admitted, and nothing else before.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use super::Reach;
use super::peer::{Peer, Recipient};
use crate::id::MemberId;
use crate::time::Time;

/// The addresses that get copies.
pub(super) struct Copies {
    reach: Reach,
    /// The most, where there is multicast.
    max: usize,
    recipients: Vec<Recipient>,
    /// Where there is multicast, the peers behind the recipients: two lives of a host have one
    /// address.
    members: Vec<(MemberId, Recipient)>,
    /// How often the list was made.
    version: u64,
    /// Whether an admitted peer has no multicast.
    any_without: bool,
    /// Whether there is a peer that gets copies only as long as it is heard.
    any_asked: bool,
    /// When quiet peers are next asked whether they are alive.
    ask_at: Time,
    /// Addresses of members without multicast that need not know this one.
    invited: Vec<SocketAddr>,
    /// When they are next invited.
    invite_at: Time,
}

impl Copies {
    /// How often quiet peers may be asked.
    const ASK_INTERVAL: Duration = Duration::from_secs(1);
    /// How often those that have not come may be invited.
    const INVITE_INTERVAL: Duration = Duration::from_millis(200);

    pub(super) fn new(reach: Reach, max: usize, invited: Vec<SocketAddr>) -> Self {
        let mut copies = Self {
            reach,
            max,
            recipients: Vec::new(),
            members: Vec::new(),
            version: 0,
            any_without: false,
            any_asked: false,
            ask_at: Time::ZERO,
            invited,
            invite_at: Time::ZERO,
        };
        copies.list(core::iter::empty());
        copies
    }

    /// Each address once.
    pub(super) fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    /// Where there is multicast, each peer that gets copies, and where.
    pub(super) fn members(&self) -> &[(MemberId, Recipient)] {
        &self.members
    }

    /// Another one for each list.
    pub(super) fn version(&self) -> u64 {
        self.version
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
        let due = self.any_asked && now >= self.ask_at;
        if due {
            self.ask_at = now + Self::ASK_INTERVAL;
        }
        due
    }

    /// Whether `peer` gets copies only as long as it is heard: those of the configuration get them
    /// in any case.
    pub(super) fn asks(&self, peer: &Peer) -> bool {
        match &self.reach {
            Reach::Multicast => !peer.multicast,
            Reach::Mesh(seeds) => !seeds.contains(&peer.address),
        }
    }

    /// The addresses to be invited now, at a moment at which something is sent to the group: those
    /// from which no peer is heard.
    pub(super) fn begin_inviting(&mut self, now: Time) -> &[SocketAddr] {
        if self.invited.is_empty() || now < self.invite_at {
            return &[];
        }
        self.invite_at = now + Self::INVITE_INTERVAL;
        &self.invited
    }

    /// Makes the list anew.
    pub(super) fn list<'a>(&mut self, peers: impl Iterator<Item = (MemberId, &'a Peer)> + Clone) {
        self.recipients.clear();
        self.members.clear();
        self.version += 1;
        self.any_without = peers.clone().any(|(_, peer)| !peer.multicast);
        self.any_asked = peers.clone().any(|(_, peer)| self.asks(peer));
        let known = peers.filter(|(_, peer)| !peer.is_gone());
        let all: Vec<Recipient> = match &self.reach {
            Reach::Multicast => {
                let without = known.filter(|(_, peer)| !peer.multicast);
                let without = without.map(|(member, peer)| (member, peer.recipient()));
                self.members.extend(without);
                self.members.iter().map(|(_, it)| *it).collect()
            }
            Reach::Mesh(seeds) => {
                let known = known.map(|(_, peer)| peer);
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
