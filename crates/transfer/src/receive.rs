//! Receiving: a service that takes any number of transfers into a directory, or pipes to the
//! standard output.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_core::text::printable;
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{Acceptance, Failure, Notice, Order, TransferId};
use groupcast_protocols::xgm::{Key, Subgroups};

use crate::about::{About, Content};
use crate::disk::{Disk, Done, Job, Target};
use crate::host::{BulkHost, TransferError, TransferLink};
use crate::incoming::{Incoming, State};
use crate::manifest::{ContentId, Limits};
use crate::send::STOPPED;
use crate::spool::{Claim, Spool};

/// Where transfers go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Into this directory: files under their names, a pipe as a file called by its label.
    Directory(PathBuf),
    /// The first pipe to the standard output; files are refused.
    Stdout,
}

/// A receiver to be run.
#[derive(Clone, Debug)]
pub struct Receiving {
    /// Where transfers go.
    pub output: Output,
    /// Whether to end with the first transfer that was taken.
    pub once: bool,
    /// Over which network.
    pub link: TransferLink,
    /// What is taken at most.
    pub limits: Limits,
    /// Transfers that broke off and are kept to be resumed. Default 8; the oldest make room.
    pub partials_max: usize,
    /// The subgroups that this receiver is in, for a [`census`](crate::census()). Default: one at
    /// random.
    pub subgroups: Option<Subgroups>,
}

/// A transfer, for people and programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The transfer that it concerns.
    pub id: TransferId,
    /// What its sender calls it.
    pub label: String,
    /// What its sender is called.
    pub sender: String,
    /// Bytes of its stream, manifest and hashes included; unknown for a pipe.
    pub length: Option<u64>,
}

/// Something that a receiver's user may want to see.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveEvent<'a> {
    /// It is ready for transfers.
    Listening,
    /// A transfer is taken.
    Accepted {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// Bytes of it that are here from an earlier one.
        held: u64,
    },
    /// A transfer is not taken: nothing of it was written.
    Refused {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
    },
    /// About ten times a second for each transfer that moves on.
    Progress {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// Bytes that are here.
        received: u64,
    },
    /// This receiver misses what the sender has released (protocol `xtp`). Files come again in a
    /// later pass; of a pipe nothing more comes.
    Outrun {
        /// The transfer that it concerns.
        transfer: &'a Described,
    },
    /// Everything is verified and in place.
    Complete {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// Bytes that arrived: what was held before is not among them.
        received: u64,
        /// Since it was accepted.
        took: Duration,
    },
    /// It broke off: nothing was put in place.
    Failed {
        /// The transfer that it concerns.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
        /// Whether what has arrived is kept for the next attempt.
        kept: bool,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each of the two.
    Stranger(Stranger),
}

/// How a receiver ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Received {
    /// Transfers that are in place.
    pub complete: usize,
    /// Transfers that were taken and broke off.
    pub failed: usize,
}

