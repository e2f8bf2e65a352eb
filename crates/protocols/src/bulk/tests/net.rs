//! A small network of endpoints: every datagram takes a millisecond, or is lost. Users keep what
//! they are told.

use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{
    Destination, Incarnation, MemberId, NodeId, Protocol as _, Rng, Time, TransmitBuf,
};

use crate::bulk::ranges::RangeSet;
use crate::bulk::{
    Acceptance, Bulk, BulkConfig, DeliverTo, Notice, Opening, Order, Outcome, Transfer, TransferId,
    Wanted,
};
use crate::xgm::Subgroups;

pub(super) fn member(index: usize) -> MemberId {
    MemberId {
        node: NodeId(index as u64 + 1),
        incarnation: Incarnation(index as u64 + 100),
    }
}

/// A stream of 400,000 B to this many receivers, of which one may take this many bytes a second:
/// how long the most of it takes, and the network then. What goes before the first answers is bound
/// by the window alone, so little is offered `until_known`.
pub(super) fn time_beside_a_slow_receiver(
    settings: BulkConfig,
    receivers: usize,
    slowest: Option<u64>,
    until_known: Duration,
) -> (Duration, Net) {
    const LENGTH: usize = 400_000;
    let mut net = Net::new(receivers + 1, &settings, LENGTH);
    let slow = BulkConfig {
        receive_rate: slowest,
        receive_burst: 3000,
        ..settings
    };
    net.endpoints[2] = Bulk::new(member(2), slow, Rng::new(2)).expect("they fit");
    net.send(Transfer {
        length: None,
        ..file(LENGTH, Wanted::Count(receivers))
    });
    let all = net.stream.clone();
    net.stream.truncate(20_000);
    net.run(until_known);
    net.stream = all;
    let (id, since) = (net.id.expect("it is sent"), net.now);
    net.must(Duration::from_secs(5), |net| net.offered == LENGTH as u64);
    let now = net.now;
    net.endpoints[0].finish(now, id);
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!((1..=receivers).all(|index| net.has_stream(index, 0)));
    (net.now - since, net)
}

/// This often in a row something may be due at the same instant.
const TURNS_MAX: u32 = 1_000;

/// A link: datagrams wait for each other, and are lost where too many do.
#[derive(Clone, Debug)]
pub(super) struct Link {
    bytes_per_second: f64,
    waits_max: Duration,
    free: Time,
}

impl Link {
    pub(super) fn new(bytes_per_second: u64, waits_max: Duration) -> Self {
        Self {
            bytes_per_second: bytes_per_second as f64,
            waits_max,
            free: Time::ZERO,
        }
    }

    /// When a datagram that comes `at` that time is through.
    fn wait(&mut self, at: Time, bytes: usize) -> Time {
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        self.free = self.free.max(at) + takes;
        self.free
    }

    /// The same; `None` if it is lost.
    fn pass(&mut self, at: Time, bytes: usize) -> Option<Time> {
        (self.free <= at + self.waits_max).then(|| self.wait(at, bytes))
    }
}

/// Says of a datagram that leaves now, for this endpoint, whether it is lost.
pub(super) type Loses = Box<dyn FnMut(Time, usize, &Bytes) -> bool>;

