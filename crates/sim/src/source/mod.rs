//! Sources of messages: when the next one is due, how large it is, and what follows when it is
//! taken or not.
//!
//! A [`Source`] is a value that a world asks; it knows neither protocol nor meter.
//!
//! ```text
//! when due() has come:    let message = source.take(now)?;
//!                         let payload = meter.offer(now, host).payload(message.len);
//!                         taken by the host or not?  source.taken() or source.refused()
//! then, or whenever anything of this happened: ask due() again
//!                         there is room again:                       source.writable(now)
//!                         its host delivered a message of `from`:    source.delivered(now, from)
//!                         its host's processor is busy:              source.not_before(free)
//! ```

mod config;

#[cfg(test)]
mod tests;

use std::time::Duration;

use groupcast_core::{Rng, Service, Time};

use crate::exponential::exponential;

pub use config::{Arrivals, SourceConfig, SourceError};

/// How long a source that does not go by time takes to have the next message. Where nothing else
/// costs time, it would send for ever in one instant.
const PAUSE: Duration = Duration::from_nanos(100);

/// A message that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Bytes of its payload.
    pub len: usize,
    /// What it is promised.
    pub service: Service,
}

/// One source of messages at one host.
///
/// ```
/// use groupcast_core::{Rng, Time};
/// use groupcast_sim::source::{Source, SourceConfig};
///
/// let mut source = Source::new(SourceConfig::constant(100.0, 210), Rng::new(1))?;
/// let mut sent = 0;
/// while let Some(due) = source.due().filter(|due| *due < Time::from_millis(1_000)) {
///     let message = source.take(due).expect("it is due");
///     assert_eq!(message.len, 210);
///     source.taken();
///     sent += 1;
/// }
/// assert_eq!(sent, 100);
/// # Ok::<(), groupcast_sim::source::SourceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    config: SourceConfig,
    rng: Rng,
    /// From when the times of arrivals count.
    origin: Time,
    /// Messages due since the origin: the position in a trace, the number of periods.
    index: u64,
    /// When the next is due, for those that go by time.
    next: Option<Time>,
    /// Replies that are due.
    replies: u32,
    /// Whether a message that must not be lost was refused, and there is no room yet.
    blocked: bool,
    not_before: Time,
    silent: bool,
    taken: u64,
}

impl Source {
    /// A source that follows `config` with the randomness of `rng`.
    pub fn new(config: SourceConfig, mut rng: Rng) -> Result<Self, SourceError> {
        config.check()?;
        let mut origin = config.start;
        if !config.stagger.is_zero() {
            origin += rng.duration(Duration::ZERO, config.stagger);
        }
        let replies = match &config.arrivals {
            Arrivals::Reply { advance, .. } => *advance,
            _ => 0,
        };
        let mut source = Self {
            config,
            rng,
            origin,
            index: 0,
            next: None,
            replies,
            blocked: false,
            not_before: origin,
            silent: false,
            taken: 0,
        };
        source.next = source.arrival(origin);
        Ok(source)
    }

    /// What it follows.
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// When the next message is due; `None` if that is up to others, or if there will be no more.
    pub fn due(&self) -> Option<Time> {
        if self.silent || self.blocked || self.is_done() {
            return None;
        }
        let next = match &self.config.arrivals {
            Arrivals::Saturate => self.not_before,
            Arrivals::Reply { .. } if self.replies > 0 => self.not_before,
            Arrivals::Reply { .. } => return None,
            _ => self.next?.max(self.not_before),
        };
        (next < self.config.stop).then_some(next)
    }

    /// The message that is due at `now`, or `None` if none is. Say what became of it before asking
    /// for the next.
    pub fn take(&mut self, now: Time) -> Option<Message> {
        if self.due()? > now || now >= self.config.stop {
            return None;
        }
        let len = match &self.config.arrivals {
            Arrivals::Trace(trace) => trace.get(self.index as usize)?.1,
            _ => self.config.size,
        };
        if let Some(this) = self.next {
            self.index += 1;
            self.next = self.arrival(this);
        }
        self.replies = self.replies.saturating_sub(1);
        if !self.config.arrivals.go_by_time() {
            self.not_before = now + PAUSE;
        }
        Some(Message {
            len: len as usize,
            service: self.config.service,
        })
    }

    /// The message just [taken](Self::take) was accepted.
    pub fn taken(&mut self) {
        self.taken += 1;
    }

    /// The message just [taken](Self::take) was not accepted: it is lost, or comes again when there
    /// is room.
    pub fn refused(&mut self) {
        match self.config.arrivals {
            Arrivals::Saturate => self.blocked = true,
            Arrivals::Reply { .. } => {
                self.blocked = true;
                self.replies += 1;
            }
            _ => {}
        }
    }

    /// There is room again.
    pub fn writable(&mut self, now: Time) {
        if self.blocked {
            self.blocked = false;
            self.not_before = self.not_before.max(now);
        }
    }

    /// The source's host delivered a message of the host `from`.
    pub fn delivered(&mut self, now: Time, from: usize) {
        if let Arrivals::Reply { to, due_max, .. } = &self.config.arrivals
            && to.contains(&from)
            && !self.silent
            && self.replies < *due_max
        {
            self.replies += 1;
            self.not_before = self.not_before.max(now);
        }
    }

    /// Nothing before `free`: the process that would send has other work. What was due meanwhile is
    /// due then.
    pub fn not_before(&mut self, free: Time) {
        self.not_before = self.not_before.max(free);
    }

    /// Sends nothing any more, until [`sound`](Self::sound).
    pub fn silence(&mut self) {
        self.silent = true;
    }

    /// Goes on from `now`; what would have been due meanwhile is left out. A trace goes on where it
    /// would be by now.
    pub fn sound(&mut self, now: Time) {
        if !self.silent {
            return;
        }
        self.silent = false;
        self.not_before = self.not_before.max(now);
        if matches!(self.config.arrivals, Arrivals::Trace(_)) {
            while self.next.is_some_and(|next| next < now) {
                self.index += 1;
                self.next = self.arrival(now);
            }
        } else if self.next.is_some_and(|next| next < now) {
            self.origin = now;
            self.index = 0;
            self.next = self.arrival(now);
        }
    }

    /// Whether it will never send again.
    pub fn is_done(&self) -> bool {
        let is_over = || self.next.is_none_or(|next| next >= self.config.stop);
        self.config.count.is_some_and(|count| self.taken >= count)
            || self.config.arrivals.go_by_time() && is_over()
    }

    /// Messages that were accepted.
    pub fn accepted(&self) -> u64 {
        self.taken
    }

    /// When message number `self.index` since the origin is due, the one before having been due at
    /// `last`.
    fn arrival(&mut self, last: Time) -> Option<Time> {
        // Each is counted from the origin and rounded once, so that nothing drifts.
        let after = |periods: u64, rate: f64| {
            self.origin + Duration::from_nanos((periods as f64 * 1e9 / rate).round() as u64)
        };
        match &self.config.arrivals {
            Arrivals::Constant { rate } => Some(after(self.index, *rate)),
            Arrivals::Bursts { rate, burst } => {
                let burst = u64::from(*burst);
                Some(after(self.index / burst * burst, *rate))
            }
            Arrivals::Poisson { rate } => {
                let pause = exponential(&mut self.rng) * 1e9 / rate;
                Some(last + Duration::from_nanos(pause.round() as u64))
            }
            Arrivals::Trace(trace) => {
                let (after, _) = trace.get(self.index as usize)?;
                Some(self.origin + *after)
            }
            Arrivals::Saturate | Arrivals::Reply { .. } => None,
        }
    }
}
