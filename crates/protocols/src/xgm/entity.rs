//! The entity: one host's members, its answers, its censuses (003 4.3: group management entity).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::allowance::Allowance;
use groupcast_core::{
    Destination, MemberId, Protocol, Rng, SocketClass, Time, Transmit, TransmitBuf,
};

use super::Subgroups;
use super::census::{Asking, position};
use super::config::XgmConfig;
use super::connection::Ends;
use super::members::Members;
use super::monitor::Monitor;
use super::types::{
    CensusError, CensusHost, CensusRequest, Change, ChangeVerb, Counters, Key, MemberError,
    NAME_MAX, VariableError, XgmEvent,
};
use super::variables::Variables;
use super::wire::{Answer, Listed, Message, Poll};

/// The longest time that an answer waits, whatever the poll says.
pub(super) const SPREAD_MAX: Duration = Duration::from_secs(1);
/// The most datagrams that wait to be sent. Beyond, the user's requests are refused, and answers
/// are dropped.
const OUTBOX_MAX: usize = 64;
/// The most events that wait. Beyond, events of changes and variables are dropped.
const EVENTS_MAX: usize = 256;

/// An answer that waits for its random time.
#[derive(Debug)]
struct Pending {
    due: Time,
    asker: MemberId,
    poll: Poll,
    arrived: Time,
}

/// How many answers this host gives.
#[derive(Debug)]
struct Answering {
    /// To all together.
    allowance: Allowance,
    /// As many again to askers that have had none for a second: one that polls without end, and
    /// uses up the others, does not keep this host from answering anybody else.
    first: Allowance,
    /// The askers that have had an answer within the last second: at most as many as both
    /// allowances give in that time.
    answered: BTreeMap<MemberId, Time>,
}

impl Answering {
    /// An asker that was answered this long ago has its first answer again.
    const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);

    fn new(answers_max: u32) -> Self {
        let allowance = Allowance::per_second(answers_max, answers_max);
        Self {
            allowance,
            first: allowance,
            answered: BTreeMap::new(),
        }
    }

    /// Takes an answer to `asker`, if one is left for it.
    fn takes(&mut self, now: Time, asker: MemberId) -> bool {
        let is_recent = |at: &Time| now.since(*at) < Self::FORGOTTEN_AFTER;
        let is_first = !self.answered.get(&asker).is_some_and(is_recent);
        let takes = self.allowance.take(now) || is_first && self.first.take(now);
        if takes {
            self.answered.retain(|_, at| is_recent(at));
            self.answered.insert(asker, now);
        }
        takes
    }
}

/// The group management entity of a host.
///
/// Drain order: that of [`Protocol`].
///
/// ```
/// use groupcast_core::{Incarnation, MemberId, NodeId, Rng, Time};
/// use groupcast_protocols::xgm::{CensusRequest, Key, Xgm, XgmConfig};
///
/// let local = MemberId { node: NodeId(1), incarnation: Incarnation(2) };
/// let mut xgm = Xgm::new(local, b"a", XgmConfig::default(), Rng::new(3));
/// let subgroups = xgm.join(Key(1))?;
/// assert_eq!(subgroups.len(), 1);
/// xgm.census(Time::ZERO, CensusRequest::default())?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Xgm {
    pub(super) local: MemberId,
    pub(super) name: Bytes,
    pub(super) config: XgmConfig,
    pub(super) rng: Rng,
    pub(super) members: Members,
    pub(super) variables: Variables,
    asking: Option<Asking>,
    censuses: u32,
    /// How many hosts the last complete census of the whole group found.
    size: Option<usize>,
    answering: Answering,
    pending: Vec<Pending>,
    /// The connections that members of this host are in; below, those that this host is the source
    /// of.
    pub(super) ends: Ends,
    pub(super) monitors: BTreeMap<u32, Monitor>,
    pub(super) outbox: VecDeque<(Destination, Vec<u8>)>,
    pub(super) events: VecDeque<XgmEvent>,
    pub(super) counters: Counters,
}

