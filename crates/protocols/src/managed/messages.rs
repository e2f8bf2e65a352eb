//! Messages over bulk transfers that are monitored: what the simulator, the swarm and the checker
//! run. Every message is a transfer with checkpoints at its middle and its end, and accounted for
//! by both; the member's user moves others, joins, leaves, asks and floods, if it is told to.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Buf as _, Bytes};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service, SubmitError, Time,
    Transmit, TransmitBuf,
};

use super::Glue;
use super::accounts::{Accounts, Checkpoint};
use crate::bulk::{ConfigError, Messages, MessagesConfig, Notice, Shape, TransferId};
use crate::xgm::{CensusRequest, Key, Membership, Subgroups, WatchFrom, Xgm, XgmConfig, XgmEvent};

/// What bodies of the endpoint, and of the entity, begin with.
pub(super) const BULK: u8 = 0;
pub(super) const XGM: u8 = 1;

/// What the entity has told and nobody has taken; more is dropped.
const TOLD_MAX: usize = 8_192;

/// Settings of [`ManagedMessages`].
#[derive(Clone, PartialEq, Debug)]
pub struct ManagedConfig {
    /// Of the messages and the transfers that carry them. Packets are a byte shorter than a
    /// datagram takes.
    pub messages: MessagesConfig,
    /// Of group management.
    pub xgm: XgmConfig,
    /// What each message needs.
    pub membership: Membership,
    /// From when on receivers are watched.
    pub from: WatchFrom,
    /// How often the member's user does something: it moves others between subgroups, changes for
    /// whom its transfer is (under the policy `list`), lets a second member join or leave, takes a
    /// census, or has the entity say what has to change nothing. `None`, the default: never.
    pub moves: Option<Duration>,
    /// Whether nothing is delivered anywhere before all that take part hold it. Default not. Longer
    /// messages than a receiver can hold are refused then.
    pub marks: bool,
    /// Messages of at most so many bytes need nobody, are for all, and have no marks: all that are
    /// there get them, whatever the other settings say. Default 0.
    pub plain_max: u64,
    /// Whether receivers reply, under the policy `multidriver`. Default not.
    pub replies: bool,
}

impl ManagedConfig {
    /// Messages with these settings, and no requirement.
    pub fn new(messages: MessagesConfig) -> Self {
        Self {
            messages,
            xgm: XgmConfig::default(),
            membership: Membership::default(),
            from: WatchFrom::Registration,
            moves: None,
            marks: false,
            plain_max: 0,
            replies: false,
        }
    }
}

/// A member that sends each message as a transfer, and monitors it.
#[derive(Debug)]
pub struct ManagedMessages {
    config: ManagedConfig,
    messages: Messages,
    xgm: Xgm,
    glue: Glue,
    rng: Rng,
    /// The transfer whose monitor was begun last.
    monitored: Option<TransferId>,
    /// The checkpoint at its end, until the account of its message has come.
    awaited: Option<Checkpoint>,
    accounts: Accounts,
    /// Bytes of the messages whose transfers are monitored, by their numbers.
    lengths: BTreeMap<u32, u64>,
    moves_at: Option<Time>,
    /// Who was heard last.
    heard: Option<MemberId>,
    events: VecDeque<Event>,
    told: VecDeque<XgmEvent>,
}

impl ManagedMessages {
    const KEY: Key = Key(1);
    const SECOND: Key = Key(2);
    /// Things that are said without cause, at once.
    const NOISE: usize = 30;

