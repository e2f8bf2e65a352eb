//! The connections of others at a receiver: what is delivered, what is reported as lost, and what
//! is replied.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use groupcast_core::event::Gap;
use groupcast_core::wire::Reader;
use groupcast_core::{Delivery, Event, MemberId, MessageId, Service, Time};

use crate::bulk::{Acceptance, Bulk, Notice, TransferId};

/// All connections that this member receives, and what it knows of their senders.
#[derive(Debug)]
pub(super) struct Incoming {
    connections: BTreeMap<TransferId, Connection>,
    senders: BTreeMap<MemberId, Heard>,
    /// What senders have announced since, and what they have said of it. It waits until the
    /// connection before is over: what has come of that may not have been handed over yet.
    later: BTreeMap<MemberId, (TransferId, Bytes)>,
    message_max: usize,
    /// Connections that were joined while they ran, and messages that were reported as lost.
    pub(super) joined: u64,
    pub(super) reported: u64,
}

/// What is known of the messages of a sender.
#[derive(Debug)]
struct Heard {
    /// The number of the last that was delivered or reported.
    last: u64,
    /// The last connection, and whether all that was said on it was delivered.
    connection: u32,
    is_whole: bool,
}

/// A connection of another member.
#[derive(Debug)]
struct Connection {
    /// The number of its first message among all of its sender's.
    base: u64,
    is_unanswered: bool,
    /// Whether the sender counts this member in.
    is_enrolled: bool,
    /// What has come of the next message.
    part: BytesMut,
    /// What is to be replied, and whether that is all.
    unsaid: Vec<u8>,
    has_all: bool,
    has_replied: bool,
}

impl Incoming {
    /// The most senders that are followed.
    const SENDERS_MAX: usize = 1_024;

    pub(super) fn new(message_max: usize) -> Self {
        Self {
            connections: BTreeMap::new(),
            senders: BTreeMap::new(),
            later: BTreeMap::new(),
            message_max,
            joined: 0,
            reported: 0,
        }
    }

    /// Takes no part any more.
    pub(super) fn leave(&mut self, now: Time, bulk: &mut Bulk) {
        while let Some((id, _)) = self.connections.pop_first() {
            bulk.conclude(now, id, Err("it leaves"));
        }
        while let Some((_, (id, _))) = self.later.pop_first() {
            bulk.refuse(now, id, "it leaves", &[]);
        }
    }

