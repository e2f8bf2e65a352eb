//! What the daemon's node carries: the ring, and the bimodal groups.
//!
//! A node is made for one type of protocol; this one is either. Calls are passed on and nothing is added.

use bytes::Bytes;
use groupcast_core::trace::Transition;
use groupcast_core::{Event, MemberId, Node, Protocol, SocketClass, Time, Transmit, TransmitBuf};
pub(crate) use groupcast_protocols::channel::{BIMODAL, RING};
use groupcast_protocols::ring::Ring;

use crate::bimodal::Bimodal;

/// An instance of the daemon's node.
pub(crate) enum Instance {
    /// On [`RING`].
    Ring(Box<Ring>),
    /// On [`BIMODAL`], where there are such groups.
    Bimodal(Box<Bimodal>),
}

/// The ring of a daemon's node.
pub(crate) fn ring(node: &Node<Instance>) -> Option<&Ring> {
    match node.instance(RING)? {
        Instance::Ring(ring) => Some(ring),
        Instance::Bimodal(_) => None,
    }
}

/// The ring of a daemon's node, for commands.
pub(crate) fn ring_mut(node: &mut Node<Instance>) -> Option<&mut Ring> {
    match node.instance_mut(RING)? {
        Instance::Ring(ring) => Some(ring),
        Instance::Bimodal(_) => None,
    }
}

/// The bimodal groups of a daemon's node, if it has any.
pub(crate) fn bimodal(node: &Node<Instance>) -> Option<&Bimodal> {
    match node.instance(BIMODAL)? {
        Instance::Bimodal(groups) => Some(groups),
        Instance::Ring(_) => None,
    }
}

/// The bimodal groups of a daemon's node, for commands.
pub(crate) fn bimodal_mut(node: &mut Node<Instance>) -> Option<&mut Bimodal> {
    match node.instance_mut(BIMODAL)? {
        Instance::Bimodal(groups) => Some(groups),
        Instance::Ring(_) => None,
    }
}

impl Instance {
    fn get(&self) -> &dyn Protocol<Event = Event> {
        match self {
            Self::Ring(ring) => &**ring,
            Self::Bimodal(groups) => &**groups,
        }
    }
}

impl Protocol for Instance {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        match self {
            Self::Ring(ring) => ring.handle_datagram(now, from, body),
            Self::Bimodal(groups) => groups.handle_datagram(now, from, body),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Ring(ring) => ring.handle_timeout(now),
            Self::Bimodal(groups) => groups.handle_timeout(now),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        match self {
            Self::Ring(ring) => ring.poll_transmit(now, buf),
            Self::Bimodal(groups) => groups.poll_transmit(now, buf),
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Ring(ring) => ring.poll_event(),
            Self::Bimodal(groups) => groups.poll_event(),
        }
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        match self {
            Self::Ring(ring) => ring.poll_transition(),
            Self::Bimodal(groups) => groups.poll_transition(),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.get().poll_timeout()
    }

    /// The ring's to say: the token is for it alone, and whoever has bimodal groups is in the ring too.
    fn read_first(&self) -> SocketClass {
        match self {
            Self::Ring(ring) => ring.read_first(),
            Self::Bimodal(_) => SocketClass::Token,
        }
    }
}