/// Receives until `stop` is set, or the first transfer has ended if only one is wanted. `tell`
/// hears what happens.
///
/// # Errors
/// If the target or the network cannot be used.
pub fn receive(
    receiving: Receiving,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(ReceiveEvent<'_>),
) -> Result<Received, TransferError> {
    let spool = match &receiving.output {
        Output::Directory(path) => Some(Arc::new(Spool::open(path)?)),
        Output::Stdout => None,
    };
    let mut host = BulkHost::open(&receiving.link)?;
    let xgm = host.xgm();
    let joined = xgm.join(KEY);
    joined.expect("the first member finds room");
    if let Some(subgroups) = receiving.subgroups.filter(|it| !it.is_empty()) {
        let set = xgm.set_subgroups(KEY, subgroups);
        set.expect("it has just joined, and is in a subgroup");
    }
    let mut service = Service {
        host,
        spool,
        receiving,
        transfers: BTreeMap::new(),
        placed: VecDeque::new(),
        totals: Received::default(),
    };
    tell(ReceiveEvent::Listening);
    while !service.is_over() {
        if stop.load(Ordering::Relaxed) {
            service.give_up(tell);
            break;
        }
        service.host.turn(Service::PATIENCE)?;
        while let Some(stranger) = service.host.poll_stranger() {
            tell(ReceiveEvent::Stranger(stranger));
        }
        service.take_notices(tell);
        service.take_done(tell);
        service.connect();
    }
    // The last word to the senders is on its way with the next turn.
    service.host.turn(Duration::ZERO)?;
    Ok(service.totals)
}

/// The one member of a receiver.
const KEY: Key = Key(1);

struct Service {
    host: BulkHost,
    spool: Option<Arc<Spool>>,
    receiving: Receiving,
    transfers: BTreeMap<TransferId, Incoming>,
    /// Manifests of what was put in place last: a sender that did not hear of it may come again.
    placed: VecDeque<(ContentId, Bytes)>,
    totals: Received,
}

impl Service {
    /// How long a turn may wait: how late a stop request is seen.
    const PATIENCE: Duration = Duration::from_millis(100);
    /// Progress is shown this often.
    const SHOW: Duration = Duration::from_millis(100);
    /// Manifests that are remembered.
    const PLACED_MAX: usize = 4;
    /// Transfers at once; more are refused. Each may hold two times the protocol's `buffer_max`.
    const TRANSFERS_MAX: usize = 16;

    /// While a transfer lasts, only its sender may move this member to other subgroups (003 4.5.1);
    /// of several, the sender of the first.
    fn connect(&mut self) {
        let source = self.transfers.keys().next().map(|id| id.sender);
        let connected = self.host.xgm().connect(KEY, source);
        connected.expect("the member stays for as long as the receiver");
    }

    fn is_over(&self) -> bool {
        let ended = self.totals.complete + self.totals.failed;
        self.receiving.once && ended > 0 && self.transfers.is_empty()
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Announced { id, about, length } => self.announced(id, &about, length, tell),
                Notice::Data { id, offset, bytes } => self.data(id, offset, bytes, tell),
                Notice::Received { id, .. } => {
                    if let Some(incoming) = self.transfers.get(&id) {
                        incoming.disk.ask(Job::Publish);
                    }
                }
                Notice::Outrun { id, receiver: None } => {
                    if let Some(incoming) = self.transfers.get(&id) {
                        let transfer = &incoming.described;
                        tell(ReceiveEvent::Outrun { transfer });
                    }
                }
                Notice::Failed { id, failure } => self.broke_off(id, &failure, tell),
                Notice::Ended { id } => {
                    self.transfers.remove(&id);
                }
                _ => {}
            }
        }
    }

    fn announced(
        &mut self,
        id: TransferId,
        about: &[u8],
        length: Option<u64>,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let about = match About::decode(about, length, &self.receiving.limits) {
            Ok(about) => about,
            Err(error) => {
                let described = Described {
                    id,
                    label: String::new(),
                    sender: id.sender.to_string(),
                    length,
                };
                return self.refuse(&described, &format!("not understood: {error}"), tell);
            }
        };
        let described = Described {
            id,
            label: printable(about.label.as_bytes()),
            sender: printable(about.host.as_bytes()),
            length,
        };
        let is_busy = self.receiving.once
            && (self.totals.complete + self.totals.failed > 0 || !self.transfers.is_empty());
        if is_busy {
            return self.refuse(&described, "this receiver takes one transfer only", tell);
        }
        let target = match self.target(&about, id) {
            Ok(target) => target,
            Err(reason) => return self.refuse(&described, reason, tell),
        };
        match Disk::open(target, self.host.waker()) {
            Ok(disk) => {
                let incoming = Incoming::new(described, about.content, disk, self.host.now());
                self.transfers.insert(id, incoming);
            }
            Err(error) => self.refuse(&described, &format!("cannot start a thread: {error}"), tell),
        }
    }

    /// Where a transfer goes, or why it is not taken.
    fn target(&mut self, about: &About, id: TransferId) -> Result<Target, &'static str> {
        if self.transfers.len() >= Self::TRANSFERS_MAX {
            return Err("this receiver takes no more transfers at once");
        }
        let spool = self.spool.clone();
        match (about.content, spool) {
            (Content::Files { .. }, None) => Err("this receiver takes a stream only"),
            (Content::Pipe, None) if !self.transfers.is_empty() => {
                Err("this receiver takes one stream at a time")
            }
            (Content::Pipe, None) => Ok(Target::PipeToStdout),
            (Content::Pipe, Some(spool)) => {
                let temporary = format!("stream-{}-{}", id.sender, id.number);
                Ok(Target::PipeToFile {
                    name: pipe_name(&about.label).ok_or("a stream needs a plain name")?,
                    claim: Claim::new(&spool, temporary.clone().into_bytes()),
                    temporary,
                })
            }
            (
                Content::Files {
                    id: content,
                    layout,
                    ..
                },
                Some(spool),
            ) => {
                // A sender that was restarted: what the former transfer has brought is taken over.
                let former = self.transfers.iter().find_map(|(former, incoming)| {
                    (incoming.content_id() == Some(content)).then_some(*former)
                });
                if let Some(former) = former {
                    let now = self.host.now();
                    let reason = "the same content is sent anew";
                    self.host.bulk().conclude(now, former, Err(reason));
                    self.transfers.remove(&former);
                }
                let listed: usize = self.transfers.values().map(Incoming::manifest_len).sum();
                if listed + layout.manifest as usize > self.receiving.limits.manifest_max {
                    return Err("the lists of files of all transfers under way are too long");
                }
                // What is here of it stays, whatever is removed to make room.
                let claim = Claim::new(&spool, content.short().into_bytes());
                if let Err(error) = spool.trim(self.receiving.partials_max) {
                    tracing::warn!("cannot remove what an old transfer left: {error}");
                }
                let placed = self.placed.iter().find(|(id, _)| *id == content);
                Ok(Target::Files {
                    placed: placed.map(|(_, manifest)| manifest.clone()),
                    claim,
                    id: content,
                    layout,
                    limits: self.receiving.limits,
                })
            }
        }
    }

    fn refuse(
        &mut self,
        transfer: &Described,
        reason: &str,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let now = self.host.now();
        let name = self.receiving.link.name.as_bytes();
        self.host.bulk().refuse(now, transfer.id, reason, name);
        tell(ReceiveEvent::Refused { transfer, reason });
    }

    fn data(
        &mut self,
        id: TransferId,
        offset: u64,
        bytes: Bytes,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let now = self.host.now();
        let Some(incoming) = self.transfers.get_mut(&id) else {
            return;
        };
        let consumed = incoming.take(offset, bytes);
        self.host.bulk().consumed(now, id, consumed);
        if now - incoming.shown >= Self::SHOW {
            incoming.shown = now;
            tell(ReceiveEvent::Progress {
                transfer: &incoming.described,
                received: incoming.held + incoming.received,
            });
        }
    }

    /// What the disks have done.
    fn take_done(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let now = self.host.now();
        let ids: Vec<TransferId> = self.transfers.keys().copied().collect();
        for id in ids {
            while let Some(done) = self.transfers.get(&id).and_then(|one| one.disk.poll()) {
                match done {
                    Done::Prepared(held) => self.prepared(id, held, tell),
                    Done::Consumed(bytes) => self.host.bulk().consumed(now, id, bytes),
                    Done::Written(chunk) => self.written(now, id, chunk),
                    Done::Published => self.published(id, tell),
                    Done::Failed(reason) => self.failed(id, &reason, tell),
                }
            }
        }
    }

    /// A chunk is written: its memory is used again.
    fn written(&mut self, now: Time, id: TransferId, chunk: Vec<u8>) {
        self.host.bulk().consumed(now, id, chunk.len() as u64);
        if let Some(incoming) = self.transfers.get_mut(&id) {
            incoming.recycle(chunk);
        }
    }

    fn prepared(
        &mut self,
        id: TransferId,
        held: Vec<Range<u64>>,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let now = self.host.now();
        let Some(incoming) = self.transfers.get_mut(&id) else {
            return;
        };
        incoming.prepared(&held);
        let acceptance = Acceptance {
            held,
            order: match incoming.content {
                Content::Files { .. } => Order::AsTheyCome,
                Content::Pipe => Order::InOrder,
            },
            name: Bytes::copy_from_slice(self.receiving.link.name.as_bytes()),
        };
        match self.host.bulk().accept(now, id, &acceptance) {
            Ok(()) => tell(ReceiveEvent::Accepted {
                transfer: &incoming.described,
                held: incoming.held,
            }),
            // Its sender has gone meanwhile.
            Err(_) => {
                self.transfers.remove(&id);
            }
        }
    }

    fn published(&mut self, id: TransferId, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let now = self.host.now();
        self.host.bulk().conclude(now, id, Ok(()));
        let Some(incoming) = self.transfers.get_mut(&id) else {
            return;
        };
        incoming.state = State::Concluded;
        self.totals.complete += 1;
        tell(ReceiveEvent::Complete {
            transfer: &incoming.described,
            received: incoming.received,
            took: incoming.since.elapsed(),
        });
        if let (Some(content), Some(manifest)) = (incoming.content_id(), incoming.manifest.take()) {
            self.placed.retain(|(id, _)| *id != content);
            self.placed.truncate(Self::PLACED_MAX - 1);
            self.placed.push_front((content, manifest));
        }
    }

    /// This receiver cannot go on with a transfer.
    fn failed(&mut self, id: TransferId, reason: &str, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let now = self.host.now();
        let Some(incoming) = self.transfers.get_mut(&id) else {
            return;
        };
        if incoming.state == State::Preparing {
            let name = self.receiving.link.name.as_bytes();
            self.host.bulk().refuse(now, id, reason, name);
        } else {
            self.host.bulk().conclude(now, id, Err(reason));
        }
        self.totals.failed += 1;
        tell(ReceiveEvent::Failed {
            transfer: &incoming.described,
            reason,
            kept: incoming.is_kept(self.spool.as_deref()),
        });
        self.transfers.remove(&id);
    }

    /// The transfer ended without this receiver's doing.
    fn broke_off(
        &mut self,
        id: TransferId,
        failure: &Failure,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let Some(incoming) = self.transfers.remove(&id) else {
            return;
        };
        if incoming.state == State::Concluded {
            return;
        }
        // What a sender that was stopped has brought can be resumed; otherwise its content is not
        // there any more.
        let is_gone = matches!(failure, Failure::Cancelled(reason) if reason != STOPPED);
        if is_gone {
            incoming.disk.ask(Job::Discard);
        }
        let reason = match failure {
            Failure::Cancelled(reason) => {
                format!("its sender gave up: {}", printable(reason.as_bytes()))
            }
            Failure::Lost => "its sender is not heard any more".into(),
            Failure::Dropped => "its sender gave this receiver up: too slow, or too late".into(),
            Failure::Outrun => {
                "its sender has released what this receiver missed, and cannot send it again".into()
            }
            Failure::SameName => {
                let name = printable(self.receiving.link.name.as_bytes());
                format!("another receiver is called {name} too: each needs a name of its own")
            }
            other => format!("{other:?}"),
        };
        self.totals.failed += 1;
        tell(ReceiveEvent::Failed {
            transfer: &incoming.described,
            reason: &reason,
            kept: !is_gone && incoming.is_kept(self.spool.as_deref()),
        });
    }

    /// Stops: senders are told.
    fn give_up(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let ids: Vec<TransferId> = self.transfers.keys().copied().collect();
        for id in ids {
            let is_concluded = |one: &Incoming| one.state == State::Concluded;
            if !self.transfers.get(&id).is_none_or(is_concluded) {
                self.failed(id, "the receiver was stopped", tell);
            }
        }
    }
}

/// What a pipe's file is called: the last part of its label.
fn pipe_name(label: &str) -> Option<String> {
    let name = label.rsplit('/').next().unwrap_or_default();
    let is_plain = !matches!(name, "" | "." | ".." | ".groupcast") && !name.contains('\0');
    (is_plain && name.len() <= crate::Manifest::NAME_MAX).then(|| name.to_owned())
}
