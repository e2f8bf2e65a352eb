//! Messages into packet bodies and back: small ones share a packet, large ones span several.
//!
//! A sender's packets, in order, carry a stream of *records*, each a message with a header: service
//! (1 byte), number (varint), length (varint), payload. A record may continue in the next packet; a
//! header never does. A body is records from its first byte to its last: the padding that makes the
//! segments of one send equal is not part of it (`wire`).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::mech::send_queue::Backlog;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{Delivery, Event, Gap, MemberId, MessageId, OrderPlace, Service};

/// The most bytes of a record's header.
const HEADER_MAX: usize = 1 + 10 + 5;

/// A message with what its receivers must know of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// What it is promised.
    pub service: Service,
    /// Its sender's count.
    pub number: u64,
    /// The bytes of the message.
    pub payload: Bytes,
}

impl Record {
    /// That it is delivered, as a message of `sender`.
    pub fn delivered(self, sender: MemberId, place: Option<OrderPlace>) -> Event {
        let Self {
            service,
            number,
            payload,
        } = self;
        Event::Deliver(Delivery {
            id: MessageId { sender, number },
            service,
            place,
            payload,
        })
    }
}

/// That message `number` of `sender` is not delivered here: too few members hold it.
pub fn refused(sender: MemberId, number: u64) -> Event {
    Event::Gap(Gap {
        sender,
        first: number,
        last: number,
    })
}

/// Messages that wait to be sent, and the place in the first of them.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    queue: VecDeque<Record>,
    /// Payload bytes of the first message that are in packets already.
    offset: usize,
    /// Payload bytes that wait.
    bytes: usize,
    /// Messages that wait and are delivered only once several members hold them.
    resilient: usize,
    /// A part of one of them that may be delivered before all members hold it was packed.
    marks_wanted: bool,
    /// Bodies are cut from here, many to an allocation.
    slab: BytesMut,
    /// Holds one header while its record is packed.
    header: Vec<u8>,
}

/// What waits; not the memory that bodies are cut from.
impl Hash for Packer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            queue,
            offset,
            bytes,
            resilient,
            marks_wanted,
            slab: _,
            header: _,
        } = self;
        (queue, offset, bytes, resilient, marks_wanted).hash(state);
    }
}

impl Packer {
    /// Bytes of one allocation, from which bodies are cut.
    const SLAB: usize = 64 * 1024;

    /// Appends a message.
    pub fn push(&mut self, record: Record) {
        self.bytes += record.payload.len();
        self.resilient += usize::from(waits_for_holders(record.service));
        self.queue.push_back(record);
    }

    /// Whether a message waits, or the rest of one, that is delivered only once several members
    /// hold it.
    pub fn holds_resilient(&self) -> bool {
        self.resilient > 0
    }

    /// Whether a part of a message that some members, not all, must hold was packed since the last
    /// call: then it matters up to where each of them holds the order.
    pub fn take_marks_wanted(&mut self) -> bool {
        core::mem::take(&mut self.marks_wanted)
    }

    /// Takes out the messages that a majority must hold, and tells their numbers. The first message
    /// is begun anew, as by [`rewind`](Self::rewind).
    pub fn take_majority(&mut self) -> Vec<u64> {
        self.rewind();
        let mut taken = Vec::new();
        self.queue.retain(|record| {
            let stays = record.service != Service::Majority;
            if !stays {
                taken.push(record.number);
                self.bytes -= record.payload.len();
            }
            stays
        });
        self.resilient -= taken.len();
        taken
    }

    /// How many messages wait, the rest of one included.
    pub fn messages(&self) -> usize {
        self.queue.len()
    }