pub(super) struct Net {
    pub(super) now: Time,
    pub(super) endpoints: Vec<Bulk>,
    /// How much longer what the sender says takes to each endpoint.
    pub(super) late: Vec<Duration>,
    /// Who is cut off.
    pub(super) cut: Vec<bool>,
    /// Whom multicasts do not reach: they get copies, as the sender lets them.
    pub(super) without: Vec<bool>,
    /// The bytes of each copy that has left for them: when, for which endpoint, how many.
    pub(super) copied: Vec<(Time, usize, usize)>,
    /// The link of each endpoint, if it has a capacity.
    pub(super) links: Vec<Option<Link>>,
    /// Share of datagrams to each endpoint that are lost.
    pub(super) loss: Vec<f64>,
    /// Whether a datagram to an endpoint is lost, beside those that are lost at random.
    pub(super) loses: Option<Loses>,
    /// What each user was told, but data.
    pub(super) notices: Vec<Vec<Notice>>,
    /// The data that each user was given.
    pub(super) data: Vec<BTreeMap<u64, Bytes>>,
    /// The messages that each user was given, and what has come of the next.
    pub(super) messages: Vec<Vec<Vec<u8>>>,
    part: Vec<Vec<u8>>,
    /// The number of the first message of each user, and those of all; and whether some may be left
    /// out.
    pub(super) first: Vec<u64>,
    pub(super) numbers: Vec<Vec<u64>>,
    pub(super) gaps: bool,
    /// Messages that the sender's user has to send.
    pub(super) to_send: VecDeque<Bytes>,
    /// When the sender's user learned that all have a message: its number, and how many messages
    /// each user had been given by then.
    pub(super) all_had: Vec<(Time, u64, Vec<usize>)>,
    /// How each user answers an announcement; `None`: not at all.
    pub(super) acceptance: Vec<Option<Acceptance>>,
    /// Users keep whole chunks of so many bytes of what they were given, are done with a chunk when
    /// it is whole, and take a transfer for the former one that is sent anew, as receivers of files
    /// do. Those that get it in order, as pipes do, keep nothing.
    pub(super) chunk: Option<u64>,
    /// What each user has of chunks that are not whole: their numbers, and how many bytes.
    parts: Vec<BTreeMap<u64, u64>>,
    /// The transfer that each user takes part in.
    former: Vec<Option<TransferId>>,
    /// Whether each user says that it is done with data.
    pub(super) consumes: Vec<bool>,
    /// The bytes a second of each user's disk, if it takes time; and what it is writing: when that
    /// is done, and how many bytes they are.
    pub(super) disks: Vec<Option<u64>>,
    writing: Vec<VecDeque<(Time, TransferId, u64)>>,
    /// What each user replies when it has everything, and how much of it was taken; `None`:
    /// nothing.
    pub(super) replies: Vec<Option<Bytes>>,
    taken: Vec<usize>,
    /// What the sender's user was replied, and whether it says that it is done with that.
    pub(super) replied: BTreeMap<MemberId, Vec<u8>>,
    pub(super) consumes_replies: bool,
    /// What the sender's user sends.
    pub(super) stream: Bytes,
    pub(super) id: Option<TransferId>,
    /// Bytes that the sender's user was asked for.
    pub(super) offered: u64,
    flying: VecDeque<(Time, usize, MemberId, Bytes)>,
    /// How often a timer of each endpoint was due.
    pub(super) timeouts: Vec<u64>,
    /// What is lost by chance.
    pub(super) rng: Rng,
}

pub(super) fn accepting(order: Order) -> Acceptance {
    Acceptance {
        held: Vec::new(),
        order,
        name: Bytes::from_static(b"host"),
    }
}

pub(super) fn file(length: usize, receivers: Wanted) -> Transfer {
    Transfer {
        about: Bytes::from_static(b"a file"),
        length: Some(length as u64),
        rewindable: true,
        receivers,
        subgroups: Subgroups::ALL,
        confirm: false,
        deliver_to: DeliverTo::AtOnce,
        replies: false,
        strict: false,
    }
}

impl Net {
    pub(super) fn new(endpoints: usize, config: &BulkConfig, length: usize) -> Self {
        let endpoint = |index| {
            let rng = Rng::new(index as u64);
            Bulk::new(member(index), config.clone(), rng).expect("the settings fit each other")
        };
        Self {
            now: Time::from_millis(1),
            endpoints: (0..endpoints).map(endpoint).collect(),
            late: std::vec![Duration::ZERO; endpoints],
            cut: std::vec![false; endpoints],
            without: std::vec![false; endpoints],
            copied: Vec::new(),
            links: std::vec![None; endpoints],
            loss: std::vec![0.0; endpoints],
            loses: None,
            notices: std::vec![Vec::new(); endpoints],
            data: std::vec![BTreeMap::new(); endpoints],
            messages: std::vec![Vec::new(); endpoints],
            part: std::vec![Vec::new(); endpoints],
            first: std::vec![1; endpoints],
            numbers: std::vec![Vec::new(); endpoints],
            gaps: false,
            to_send: VecDeque::new(),
            all_had: Vec::new(),
            acceptance: std::vec![Some(accepting(Order::AsTheyCome)); endpoints],
            chunk: None,
            parts: std::vec![BTreeMap::new(); endpoints],
            former: std::vec![None; endpoints],
            consumes: std::vec![true; endpoints],
            disks: std::vec![None; endpoints],
            writing: std::vec![VecDeque::new(); endpoints],
            replies: std::vec![None; endpoints],
            taken: std::vec![0; endpoints],
            replied: BTreeMap::new(),
            consumes_replies: true,
            stream: (0..length)
                .map(|index| (index % 253) as u8)
                .collect::<Vec<u8>>()
                .into(),
            id: None,
            offered: 0,
            flying: VecDeque::new(),
            timeouts: std::vec![0; endpoints],
            rng: Rng::new(9),
        }
    }

