//! Bulk transfers of messages: each submitted message is a transfer, held in memory, one after the
//! other.
//!
//! What makes the policies comparable with the protocols that order messages: the simulator, the
//! swarm and the checker run it as they run those. Services: reliable and fifo. A message is
//! delivered at its sender when it is settled what became of it at every receiver, right after the
//! account of that.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::event::Account;
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::settings::{Preset, Setting, SettingField as _, Settings as _, Spec};
use groupcast_core::trace::Transition;
use groupcast_core::wire::Reader;
use groupcast_core::{
    Delivery, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SubmitError, Time, Transmit, TransmitBuf, Uplink,
};

use super::{
    Acceptance, Bulk, BulkConfig, ConfigError, DeliverTo, Notice, Outcome, Policy, SendError,
    Transfer, TransferId, Wanted,
};
use crate::xgm::Subgroups;

groupcast_core::settings! {
    /// Settings of [`Messages`].
    #[derive(Clone, PartialEq, Debug)]
    pub struct MessagesConfig {
        /// Of the transfers.
        pub bulk: BulkConfig = BulkConfig::default();
        /// The receivers that each message waits for.
        pub receivers: Wanted = Wanted::Present, keys [RECEIVERS];
        /// The most bytes of a message.
        pub message_max: usize = 64 << 20 => Spec::size(0, u64::MAX),
            "Too small: messages are refused. Too large: memory.";
        /// Bytes of messages that may wait for their turn; a single longer one is taken when
        /// nothing waits.
        pub queue_max: usize = 64 << 20 => Spec::size(0, u64::MAX),
            "Too small: senders wait. Too large: memory.";
        /// A leave waits this long for messages that were submitted before; then they are given up:
        /// delivered here, and accounted for with the members that have them by then. Under the
        /// policy `cp` it waits as long for those that others send.
        pub leave_within: Duration = Duration::from_secs(10) => Spec::time(),
            "Too small: messages are given up that others miss. Too large: a member ends late.";
    }
    presets [
        Preset {
            name: BulkConfig::PRESETS[0].name,
            meaning: BulkConfig::PRESETS[0].meaning,
            make: || MessagesConfig::open(0),
        },
        Preset {
            name: BulkConfig::PRESETS[1].name,
            meaning: BulkConfig::PRESETS[1].meaning,
            make: || MessagesConfig::open(1),
        },
    ]
}

impl MessagesConfig {
    /// The preset of the transfers that has this index, in an open group.
    fn open(preset: usize) -> Self {
        Self {
            bulk: (BulkConfig::PRESETS[preset].make)(),
            receivers: Wanted::Open,
            ..Self::default()
        }
    }
}

const RECEIVERS: Setting<MessagesConfig> = Setting {
    name: "receivers",
    text: "A message begins when so many receivers are there, or `register_within` has passed.",
    spec: Spec::count("receivers", 1, 65_535).unset("the receivers that are there"),
    wrong: "Too small: receivers that start late get nothing of it. Too large: each message waits for register_within.",
    get: |config| match &config.receivers {
        Wanted::Count(count) => count.to_value(),
        _ => None,
    },
    set: |config, value| {
        if let Some(count) = usize::from_value(value) {
            config.receivers = Wanted::Count(count);
        }
    },
    needs: None,
};

/// A member that sends each message as a transfer.
#[derive(Debug)]
pub struct Messages {
    config: MessagesConfig,
    bulk: Bulk,
    queue: SendQueue<Fifo>,
    /// The first of the queue, on its way.
    sending: Option<Sending>,
    incoming: BTreeMap<TransferId, Incoming>,
    /// The highest message of each sender that was delivered here.
    delivered: BTreeMap<MemberId, u64>,
    /// Until when a leave waits.
    leaving: Option<Time>,
    left: bool,
    events: VecDeque<Event>,
    /// What the endpoint has told, for group management beside it, if there is any.
    tap: Option<VecDeque<Notice>>,
    shape: Shape,
}

/// What the transfers of messages have besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Messages that are longer than this are delivered nowhere before all that take part hold
    /// them: a mark at the start, and the next at the end. `None`: all are delivered at once.
    pub(crate) marks_above: Option<u64>,
    /// Whether receivers reply, under the policy `multidriver`: with the message's number.
    pub(crate) has_replies: bool,
}

