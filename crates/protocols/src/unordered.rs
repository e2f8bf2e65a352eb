//! Unreliable messages beside an order: each in a datagram of its own, without a place.

use alloc::collections::VecDeque;

use bytes::Bytes;

use crate::packing::{Packer, Record};

/// Unreliable messages that wait to be sent, packed.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Unordered {
    bodies: VecDeque<Bytes>,
}

impl Unordered {
    /// At most this many wait. More are dropped.
    const MAX: usize = 256;
    /// Room for the header of a record, and some more.
    const HEADER_ROOM: usize = 32;

    /// Whether a message of `len` bytes goes into one datagram with `records_max` bytes of records.
    /// A longer one takes its place in the order.
    pub fn fits(len: usize, records_max: usize) -> bool {
        len + Self::HEADER_ROOM <= records_max
    }

    /// Adds a message that fits. False if it is dropped.
    pub fn push(&mut self, record: Record, records_max: usize) -> bool {
        let mut packer = Packer::default();
        packer.push(record);
        let Some(body) = packer.pack(records_max) else {
            return true;
        };
        let has_room = self.bodies.len() < Self::MAX;
        if has_room {
            self.bodies.push_back(body);
        }
        has_room
    }

    /// Takes the message that has waited for longest.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.bodies.pop_front()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }
}
