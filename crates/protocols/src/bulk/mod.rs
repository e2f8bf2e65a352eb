//! Bulk multicast: one sender, many receivers, a stream of bytes (001).
//!
//! Paper: 001, "An Empirical Study of Reliable Multicast Protocols over Ethernet-Connected
//! Networks". Its four protocols are four policies of acknowledgement ([`Policy`]) over one sender
//! and one receiver: handshake, window, timers, repairs and rate are shared.
//!
//! A fifth policy is XTP's (003 sections 3.1.3, 3.3.3, 3.4 and 4.2): the window follows whoever
//! answers, and no list of receivers. Its packets, timers, limits and deviations are in
//! `docs/xtp.md`. A sixth is the Multidriver's (003 5.2 and 5.3): every receiver replies to every
//! request, and the minimum of all is acted on: `docs/multidriver.md`. A seventh adds the transfer
//! list (003 5.4): `docs/lists.md`. Two more are for simulator and laboratory: receivers collect
//! what the others say (003 3.3.3), and CP (3.1.1): `docs/compared.md`.
//!
//! # A transfer
//!
//! ```text
//!  sender                                     receivers
//!    │  announce (multicast, repeated)  ──────▶  the user accepts or refuses
//!    │  ◀──────  register: what is held already
//!    │  start (multicast): pass, roster ──────▶
//!    │  ◀──────  ready, if asked for (001 section 4: buffers are reserved)
//!    │  data (multicast)                ──────▶
//!    │  ◀──────  reports: acknowledgements and NAKs, by policy
//!    │  finish (multicast)              ──────▶  forgotten
//! ```
//!
//! - **Stamps.** The sender counts its transmissions, and every data packet carries that count (its
//!   *stamp*). A report says the highest stamp that the receiver has seen, and how many
//!   transmissions have arrived. So the sender repeats a packet when a receiver has seen a later
//!   transmission and still misses it, and not before, whatever the round trip; loss and round
//!   trips are measured without guessing which copy arrived.
//! - **Passes.** The receivers of a pass move the window. A receiver that comes late or is demoted
//!   listens, and the next pass goes over what it misses then; a pass for one receiver is unicast.
//!   One that would get little of what the others get stands by instead: it leaves the multicast
//!   group until its pass (`receiver/attending.rs`, `sender/attendance.rs`).
//! - **Parity.** Where several receivers lose different packets, a block gets as many parity
//!   packets (Reed–Solomon) as the receiver that misses most of it needs; where much is lost,
//!   before any receiver has asked. Elsewhere packets are repeated. In a later pass a block of
//!   which its receivers miss different packets goes as parity alone (`sender/replace.rs`).
//! - **Messages.** A transfer carries bytes, or messages on a connection that stays
//!   ([`Bulk::open`]): each begins with a packet of its own, and its last one may be short. The
//!   sender is told when all have it.
//! - **Memory** is bounded at both ends. A sender keeps two windows of packets and a block, and
//!   parity for as many; a receiver `buffer_max` bytes, and besides the packets of incomplete
//!   blocks, from which it restores others.
//!
//! Files: `transfer.rs` has the types that the user sees, `receives.rs`, `lists.rs` and `beside.rs`
//! and `relayed.rs` calls of receivers, about lists, for group management, and for relays, `sender`
//! and `receiver` the two ends, `wire` the format, `rate` the rate control, `parity.rs` and
//! `cauchy.rs` the code for parity, `known.rs` which other members are there, `farewells.rs` why
//! transfers ended, `responses.rs` the replies that are being acknowledged; `messages.rs` runs
//! messages over transfers, for the simulator and the checker.
//!
//! # Guarantees
//!
//! A receiver is [`Outcome::Complete`] only when it has every byte. Every receiver that registered
//! or was required is settled, once. The bytes are those that the sender offered: datagrams are
//! authenticated by the node, under a key that the group shares. Service: fifo, within each
//! transfer; transfers are independent of each other.
//!
//! # Timers
//!
//! The sender: when to announce again, when to begin with the receivers that are there, when to ask
//! for reports again (mean round trip and four deviations, doubled each time, `rto_min` to
//! `rto_max`), when the rate allows more. A receiver: when to register again, when to ask for what
//! is missing, when to look whether the sender is still there.
//!
//! # Deviations from 001
//!
//! What the settings choose; [`BulkConfig::paper`] has the paper's choices:
//! - Selective repeat and parity beside go-back-N; multicast NAKs that receivers suppress.
//! - A packet is repeated by its stamp, or not sooner than `suppression` after its last
//!   transmission. The paper suppresses repeated repairs too, but names no period: the preset's 20
//!   ms are ours.
//!
//! What no setting changes:
//! - Ring: the paper's sender releases packet X - N when X is acknowledged. Here each receiver's
//!   own cumulative acknowledgement is kept, and the minimum of all of them is released: it makes
//!   no assumption about which receiver was next in turn.
//! - A duplicate is never acknowledged again. An acknowledgement that is lost is made good by the
//!   next one, or by the answer to the sender's poll.
//! - The sender's time-out adapts to the round trip and doubles each time that nothing moves; the
//!   paper's is fixed. There is one timer for the window, set while the sender can do nothing but
//!   wait, instead of one for each packet.
//! - A sender whose time-out has passed asks all receivers, under the ring and the tree too: chains
//!   with a dead member do not stall.
//! - A receiver sends a NAK only if a transmission has arrived since its last one; otherwise the
//!   sender's poll asks.
//! - Receivers report a limit (credit) that stops the sender, besides its window: a receiver whose
//!   user is slow loses nothing. In the paper a receiver always has room.
//! - NAK with polling: a receiver that a repair completes acknowledges without being asked, so that
//!   the end of a transfer does not wait for a time-out.
//! - The reservation (a Start that every receiver answers) is answered to the sender directly under
//!   every policy. The paper sends it by the policy at hand: through the chains, under the tree.

