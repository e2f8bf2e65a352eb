//! Messages over monitored bulk transfers: what the simulator, the swarm and the checker run. Every
//! message is a transfer with checkpoints at its middle and its end, and both the transport and
//! group management account for it. If told to, the member's user moves members, joins, leaves,
//! takes censuses and floods.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Buf as _, Bytes};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service, SubmitError, Time,
    Transmit, TransmitBuf, Uplink,
};

use super::Glue;
use super::accounts::{Accounts, Checkpoint};
use crate::bulk::{ConfigError, Messages, MessagesConfig, Notice, Shape, TransferId};
use crate::xgm::{
    CensusRequest, Key, Membership, Subgroups, UNASKED, WatchFrom, Xgm, XgmConfig, XgmEvent,
};

/// The first byte of the endpoint's bodies, and of the entity's.
pub(super) const BULK: u8 = 0;
pub(super) const XGM: u8 = 1;

/// The most events of the entity that wait to be taken; more are dropped.
const TOLD_MAX: usize = 8_192;

/// Settings of [`ManagedMessages`].
#[derive(Clone, PartialEq, Debug)]
pub struct ManagedConfig {
    /// Settings of the messages and of the transfers that carry them. Packets have to be a byte
    /// shorter than fits a datagram.
    pub messages: MessagesConfig,
    /// Settings of group management.
    pub xgm: XgmConfig,
    /// The membership that each message requires.
    pub membership: Membership,
    /// When the watch over receivers begins.
    pub from: WatchFrom,
    /// How often the member's user does something: it moves others between subgroups, changes the
    /// subgroups that its transfer is for (under the policy `list`), lets a second member join or
    /// leave, takes a census, or has the entity send datagrams that must change nothing. `None`,
    /// the default: never.
    pub moves: Option<Duration>,
    /// Whether receivers deliver a message only when all that take part hold it. Default no. If so,
    /// messages longer than a receiver can hold are refused.
    pub marks: bool,
    /// Messages of at most this many bytes require no membership, are for all subgroups, and have
    /// no marks, whatever the other settings say. Default 0.
    pub plain_max: u64,
    /// Whether receivers reply, under the policy `multidriver`. Default no.
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
    /// The checkpoint at that transfer's end, until the account of its message has come.
    awaited: Option<Checkpoint>,
    accounts: Accounts,
    /// The length in bytes of each message whose transfer is monitored, by the transfer's number.
    lengths: BTreeMap<u32, u64>,
    /// When the user does something next.
    moves_at: Option<Time>,
    /// The member that was heard last.
    heard: Option<MemberId>,
    events: VecDeque<Event>,
    /// What the entity has told, for [`take_told`](Self::take_told).
    told: VecDeque<XgmEvent>,
}

impl ManagedMessages {
    /// The member that receives.
    const KEY: Key = Key(1);
    /// A member that the user lets join and leave.
    const SECOND: Key = Key(2);
    /// How many datagrams without cause the user has the entity send at once.
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

    /// The events of the entity since the last call.
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

    /// Hands what each part tells to the others.
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
                        // If too many are open, this one is left out.
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
        self.glue
            .follow(now, self.messages.bulk_mut(), &mut self.xgm);
        let is_open = |it: Checkpoint| self.xgm.is_open(it.number, it.place);
        while let Some(event) = self.accounts.next(is_open) {
            self.events.push_back(event);
        }
    }

    /// Takes the events of the messages, before the next message is monitored.
    fn take_events(&mut self) {
        while let Some(event) = self.messages.poll_event() {
            let checkpoint = match event {
                Event::Account(_) => self.awaited.take(),
                _ => None,
            };
            self.events.extend(self.accounts.take(event, checkpoint));
        }
    }

    /// Monitors the message that is on its way, if that is another one.
    fn monitor_next(&mut self, now: Time) {
        let Some((id, length)) = self.messages.sending() else {
            return;
        };
        if self.monitored != Some(id) {
            self.monitored = Some(id);
            self.awaited = None;
            // An empty message has no place at which a checkpoint could say who has it.
            if length > 0 {
                self.lengths.insert(id.number, length);
                let (number, place) = (id.number, length);
                self.awaited = Some(Checkpoint { number, place });
            }
            let membership = match length > self.config.plain_max {
                true => self.config.membership.clone(),
                false => Membership::default(),
            };
            // A member has one message under way at a time: it finds room.
            let monitored = &mut self.xgm;
            let _ = self
                .glue
                .monitor(now, monitored, id, membership, self.config.from);
        }
    }

    /// Does what the member's user does beside sending, if it is time.
    fn make_moves(&mut self, now: Time) {
        let is_due = self.moves_at.is_some_and(|at| at <= now);
        let Some(every) = self.config.moves.filter(|_| is_due) else {
            return;
        };
        self.moves_at = Some(now + every);
        let some = Subgroups(self.rng.next_u64() | self.rng.next_u64());
        let one = Subgroups::ALL.draw(&mut self.rng);
        // A refusal means that enough is under way, or that there is nothing to change.
        match self.rng.below(7) {
            0 => {
                let _ = self.xgm.partition(some.union(one), some.union(one));
            }
            1 => {
                let _ = self
                    .xgm
                    .merge(self.rng.below(Subgroups::COUNT.into()) as u8, one);
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

    fn wants_uplink(&self, now: Time) -> bool {
        self.messages.wants_uplink(now)
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        self.messages.handle_uplink(now, uplink);
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        self.messages.handle_copies(now, members);
    }

    fn copies_to(&self, member: MemberId) -> bool {
        self.messages.copies_to(member)
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
        each(UNASKED, counters.unasked);
    }
}
