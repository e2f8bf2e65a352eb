//! The sending end of a flow: what is on its way, what is lost, when to give up waiting.
//!
//! A segment is lost when one that was sent three or more transmissions later has arrived (FACK;
//! RFC 6675 would count three arrivals), repeated segments too, as in RACK. The window falls once
//! for all that is lost of one window.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::Estimate;

use super::control::{Control, Sample};
use super::{Ack, FlowConfig, FlowUse};

/// Segments that must have overtaken one that is lost.
const OVERTAKEN: u64 = 3;
/// The shortest and the longest time after which all is sent again (Linux).
const RTO: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(120)];
/// The same before anything is known.
const RTO_INITIAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Flying,
    /// To be sent again.
    Lost,
    /// Arrived behind a gap.
    Held,
}

/// A segment that is not acknowledged with all before it.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    state: State,
    /// Of its last transmission, among all.
    order: u64,
    /// What had been delivered then, and when the last of it was.
    delivered: u64,
    delivered_at: Time,
}

#[derive(Debug)]
pub(super) struct Sender {
    segment: u64,
    window_max: u64,
    start: Time,
    stop: Time,
    control: Control,
    /// The first that is not acknowledged with all before it; the rest follow.
    first: u64,
    outstanding: VecDeque<Outstanding>,
    /// Transmissions in their order, by number of the segment; some are settled already.
    flight: VecDeque<(u64, u64)>,
    orders: u64,
    flying: u64,
    lost: BTreeSet<u64>,
    /// Until this one is acknowledged, what is lost belongs to the window that has fallen already.
    recovers: Option<u64>,
    /// Whether that followed a timeout: the window grows meanwhile.
    restarts: bool,
    /// Segments delivered, and when the last of them was.
    delivered: u64,
    delivered_at: Time,
    round_trip: Estimate,
    backoff: u32,
    /// When nothing has come back for too long.
    gives_up_at: Option<Time>,
    /// With pacing: when the next may be sent.
    next_at: Time,
    /// When it was called last.
    now: Time,
    used: FlowUse,
}

impl Sender {
    pub(super) fn new(config: &FlowConfig) -> Self {
        Self {
            segment: u64::from(config.segment),
            window_max: config.window_max,
            start: config.start,
            stop: config.stop,
            control: Control::new(config.congestion, f64::from(config.segment)),
            first: 0,
            outstanding: VecDeque::new(),
            flight: VecDeque::new(),
            orders: 0,
            flying: 0,
            lost: BTreeSet::new(),
            recovers: None,
            restarts: false,
            delivered: 0,
            delivered_at: config.start,
            round_trip: Estimate::default(),
            backoff: 0,
            gives_up_at: None,
            next_at: config.start,
            now: Time::ZERO,
            used: FlowUse::default(),
        }
    }

    pub(super) fn used(&self) -> FlowUse {
        self.used
    }

    /// The receiver says what it has.
    pub(super) fn acknowledged(&mut self, now: Time, ack: &Ack) {
        let before = self.delivered;
        let flying = self.flying;
        let mut newest: Option<Outstanding> = None;
        while self.first < ack.next {
            let Some(segment) = self.outstanding.pop_front() else {
                return;
            };
            self.settle(self.first, segment, &mut newest);
            self.first += 1;
        }
        for (from, to) in ack.blocks {
            for number in from.max(self.first)..to {
                let index = (number - self.first) as usize;
                let Some(segment) = self.outstanding.get(index).copied() else {
                    break;
                };
                self.settle(number, segment, &mut newest);
                self.outstanding[index].state = State::Held;
            }
        }
        let round_trip = now - ack.echo;
        self.round_trip.sample(round_trip);
        let Some(newest) = newest else { return };
        self.delivered_at = now;
        self.backoff = 0;
        let lost = self.look_for_loss(newest.order);
        if lost && self.recovers.is_none() {
            self.recovers = Some(self.first + self.outstanding.len() as u64);
            self.restarts = false;
            self.control.congested(now, (flying * self.segment) as f64);
        }
        if self.recovers.is_some_and(|until| self.first >= until) {
            self.recovers = None;
            self.restarts = false;
        }
        let interval = now - newest.delivered_at;
        let delivered = (self.delivered - newest.delivered) * self.segment;
        self.control.acknowledged(&Sample {
            now,
            acked: ((self.delivered - before) * self.segment) as f64,
            flying: (self.flying * self.segment) as f64,
            round_trip,
            rate: delivered as f64 / interval.as_secs_f64().max(1e-6),
            delivered: (self.delivered * self.segment) as f64,
            delivered_then: (newest.delivered * self.segment) as f64,
            grows: self.recovers.is_none() || self.restarts,
        });
        self.gives_up_at = (!self.outstanding.is_empty()).then(|| now + self.patience());
    }

