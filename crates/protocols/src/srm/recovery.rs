//! Requests and repairs that wait for their timers (004 5.4.2, with ns-2's rules where Floyd et al.
//! leave a choice).
//!
//! - A loss sets a request timer. When it fires, the request is multicast, and the timer is set
//!   anew, backed off. A request of another for the same message backs off too, once; more are
//!   ignored until half of the new wait is over.
//! - Whoever can answer a request sets a repair timer; a repair heard before cancels it. After a
//!   repair, sent or heard, requests are ignored for three distances.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::{Bound, RangeBounds};
use core::time::Duration;

use groupcast_core::{MemberId, MessageId, Rng, Time};

use super::config::SrmConfig;
use super::peers::Peers;
use super::timing::Timers;

/// What is asked for, and what is about to be answered.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) timers: Timers,
    requests: BTreeMap<MessageId, Request>,
    repairs: BTreeMap<MessageId, Repair>,
    /// When each of both is due.
    agenda: BTreeSet<(Time, MessageId, Kind)>,
    rng: Rng,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Request,
    Repair,
}

/// A message that is missing.
#[derive(Debug)]
struct Request {
    due: Time,
    /// Which interval it waits in, from 0.
    interval: u32,
    /// Requests of others are only counted until then.
    ignore_until: Time,
    detected: Time,
    /// The first request, own or heard, came after this long.
    first: Option<Duration>,
    /// Requests sent and heard.
    seen: u32,
    sent: bool,
}

/// A message that somebody else misses, or missed until a moment ago.
#[derive(Debug)]
struct Repair {
    /// The end of the wait before the repair, or of the time in which requests are ignored.
    due: Time,
    requestor: MemberId,
    asked: Time,
    phase: Phase,
    /// The first repair, own or heard, came this long after the request, if one was heard.
    first: Option<Duration>,
    /// Repairs sent and heard.
    seen: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waits to be sent.
    Waiting,
    /// Was sent by this member; requests are ignored.
    Sent,
    /// Was sent by another; requests are ignored.
    Heard,
}

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Ask for the message.
    Request(MessageId, Duration),
    /// Nobody answered: give it up.
    GiveUp(MessageId),
    /// Answer for the message.
    Repair(MessageId, Duration),
}

/// What the timers of a member depend on.
pub(super) struct TimerInputs<'a> {
    pub(super) config: &'a SrmConfig,
    pub(super) peers: &'a Peers,
}

impl TimerInputs<'_> {
    fn group(&self) -> u32 {
        self.config.group.unwrap_or_else(|| self.peers.group())
    }

    fn distance(&self, member: MemberId) -> Duration {
        self.peers.distance(self.config, member)
    }
}

impl Recovery {
    pub(super) fn new(config: &SrmConfig, rng: Rng) -> Self {
        Self {
            timers: Timers::new(config.timing),
            requests: BTreeMap::new(),
            repairs: BTreeMap::new(),
            agenda: BTreeSet::new(),
            rng,
        }
    }

    /// How many more messages can be asked for.
    pub(super) fn room(&self, config: &SrmConfig) -> usize {
        config.requests_max.saturating_sub(self.requests.len())
    }

