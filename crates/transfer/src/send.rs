//! Sending: paths or a pipe, to the receivers that register or are required, until each of them is
//! settled.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId, Time};
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{
    Notice, Outcome, PhaseKind, Progress, Transfer, TransferId, Wanted,
};

use crate::about::{About, Content};
use crate::content::Files;
use crate::host::{BulkHost, TransferError, TransferLink};
use crate::manifest::Scan;
use crate::read_ahead::{FileSource, PipeSource, Supply};

/// What receivers are told if the sender was stopped: the same content may come again.
pub(crate) const STOPPED: &str = "it was stopped";

/// What is sent.
pub enum Cargo {
    /// Files and directories.
    Files(Scan),
    /// A pipe, to its end. It can be read once only: who is late or too slow is given up.
    Pipe(Box<dyn Read + Send>),
}

/// Whom a transfer is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// All receivers that register in time.
    Anybody,
    /// So many receivers.
    Count(usize),
    /// These, by name; others may come.
    Required(Vec<String>),
}

/// A transfer to be sent.
pub struct Sending {
    /// What is sent: files or a pipe.
    pub cargo: Cargo,
    /// What people call it.
    pub label: String,
    /// Which receivers it waits for.
    pub audience: Audience,
    /// Over which network, by which protocol.
    pub link: TransferLink,
}

/// Something that a sender's user may want to see.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendEvent<'a> {
    /// Receivers are being looked for.
    Announced {
        /// Bytes of all files; unknown for a pipe.
        bytes: Option<u64>,
        /// Entries of the manifest; 0 for a pipe.
        entries: usize,
    },
    /// A receiver takes part.
    Registered {
        /// The name of the receiver.
        receiver: &'a str,
        /// Where it was heard.
        address: Option<SocketAddr>,
    },
    /// The first data goes out.
    Started {
        /// Receivers that it begins with.
        receivers: usize,
    },
    /// About ten times a second.
    Progress {
        /// What the protocol knows.
        progress: &'a Progress,
        /// The name of each receiver in it, in its order.
        names: &'a [&'a str],
        /// Bytes of the stream that were given to the protocol so far: what no receiver needs is
        /// not among them.
        sent: u64,
    },
    /// What became of a receiver.
    Settled {
        /// The name of the receiver.
        receiver: &'a str,
        /// What became of the transfer at the receiver.
        outcome: &'a Outcome,
    },
    /// A receiver misses what was released before it had it (protocol `xtp`). Files are sent to it
    /// again after the others are done; of a pipe it gets nothing more.
    Outrun {
        /// The name of the receiver.
        receiver: &'a str,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each of the two.
    Stranger(Stranger),
}

/// How a transfer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendReport {
    /// Every receiver that registered or was required, and what became of it.
    pub receivers: Vec<(String, Outcome)>,
    /// Bytes of the stream, hashes and manifest included.
    pub bytes: u64,
    /// Bytes of it that were sent, without repeated packets. Less than all if the receivers held
    /// the rest; more if a later pass sent some again.
    pub sent: u64,
    /// Packets sent, repeated ones included.
    pub packets: u64,
    /// Packets sent again.
    pub repeated: u64,
    /// From the first data until every receiver was settled.
    pub took: Duration,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Sends until every receiver is settled, or `stop` is set. `tell` hears what happens.
///
/// # Errors
/// If the network cannot be used, or what is sent cannot be read; the receivers are told then, and
/// put nothing in place.
pub fn send(
    sending: Sending,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(SendEvent<'_>),
) -> Result<SendReport, TransferError> {
    let host = BulkHost::open(&sending.link)?;
    let mut sender = Sender::begin(host, sending, tell)?;
    loop {
        sender.take_notices(tell);
        if let Some(report) = sender.report.take() {
            // The last word to the receivers is on its way with the next turn.
            sender.host.turn(Duration::ZERO)?;
            return match sender.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(report),
            };
        }
        if stop.load(Ordering::Relaxed) && !sender.stopped {
            sender.stopped = true;
            sender.give_up(STOPPED);
            continue;
        }
        if let Err(failure) = sender.supply() {
            sender.give_up(&failure.to_string());
            sender.failure = Some(failure.into());
            continue;
        }
        sender.show_progress(tell);
        sender.host.turn(Sender::PATIENCE)?;
        while let Some(stranger) = sender.host.poll_stranger() {
            tell(SendEvent::Stranger(stranger));
        }
    }
}