    /// The next body, of at most `max` bytes; `None` if nothing waits.
    ///
    /// A record that would fit into a packet of its own is cut only where that saves more than an
    /// eighth of a packet: a whole record is delivered without a copy.
    ///
    /// # Panics
    /// If `max` is not larger than twice a header: a configuration check excludes it.
    pub fn pack(&mut self, max: usize) -> Option<Bytes> {
        assert!(
            max > 2 * HEADER_MAX,
            "a body of {max} bytes cannot carry a record"
        );
        if self.queue.is_empty() {
            return None;
        }
        if self.slab.capacity() < max {
            self.slab = BytesMut::with_capacity(Self::SLAB.max(max));
        }
        while let Some(record) = self.queue.front() {
            let room = max - self.slab.len();
            if self.offset == 0 {
                write_header(record, &mut self.header);
                let whole = self.header.len() + record.payload.len();
                let waste = room <= max / 8;
                if whole > room && (room <= HEADER_MAX || waste && whole <= max) {
                    break;
                }
                self.slab.put_slice(&self.header);
            }
            let resilient = self.resilient > 0 && waits_for_holders(record.service);
            self.marks_wanted |= resilient && waits_for_marks(record.service);
            let rest = &record.payload[self.offset..];
            let taken = rest.len().min(max - self.slab.len());
            self.slab.put_slice(&rest[..taken]);
            self.offset += taken;
            self.bytes -= taken;
            if self.offset < record.payload.len() {
                break;
            }
            self.resilient -= usize::from(resilient);
            self.queue.pop_front();
            self.offset = 0;
        }
        Some(self.slab.split().freeze())
    }

    /// Begins the first message anew if it was partly sent: its receivers have forgotten the part.
    pub fn rewind(&mut self) {
        self.bytes += self.offset;
        self.offset = 0;
    }
}

impl Backlog for Packer {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Whether a message of `service` is delivered only once other members than its sender hold it.
pub fn waits_for_holders(service: Service) -> bool {
    match service {
        Service::KResilient(failures) => failures > 0,
        Service::Majority | Service::Safe => true,
        _ => false,
    }
}

/// Whether a message of `service` is delivered once some other members hold it, not all.
pub fn waits_for_marks(service: Service) -> bool {
    waits_for_holders(service) && service != Service::Safe
}

fn write_header(record: &Record, bytes: &mut Vec<u8>) {
    bytes.clear();
    Writer::new(bytes)
        .u8(record.service.code())
        .varint(record.number)
        .varint(record.payload.len() as u64);
}

/// One sender's stream on the receiving side.
#[derive(Clone, Hash, Debug, Default)]
pub struct Unpacker {
    partial: Option<Partial>,
}

#[derive(Clone, Hash, Debug)]
struct Partial {
    service: Service,
    number: u64,
    len: usize,
    bytes: Vec<u8>,
}

impl Unpacker {
    /// The next record that ends in `body` at or after `at`, which moves behind it; `None` at the
    /// end of the body.
    ///
    /// Memory grows with the bytes that arrived, not with the length that a header claims; a record
    /// longer than `max` is an error, after which the rest of the body is skipped.
    pub fn next(
        &mut self,
        body: &Bytes,
        at: &mut usize,
        max: usize,
    ) -> Result<Option<Record>, DecodeError> {
        let result = self.advance(body, at, max);
        if result.is_err() {
            *at = body.len();
            self.partial = None;
        }
        result
    }

    fn advance(
        &mut self,
        body: &Bytes,
        at: &mut usize,
        max: usize,
    ) -> Result<Option<Record>, DecodeError> {
        if let Some(partial) = &mut self.partial {
            let taken = (partial.len - partial.bytes.len()).min(body.len() - *at);
            partial.bytes.extend_from_slice(&body[*at..*at + taken]);
            *at += taken;
            if partial.bytes.len() < partial.len {
                return Ok(None);
            }
            let Partial {
                service,
                number,
                bytes,
                ..
            } = self.partial.take().expect("matched just above");
            return Ok(Some(Record {
                service,
                number,
                payload: bytes.into(),
            }));
        }
        if *at >= body.len() {
            return Ok(None);
        }
        let mut reader = Reader::new(&body[*at..]);
        let code = reader.u8("service")?;
        let service =
            Service::from_code(code).ok_or_else(|| reader.invalid("service", u64::from(code)))?;
        let number = reader.varint("number")?;
        let len = reader.varint("length")?;
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= max)
            .ok_or_else(|| reader.invalid("length", len))?;
        let start = *at + reader.position();
        if len <= body.len() - start {
            *at = start + len;
            return Ok(Some(Record {
                service,
                number,
                payload: body.slice(start..start + len),
            }));
        }
        self.partial = Some(Partial {
            service,
            number,
            len,
            bytes: body[start..].to_vec(),
        });
        *at = body.len();
        Ok(None)
    }

