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

/// A message among those of its sender: its number, and its length. Parts of another length are of
/// another message, so that there are few last ones, which may be short.
type Which = (u32, u16);

/// The parts that have come.
#[derive(Debug, Default)]
pub(super) struct Spans {
    of: BTreeMap<MemberId, OfOne>,
    bytes: usize,
    /// How many parts have come.
    count: u64,
}

/// Those of one sender.
#[derive(Debug, Default)]
struct OfOne {
    messages: VecDeque<(Which, Partial)>,
    /// Where among all parts its last one came.
    last: u64,
}

impl Spans {
    /// A part of `from`'s message of this number came: the message, once it is whole. Where there
    /// is no room, those of the sender go that was heard least lately, of strangers first: who
    /// `knows` says is none.
    pub(super) fn add(
        &mut self,
        from: MemberId,
        number: u32,
        part: Part,
        bytes: &Bytes,
        knows: impl Fn(MemberId) -> bool,
    ) -> Option<Bytes> {
        while self.of.len() >= Peers::MAX && !self.of.contains_key(&from)
            || self.bytes + bytes.len() > BYTES_MOST
        {
            self.forget_one(&knows)?;
        }
        self.count += 1;
        let of_one = self.of.entry(from).or_default();
        of_one.last = self.count;
        let messages = &mut of_one.messages;
        let which = (number, part.of);
        let known = messages.iter().position(|(it, _)| *it == which);
        let at = known.unwrap_or_else(|| {
            if messages.len() == EACH_MOST {
                let oldest = messages.pop_front();
                self.bytes -= oldest.map_or(0, |(_, partial)| partial.len());
            }
            messages.push_back((which, Partial::default()));
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

    /// Forgets the parts of one sender, if there is one.
    fn forget_one(&mut self, knows: impl Fn(MemberId) -> bool) -> Option<()> {
        let senders = self.of.iter();
        let (one, _) = senders.min_by_key(|(member, it)| (knows(**member), it.last))?;
        let one = *one;
        let gone = self.of.remove(&one)?.messages;
        self.bytes -= gone.iter().map(|(_, partial)| partial.len()).sum::<usize>();
        Some(())
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
        let candidates = self.candidates();
        let knows = |member| self.state.knows(member) || candidates.contains(&member);
        let Some(whole) = self.spans.add(from, number, part, bytes, knows) else {
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
                let whole = spans.add(member(node), number, *part, bytes, |_| false);
                assert_eq!(whole.is_some(), at + 1 == parts.len());
                assert!(whole.is_none_or(|it| it == message));
            }
        }
        assert_eq!((spans.bytes, spans.of.len()), (0, 0));
    }

    fn add(spans: &mut Spans, node: u64, number: u32, part: Part, bytes: &Bytes) -> Option<Bytes> {
        spans.add(member(node), number, part, bytes, |it| it.node.0 < 10)
    }

    /// However many strangers begin, and however much.
    #[test]
    fn what_is_half_here_of_a_member_outlives_strangers() {
        let message = Bytes::from(vec![7; 1_000]);
        let parts: Vec<_> = cut(&message, 300).collect();
        for len in [1_000, 60_000] {
            let mut spans = Spans::default();
            let (last, first) = parts.split_last().expect("there are several");
            for (part, bytes) in first {
                assert_eq!(add(&mut spans, 1, 1, *part, bytes), None);
            }
            let long = Bytes::from(vec![7; len]);
            let (part, bytes) = cut(&long, len / 2).next().expect("there are two");
            for node in 10..2_000 {
                assert_eq!(add(&mut spans, node, 1, part, &bytes), None);
            }
            let whole = add(&mut spans, 1, 1, last.0, &last.1);
            assert_eq!(whole.as_ref(), Some(&message));
        }
    }

    #[test]
    fn last_parts_of_many_lengths_are_of_many_messages() {
        let mut spans = Spans::default();
        for of in 2..=u16::MAX {
            let part = Part { at: of - 1, of };
            assert_eq!(add(&mut spans, 1, 1, part, &Bytes::from_static(b"x")), None);
        }
        assert_eq!(spans.bytes, EACH_MOST);
    }

    #[test]
    fn what_never_becomes_whole_is_bounded() {
        let mut spans = Spans::default();
        let message = Bytes::from(vec![7; 60_000]);
        let (part, bytes) = cut(&message, 30_000).next().expect("there are two");
        for node in 0..2_000 {
            for number in 0..6 {
                assert_eq!(add(&mut spans, node, number, part, &bytes), None);
                let all = spans.of.values().flat_map(|it| &it.messages);
                let kept: usize = all.map(|(_, partial)| partial.len()).sum();
                assert_eq!(spans.bytes, kept);
                assert!(kept <= BYTES_MOST && spans.of[&member(node)].messages.len() <= EACH_MOST);
            }
        }
        let (part, bytes) = cut(&message, 10).next().expect("there are many");
        for node in 0..2_000 {
            assert_eq!(add(&mut spans, node, 1, part, &bytes), None);
            assert!(spans.of.len() <= Peers::MAX);
        }
    }
}
