//! Admission: a node takes datagrams of a sender only after the sender has echoed a fresh nonce of
//! the node.
//!
//! The seal proves that a datagram was made with the cluster's key, but not when it was made: a
//! recording of an earlier incarnation would pass. So the first datagram of an unknown sender
//! instance is dropped and answered with a challenge. The echo, sealed by that instance, proves
//! that the instance is alive now, binds its node to its incarnation, and starts its replay window.
//! Two peers admit each other in three datagrams. The state kept for senders that are not admitted
//! is bounded, and a challenge is never larger than the datagram that caused it. A hello is
//! addressed to the instance that it challenges or answers, so that a recording of it says nothing
//! to any other.
//!
//! Body of a hello (25 bytes): node (8), challenge (8; 0 = none), echo (8; 0 = none), one byte
//! reserved (0).

use alloc::collections::{BTreeMap, VecDeque};
use core::net::SocketAddr;
use core::time::Duration;

use crate::id::{Incarnation, MemberId, NodeId};
use crate::rng::Rng;
use crate::seal::ReplayWindow;
use crate::time::Time;
use crate::wire::{DecodeError, Prefix, Reader};

/// Bounds of admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionConfig {
    /// The most admitted peers; the one heard longest ago makes room. Default 256. Too small for
    /// the group: peers challenge each other for ever.
    pub peers_max: usize,
    /// The most senders under challenge at once. Default 128. A flood of unknown instances beyond
    /// it is dropped.
    pub pending_max: usize,
    /// A sender under challenge is challenged again no sooner than this. Default 5 ms.
    pub challenge_interval: Duration,
    /// A challenge unanswered for this long makes room for another. Default 1 s.
    pub challenge_lifetime: Duration,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        Self {
            peers_max: 256,
            pending_max: 128,
            challenge_interval: Duration::from_millis(5),
            challenge_lifetime: Duration::from_secs(1),
        }
    }
}

/// The node's own message: a challenge, an echo, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The node that sends the hello; its incarnation is in the datagram's prefix.
    pub node: NodeId,
    /// A nonce to be echoed.
    pub challenge: Option<u64>,
    /// The nonce of the other side's challenge.
    pub echo: Option<u64>,
}

impl Hello {
    const LEN: usize = 25;

