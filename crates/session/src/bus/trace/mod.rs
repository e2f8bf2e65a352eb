//! Traces: records of everything that one connection of the bus sent and got, which its program
//! starts with `tracefile`.
//!
//! The host decides where a trace is written: the [`Bus`] hands each item to a [`Trace`], which a
//! [`Tracer`] begins. [`record`] has the format; [`about`] tells what an item is about.

pub mod about;
pub mod record;

use std::fmt;

pub use self::about::About;
pub use self::record::{Head, Item, KEPT_MAX, Reader, Record, Side, TraceError};
use super::Bus;
use super::words::Refusal;

/// The most bytes of a trace's name.
pub const TRACE_NAME_MAX: usize = 64;

/// Begins traces.
pub trait Tracer: fmt::Debug {
    /// Begins the trace `name` of the client whose private name is `client`. The trace ends when it
    /// is dropped. [`is_trace_name`] holds for `name`.
    ///
    /// # Errors
    /// [`TraceRefusal`]; nothing has begun then.
    fn begin(&mut self, name: &str, client: &str) -> Result<Box<dyn Trace>, TraceRefusal>;
}

/// A trace under way.
pub trait Trace: fmt::Debug {
    /// Takes the next item. The trace keeps at most [`KEPT_MAX`] bytes of it, which bounds the
    /// cost.
    fn take(&mut self, item: Item<'_>);

    /// Why the trace has ended, if it has. It takes no more items then.
    fn failure(&self) -> Option<String>;
}

/// Why no trace begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceRefusal {
    /// Another connection is being traced under this name.
    InUse,
    /// There are as many traces as there may be; the number.
    TooMany(usize),
    /// The error of the system.
    System(String),
}

/// Whether `name` can be the name of a trace: 1 to [`TRACE_NAME_MAX`] ASCII letters, digits, `-`
/// and `_`; but not `off`, which ends a trace.
pub fn is_trace_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=TRACE_NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed) && name != "off"
}

/// The trace of a connection.
#[derive(Debug)]
pub(super) struct Tracing {
    trace: Box<dyn Trace>,
    name: String,
    client: String,
    /// Commands since the one that began it, which counts.
    asked: u64,
    /// Replies since that command's, which counts.
    answered: u64,
}

/// What the bus says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told<'a> {
    Reply,
    /// Unasked: this client did something.
    Unasked(&'a str),
    /// Unasked: it is about this connection's client itself.
    OfItself,
}

impl Tracing {
    fn of(trace: Box<dyn Trace>, name: String, client: String) -> Self {
        Self {
            trace,
            name,
            client,
            asked: 1,
            answered: 0,
        }
    }

    fn sent(&mut self, bytes: &[u8]) {
        self.asked += 1;
        self.trace.take(Item {
            side: Side::Sent,
            number: self.asked,
            client: &self.client,
            bytes,
        });
    }

    fn got(&mut self, told: Told<'_>, bytes: &[u8]) {
        let (number, client) = match told {
            Told::Reply => {
                self.answered += 1;
                (self.answered, self.client.as_str())
            }
            Told::Unasked(client) => (0, client),
            Told::OfItself => (0, self.client.as_str()),
        };
        self.trace.take(Item {
            side: Side::Got,
            number,
            client,
            bytes,
        });
    }
}

impl Bus {
    /// Sets the tracer for the traces that the program asks for. Without a tracer they are refused.
    #[must_use]
    pub fn traced_by(mut self, tracer: Box<dyn Tracer>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Tells the program if its trace has ended by itself; returns whether it has.
    pub fn tend_trace(&mut self) -> bool {
        let failure = self.tracing.as_ref().and_then(|it| it.trace.failure());
        let Some(reason) = failure else {
            return false;
        };
        if let Some(ended) = self.tracing.take() {
            self.say(&["trace-ended", &ended.name, &super::one_line(&reason)]);
        }
        true
    }

    /// Begins the trace `name`, or none, in place of the current one; returns the reply.
    pub(super) fn trace(&mut self, name: Option<&str>, column: usize) -> Vec<u8> {
        // The reply still belongs to the trace: `end_trace` ends it afterwards.
        let Some(name) = name else {
            return b"ok\n".to_vec();
        };
        // It goes there already.
        if self.tracing.as_ref().is_some_and(|it| it.name == name) {
            return b"ok\n".to_vec();
        }
        let client = self.connection.welcome().map(|it| it.private_name.clone());
        let client = client.unwrap_or_default();
        if self.tracer.is_some() {
            self.begins += 1;
            self.paused = true;
        }
        let begun = self.tracer.as_mut().map(|it| it.begin(name, &client));
        let refusal = match begun {
            Some(Ok(trace)) => {
                self.tracing = Some(Tracing::of(trace, name.to_owned(), client));
                return b"ok\n".to_vec();
            }
            Some(Err(TraceRefusal::InUse)) => {
                Refusal::new("name", column, "a connection is traced under this name now")
            }
            Some(Err(TraceRefusal::TooMany(max))) => {
                let text = format!("there are {max} traces: use the name of one of them");
                Refusal::new("too-many", column, text)
            }
            Some(Err(TraceRefusal::System(text))) => Refusal::new("other", 0, text),
            None => {
                let text = "no traces here: the daemon's operator names a directory for them \
                            (`bus_trace`)";
                Refusal::new("unsupported", 0, text)
            }
        };
        refusal.line()
    }

    /// Ends the trace.
    pub(super) fn end_trace(&mut self) {
        self.tracing = None;
    }

    /// Notes the item of the program that is being carried out.
    pub(super) fn note_sent(&mut self) {
        if let Some(tracing) = &mut self.tracing {
            tracing.sent(self.input.item());
            self.tend_trace();
        }
    }

    /// Notes what the bus says: the bytes of its output from `at` on.
    pub(super) fn note_got(&mut self, told: Told<'_>, at: usize) {
        if let Some(tracing) = &mut self.tracing {
            tracing.got(told, &self.out[at..]);
            self.tend_trace();
        }
    }
}

#[cfg(test)]
mod tests;
