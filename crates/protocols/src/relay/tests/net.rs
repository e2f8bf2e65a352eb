//! A small network of groups: multicasts reach who is in the same one, through a link with a rate,
//! a delay, a queue and a loss. Receivers keep what they are told; relays stand in two groups.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{
    Destination, Incarnation, MemberId, NodeId, Protocol as _, Rng, Time, TransmitBuf,
};

use crate::bulk::{
    Acceptance, Bulk, BulkConfig, DeliverTo, Failure, Notice, Order, Outcome, Served, SlowPolicy,
    Transfer, TransferId, Wanted,
};
use crate::relay::{Account, Accounts, Carries, Relay, RelayConfig, RelayEvent, Said, Sides, Word};
use crate::xgm::Subgroups;

/// How datagrams travel within a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) delay: Duration,
    /// Bytes a second that leave each endpoint; 0: any number.
    pub(super) rate: u64,
    /// Bytes that wait to leave, at most.
    pub(super) queue: u64,
    pub(super) loss: f64,
}

impl Link {
    pub(super) const LAN: Self = Self {
        delay: Duration::from_micros(100),
        rate: 125_000_000,
        queue: 1 << 20,
        loss: 0.0,
    };

    pub(super) fn losing(loss: f64) -> Self {
        Self { loss, ..Self::LAN }
    }
}

/// What an endpoint's user does.
pub(super) enum User {
    Sender,
    Receiver(Receiver),
    /// Which relay, and whether it is its lower side.
    Relay(usize, bool),
}

/// A receiver, and what it was told.
#[derive(Default)]
pub(super) struct Receiver {
    pub(super) held: Vec<Range<u64>>,
    pub(super) data: BTreeMap<u64, Bytes>,
    /// Its last word when it has all; complete, if there is none.
    pub(super) fails: Option<&'static str>,
    pub(super) refuses: Option<&'static str>,
    /// It takes this many bytes a second; 0: any number.
    pub(super) takes: u64,
    pub(super) unconsumed: u64,
    pub(super) taken_at: Time,
    pub(super) concluded: bool,
    pub(super) ended: bool,
    pub(super) failure: Option<Failure>,
    /// What it was told of when it is served.
    pub(super) served: Vec<Served>,
    id: Option<TransferId>,
}

pub(super) struct Station {
    pub(super) bulk: Bulk,
    pub(super) accounts: Accounts,
    pub(super) group: usize,
    pub(super) user: User,
    /// When its link is free again.
    free: Time,
    /// When it dies, and since when it is there.
    pub(super) dies: Option<Time>,
    pub(super) born: Time,
}

pub(super) struct Net {
    pub(super) now: Time,
    pub(super) links: Vec<Link>,
    pub(super) stations: Vec<Station>,
    pub(super) relays: Vec<(Relay, usize, usize)>,
    pub(super) stream: Bytes,
    pub(super) length: Option<u64>,
    pub(super) id: Option<TransferId>,
    pub(super) offered: u64,
    /// Whether the sender keeps accounts of relays: earlier releases do not.
    pub(super) keeps: bool,
    pub(super) settled: BTreeMap<MemberId, (Outcome, Bytes)>,
    pub(super) sent_at: Option<Time>,
    pub(super) accounts: BTreeMap<MemberId, Account>,
    /// Who came late below a relay, as the sender was told.
    pub(super) came_late: Vec<Bytes>,
    pub(super) events: Vec<RelayEvent>,
    pub(super) carries: Carries,
    /// The most bytes that relays have kept at once.
    pub(super) kept_max: u64,
    flying: BTreeMap<(Time, u64), (usize, MemberId, bool, Bytes)>,
    flights: u64,
    rng: Rng,
}

pub(super) fn config() -> BulkConfig {
    BulkConfig {
        register_within: Duration::from_secs(30),
        ..BulkConfig::lan()
    }
}

/// What the lower side of a relay needs: it waits for the slowest, and does not begin by itself.
pub(super) fn below() -> BulkConfig {
    BulkConfig {
        slow: SlowPolicy::Wait,
        register_within: Duration::from_secs(86_400),
        ..BulkConfig::lan()
    }
}