enum Source {
    Files(FileSource),
    Pipe(PipeSource),
}

struct Sender {
    host: BulkHost,
    id: TransferId,
    source: Source,
    names: BTreeMap<MemberId, String>,
    required: BTreeMap<NodeId, String>,
    settled: Vec<(MemberId, String, Outcome)>,
    begun: Option<Instant>,
    shown: Time,
    /// Bytes of the stream, if they are known, and those that were read and sent.
    length: Option<u64>,
    read: u64,
    report: Option<SendReport>,
    stopped: bool,
    failure: Option<TransferError>,
}

impl Sender {
    /// How long a turn may wait: how late a stop request is seen.
    const PATIENCE: Duration = Duration::from_millis(100);
    /// Progress is shown this often.
    const SHOW: Duration = Duration::from_millis(100);
    /// Bytes that are offered between two turns at most, so that the network is read in time.
    const OFFER_MAX: usize = 1 << 20;

    fn begin(
        mut host: BulkHost,
        sending: Sending,
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) -> Result<Self, TransferError> {
        let thread = TransferError::system("start a thread");
        let (source, content, bytes, entries) = match sending.cargo {
            Cargo::Files(scan) => {
                let entries = scan.manifest.entries().len();
                let files = Files::new(scan);
                let (content, bytes) = (files.content(), files.layout().content);
                let source = FileSource::new(files, host.waker()).map_err(thread)?;
                (Source::Files(source), content, Some(bytes), entries)
            }
            Cargo::Pipe(pipe) => {
                let source = PipeSource::new(pipe, host.waker()).map_err(thread)?;
                (Source::Pipe(source), Content::Pipe, None, 0)
            }
        };
        let about = About {
            host: sending.link.name.clone(),
            label: sending.label,
            content,
        };
        let mut required = BTreeMap::new();
        let receivers = match sending.audience {
            Audience::Anybody => Wanted::Open,
            Audience::Count(count) => Wanted::Count(count),
            Audience::Required(names) => {
                let ids = names.iter().map(|name| NodeId::from_name(name));
                required = ids.clone().zip(names.iter().cloned()).collect();
                Wanted::Members(ids.collect())
            }
        };
        let length = match content {
            Content::Files { layout, .. } => Some(layout.len()),
            Content::Pipe => None,
        };
        let transfer = Transfer {
            about: about.encode(),
            length,
            rewindable: matches!(source, Source::Files(_)),
            receivers,
            confirm: true,
        };
        let now = host.now();
        let id = host.bulk().send(now, transfer)?;
        tell(SendEvent::Announced { bytes, entries });
        Ok(Self {
            host,
            id,
            source,
            names: BTreeMap::new(),
            required,
            settled: Vec::new(),
            begun: None,
            shown: now,
            length,
            read: 0,
            report: None,
            stopped: false,
            failure: None,
        })
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Registered { receiver, name, .. } => self.registered(receiver, &name, tell),
                Notice::Started { receivers, .. } => {
                    self.begun = Some(Instant::now());
                    tell(SendEvent::Started { receivers });
                }
                Notice::Settled {
                    receiver,
                    outcome,
                    name,
                    ..
                } => self.settle(receiver, outcome, &name, tell),
                Notice::Outrun {
                    id,
                    receiver: Some(receiver),
                } if id == self.id => {
                    let name = self.names.get(&receiver).map_or("", String::as_str);
                    tell(SendEvent::Outrun { receiver: name });
                }
                Notice::Sent { id } if id == self.id => self.report = Some(self.conclude()),
                // Other senders' transfers are no business of this one.
                _ => {}
            }
        }
    }

    /// What a receiver that calls itself `name` is called here: no two have one name.
    fn unique_name(&self, receiver: MemberId, name: &[u8]) -> String {
        let name = printable(name);
        let is_taken = self.names.values().any(|other| *other == name);
        if !name.is_empty() && !is_taken {
            return name;
        }
        let address = self.host.address(receiver);
        let address = address.map_or_else(|| receiver.to_string(), |at| at.to_string());
        format!("{name}@{address}")
    }

    fn registered(&mut self, receiver: MemberId, name: &[u8], tell: &mut dyn FnMut(SendEvent<'_>)) {
        let address = self.host.address(receiver);
        let name = self.unique_name(receiver, name);
        tell(SendEvent::Registered {
            receiver: &name,
            address,
        });
        self.names.insert(receiver, name);
    }

    fn settle(
        &mut self,
        receiver: MemberId,
        outcome: Outcome,
        name: &[u8],
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) {
        let known = self.names.get(&receiver);
        let known = known.or_else(|| self.required.get(&receiver.node)).cloned();
        let name = known.unwrap_or_else(|| match name {
            [] => receiver.to_string(),
            name => self.unique_name(receiver, name),
        });
        tell(SendEvent::Settled {
            receiver: &name,
            outcome: &outcome,
        });
        self.settled.push((receiver, name, outcome));
    }

    fn conclude(&mut self) -> SendReport {
        let counters = self.host.bulk().counters();
        SendReport {
            receivers: by_name(std::mem::take(&mut self.settled)),
            bytes: self.length.unwrap_or(self.read),
            sent: self.read,
            packets: counters.packets_sent,
            repeated: counters.packets_repeated,
            took: self.begun.map(|begun| begun.elapsed()).unwrap_or_default(),
            stopped: self.stopped,
        }
    }

    fn give_up(&mut self, reason: &str) {
        let now = self.host.now();
        self.host.bulk().cancel(now, self.id, reason);
    }

    /// Offers what is wanted and there.
    fn supply(&mut self) -> Result<(), crate::ReadError> {
        let now = self.host.now();
        let mut offered = 0;
        while offered < Self::OFFER_MAX {
            let Some(wanted) = self.host.bulk().wanted(self.id) else {
                break;
            };
            let room = wanted.end - wanted.start;
            let supply = match &mut self.source {
                Source::Files(files) => files.supply(wanted.start)?,
                Source::Pipe(pipe) => pipe.supply(room)?,
            };
            match supply {
                Supply::Bytes(mut bytes) => {
                    bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
                    offered += bytes.len();
                    // The transfer may end with any offer; its notices say so.
                    let len = bytes.len() as u64;
                    if self.host.bulk().offer(now, self.id, bytes).is_err() {
                        break;
                    }
                    self.read += len;
                }
                Supply::Wait => break,
                Supply::End => {
                    self.host.bulk().finish(now, self.id);
                    break;
                }
            }
        }
        Ok(())
    }

    fn show_progress(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) {
        let now = self.host.now();
        if now - self.shown < Self::SHOW {
            return;
        }
        self.shown = now;
        let Some(progress) = self.host.bulk().progress(self.id) else {
            return;
        };
        if progress.phase != PhaseKind::Announcing {
            let name = |member| self.names.get(member).map_or("", String::as_str);
            let names: Vec<&str> = progress
                .receivers
                .iter()
                .map(|receiver| name(&receiver.receiver))
                .collect();
            tell(SendEvent::Progress {
                progress: &progress,
                names: &names,
                sent: self.read,
            });
        }
    }
}