impl Shape {
    const PLAIN: Self = Self {
        marks_above: None,
        has_replies: false,
    };
}

#[derive(Debug)]
struct Sending {
    id: TransferId,
    complete: Vec<MemberId>,
    failed: Vec<MemberId>,
}

#[derive(Debug)]
struct Incoming {
    number: u64,
    service: Service,
    payload: BytesMut,
}

impl Messages {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Reliable, Service::Fifo];

    /// A member; it begins to listen at once.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(local: MemberId, config: MessagesConfig, rng: Rng) -> Result<Self, ConfigError> {
        let bulk = Bulk::new(local, config.bulk.clone(), rng)?;
        // So that `submit` need not say why no message can be sent.
        let receivers = config.receivers.size().unwrap_or(1);
        let ring = config.bulk.policy == Policy::Ring;
        if receivers < 1
            || receivers > config.bulk.receivers_max
            || ring && config.bulk.window as usize <= receivers
        {
            let allowed = "1 to receivers_max, and fewer than the window of a ring";
            let receivers = format!("{receivers}");
            return Err(ConfigError::new("receivers", receivers, allowed));
        }
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: config.message_max,
            queue_max: config.queue_max,
        };
        Ok(Self {
            config,
            bulk,
            queue: SendQueue::new(limits, Fifo::default()),
            sending: None,
            incoming: BTreeMap::new(),
            delivered: BTreeMap::new(),
            leaving: None,
            left: false,
            events: VecDeque::new(),
            tap: None,
            shape: Shape::PLAIN,
        })
    }

    /// The endpoint that carries the messages.
    pub fn bulk(&self) -> &Bulk {
        &self.bulk
    }

    /// The same, beside group management: it is to be handed what the endpoint tells.
    pub(crate) fn tapped(self, shape: Shape) -> Self {
        Self {
            tap: Some(VecDeque::new()),
            shape,
            ..self
        }
    }

    /// What the endpoint has told, but data.
    pub(crate) fn poll_tap(&mut self) -> Option<Notice> {
        self.tap.as_mut()?.pop_front()
    }

    /// The transfer on its way, and the bytes of its message.
    pub(crate) fn sending(&self) -> Option<(TransferId, u64)> {
        let sending = self.sending.as_ref()?;
        let message = self.queue.front()?;
        Some((sending.id, message.payload.len() as u64))
    }

    /// The endpoint, for group management beside it; then [`work`](Self::work) has to be called.
    pub(crate) fn bulk_mut(&mut self) -> &mut Bulk {
        &mut self.bulk
    }

    /// Does everything that is due after an input.
    pub(crate) fn work(&mut self, now: Time) {
        loop {
            while let Some(notice) = self.bulk.poll_event() {
                self.handle_notice(now, notice);
            }
            if self.sending.is_none() && !self.send_next(now) {
                break;
            }
            if !self.offer(now) {
                break;
            }
        }
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        if self.leaving.is_some_and(|limit| limit <= now) {
            self.give_up(now);
        }
        let may_leave = !self.bulk.is_locked() || self.leaving.is_some_and(|limit| limit <= now);
        if self.leaving.is_some() && self.queue.is_empty() && !self.left && may_leave {
            self.left = true;
            self.leave_incoming(now);
            self.events.push_back(Event::Left);
        }
    }

    /// Tells the senders of what is on its way here that it is not delivered any more: what came
    /// whole after the leave would be acknowledged and lost.
    fn leave_incoming(&mut self, now: Time) {
        for id in mem::take(&mut self.incoming).into_keys() {
            self.bulk.conclude(now, id, Err("its receiver leaves"));
        }
    }

    /// Has waited long enough for the messages that are left.
    fn give_up(&mut self, now: Time) {
        if let Some(sending) = &self.sending {
            self.bulk.cancel(now, sending.id, "its sender leaves");
            while let Some(notice) = self.bulk.poll_event() {
                self.handle_notice(now, notice);
            }
        }
        while !self.queue.is_empty() {
            self.account(Vec::new(), Vec::new());
        }
    }

    /// Offers what is wanted of the message on its way; whether anything was.
    fn offer(&mut self, now: Time) -> bool {
        let (Some(sending), Some(message)) = (&self.sending, self.queue.front()) else {
            return false;
        };
        let id = sending.id;
        let Some(wanted) = self.bulk.wanted(id) else {
            return false;
        };
        let payload = &message.payload;
        let end = wanted.end.min(payload.len() as u64) as usize;
        let bytes = payload.slice((wanted.start as usize).min(end)..end);
        self.bulk.offer(now, id, bytes).is_ok()
    }

    fn send_next(&mut self, now: Time) -> bool {
        let Some(message) = self.queue.front() else {
            return false;
        };
        let length = message.payload.len() as u64;
        let mut about = BytesMut::with_capacity(9);
        about.put_u64(message.number);
        about.put_u8(message.service.code());
        let transfer = Transfer {
            about: about.freeze(),
            length: Some(length),
            rewindable: true,
            receivers: self.config.receivers.clone(),
            subgroups: Subgroups::ALL,
            deliver_to: match self.shape.marks_above.is_some_and(|above| length > above) {
                true => DeliverTo::UpTo {
                    first: 0,
                    step: None,
                },
                false => DeliverTo::AtOnce,
            },
            confirm: false,
            replies: self.shape.has_replies
                && matches!(self.config.bulk.policy, Policy::Multidriver(_)),
            strict: false,
        };
        let sent: Result<TransferId, SendError> = self.bulk.send(now, transfer);
        self.sending = sent.ok().map(|id| Sending {
            id,
            complete: Vec::new(),
            failed: Vec::new(),
        });
        self.sending.is_some()
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        if let Some(tap) = &mut self.tap
            && !matches!(notice, Notice::Data { .. })
        {
            tap.push_back(notice.clone());
        }
        match notice {
            Notice::Settled {
                receiver, outcome, ..
            } => {
                if let Some(sending) = &mut self.sending {
                    match outcome {
                        Outcome::Complete => sending.complete.push(receiver),
                        _ => sending.failed.push(receiver),
                    }
                }
            }
            Notice::Sent { .. } => {
                if let Some(sending) = self.sending.take() {
                    self.account(sending.complete, sending.failed);
                }
            }
            Notice::Announced { id, about, length } => {
                let number = (!self.left)
                    .then(|| self.welcome(id, &about, length))
                    .flatten();
                if number.is_some() {
                    let acceptance = Acceptance::in_order(Bytes::new());
                    let accepted = self.bulk.accept(now, id, &acceptance);
                    debug_assert!(accepted.is_ok(), "it was announced just now");
                } else {
                    self.bulk.refuse(now, id, "not wanted here", &[]);
                }
            }
            Notice::Data { id, bytes, .. } => {
                self.bulk.consumed(now, id, bytes.len() as u64);
                if let Some(incoming) = self.incoming.get_mut(&id) {
                    incoming.payload.extend_from_slice(&bytes);
                }
            }
            Notice::Enrolled { id } => {
                if let Some(id) = self.incoming_id(id) {
                    self.events.push_back(Event::Enrolled { id });
                }
            }
            Notice::Held { id } => {
                if let Some(id) = self.incoming_id(id) {
                    self.events.push_back(Event::Held { id });
                }
            }
            Notice::AllMayDeliver { holders, .. } => {
                if let Some(message) = self.queue.front() {
                    let (sender, number) = (self.bulk.local(), message.number);
                    let id = MessageId { sender, number };
                    self.events.push_back(Event::AllHold { id, holders });
                }
            }
            Notice::Received { id, .. } => {
                self.reply(now, id);
                self.deliver(now, id);
            }
            Notice::Reply { id, bytes, .. } => {
                self.bulk.reply_consumed(now, id, bytes.len() as u64);
            }
            Notice::Failed { id, .. } | Notice::Ended { id } => {
                self.incoming.remove(&id);
            }
            Notice::Registered { .. }
            | Notice::Started { .. }
            | Notice::Outrun { .. }
            | Notice::Missed { .. }
            | Notice::CameLate { .. }
            | Notice::Joined { .. }
            | Notice::AllHold { .. }
            | Notice::AllHave { .. }
            | Notice::MessageEnded { .. }
            | Notice::Undelivered { .. }
            | Notice::ReplyEnded { .. }
            | Notice::ReplyRoom { .. }
            | Notice::Served { .. } => {}
        }
    }

    /// The message that a transfer from another member carries, if it is wanted here.
    fn incoming_id(&self, id: TransferId) -> Option<MessageId> {
        let number = self.incoming.get(&id)?.number;
        let sender = id.sender;
        Some(MessageId { sender, number })
    }

    /// Makes room for a message that was announced: its number, if it is wanted.
    fn welcome(&mut self, id: TransferId, about: &Bytes, length: Option<u64>) -> Option<u64> {
        let mut reader = Reader::new(about);
        let number = reader.u64("number").ok()?;
        let service = reader.u8("service").ok().and_then(Service::from_code)?;
        let len = usize::try_from(length?).ok()?;
        let last = self.delivered.get(&id.sender).copied().unwrap_or(0);
        if number <= last || len > self.config.message_max {
            return None;
        }
        let incoming = Incoming {
            number,
            service,
            // It grows with what arrives, not with what was announced.
            payload: BytesMut::new(),
        };
        self.incoming.insert(id, incoming);
        Some(number)
    }

    /// Replies to a message that wants it, in a part.
    fn reply(&mut self, now: Time, id: TransferId) {
        if let Some(incoming) = self.incoming.get(&id).filter(|_| self.bulk.wants_reply(id)) {
            let number = incoming.number.to_be_bytes();
            let taken = self.bulk.reply(now, id, &number);
            debug_assert_eq!(taken, number.len(), "there is room for a few bytes");
            self.bulk.finish_reply(now, id, 0);
        }
    }

    fn deliver(&mut self, now: Time, id: TransferId) {
        let Some(incoming) = self.incoming.remove(&id) else {
            return;
        };
        let last = self.delivered.entry(id.sender).or_insert(0);
        if incoming.number <= *last {
            return;
        }
        *last = incoming.number;
        self.events.push_back(Event::Deliver(Delivery {
            id: MessageId {
                sender: id.sender,
                number: incoming.number,
            },
            service: incoming.service,
            place: None,
            payload: incoming.payload.freeze(),
        }));
        self.give_up_before(now, id.sender, incoming.number);
    }

    /// Gives up the messages of `sender` before `number`, which is delivered: they would come too
    /// late. Their sender has gone on without this member, which may still hold one whole below a
    /// mark.
    fn give_up_before(&mut self, now: Time, sender: MemberId, number: u64) {
        let late = |(id, it): (&TransferId, &Incoming)| {
            (id.sender == sender && it.number < number).then_some(*id)
        };
        let late: Vec<TransferId> = self.incoming.iter().filter_map(late).collect();
        for id in late {
            self.incoming.remove(&id);
            self.bulk
                .conclude(now, id, Err("a later message was delivered"));
        }
    }

    /// Every receiver of the first message of the queue is settled.
    fn account(&mut self, complete: Vec<MemberId>, failed: Vec<MemberId>) {
        let Some(message) = self.queue.pop() else {
            return;
        };
        let id = MessageId {
            sender: self.bulk.local(),
            number: message.number,
        };
        self.events.push_back(Event::Account(Account {
            id,
            complete,
            failed,
        }));
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service: message.service,
            place: None,
            payload: message.payload,
        }));
    }
}

