//! A shared Ethernet: one cable, many stations, carrier sense and collisions (IEEE 802.3 CSMA/CD,
//! half duplex).
//!
//! A station with a frame sends as soon as it hears nothing and has heard nothing for a gap. Two
//! that begin within the propagation do not hear each other in time: both go on until they do, jam,
//! and try again after a random number of slots, of a range that doubles with each collision of the
//! frame; after sixteen the frame is given up.
//!
//! Effects of these rules that are seen on real cables appear here too: a station that has just
//! succeeded draws from the smallest range and tends to keep the cable, while the back-off of the
//! others grows until their frames are dropped (the Packet Starvation Effect that 000 met with four
//! and eight senders).
//!
//! ```text
//!   enqueue ─▶ Attempt ─ carrier heard ─▶ deferring ─ signal over, gap ─▶ Attempt
//!                 │ nothing heard
//!                 ▼
//!              sending ─ last bit ─▶ Sent ─ propagation ─▶ Deliver
//!                 │ another is heard: Heard
//!                 ▼
//!              jam, back-off ─▶ Attempt, or dropped
//! ```
//!
//! Hosting it: after [`Bus::enqueue`] and [`Bus::handle`] take every step from [`Bus::poll`] and
//! put it on the agenda; call `handle` at its time. Steps that were overtaken by events do nothing.
//!
//! Deviations from the standard: every two stations are the whole propagation apart, as if the
//! cable were a star (the worst case that the slot is made for); a collision is recognised at its
//! first bit.

mod spec;
mod station;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use groupcast_core::{Rng, Time};

pub use spec::BusSpec;
pub use station::StationCounters;
use station::{Doing, Station};

/// What happens next on a bus: opaque, to be handed back at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusStep {
    action: Action,
    station: u32,
    /// The station's generation when this was planned. If it is another by now, the step is void.
    generation: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// A station that wants to send listens.
    Attempt,
    /// A station that sends hears another.
    Heard,
    /// A station has sent all of its frame.
    Sent,
    /// The last bit of a frame is everywhere.
    Deliver,
}

/// A frame that has reached every station but its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<F> {
    /// Who sent it.
    pub station: usize,
    /// What it was.
    pub frame: F,
}

/// What a bus did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BusCounters {
    /// Frames sent without a collision.
    pub frames: u64,
    /// Bytes of them, header and padding included, preamble and gap not.
    pub bytes: u64,
    /// How long it carried them, preamble included.
    pub busy: Duration,
    /// How often signals met, however many.
    pub collisions: u64,
}

/// A station's signal on the cable.
#[derive(Clone, Copy, Debug)]
struct Signal {
    station: u32,
    begins: Time,
    /// When its last bit leaves, the jam included; not known while the station may still hear a
    /// collision.
    ends: Option<Time>,
    collided: bool,
}

/// What a station concludes from what it hears.
enum Carrier {
    /// It may send.
    Clear,
    /// It may send then, if no other station begins before.
    ClearAt(Time),
    /// Another station is sending, and it is not known until when.
    Busy,
}

/// A shared Ethernet that carries frames of type `F`.
#[derive(Clone, Debug)]
pub struct Bus<F> {
    spec: BusSpec,
    stations: Vec<Station<F>>,
    /// The signals that some station may still hear or keep its gap from.
    signals: Vec<Signal>,
    /// Stations that wait for a signal of unknown length to end.
    deferring: Vec<u32>,
    /// Frames that have left their station and are not everywhere yet.
    in_flight: VecDeque<(u32, F)>,
    steps: VecDeque<(Time, BusStep)>,
    rng: Rng,
    counters: BusCounters,
}

impl<F> Bus<F> {
    /// A silent cable with `stations` taps. `spec` is one that [`BusSpec::check`] finds possible.
    pub fn new(spec: BusSpec, stations: usize, rng: Rng) -> Self {
        Self {
            spec,
            stations: (0..stations).map(|_| Station::new()).collect(),
            signals: Vec::new(),
            deferring: Vec::new(),
            in_flight: VecDeque::new(),
            steps: VecDeque::new(),
            rng,
            counters: BusCounters::default(),
        }
    }