mod beside;
mod cauchy;
mod config;
mod context;
mod counters;
mod describe;
mod family;
mod farewells;
mod inspect;
mod known;
mod lists;
mod messages;
mod missed;
mod numbers;
mod parity;
mod ranges;
mod rate;
mod receiver;
mod receives;
mod relayed;
mod responses;
mod sender;
#[cfg(test)]
mod tests;
mod transfer;
mod wire;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;
use groupcast_core::trace::Transition;
use groupcast_core::{MemberId, Protocol, Rng, Time, Transmit, TransmitBuf, Uplink};

#[cfg(any(test, feature = "planted-bugs"))]
pub(crate) use self::config::PlantedInCollectors;
pub use self::config::{
    BulkConfig, Collectors, ConfigError, Control, Cp, Damping, Multidriver, NakRule, Partial,
    Policy, RateControl, Repair, Share, Slot, SlowPolicy, Xtp,
};
#[cfg(any(test, feature = "planted-bugs"))]
pub use self::config::{PlantedInBuckets, PlantedInRounds};
use self::context::{Context, Shared};
pub use self::counters::{BulkStatus, Counters};
pub use self::describe::describe;
pub use self::family::FAMILY;
#[cfg(feature = "planted-bugs")]
pub(crate) use self::family::MARK_TOO_EARLY;
#[cfg(any(test, feature = "planted-bugs"))]
pub(crate) use self::family::{FIRST_REPLY_COUNTS, SILENT_FORGOTTEN};
pub(crate) use self::family::{PROGRESS_WITHIN, for_tests, progress_within, varied};
pub use self::inspect::{inspect, inspect_requests};
pub(crate) use self::messages::Shape;
pub use self::messages::{Messages, MessagesConfig};
use self::missed::Missed;
use self::receiver::Receiver;
use self::sender::{Carries, Sender};
pub use self::transfer::{
    Acceptance, Awaited, DeliverTo, Failure, ListEntry, ListError, Listed, Notice, OfferError,
    Opening, Order, Outcome, PhaseKind, Progress, ReceiverProgress, STOPPED, SendError, Served,
    Transfer, TransferId, UnknownTransfer, Wanted,
};
use self::wire::{Announce, Message};

