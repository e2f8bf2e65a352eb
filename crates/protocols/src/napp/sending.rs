//! A source's end of a connection: its receivers, what each of them lacks, as state vectors say,
//! and which packets are sent next (003 3.3.4, 4.2).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{MemberId, Time};

use super::config::NappConfig;
use super::wire::{Message, PACKET, PAGE, RECEIVERS_MAX, What};

/// A message on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: u64,
    packets: u32,
    phase: Phase,
    /// How many packets were sent for the first time.
    sent: u32,
    /// The packets that are to be sent again.
    again: BTreeSet<u32>,
    /// When each was last asked for and let be sent again.
    repaired: BTreeMap<u32, Time>,
}

#[derive(Debug)]
enum Phase {
    /// It asks which members are there: those that have answered, when it asks next, and how often
    /// it has asked.
    Opening(BTreeSet<MemberId>, Time, u32),
    /// The receivers are known, in their order.
    Open(Vec<Receiver>),
}

#[derive(Debug)]
struct Receiver {
    member: MemberId,
    /// The first packet that it lacks.
    next: u32,
    /// When it was last heard, or began to lack a packet that was sent.
    heard: Time,
}

/// What became of a message at its receivers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) complete: Vec<MemberId>,
    pub(super) failed: Vec<MemberId>,
}

impl Outgoing {
    /// Begins to ask which members are there.
    pub(super) fn new(now: Time, message: u64, bytes: usize, config: &NappConfig) -> Self {
        Self {
            message,
            packets: bytes.div_ceil(PACKET).max(1) as u32,
            phase: Phase::Opening(BTreeSet::new(), now + config.open_wait, 1),
            sent: 0,
            again: BTreeSet::new(),
            repaired: BTreeMap::new(),
        }
    }

    pub(super) fn opening(&self) -> Message {
        Message::Open {
            message: self.message,
            packets: self.packets,
        }
    }

    /// A member says that it is there. Returns the pages of the roster to be sent now: all of them
    /// if the connection opens, or the page with this member.
    pub(super) fn hear_here(
        &mut self,
        now: Time,
        from: MemberId,
        config: &NappConfig,
    ) -> Vec<Message> {
        match &mut self.phase {
            Phase::Opening(there, ..) => {
                if there.len() < RECEIVERS_MAX {
                    there.insert(from);
                }
                let wanted = config.receivers as usize;
                match wanted > 0 && there.len() >= wanted {
                    true => self.open(now),
                    false => Vec::new(),
                }
            }
            Phase::Open(receivers) => {
                let at = receivers.iter().position(|it| it.member == from);
                let Some(at) = at else { return Vec::new() };
                receivers[at].heard = now;
                let start = at / PAGE * PAGE;
                self.roster().filter(|it| is_page(it, start)).collect()
            }
        }
    }

    /// The receivers are those that have answered.
    fn open(&mut self, now: Time) -> Vec<Message> {
        let Phase::Opening(there, ..) = &mut self.phase else {
            return Vec::new();
        };
        let there = core::mem::take(there);
        let receiver = |member| Receiver {
            member,
            next: 0,
            heard: now,
        };
        self.phase = Phase::Open(there.into_iter().map(receiver).collect());
        self.roster().collect()
    }

    fn roster(&self) -> impl Iterator<Item = Message> {
        let receivers: &[Receiver] = match &self.phase {
            Phase::Open(receivers) => receivers,
            Phase::Opening(..) => &[],
        };
        let pages = receivers.chunks(PAGE).enumerate();
        pages.map(|(number, page)| Message::Roster {
            message: self.message,
            receivers: receivers.len() as u16,
            first: (number * PAGE) as u16,
            page: page.iter().map(|it| it.member).collect(),
        })
    }

