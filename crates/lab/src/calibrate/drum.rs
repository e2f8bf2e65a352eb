//! The least protocol that makes the network driver work: bursts when told to, counts of what arrives, answers.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, MemberId, Protocol, SocketClass, Time, Transmit, TransmitBuf,
};

/// The first byte of what is to be answered.
pub(super) const CALL: u8 = 1;
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
#[derive(Debug, Default)]
pub(super) struct Drum {
    rolls: VecDeque<Roll>,
    /// Everybody who was heard.
    pub(super) peers: BTreeSet<MemberId>,
    heard: Heard,
}

impl Drum {
    /// A call that somebody does not take back has a bound all the same.
    const ROLLS_MAX: usize = 64;

    /// Sends, at the next draining.
    pub(super) fn roll(&mut self, roll: Roll) {
        if self.rolls.len() < Self::ROLLS_MAX {
            self.rolls.push_back(roll);
        }
    }

    /// What arrived since the last time.
    pub(super) fn heard(&mut self) -> Heard {
        std::mem::take(&mut self.heard)
    }
}

impl Protocol for Drum {
    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        self.peers.insert(from);
        let same = self.heard.datagrams == 0 || self.heard.len == Some(body.len());
        self.heard.len = same.then_some(body.len());
        self.heard.datagrams += 1;
        if body.first() == Some(&CALL) {
            let mut answer = body.to_vec();
            answer[0] = BEAT;
            self.roll(Roll {
                to: Destination::Member(from),
                class: SocketClass::Token,
                count: 1,
                body: answer.into(),
            });
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

    #[test]
    fn it_answers_calls_and_counts_the_rest() {
        let peer = MemberId {
            node: NodeId(2),
            incarnation: Incarnation(3),
        };
        let mut drum = Drum::default();
        for body in [&[BEAT, 0, 0][..], &[CALL, 7, 7], &[BEAT, 0]] {
            drum.handle_datagram(Time::ZERO, peer, Bytes::copy_from_slice(body));
        }
        let mut buf = TransmitBuf::new(8, 0, 0);
        let transmit = drum.poll_transmit(Time::ZERO, &mut buf).unwrap();
        assert_eq!(transmit.destination, Destination::Member(peer));
        assert_eq!(buf.as_bytes(), [BEAT, 7, 7]);
        buf.clear();
        assert_eq!(drum.poll_transmit(Time::ZERO, &mut buf), None);
        let heard = drum.heard();
        assert_eq!((heard.datagrams, heard.len), (3, None));
        assert_eq!(drum.heard(), Heard::default());
    }

    #[test]
    fn a_roll_goes_out_in_as_few_sends_as_it_fits() {
        let mut drum = Drum::default();
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
