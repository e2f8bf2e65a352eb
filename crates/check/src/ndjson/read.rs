//! Reading histories, with errors that name the place.

use std::io::{self, BufRead, Read as _};

use groupcast_core::MemberId;
use groupcast_core::trace::Observation;

use super::SCHEMA;
use super::line::Line;

/// The longest line in bytes: room for a configuration of 100,000 members.
const LINE_MAX: usize = 4 << 20;

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file cannot be opened.
    #[error("cannot open the history {file}: {source}")]
    Open {
        /// The file's name.
        file: String,
        /// What the system reports.
        source: io::Error,
    },
    /// A history is a file, and this is none.
    #[error("{file} is a directory: name the histories in it")]
    Directory {
        /// The directory's name.
        file: String,
    },
    /// The file cannot be read to its end.
    #[error("cannot read the history {file} beyond line {line}: {source}")]
    Read {
        /// The file's name.
        file: String,
        /// Lines read so far.
        line: u64,
        /// What the system reports.
        source: io::Error,
    },
    /// A line is not what the schema says.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The file's name.
        file: String,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong, and what should be there.
        what: String,
    },
    /// Two files tell the same life of a member.
    #[error(
        "{file} tells the life of {member}, which {first} tells as well: give each history once"
    )]
    Twice {
        /// The name of the second file.
        file: String,
        /// The name of the first file.
        first: String,
        /// The member.
        member: String,
    },
    /// None of the files has a whole line: there is nothing to judge.
    #[error("there is nothing to judge: no history has a whole line")]
    Empty,
}

/// A further ring that a daemon joined, as the history of its own order says. Its stay there has a
/// history too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined {
    /// The ring's top.
    pub ring: String,
    /// Who the daemon is there.
    pub member: MemberId,
    /// The daemon's name, if the history tells it.
    pub name: Option<String>,
}

/// A history that is being read: what its observers saw, in order, each with who saw it.
///
/// Ends after the first error.
#[derive(Debug)]
pub struct History<R> {
    reader: R,
    file: String,
    /// Lines read so far.
    line: u64,
    life: Option<(MemberId, Option<String>)>,
    /// In the life read last, messages may be delivered before they are ordered.
    early: bool,
    /// The ring of the life read last.
    ring: Option<String>,
    /// The rings that the daemon has joined in what was read.
    joined: Vec<Joined>,
    /// The bimodal group that the last line told of.
    group: Option<String>,
    bytes: Vec<u8>,
    /// A whole line in `bytes` that is still to be understood.
    is_pending: bool,
    /// The file ends within a line.
    is_torn: bool,
    is_over: bool,
}

/// Reads a history from `reader`; `file` is its name in errors.
pub fn read_history<R: BufRead>(file: impl Into<String>, reader: R) -> History<R> {
    History {
        reader,
        file: file.into(),
        line: 0,
        life: None,
        early: false,
        ring: None,
        joined: Vec::new(),
        group: None,
        bytes: Vec::new(),
        is_pending: false,
        is_torn: false,
        is_over: false,
    }
}

impl<R: BufRead> History<R> {
    /// The name of the member whose life was read last, if the history tells it.
    pub fn name(&self) -> Option<&str> {
        self.life.as_ref()?.1.as_deref()
    }

    /// The further rings that the daemon has joined in what was read, each time that it did.
    pub fn joined(&self) -> &[Joined] {
        &self.joined
    }

    /// Whether in the life that was read last messages may be delivered before they are ordered.
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// The top of the ring that the life read last was in; `None` of a daemon's own order.
    pub fn ring(&self) -> Option<&str> {
        self.ring.as_deref()
    }

    /// The bimodal group that the observation read last was made in; `None` if in none.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Whether the file ended within a line, which did not count; known once the last observation
    /// is read.
    pub fn ends_torn(&self) -> bool {
        self.is_torn
    }

    /// Reads one line into `bytes`; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, HistoryError> {
        self.bytes.clear();
        let limit = LINE_MAX as u64 + 1;
        let read = (&mut self.reader)
            .take(limit)
            .read_until(b'\n', &mut self.bytes)
            .map_err(|source| HistoryError::Read {
                file: self.file.clone(),
                line: self.line,
                source,
            })?;
        self.line += u64::from(read > 0);
        if read > LINE_MAX {
            return Err(self.error(format!("the line is longer than {LINE_MAX} bytes")));
        }
        // Without its line feed a torn line is one that ends too early, wherever it was torn.
        self.bytes.pop_if(|last| *last == b'\n');
        Ok(read > 0)
    }

    fn next_entry(&mut self) -> Result<Option<(MemberId, Observation)>, HistoryError> {
        loop {
            if !std::mem::take(&mut self.is_pending) && !self.read_line()? {
                return Ok(None);
            }
            match serde_json::from_slice::<Line<'_>>(&self.bytes) {
                Ok(Line::Start { schema, .. }) if !(1..=SCHEMA).contains(&schema) => {
                    return Err(self.error(format!(
                        "schema {schema} is not known to this version, which reads schemas 1 to {SCHEMA}"
                    )));
                }
                Ok(Line::Start {
                    member,
                    name,
                    early,
                    ring,
                    ..
                }) => {
                    self.group = None;
                    self.early = early;
                    self.ring = ring.map(Into::into);
                    self.life = Some((member.0, name.map(Into::into)));
                    return Ok(Some((member.0, Observation::Start)));
                }
                Ok(line) => {
                    let group = line.group().map(ToOwned::to_owned);
                    let joined = line.joined().map(|(ring, at)| (ring.to_owned(), at));
                    let observation = line.into_observation();
                    let Some((member, name)) = &self.life else {
                        return Err(self.error(
                            "not a history: it does not begin with a \"start\" line".to_owned(),
                        ));
                    };
                    if let Some((ring, member)) = joined {
                        let name = name.clone();
                        self.joined.push(Joined { ring, member, name });
                    }
                    let member = *member;
                    let observation = observation.map_err(|what| self.error(what))?;
                    if let Some(observation) = observation {
                        self.group = group;
                        return Ok(Some((member, observation)));
                    }
                }
                Err(error) if error.is_eof() => self.pass_torn_line()?,
                Err(error) => return Err(self.error(without_position(&error))),
            }
        }
    }

    /// A line that is cut off is legal at the end of a life: the file ends there, or another life
    /// begins.
    fn pass_torn_line(&mut self) -> Result<(), HistoryError> {
        let torn = self.line;
        if !self.read_line()? {
            self.is_torn = true;
            return Ok(());
        }
        let is_start = matches!(
            serde_json::from_slice::<Line<'_>>(&self.bytes),
            Ok(Line::Start { .. })
        );
        if !is_start {
            self.line = torn;
            let what = "the line is incomplete, but the life goes on after it";
            return Err(self.error(what.to_owned()));
        }
        self.is_pending = true;
        Ok(())
    }

    fn error(&self, what: String) -> HistoryError {
        HistoryError::Line {
            file: self.file.clone(),
            line: self.line,
            what,
        }
    }
}

impl<R: BufRead> Iterator for History<R> {
    type Item = Result<(MemberId, Observation), HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let entry = self.next_entry().transpose();
        self.is_over = !matches!(entry, Some(Ok(_)));
        entry
    }
}

/// The parser counts lines of its input, which is one line of ours.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
