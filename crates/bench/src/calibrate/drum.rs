//! The least protocol that makes the network driver work: bursts when told to, counts of what arrives, and a baton that
//! goes from hand to hand.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, MemberId, Protocol, SocketClass, Time, Transmit, TransmitBuf,
};

/// The first byte of the baton; the second says how many hands it still goes through. From the last it comes as a beat.
pub(super) const BATON: u8 = 1;
/// The first byte of everything else.
pub(super) const BEAT: u8 = 0;

/// So many equal datagrams to one destination.
#[derive(Clone, Debug)]
pub(super) struct Roll {
    pub(super) to: Destination,
    pub(super) class: SocketClass,
    pub(super) count: u32,
    pub(super) body: Bytes,
}

/// What arrived since it was last asked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Heard {
    pub(super) datagrams: u64,
    /// The length of all bodies, if it is one.
    pub(super) len: Option<usize>,
}

/// The protocol.
#[derive(Debug)]
pub(super) struct Drum {
    local: MemberId,
    rolls: VecDeque<Roll>,
    /// Everybody who was heard.
    pub(super) peers: BTreeSet<MemberId>,
    heard: Heard,
}

impl Drum {
    /// Whatever arrives, no more waits to be sent.
    const ROLLS_MAX: usize = 64;

    pub(super) fn new(local: MemberId) -> Self {
        Self {
            local,
            rolls: VecDeque::new(),
            peers: BTreeSet::new(),
            heard: Heard::default(),
        }
    }

    /// Sends, at the next draining.
    pub(super) fn roll(&mut self, roll: Roll) {
        if self.rolls.len() < Self::ROLLS_MAX {
            self.rolls.push_back(roll);
        }
    }

    /// Sends the baton to the next member, who is to pass it through `hands` hands, its own included.
    pub(super) fn pass(&mut self, hands: u8, mut body: Vec<u8>) {
        let Some(next) = self.next() else { return };
        if let [kind, rest, ..] = &mut body[..] {
            *kind = if hands > 0 { BATON } else { BEAT };
            *rest = hands;
        }
        self.roll(Roll {
            to: Destination::Member(next),
            class: SocketClass::Token,
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
    pub(super) fn heard(&mut self) -> Heard {
        std::mem::take(&mut self.heard)
    }
}

impl Protocol for Drum {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        self.peers.insert(from);
        let same = self.heard.datagrams == 0 || self.heard.len == Some(body.len());
        self.heard.len = same.then_some(body.len());
        self.heard.datagrams += 1;
        if let [BATON, hands, ..] = body[..] {
            self.pass(hands.saturating_sub(1), body.to_vec());
        }
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let roll = self.rolls.front_mut()?;
        while roll.count > 0 && buf.accepts(roll.body.len()) {
            buf.push(&[&roll.body]);
            roll.count -= 1;
        }
        let transmit = Transmit {
            destination: roll.to,
            class: roll.class,
        };
        if roll.count == 0 {
            self.rolls.pop_front();
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
        let mut drum = Drum::new(member(2));
        for (from, body) in [(1, &[BEAT, 0, 0][..]), (3, &[BEAT, 0]), (1, &[BATON, 2, 7])] {
            drum.handle_datagram(Time::ZERO, member(from), Bytes::copy_from_slice(body));
        }
        let heard = drum.heard();
        assert_eq!((heard.datagrams, heard.len), (3, None));
        assert_eq!(drum.heard(), Heard::default());
        let mut buf = TransmitBuf::new(8, 0, 0);
        let transmit = drum.poll_transmit(Time::ZERO, &mut buf).unwrap();
        assert_eq!(transmit.destination, Destination::Member(member(3)));
        assert_eq!(buf.as_bytes(), [BATON, 1, 7]);
        buf.clear();
        assert_eq!(drum.poll_transmit(Time::ZERO, &mut buf), None);

        // The last hand gives it back to the first as a beat.
        let mut last = Drum::new(member(3));
        for (from, body) in [(1, &[BEAT, 0][..]), (2, &[BATON, 1, 7])] {
            last.handle_datagram(Time::ZERO, member(from), Bytes::copy_from_slice(body));
        }
        let transmit = last.poll_transmit(Time::ZERO, &mut buf).unwrap();
        assert_eq!(transmit.destination, Destination::Member(member(1)));
        assert_eq!(buf.as_bytes(), [BEAT, 0, 7]);
    }

    #[test]
    fn a_roll_goes_out_in_as_few_sends_as_it_fits() {
        let mut drum = Drum::new(member(1));
        drum.roll(Roll {
            to: Destination::Group,
            class: SocketClass::Data,
            count: 20,
            body: vec![BEAT; 100].into(),
        });
        let mut buf = TransmitBuf::new(8, 0, 0);
        let mut segments = Vec::new();
        while drum.poll_transmit(Time::ZERO, &mut buf).is_some() {
            segments.push(buf.segments());
            buf.clear();
        }
        assert_eq!(segments, [8, 8, 4]);
    }
}