impl Xgm {
    /// An entity without members, on the host that is called `name` (at most [`NAME_MAX`] bytes;
    /// more are cut).
    pub fn new(local: MemberId, name: &[u8], config: XgmConfig, rng: Rng) -> Self {
        Self {
            local,
            name: Bytes::copy_from_slice(&name[..name.len().min(NAME_MAX)]),
            config,
            rng,
            members: Members::default(),
            variables: Variables::default(),
            asking: None,
            censuses: 0,
            size: None,
            answering: Answering::new(config.answers_max),
            pending: Vec::new(),
            ends: Ends::new(config.answers_max),
            monitors: BTreeMap::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Adds a local member in a random subgroup (003 4.5.1), and returns that.
    ///
    /// # Errors
    /// If the key is taken, or there are [`MEMBERS_MAX`](super::MEMBERS_MAX) members.
    pub fn join(&mut self, key: Key) -> Result<Subgroups, MemberError> {
        let subgroups = Subgroups::ALL.draw(&mut self.rng);
        self.members.add(key, subgroups)?;
        Ok(subgroups)
    }

    /// Removes a local member; does nothing if there is none.
    pub fn leave(&mut self, key: Key) {
        self.members.remove(key);
    }

    /// The subgroups that a local member is in.
    pub fn subgroups(&self, key: Key) -> Option<Subgroups> {
        self.members.subgroups(key)
    }

    /// Puts a local member into `subgroups`, and no others.
    ///
    /// # Errors
    /// If there is no such member, or `subgroups` is empty.
    pub fn set_subgroups(&mut self, key: Key, subgroups: Subgroups) -> Result<(), MemberError> {
        self.members.set(key, subgroups)
    }

    /// Notes that a local member is in a connection of `source`, or in none. While it is in one,
    /// only the manager at the source may move it (003 4.5.1).
    ///
    /// # Errors
    /// If there is no such member.
    pub fn connect(&mut self, key: Key, source: Option<MemberId>) -> Result<(), MemberError> {
        self.members.connect(key, source)
    }

    /// Begins a census and returns its number; [`XgmEvent::Census`] tells what it found. It costs
    /// some polls for each hundred hosts, and an answer a host.
    ///
    /// # Errors
    /// If a census is under way, or `request` asks no subgroup.
    pub fn census(&mut self, now: Time, request: CensusRequest) -> Result<u32, CensusError> {
        if self.asking.is_some() {
            return Err(CensusError::Busy);
        }
        if request.subgroups.is_empty() {
            return Err(CensusError::NoSubgroup);
        }
        self.censuses = self.censuses.wrapping_add(1);
        let number = self.censuses;
        let asker = self.local.incarnation;
        let mut asking = Asking::new(asker, number, request, self.config, now);
        if self.members.union().matches(request.subgroups) {
            asking.count(now, self.as_host(request.list));
        }
        self.asking = Some(asking);
        Ok(number)
    }

    /// Whether a census is under way.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// The members of the group that are in one of `from` leave these, and each draws one of `to`
    /// (003 4.5.1: partition). With the reliability of a datagram: asking again does no harm.
    ///
    /// # Errors
    /// If `from` or `to` is empty, or too much waits to be sent.
    pub fn partition(&mut self, from: Subgroups, to: Subgroups) -> Result<(), VariableError> {
        let verb = ChangeVerb::Partition;
        self.change(Change { verb, from, to })
    }

    /// The members of the group that are in one of `from` leave these, and are in the subgroup `to`
    /// (003 4.5.1: merge). With the reliability of a datagram.
    ///
    /// # Errors
    /// If `from` is empty, `to` is no subgroup, or too much waits to be sent.
    pub fn merge(&mut self, to: u8, from: Subgroups) -> Result<(), VariableError> {
        let (verb, to) = (ChangeVerb::Merge, Subgroups::one(to));
        self.change(Change { verb, from, to })
    }

    fn change(&mut self, change: Change) -> Result<(), VariableError> {
        if change.from.is_empty() || change.to.is_empty() {
            return Err(VariableError::NoSubgroup);
        }
        self.post(Destination::Group, &Message::Change(change))?;
        self.handle_change(self.local, &change);
        Ok(())
    }

    /// How many hosts the last complete census of the whole group found (003 4.5.1: a cached
    /// estimate of group size); `None` before there was one.
    pub fn size(&self) -> Option<usize> {
        self.size
    }

    /// How many members this host has.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The member id of this host.
    pub fn local(&self) -> MemberId {
        self.local
    }

    /// The counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether no datagram waits to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_empty()
    }

    pub(super) fn post(&mut self, to: Destination, message: &Message) -> Result<(), VariableError> {
        if self.outbox.len() >= OUTBOX_MAX {
            return Err(VariableError::Full);
        }
        self.outbox.push_back((to, message.encode()));
        Ok(())
    }

    pub(super) fn tell(&mut self, event: XgmEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    fn as_host(&self, list: bool) -> CensusHost {
        CensusHost {
            member: self.local,
            name: list.then(|| self.name.clone()),
            members: self.members.len() as u16,
            subgroups: self.members.union(),
            list: list.then(|| self.members.list()),
        }
    }

    /// Whether `poll` asks this host (003 4.5.1: it answers if the union of its members' subgroups
    /// matches).
    fn is_asked(&self, asker: MemberId, poll: &Poll) -> bool {
        let is_for_host = self.members.union().matches(poll.asked);
        if self.members.len() == 0 || !self.config.plants().is_for_host(is_for_host) {
            return false;
        }
        let local = self.local.incarnation;
        let slice = poll.first..=poll.last;
        slice.contains(&position(asker.incarnation, poll.census, local))
            && !poll.heard.contains(&local)
    }

    fn handle_poll(&mut self, now: Time, asker: MemberId, poll: Poll) {
        self.counters.polls += 1;
        if !self.is_asked(asker, &poll) {
            return;
        }
        let waits = |it: &Pending| it.asker == asker && it.poll.census == poll.census;
        if self.pending.iter().any(waits) {
            return;
        }
        if !self.answering.takes(now, asker) {
            self.counters.unanswered += 1;
            return;
        }
        let spread = poll.spread.min(SPREAD_MAX);
        self.pending.push(Pending {
            due: now + self.rng.duration(Duration::ZERO, spread),
            asker,
            poll,
            arrived: now,
        });
    }

    fn answer(&mut self, now: Time, pending: &Pending) {
        // Its members may have gone or moved meanwhile.
        if !self.is_asked(pending.asker, &pending.poll) {
            return;
        }
        let host = self.as_host(pending.poll.list);
        let list = host.name.zip(host.list);
        let answer = Message::Answer(Answer {
            census: pending.poll.census,
            poll: pending.poll.number,
            held: now - pending.arrived,
            union: host.subgroups,
            members: host.members,
            list: list.map(|(name, members)| Listed { name, members }),
        });
        if self
            .post(Destination::Member(pending.asker), &answer)
            .is_ok()
        {
            self.counters.answers += 1;
        }
    }

    fn handle_answer(&mut self, now: Time, from: MemberId, answer: &Answer) {
        let asking = self.asking.as_mut();
        let Some(asking) = asking.filter(|asking| asking.number() == answer.census) else {
            return;
        };
        match asking.asked().matches(answer.union) {
            true => asking.hear(now, from, answer),
            false => self.counters.unasked += 1,
        }
    }

    fn handle_change(&mut self, by: MemberId, change: &Change) {
        let changed = self.members.change(by, change, &mut self.rng);
        self.counters.refused += changed.refused as u64;
        for (key, subgroups) in changed.moved {
            self.tell(XgmEvent::Moved { key, subgroups, by });
        }
    }

    /// Sends the poll that is due, or ends the census.
    fn ask(&mut self, now: Time) {
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.due() <= now) else {
            return;
        };
        let asks_all = asking.asked() == Subgroups::ALL;
        match asking.next_poll(now) {
            Ok(poll) => {
                let poll = Message::Poll(poll).encode();
                self.outbox.push_back((Destination::Group, poll));
            }
            Err(census) => {
                if asks_all && census.complete {
                    self.size = Some(census.hosts);
                }
                self.asking = None;
                // The user has asked for it: it is told, whatever else waits.
                self.events.push_back(XgmEvent::Census(census));
            }
        }
    }
}

impl Protocol for Xgm {
    type Event = XgmEvent;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        match Message::decode(&body) {
            Ok(Message::Poll(poll)) => self.handle_poll(now, from, poll),
            Ok(Message::Answer(answer)) => self.handle_answer(now, from, &answer),
            Ok(Message::Change(change)) => self.handle_change(from, &change),
            Ok(Message::Set { scope, name, value }) => self.handle_set(from, scope, name, value),
            Ok(Message::Ask(ask)) => self.handle_ask(now, from, &ask),
            Ok(Message::Told(told)) => self.handle_told(from, &told),
            Ok(Message::Report(report)) => self.handle_report(from, &report),
            Err(_) => self.counters.junk += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let (due, later) = core::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| pending.due <= now);
        self.pending = later;
        let due: Vec<Pending> = due;
        for pending in &due {
            self.answer(now, pending);
        }
        self.ask(now);
        self.answer_asks(now);
        self.step_monitors(now);
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (destination, bytes) = self.outbox.pop_front()?;
        buf.push(&[&bytes]);
        Some(Transmit {
            destination,
            class: SocketClass::Control,
        })
    }

    fn poll_event(&mut self) -> Option<XgmEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let answers = self.pending.iter().map(|pending| pending.due);
        let asking = self.asking.as_ref().map(Asking::due);
        let monitors = self.monitors.values().filter_map(Monitor::due);
        let watching = self.ends.due().into_iter().chain(monitors);
        answers.chain(asking).chain(watching).min()
    }
}
