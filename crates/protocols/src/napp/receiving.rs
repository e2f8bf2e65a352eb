//! A receiver's end of a connection: what it lacks, what all others lack as far as it has heard,
//! and its three timers (003 3.3.4).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::{MemberId, Rng, Time};

use super::config::NappConfig;
use super::wire::What;

/// What is to be said to all, or to the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Say {
    /// A control packet with its number.
    Control(What, u32),
    /// Asks the source to send the page of its roster with this receiver again.
    Here,
}

/// A connection on which this receiver was heard.
#[derive(Debug)]
pub(super) struct Incoming {
    packets: u32,
    /// The packets that are here, by number; empty once the message was delivered.
    parts: Vec<Option<Bytes>>,
    /// The first packet that is missing here: V of 003.
    next: u32,
    /// How many packets the source has sent, as far as this receiver knows.
    known: u32,
    /// Its place in the roster.
    index: Option<u16>,
    /// The state vector; empty while its place is not known.
    vector: Vec<u32>,
    /// Of each missing packet: when an SREJ for it may be sent.
    srejs: BTreeMap<u32, Time>,
    /// When a PACK is sent.
    pack: Time,
    /// When the last ACK is repeated.
    ack: Option<Time>,
    /// What `next` was in the last ACK.
    acked: u32,
    /// When the source was last heard.
    heard: Time,
}