    /// Encodes it as it is on the wire.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..8].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.challenge.unwrap_or(0).to_be_bytes());
        bytes[16..24].copy_from_slice(&self.echo.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// Reads a hello. What a later version appends is skipped.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let node = NodeId(reader.u64("node")?);
        let challenge = Some(reader.u64("challenge")?).filter(|nonce| *nonce != 0);
        let echo = Some(reader.u64("echo")?).filter(|nonce| *nonce != 0);
        Ok(Self {
            node,
            challenge,
            echo,
        })
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

/// A hello on its way out.
pub(super) struct OutgoingHello {
    /// Where the addressee was heard.
    pub(super) to: SocketAddr,
    /// The incarnation that is challenged or answered.
    pub(super) addressee: Incarnation,
    pub(super) hello: Hello,
}

/// A peer was admitted.
pub(super) struct Admitted {
    /// The peer that was dropped to make room for it.
    pub(super) evicted: Option<Incarnation>,
}

struct Peer {
    node: NodeId,
    address: SocketAddr,
    replay: ReplayWindow,
    heard: Time,
}

struct Pending {
    nonce: u64,
    since: Time,
    challenged: Time,
}

/// The table of admitted peers and of those under challenge.
pub(super) struct Admission {
    local: MemberId,
    config: AdmissionConfig,
    rng: Rng,
    peers: BTreeMap<Incarnation, Peer>,
    pending: BTreeMap<Incarnation, Pending>,
    outgoing: VecDeque<OutgoingHello>,
}

impl Admission {
    /// Hellos that wait to be sent; more are dropped, and asked for again by the next datagram.
    const OUTGOING_MAX: usize = 256;

    pub(super) fn new(local: MemberId, config: AdmissionConfig, rng: Rng) -> Self {
        Self {
            local,
            config,
            rng,
            peers: BTreeMap::new(),
            pending: BTreeMap::new(),
            outgoing: VecDeque::new(),
        }
    }

    /// Judges a datagram with `prefix`, and challenges its sender where that is due.
    pub(super) fn handle_counter(
        &mut self,
        now: Time,
        from: SocketAddr,
        prefix: Prefix,
    ) -> Standing {
        let Some(peer) = self.peers.get_mut(&prefix.sender) else {
            self.challenge(now, from, prefix.sender, None);
            return Standing::Unadmitted;
        };
        if !peer.replay.take(prefix.counter) {
            return Standing::Replayed;
        }
        peer.heard = now;
        let member = MemberId {
            node: peer.node,
            incarnation: prefix.sender,
        };
        if peer.address != from {
            // Either the peer has moved, or an attacker replays its datagram from elsewhere: the
            // answer to a challenge decides.
            self.challenge(now, from, prefix.sender, None);
        }
        Standing::Member(member)
    }

    /// A hello that was sealed by `prefix.sender`, fresh or not.
    pub(super) fn handle_hello(
        &mut self,
        now: Time,
        from: SocketAddr,
        prefix: Prefix,
        hello: Hello,
    ) -> Option<Admitted> {
        let sender = prefix.sender;
        let proved = self
            .pending
            .get(&sender)
            .is_some_and(|pending| hello.echo == Some(pending.nonce));
        let admitted = proved.then(|| {
            self.pending.remove(&sender);
            let incarnation = sender;
            let node = hello.node;
            let member = MemberId { node, incarnation };
            self.admit(now, from, member, prefix.counter.saturating_add(1))
        });
        if let Some(nonce) = hello.challenge {
            self.challenge(now, from, sender, Some(nonce));
        }
        admitted
    }

    /// Admits `member` at `address`; its datagrams are taken from counter `first` on.
    fn admit(&mut self, now: Time, address: SocketAddr, member: MemberId, first: u64) -> Admitted {
        if let Some(peer) = self.peers.get_mut(&member.incarnation) {
            peer.address = address;
            return Admitted { evicted: None };
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
            self.peers.remove(&evicted);
        }
        self.peers.insert(
            member.incarnation,
            Peer {
                node: member.node,
                address,
                replay: ReplayWindow::starting_at(first),
                heard: now,
            },
        );
        Admitted { evicted }
    }

    /// Admits a peer that the host vouches for: without proof, and with a replay window that begins
    /// with the first datagram that comes.
    pub(super) fn trust(&mut self, now: Time, member: MemberId, address: SocketAddr) -> Admitted {
        self.pending.remove(&member.incarnation);
        self.admit(now, address, member, 0)
    }

    /// Answers a challenge (`echo`) and challenges in turn, where the sender is not admitted from
    /// this address.
    fn challenge(&mut self, now: Time, to: SocketAddr, sender: Incarnation, echo: Option<u64>) {
        let known = self
            .peers
            .get(&sender)
            .is_some_and(|peer| peer.address == to);
        let challenge = if known {
            None
        } else {
            self.nonce_for(now, sender, echo.is_some())
        };
        if (challenge.is_some() || echo.is_some()) && self.outgoing.len() < Self::OUTGOING_MAX {
            self.outgoing.push_back(OutgoingHello {
                to,
                addressee: sender,
                hello: Hello {
                    node: self.local.node,
                    challenge,
                    echo,
                },
            });
        }
    }

    /// The nonce to challenge `sender` with now; `None` if it was challenged just now or there is
    /// no room.
    fn nonce_for(&mut self, now: Time, sender: Incarnation, answering: bool) -> Option<u64> {
        if let Some(pending) = self.pending.get_mut(&sender) {
            if !answering && now.since(pending.challenged) < self.config.challenge_interval {
                return None;
            }
            pending.challenged = now;
            return Some(pending.nonce);
        }
        if self.pending.len() >= self.config.pending_max {
            let lifetime = self.config.challenge_lifetime;
            self.pending
                .retain(|_, pending| now.since(pending.since) < lifetime);
            if self.pending.len() >= self.config.pending_max {
                return None;
            }
        }
        let nonce = self.rng.next_u64().max(1);
        self.pending.insert(
            sender,
            Pending {
                nonce,
                since: now,
                challenged: now,
            },
        );
        Some(nonce)
    }

    pub(super) fn poll_transmit(&mut self) -> Option<OutgoingHello> {
        self.outgoing.pop_front()
    }

    pub(super) fn address(&self, member: MemberId) -> Option<SocketAddr> {
        self.peers
            .get(&member.incarnation)
            .filter(|peer| peer.node == member.node)
            .map(|peer| peer.address)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.values().map(|peer| peer.address)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = (MemberId, SocketAddr)> {
        self.peers.iter().map(|(incarnation, peer)| {
            (
                MemberId {
                    node: peer.node,
                    incarnation: *incarnation,
                },
                peer.address,
            )
        })
    }
}
