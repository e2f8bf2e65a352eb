//! Bulk multicast: one sender, many receivers, a stream of bytes (001).
//!
//! Paper: 001, "An Empirical Study of Reliable Multicast Protocols over Ethernet-Connected Networks". Its four protocols
//! are four policies of acknowledgement ([`Policy`]) over one sender and one receiver: handshake, window, timers,
//! repairs and rate are shared.
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
//! - **Transmissions are counted.** Every data packet carries the count of the sender's transmissions (its *stamp*), and
//!   a report says the highest stamp seen and how many arrived. So a sender knows which of its transmissions a report
//!   knows of: a packet is repeated when a report that knows of its last transmission still misses it, and not before,
//!   whatever the round trip; loss and round trips are measured without guessing which copy arrived.
//! - **Passes.** The receivers of a pass move the window. Who comes late or is demoted listens, and the next pass goes
//!   over what is missing then; a pass for one receiver is unicast.
//! - **Parity.** Where several receivers lose different packets, a block of them gets as many parity packets (Reed–Solomon)
//!   as the receiver that misses most of it; where much is lost, before anybody has asked. Elsewhere packets are repeated.
//! - **Memory** is bounded at both ends: two windows of packets at the sender, and a block, and parity for as many;
//!   `buffer_max` at a receiver, which keeps what it restores others from besides.
//!
//! # Guarantees
//!
//! A receiver is [`Outcome::Complete`] only when it has every byte; every receiver that registered or was required is
//! settled, once. Bytes are those that the sender offered: datagrams are authenticated by the node, under a key that
//! the group shares. Service: fifo, for each transfer; transfers are independent of each other.
//!
//! # Deviations from 001
//!
//! - Selective repeat and parity beside go-back-N, repairs by stamp beside suppression for a fixed period, receiver-side suppression
//!   of NAKs as an option: [`BulkConfig::paper`] has the paper's choices.
//! - The reservation (a Start, answered by every receiver) is acknowledged to the sender directly under every policy,
//!   where the paper sends it by the protocol at hand.
//! - A timed-out sender asks everybody, also under the ring and the tree: chains with a dead member do not stall.
//! - There is no timer for each packet: one for the window, set whenever the sender can do nothing but wait.

mod cauchy;
mod config;
mod counters;
mod inspect;
mod messages;
mod others;
mod outbox;
mod parity;
mod ranges;
mod rate;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod transfer;
mod wire;

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Range;

use bytes::Bytes;
use groupcast_core::{MemberId, Protocol, Rng, Time, Transmit, TransmitBuf};

pub use self::config::{BulkConfig, ConfigError, NakRule, Policy, RateControl, Repair, SlowPolicy};
pub use self::counters::{BulkStatus, Counters};
pub use self::inspect::inspect;
pub use self::messages::{Messages, MessagesConfig, build_ack, build_nak, build_ring, build_tree};
use self::others::Others;
use self::outbox::{Context, Outbox};
use self::receiver::{Life, Receiver};
use self::sender::Sender;
pub use self::transfer::{
    Acceptance, Failure, Notice, OfferError, Order, Outcome, PhaseKind, Progress, ReceiverProgress,
    SendError, Transfer, TransferId, UnknownTransfer, Wanted,
};
use self::wire::{Announce, Finish, Message};

/// An endpoint of bulk transfers, sending and receiving any number at once.
///
/// Drain order as for [`Protocol`].
#[derive(Debug)]
pub struct Bulk {
    local: MemberId,
    config: BulkConfig,
    rng: Rng,
    /// Transfers begun so far.
    begun: u32,
    senders: BTreeMap<u32, Sender>,
    receivers: BTreeMap<TransferId, Receiver>,
    /// Transfers of others that are over here, and are not offered again.
    past: VecDeque<TransferId>,
    /// Whom it knows.
    others: Others,
    /// Which transfer sends next, when several do.
    turn: u32,
    outbox: Outbox,
    notices: VecDeque<Notice>,
    counters: Counters,
    /// The most bytes that senders kept at once, and how many of them were sent and not acknowledged by all.
    buffered_max: u64,
    unacknowledged_max: u64,
}