/// The name of the station at this place.
pub(super) fn name(index: usize) -> Bytes {
    Bytes::from(std::format!("h{index}"))
}

pub(super) fn node(index: usize) -> NodeId {
    NodeId(index as u64 + 1)
}

impl Net {
    /// A sender in group 0, which sends `length` bytes; and groups with these links.
    pub(super) fn new(seed: u64, length: usize, links: &[Link]) -> Self {
        let bytes = |index: usize| (index * 7 % 251) as u8;
        let mut net = Self {
            now: Time::from_millis(1),
            links: links.to_vec(),
            stations: Vec::new(),
            relays: Vec::new(),
            stream: (0..length).map(bytes).collect::<Vec<u8>>().into(),
            length: Some(length as u64),
            id: None,
            offered: 0,
            keeps: true,
            settled: BTreeMap::new(),
            sent_at: None,
            accounts: BTreeMap::new(),
            came_late: Vec::new(),
            events: Vec::new(),
            carries: Carries::Files,
            kept_max: 0,
            flying: BTreeMap::new(),
            flights: 0,
            rng: Rng::new(seed),
        };
        net.add(0, User::Sender, config());
        net
    }

    pub(super) fn add(&mut self, group: usize, user: User, config: BulkConfig) -> usize {
        let index = self.stations.len();
        let member = MemberId {
            node: node(index),
            incarnation: Incarnation(index as u64 + 100),
        };
        let rng = Rng::new(index as u64 + 1000);
        self.stations.push(Station {
            accounts: Accounts::new(config.receivers_max),
            bulk: Bulk::new(member, config, rng).expect("the settings fit each other"),
            group,
            user,
            free: Time::ZERO,
            dies: None,
            born: Time::ZERO,
        });
        index
    }

    pub(super) fn add_receiver(&mut self, group: usize) -> usize {
        self.add(group, User::Receiver(Receiver::default()), config())
    }

    /// A relay from one group to another: its upper station.
    pub(super) fn add_relay(&mut self, from: usize, to: usize) -> usize {
        let number = self.relays.len();
        let upper = self.add(from, User::Relay(number, false), config());
        let lower = self.add(to, User::Relay(number, true), below());
        let relay = Relay::new(RelayConfig::new(&name(upper)));
        self.relays.push((relay, upper, lower));
        upper
    }

    pub(super) fn receiver(&mut self, index: usize) -> &mut Receiver {
        match &mut self.stations[index].user {
            User::Receiver(receiver) => receiver,
            _ => panic!("station {index} is no receiver"),
        }
    }

    pub(super) fn send(&mut self, receivers: Wanted) {
        let transfer = Transfer {
            about: Bytes::from_static(b"a file"),
            length: self.length,
            rewindable: self.length.is_some(),
            receivers,
            subgroups: Subgroups::ALL,
            confirm: true,
            deliver_to: DeliverTo::AtOnce,
            replies: false,
            strict: false,
        };
        let sender = &mut self.stations[0];
        let id = sender
            .bulk
            .send(self.now, transfer)
            .expect("it can be sent");
        if self.keeps {
            sender.accounts.open(id.number);
        }
        self.id = Some(id);
    }

    /// Runs until the transfer is over for everybody that lives; fails if it is not within this
    /// long.
    pub(super) fn must_end(&mut self, within: Duration) {
        let end = self.now + within;
        let ends = self.run_until(end, |net| {
            let idle = |(relay, upper, _): &(Relay, usize, usize)| {
                relay.is_idle() || !net.stations[*upper].is_alive(net.now)
            };
            net.sent_at.is_some() && net.relays.iter().all(idle)
        });
        assert!(
            ends,
            "not within {within:?}: {:?} {:?}",
            self.settled, self.events
        );
    }