    /// A station is to send `frame`, which carries an IP packet of `ip_bytes`. False if too much
    /// waits there already: the frame is dropped.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn enqueue(&mut self, now: Time, station: usize, ip_bytes: u32, frame: F) -> bool {
        let bytes = self.spec.frame_bytes(ip_bytes);
        let it = &mut self.stations[station];
        if !it.enqueue(now, bytes, frame, &self.spec.queue) {
            return false;
        }
        if matches!(it.doing, Doing::Nothing) {
            self.attempt(now, station as u32, false);
        }
        true
    }

    /// A step is due.
    pub fn handle(&mut self, now: Time, step: BusStep) -> Option<Delivered<F>> {
        let BusStep {
            action,
            station,
            generation,
        } = step;
        if action == Action::Deliver {
            let (station, frame) = self.in_flight.pop_front()?;
            return Some(Delivered {
                station: station as usize,
                frame,
            });
        }
        let it = &self.stations[station as usize];
        if it.generation != generation {
            return None;
        }
        match (action, it.doing) {
            (Action::Attempt, Doing::Waiting { deferred }) => self.attempt(now, station, deferred),
            (Action::Heard, Doing::Sending { begins, .. }) => self.abort(now, station, begins),
            (Action::Sent, Doing::Sending { begins, .. }) => self.complete(now, station, begins),
            _ => {}
        }
        None
    }

    /// A step to come, and when; each is handed out once.
    pub fn poll(&mut self) -> Option<(Time, BusStep)> {
        self.steps.pop_front()
    }

    /// What it is like.
    pub fn spec(&self) -> &BusSpec {
        &self.spec
    }

    /// What it did so far.
    pub fn counters(&self) -> BusCounters {
        self.counters
    }

    /// What one of its stations did so far.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn station(&self, station: usize) -> StationCounters {
        self.stations[station].counters
    }

    /// How evenly the stations shared it, in bytes: 1 if equally, 1/n if one of n had it all
    /// (Jain's index); 1 if nothing was sent.
    pub fn fairness(&self) -> f64 {
        let shares = self.stations.iter().map(|it| it.counters.bytes as f64);
        let (sum, squares) = shares.fold((0.0, 0.0), |(sum, squares), share| {
            (sum + share, squares + share * share)
        });
        if squares == 0.0 {
            return 1.0;
        }
        sum * sum / (squares * self.stations.len() as f64)
    }

    /// A station sends if it may. `deferred`: it has waited for this very moment.
    fn attempt(&mut self, now: Time, station: u32, deferred: bool) {
        match self.carrier(now, station, deferred) {
            Carrier::Clear => self.begin(now, station),
            Carrier::ClearAt(at) => self.defer(station, Some(at), deferred),
            Carrier::Busy => self.defer(station, None, deferred),
        }
    }

    fn defer(&mut self, station: u32, until: Option<Time>, deferred: bool) {
        let it = &mut self.stations[station as usize];
        it.counters.deferrals += u64::from(!deferred);
        match until {
            Some(at) => self.plan_attempt(station, at, true),
            None => {
                it.change(Doing::Waiting { deferred: true });
                self.deferring.push(station);
            }
        }
    }

    fn plan_attempt(&mut self, station: u32, at: Time, deferred: bool) {
        self.stations[station as usize].change(Doing::Waiting { deferred });
        self.plan(at, Action::Attempt, station);
    }

    fn plan(&mut self, at: Time, action: Action, station: u32) {
        let step = BusStep {
            action,
            station,
            generation: self.stations[station as usize].generation,
        };
        self.steps.push_back((at, step));
    }

    /// What `station` hears now. At the end of a gap that it waited for it is deaf to what began in
    /// the last third of it (802.3, interFrameSpacingPart2): who waits is not overtaken by who is a
    /// little faster.
    fn carrier(&self, now: Time, station: u32, at_end_of_gap: bool) -> Carrier {
        let deaf = if at_end_of_gap {
            self.spec.gap / 3
        } else {
            Duration::ZERO
        };
        let mut clear = now;
        for signal in &self.signals {
            let way = self.distance(signal.station, station);
            let heard = signal.begins + way;
            if heard + deaf > now {
                continue;
            }
            match signal.ends {
                None => return Carrier::Busy,
                Some(ends) => clear = clear.max(ends + way + self.spec.gap),
            }
        }
        if clear > now {
            Carrier::ClearAt(clear)
        } else {
            Carrier::Clear
        }
    }

    fn distance(&self, from: u32, to: u32) -> Duration {
        if from == to {
            Duration::ZERO
        } else {
            self.spec.propagation
        }
    }

    /// A station begins to send; who else does will be heard by it, and it by them.
    fn begin(&mut self, now: Time, station: u32) {
        let keep = self.spec.propagation + self.spec.gap;
        self.signals
            .retain(|signal| signal.ends.is_none_or(|ends| ends + keep >= now));
        let propagation = self.spec.propagation;
        let (mut heard, mut first_of_many) = (None::<Time>, true);
        for index in 0..self.signals.len() {
            let other = self.signals[index];
            let over = other.ends.is_some_and(|ends| ends + propagation <= now);
            if over || other.station == station {
                continue;
            }
            let at = now.max(other.begins + propagation);
            heard = Some(heard.map_or(at, |earlier| earlier.min(at)));
            first_of_many &= !other.collided;
            self.signals[index].collided = true;
            self.hear(other.station, now + propagation);
        }
        let it = &mut self.stations[station as usize];
        it.change(Doing::Sending {
            begins: now,
            hears: false,
        });
        let frame_time = self.spec.time_on_cable(it.head_bytes());
        self.plan(now + frame_time, Action::Sent, station);
        self.signals.push(Signal {
            station,
            begins: now,
            ends: None,
            collided: heard.is_some(),
        });
        if let Some(at) = heard {
            self.counters.collisions += u64::from(first_of_many);
            self.hear(station, at);
        }
    }

    /// A station, if it is still sending, will hear another at `at`. The first that it hears is
    /// enough.
    fn hear(&mut self, station: u32, at: Time) {
        if let Doing::Sending { hears, .. } = &mut self.stations[station as usize].doing
            && !mem::replace(hears, true)
        {
            self.plan(at, Action::Heard, station);
        }
    }

    /// A station has heard a collision: it jams, and tries again later or gives the frame up.
    fn abort(&mut self, now: Time, station: u32, begins: Time) {
        let preamble = self.spec.bits(u64::from(self.spec.preamble));
        let jam = self.spec.bits(u64::from(self.spec.jam));
        let ends = now.max(begins + preamble) + jam;
        let it = &mut self.stations[station as usize];
        it.counters.collisions += 1;
        it.collisions += 1;
        if it.collisions >= self.spec.attempts_max {
            it.give_up();
            self.proceed(station, ends);
        } else {
            let doublings = it.collisions.min(self.spec.doublings_max).min(31);
            let slots = self.rng.below(1 << doublings) as u32;
            self.plan_attempt(station, ends + self.spec.slot * slots, false);
        }
        self.fall_silent(now, station, ends);
    }

    fn complete(&mut self, now: Time, station: u32, begins: Time) {
        let it = &mut self.stations[station as usize];
        if let Some((bytes, frame)) = it.sent(now) {
            self.counters.frames += 1;
            self.counters.bytes += u64::from(bytes);
            self.counters.busy += now - begins;
            self.in_flight.push_back((station, frame));
            self.plan(now + self.spec.propagation, Action::Deliver, station);
        }
        self.proceed(station, now);
        self.fall_silent(now, station, now);
    }

    /// The next frame of a station whose own signal `ends`, if it has one.
    fn proceed(&mut self, station: u32, ends: Time) {
        let it = &mut self.stations[station as usize];
        if it.is_empty() {
            it.change(Doing::Nothing);
        } else {
            self.plan_attempt(station, ends + self.spec.gap, true);
        }
    }

    /// It is known now when a station's signal ends: who waits for it can plan.
    fn fall_silent(&mut self, now: Time, station: u32, ends: Time) {
        let signal = self
            .signals
            .iter_mut()
            .find(|signal| signal.station == station && signal.ends.is_none());
        if let Some(signal) = signal {
            signal.ends = Some(ends);
        }
        for station in mem::take(&mut self.deferring) {
            match self.carrier(now, station, false) {
                Carrier::Clear => self.plan_attempt(station, now, true),
                Carrier::ClearAt(at) => self.plan_attempt(station, at, true),
                Carrier::Busy => self.deferring.push(station),
            }
        }
    }
}
