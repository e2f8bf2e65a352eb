//! Who is there: every process says hello to all a few times when it begins.

use std::collections::BTreeSet;
use std::time::Duration;

use groupcast_core::{Destination, MemberId, Rng, SocketClass, Time, Transmit, TransmitBuf};

use super::{Kind, Packet};

/// How often each says hello: the first one is for the nodes to admit each other.
const HELLOS: u32 = 6;
const INTERVAL: Duration = Duration::from_millis(50);

/// Those who said hello.
pub(in crate::papers) struct Roster {
    members: BTreeSet<MemberId>,
    hellos: u32,
    next: Time,
}

impl Roster {
    /// Nobody yet.
    pub(in crate::papers) fn new(mut rng: Rng, now: Time) -> Self {
        Self {
            members: BTreeSet::new(),
            hellos: 0,
            next: now + rng.duration(Duration::ZERO, INTERVAL),
        }
    }

    pub(in crate::papers) fn handle_hello(&mut self, from: MemberId) {
        self.members.insert(from);
    }

    pub(in crate::papers) fn poll_timeout(&self) -> Option<Time> {
        (self.hellos < HELLOS).then_some(self.next)
    }

    pub(in crate::papers) fn poll_transmit(
        &mut self,
        now: Time,
        buf: &mut TransmitBuf,
    ) -> Option<Transmit> {
        if self.hellos >= HELLOS || now < self.next {
            return None;
        }
        self.hellos += 1;
        self.next = now + INTERVAL;
        buf.push(&[&Packet::header(Kind::Hello, 0, 0, 0)]);
        Some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Control,
        })
    }

    /// All of them, in order.
    pub(in crate::papers) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.members.iter().copied()
    }

    pub(in crate::papers) fn len(&self) -> usize {
        self.members.len()
    }
}