    pub(super) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_until(end, |_| false);
    }

    pub(super) fn run_until(&mut self, end: Time, done: impl Fn(&Self) -> bool) -> bool {
        while self.now < end {
            self.settle_down();
            if done(self) {
                return true;
            }
            let stations = self.stations.iter().filter(|it| it.is_alive(self.now));
            let timeouts = stations.flat_map(|it| {
                [
                    it.bulk.poll_timeout(),
                    it.accounts.poll_timeout(),
                    it.takes_more(),
                ]
            });
            let relays = self.relays.iter().map(|(relay, ..)| relay.poll_timeout());
            let flying = self.flying.keys().next().map(|(at, _)| *at);
            let next = timeouts.chain(relays).flatten().chain(flying).min();
            let tick = Duration::from_micros(50);
            self.now = next.unwrap_or(end).min(end).max(self.now + tick);
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, from, is_account, body) = entry.remove();
                let station = &mut self.stations[to];
                if !station.is_alive(self.now) {
                    continue;
                }
                match is_account {
                    true => station.accounts.handle_datagram(self.now, from, &body),
                    false => station.bulk.handle_datagram(self.now, from, body),
                }
                self.take(to);
            }
            for index in 0..self.stations.len() {
                if self.stations[index].is_alive(self.now) {
                    self.stations[index].bulk.handle_timeout(self.now);
                    self.stations[index].accounts.handle_timeout(self.now);
                }
            }
        }
        done(self)
    }

    fn settle_down(&mut self) {
        for _ in 0..3 {
            for index in 0..self.stations.len() {
                if self.stations[index].is_alive(self.now) {
                    self.take(index);
                    self.consume(index);
                    self.transmit(index);
                }
            }
            self.offer();
            for number in 0..self.relays.len() {
                self.work(number);
            }
        }
    }

    fn work(&mut self, number: usize) {
        let (relay, upper, lower) = &mut self.relays[number];
        if !self.stations[*upper].is_alive(self.now) {
            return;
        }
        let (first, second) = self.stations.split_at_mut(*lower);
        let mut sides = sides(&mut first[*upper], &mut second[0]);
        relay.work(self.now, &mut sides);
        let kept = sides.upper.status().buffered + sides.lower.status().buffered;
        self.kept_max = self.kept_max.max(kept);
        while let Some(event) = relay.poll_event() {
            self.events.push(event);
        }
    }

    pub(super) fn stop_relay(&mut self, number: usize) {
        let (relay, upper, lower) = &mut self.relays[number];
        let (first, second) = self.stations.split_at_mut(*lower);
        relay.stop(self.now, &mut sides(&mut first[*upper], &mut second[0]));
    }

    fn take(&mut self, index: usize) {
        while let Some(event) = self.stations[index].accounts.poll_event() {
            match self.stations[index].user {
                User::Relay(number, _) => self.with_relay(number, |relay, now, sides| {
                    relay.hear_account(now, sides, &event);
                }),
                _ => {
                    let Some(id) = self.id else { continue };
                    let station = &mut self.stations[index];
                    match &event.said {
                        Said::Word(Word::Registered { node, .. }) => {
                            let bulk = &mut station.bulk;
                            bulk.stands_for(self.now, id, event.relay, *node);
                        }
                        Said::Word(Word::Aside { row }) => {
                            let account = station.accounts.account(id.number, event.relay);
                            let node = account.expect("it has said so").rows()[*row as usize].node;
                            let bulk = &mut station.bulk;
                            bulk.stands_no_more_for(self.now, id, event.relay, node);
                        }
                        Said::CameLate { name, .. } => self.came_late.push(name.clone()),
                        _ => {}
                    }
                }
            }
        }
        while let Some(notice) = self.stations[index].bulk.poll_event() {
            match self.stations[index].user {
                User::Sender => self.tell_sender(notice),
                User::Receiver(_) => self.tell_receiver(index, notice),
                User::Relay(number, is_lower) => self.tell_relay(number, is_lower, notice),
            }
        }
    }

    fn with_relay(&mut self, number: usize, act: impl FnOnce(&mut Relay, Time, &mut Sides<'_>)) {
        let (relay, upper, lower) = &mut self.relays[number];
        let (first, second) = self.stations.split_at_mut(*lower);
        act(
            relay,
            self.now,
            &mut sides(&mut first[*upper], &mut second[0]),
        );
    }

    fn tell_relay(&mut self, number: usize, is_lower: bool, notice: Notice) {
        let carries = self.carries;
        self.with_relay(number, |relay, now, sides| match notice {
            Notice::Announced { id, about, length } if !is_lower => {
                relay.offered(now, sides, id, &about, length, carries);
            }
            notice if is_lower => relay.hear_lower(now, sides, notice),
            notice => relay.hear_upper(now, sides, notice),
        });
    }

    fn tell_sender(&mut self, notice: Notice) {
        match notice {
            Notice::Registered { id, receiver, .. } => {
                self.stations[0].accounts.admit(id.number, receiver);
            }
            Notice::Settled {
                receiver,
                outcome,
                name,
                ..
            } => {
                let before = self.settled.insert(receiver, (outcome, name));
                assert_eq!(before, None, "{receiver:?} is settled once");
            }
            Notice::Sent { id } => {
                self.sent_at = Some(self.now);
                self.accounts = self.stations[0].accounts.close(id.number);
            }
            _ => {}
        }
    }

    fn tell_receiver(&mut self, index: usize, notice: Notice) {
        let now = self.now;
        let Station { bulk, user, .. } = &mut self.stations[index];
        let User::Receiver(receiver) = user else {
            return;
        };
        match notice {
            Notice::Announced { id, .. } => {
                if let Some(reason) = receiver.refuses {
                    bulk.refuse(now, id, reason, &name(index));
                    return;
                }
                let is_anew = |former: TransferId| former.sender == id.sender;
                if receiver.id.is_some_and(is_anew) {
                    // It begins anew: nothing is kept here of what has come.
                    receiver.data.clear();
                    receiver.unconsumed = 0;
                }
                if receiver.id.is_none_or(is_anew) {
                    receiver.id = Some(id);
                }
                let acceptance = Acceptance {
                    held: receiver.held.clone(),
                    order: Order::AsTheyCome,
                    name: name(index),
                };
                let accepted = bulk.accept(now, id, &acceptance);
                accepted.expect("it was announced just now");
            }
            Notice::Missed { id } => bulk.say_missed(id, &name(index)),
            Notice::Data { id, offset, bytes } if receiver.id == Some(id) => {
                let len = bytes.len() as u64;
                let before = receiver.data.insert(offset, bytes);
                assert_eq!(before, None, "each byte once");
                match receiver.takes {
                    0 => bulk.consumed(now, id, len),
                    _ => receiver.unconsumed += len,
                }
            }
            Notice::Received { id, .. } => match receiver.fails {
                Some(reason) => bulk.conclude(now, id, Err(reason)),
                None => {
                    receiver.concluded = true;
                    bulk.conclude(now, id, Ok(()));
                }
            },
            Notice::Served { served, .. } => receiver.served.push(served),
            Notice::Failed { failure, .. } => receiver.failure = Some(failure),
            Notice::Ended { .. } => receiver.ended = true,
            _ => {}
        }
    }

    /// A slow receiver's user is done with some bytes.
    fn consume(&mut self, index: usize) {
        let now = self.now;
        let Station { bulk, user, .. } = &mut self.stations[index];
        if let User::Receiver(receiver) = user
            && let Some(id) = receiver.id.filter(|_| receiver.unconsumed > 0)
        {
            let since = now - receiver.taken_at;
            let most = (since.as_micros() as u64 * receiver.takes) / 1_000_000;
            let taken = most.min(receiver.unconsumed);
            if taken >= 1000.min(receiver.unconsumed) {
                receiver.taken_at = now;
                receiver.unconsumed -= taken;
                bulk.consumed(now, id, taken);
            }
        }
    }

    fn offer(&mut self) {
        let Some(id) = self.id else { return };
        let sender = &mut self.stations[0];
        if !sender.is_alive(self.now) {
            return;
        }
        while let Some(wanted) = sender.bulk.wanted(id) {
            let end = wanted.end.min(self.stream.len() as u64);
            if wanted.start >= end {
                if self.length.is_none() {
                    sender.bulk.finish(self.now, id);
                }
                return;
            }
            let bytes = self.stream.slice(wanted.start as usize..end as usize);
            self.offered += bytes.len() as u64;
            sender
                .bulk
                .offer(self.now, id, bytes)
                .expect("it is wanted");
        }
    }

    fn transmit(&mut self, index: usize) {
        let mut buf = TransmitBuf::new(16, 0, 0);
        loop {
            buf.clear();
            let station = &mut self.stations[index];
            if let Some(transmit) = station.bulk.poll_transmit(self.now, &mut buf) {
                let bodies: Vec<Bytes> = buf.iter().map(Bytes::copy_from_slice).collect();
                for body in bodies {
                    self.fly(index, transmit.destination, false, &body);
                }
                continue;
            }
            let Some(transmit) = station.accounts.poll_transmit(&mut buf) else {
                return;
            };
            let body = Bytes::copy_from_slice(buf.as_bytes());
            self.fly(index, transmit.destination, true, &body);
        }
    }

    fn fly(&mut self, from: usize, destination: Destination, is_account: bool, body: &Bytes) {
        let station = &mut self.stations[from];
        let (group, sender) = (station.group, station.bulk.local());
        let link = self.links[group];
        let bytes = body.len() as u64 + 60;
        let mut leaves = self.now.max(station.free);
        if let Some(takes) = (bytes * 1_000_000_000).checked_div(link.rate) {
            let waits = (leaves - self.now).as_nanos() as u64 * link.rate / 1_000_000_000;
            if waits > link.queue {
                return;
            }
            leaves += Duration::from_nanos(takes);
            station.free = leaves;
        }
        for to in 0..self.stations.len() {
            let other = &self.stations[to];
            let reaches = match destination {
                Destination::Group => to != from && other.group == group,
                Destination::Member(member) => other.bulk.local() == member,
            };
            if reaches && !self.rng.chance(link.loss) {
                self.flights += 1;
                let key = (leaves + link.delay, self.flights);
                self.flying
                    .insert(key, (to, sender, is_account, body.clone()));
            }
        }
    }

    /// Whether a receiver has the stream, with what it held, and has said so.
    pub(super) fn is_whole(&self, index: usize) -> bool {
        let User::Receiver(receiver) = &self.stations[index].user else {
            return false;
        };
        let mut there: BTreeSet<(u64, u64)> = BTreeSet::new();
        for (offset, bytes) in &receiver.data {
            let place = *offset as usize..*offset as usize + bytes.len();
            assert_eq!(
                self.stream.get(place),
                Some(&bytes[..]),
                "at {offset} of {index}"
            );
            there.insert((*offset, *offset + bytes.len() as u64));
        }
        there.extend(receiver.held.iter().map(|range| (range.start, range.end)));
        let reach = there.iter().fold(0, |at, (start, end)| match *start <= at {
            true => at.max(*end),
            false => at,
        });
        receiver.concluded && reach == self.stream.len() as u64
    }

    /// What became of receivers, by their place: those that registered with the sender, and those
    /// below relays, by the account of the relay that has a whole one.
    pub(super) fn outcomes(&self) -> BTreeMap<usize, Outcome> {
        let place = |node: NodeId| node.0 as usize - 1;
        let mut outcomes = BTreeMap::new();
        for (member, (outcome, _)) in &self.settled {
            let account = self.accounts.get(member);
            if !account.is_some_and(Account::is_final) {
                outcomes.insert(place(member.node), outcome.clone());
            }
            for row in account.iter().flat_map(|it| it.receivers()) {
                let gone = Outcome::Failed("gone".into());
                let outcome = row.outcome.clone().unwrap_or(gone);
                outcomes.insert(place(row.node), outcome);
            }
        }
        outcomes
    }
}

fn sides<'a>(upper: &'a mut Station, lower: &'a mut Station) -> Sides<'a> {
    Sides {
        upper: &mut upper.bulk,
        lower: &mut lower.bulk,
        told: &mut upper.accounts,
        kept: &mut lower.accounts,
    }
}

impl Station {
    pub(super) fn is_alive(&self, now: Time) -> bool {
        self.born <= now && self.dies.is_none_or(|dies| now < dies)
    }

    fn takes_more(&self) -> Option<Time> {
        match &self.user {
            User::Receiver(receiver) if receiver.unconsumed > 0 => {
                Some(receiver.taken_at + Duration::from_millis(1))
            }
            _ => None,
        }
    }
}
