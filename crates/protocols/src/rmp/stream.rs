//! One sender's messages, read out of its packets as they come.
//!
//! A message that is promised no place in the total order is delivered as soon as its own promise
//! allows (000 ch. 2): a `reliable` one when it is here, a `fifo` one when it is here and all
//! earlier messages of its sender that are promised an order are delivered. All others wait until
//! the cursor comes to the positions of their packets. A packet may begin in the middle of a
//! message, so a packet is read only behind all earlier ones of its sender.

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::Service;

use super::numbers::Number;
use crate::packing::{Record, Unpacker};

/// Whether a message of `service` has a promise, and none of a place in the total order: it is
/// carried through a reformation once anybody may have delivered it.
pub(super) fn comes_early(service: Service) -> bool {
    matches!(service, Service::Reliable | Service::Fifo)
}

/// Whether a message of `service` is delivered at its place.
fn has_place(service: Service) -> bool {
    !comes_early(service) && service != Service::Unreliable
}

/// A packet, and a byte of its records.
type Begin = (Number, usize);

/// The messages of one sender in one configuration.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Stream {
    unpacker: Unpacker,
    /// The packets up to here are read.
    read: Number,
    /// What was read and waits, each with the packet in which it ends.
    waiting: VecDeque<(Number, Record)>,
    /// The first of them was taken to be delivered at its position, and was not yet.
    taken: bool,
    /// The last packet that is read in which a message ends that comes early.
    early: Number,
    /// Where the message begins that is begun and not ended at the end of a packet; for packets
    /// that are kept.
    begins: VecDeque<(Number, Begin)>,
    /// Where the message begins that is being read.
    begun: Option<Begin>,
    /// In the first packet, what is before this byte is not read: it ended before this member came.
    skipped: usize,
    /// A message that waits for its place was read.
    ordered: bool,
    /// Packets whose records did not decode: a peer's bug.
    pub(super) malformed: u64,
}

impl Stream {
    /// The messages of a sender from the byte `offset` of the records of packet `first` on.
    pub(super) fn behind(first: Number, offset: usize) -> Self {
        Self {
            read: Number(first.0.saturating_sub(1)),
            skipped: offset,
            ..Self::default()
        }
    }

    /// Where the first message begins that ends behind `packet`, which was read.
    pub(super) fn begin_behind(&self, packet: Number) -> Begin {
        let mut begins = self.begins.iter();
        let begin = begins.find(|(at, _)| *at == packet);
        begin.map_or((packet.next(), 0), |(_, begin)| *begin)
    }

    /// `packet` is not kept any more.
    pub(super) fn forget(&mut self, packet: Number) {
        while self.begins.pop_front_if(|(at, _)| *at < packet).is_some() {}
    }

    /// The packet that is to be read next.
    pub(super) fn next_packet(&self) -> Number {
        self.read.next()
    }

    /// The last packet that is read in which a message ends that comes early; 0 if there is none.
    pub(super) fn early(&self) -> Number {
        self.early
    }

    /// Reads the next packet, whose records are `body`, and gives what need not wait to `emit`. A
    /// `fifo` message waits for earlier ones of its sender if `order_waits`. A `stale` packet is of
    /// the configuration before a list, in which its early messages were delivered.
    pub(super) fn read(
        &mut self,
        body: &Bytes,
        message_max: usize,
        order_waits: bool,
        stale: bool,
        emit: &mut dyn FnMut(Record),
    ) {
        self.read = self.read.next();
        let mut at = core::mem::take(&mut self.skipped).min(body.len());
        loop {
            let begin = self.begun.take().unwrap_or((self.read, at));
            match self.unpacker.next(body, &mut at, message_max) {
                Ok(Some(record)) => self.enter(record, order_waits, stale, emit),
                Ok(None) => {
                    if self.unpacker.is_within() {
                        self.begun = Some(begin);
                        self.begins.push_back((self.read, begin));
                    }
                    return;
                }
                Err(_) => self.malformed += 1,
            }
        }
    }

