//! The trace of a world, to find bugs with: one line for each thing that happens.
//!
//! `TIME HOST WHAT`, in the world's time. It costs nothing while no trace is taken.

use std::fmt;

use groupcast_core::{SocketClass, Time};

/// How much a trace tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceLevel {
    /// Submissions, deliveries, configurations, transitions, faults.
    Events,
    /// And every datagram: sent, received, rejected.
    Datagrams,
}

type Describe = Box<dyn Fn(SocketClass, &[u8]) -> String>;

/// Where the lines go, and how a protocol's bytes are described.
pub struct Trace {
    pub(crate) level: TraceLevel,
    pub(crate) sink: Box<dyn FnMut(&str)>,
    pub(crate) describe: Option<Describe>,
}

impl Trace {
    /// A trace of `level` into `sink`, a line at a time, without a line end.
    pub fn new(level: TraceLevel, sink: impl FnMut(&str) + 'static) -> Self {
        Self {
            level,
            sink: Box::new(sink),
            describe: None,
        }
    }

    /// A trace of `level` to standard error.
    pub fn to_stderr(level: TraceLevel) -> Self {
        Self::new(level, |line| eprintln!("{line}"))
    }

    /// Describes the protocol's bytes of every datagram with `describe`; without, their length is
    /// all that is told.
    #[must_use]
    pub fn describing(mut self, describe: impl Fn(SocketClass, &[u8]) -> String + 'static) -> Self {
        self.describe = Some(Box::new(describe));
        self
    }

    pub(crate) fn line(&mut self, now: Time, host: usize, what: fmt::Arguments<'_>) {
        (self.sink)(&format!("{now:?} h{host} {what}"));
    }

    pub(crate) fn describe(&self, class: SocketClass, body: &[u8]) -> String {
        self.describe
            .as_ref()
            .map(|describe| describe(class, body))
            .unwrap_or_default()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}
