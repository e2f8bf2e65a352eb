//! One member's life as its history tells it: where it stayed and what it delivered there, in
//! order.

use std::collections::BTreeMap;

use groupcast_core::{MemberId, Service};

use super::{ConfigIx, MemberIx, MessageIx, Moment, SetIx, Spot, Stream};
use crate::outcome::Ending;

/// The history of one member.
#[derive(Debug)]
pub(crate) struct MemberLife {
    pub(crate) id: MemberId,
    /// Its name, where it is known.
    pub(crate) name: Option<String>,
    /// Messages may be delivered to it before they are ordered.
    pub(crate) is_early: bool,
    /// Observations so far; 0 for a member without a history.
    pub(crate) lines: u64,
    /// It left or crashed: nothing may follow.
    pub(crate) ended: Option<Ending>,
    /// The highest number of a message that it submitted.
    pub(crate) submitted: u64,
    /// The highest number of a message of its own that it accounted for.
    pub(crate) accounted: u64,
    /// The messages that it sent, by number, as far as anybody named them.
    pub(crate) numbers: BTreeMap<u64, MessageIx>,
    /// Its stays in regular configurations, in order.
    pub(crate) stays: Vec<Stay>,
    /// The highest counter of a regular configuration that it installed.
    pub(crate) counter: u64,
    /// Of each sender, the highest number of a message that it delivered in order; those that are
    /// promised none and have no place do not count.
    heard: Vec<u64>,
    /// Where the last ordered message that it delivered stands.
    pub(crate) last: Option<Spot>,
    /// The ordered messages that it delivered, in order.
    log: Vec<MessageIx>,
    /// The messages that it delivered without a place though they are promised, in order.
    early: Vec<MessageIx>,
    /// Both as a set: bit `i` for message `i`.
    delivered: Vec<u64>,
    /// What it delivered once more in the stay that goes on.
    again: Vec<MessageIx>,
    /// Of each sender, what it accounted for outside of any total order.
    streams: BTreeMap<MemberIx, Stream>,
}

/// A member's time in a regular configuration and in the transitional one that closed it.
#[derive(Debug)]
pub(crate) struct Stay {
    pub(crate) config: ConfigIx,
    pub(crate) transitional: Option<Transitional>,
    /// Where it begins in the log.
    from: usize,
    /// Where it begins among the early messages.
    early_from: usize,
}

/// A transitional configuration, as installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transitional {
    pub(crate) set: SetIx,
    /// Where it begins in the log.
    from: usize,
}

impl MemberLife {
    pub(super) fn new(id: MemberId) -> Self {
        Self {
            id,
            name: None,
            is_early: false,
            lines: 0,
            ended: None,
            submitted: 0,
            accounted: 0,
            numbers: BTreeMap::new(),
            stays: Vec::new(),
            counter: 0,
            heard: Vec::new(),
            last: None,
            log: Vec::new(),
            early: Vec::new(),
            delivered: Vec::new(),
            again: Vec::new(),
            streams: BTreeMap::new(),
        }
    }

    /// Enters the delivery of an ordered message; false if it was delivered before.
    pub(super) fn deliver(
        &mut self,
        message: MessageIx,
        sender: MemberIx,
        number: u64,
        spot: Spot,
    ) -> bool {
        if !self.receive(message) {
            self.again.push(message);
            return false;
        }
        self.hear(sender, number);
        self.log.push(message);
        self.last = Some(spot);
        true
    }

    /// Whether it had delivered the message, with a place, before it came into the configuration of
    /// its stay number `index`.
    pub(crate) fn had_before(&self, index: usize, message: MessageIx) -> bool {
        self.log[..self.stays[index].from].contains(&message)
    }

    /// Enters that the message was delivered; false if it was before.
    fn receive(&mut self, message: MessageIx) -> bool {
        let (word, bit) = (message.get() / 64, 1 << (message.get() % 64));
        if word >= self.delivered.len() {
            self.delivered.resize(word + 1, 0);
        }
        let first = self.delivered[word] & bit == 0;
        self.delivered[word] |= bit;
        first
    }

    /// Enters that a message came of which the order of its sender is promised.
    fn hear(&mut self, sender: MemberIx, number: u64) {
        if sender.get() >= self.heard.len() {
            self.heard.resize(sender.get() + 1, 0);
        }
        let heard = &mut self.heard[sender.get()];
        *heard = number.max(*heard);
    }