/// What became of each receiver. One that was restarted and is complete since counts as complete,
/// though its former incarnation is not heard any more.
fn by_name(settled: Vec<(MemberId, String, Outcome)>) -> Vec<(String, Outcome)> {
    let complete: Vec<NodeId> = settled
        .iter()
        .filter(|(_, _, outcome)| *outcome == Outcome::Complete)
        .map(|(member, ..)| member.node)
        .collect();
    let is_former = |member: &MemberId, outcome: &Outcome| {
        *outcome == Outcome::Vanished && complete.contains(&member.node)
    };
    settled
        .into_iter()
        .filter(|(member, _, outcome)| !is_former(member, outcome))
        .map(|(_, name, outcome)| (name, outcome))
        .collect()
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    #[test]
    fn a_former_life_of_a_complete_receiver_is_no_failure() {
        let member = |node, life| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(life),
        };
        let settled = vec![
            (member(1, 1), "a".to_owned(), Outcome::Vanished),
            (member(1, 2), "a@later".to_owned(), Outcome::Complete),
            (member(2, 3), "b".to_owned(), Outcome::Vanished),
            (member(1, 4), "a@other".to_owned(), Outcome::Slow),
        ];
        let names: Vec<String> = by_name(settled).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a@later", "b", "a@other"]);
    }
}
