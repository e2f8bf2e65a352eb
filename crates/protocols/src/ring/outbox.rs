//! What waits to be sent, in order, and its cutting into segments.

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, SocketClass, Transmit, TransmitBuf};

use super::parts::cut;
use super::wire::{DataHeader, Message, PADDING_MAX, PART_AROUND, PaddingEnd};

/// Datagrams in the order in which they leave.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Out>,
    /// How many messages went out in parts.
    spanning: u32,
    /// The last of them. A copy that is cut alike has the same number, so that parts of both make
    /// one whole.
    spanned: VecDeque<Spanned>,
}

/// A message that went out in parts.
#[derive(Debug)]
struct Spanned {
    body: Bytes,
    /// The most bytes that a datagram had.
    most: usize,
    number: u32,
}

/// This many are remembered: a token and a join, each cut in two ways.
const SPANNED: usize = 4;

#[derive(Debug)]
enum Out {
    /// A data packet: the header of this transmission, the stored body.
    Data { header: DataHeader, body: Bytes },
    /// Anything else, encoded.
    Message { transmit: Transmit, body: Bytes },
}

const TO_ALL: Transmit = Transmit {
    destination: Destination::Group,
    class: SocketClass::Data,
};

/// As much padding as a segment can need to become as long as the first of its send.
static ZEROS: [u8; PADDING_MAX] = [0; PADDING_MAX];

impl Outbox {
    /// A data packet, for the group.
    pub(super) fn data(&mut self, header: DataHeader, body: Bytes) {
        self.queue.push_back(Out::Data { header, body });
    }

    /// A message for the group. It arrives where data does.
    pub(super) fn multicast(&mut self, message: &Message) {
        self.queue.push_back(Out::Message {
            transmit: TO_ALL,
            body: message.encode(),
        });
    }

    /// The same, in parts if it has more than `most` bytes.
    pub(super) fn multicast_in_parts(&mut self, message: &Message, most: usize) {
        self.in_parts(&[TO_ALL], &message.encode(), most);
    }

    /// An encoded message for one member, in parts if it has more than `most` bytes; `both_ways` as
    /// [`unicast_both_ways`](Self::unicast_both_ways).
    pub(super) fn unicast_in_parts(
        &mut self,
        member: MemberId,
        body: &Bytes,
        most: usize,
        both_ways: bool,
    ) {
        let destination = Destination::Member(member);
        let way = |class| Transmit { destination, class };
        let ways = [way(SocketClass::Control), way(SocketClass::Data)];
        let ways = if both_ways { &ways[..] } else { &ways[..1] };
        self.in_parts(ways, body, most);
    }

    fn in_parts(&mut self, ways: &[Transmit], body: &Bytes, most: usize) {
        let put = |queue: &mut VecDeque<Out>, body: Bytes| {
            for transmit in ways {
                queue.push_back(Out::Message {
                    transmit: *transmit,
                    body: body.clone(),
                });
            }
        };
        if body.len() <= most {
            put(&mut self.queue, body.clone());
            return;
        }
        let number = self.number_of(body, most);
        for (part, bytes) in cut(body, most - PART_AROUND) {
            let part = Message::Part {
                number,
                part,
                bytes,
            };
            put(&mut self.queue, part.encode());
        }
    }

    /// The number of the message `body` in parts of at most `most` bytes.
    fn number_of(&mut self, body: &Bytes, most: usize) -> u32 {
        let mut spanned = self.spanned.iter();
        let known = spanned.find(|it| it.most == most && it.body == *body);
        if let Some(known) = known {
            return known.number;
        }
        self.spanning = self.spanning.wrapping_add(1);
        if self.spanned.len() == SPANNED {
            self.spanned.pop_front();
        }
        self.spanned.push_back(Spanned {
            body: body.clone(),
            most,
            number: self.spanning,
        });
        self.spanning
    }

    /// An encoded message for one member.
    pub(super) fn unicast(&mut self, member: MemberId, body: Bytes) {
        let transmit = Transmit {
            destination: Destination::Member(member),
            class: SocketClass::Control,
        };
        self.queue.push_back(Out::Message { transmit, body });
    }

    /// The same, which arrives where data does.
    pub(super) fn unicast_as_data(&mut self, member: MemberId, body: Bytes) {
        let transmit = Transmit {
            destination: Destination::Member(member),
            class: SocketClass::Data,
        };
        self.queue.push_back(Out::Message { transmit, body });
    }

    /// An encoded message for one member that is sent again, or answers one that was: where one
    /// class of datagrams does not pass, the other may.
    pub(super) fn unicast_both_ways(&mut self, member: MemberId, body: Bytes) {
        self.unicast(member, body.clone());
        self.unicast_as_data(member, body);
    }

