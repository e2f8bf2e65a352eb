//! A token ring (IEEE 802.5): many stations, one token, one frame at a time.
//!
//! The token goes round. A station with a frame takes it as it comes by, sends, waits until its
//! frame has gone round, and sends more as long as its holding time lasts; then the token goes on
//! to the next. So nothing collides, and a station waits for at most a round in which every other
//! holds the token as long as it may.
//!
//! ```text
//! enqueue ─▶ Capture, when the token comes by ─▶ holding ─ Returned: round ─┬─▶ next frame
//!                                                   └─ Deliver              └─▶ the token goes on
//! ```
//!
//! Hosting it is as hosting a [`Bus`](super::Bus): after [`TokenRing::enqueue`] and
//! [`TokenRing::handle`] take every step from [`TokenRing::poll`] and put it on the agenda. A token
//! that nobody wants goes round without any step.
//!
//! Deviations from the standard: priorities and reservations, the monitor and early release (an
//! option at 16 Mb/s) are left out; all stations have a frame when it has gone round.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::Time;

use super::bus::{BusCounters, Delivered};
use super::queue::QueueLimit;
use super::spec::{SpecError, nanos_on_wire};

/// What a token ring is like. The default is 802.5's at 4 Mb/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenRingSpec {
    /// Bits per second. Default 4 Mbit/s.
    pub bandwidth: u64,
    /// From one station to the next: the cable, and the bit by which a station holds back what it
    /// repeats. Default 750 ns: a bit and 100 m.
    pub hop: Duration,
    /// How long a station may send once it has the token; a frame that is begun is ended. A single
    /// frame always goes. Default 10 ms.
    pub holding: Duration,
    /// Bits of the token: the ring is at least as long (its monitor sees to that). Default 24.
    pub token: u32,
    /// Bytes of a frame beyond the IP packet. Default 29: 802.5's 21, LLC and SNAP.
    pub overhead: u32,
    /// What may wait at each station; the frame that it sends does not count. Default no limit.
    pub queue: QueueLimit,
}

impl Default for TokenRingSpec {
    fn default() -> Self {
        Self {
            bandwidth: 4_000_000,
            hop: Duration::from_nanos(750),
            holding: Duration::from_millis(10),
            token: 24,
            overhead: 29,
            queue: QueueLimit::NONE,
        }
    }
}

impl TokenRingSpec {
    /// How long a station sends a frame with an IP packet of `ip_bytes` in it.
    pub fn frame_time(&self, ip_bytes: u32) -> Duration {
        self.bytes_time(ip_bytes.saturating_add(self.overhead))
    }

    /// Whether a ring can be like this.
    ///
    /// # Errors
    /// It has no bandwidth.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.bandwidth {
            0 => Err(SpecError::NoBandwidth),
            _ => Ok(()),
        }
    }

    fn bytes_time(&self, bytes: u32) -> Duration {
        Duration::from_nanos(nanos_on_wire(u64::from(bytes), self.bandwidth))
    }

    fn token_time(&self) -> Duration {
        self.bytes_time(self.token.div_ceil(8))
    }

    /// From one of this many stations to the next.
    fn hop_of(&self, stations: usize) -> Duration {
        let stations = u32::try_from(stations.max(1)).unwrap_or(u32::MAX);
        self.hop.max(self.token_time() / stations)
    }
}

/// What happens next on a ring: opaque, to be handed back at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingStep {
    action: Action,
    /// How often the token had changed hands when this was planned. If it is another by now, the
    /// step is void.
    generation: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// The token comes by a station that has a frame.
    Capture { station: usize },
    /// The frame that is being sent is round again.
    Returned,
    /// All stations have the frame.
    Deliver,
}

/// Where the token is.
#[derive(Clone, Copy, Debug)]
enum Token {
    /// It left this station at that time, and goes round.
    Free { left: usize, at: Time },
    /// This station has it, and may send until then.
    Held { by: usize, until: Time },
}

#[derive(Clone, Debug)]
struct Queued<F> {
    frame: F,
    bytes: u32,
}

#[derive(Clone, Debug)]
struct Station<F> {
    queue: VecDeque<Queued<F>>,
    bytes: u64,
}

/// A token ring that carries frames of type `F`.
#[derive(Clone, Debug)]
pub struct TokenRing<F> {
    spec: TokenRingSpec,
    hop: Duration,
    stations: Vec<Station<F>>,
    token: Token,
    generation: u64,
    /// When the token is to be taken, while it is free and somebody waits for it.
    capture: Option<Time>,
    /// Frames that have left their station and are not round yet.
    in_flight: VecDeque<(usize, F)>,
    steps: VecDeque<(Time, RingStep)>,
    counters: BusCounters,
}