/// The context of an input at `now`, with what it leaves alone left to be borrowed.
macro_rules! context {
    ($bulk:expr, $now:expr) => {
        Context {
            now: $now,
            local: $bulk.local,
            config: &$bulk.config,
            others: &mut $bulk.others,
            rng: &mut $bulk.rng,
            outbox: &mut $bulk.outbox,
            notices: &mut $bulk.notices,
            counters: &mut $bulk.counters,
        }
    };
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
            local,
            config,
            rng: rng.fork("bulk"),
            begun: 0,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            past: VecDeque::new(),
            others: Others::default(),
            turn: 0,
            outbox: Outbox::default(),
            notices: VecDeque::new(),
            counters: Counters::default(),
            buffered_max: 0,
            unacknowledged_max: 0,
        })
    }

    /// Begins to announce a transfer. Data is asked for ([`wanted`](Self::wanted)) once its receivers are there.
    ///
    /// # Errors
    /// Nothing is begun then.
    pub fn send(&mut self, now: Time, transfer: Transfer) -> Result<TransferId, SendError> {
        self.check(&transfer)?;
        self.others.begin(now);
        self.begun += 1;
        let number = self.begun;
        let id = TransferId {
            sender: self.local,
            number,
        };
        let sender = Sender::new(&mut context!(self, now), id, transfer);
        self.senders.insert(number, sender);
        Ok(id)
    }

    fn check(&self, transfer: &Transfer) -> Result<(), SendError> {
        let len = transfer.about.len();
        if len > BulkConfig::ABOUT_MAX {
            let max = BulkConfig::ABOUT_MAX;
            return Err(SendError::About { len, max });
        }
        if self.senders.len() >= self.config.transfers_max {
            let max = self.config.transfers_max;
            return Err(SendError::Full { max });
        }
        let count = match &transfer.receivers {
            Wanted::Count(count) => *count,
            Wanted::Members(nodes) => nodes.len(),
            Wanted::Open | Wanted::Present => return Ok(()),
        };
        let max = self.config.receivers_max;
        if count == 0 || count > max {
            return Err(SendError::Receivers { count, max });
        }
        let window = self.config.window;
        // 001 section 3: an acknowledgement of packet X releases packet X - N only.
        if self.config.policy == Policy::Ring && window as usize <= count {
            let receivers = count;
            return Err(SendError::Window { receivers, window });
        }
        Ok(())
    }

    /// The bytes of the stream that should be offered next; `None` if none are wanted now. Within a pass it only moves
    /// on; a new pass may begin anywhere before.
    pub fn wanted(&self, id: TransferId) -> Option<Range<u64>> {
        self.sender(id)?.wanted()
    }

    /// Offers bytes from the start of what is wanted, at most as many.
    ///
    /// # Errors
    /// Nothing is taken then.
    pub fn offer(&mut self, now: Time, id: TransferId, bytes: Bytes) -> Result<(), OfferError> {
        let sender = self.senders.get_mut(&id.number);
        let sender = sender.filter(|_| id.sender == self.local);
        let result = sender
            .ok_or(OfferError::Unknown)?
            .offer(&mut context!(self, now), bytes);
        self.measure();
        result
    }

    /// A transfer of open length ends where the last offer ended.
    pub fn finish(&mut self, now: Time, id: TransferId) {
        self.with_sender(now, id, Sender::finish);
    }

    /// Starts with those who have registered, whoever else is wanted.
    pub fn begin(&mut self, now: Time, id: TransferId) {
        self.with_sender(now, id, Sender::begin);
    }

    /// Gives up a transfer; its receivers are told `reason`.
    pub fn cancel(&mut self, now: Time, id: TransferId, reason: &str) {
        self.with_sender(now, id, |sender, context| {
            sender.cancel(context, reason);
            Life::Ends
        });
    }

    /// How far a transfer that is sent here is.
    pub fn progress(&self, id: TransferId) -> Option<Progress> {
        Some(self.sender(id)?.progress(self.config.packet))
    }

    /// Takes part in a transfer that was announced.
    ///
    /// # Errors
    /// If there is no such transfer, or it was answered before.
    pub fn accept(
        &mut self,
        now: Time,
        id: TransferId,
        acceptance: &Acceptance,
    ) -> Result<(), UnknownTransfer> {
        let receiver = self.receivers.get_mut(&id).ok_or(UnknownTransfer)?;
        if !receiver.accept(&mut context!(self, now), acceptance) {
            return Err(UnknownTransfer);
        }
        Ok(())
    }

    /// Takes no part in a transfer that was announced; its sender is told `reason`.
    pub fn refuse(&mut self, id: TransferId, reason: &str) {
        if self
            .receivers
            .get(&id)
            .is_some_and(|receiver| !receiver.is_answered())
        {
            let message = Message::Refuse(reason.into());
            self.outbox.unicast(id.sender, id.number, &message);
            self.forget(id, true);
        }
    }

    /// `bytes` that were handed over are done with: there is room for as many more.
    pub fn consumed(&mut self, now: Time, id: TransferId, bytes: u64) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.consumed(&mut context!(self, now), bytes);
        }
    }

    /// The user's last word on a transfer: that all is well (once it has been [received](Notice::Received)), or why it
    /// gives up. What is handed over after it gave up is of no use.
    pub fn conclude(&mut self, now: Time, id: TransferId, result: Result<(), &str>) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.conclude(&mut context!(self, now), result);
        }
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What was counted since the start, and what is kept now.
    pub fn status(&self) -> BulkStatus {
        let kept = |sender: &Sender| sender.buffered(self.config.packet);
        let sending: u64 = self.senders.values().map(kept).sum();
        let receiving: u64 = self.receivers.values().map(Receiver::buffered).sum();
        BulkStatus {
            counters: self.counters,
            buffered: sending + receiving,
            buffered_max: self.buffered_max,
            unacknowledged_max: self.unacknowledged_max,
        }
    }

    /// Who this is.
    pub fn local(&self) -> MemberId {
        self.local
    }

    /// The settings.
    pub fn config(&self) -> &BulkConfig {
        &self.config
    }

    fn sender(&self, id: TransferId) -> Option<&Sender> {
        let sender = self.senders.get(&id.number)?;
        (id.sender == self.local).then_some(sender)
    }

    fn with_sender(
        &mut self,
        now: Time,
        id: TransferId,
        act: impl FnOnce(&mut Sender, &mut Context<'_>) -> Life,
    ) {
        if id.sender != self.local {
            return;
        }
        if let Some(sender) = self.senders.get_mut(&id.number)
            && act(sender, &mut context!(self, now)) == Life::Ends
        {
            self.senders.remove(&id.number);
        }
    }

    /// Forgets a transfer at its receiver; `past` if it is not to be offered again.
    fn forget(&mut self, id: TransferId, past: bool) {
        self.receivers.remove(&id);
        if past {
            if self.past.len() >= self.config.transfers_max * Self::PAST {
                self.past.pop_front();
            }
            self.past.push_back(id);
        }
    }

    fn handle_announce(&mut self, now: Time, id: TransferId, announce: Announce) {
        let room = self.receivers.len() < self.config.transfers_max;
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.handle(&mut context!(self, now), Message::Announce(announce));
        } else if room && !self.past.contains(&id) {
            let receiver = Receiver::new(&mut context!(self, now), id, announce);
            self.receivers.insert(id, receiver);
        }
    }

    /// A message that only a sender sends.
    fn handle_from_sender(&mut self, now: Time, id: TransferId, message: Message) {
        let Some(receiver) = self.receivers.get_mut(&id) else {
            return;
        };
        if receiver.handle(&mut context!(self, now), message) == Life::Ends {
            self.forget(id, true);
        }
    }

    /// A message that only receivers send: to this member as a sender or as one of a chain, or overheard.
    fn handle_from_receiver(&mut self, now: Time, from: MemberId, number: u32, message: Message) {
        if let Message::Report(report) = &message
            && report.sender != self.local.incarnation
        {
            let mut receivers = self.receivers.iter_mut();
            let about =
                |id: &TransferId| id.number == number && id.sender.incarnation == report.sender;
            if let Some((_, receiver)) = receivers.find(|(id, _)| about(id)) {
                receiver.hear(&mut context!(self, now), from, report);
            }
            return;
        }
        if let Some(sender) = self.senders.get_mut(&number) {
            if sender.handle(&mut context!(self, now), from, message) == Life::Ends {
                self.senders.remove(&number);
            }
        } else if number != 0 && number <= self.begun {
            // It does not know yet that the transfer is over.
            let done = Message::Finish(Finish::Done);
            self.outbox.unicast(from, number, &done);
        }
    }

    /// Remembers how much senders keep.
    fn measure(&mut self) {
        let kept = |sender: &Sender| sender.buffered(self.config.packet);
        let buffered = self.senders.values().map(kept).sum();
        self.buffered_max = self.buffered_max.max(buffered);
        let sent = |sender: &Sender| sender.unacknowledged(self.config.packet);
        let unacknowledged = self.senders.values().map(sent).sum();
        self.unacknowledged_max = self.unacknowledged_max.max(unacknowledged);
    }
}

