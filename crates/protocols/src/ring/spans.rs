//! Messages of others that span several datagrams, until they are whole.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use groupcast_core::mech::peers::Peers;
use groupcast_core::{MemberId, Time};

use super::Ring;
use super::parts::{Part, Partial};
use super::wire::Message;

/// The most messages of one sender that are kept while they are not whole.
const EACH_MOST: usize = 4;
/// The most bytes of parts that are kept, of all senders together. What is lost is sent again.
const BYTES_MOST: usize = 1 << 20;

/// The parts that have come.
#[derive(Debug, Default)]
pub(super) struct Spans {
    of: BTreeMap<MemberId, VecDeque<(u32, Partial)>>,
    bytes: usize,
}

impl Spans {
    /// A part of `from`'s message of this number came: the message, once it is whole.
    pub(super) fn add(
        &mut self,
        from: MemberId,
        number: u32,
        part: Part,
        bytes: &Bytes,
    ) -> Option<Bytes> {
        let full = self.of.len() >= Peers::MAX && !self.of.contains_key(&from);
        if full || self.bytes + bytes.len() > BYTES_MOST {
            *self = Self::default();
        }
        let messages = self.of.entry(from).or_default();
        let known = messages.iter().position(|(it, _)| *it == number);
        let at = known.unwrap_or_else(|| {
            if messages.len() == EACH_MOST {
                let oldest = messages.pop_front();
                self.bytes -= oldest.map_or(0, |(_, partial)| partial.len());
            }
            messages.push_back((number, Partial::default()));
            messages.len() - 1
        });
        let partial = &mut messages[at].1;
        let before = partial.len();
        // A copy: a slice would keep all that was received with it.
        let whole = partial.add(part, Bytes::copy_from_slice(bytes));
        self.bytes = self.bytes - before + partial.len();
        if partial.len() == 0 {
            messages.remove(at);
        }
        if messages.is_empty() {
            self.of.remove(&from);
        }
        whole
    }
}

impl Ring {
    /// A part of a message came.
    pub(super) fn handle_part(
        &mut self,
        now: Time,
        from: MemberId,
        (number, part): (u32, Part),
        bytes: &Bytes,
    ) {
        let Some(whole) = self.spans.add(from, number, part, bytes) else {
            return;
        };
        match Message::decode(&whole) {
            Ok(Message::Part { .. }) | Err(_) => self.counters.malformed += 1,
            Ok(message) => self.handle_message(now, from, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use groupcast_core::{Incarnation, NodeId};

    use super::super::parts::cut;
    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn messages_of_several_senders_and_several_of_one_come_whole() {
        let mut spans = Spans::default();
        let message = Bytes::from(vec![7; 1_000]);
        let parts: Vec<_> = cut(&message, 300).collect();
        for (at, (part, bytes)) in parts.iter().enumerate() {
            for (node, number) in [(1, 1), (1, 2), (2, 1)] {
                let whole = spans.add(member(node), number, *part, bytes);
                assert_eq!(whole.is_some(), at + 1 == parts.len());
                assert!(whole.is_none_or(|it| it == message));
            }
        }
        assert_eq!((spans.bytes, spans.of.len()), (0, 0));
    }

    #[test]
    fn what_never_becomes_whole_is_bounded() {
        let mut spans = Spans::default();
        let message = Bytes::from(vec![7; 60_000]);
        let (part, bytes) = cut(&message, 30_000).next().expect("there are two");
        for node in 0..2_000 {
            for number in 0..6 {
                assert_eq!(spans.add(member(node), number, part, &bytes), None);
                let all = spans.of.values().flatten();
                let kept: usize = all.map(|(_, partial)| partial.len()).sum();
                assert_eq!(spans.bytes, kept);
                assert!(kept <= BYTES_MOST && spans.of[&member(node)].len() <= EACH_MOST);
            }
        }
        let (part, bytes) = cut(&message, 10).next().expect("there are many");
        for node in 0..2_000 {
            assert_eq!(spans.add(member(node), 1, part, &bytes), None);
            assert!(spans.of.len() <= Peers::MAX);
        }
    }
}