/// An endpoint of bulk transfers, sending and receiving any number at once.
///
/// Drain order as for [`Protocol`].
#[derive(Debug)]
pub struct Bulk {
    shared: Shared,
    /// Transfers begun so far.
    begun: u32,
    senders: BTreeMap<u32, Sender>,
    receivers: BTreeMap<TransferId, Receiver>,
    /// Transfers of others that are over here, and are not offered again.
    past: VecDeque<TransferId>,
    /// Transfers of others that began before it came.
    missed: Missed,
    /// What was usable of the last transfers that this endpoint took part in, when they were over.
    usable_at_end: VecDeque<(TransferId, u64)>,
    /// Which transfer sends next, when several do.
    turn: u32,
    /// The transfer whose data was polled last; `None` if something else was.
    polled: Option<u32>,
    /// The most bytes that senders kept at once, and how many of them were sent and not
    /// acknowledged by all.
    buffered_max: u64,
    unacknowledged_max: u64,
}

impl Bulk {
    /// Past transfers that are remembered, for each that can be under way.
    const PAST: usize = 4;

    /// An endpoint without transfers.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(local: MemberId, config: BulkConfig, rng: Rng) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            shared: Shared::new(local, config, rng.fork("bulk")),
            begun: 0,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            past: VecDeque::new(),
            missed: Missed::default(),
            usable_at_end: VecDeque::new(),
            turn: 0,
            polled: None,
            buffered_max: 0,
            unacknowledged_max: 0,
        })
    }

    /// Begins to announce a transfer. Data is asked for ([`wanted`](Self::wanted)) once its
    /// receivers are there.
    ///
    /// # Errors
    /// Nothing is begun then.
    pub fn send(&mut self, now: Time, transfer: Transfer) -> Result<TransferId, SendError> {
        self.check(&transfer)?;
        Ok(self.start(now, transfer, Carries::Bytes))
    }

    /// Opens a connection for messages, and begins to announce it: a transfer that stays until it
    /// is [finished](Self::finish), with the receivers that it begins with, and with those that
    /// come later if `opening` says so. It has no length, is not rewindable, so who is slow is
    /// given up, and delivers at once.
    ///
    /// A message is offered whole ([`offer_message`](Self::offer_message)). The sender is told when
    /// all receivers have it ([`Notice::AllHave`]); under the policy `xtp`, that so many requests
    /// in a row found nobody that misses it ([`Xtp::agree`]): which receivers have it is known at
    /// the end.
    ///
    /// # Errors
    /// Nothing is begun then.
    pub fn open(
        &mut self,
        now: Time,
        transfer: Transfer,
        opening: Opening,
    ) -> Result<TransferId, SendError> {
        self.check(&transfer)?;
        let is_open = transfer.length.is_none() && !transfer.rewindable;
        if !is_open || transfer.deliver_to != DeliverTo::AtOnce {
            return Err(SendError::Messages);
        }
        let is_xtp = matches!(self.shared.config.policy, Policy::Xtp(_));
        if opening == Opening::AtAnyTime && (!is_xtp || transfer.strict) {
            return Err(SendError::Opening);
        }
        let is_fixed = matches!(self.shared.config.rate, RateControl::Fixed { .. });
        let wants_answers = transfer.strict || transfer.replies;
        if opening == Opening::Unanswered && (!is_fixed || wants_answers) {
            return Err(SendError::Unanswered);
        }
        Ok(self.start(now, transfer, Carries::Messages(opening)))
    }

    fn start(&mut self, now: Time, transfer: Transfer, carries: Carries) -> TransferId {
        self.shared.known.begin(now);
        self.begun += 1;
        let number = self.begun;
        let id = TransferId {
            sender: self.shared.local,
            number,
        };
        let sender = Sender::new(&mut self.shared.at(now), id, transfer, carries);
        self.senders.insert(number, sender);
        id
    }

    fn check(&self, transfer: &Transfer) -> Result<(), SendError> {
        let len = transfer.about.len();
        if len > BulkConfig::ABOUT_MAX {
            let max = BulkConfig::ABOUT_MAX;
            return Err(SendError::About { len, max });
        }
        let config = &self.shared.config;
        if self.senders.len() >= config.transfers_max {
            let max = config.transfers_max;
            return Err(SendError::Full { max });
        }
        let is_deliverable = match transfer.deliver_to {
            DeliverTo::AtOnce => true,
            DeliverTo::UpTo { step, .. } => step.is_some() || transfer.length.is_some(),
            DeliverTo::Aside => transfer.confirm && transfer.length.is_some(),
        };
        if !is_deliverable {
            return Err(SendError::DeliverTo);
        }
        if transfer.subgroups.is_empty() {
            return Err(SendError::Subgroups);
        }
        if transfer.replies && !matches!(config.policy, Policy::Multidriver(_)) {
            return Err(SendError::Replies);
        }
        if let Wanted::Between { min, max } = transfer.receivers
            && min > max
        {
            return Err(SendError::Between { min, max });
        }
        let Some(count) = transfer.receivers.size() else {
            return Ok(());
        };
        let max = config.receivers_max;
        if count == 0 || count > max {
            return Err(SendError::Receivers { count, max });
        }
        let window = config.window;
        // 001 section 3: an acknowledgement of packet X releases packet X - N only.
        if config.policy == Policy::Ring && window as usize <= count {
            let receivers = count;
            return Err(SendError::Window { receivers, window });
        }
        Ok(())
    }

    /// The bytes of the stream that should be offered next; `None` if none are wanted now. Within a
    /// pass this range only moves on; a new pass may begin anywhere before it.
    pub fn wanted(&self, id: TransferId) -> Option<Range<u64>> {
        self.sender(id)?.wanted()
    }

    /// Offers bytes from the start of what is wanted, at most as many.
    ///
    /// # Errors
    /// Nothing is taken then.
    pub fn offer(&mut self, now: Time, id: TransferId, bytes: Bytes) -> Result<(), OfferError> {
        let sender = self.senders.get_mut(&id.number);
        let sender = sender.filter(|_| id.sender == self.shared.local);
        let result = sender
            .ok_or(OfferError::Unknown)?
            .offer(&mut self.shared.at(now), bytes);
        self.measure();
        result
    }

    /// Offers a message to a transfer that carries them, while at least as many bytes are
    /// [wanted](Self::wanted), and any for an empty one; its number, from 1.
    ///
    /// # Errors
    /// Nothing is taken then.
    pub fn offer_message(
        &mut self,
        now: Time,
        id: TransferId,
        bytes: Bytes,
    ) -> Result<u64, OfferError> {
        let sender = self.senders.get_mut(&id.number);
        let sender = sender.filter(|_| id.sender == self.shared.local);
        let result = sender
            .ok_or(OfferError::Unknown)?
            .offer_message(&mut self.shared.at(now), bytes);
        self.measure();
        result
    }

    /// A transfer of open length ends where the last offer ended.
    pub fn finish(&mut self, now: Time, id: TransferId) {
        self.with_sender(now, id, Sender::finish);
    }

    /// Starts with the receivers that have registered, even if others are wanted.
    pub fn begin(&mut self, now: Time, id: TransferId) {
        self.with_sender(now, id, Sender::begin);
    }

    /// From now on replies wait for a random part of the back-off for this many receivers, at most
    /// 65,535; 0: they do not wait (policy `multidriver`; 003 5.3.3, use-backoff).
    pub fn use_backoff(&mut self, now: Time, id: TransferId, receivers: usize) {
        let receivers = receivers.min(usize::from(u16::MAX)) as u16;
        self.with_sender(now, id, |sender, _| sender.use_backoff(receivers));
    }

    /// From now on a transfer that is sent here has another rate than
    /// [`rate`](BulkConfig::rate) of the settings; `None`: its data pauses. Receivers are still
    /// asked and answered meanwhile, so none is given up for it. An adaptive rate is sought anew.
    ///
    /// # Errors
    /// If the rate is out of range, or would have to be found on a connection that nobody answers
    /// ([`Opening::Unanswered`]); nothing has changed then.
    pub fn set_rate(
        &mut self,
        now: Time,
        id: TransferId,
        rate: Option<RateControl>,
    ) -> Result<(), ConfigError> {
        if let Some(rate) = rate {
            let config = BulkConfig {
                rate,
                ..self.shared.config.clone()
            };
            config.validate()?;
            let is_fixed = matches!(rate, RateControl::Fixed { .. });
            if !is_fixed && self.sender(id).is_some_and(Sender::is_unanswered) {
                return Err(config.refuse_unanswered());
            }
        }
        self.with_sender(now, id, |sender, context| sender.set_rate(context, rate));
        Ok(())
    }

    /// Gives up a transfer; its receivers are told `reason`.
    pub fn cancel(&mut self, now: Time, id: TransferId, reason: &str) {
        self.with_sender(now, id, |sender, context| sender.cancel(context, reason));
    }

    /// Whether this endpoint has to stay: a sender has locked the set of its receivers, this one
    /// among them (policy `cp`; 003 3.1.1).
    pub fn is_locked(&self) -> bool {
        self.receivers.values().any(Receiver::is_locked)
    }

    /// How far a transfer that is sent here is.
    pub fn progress(&self, id: TransferId) -> Option<Progress> {
        Some(self.sender(id)?.progress(self.shared.config.packet))
    }

    /// `bytes` of replies to a transfer of this sender are done with: others may come.
    pub fn reply_consumed(&mut self, now: Time, id: TransferId, bytes: u64) {
        self.with_sender(now, id, |sender, context| {
            sender.reply_consumed(context, bytes);
        });
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        self.shared.counters
    }

    /// What was counted since the start, and what is kept now.
    pub fn status(&self) -> BulkStatus {
        let kept = |sender: &Sender| sender.buffered(self.shared.config.packet);
        let sending: u64 = self.senders.values().map(kept).sum();
        let receiving: u64 = self.receivers.values().map(Receiver::buffered).sum();
        BulkStatus {
            counters: self.shared.counters,
            buffered: sending + receiving,
            buffered_max: self.buffered_max,
            unacknowledged_max: self.unacknowledged_max,
            responses_max: self.shared.responses.bytes_max(),
        }
    }

    /// The member that this endpoint is.
    pub fn local(&self) -> MemberId {
        self.shared.local
    }

    /// The settings that it was made with.
    pub fn config(&self) -> &BulkConfig {
        &self.shared.config
    }

    fn sender(&self, id: TransferId) -> Option<&Sender> {
        let sender = self.senders.get(&id.number)?;
        (id.sender == self.shared.local).then_some(sender)
    }

    fn with_sender(
        &mut self,
        now: Time,
        id: TransferId,
        act: impl FnOnce(&mut Sender, &mut Context<'_>),
    ) {
        if id.sender != self.shared.local {
            return;
        }
        if let Some(sender) = self.senders.get_mut(&id.number) {
            act(sender, &mut self.shared.at(now));
            if sender.is_over() {
                self.senders.remove(&id.number);
            }
        }
    }

    /// Forgets a transfer at its receiver; it is not offered to the user again.
    fn forget(&mut self, id: TransferId) {
        self.remove_receiver(id);
        if self.past.len() >= self.shared.config.transfers_max * Self::PAST {
            self.past.pop_front();
        }
        self.past.push_back(id);
    }

    /// Removes the receiver of a transfer that is over. What was usable is remembered, if the user
    /// had accepted it.
    fn remove_receiver(&mut self, id: TransferId) {
        let receiver = self.receivers.remove(&id);
        let Some(usable) = receiver.and_then(|it| it.usable()) else {
            return;
        };
        if self.usable_at_end.len() >= self.shared.config.transfers_max * Self::PAST {
            self.usable_at_end.pop_front();
        }
        self.usable_at_end.push_back((id, usable));
    }

    fn handle_announce(&mut self, now: Time, id: TransferId, announce: Announce) {
        self.missed.announced(id);
        let room = self.receivers.len() < self.shared.config.transfers_max;
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.handle(&mut self.shared.at(now), Message::Announce(announce));
            if receiver.is_over() {
                self.forget(id);
            }
        } else if room && announce.is_for(self.shared.subgroups) && !self.past.contains(&id) {
            let receiver = Receiver::new(&mut self.shared.at(now), id, announce);
            self.receivers.insert(id, receiver);
            // Those that this endpoint serves later may be wanted there, and do not hear it.
            for sender in self.senders.values_mut() {
                sender.beckon(&mut self.shared.at(now));
            }
        }
    }

    /// A message that only a sender sends.
    fn handle_from_sender(&mut self, now: Time, id: TransferId, message: Message) {
        let Some(receiver) = self.receivers.get_mut(&id) else {
            if matches!(message, Message::Data(_)) && !self.past.contains(&id) {
                let missed = self.missed.hears(now, id, &self.shared.config);
                self.shared.notices.extend(missed);
            }
            return;
        };
        receiver.handle(&mut self.shared.at(now), message);
        if receiver.is_over() {
            self.forget(id);
        }
    }

    /// A message that only receivers send: to this member as a sender or as part of a chain, or to
    /// all.
    fn handle_from_receiver(&mut self, now: Time, from: MemberId, number: u32, message: Message) {
        if let Message::Report(report) = &message
            && report.sender != self.shared.local.incarnation
        {
            let mut receivers = self.receivers.iter_mut();
            let about =
                |id: &TransferId| id.number == number && id.sender.incarnation == report.sender;
            if let Some((_, receiver)) = receivers.find(|(id, _)| about(id)) {
                receiver.hear(&mut self.shared.at(now), from, report);
            }
            return;
        }
        if let Message::Composite(composite) = &message
            && composite.sender != self.shared.local.incarnation
        {
            let mut receivers = self.receivers.iter_mut();
            let about =
                |id: &TransferId| id.number == number && id.sender.incarnation == composite.sender;
            if let Some((_, receiver)) = receivers.find(|(id, _)| about(id)) {
                receiver.collect(&mut self.shared.at(now), composite);
            }
            return;
        }
        if let Message::Missed(name) = message {
            if let Some(sender) = self.senders.get_mut(&number) {
                sender.note_late(&mut self.shared.at(now), from, name);
            }
            return;
        }
        if let Some(sender) = self.senders.get_mut(&number) {
            sender.handle(&mut self.shared.at(now), from, message);
            if sender.is_over() {
                self.senders.remove(&number);
            }
        } else if number != 0 && number <= self.begun {
            // It does not know yet that the transfer is over.
            let over = Message::Finish(self.shared.farewells.of(number));
            self.shared.outbox.unicast(from, number, &over);
        }
    }

    /// Remembers how much senders keep.
    fn measure(&mut self) {
        let packet = self.shared.config.packet;
        let kept = |sender: &Sender| sender.buffered(packet);
        let buffered = self.senders.values().map(kept).sum();
        self.buffered_max = self.buffered_max.max(buffered);
        let sent = |sender: &Sender| sender.unacknowledged(packet);
        let unacknowledged = self.senders.values().map(sent).sum();
        self.unacknowledged_max = self.unacknowledged_max.max(unacknowledged);
    }
}