impl Protocol for Bulk {
    type Event = Notice;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        let Ok((number, message)) = Message::decode(&body) else {
            self.counters.junk += 1;
            return;
        };
        if from != self.local {
            let (most, silence) = (self.config.receivers_max, self.config.vanish_after);
            self.others.hear(now, from, most, silence);
        }
        let id = TransferId {
            sender: from,
            number,
        };
        match message {
            Message::Announce(announce) => self.handle_announce(now, id, announce),
            Message::Data(_) | Message::Start(_) | Message::Poll(_) | Message::Finish(_) => {
                self.handle_from_sender(now, id, message);
            }
            Message::Report(_) | Message::Refuse(_) => {
                self.handle_from_receiver(now, from, number, message);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let due = |timeout: Option<Time>| timeout.is_some_and(|due| due <= now);
        let mut over = VecDeque::new();
        for (number, sender) in &mut self.senders {
            if due(sender.poll_timeout())
                && sender.handle_timeout(&mut context!(self, now)) == Life::Ends
            {
                over.push_back(*number);
            }
        }
        for number in over {
            self.senders.remove(&number);
        }
        let mut over = VecDeque::new();
        for (id, receiver) in &mut self.receivers {
            if due(receiver.poll_timeout())
                && receiver.handle_timeout(&mut context!(self, now)) == Life::Ends
            {
                over.push_back(*id);
            }
        }
        for id in over {
            // A sender that comes back may offer it again.
            self.forget(id, false);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(transmit) = self.outbox.poll_transmit(buf) {
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
            if let Some(transmit) = sender.poll_transmit(&mut context!(self, now), buf) {
                self.turn = number + 1;
                self.measure();
                return Some(transmit);
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let senders = self.senders.values().filter_map(Sender::poll_timeout);
        let receivers = self.receivers.values().filter_map(Receiver::poll_timeout);
        senders.chain(receivers).min()
    }
}