    /// Takes in a notice of the endpoint. `listens`: whether the member takes part in what is
    /// announced.
    pub(super) fn hear(
        &mut self,
        now: Time,
        notice: Notice,
        listens: bool,
        bulk: &mut Bulk,
        events: &mut VecDeque<Event>,
    ) {
        match notice {
            Notice::Announced { id, about, .. } => {
                let answers = |(id, connection): (&TransferId, &Connection)| {
                    (!connection.is_unanswered).then_some(id.sender)
                };
                let mut before = self.connections.iter().filter_map(answers);
                if listens && before.any(|sender| sender == id.sender) {
                    if let Some((former, _)) = self.later.insert(id.sender, (id, about)) {
                        bulk.refuse(now, former, "its sender has opened another", &[]);
                    }
                } else {
                    self.enter_or_refuse(now, id, &about, listens, bulk, events);
                }
            }
            Notice::Enrolled { id } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_enrolled = true;
                }
            }
            Notice::Joined {
                id,
                receiver: None,
                number,
            } => {
                if let Some(connection) = self.connections.get(&id) {
                    self.joined += 1;
                    let first = connection.base.saturating_add(number.saturating_sub(1));
                    self.report_below(id.sender, first, events);
                }
            }
            Notice::Data { id, bytes, .. } => {
                bulk.consumed(now, id, bytes.len() as u64);
                self.take(now, id, &bytes, bulk);
            }
            Notice::MessageEnded { id, number } => self.end_message(now, id, number, bulk, events),
            Notice::Received { id, .. } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.has_all = true;
                }
                self.reply(now, id, bulk);
            }
            Notice::ReplyRoom { id } => self.reply(now, id, bulk),
            Notice::Failed { id, .. } => {
                self.connections.remove(&id);
                self.enter_later(now, id.sender, bulk, events);
            }
            Notice::Ended { id } => {
                let is_whole = |connection: Connection| !connection.is_unanswered;
                let is_whole = self.connections.remove(&id).is_some_and(is_whole);
                if let Some(heard) = self.senders.get_mut(&id.sender) {
                    heard.is_whole = is_whole && heard.connection == id.number;
                }
                self.enter_later(now, id.sender, bulk, events);
            }
            _ => {}
        }
    }

    /// A connection of this sender is over: it may have announced another meanwhile.
    fn enter_later(
        &mut self,
        now: Time,
        sender: MemberId,
        bulk: &mut Bulk,
        events: &mut VecDeque<Event>,
    ) {
        let is_free = !self.connections.keys().any(|it| it.sender == sender);
        if is_free && let Some((id, about)) = self.later.remove(&sender) {
            self.enter_or_refuse(now, id, &about, true, bulk, events);
        }
    }

    fn enter_or_refuse(
        &mut self,
        now: Time,
        id: TransferId,
        about: &Bytes,
        listens: bool,
        bulk: &mut Bulk,
        events: &mut VecDeque<Event>,
    ) {
        let opened = self.enter(now, id, about, listens, bulk, events);
        if opened.is_none() {
            bulk.refuse(now, id, "not wanted here", &[]);
        }
    }

    /// Takes part in a connection that is announced, if it is a later one of its sender. What was
    /// said before it is over.
    fn enter(
        &mut self,
        now: Time,
        id: TransferId,
        about: &Bytes,
        listens: bool,
        bulk: &mut Bulk,
        events: &mut VecDeque<Event>,
    ) -> Option<()> {
        let mut reader = Reader::new(about);
        let base = reader.u64("first").ok().filter(|base| *base > 0)?;
        let is_unanswered = reader.u8("unanswered").ok()? != 0;
        let before = self.senders.get(&id.sender);
        let is_known = before.is_some();
        let is_later = before.is_none_or(|before| before.connection < id.number);
        let has_room = is_known || self.senders.len() < Self::SENDERS_MAX;
        if !listens || !is_later || !has_room || !bulk.carries_messages(id) {
            return None;
        }
        let of_sender = self.connections.keys().filter(|it| it.sender == id.sender);
        let former: Vec<TransferId> = of_sender.copied().collect();
        for former in former {
            self.connections.remove(&former);
            bulk.conclude(now, former, Err("its sender has opened another"));
        }
        let acceptance = Acceptance::in_order(Bytes::new());
        bulk.accept(now, id, &acceptance).ok()?;
        let heard = self.senders.entry(id.sender).or_insert(Heard {
            last: base - 1,
            connection: id.number,
            is_whole: false,
        });
        // After one that ended well, nothing can be missing. If it is, the judge is to see it.
        let follows = heard.is_whole && heard.connection.wrapping_add(1) == id.number;
        heard.connection = id.number;
        heard.is_whole = false;
        if is_known && !follows {
            self.report_below(id.sender, base, events);
        }
        self.connections.insert(
            id,
            Connection {
                base,
                is_unanswered,
                is_enrolled: false,
                part: BytesMut::new(),
                unsaid: Vec::new(),
                has_all: false,
                has_replied: false,
            },
        );
        Some(())
    }

    /// Reports what was not delivered of a sender's messages below this number.
    fn report_below(&mut self, sender: MemberId, number: u64, events: &mut VecDeque<Event>) {
        let Some(heard) = self.senders.get_mut(&sender) else {
            return;
        };
        let (first, last) = (heard.last.saturating_add(1), number.saturating_sub(1));
        if first <= last {
            heard.last = last;
            self.reported = self.reported.saturating_add(last - first + 1);
            events.push_back(Event::Gap(Gap {
                sender,
                first,
                last,
            }));
        }
    }

    /// Takes in bytes of a message.
    fn take(&mut self, now: Time, id: TransferId, bytes: &Bytes, bulk: &mut Bulk) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.part.extend_from_slice(bytes);
        if connection.part.len() > self.message_max {
            // Its end comes as a failure.
            connection.part.clear();
            bulk.conclude(now, id, Err("a message is too long"));
        }
    }

    /// A message of the connection is whole.
    fn end_message(
        &mut self,
        now: Time,
        id: TransferId,
        number: u64,
        bulk: &mut Bulk,
        events: &mut VecDeque<Event>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let payload = connection.part.split().freeze();
        let number = connection.base.saturating_add(number.saturating_sub(1));
        let (is_unanswered, is_enrolled) = (connection.is_unanswered, connection.is_enrolled);
        if bulk.wants_reply(id) {
            connection.unsaid.extend_from_slice(&number.to_be_bytes());
        }
        if is_unanswered {
            self.report_below(id.sender, number, events);
        }
        if let Some(heard) = self.senders.get_mut(&id.sender) {
            heard.last = heard.last.max(number);
        }
        self.reply(now, id, bulk);
        let id = MessageId {
            sender: id.sender,
            number,
        };
        if is_enrolled {
            events.push_back(Event::Enrolled { id });
        }
        events.push_back(Event::Deliver(Delivery {
            id,
            service: Service::Fifo,
            place: None,
            payload,
        }));
    }

    /// Says what is to be replied, as far as there is room, and ends the reply after the last
    /// message.
    fn reply(&mut self, now: Time, id: TransferId, bulk: &mut Bulk) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !bulk.wants_reply(id) {
            return;
        }
        let taken = bulk.reply(now, id, &connection.unsaid);
        connection.unsaid.drain(..taken);
        if connection.has_all && connection.unsaid.is_empty() && !connection.has_replied {
            connection.has_replied = true;
            bulk.finish_reply(now, id, 0);
        }
    }
}