impl Protocol for Messages {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.handle_arrival(now, now, from, body);
    }

    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        self.bulk.handle_arrival(now, arrived, from, body);
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.bulk.handle_timeout(now);
        self.work(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.bulk.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.bulk.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let leaving = self.leaving.filter(|_| !self.left);
        [self.bulk.poll_timeout(), leaving]
            .into_iter()
            .flatten()
            .min()
    }

    fn listens(&self) -> bool {
        self.bulk.listens()
    }

    fn wants_uplink(&self, now: Time) -> bool {
        self.bulk.wants_uplink(now)
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        self.bulk.handle_uplink(now, uplink);
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        self.bulk.handle_copies(now, members);
    }

    fn copies_to(&self, member: MemberId) -> bool {
        self.bulk.copies_to(member)
    }
}

impl Ordered for Messages {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload)?;
        self.work(now);
        let sender = self.bulk.local();
        Ok(MessageId { sender, number })
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    fn leave(&mut self, now: Time) {
        if self.leaving.is_none() {
            self.leaving = Some(now + self.config.leave_within);
            self.queue.close();
            self.work(now);
        }
    }

    fn local(&self) -> MemberId {
        self.bulk.local()
    }
}

impl Instrumented for Messages {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
        self.bulk.status().list(each);
    }
}
