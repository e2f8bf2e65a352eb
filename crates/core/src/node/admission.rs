//! Admission: a node takes datagrams of a sender only after the sender has echoed a fresh nonce of
//! the node.
//!
//! The seal proves that a datagram was made with the cluster's key, but not when it was made: a
//! recording of an earlier incarnation would pass. So the first datagram of an unknown sender
//! instance is dropped and answered with a challenge. The echo, sealed by that instance, proves
//! that the instance is alive now, binds its node to its incarnation, and starts its replay window.
//! Two peers admit each other in three datagrams.
//!
//! Nothing is kept for senders that are not admitted: the nonce is a [cookie](super::cookie), and
//! what they cost is [limited](super::limits). A challenge is no longer than the body that caused
//! it, or than the shortest challenge, which is seven bytes. A hello is addressed to the instance
//! that it challenges or answers, so that a recording of it says nothing to any other; a hello of
//! an admitted sender is taken once, as every datagram. A recorded echo would let its sender in
//! again after the sender was forgotten: so all cookies become void when a peer is forgotten.
//!
//! With its echo a member says whether multicasts reach it, which decides who gets
//! [copies](super::copies). A member that does not hear multicasts may not know of another that
//! has them. That one invites it, with a datagram that says nothing, to its address. It is answered
//! with a challenge, whatever is known of the sender, which is no longer.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use super::Reach;
use super::cookie::Cookies;
use super::copies::Copies;
use super::hello::{Cookie, Echo, Hello};
use super::limits::Limits;
use super::peer::{Peer, Recipient};
use super::rejected::Rejected;
use crate::id::{Incarnation, MemberId};
use crate::rng::Rng;
use crate::time::Time;
use crate::wire::Prefix;

/// Bounds of admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionConfig {
    /// The most admitted peers; the one heard longest ago makes room. Default 256. Too small for
    /// the group: peers challenge each other for ever.
    pub peers_max: usize,
    /// The most peers without multicast that a node with multicast admits, as each gets a copy of
    /// what is sent to the group; those that are gone do not count. Default 16. Too small: it keeps
    /// hosts without multicast out. Too large: whoever has the key can make each datagram leave so
    /// many times.
    pub copies_max: usize,
    /// Datagrams of unknown senders that are opened a second, each at the price of a key (some 3
    /// µs). Default 20,000. Too small: a flood keeps newcomers out for longer. Too large: it takes
    /// the processor from the group.
    pub openings_max: u32,
    /// The same for each source address (a few share an allowance). Default 2,000.
    pub source_openings_max: u32,
    /// Hellos a second to senders that have proved nothing. Default 4,000. Too small: large groups
    /// meet slowly. Too large: recordings make this node send more.
    pub answers_max: u32,
    /// A sender that does not answer is challenged again no sooner than this, then twice this, four
    /// times and so on for as long as a nonce holds. Default 5 ms.
    pub challenge_interval: Duration,
    /// A challenge can be answered for this long at least, for twice as long at most. Default 1 s.
    /// Too small: peers with a longer round trip never meet.
    pub challenge_lifetime: Duration,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        Self {
            peers_max: 256,
            copies_max: 16,
            openings_max: 20_000,
            source_openings_max: 2_000,
            answers_max: 4_000,
            challenge_interval: Duration::from_millis(5),
            challenge_lifetime: Duration::from_secs(1),
        }
    }
}

/// Whether a datagram may be handed to a protocol, by what is known of its sender.
pub(super) enum Standing {
    /// Of this admitted member, for the first time.
    Member(MemberId),
    /// Its counter was seen before.
    Replayed,
    /// Its sender is not admitted: it has been challenged.
    Unadmitted,
}

impl Standing {
    /// The member, or why the datagram is dropped.
    pub(super) fn judged(self) -> Result<MemberId, Rejected> {
        match self {
            Self::Member(member) => Ok(member),
            Self::Replayed => Err(Rejected::Replayed),
            Self::Unadmitted => Err(Rejected::Unadmitted),
        }
    }
}