impl<F> TokenRing<F> {
    /// A silent ring of this many stations, whose token leaves the first at time 0. `spec` is one
    /// that [`TokenRingSpec::check`] finds possible.
    pub fn new(spec: TokenRingSpec, stations: usize) -> Self {
        let station = |_| Station {
            queue: VecDeque::new(),
            bytes: 0,
        };
        Self {
            hop: spec.hop_of(stations),
            spec,
            stations: (0..stations).map(station).collect(),
            token: Token::Free {
                left: 0,
                at: Time::ZERO,
            },
            generation: 0,
            capture: None,
            in_flight: VecDeque::new(),
            steps: VecDeque::new(),
            counters: BusCounters::default(),
        }
    }

    /// A station is to send `frame`, which carries an IP packet of `ip_bytes`. False if too much
    /// waits there already: the frame is dropped.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn enqueue(&mut self, now: Time, station: usize, ip_bytes: u32, frame: F) -> bool {
        let bytes = ip_bytes.saturating_add(self.spec.overhead);
        let it = &mut self.stations[station];
        let waiting = it.bytes + u64::from(bytes);
        let is_first = it.queue.is_empty();
        if !is_first && !self.spec.queue.allows(waiting, it.queue.len() + 1) {
            return false;
        }
        it.bytes = waiting;
        it.queue.push_back(Queued { frame, bytes });
        if is_first {
            self.plan_capture(now, station);
        }
        true
    }

    /// A step is due.
    pub fn handle(&mut self, now: Time, step: RingStep) -> Option<Delivered<F>> {
        match step.action {
            Action::Deliver => {
                let (station, frame) = self.in_flight.pop_front()?;
                return Some(Delivered { station, frame });
            }
            _ if step.generation != self.generation => {}
            Action::Capture { station } => {
                self.generation += 1;
                self.capture = None;
                let until = now + self.spec.holding;
                self.token = Token::Held { by: station, until };
                self.send(now, station);
            }
            Action::Returned => self.go_on(now),
        }
        None
    }

    /// A step to come, and when; each is handed out once.
    pub fn poll(&mut self) -> Option<(Time, RingStep)> {
        self.steps.pop_front()
    }

    /// What it did so far; there are no collisions.
    pub fn counters(&self) -> BusCounters {
        self.counters
    }

    /// How long once round takes.
    fn round(&self) -> Duration {
        self.hop * self.stations.len() as u32
    }

    fn plan(&mut self, at: Time, action: Action) {
        let generation = self.generation;
        self.steps.push_back((at, RingStep { action, generation }));
    }

    /// A station waits for the token: if it is free and no other takes it before, it is taken when
    /// it comes by.
    fn plan_capture(&mut self, now: Time, station: usize) {
        let Token::Free { left, at } = self.token else {
            return;
        };
        let stations = self.stations.len();
        let hops = (station + stations - left - 1) % stations + 1;
        let first = at + self.hop * hops as u32;
        let round = self.round().as_nanos().max(1) as u64;
        let passed = now.as_nanos().saturating_sub(first.as_nanos());
        let comes = first + Duration::from_nanos(passed.div_ceil(round) * round);
        if self.capture.is_none_or(|planned| comes < planned) {
            self.generation += 1;
            self.capture = Some(comes);
            self.plan(comes, Action::Capture { station });
        }
    }

    /// The station that has the token sends its first frame.
    fn send(&mut self, now: Time, station: usize) {
        let it = &mut self.stations[station];
        let Some(Queued { frame, bytes }) = it.queue.pop_front() else {
            return;
        };
        it.bytes -= u64::from(bytes);
        let (takes, round) = (self.spec.bytes_time(bytes), self.round());
        self.counters.frames += 1;
        self.counters.bytes += u64::from(bytes);
        self.counters.busy += takes;
        self.in_flight.push_back((station, frame));
        self.plan(now + takes + round, Action::Deliver);
        // It is taken off the ring where it came from: the token waits for its head at least.
        self.plan(now + takes.max(round), Action::Returned);
    }

    /// A frame is round: its station sends its next, or the token goes on.
    fn go_on(&mut self, now: Time) {
        let Token::Held { by, until } = self.token else {
            return;
        };
        let next = self.stations[by].queue.front();
        let fits = |next: &Queued<F>| now + self.spec.bytes_time(next.bytes) <= until;
        if next.is_some_and(fits) {
            return self.send(now, by);
        }
        self.generation += 1;
        self.token = Token::Free {
            left: by,
            at: now + self.spec.token_time(),
        };
        for station in 0..self.stations.len() {
            if !self.stations[station].queue.is_empty() {
                self.plan_capture(now, station);
            }
        }
    }
}