    /// Fills `buf` with as many equal segments as the front of the queue gives.
    pub(super) fn poll_transmit(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(Out::Message { .. }) = self.queue.front() {
            let Some(Out::Message { transmit, body }) = self.queue.pop_front() else {
                return None;
            };
            buf.push(&[&body]);
            return Some(transmit);
        }
        let mut first = 0;
        while let Some(Out::Data { header, body }) = self.queue.front() {
            let len = header.as_bytes().len() + body.len();
            let begun = !buf.is_empty();
            if begun && !buf.accepts(len) {
                break;
            }
            // A packet that is a little short is made as long as the first, if there is room: one
            // send for both.
            let more = matches!(self.queue.get(1), Some(Out::Data { .. }));
            let missing = if begun && more && buf.accepts(first) {
                first - len
            } else {
                0
            };
            if missing > 0 && missing <= (first / 8).min(PADDING_MAX) {
                let end = PaddingEnd::of(missing);
                let zeros = &ZEROS[..missing - end.as_bytes().len()];
                let header = header.padded();
                buf.push(&[header.as_bytes(), body, zeros, end.as_bytes()]);
            } else {
                buf.push(&[header.as_bytes(), body]);
            }
            if !begun {
                first = len;
            }
            self.queue.pop_front();
        }
        (!buf.is_empty()).then_some(TO_ALL)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use groupcast_core::{ConfigId, Incarnation, NodeId};

    use super::super::numbers::{Index, Round, Seq};
    use super::super::spans::Spans;
    use super::super::wire::{Packet, RingKey};
    use super::*;

    fn data(outbox: &mut Outbox, body: usize) {
        let representative = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let ring = RingKey::from(ConfigId {
            counter: 1,
            representative,
        });
        let packet = Packet {
            origin: Index(0),
            round: Round(1),
            recovered: None,
            body: vec![1; body].into(),
        };
        let header = DataHeader::new(ring.tag(), Seq(1), true, &packet);
        outbox.data(header, packet.body);
    }

    /// What arrives of `message` at one that has these parts already, if every part for which
    /// `lost` says so is lost.
    fn arrives(
        outbox: &mut Outbox,
        spans: &mut Spans,
        message: &Bytes,
        most: usize,
        lost: impl Fn(u16) -> bool,
    ) -> Option<Bytes> {
        let from = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        outbox.unicast_in_parts(from, message, most, false);
        let mut buf = TransmitBuf::new(1, 0, 0);
        let mut whole = None;
        while outbox.poll_transmit(&mut buf).is_some() {
            let bodies: Vec<Bytes> = buf.iter().map(|it| it.to_vec().into()).collect();
            buf.clear();
            for body in bodies {
                let Ok(Message::Part {
                    number,
                    part,
                    bytes,
                }) = Message::decode(&body)
                else {
                    unreachable!("it is too long")
                };
                if !lost(part.at) {
                    whole = whole.or(spans.add(from, number, part, &bytes, |_| true));
                }
            }
        }
        whole
    }

    #[test]
    fn copies_of_a_message_in_parts_make_up_for_what_each_has_lost() {
        let (mut outbox, mut spans) = (Outbox::default(), Spans::default());
        let message = Bytes::from(vec![7; 3_000]);
        let other = Bytes::from(vec![8; 3_000]);
        let mut sent = |message, most, first| {
            let lost = |at| (at == 0) == first;
            arrives(&mut outbox, &mut spans, message, most, lost)
        };
        assert_eq!(sent(&message, 1_000, true), None);
        assert_eq!(sent(&other, 1_000, false), None, "it is another");
        assert_eq!(sent(&message, 256, false), None, "it is cut otherwise");
        assert_eq!(sent(&message, 1_000, false), Some(message.clone()));
    }

    #[test]
    fn few_messages_in_parts_are_remembered() {
        let mut outbox = Outbox::default();
        for it in 0..100u8 {
            outbox.number_of(&vec![it; 3_000].into(), 1_000);
        }
        assert_eq!((outbox.spanned.len(), outbox.spanning), (SPANNED, 100));
    }

    /// Seed 703009 of the swarm: a packet that fits into what is left of a send, and would not with
    /// its padding, was padded.
    #[test]
    fn a_packet_is_padded_only_where_there_is_room_for_the_padding() {
        const PACKETS: usize = 70;
        for full in (1_000..9_000).step_by(7) {
            for short in [1, full / 16, full / 8 - 3] {
                let mut outbox = Outbox::default();
                data(&mut outbox, full);
                for _ in 1..PACKETS {
                    data(&mut outbox, full - short);
                }
                let mut buf = TransmitBuf::new(64, 25, 16);
                let mut sent = 0;
                while outbox.poll_transmit(&mut buf).is_some() {
                    sent += buf.segments();
                    buf.clear();
                }
                assert_eq!(sent, PACKETS, "{full} bytes, then {short} fewer");
            }
        }
    }
}