/// Why a hello was dropped.
pub(super) enum Refusal {
    /// It was taken before.
    Replayed,
    /// Its sender has no multicast, and as many as may get copies do already.
    TooManyCopies,
}

/// A hello on its way out.
pub(super) struct OutgoingHello {
    /// Where the addressee was heard, or is expected.
    pub(super) to: SocketAddr,
    /// The incarnation that is challenged or answered; `None` for an invitation.
    pub(super) addressee: Option<Incarnation>,
    pub(super) hello: Hello,
    /// How many of its bytes to send.
    pub(super) len: usize,
}

/// A peer was admitted.
pub(super) struct Admitted {
    /// The peer that was dropped to make room for it.
    pub(super) evicted: Option<Incarnation>,
}

/// A datagram as far as admission looks at it.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) now: Time,
    pub(super) from: SocketAddr,
    pub(super) prefix: Prefix,
    /// Bytes of its body.
    pub(super) len: usize,
}

/// The table of admitted peers, and what strangers may cost.
pub(super) struct Admission {
    local: MemberId,
    config: AdmissionConfig,
    peers: BTreeMap<Incarnation, Peer>,
    copies: Copies,
    cookies: Cookies,
    limits: Limits,
    outgoing: VecDeque<OutgoingHello>,
}

impl Admission {
    /// Hellos that wait to be sent; more are dropped, and asked for again by the next datagram.
    const OUTGOING_MAX: usize = 256;

    pub(super) fn new(
        local: MemberId,
        reach: Reach,
        invited: Vec<SocketAddr>,
        config: AdmissionConfig,
        rng: &Rng,
    ) -> Self {
        Self {
            local,
            config,
            peers: BTreeMap::new(),
            copies: Copies::new(reach, config.copies_max, invited),
            cookies: Cookies::new(rng.fork("cookies"), config.challenge_lifetime),
            limits: Limits::new(rng.fork("limits"), &config),
            outgoing: VecDeque::new(),
        }
    }

    /// Whether a datagram of `sender` from `source`, whose key is not at hand, may be opened.
    pub(super) fn may_open(&mut self, now: Time, source: SocketAddr, sender: Incarnation) -> bool {
        self.peers.contains_key(&sender) || self.limits.may_open(now, source)
    }

    /// Judges a datagram, and challenges its sender where that is due.
    pub(super) fn handle_counter(&mut self, arrival: Arrival) -> Standing {
        let prefix = arrival.prefix;
        let Some(peer) = self.peers.get_mut(&prefix.sender) else {
            self.challenge(arrival);
            return Standing::Unadmitted;
        };
        let was_gone = peer.is_gone();
        if was_gone && !self.copies.may_return(peer) {
            return Standing::Unadmitted;
        }
        if !peer.take(arrival.now, prefix.counter) {
            return Standing::Replayed;
        }
        let member = peer.member(prefix.sender);
        if peer.address != arrival.from {
            // Either the peer has moved, or an attacker replays its datagram from elsewhere: the
            // answer to a challenge decides.
            self.challenge(arrival);
        }
        if was_gone {
            self.list_copies();
        }
        Standing::Member(member)
    }

