//! A message on its way in: its packets, what of it is missing, and its place in the order.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::{MemberId, Time};

use super::wire::{Data, RANGES_MAX};

/// What a member has of a message.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Who sends it, and its number there; `None` before the first packet.
    pub(super) source: Option<(MemberId, u64)>,
    parts: BTreeMap<u32, Bytes>,
    /// How many packets have bytes, once that is known.
    content: Option<u32>,
    /// One past the highest packet that was heard.
    top: u32,
    /// When anything of it was heard last.
    pub(super) heard: Time,
    /// When it was known that it will be delivered.
    pub(super) accepted: Option<Time>,
}

impl Incoming {
    pub(super) fn new(now: Time) -> Self {
        Self {
            source: None,
            parts: BTreeMap::new(),
            content: None,
            top: 0,
            heard: now,
            accepted: None,
        }
    }

    /// A packet has come.
    pub(super) fn take(&mut self, now: Time, from: MemberId, data: &Data) {
        let source = *self.source.get_or_insert((from, data.number));
        if source != (from, data.number) {
            return;
        }
        self.heard = now;
        self.top = self.top.max(data.packet + 1);
        let is_content = self.content.is_none_or(|content| data.packet < content);
        if data.ends {
            self.content.get_or_insert(data.packet + 1);
        }
        if is_content {
            self.parts.insert(data.packet, data.bytes.clone());
        }
    }

    /// Whether all of its bytes are here.
    pub(super) fn is_whole(&self) -> bool {
        self.content
            .is_some_and(|content| self.parts.range(..content).count() as u32 == content)
    }

    /// Its bytes.
    pub(super) fn payload(&self) -> Bytes {
        let mut whole = BytesMut::new();
        let end = self.content.unwrap_or(0);
        for part in self.parts.range(..end).map(|(_, part)| part) {
            whole.put(part.clone());
        }
        whole.freeze()
    }

    /// What is missing, as far as is known; if it is `silent`, what has to come next, too: its
    /// sender says something in each heartbeat.
    pub(super) fn missing(&self, silent: bool) -> Vec<Range<u32>> {
        let end = match self.content {
            Some(content) => content,
            None if silent => self.top + 1,
            None => self.top,
        };
        let mut missing: Vec<Range<u32>> = Vec::new();
        let mut at = 0;
        let here = self.parts.range(..end).map(|(packet, _)| *packet);
        for packet in here.chain([end]) {
            if packet > at && missing.len() < RANGES_MAX {
                missing.push(at..packet);
            }
            at = packet + 1;
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::super::statuses::Statuses;
    use super::*;

    #[test]
    fn what_is_missing_follows_from_what_came() {
        let from = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let packet = |packet, ends| Data {
            statuses: Statuses::default(),
            message: 1,
            packet,
            ends,
            ends_window: false,
            again: false,
            number: 7,
            bytes: Bytes::from_static(b"xy"),
        };
        let mut incoming = Incoming::new(Time::from_millis(1));
        assert_eq!(incoming.missing(false), []);
        let first: Vec<Range<u32>> = core::iter::once(0..1).collect();
        assert_eq!(incoming.missing(true), first);
        for (number, ends) in [(1, false), (4, true), (5, false)] {
            incoming.take(Time::from_millis(2), from, &packet(number, ends));
        }
        assert_eq!(incoming.missing(false), [0..1, 2..4]);
        assert!(!incoming.is_whole());
        for number in [0, 2, 3] {
            incoming.take(Time::from_millis(3), from, &packet(number, false));
        }
        assert!(incoming.is_whole());
        assert_eq!(incoming.missing(true), []);
        assert_eq!(incoming.payload().len(), 10, "empty packets do not count");
    }
}
