//! What a source sends, and when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::{Service, Time};

/// When messages come.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrivals {
    /// One every 1/rate. A message that is not taken is lost to the source: it does not fall
    /// behind.
    Constant {
        /// Messages a second.
        rate: f64,
    },
    /// At random, independent of each other; lost if not taken.
    Poisson {
        /// Messages a second, in the mean.
        rate: f64,
    },
    /// `burst` at once every burst/rate; lost if not taken.
    Bursts {
        /// Messages a second, in the mean.
        rate: f64,
        /// Messages a burst.
        burst: u32,
    },
    /// As recorded: times since [`SourceConfig::start`], ascending, and sizes in bytes; lost if not
    /// taken.
    Trace(Arc<[(Duration, u32)]>),
    /// The next 100 ns after the last was taken; one that is not taken is tried again when there is
    /// room.
    Saturate,
    /// One for each message that is delivered at the source's host from one of these hosts, which
    /// may be the host itself, no closer than 100 ns; one that is not taken is tried again when
    /// there is room. With a message in advance, and two such sources that answer each other, this
    /// is stop-and-wait.
    Reply {
        /// Whose messages are answered.
        to: BTreeSet<usize>,
        /// Messages sent at the start, unasked. Default 0.
        advance: u32,
        /// Replies that may be due at once; more are not sent. Default 65,536.
        due_max: u32,
    },
}

impl Arrivals {
    /// Answers the messages of `to`, none in advance.
    pub fn reply(to: impl IntoIterator<Item = usize>) -> Self {
        Self::Reply {
            to: to.into_iter().collect(),
            advance: 0,
            due_max: 65_536,
        }
    }

    /// Whether the times of messages do not depend on what became of the messages before.
    pub(super) fn go_by_time(&self) -> bool {
        !matches!(self, Self::Saturate | Self::Reply { .. })
    }

    /// Messages a second, if there is such a rate.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Constant { rate } | Self::Poisson { rate } | Self::Bursts { rate, .. } => {
                Some(*rate)
            }
            Self::Trace(_) | Self::Saturate | Self::Reply { .. } => None,
        }
    }
}

/// A source of messages at one host.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceConfig {
    /// When they come.
    pub arrivals: Arrivals,
    /// Bytes of a payload, unless a trace says. Of [`Stamp::LEN`](crate::measure::Stamp::LEN) bytes
    /// or more, each can be recognised before it is delivered.
    pub size: u32,
    /// The service that the messages ask for.
    pub service: Service,
    /// When the source begins. Default 0.
    pub start: Time,
    /// Up to this is added to the start, at random: sources of one rate on many hosts then do not
    /// send in step. Default 0.
    pub stagger: Duration,
    /// When it ends: nothing is sent then or later. Default never.
    pub stop: Time,
    /// After so many messages that were taken it ends. Default never.
    pub count: Option<u64>,
}

impl SourceConfig {
    /// A source that sends from the beginning of the run to its end.
    pub fn new(arrivals: Arrivals, size: u32, service: Service) -> Self {
        Self {
            arrivals,
            size,
            service,
            start: Time::ZERO,
            stagger: Duration::ZERO,
            stop: Time::MAX,
            count: None,
        }
    }

    /// `rate` messages a second of `size` bytes, agreed, from the beginning to the end.
    pub fn constant(rate: f64, size: u32) -> Self {
        Self::new(Arrivals::Constant { rate }, size, Service::Agreed)
    }

    /// Checks that the settings fit each other.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), SourceError> {
        if let Some(rate) = self.arrivals.rate()
            && !(rate > 0.0 && rate <= RATE_MAX)
        {
            return Err(SourceError::Rate { rate });
        }
        match &self.arrivals {
            Arrivals::Bursts { burst: 0, .. } => Err(SourceError::EmptyBurst),
            Arrivals::Trace(trace) => match trace.array_windows().position(|[a, b]| b.0 < a.0) {
                Some(before) => Err(SourceError::Unsorted { entry: before + 1 }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Messages a second: one a nanosecond, the resolution of time.
const RATE_MAX: f64 = 1e9;

/// Why no source can have these settings.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A rate that is not a number above 0, or too high.
    #[error("a source cannot send {rate} messages a second: use more than 0 and at most 10^9")]
    Rate {
        /// The rate as it was given, in messages a second.
        rate: f64,
    },
    /// A burst of no messages.
    #[error("a burst has at least one message")]
    EmptyBurst,
    /// A trace whose times are not in order.
    #[error("entry {entry} of the trace (from 0) is earlier than the one before: sort it by time")]
    Unsorted {
        /// The first that is too early.
        entry: usize,
    },
}