    /// Multicasts do not reach these endpoints, as the sender learns.
    pub(super) fn take_multicast_from(&mut self, without: &[usize]) {
        for index in without {
            self.without[*index] = true;
        }
        self.tell_copies();
    }

    /// The sender learns whom multicasts do not reach.
    fn tell_copies(&mut self) {
        let without = self.endpoints.iter().zip(&self.without);
        let without = without.filter(|(_, without)| **without);
        let members: Vec<MemberId> = without.map(|(endpoint, _)| endpoint.local()).collect();
        self.endpoints[0].handle_copies(self.now, &members);
    }

    pub(super) fn send(&mut self, transfer: Transfer) -> TransferId {
        let id = self.endpoints[0]
            .send(self.now, transfer)
            .expect("it can be sent");
        self.id = Some(id);
        id
    }

    /// Opens a connection for messages to this many receivers.
    pub(super) fn open(&mut self, receivers: usize) -> TransferId {
        self.open_as(receivers, Opening::AtStart)
    }

    /// The same for receivers that come so.
    pub(super) fn open_as(&mut self, receivers: usize, opening: Opening) -> TransferId {
        let connection = Transfer {
            about: Bytes::from_static(b"messages"),
            length: None,
            rewindable: false,
            ..file(0, Wanted::Count(receivers))
        };
        let id = self.endpoints[0].open(self.now, connection, opening);
        let id = id.expect("it can be opened");
        self.id = Some(id);
        id
    }