    /// A member; it begins to listen at once.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(
        local: MemberId,
        config: ManagedConfig,
        rng: Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        let messages = Messages::new(local, config.messages.clone(), rng.fork("messages"))?;
        let name = alloc::format!("{:?}", local.node);
        let mut xgm = Xgm::new(local, name.as_bytes(), config.xgm, rng.fork("xgm"));
        let joined = xgm.join(Self::KEY);
        joined.expect("the first member finds room");
        let shape = Shape {
            marks_above: config.marks.then_some(config.plain_max),
            has_replies: config.replies,
        };
        Ok(Self {
            messages: messages.tapped(shape),
            xgm,
            glue: Glue::new(Self::KEY),
            rng: rng.fork("user"),
            monitored: None,
            awaited: None,
            accounts: Accounts::new(local),
            lengths: BTreeMap::new(),
            moves_at: config.moves.map(|every| now + every),
            heard: None,
            events: VecDeque::new(),
            told: VecDeque::new(),
            config,
        })
    }

    /// What the entity has told since it was asked last.
    pub fn take_told(&mut self) -> Vec<XgmEvent> {
        self.told.drain(..).collect()
    }

    /// The entity.
    pub fn xgm(&self) -> &Xgm {
        &self.xgm
    }

    #[cfg(test)]
    pub(super) fn xgm_mut(&mut self) -> &mut Xgm {
        &mut self.xgm
    }

    /// The messages.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Hands over what each part has told to the others.
    fn work(&mut self, now: Time) {
        loop {
            self.take_events();
            self.monitor_next(now);
            let mut is_any = false;
            while let Some(notice) = self.messages.poll_tap() {
                is_any = true;
                if let Notice::Started { id, .. } = notice
                    && let Some(length) = self.lengths.get(&id.number).copied()
                {
                    for place in [length / 2, length] {
                        // With too many of them it does without.
                        let _ = self.xgm.checkpoint(now, id.number, place);
                    }
                }
                if let Notice::Sent { id } = notice {
                    self.lengths.remove(&id.number);
                }
                let bulk = self.messages.bulk_mut();
                self.glue.hear_notice(now, &notice, bulk, &mut self.xgm);
            }
            while let Some(event) = self.xgm.poll_event() {
                is_any = true;
                let bulk = self.messages.bulk_mut();
                self.glue.hear_event(now, &event, bulk);
                if let XgmEvent::Checkpoint(account) = &event {
                    self.accounts.hear(account);
                }
                if self.told.len() < TOLD_MAX {
                    self.told.push_back(event);
                }
            }
            if !is_any {
                break;
            }
            self.messages.work(now);
        }
        // Others may have moved it.
        if let Some(subgroups) = self.xgm.subgroups(Self::KEY) {
            self.messages.bulk_mut().set_subgroups(subgroups);
        }
        self.glue.follow(now, self.messages.bulk(), &mut self.xgm);
        let is_open = |it: Checkpoint| self.xgm.is_open(it.number, it.place);
        while let Some(event) = self.accounts.next(is_open) {
            self.events.push_back(event);
        }
    }

    /// Takes what the messages have told before the next of them is monitored.
    fn take_events(&mut self) {
        while let Some(event) = self.messages.poll_event() {
            let checkpoint = match event {
                Event::Account(_) => self.awaited.take(),
                _ => None,
            };
            self.events.extend(self.accounts.take(event, checkpoint));
        }
    }

    /// The next message is on its way: it is monitored.
    fn monitor_next(&mut self, now: Time) {
        let Some((id, length)) = self.messages.sending() else {
            return;
        };
        if self.monitored != Some(id) {
            self.monitored = Some(id);
            self.awaited = None;
            // Of an empty message there is no place that says who has it.
            if length > 0 {
                self.lengths.insert(id.number, length);
                let (number, place) = (id.number, length);
                self.awaited = Some(Checkpoint { number, place });
            }
            let membership = match length > self.config.plain_max {
                true => self.config.membership.clone(),
                false => Membership::default(),
            };
            // As many as there are under way find room.
            let monitored = &mut self.xgm;
            let _ = self
                .glue
                .monitor(now, monitored, id, membership, self.config.from);
        }
    }

    /// What the member's user does beside sending, if it is time.
    fn make_moves(&mut self, now: Time) {
        let is_due = self.moves_at.is_some_and(|at| at <= now);
        let Some(every) = self.config.moves.filter(|_| is_due) else {
            return;
        };
        self.moves_at = Some(now + every);
        let some = Subgroups(self.rng.next_u64() | self.rng.next_u64());
        let one = Subgroups::ALL.draw(&mut self.rng);
        // A refusal says that there is enough to do, or that there is nothing to change.
        match self.rng.below(7) {
            0 => {
                let _ = self.xgm.partition(some.union(one), some.union(one));
            }
            1 => {
                let _ = self.xgm.merge(self.rng.below(64) as u8, one);
            }
            2 | 3 => {
                let sending = self.messages.sending();
                if let Some((id, _)) = sending.filter(|(_, len)| *len > self.config.plain_max) {
                    let bulk = self.messages.bulk_mut();
                    let _ = bulk.change_subgroups(now, id, some.union(one));
                }
            }
            4 => {
                let request = CensusRequest {
                    subgroups: some.union(one),
                    list: self.rng.chance(0.5),
                    ..CensusRequest::default()
                };
                let _ = self.xgm.census(now, request);
            }
            5 => match self.xgm.subgroups(Self::SECOND) {
                Some(_) => self.xgm.leave(Self::SECOND),
                None => {
                    let _ = self.xgm.join(Self::SECOND);
                }
            },
            _ => {
                if let Some(peer) = self.heard {
                    self.xgm.make_noise(Self::NOISE, peer, &mut self.rng);
                }
            }
        }
        self.messages.work(now);
    }
}

impl Protocol for ManagedMessages {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, mut body: Bytes) {
        if body.is_empty() {
            return;
        }
        self.heard = Some(from);
        match body.get_u8() {
            BULK => self.messages.handle_datagram(now, from, body),
            XGM => self.xgm.handle_datagram(now, from, body),
            _ => {}
        }
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.messages.handle_timeout(now);
        self.xgm.handle_timeout(now);
        self.make_moves(now);
        self.work(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        buf.set_label(&[BULK]);
        let mut transmit = self.messages.poll_transmit(now, buf);
        if transmit.is_none() {
            buf.set_label(&[XGM]);
            transmit = self.xgm.poll_transmit(now, buf);
        }
        buf.set_label(&[]);
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.messages.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let both = [self.messages.poll_timeout(), self.xgm.poll_timeout()];
        both.into_iter().chain([self.moves_at]).flatten().min()
    }

    fn listens(&self) -> bool {
        self.messages.listens()
    }
}

impl Ordered for ManagedMessages {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        self.work(now);
        let submitted = self.messages.submit(now, service, payload);
        self.work(now);
        submitted
    }

    fn services(&self) -> &'static [Service] {
        self.messages.services()
    }

    fn leave(&mut self, now: Time) {
        self.moves_at = None;
        self.messages.leave(now);
        self.work(now);
    }

    fn local(&self) -> MemberId {
        self.messages.local()
    }
}

impl Instrumented for ManagedMessages {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.messages.measure(each);
        let counters = self.xgm.counters();
        each("asks", counters.asks);
        each("standings", counters.standings);
        each("stale", counters.stale);
    }
}