    fn enter(
        &mut self,
        record: Record,
        order_waits: bool,
        stale: bool,
        emit: &mut dyn FnMut(Record),
    ) {
        let early = comes_early(record.service);
        let placed = has_place(record.service);
        self.ordered |= placed;
        // It was sent in the configuration before, and delivered there, unless it is behind what is
        // delivered in this one.
        if stale && (record.service != Service::Fifo || !self.ordered) && !placed {
            return;
        }
        if early {
            self.early = self.read;
        }
        let behind = order_waits && (self.taken || !self.waiting.is_empty());
        match record.service {
            Service::Unreliable | Service::Reliable => emit(record),
            Service::Fifo if !behind => emit(record),
            _ => self.waiting.push_back((self.read, record)),
        }
    }

    /// The next message that waits and ends in `packet`, which the cursor has come to; what came
    /// before it is delivered.
    pub(super) fn take(&mut self, packet: Number, emit: &mut dyn FnMut(Record)) -> Option<Record> {
        self.release(emit);
        let mut first = self.waiting.pop_front_if(|(at, _)| *at <= packet);
        // One of an earlier packet lost its position, and is not delivered here.
        while first.as_ref().is_some_and(|(at, _)| *at < packet) {
            first = self.waiting.pop_front_if(|(at, _)| *at <= packet);
        }
        let (_, record) = first?;
        self.taken = true;
        Some(record)
    }

    /// What was taken is delivered: so are the `fifo` messages right behind it.
    pub(super) fn release(&mut self, emit: &mut dyn FnMut(Record)) {
        self.taken = false;
        let is_fifo = |(_, record): &mut (Number, Record)| record.service == Service::Fifo;
        while let Some((_, record)) = self.waiting.pop_front_if(is_fifo) {
            emit(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::packing::Packer;

    /// Packets of at most 60 bytes of records: messages of these services, each of 30 bytes.
    fn packets(services: &[Service]) -> Vec<Bytes> {
        let mut packer = Packer::default();
        for (index, service) in services.iter().enumerate() {
            packer.push(Record {
                service: *service,
                number: index as u64 + 1,
                payload: vec![0; 30].into(),
            });
        }
        core::iter::from_fn(|| packer.pack(60)).collect()
    }

    fn numbers(stream: &mut Stream, packets: &[Bytes]) -> Vec<u64> {
        let mut early = Vec::new();
        for packet in packets {
            stream.read(packet, 1_000, true, false, &mut |record| {
                early.push(record.number);
            });
        }
        early
    }

    #[test]
    fn a_reliable_message_waits_for_nothing_and_a_fifo_one_for_all_before_it() {
        let packets = packets(&[
            Service::Fifo,
            Service::Agreed,
            Service::Fifo,
            Service::Reliable,
            Service::Fifo,
            Service::Safe,
        ]);
        let mut stream = Stream::default();
        assert_eq!(numbers(&mut stream, &packets), [1, 4]);
    }

    #[test]
    fn messages_whose_packets_lost_their_places_are_not_delivered_in_front_of_a_later_one() {
        let mut stream = Stream::default();
        for number in 1..=3 {
            let mut packer = Packer::default();
            packer.push(Record {
                service: Service::Agreed,
                number,
                payload: vec![0; 30].into(),
            });
            let body = packer.pack(60).expect("it fits");
            stream.read(&body, 1_000, true, false, &mut |_| {});
        }
        let record = stream.take(Number(3), &mut |_| {});
        assert_eq!(record.map(|record| record.number), Some(3));
        assert!(stream.take(Number(3), &mut |_| {}).is_none());
    }

    #[test]
    fn what_stands_behind_a_message_comes_when_that_is_delivered() {
        let packets = packets(&[
            Service::Agreed,
            Service::Fifo,
            Service::Fifo,
            Service::Agreed,
        ]);
        let mut stream = Stream::default();
        assert_eq!(numbers(&mut stream, &packets), [0; 0]);
        let mut late = Vec::new();
        let mut taken = |stream: &mut Stream, packet| {
            let record = stream.take(Number(packet), &mut |record| late.push(record.number));
            record.map(|record| record.number)
        };
        assert_eq!(taken(&mut stream, 1), Some(1));
        let end = packets.len() as u64;
        let next: Vec<_> = (1..=end).filter_map(|it| taken(&mut stream, it)).collect();
        assert_eq!(next, [4]);
        assert_eq!(late, [2, 3]);
        assert!(stream.early() > Number(0));
    }
}
