//! The least protocol that makes the network driver work: it sends bursts when it is told to,
//! counts what arrives, and relays a datagram from member to member.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, MemberId, Protocol, SocketClass, Time, Transmit, TransmitBuf,
};

/// The first byte of a relayed datagram. The second says how many members still relay it; the last
/// one sends it plain.
pub(super) const RELAYED: u8 = 1;
/// The first byte of all other datagrams.
pub(super) const PLAIN: u8 = 0;

/// A number of equal datagrams to one destination.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub(super) to: Destination,
    pub(super) class: SocketClass,
    pub(super) count: u32,
    pub(super) body: Bytes,
}

/// What arrived since this was asked last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Received {
    pub(super) datagrams: u64,
    /// The length of all bodies, if it is one.
    pub(super) len: Option<usize>,
}

/// The protocol: bursts that wait to be sent, and what was received.
#[derive(Debug)]
pub(super) struct Traffic {
    local: MemberId,
    bursts: VecDeque<Burst>,
    /// Members that anything was received from.
    pub(super) peers: BTreeSet<MemberId>,
    received: Received,
}

impl Traffic {
    /// More bursts than this do not wait to be sent: a peer cannot fill the memory with datagrams
    /// to relay.
    const BURSTS_MAX: usize = 64;

    pub(super) fn new(local: MemberId) -> Self {
        Self {
            local,
            bursts: VecDeque::new(),
            peers: BTreeSet::new(),
            received: Received::default(),
        }
    }

    /// Sends a burst when transmits are polled next.
    pub(super) fn send(&mut self, burst: Burst) {
        if self.bursts.len() < Self::BURSTS_MAX {
            self.bursts.push_back(burst);
        }
    }

    /// Sends `body` to the next member, to be relayed `hops` times from there on.
    pub(super) fn relay(&mut self, hops: u8, mut body: Vec<u8>) {
        let Some(next) = self.next() else { return };
        if let [kind, rest, ..] = &mut body[..] {
            *kind = if hops > 0 { RELAYED } else { PLAIN };
            *rest = hops;
        }
        self.send(Burst {
            to: Destination::Member(next),
            class: SocketClass::Control,
            count: 1,
            body: body.into(),
        });
    }

    /// The peer that follows this member; after the last comes the first.
    fn next(&self) -> Option<MemberId> {
        let after = self.peers.iter().find(|peer| **peer > self.local);
        after.or_else(|| self.peers.first()).copied()
    }

    /// What arrived since the last time.
    pub(super) fn received(&mut self) -> Received {
        std::mem::take(&mut self.received)
    }
}

impl Protocol for Traffic {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        self.peers.insert(from);
        let same = self.received.datagrams == 0 || self.received.len == Some(body.len());
        self.received.len = same.then_some(body.len());
        self.received.datagrams += 1;
        if let [RELAYED, hops, ..] = body[..] {
            self.relay(hops.saturating_sub(1), body.to_vec());
        }
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let burst = self.bursts.front_mut()?;
        while burst.count > 0 && buf.accepts(burst.body.len()) {
            buf.push(&[&burst.body]);
            burst.count -= 1;
        }
        let transmit = Transmit {
            destination: burst.to,
            class: burst.class,
        };
        if burst.count == 0 {
            self.bursts.pop_front();
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn the_baton_goes_round_and_everything_is_counted() {
        let mut traffic = Traffic::new(member(2));
        for (from, body) in [
            (1, &[PLAIN, 0, 0][..]),
            (3, &[PLAIN, 0]),
            (1, &[RELAYED, 2, 7]),
        ] {
            traffic.handle_datagram(Time::ZERO, member(from), Bytes::copy_from_slice(body));
        }
        let received = traffic.received();
        assert_eq!((received.datagrams, received.len), (3, None));
        assert_eq!(traffic.received(), Received::default());
        let mut buf = TransmitBuf::new(8, 0, 0);
        let transmit = traffic.poll_transmit(Time::ZERO, &mut buf).unwrap();
        assert_eq!(transmit.destination, Destination::Member(member(3)));
        assert_eq!(buf.as_bytes(), [RELAYED, 1, 7]);
        buf.clear();
        assert_eq!(traffic.poll_transmit(Time::ZERO, &mut buf), None);

        // The last hand gives it back to the first as a beat.
        let mut last = Traffic::new(member(3));
        for (from, body) in [(1, &[PLAIN, 0][..]), (2, &[RELAYED, 1, 7])] {
            last.handle_datagram(Time::ZERO, member(from), Bytes::copy_from_slice(body));
        }
        let transmit = last.poll_transmit(Time::ZERO, &mut buf).unwrap();
        assert_eq!(transmit.destination, Destination::Member(member(1)));
        assert_eq!(buf.as_bytes(), [PLAIN, 0, 7]);
    }

    #[test]
    fn a_roll_goes_out_in_as_few_sends_as_it_fits() {
        let mut traffic = Traffic::new(member(1));
        traffic.send(Burst {
            to: Destination::Group,
            class: SocketClass::Data,
            count: 20,
            body: vec![PLAIN; 100].into(),
        });
        let mut buf = TransmitBuf::new(8, 0, 0);
        let mut segments = Vec::new();
        while traffic.poll_transmit(Time::ZERO, &mut buf).is_some() {
            segments.push(buf.segments());
            buf.clear();
        }
        assert_eq!(segments, [8, 8, 4]);
    }
}