impl Incoming {
    pub(super) fn new(now: Time, packets: u32, config: &NappConfig) -> Self {
        Self {
            packets,
            parts: alloc::vec![None; packets as usize],
            next: 0,
            known: 0,
            index: None,
            vector: Vec::new(),
            srejs: BTreeMap::new(),
            pack: now + config.pack_interval,
            ack: None,
            acked: 0,
            heard: now,
        }
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// Its place in the roster, once it knows that.
    pub(super) fn index(&self) -> Option<u16> {
        self.index
    }

    /// The state vector: what each receiver lacks first, this one included.
    pub(super) fn vector(&self) -> &[u32] {
        &self.vector
    }

    /// The source has said that this is receiver `index` of this many.
    pub(super) fn placed(&mut self, now: Time, index: u16, receivers: u16) {
        self.heard = now;
        if self.index.is_none() && index < receivers {
            self.index = Some(index);
            self.vector = alloc::vec![0; usize::from(receivers)];
            self.vector[usize::from(index)] = self.next;
        }
    }

    /// Takes a packet: its number, and how many were sent so far. Returns the message if it is
    /// whole now.
    pub(super) fn take(
        &mut self,
        now: Time,
        (sequence, sent): (u32, u32),
        bytes: Bytes,
        config: &NappConfig,
        says: &mut Vec<Say>,
    ) -> Option<Bytes> {
        self.heard = now;
        if self.is_in_window(sequence, config) {
            self.pack = now + config.pack_interval;
        }
        if self.index.is_none() {
            // The roster was lost: this receiver asks for it soon.
            self.pack = self.pack.min(now + config.srej_interval);
        }
        let was_whole = self.next == self.packets;
        if sequence >= self.next {
            self.srejs.remove(&sequence);
            let part = self.parts.get_mut(sequence as usize)?;
            *part = part.take().or(Some(bytes));
            let here = |next: &u32| self.parts.get(*next as usize).is_some_and(Option::is_some);
            while here(&self.next) {
                self.next += 1;
            }
        }
        self.know(now, sent);
        self.note_own();
        let is_whole = self.next == self.packets;
        let is_last = is_whole && !was_whole;
        if is_last || (!is_whole && self.next - self.acked >= config.ack_every) {
            self.say_ack(now, config, says);
        }
        is_last.then(|| self.assemble())
    }

    fn assemble(&mut self) -> Bytes {
        let mut whole = BytesMut::new();
        for part in core::mem::take(&mut self.parts).into_iter().flatten() {
            whole.put(part);
        }
        whole.freeze()
    }

    fn note_own(&mut self) {
        let index = self.index.map(usize::from);
        if let Some(entry) = index.and_then(|index| self.vector.get_mut(index)) {
            *entry = self.next;
        }
    }

    fn say_ack(&mut self, now: Time, config: &NappConfig, says: &mut Vec<Say>) {
        if self.index.is_none() {
            return;
        }
        self.acked = self.next;
        self.ack = Some(now + config.ack_interval);
        says.push(Say::Control(What::Ack, self.next));
    }

    fn lacks(&self, packet: u32) -> bool {
        let part = self.parts.get(packet as usize);
        packet >= self.next && part.is_some_and(Option::is_none)
    }

    fn is_in_window(&self, packet: u32, config: &NappConfig) -> bool {
        (self.next..self.next.saturating_add(config.window)).contains(&packet)
    }

    /// Learns that the source has sent this many packets: those of them that are not here are lost.
    fn know(&mut self, now: Time, sent: u32) {
        let sent = sent.min(self.packets);
        for packet in self.known.max(self.next)..sent {
            if self.lacks(packet) {
                self.srejs.entry(packet).or_insert(now);
            }
        }
        self.known = self.known.max(sent);
    }

    /// Another receiver's control packet was overheard.
    pub(super) fn overhear(
        &mut self,
        now: Time,
        (what, number): (What, u32),
        vector: &[u32],
        config: &NappConfig,
    ) {
        if number > self.packets || (self.index.is_some() && vector.len() != self.vector.len()) {
            return;
        }
        for (known, said) in self.vector.iter_mut().zip(vector) {
            *known = (*known).max((*said).min(self.packets));
        }
        self.note_own();
        match what {
            What::Ack => self.know(now, number),
            What::Pack => {
                self.know(now, number);
                if number >= self.next {
                    self.pack = now + config.pack_interval;
                }
            }
            What::Srej => {
                self.know(now, number);
                if self.lacks(number) {
                    self.srejs.insert(number, now + config.srej_rest);
                    self.know(now, number.saturating_add(1));
                }
                if self.is_in_window(number, config) {
                    self.pack = now + config.pack_interval;
                }
            }
        }
    }

    /// Adds to `says` what is due now. Returns false if the source has been silent for too long.
    pub(super) fn expire(
        &mut self,
        now: Time,
        config: &NappConfig,
        rng: &mut Rng,
        says: &mut Vec<Say>,
    ) -> bool {
        if now >= self.gone(config) {
            return false;
        }
        if self.index.is_none() {
            if self.pack <= now {
                self.pack = now + config.ack_interval;
                says.push(Say::Here);
            }
            return true;
        }
        let window = self.next..self.next.saturating_add(config.window);
        for (packet, due) in self.srejs.range_mut(window) {
            if *due > now {
                continue;
            }
            if rng.below(100) >= u64::from(config.probability) {
                *due = now + config.srej_interval;
                continue;
            }
            *due = now + config.srej_rest;
            self.pack = now + config.pack_interval;
            says.push(Say::Control(What::Srej, *packet));
        }
        if self.ack.is_some_and(|due| due <= now) {
            self.say_ack(now, config, says);
        }
        if self.pack <= now {
            self.pack = now + config.pack_interval;
            says.push(Say::Control(What::Pack, self.next));
        }
        true
    }

    /// When a source that stays silent is given up.
    fn gone(&self, config: &NappConfig) -> Time {
        self.heard + config.patience * 2
    }

    /// When `expire` is to be called.
    pub(super) fn due(&self, config: &NappConfig) -> Time {
        let mut due = self.pack.min(self.gone(config));
        if self.index.is_some() {
            let window = self.next..self.next.saturating_add(config.window);
            let srej = self.srejs.range(window).map(|(_, due)| *due).min();
            due = [srej, self.ack].into_iter().flatten().fold(due, Time::min);
        }
        due
    }
}

/// What a receiver knows of a source: the last message that it was opened for.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) message: u64,
    /// `None` once the source has closed it, or is given up.
    pub(super) incoming: Option<Incoming>,
}

/// The sources, one connection of each.
pub(super) type Records = BTreeMap<MemberId, Record>;