    /// Takes a control packet of one of the receivers, with its index and its state vector. Returns
    /// false if it makes no sense.
    pub(super) fn hear_control(
        &mut self,
        now: Time,
        from: MemberId,
        (what, number): (What, u32),
        (index, vector): (u16, &[u32]),
        config: &NappConfig,
    ) -> bool {
        let Phase::Open(receivers) = &mut self.phase else {
            return false;
        };
        let own = receivers.get_mut(usize::from(index));
        let is_own = own.as_ref().is_some_and(|it| it.member == from);
        let sent = self.sent;
        if !is_own || vector.len() != receivers.len() || vector.iter().any(|it| *it > sent) {
            return false;
        }
        for (receiver, next) in receivers.iter_mut().zip(vector) {
            if *next > receiver.next {
                receiver.next = *next;
                receiver.heard = now;
            }
        }
        receivers[usize::from(index)].heard = now;
        // An ACK says nothing that the vector does not; the others ask for a packet.
        if what != What::Ack && number < sent {
            let rests = self.repaired.get(&number).map(|at| *at + config.srej_rest);
            if rests.is_none_or(|until| until <= now) {
                self.repaired.insert(number, now);
                self.again.insert(number);
            }
        }
        true
    }

    /// The first packet that any receiver lacks.
    fn low(&self) -> u32 {
        match &self.phase {
            Phase::Open(receivers) => {
                let next = receivers.iter().map(|it| it.next).min();
                next.unwrap_or(self.packets)
            }
            Phase::Opening(..) => 0,
        }
    }

    /// The next packet to be sent: its number, and whether it was sent before.
    fn next(&mut self, now: Time, config: &NappConfig) -> Option<(u32, bool)> {
        if let Some(packet) = self.again.pop_first() {
            return Some((packet, true));
        }
        let end = self.low().saturating_add(config.window).min(self.packets);
        let Phase::Open(receivers) = &mut self.phase else {
            return None;
        };
        if self.sent >= end || receivers.is_empty() {
            return None;
        }
        for receiver in receivers.iter_mut().filter(|it| it.next == self.sent) {
            receiver.heard = now;
        }
        self.sent += 1;
        Some((self.sent - 1, false))
    }

    /// The next datagram with a packet of `payload`.
    pub(super) fn next_data(
        &mut self,
        now: Time,
        payload: &Bytes,
        config: &NappConfig,
    ) -> Option<Message> {
        let (sequence, again) = self.next(now, config)?;
        let start = (sequence as usize * PACKET).min(payload.len());
        let end = (start + PACKET).min(payload.len());
        Some(Message::Data {
            again,
            message: self.message,
            packets: self.packets,
            sent: self.sent,
            sequence,
            bytes: payload.slice(start..end),
        })
    }

    /// Asks again, or opens the connection, if it is time for that. Returns what is to be sent.
    pub(super) fn expire(&mut self, now: Time, config: &NappConfig) -> Vec<Message> {
        match &mut self.phase {
            Phase::Opening(_, due, times) if *due <= now => {
                if *times >= config.opens {
                    return self.open(now);
                }
                *times += 1;
                *due = now + config.open_wait;
                alloc::vec![self.opening()]
            }
            _ => Vec::new(),
        }
    }

    /// What became of the message, once all receivers have it, or one that lacks packets is lost:
    /// then the delivery to the group fails (003 4.2).
    pub(super) fn outcome(&self, now: Time, config: &NappConfig) -> Option<Outcome> {
        let Phase::Open(receivers) = &self.phase else {
            return None;
        };
        let owes = |it: &&Receiver| it.next < self.sent;
        let is_lost = |it: &Receiver| it.heard + config.patience <= now;
        let is_over = self.low() == self.packets || receivers.iter().filter(owes).any(is_lost);
        if !is_over {
            return None;
        }
        let (complete, failed): (Vec<&Receiver>, Vec<&Receiver>) =
            receivers.iter().partition(|it| it.next == self.packets);
        let members = |of: Vec<&Receiver>| of.into_iter().map(|it| it.member).collect();
        Some(Outcome {
            complete: members(complete),
            failed: members(failed),
        })
    }

    /// When `expire` or `outcome` is to be called.
    pub(super) fn due(&self, config: &NappConfig) -> Option<Time> {
        match &self.phase {
            Phase::Opening(_, due, _) => Some(*due),
            Phase::Open(receivers) => {
                let owes = receivers.iter().filter(|it| it.next < self.sent);
                owes.map(|it| it.heard + config.patience).min()
            }
        }
    }
}

fn is_page(message: &Message, start: usize) -> bool {
    matches!(message, Message::Roster { first, .. } if usize::from(*first) == start)
}