impl Protocol for Bulk {
    type Event = Notice;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.handle_arrival(now, now, from, body);
    }

    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        self.shared.arrived = arrived;
        let Ok((number, message)) = Message::decode(&body) else {
            self.shared.counters.junk += 1;
            return;
        };
        let shared = &mut self.shared;
        if from != shared.local {
            let config = &shared.config;
            let (max, silence) = (config.receivers_max, config.vanish_after);
            shared.known.hear(now, from, max, silence);
        }
        let id = TransferId {
            sender: from,
            number,
        };
        match message {
            Message::Announce(announce) => self.handle_announce(now, id, announce),
            Message::Data(_)
            | Message::Start(_)
            | Message::Poll(_)
            | Message::Request(_)
            | Message::Tag(_)
            | Message::Mark(_)
            | Message::Attend(_)
            | Message::Returned(_)
            | Message::Join(_)
            | Message::ServedWhen(_)
            | Message::Acknowledgement(_)
            | Message::Finish(_) => {
                self.handle_from_sender(now, id, message);
            }
            Message::Report(_)
            | Message::Refuse(_)
            | Message::Missed(_)
            | Message::Composite(_)
            | Message::Joined(_) => {
                self.handle_from_receiver(now, from, number, message);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let due = |timeout: Option<Time>| timeout.is_some_and(|due| due <= now);
        for sender in self.senders.values_mut() {
            if due(sender.poll_timeout()) {
                sender.handle_timeout(&mut self.shared.at(now));
            }
        }
        self.senders.retain(|_, sender| !sender.is_over());
        for receiver in self.receivers.values_mut() {
            if due(receiver.poll_timeout()) {
                receiver.handle_timeout(&mut self.shared.at(now));
            }
        }
        // A sender that comes back may offer its transfer again, but not to who has replied: it
        // would say something else, and the sender could not tell which is which. Nor to who has
        // told that it holds something below a mark, and has let it go: the sender counts on it.
        let over = self.receivers.iter().filter(|(_, it)| it.is_over());
        let over: Vec<_> = over
            .map(|(id, it)| (*id, it.has_replied() || it.has_let_go()))
            .collect();
        for (id, is_counted_on) in over {
            match is_counted_on {
                true => self.forget(id),
                false => self.remove_receiver(id),
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.polled = None;
        if let Some(transmit) = self.shared.outbox.poll_transmit(buf) {
            return Some(transmit);
        }
        if let Some(transmit) = self.shared.responses.poll_transmit(buf) {
            return Some(transmit);
        }
        // One transfer after the other has a turn.
        let after = self.senders.range(self.turn..).map(|(number, _)| *number);
        let before = self.senders.range(..self.turn).map(|(number, _)| *number);
        let numbers: VecDeque<u32> = after.chain(before).collect();
        for number in numbers {
            let Some(sender) = self.senders.get_mut(&number) else {
                continue;
            };
            if let Some(transmit) = sender.poll_transmit(&mut self.shared.at(now), buf) {
                self.turn = number + 1;
                self.polled = Some(number);
                self.measure();
                return Some(transmit);
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Notice> {
        self.shared.notices.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.shared.transitions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let senders = self.senders.values().filter_map(Sender::poll_timeout);
        let receivers = self.receivers.values().filter_map(Receiver::poll_timeout);
        senders.chain(receivers).min()
    }

    /// Not while all that it takes part in has told it to stand by.
    fn listens(&self) -> bool {
        let mut receivers = self.receivers.values();
        let stands_by = !self.receivers.is_empty() && receivers.all(Receiver::stands_by);
        !(stands_by && self.senders.is_empty())
    }

    fn wants_uplink(&self, now: Time) -> bool {
        self.senders.values().any(|sender| sender.wants_uplink(now))
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        // What of it is whose, the host does not say.
        let each = Uplink {
            waits: uplink.waits / self.senders.len().max(1) as u64,
            ..uplink
        };
        for sender in self.senders.values_mut() {
            sender.handle_uplink(now, each);
        }
    }

    fn handle_copies(&mut self, _: Time, members: &[MemberId]) {
        self.shared.without.clear();
        self.shared.without.extend_from_slice(members);
        for sender in self.senders.values_mut() {
            sender.handle_copies(members);
        }
    }

    /// Control goes to all, as it may be the first that a member hears; data to those that need it.
    fn copies_to(&self, member: MemberId) -> bool {
        let sender = self.polled.and_then(|number| self.senders.get(&number));
        sender.is_none_or(|sender| sender.copies_to(member))
    }
}