    /// A segment is there, if that is news.
    fn settle(&mut self, number: u64, segment: Outstanding, newest: &mut Option<Outstanding>) {
        match segment.state {
            State::Held => return,
            State::Flying => self.flying -= 1,
            State::Lost => {
                self.lost.remove(&number);
            }
        }
        self.delivered += 1;
        if newest.is_none_or(|newest| newest.order < segment.order) {
            *newest = Some(segment);
        }
    }

    /// Transmission number `order` has arrived: what was sent well before it is lost. Whether any
    /// was.
    fn look_for_loss(&mut self, order: u64) -> bool {
        let mut any = false;
        while let Some((sent, number)) = self.flight.front().copied() {
            if sent + OVERTAKEN > order {
                break;
            }
            self.flight.pop_front();
            let Some(index) = number.checked_sub(self.first) else {
                continue;
            };
            let Some(segment) = self.outstanding.get_mut(index as usize) else {
                continue;
            };
            if segment.order == sent && segment.state == State::Flying {
                segment.state = State::Lost;
                self.flying -= 1;
                self.lost.insert(number);
                any = true;
            }
        }
        any
    }

    /// How long it waits for an acknowledgement (RFC 6298).
    fn patience(&self) -> Duration {
        let [least, most] = RTO;
        let once = match self.round_trip.samples() {
            0 => RTO_INITIAL,
            _ => self.round_trip.upper().max(least),
        };
        (once * (1 << self.backoff.min(10))).min(most)
    }

    /// Runs the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.gives_up_at.is_none_or(|at| at > now) {
            return;
        }
        let window = self.flying * self.segment;
        for (index, segment) in self.outstanding.iter_mut().enumerate() {
            if segment.state == State::Flying {
                segment.state = State::Lost;
                self.lost.insert(self.first + index as u64);
            }
        }
        self.flight.clear();
        self.flying = 0;
        self.used.timeouts += 1;
        // RFC 5681: of several timeouts in a row the first says how large the window was.
        if self.backoff == 0 {
            self.control.timed_out(now, window as f64);
        }
        self.backoff += 1;
        self.recovers = Some(self.first + self.outstanding.len() as u64);
        self.restarts = true;
        self.gives_up_at = Some(now + self.patience());
    }

    /// The segment that is sent now, if one may be.
    pub(super) fn poll(&mut self, now: Time) -> Option<u64> {
        self.now = now;
        if !self.may_send(now) || self.next_at > now {
            return None;
        }
        let stamp = Outstanding {
            state: State::Flying,
            order: self.orders,
            delivered: self.delivered,
            delivered_at: match self.flying {
                // After a pause its length is no time that delivery took.
                0 => now,
                _ => self.delivered_at,
            },
        };
        if self.flying == 0 {
            self.delivered_at = now;
        }
        let number = match self.lost.pop_first() {
            Some(number) => {
                self.outstanding[(number - self.first) as usize] = stamp;
                self.used.repeated += 1;
                number
            }
            None => {
                self.outstanding.push_back(stamp);
                self.first + self.outstanding.len() as u64 - 1
            }
        };
        self.flight.push_back((self.orders, number));
        self.orders += 1;
        self.flying += 1;
        self.used.segments += 1;
        if let Some(rate) = self.control.pace() {
            let gap = Duration::from_secs_f64(self.segment as f64 / rate);
            self.next_at = self.next_at.max(now) + gap;
        }
        if self.gives_up_at.is_none() {
            self.gives_up_at = Some(now + self.patience());
        }
        Some(number)
    }

    /// Whether the windows let something go.
    fn may_send(&self, now: Time) -> bool {
        let has_room =
            self.flying == 0 || ((self.flying + 1) * self.segment) as f64 <= self.control.window();
        let outstanding = (self.outstanding.len() as u64 + 1) * self.segment;
        let has_some = !self.lost.is_empty() || now < self.stop && outstanding <= self.window_max;
        now >= self.start && has_room && has_some
    }

    /// When something is to happen without an acknowledgement.
    pub(super) fn due(&self) -> Option<Time> {
        let next_at = self.next_at.max(self.now);
        let paced = self.may_send(next_at).then_some(next_at);
        [self.gives_up_at, paced].into_iter().flatten().min()
    }
}