    pub(super) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_until(end, |_| false);
    }

    /// Runs until `done`, or `within` has passed: then it fails.
    pub(super) fn must(&mut self, within: Duration, done: impl FnMut(&Self) -> bool) {
        let end = self.now + within;
        assert!(
            self.run_until(end, done),
            "not within {within:?}: {:?}",
            self.notices
        );
    }

    pub(super) fn run_until(&mut self, end: Time, mut done: impl FnMut(&Self) -> bool) -> bool {
        let mut turns = 0;
        while self.now < end {
            self.drain();
            if done(self) {
                return true;
            }
            let timeouts = self.endpoints.iter().filter_map(Bulk::poll_timeout);
            let flying = self.flying.front().map(|(at, ..)| *at);
            let written = self.writing.iter().filter_map(|disk| disk.front());
            let written = written.map(|(at, ..)| *at);
            let next = timeouts
                .chain(flying)
                .chain(written)
                .min()
                .unwrap_or(end)
                .min(end);
            turns = if next > self.now { 0 } else { turns + 1 };
            assert!(turns < TURNS_MAX, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            while self.flying.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, to, from, body) = self.flying.pop_front().expect("looked at just now");
                self.endpoints[to].handle_datagram(self.now, from, body);
                self.take_notices(to);
            }
            for index in 0..self.endpoints.len() {
                self.write(index);
                let due = self.endpoints[index].poll_timeout();
                self.timeouts[index] += u64::from(due.is_some_and(|due| due <= self.now));
                self.endpoints[index].handle_timeout(self.now);
            }
        }
        done(self)
    }

    /// User `index` is done with what is on its disk by now.
    fn write(&mut self, index: usize) {
        while let Some((at, id, bytes)) = self.writing[index].front().copied()
            && at <= self.now
        {
            self.writing[index].pop_front();
            self.endpoints[index].consumed(self.now, id, bytes);
        }
    }

    fn drain(&mut self) {
        for index in 0..self.endpoints.len() {
            self.take_notices(index);
        }
        self.offer();
        let mut buf = TransmitBuf::new(16, 0, 0);
        for index in 0..self.endpoints.len() {
            buf.clear();
            while let Some(transmit) = self.endpoints[index].poll_transmit(self.now, &mut buf) {
                let copies_to: Vec<bool> = (0..self.endpoints.len())
                    .map(|to| self.endpoints[index].copies_to(self.endpoints[to].local()))
                    .collect();
                for body in buf.iter() {
                    // A multicast leaves once, whoever gets it.
                    let mut multicast = None;
                    for (to, is_copied) in copies_to.iter().copied().enumerate() {
                        let reaches = match transmit.destination {
                            Destination::Group if to == index => false,
                            Destination::Group if self.without[to] => {
                                if is_copied {
                                    self.copied.push((self.now, to, body.len()));
                                }
                                is_copied
                            }
                            // Nobody hears of those without multicast but whom they tell.
                            Destination::Group if self.without[index] => to == 0,
                            Destination::Group => self.endpoints[to].listens(),
                            Destination::Member(member) => self.endpoints[to].local() == member,
                        };
                        let lost = self.rng.chance(self.loss[to]);
                        let leaves = match transmit.destination {
                            _ if !reaches => continue,
                            Destination::Group if !self.without[to] => {
                                *multicast.get_or_insert_with(|| self.leave(index, body.len()))
                            }
                            _ => self.leave(index, body.len()),
                        };
                        let arrives = self.links[to]
                            .as_mut()
                            .map_or(Some(leaves), |link| link.pass(leaves, body.len()));
                        if let Some(passed) = arrives
                            && !lost
                            && !self.cut[index]
                            && !self.cut[to]
                        {
                            let late = if index == 0 {
                                self.late[to]
                            } else {
                                Duration::ZERO
                            };
                            let at = passed + Duration::from_millis(1) + late;
                            let from = self.endpoints[index].local();
                            let body = Bytes::copy_from_slice(body);
                            let chosen = self.loses.as_mut();
                            if chosen.is_some_and(|loses| loses(self.now, to, &body)) {
                                continue;
                            }
                            let place = self.flying.partition_point(|(other, ..)| *other <= at);
                            self.flying.insert(place, (at, to, from, body));
                        }
                    }
                }
                buf.clear();
            }
        }
    }

    /// When a datagram that endpoint `index` sends now has left it: its own host loses nothing.
    fn leave(&mut self, index: usize, bytes: usize) -> Time {
        let link = self.links[index].as_mut();
        link.map_or(self.now, |link| link.wait(self.now, bytes))
    }

    fn offer(&mut self) {
        let Some(id) = self.id else { return };
        while let Some(message) = self.to_send.front() {
            let sender = &mut self.endpoints[0];
            if sender.offer_message(self.now, id, message.clone()).is_err() {
                break;
            }
            self.to_send.pop_front();
        }
        while let Some(wanted) = self.endpoints[0].wanted(id) {
            let end = wanted.end.min(self.stream.len() as u64);
            if wanted.start >= end {
                return;
            }
            let bytes = self.stream.slice(wanted.start as usize..end as usize);
            self.offered += bytes.len() as u64;
            self.endpoints[0]
                .offer(self.now, id, bytes)
                .expect("it is wanted");
        }
    }

    fn take_notices(&mut self, index: usize) {
        while let Some(notice) = self.endpoints[index].poll_event() {
            match &notice {
                Notice::Announced { id, .. } => {
                    self.take_over(index, *id);
                    self.begin_messages(index);
                    if let Some(acceptance) = &self.acceptance[index] {
                        let accepted = self.endpoints[index].accept(self.now, *id, acceptance);
                        accepted.expect("it was announced just now");
                    }
                }
                Notice::Data { id, bytes, .. } if self.endpoints[index].carries_messages(*id) => {
                    self.part[index].extend_from_slice(bytes);
                    if self.consumes[index] {
                        self.endpoints[index].consumed(self.now, *id, bytes.len() as u64);
                    }
                    continue;
                }
                Notice::MessageEnded { number, .. } => {
                    let message = std::mem::take(&mut self.part[index]);
                    self.messages[index].push(message);
                    let given = self.messages[index].len() as u64;
                    assert!(self.gaps || self.first[index] + given - 1 == *number);
                    self.numbers[index].push(*number);
                    continue;
                }
                Notice::Joined {
                    receiver: None,
                    number,
                    ..
                } => {
                    assert!(*number > 1 && self.messages[index].is_empty());
                    self.first[index] = *number;
                }
                Notice::AllHave { number, .. } => {
                    let given = self.messages.iter().zip(&self.first);
                    let had = given.map(|(given, first)| *first as usize - 1 + given.len());
                    let had = had.collect();
                    self.all_had.push((self.now, *number, had));
                    continue;
                }
                Notice::Data { id, offset, bytes } => {
                    let last = self.data[index].last_key_value();
                    let end = last.map_or(0, |(offset, bytes)| offset + bytes.len() as u64);
                    assert!(!self.is_in_order(index) || *offset >= end, "in order");
                    let before = self.data[index].insert(*offset, bytes.clone());
                    assert_eq!(before, None, "each byte once");
                    let place = *offset..*offset + bytes.len() as u64;
                    let len = match self.chunk {
                        Some(chunk) if !self.is_in_order(index) => {
                            self.made_whole(index, chunk, place)
                        }
                        _ => place.end - place.start,
                    };
                    if let Some(rate) = self.disks[index] {
                        let last = self.writing[index].back().map_or(self.now, |(at, ..)| *at);
                        let took = Duration::from_micros(len * 1_000_000 / rate);
                        let at = last.max(self.now) + took;
                        self.writing[index].push_back((at, *id, len));
                    } else if self.consumes[index] && len > 0 {
                        self.endpoints[index].consumed(self.now, *id, len);
                    }
                    continue;
                }
                Notice::Reply {
                    id,
                    receiver,
                    offset,
                    bytes,
                } => {
                    let replied = self.replied.entry(*receiver).or_default();
                    assert_eq!(replied.len() as u64, *offset, "in order, each byte once");
                    replied.extend_from_slice(bytes);
                    if self.consumes_replies {
                        let len = bytes.len() as u64;
                        self.endpoints[index].reply_consumed(self.now, *id, len);
                    }
                    continue;
                }
                Notice::Received { id, .. } | Notice::ReplyRoom { id }
                    if self.endpoints[index].wants_reply(*id) =>
                {
                    self.reply(index, *id);
                }
                Notice::Received { id, .. } if self.chunk.is_some() => {
                    self.endpoints[index].conclude(self.now, *id, Ok(()));
                }
                Notice::AllHold { id } => self.endpoints[index].in_place(self.now, *id),
                _ => {}
            }
            self.notices[index].push(notice);
        }
    }

    /// The code with which user `index` ends its reply.
    pub(super) fn code(index: usize) -> u32 {
        index as u32 + 7
    }

    /// A user goes on with its reply.
    fn reply(&mut self, index: usize, id: TransferId) {
        let Some(reply) = &self.replies[index] else {
            return;
        };
        let (endpoint, taken) = (&mut self.endpoints[index], &mut self.taken[index]);
        *taken += endpoint.reply(self.now, id, &reply[*taken..]);
        if *taken == reply.len() {
            endpoint.finish_reply(self.now, id, Self::code(index));
        }
    }

    /// A user has been given no message of a connection.
    fn begin_messages(&mut self, index: usize) {
        self.messages[index].clear();
        self.part[index].clear();
        self.first[index] = 1;
        self.numbers[index].clear();
    }

    /// Transfer `id` is announced to a user that keeps what it is given.
    fn take_over(&mut self, index: usize, id: TransferId) {
        let Some(chunk) = self.chunk else { return };
        if let Some(former) = self.former[index].replace(id) {
            let reason = Err("the same content is sent anew");
            self.endpoints[index].conclude(self.now, former, reason);
        }
        self.keep_chunks(index, chunk);
    }

    /// Whether user `index` takes the stream in its order.
    pub(super) fn is_in_order(&self, index: usize) -> bool {
        let acceptance = self.acceptance[index].as_ref();
        acceptance.is_some_and(|it| it.order == Order::InOrder)
    }

    /// What a user keeps when it begins anew: the whole chunks of what it has.
    fn keep_chunks(&mut self, index: usize, chunk: u64) {
        let there = match self.is_in_order(index) {
            true => RangeSet::default(),
            false => self.there(index),
        };
        self.data[index].clear();
        self.parts[index].clear();
        self.writing[index].clear();
        let len = self.stream.len() as u64;
        let chunks = (0..len).step_by(chunk as usize);
        let chunks = chunks.map(|start| start..(start + chunk).min(len));
        let is_there = |part: &Range<u64>| there.first_missing(part.start) >= part.end;
        if let Some(acceptance) = &mut self.acceptance[index] {
            acceptance.held = chunks.filter(is_there).collect();
        }
    }

    /// What a user has of the stream: each byte was the right one.
    pub(super) fn there(&self, index: usize) -> RangeSet<u64> {
        let mut there = RangeSet::default();
        let held = self.acceptance[index].iter().flat_map(|one| &one.held);
        held.for_each(|range| there.insert(range.clone()));
        for (offset, bytes) in &self.data[index] {
            let place = *offset..offset + bytes.len() as u64;
            let right = self.stream.get(place.start as usize..place.end as usize);
            assert_eq!(right, Some(&bytes[..]), "host {index} at {offset}");
            there.insert(place);
        }
        there
    }

    /// The process of an endpoint dies and is started again: nothing stays but what its user keeps.
    pub(super) fn restart(&mut self, index: usize, config: &BulkConfig) {
        let MemberId { node, incarnation } = self.endpoints[index].local();
        let incarnation = Incarnation(incarnation.0 + 1_000);
        let rng = Rng::new(incarnation.0);
        self.endpoints[index] = Bulk::new(MemberId { node, incarnation }, config.clone(), rng)
            .expect("the settings fit each other");
        self.tell_copies();
        self.notices[index].clear();
        self.begin_messages(index);
        self.former[index] = None;
        if let Some(chunk) = self.chunk {
            self.keep_chunks(index, chunk);
        }
    }

    /// User `index` was given these bytes: with how many it is done now, as their chunks are whole
    /// or were before.
    fn made_whole(&mut self, index: usize, chunk: u64, mut bytes: Range<u64>) -> u64 {
        let held = self.acceptance[index].iter().flat_map(|one| &one.held);
        let held: Vec<Range<u64>> = held.cloned().collect();
        let mut done = 0;
        while !bytes.is_empty() {
            let number = bytes.start / chunk;
            let whole = number * chunk..((number + 1) * chunk).min(self.stream.len() as u64);
            let end = bytes.end.min(whole.end);
            let len = end - bytes.start;
            bytes.start = end;
            if held
                .iter()
                .any(|held| held.start < whole.end && whole.start < held.end)
            {
                done += len;
                continue;
            }
            let have = self.parts[index].entry(number).or_default();
            *have += len;
            if *have == whole.end - whole.start {
                done += *have;
            }
        }
        done
    }

    /// Whether the sender has settled everybody.
    pub(super) fn is_sent(&self) -> bool {
        self.notices[0]
            .iter()
            .any(|notice| matches!(notice, Notice::Sent { .. }))
    }

    /// What became of each receiver, as the sender was told.
    pub(super) fn outcomes(&self) -> BTreeMap<MemberId, Outcome> {
        let settled = self.notices[0].iter().filter_map(|notice| match notice {
            Notice::Settled {
                receiver, outcome, ..
            } => Some((*receiver, outcome.clone())),
            _ => None,
        });
        let mut outcomes = BTreeMap::new();
        for (receiver, outcome) in settled {
            let before = outcomes.insert(receiver, outcome);
            assert_eq!(before, None, "{receiver:?} is settled once");
        }
        outcomes
    }

    /// Whether user `index` was given exactly the stream from `from` on.
    pub(super) fn has_stream(&self, index: usize, from: usize) -> bool {
        let data = &self.data[index];
        let end = data
            .last_key_value()
            .map_or(from as u64, |(offset, bytes)| offset + bytes.len() as u64);
        // Asked after every step: the bytes are compared once they may be all.
        if end != self.stream.len() as u64 {
            return false;
        }
        let mut at = from as u64;
        for (offset, bytes) in data {
            let place = at as usize..at as usize + bytes.len();
            if *offset != at || self.stream.get(place) != Some(&bytes[..]) {
                return false;
            }
            at += bytes.len() as u64;
        }
        at == self.stream.len() as u64
    }
}