    /// Enters the delivery of a message that has no place but a promise.
    pub(super) fn deliver_unplaced(
        &mut self,
        message: MessageIx,
        sender: MemberIx,
        number: u64,
        service: Service,
    ) {
        match self.receive(message) {
            true => self.early.push(message),
            false if service == Service::Unreliable => {}
            false => self.again.push(message),
        }
        let stream = self.streams.entry(sender).or_default();
        stream.delivered.insert(number, number);
        if service.is_fifo() {
            stream.fifo = stream.fifo.max(number);
            self.hear(sender, number);
        }
    }

    /// Enters that messages were reported as lost.
    pub(super) fn report(&mut self, sender: MemberIx, first: u64, last: u64) {
        if first <= last {
            let stream = self.streams.entry(sender).or_default();
            stream.reported.insert(first, last);
        }
    }

    /// What it accounted for of `sender` outside of any total order.
    pub(crate) fn stream(&self, sender: MemberIx) -> Option<&Stream> {
        self.streams.get(&sender)
    }

    /// The same for every sender.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (MemberIx, &Stream)> {
        self.streams
            .iter()
            .map(|(sender, stream)| (*sender, stream))
    }

    pub(super) fn install_regular(&mut self, config: ConfigIx, counter: u64) {
        self.counter = self.counter.max(counter);
        self.again.clear();
        self.stays.push(Stay {
            config,
            transitional: None,
            from: self.log.len(),
            early_from: self.early.len(),
        });
    }

    pub(super) fn install_transitional(&mut self, set: SetIx) {
        if let Some(stay) = self.stays.last_mut() {
            let from = self.log.len();
            stay.transitional.get_or_insert(Transitional { set, from });
        }
    }

    /// Whether it delivered the message; of an unreliable one it is not known.
    pub(crate) fn has(&self, message: MessageIx) -> bool {
        let word = self.delivered.get(message.get() / 64);
        word.is_some_and(|word| word & (1 << (message.get() % 64)) != 0)
    }

    /// Whether it delivered the message in the stay that goes on, or before its first one.
    pub(crate) fn has_here(&self, message: MessageIx) -> bool {
        let stay = self.stay();
        let (from, early_from) = stay.map_or((0, 0), |stay| (stay.from, stay.early_from));
        let lists = [
            &self.log[from..],
            &self.early[early_from..],
            &self.again[..],
        ];
        lists.iter().any(|list| list.contains(&message))
    }

    /// The highest number of a message of `sender` that it delivered in order.
    pub(crate) fn heard(&self, sender: MemberIx) -> u64 {
        self.heard.get(sender.get()).copied().unwrap_or(0)
    }

    /// The stay that goes on.
    pub(crate) fn stay(&self) -> Option<&Stay> {
        self.stays.last()
    }

    /// Whether it is in a regular configuration now.
    pub(crate) fn in_regular(&self) -> bool {
        self.stay().is_some_and(|stay| stay.transitional.is_none())
    }

    /// The last regular configuration that it closed.
    pub(crate) fn closed(&self) -> Option<ConfigIx> {
        let mut stays = self.stays.iter().rev();
        let last = stays.next()?;
        match last.transitional {
            Some(_) => Some(last.config),
            None => stays.next().map(|stay| stay.config),
        }
    }

    /// Where in its life it is, as far as other members can be in the same place.
    pub(crate) fn moment(&self) -> Option<Moment> {
        let stay = self.stay()?;
        let here = self.last.filter(|_| self.log.len() > stay.from);
        Some(Moment {
            config: stay.config,
            transitional: stay.transitional.is_some(),
            seq: here.map(|spot| spot.seq),
        })
    }

    /// Whether it reported message `number` of `sender` as lost.
    pub(crate) fn has_reported(&self, sender: MemberIx, number: u64) -> bool {
        let stream = self.streams.get(&sender);
        stream.is_some_and(|stream| stream.reported.has(number))
    }

    /// What it delivered without a place, though it is promised, in its stay number `index`.
    pub(crate) fn early_in(&self, index: usize) -> &[MessageIx] {
        let next = self.stays.get(index + 1);
        let end = next.map_or(self.early.len(), |next| next.early_from);
        &self.early[self.stays[index].early_from..end]
    }

    /// What it delivered in its stay number `index`: in the regular configuration, and in the
    /// transitional one.
    pub(crate) fn delivered_in(&self, index: usize) -> (&[MessageIx], &[MessageIx]) {
        let stay = &self.stays[index];
        let end = self
            .stays
            .get(index + 1)
            .map_or(self.log.len(), |next| next.from);
        let middle = stay
            .transitional
            .map_or(end, |transitional| transitional.from);
        (&self.log[stay.from..middle], &self.log[middle..end])
    }
}