    /// When the first is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.agenda.first().map(|(due, ..)| *due)
    }

    /// A message is found to be missing.
    pub(super) fn miss(&mut self, now: Time, id: MessageId, inputs: &TimerInputs<'_>) {
        if self.requests.contains_key(&id) {
            return;
        }
        let distance = inputs.distance(id.sender);
        let wait = self
            .timers
            .request(true, distance, inputs.group(), &mut self.rng);
        let due = now + wait.min(inputs.config.request_interval_max);
        self.agenda.insert((due, id, Kind::Request));
        let request = Request {
            due,
            interval: 0,
            ignore_until: now,
            detected: now,
            first: None,
            seen: 0,
            sent: false,
        };
        self.requests.insert(id, request);
    }

    /// Another member asks for the message, which is missing here too; whether it is being asked
    /// for here.
    pub(super) fn hear_request(
        &mut self,
        now: Time,
        id: MessageId,
        distance: Duration,
        inputs: &TimerInputs<'_>,
    ) -> bool {
        let Some(request) = self.requests.get_mut(&id) else {
            return false;
        };
        request.seen += 1;
        request.first.get_or_insert(now - request.detected);
        if request.sent {
            let own = inputs.distance(id.sender);
            self.timers.compare_request(own, distance);
        }
        if now >= request.ignore_until {
            self.back_off(now, id, inputs);
        }
        true
    }

    /// Sets the request's timer anew, for the next interval.
    fn back_off(&mut self, now: Time, id: MessageId, inputs: &TimerInputs<'_>) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        request.interval += 1;
        let exponent = request.interval.min(inputs.config.request_backoff_max);
        let factor = inputs.config.timing.backoff().saturating_pow(exponent);
        let distance = inputs.distance(id.sender);
        let wait = self
            .timers
            .request(false, distance, inputs.group(), &mut self.rng);
        // A draw of nothing, from C1 = 0, must not become a storm.
        let bounds = (
            inputs.config.distance_min,
            inputs.config.request_interval_max,
        );
        let wait = wait.saturating_mul(factor).clamp(bounds.0, bounds.1);
        self.agenda.remove(&(request.due, id, Kind::Request));
        request.due = now + wait;
        request.ignore_until = now + wait / 2;
        self.agenda.insert((request.due, id, Kind::Request));
    }

    /// Another member asks for the message, which may be answered for here; whether a repair will
    /// be considered.
    pub(super) fn prepare(
        &mut self,
        now: Time,
        id: MessageId,
        requestor: MemberId,
        inputs: &TimerInputs<'_>,
    ) -> bool {
        if self.repairs.contains_key(&id) || self.repairs.len() >= inputs.config.repairs_max {
            return false;
        }
        let distance = inputs.distance(requestor);
        let group = inputs.group();
        let due = now + self.timers.repair(distance, group, &mut self.rng);
        self.set_repair(
            id,
            Repair {
                due,
                requestor,
                asked: now,
                phase: Phase::Waiting,
                first: None,
                seen: 0,
            },
        );
        true
    }

    fn set_repair(&mut self, id: MessageId, repair: Repair) {
        self.agenda.insert((repair.due, id, Kind::Repair));
        if let Some(before) = self.repairs.insert(id, repair) {
            self.agenda.remove(&(before.due, id, Kind::Repair));
        }
    }

    /// A repair of the message was heard from a member that says to be at `distance` from the
    /// requestor.
    pub(super) fn hear_repair(
        &mut self,
        now: Time,
        id: MessageId,
        distance: Duration,
        inputs: &TimerInputs<'_>,
    ) {
        self.found(now, id, inputs);
        let hold = |distance: Duration| distance.saturating_mul(inputs.config.repair_hold);
        match self.repairs.remove(&id) {
            None if self.repairs.len() < inputs.config.repairs_max => {
                let due = now + hold(inputs.distance(id.sender));
                self.set_repair(
                    id,
                    Repair {
                        due,
                        requestor: id.sender,
                        asked: now,
                        phase: Phase::Heard,
                        first: None,
                        seen: 1,
                    },
                );
            }
            None => {}
            Some(mut repair) => {
                let own = inputs.distance(repair.requestor);
                self.agenda.remove(&(repair.due, id, Kind::Repair));
                repair.seen += 1;
                match repair.phase {
                    Phase::Waiting => {
                        repair.phase = Phase::Heard;
                        repair.first = Some(now - repair.asked);
                        repair.due = now + hold(own);
                    }
                    Phase::Sent => {
                        let group = inputs.group();
                        self.timers.compare_repair(own, distance, group);
                    }
                    Phase::Heard => {}
                }
                self.set_repair(id, repair);
            }
        }
    }

    /// The message is missing no more, however it came.
    pub(super) fn found(&mut self, now: Time, id: MessageId, inputs: &TimerInputs<'_>) {
        let Some(request) = self.requests.remove(&id) else {
            return;
        };
        self.agenda.remove(&(request.due, id, Kind::Request));
        if request.seen > 0 {
            let wait = request.first.unwrap_or(now - request.detected);
            let distance = inputs.distance(id.sender);
            self.timers.request_over(request.seen - 1, wait, distance);
        }
    }

    /// Nothing up to `number` of `source` is asked for any more.
    pub(super) fn forget_to(&mut self, source: MemberId, number: u64) {
        let id = |number| MessageId {
            sender: source,
            number,
        };
        self.forget(id(0)..=id(number));
    }

    /// Nothing above `number` of `source` is asked for any more.
    pub(super) fn forget_above(&mut self, source: MemberId, number: u64) {
        let id = |number| MessageId {
            sender: source,
            number,
        };
        let above = (Bound::Excluded(id(number)), Bound::Included(id(u64::MAX)));
        self.forget(above);
    }

    /// These are not asked for any more.
    fn forget(&mut self, which: impl RangeBounds<MessageId>) {
        let range = self.requests.range::<MessageId, _>(which);
        let forgotten: Vec<(MessageId, Time)> =
            range.map(|(id, request)| (*id, request.due)).collect();
        for (id, due) in forgotten {
            self.requests.remove(&id);
            self.agenda.remove(&(due, id, Kind::Request));
        }
    }

    /// Takes what is due at `now`; call until there is nothing more.
    pub(super) fn pop_due(&mut self, now: Time, inputs: &TimerInputs<'_>) -> Option<Due> {
        loop {
            let first = self.agenda.first().copied();
            let (due, id, kind) = first.filter(|(due, ..)| *due <= now)?;
            if kind == Kind::Request {
                return Some(self.ask(now, id, inputs));
            }
            let mut repair = self.repairs.remove(&id)?;
            self.agenda.remove(&(due, id, kind));
            let distance = inputs.distance(repair.requestor);
            if repair.phase == Phase::Waiting {
                repair.phase = Phase::Sent;
                repair.first = Some(now - repair.asked);
                repair.seen += 1;
                repair.due = now + distance.saturating_mul(inputs.config.repair_hold);
                self.set_repair(id, repair);
                self.timers.sending_repair(inputs.group());
                return Some(Due::Repair(id, distance));
            }
            if let Some(wait) = repair.first {
                let duplicates = repair.seen.saturating_sub(1);
                let group = inputs.group();
                self.timers.repair_over(duplicates, wait, distance, group);
            }
        }
    }

    fn ask(&mut self, now: Time, id: MessageId, inputs: &TimerInputs<'_>) -> Due {
        let Some(request) = self.requests.get_mut(&id) else {
            return Due::GiveUp(id);
        };
        if request.interval + 1 >= inputs.config.request_intervals_max {
            self.found(now, id, inputs);
            return Due::GiveUp(id);
        }
        request.seen += 1;
        request.sent = true;
        request.first.get_or_insert(now - request.detected);
        let distance = inputs.distance(id.sender);
        self.timers.sending_request(inputs.group());
        self.back_off(now, id, inputs);
        Due::Request(id, distance)
    }
}
