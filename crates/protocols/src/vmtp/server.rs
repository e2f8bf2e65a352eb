//! The server: a record of the last transaction of each client, made when the client is first heard
//! (003 3.3.2: "on-demand connection set-up").

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::{MemberId, Time};

use super::wire::{Message, all_of};

/// The transactions that a server knows of, one of each client.
#[derive(Debug, Default)]
pub(super) struct Server {
    records: BTreeMap<MemberId, Record>,
}

/// A client's last transaction.
#[derive(Debug)]
struct Record {
    transaction: u64,
    /// The segments that are here, by number; empty once the request was delivered.
    parts: Vec<Option<Bytes>>,
    mask: u32,
    segments: u8,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Segments are missing.
    Collecting,
    /// The user will respond at this time to a request of this many bytes.
    Working(Time, u32),
    /// The user has responded to a request of this many bytes.
    Done(u32),
}

impl Server {
    /// The record of a client's transaction, made if it is newer than the one known; `None` if it
    /// is older, or there is no room.
    fn record(
        &mut self,
        client: MemberId,
        transaction: u64,
        segments: u8,
        max: usize,
    ) -> Option<&mut Record> {
        let has_room = self.records.len() < max || self.records.contains_key(&client);
        let known = self.records.get(&client).map(|record| record.transaction);
        if known.is_none_or(|known| known < transaction) && has_room {
            let record = Record {
                transaction,
                parts: alloc::vec![None; usize::from(segments)],
                mask: 0,
                segments,
                state: State::Collecting,
            };
            self.records.insert(client, record);
        }
        let record = self.records.get_mut(&client)?;
        let is_it = record.transaction == transaction && record.segments == segments;
        is_it.then_some(record)
    }

    /// Takes a segment. Returns the request if it is whole now; the user will respond to it when
    /// `due`.
    pub(super) fn take(
        &mut self,
        client: MemberId,
        (transaction, segments, segment): (u64, u8, u8),
        bytes: Bytes,
        due: Time,
        max: usize,
    ) -> Option<(u64, Bytes)> {
        let record = self.record(client, transaction, segments, max)?;
        let bit = 1 << segment;
        if record.mask & bit != 0 {
            return None;
        }
        record.mask |= bit;
        record.parts[usize::from(segment)] = Some(bytes);
        if record.mask != all_of(segments) {
            return None;
        }
        let mut whole = BytesMut::new();
        for part in core::mem::take(&mut record.parts).into_iter().flatten() {
            whole.put(part);
        }
        record.state = State::Working(due, whole.len() as u32);
        Some((transaction, whole.freeze()))
    }

    /// The answer to a client's demand: what is here of its request, or the response again.
    pub(super) fn demanded(
        &mut self,
        client: MemberId,
        transaction: u64,
        segments: u8,
        max: usize,
    ) -> Option<Message> {
        let record = self.record(client, transaction, segments, max)?;
        Some(match record.state {
            State::Done(len) => response(transaction, len),
            State::Collecting | State::Working(..) => Message::Ack {
                transaction,
                mask: record.mask,
            },
        })
    }

    /// The next response that is due, and its client.
    pub(super) fn respond(&mut self, now: Time) -> Option<(MemberId, Message)> {
        self.records.iter_mut().find_map(|(client, record)| {
            let State::Working(due, len) = record.state else {
                return None;
            };
            if due > now {
                return None;
            }
            record.state = State::Done(len);
            Some((*client, response(record.transaction, len)))
        })
    }

    /// When a user responds next.
    pub(super) fn due(&self) -> Option<Time> {
        let dues = self
            .records
            .values()
            .filter_map(|record| match record.state {
                State::Working(due, _) => Some(due),
                State::Collecting | State::Done(_) => None,
            });
        dues.min()
    }
}

/// The response of a user, in this model of one: the length of the request.
fn response(transaction: u64, len: u32) -> Message {
    Message::Response {
        transaction,
        bytes: Bytes::copy_from_slice(&len.to_be_bytes()),
    }
}
