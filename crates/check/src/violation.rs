//! A broken promise, described so that a person finds it in the histories.

use std::fmt;

use groupcast_core::MemberId;
use groupcast_core::text::printable;
use serde::{Serialize, Serializer};

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// The rule's name: the file under `rules` that defines it.
    pub rule: &'static str,
    /// In whose history it shows.
    #[serde(serialize_with = "display")]
    pub observer: MemberId,
    /// The observer's name, where it is known.
    pub name: Option<String>,
    /// Which of the observer's observations showed it, from 1: in a file with one life, the line.
    /// `None` if it took the ends of all histories to see it.
    pub line: Option<u64>,
    /// What happened, naming the configuration, the place and the messages.
    pub text: String,
}

fn display<S: Serializer>(member: &MemberId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(member)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at ", self.rule)?;
        match &self.name {
            Some(name) => {
                let name = printable(name.as_bytes());
                write!(f, "{name}.{:016x}", self.observer.incarnation.0)?;
            }
            None => write!(f, "{}", self.observer)?,
        }
        if let Some(line) = self.line {
            write!(f, ", observation {line}")?;
        }
        // Names of a history are in it, and anybody may have written that.
        write!(f, ": {}", printable(self.text.as_bytes()))
    }
}

/// The violations found so far, up to a limit.
#[derive(Clone, Debug)]
pub(crate) struct Violations {
    list: Vec<Violation>,
    limit: usize,
}

impl Violations {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            list: Vec::new(),
            limit,
        }
    }

    /// Whether no more are kept: a search for more is in vain.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= self.limit
    }

    pub(crate) fn push(&mut self, violation: impl FnOnce() -> Violation) {
        if !self.is_full() {
            self.list.push(violation());
        }
    }

    pub(crate) fn as_slice(&self) -> &[Violation] {
        &self.list
    }

    pub(crate) fn into_vec(self) -> Vec<Violation> {
        self.list
    }
}