    /// A hello that was sealed by its sender, fresh or not. Whom it admits, if anybody.
    pub(super) fn handle_hello(
        &mut self,
        arrival: Arrival,
        hello: Hello,
    ) -> Result<Option<Admitted>, Refusal> {
        let Arrival {
            now, from, prefix, ..
        } = arrival;
        let sender = prefix.sender;
        if let Some(peer) = self.peers.get_mut(&sender) {
            let was_gone = peer.is_gone();
            if was_gone && !self.copies.may_return(peer) {
                return Err(Refusal::TooManyCopies);
            }
            if !peer.take(now, prefix.counter) {
                return Err(Refusal::Replayed);
            }
            if was_gone {
                self.list_copies();
            }
        }
        let proof = hello
            .echo
            .filter(|echo| self.cookies.holds(now, sender, from, echo.cookie));
        // A sender that is refused is not answered, so that it does not admit this node.
        if proof.is_some_and(|echo| !echo.multicast && !self.has_room(sender, from)) {
            return Err(Refusal::TooManyCopies);
        }
        let admitted = proof.and_then(|echo| {
            let first = prefix.counter.saturating_add(1);
            let peer = Peer::new(now, echo.node, from, echo.multicast, first);
            self.admit(now, sender, peer)
        });
        if let Some(cookie) = hello.challenge {
            self.echo(arrival, cookie);
        }
        Ok(admitted)
    }

    /// Admits `sender` as `proved`. `None` if it is a peer already: what is new about it is noted.
    fn admit(&mut self, now: Time, sender: Incarnation, proved: Peer) -> Option<Admitted> {
        if let Some(peer) = self.peers.get_mut(&sender) {
            if (peer.address, peer.multicast) != (proved.address, proved.multicast) {
                peer.address = proved.address;
                peer.multicast = proved.multicast;
                self.list_copies();
            }
            return None;
        }
        let evicted = (self.peers.len() >= self.config.peers_max)
            .then(|| {
                self.peers
                    .iter()
                    .min_by_key(|(_, peer)| peer.heard)
                    .map(|(incarnation, _)| *incarnation)
            })
            .flatten();
        if let Some(evicted) = evicted {
            self.forget(now, evicted);
        }
        let copied = self.copies.depend_on_peers();
        if copied {
            let lives = self.peers.values_mut();
            let former = lives.filter(|peer| peer.node == proved.node);
            former.for_each(Peer::supersede);
        }
        let copied = copied || !proved.multicast;
        self.peers.insert(sender, proved);
        if copied {
            self.list_copies();
        }
        Some(Admitted { evicted })
    }

    /// Who gets copies may have changed.
    fn list_copies(&mut self) {
        let peers = self.peers.iter();
        let peers = peers.map(|(incarnation, peer)| (peer.member(*incarnation), peer));
        self.copies.list(peers);
    }

    /// Whether `sender`, which has no multicast and is heard at `address`, may get copies.
    fn has_room(&self, sender: Incarnation, address: SocketAddr) -> bool {
        let peer = self.peers.get(&sender);
        let has_place = peer.is_some_and(|peer| !peer.multicast && !peer.is_gone());
        has_place || self.copies.have_room_for(address)
    }

    fn forget(&mut self, now: Time, peer: Incarnation) {
        self.peers.remove(&peer);
        // Its window is gone: what it echoed must not open a new one.
        self.cookies.renew(now);
    }

    /// Admits a peer that has multicast on the host's word: no proof, and whatever it sends first
    /// is the first that counts.
    pub(super) fn trust(
        &mut self,
        now: Time,
        member: MemberId,
        address: SocketAddr,
    ) -> Option<Admitted> {
        let peer = Peer::new(now, member.node, address, true, 0);
        self.admit(now, member.incarnation, peer)
    }

    /// Copies are about to be sent: asks the peers that get them, and were not heard for a while,
    /// whether they are alive. Those that do not answer get none, until they are heard again.
    pub(super) fn ask_quiet(&mut self, now: Time) {
        if !self.copies.begin_asking(now) {
            return;
        }
        let mut gone = false;
        for (incarnation, peer) in &mut self.peers {
            if !self.copies.asks(peer) || self.outgoing.len() >= Self::OUTGOING_MAX {
                continue;
            }
            let was_gone = peer.is_gone();
            let is_asked = peer.note_chance_to_ask(now);
            gone |= peer.is_gone() && !was_gone;
            if !is_asked {
                continue;
            }
            let challenge = self.cookies.give(now, *incarnation, peer.address);
            self.outgoing.push_back(OutgoingHello {
                to: peer.address,
                addressee: Some(*incarnation),
                hello: Hello {
                    challenge: Some(challenge),
                    echo: None,
                },
                len: Hello::CHALLENGE_LEN,
            });
        }
        if gone {
            self.list_copies();
        }
    }