    /// Whether a record is begun and not ended.
    pub fn is_within(&self) -> bool {
        self.partial.is_some()
    }

    /// Forgets the begun record: its rest will not come.
    pub fn reset(&mut self) {
        self.partial = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unpack(bodies: &[Bytes]) -> Vec<Record> {
        let mut unpacker = Unpacker::default();
        let mut records = Vec::new();
        for body in bodies {
            let mut at = 0;
            while let Some(record) = unpacker
                .next(body, &mut at, 1 << 20)
                .expect("own bodies decode")
            {
                records.push(record);
            }
        }
        records
    }

    fn record(number: u64, len: usize) -> Record {
        let payload = (0..len)
            .map(|index| (index as u64 + number) as u8)
            .collect::<Vec<u8>>()
            .into();
        Record {
            service: Service::Agreed,
            number,
            payload,
        }
    }

    fn pack(sizes: &[usize], max: usize) -> Vec<Bytes> {
        let mut packer = Packer::default();
        for (number, len) in sizes.iter().enumerate() {
            packer.push(record(number as u64 + 1, *len));
        }
        let bodies: Vec<Bytes> = core::iter::from_fn(|| packer.pack(max)).collect();
        assert!(packer.bytes() == 0 && packer.is_empty());
        bodies
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(sizes in prop::collection::vec(0usize..5000, 0..40), max in 64usize..2000) {
            let bodies = pack(&sizes, max);
            prop_assert!(bodies.iter().all(|body| body.len() <= max));
            let expected: Vec<Record> = sizes.iter().enumerate().map(|(n, len)| record(n as u64 + 1, *len)).collect();
            prop_assert_eq!(unpack(&bodies), expected);
        }

        #[test]
        fn any_bytes_unpack_to_records_or_errors(body: Vec<u8>) {
            let body = Bytes::from(body);
            let mut unpacker = Unpacker::default();
            let mut at = 0;
            while at < body.len() {
                let before = at;
                let _ = unpacker.next(&body, &mut at, 1 << 20);
                prop_assert!(at > before);
            }
        }
    }

    #[test]
    fn small_messages_share_a_packet_and_nearly_full_ones_are_not_cut() {
        assert_eq!(pack(&[10; 20], 1389).len(), 1);
        let bodies = pack(&[1350; 4], 1389);
        assert_eq!(
            bodies.len(),
            4,
            "39 bytes are left unused rather than copied together again"
        );
        let bodies = pack(&[1000; 7], 1389);
        assert!(
            bodies.len() <= 6,
            "a third of each packet would be too much to waste: {}",
            bodies.len()
        );
    }

    #[test]
    fn a_rewound_message_is_sent_whole_again() {
        let mut packer = Packer::default();
        packer.push(record(1, 300));
        let lost = packer.pack(100);
        assert!(lost.is_some() && packer.bytes() < 300);
        packer.rewind();
        assert_eq!(packer.bytes(), 300);
        let bodies: Vec<Bytes> = core::iter::from_fn(|| packer.pack(100)).collect();
        assert_eq!(unpack(&bodies), [record(1, 300)]);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_without_allocating() {
        let mut body = Vec::new();
        Writer::new(&mut body)
            .u8(Service::Agreed.code())
            .varint(1)
            .varint(1 << 40);
        let mut at = 0;
        assert!(
            Unpacker::default()
                .next(&body.clone().into(), &mut at, 1 << 26)
                .is_err()
        );
        assert_eq!(at, body.len());
    }
}