    /// Something is about to be sent to the group: invites the members without multicast that have
    /// not proved yet that they are there.
    pub(super) fn invite(&mut self, now: Time) {
        for to in self.copies.begin_inviting(now) {
            let is_there = |peer: &Peer| peer.address == *to && !peer.is_gone();
            if self.outgoing.len() < Self::OUTGOING_MAX && !self.peers.values().any(is_there) {
                self.outgoing.push_back(OutgoingHello {
                    to: *to,
                    addressee: None,
                    hello: Hello::NOTHING,
                    len: Hello::INVITATION_LEN,
                });
            }
        }
    }

    /// A sender that this node may know wants to be known by it, and to know it. Whether it is new.
    pub(super) fn handle_invitation(&mut self, arrival: Arrival) -> Standing {
        let standing = self.handle_counter(arrival);
        if let Standing::Member(_) = standing {
            // It would not ask if it had admitted this node.
            self.challenge(arrival);
        }
        standing
    }

    /// Asks the sender of a datagram for a proof, if that is due.
    fn challenge(&mut self, arrival: Arrival) {
        let Arrival {
            now,
            from,
            prefix,
            len,
        } = arrival;
        let span = self.cookies.span(now);
        let due = self.outgoing.len() < Self::OUTGOING_MAX
            && self.limits.may_challenge(now, span, prefix.sender);
        if due {
            let hello = Hello {
                challenge: Some(self.cookies.give(now, prefix.sender, from)),
                echo: None,
            };
            let len = len.clamp(Hello::CHALLENGE_LEN, Hello::LEN);
            self.send(arrival, hello, len);
        }
    }

    /// Answers a challenge, and challenges in turn where the sender is not admitted from there.
    fn echo(&mut self, arrival: Arrival, cookie: Cookie) {
        let Arrival {
            now, from, prefix, ..
        } = arrival;
        let sender = prefix.sender;
        let known = self
            .peers
            .get(&sender)
            .is_some_and(|peer| peer.address == from);
        let span = self.cookies.span(now);
        let due = self.outgoing.len() < Self::OUTGOING_MAX
            && (known || self.limits.may_echo(now, span, sender));
        if due {
            let hello = Hello {
                challenge: (!known).then(|| self.cookies.give(now, sender, from)),
                echo: Some(Echo {
                    node: self.local.node,
                    cookie,
                    multicast: self.copies.has_multicast(),
                }),
            };
            self.send(arrival, hello, Hello::LEN);
        }
    }

    fn send(&mut self, to: Arrival, hello: Hello, len: usize) {
        self.outgoing.push_back(OutgoingHello {
            to: to.from,
            addressee: Some(to.prefix.sender),
            hello,
            len,
        });
    }

    pub(super) fn poll_transmit(&mut self) -> Option<OutgoingHello> {
        self.outgoing.pop_front()
    }

    /// Where to send what is for `member` alone, if it is admitted.
    pub(super) fn recipient(&self, member: MemberId) -> Option<Recipient> {
        self.peers
            .get(&member.incarnation)
            .filter(|peer| peer.node == member.node)
            .map(Peer::recipient)
    }

    /// Who gets copies of what is sent to the group, each address once.
    pub(super) fn copies(&self) -> &[Recipient] {
        self.copies.recipients()
    }

    /// Where there is multicast, each peer that gets copies, and where; and which list that is.
    pub(super) fn copied_members(&self) -> (&[(MemberId, Recipient)], u64) {
        (self.copies.members(), self.copies.version())
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = (MemberId, SocketAddr)> {
        let peers = self.peers.iter();
        peers.map(|(incarnation, peer)| (peer.member(*incarnation), peer.address))
    }
}
