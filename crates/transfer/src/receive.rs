//! Receiving: a service that takes any number of transfers into a directory, or one pipe to the
//! standard output.

mod event;
mod lists;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_core::text::printable;
use groupcast_protocols::bulk::{
    Acceptance, DeliverTo, Failure, Notice, Order, STOPPED, TransferId,
};
use groupcast_protocols::xgm::Subgroups;

pub use self::event::{Described, ReceiveEvent, Received};
use self::lists::Lists;
use crate::about::{About, AboutConnection, AboutRequest, Content, Layout};
use crate::arrival::{ArrivalCommand, OnArrival};
use crate::disk::{Disk, Done, Expected, Job, Target};
use crate::host::{BulkHost, TransferError, TransferLink};
use crate::incoming::{Incoming, State};
use crate::manifest::{ContentId, Limits};
use crate::spool::Spool;

/// Where transfers go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Into this directory: files under their names, a pipe as a file named by its label.
    Directory(PathBuf),
    /// The first pipe to the standard output; files are refused.
    Stdout,
}

/// A receiver to be run.
#[derive(Clone, Debug)]
pub struct Receiving {
    /// Where transfers go.
    pub output: Output,
    /// Whether to end after the first transfer: when it is complete, broke off, or was refused. One
    /// that is for other receivers is none.
    pub once: bool,
    /// The network and the settings.
    pub link: TransferLink,
    /// The limits of manifests that are taken.
    pub limits: Limits,
    /// The most transfers that broke off and are kept to be resumed; the oldest make room. Default
    /// 8.
    pub partials_max: usize,
    /// Whether everything is synchronised with the disk before it is reported complete. This is the
    /// default of the command line; without it, a crash of the machine can lose a transfer that was
    /// complete shortly before.
    pub durable: bool,
    /// A command that is run for each transfer in place, before its sender hears that it is
    /// complete. If it fails, the transfer counts as failed here, and the command is run again when
    /// the same content is sent again. It is run at least once: a receiver that was started again
    /// does not know whether it has run. Default: none.
    pub on_arrival: Option<OnArrival>,
    /// The subgroups that this receiver is in: it takes transfers to everybody, or to one of them,
    /// and a [`census`](crate::census()) counts it there. Default: one at random.
    pub subgroups: Option<Subgroups>,
}

/// Receives until `stop` is set, or, with [`once`](Receiving::once), until the first transfer has
/// ended. `tell` gets the events.
///
/// # Errors
/// If the target or the network cannot be used.
pub fn receive(
    receiving: Receiving,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(ReceiveEvent<'_>),
) -> Result<Received, TransferError> {
    let spool = match &receiving.output {
        Output::Directory(path) => Some(Arc::new(Spool::open(
            path,
            &receiving.limits,
            receiving.durable,
        )?)),
        Output::Stdout => None,
    };
    let mut host = BulkHost::open(&receiving.link)?;
    host.join(receiving.subgroups);
    let mut service = Service {
        host,
        spool,
        receiving,
        transfers: BTreeMap::new(),
        retired: Vec::new(),
        lists: Lists::default(),
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
        service.take_compared();
    }
    // The next turn sends the last datagrams to the senders.
    service.host.turn(Duration::ZERO)?;
    service.retired.extend(service.lists.end_all());
    for (_, thread) in service.retired.drain(..) {
        // Waits until everything is written. A thread reports its error before it ends.
        let _ = thread.join();
    }
    Ok(service.totals)
}

struct Service {
    host: BulkHost,
    spool: Option<Arc<Spool>>,
    receiving: Receiving,
    transfers: BTreeMap<TransferId, Incoming>,
    /// The disks' threads of transfers that have ended, while they still write.
    retired: Vec<(Option<ContentId>, JoinHandle<()>)>,
    /// Lists of files that are about to be sent, and the results of comparing.
    lists: Lists,
    /// Manifests of the contents that were put in place last: a sender that did not hear of it may
    /// send them again.
    placed: VecDeque<(ContentId, Bytes)>,
    totals: Received,
}

impl Service {
    /// How long a turn may wait: how late a stop request is seen.
    const PATIENCE: Duration = Duration::from_millis(100);
    /// How often progress is reported.
    const SHOW: Duration = Duration::from_millis(100);
    /// The most manifests that are remembered.
    const PLACED_MAX: usize = 4;
    /// The most transfers at once; more are refused. Each may hold two times the protocol's
    /// `buffer_max`.
    const TRANSFERS_MAX: usize = 16;

    fn is_over(&self) -> bool {
        self.receiving.once && self.ended() > 0 && self.transfers.is_empty()
    }

    /// How many transfers have ended.
    fn ended(&self) -> usize {
        let Received {
            complete,
            failed,
            refused,
        } = self.totals;
        complete + failed + refused
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Announced { id, about, length } => self.announced(id, &about, length, tell),
                Notice::Data { id, bytes, .. } if self.lists.has(id) => self.lists.take(id, bytes),
                Notice::Received { id, .. } if self.lists.has(id) => self.lists.is_whole(id),
                Notice::Failed { id, .. } | Notice::Ended { id } if self.lists.has(id) => {
                    let thread = self.lists.end(id);
                    self.retired.extend(thread);
                }
                Notice::Data { id, offset, bytes } => self.data(id, offset, bytes, tell),
                Notice::Received { id, .. } => {
                    let deliver_to = self.host.bulk().deliver_to(id);
                    if let Some(incoming) = self.transfers.get(&id) {
                        incoming.disk.ask(match deliver_to {
                            Some(DeliverTo::Aside) => Job::Verify,
                            _ => Job::Publish,
                        });
                    }
                }
                Notice::AllHold { id } => {
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
                Notice::Ended { id } => self.retire(id),
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
        if AboutRequest::is_announced(about) || AboutConnection::is_announced(about) {
            // It is for those that answer requests, or listen.
            return;
        }
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
        if let Content::List { .. } = about.content {
            return self.list_announced(&described, &about);
        }
        let is_busy = self.ended() > 0 || !self.transfers.is_empty();
        if self.receiving.once && is_busy {
            let reason = "this receiver takes one transfer only";
            return self.turn_away(&described, reason, tell);
        }
        if let Some(ready) = self.lists.ready(&about) {
            // The disk has compared before, for the list.
            let incoming = Incoming::new(described, about.content, ready.disk, self.host.now());
            self.transfers.insert(id, incoming);
            return self.prepared(id, ready.held, tell);
        }
        let target = match self.target(&about, id) {
            Ok(target) => target,
            Err(reason) => return self.refuse(&described, reason, tell),
        };
        let command = self.command(&described);
        match Disk::open(target, command, self.host.waker()) {
            Ok(disk) => {
                let incoming = Incoming::new(described, about.content, disk, self.host.now());
                self.transfers.insert(id, incoming);
            }
            Err(error) => self.refuse(&described, &format!("cannot start a thread: {error}"), tell),
        }
    }

    /// The command for a transfer, if there is one.
    fn command(&self, described: &Described) -> Option<ArrivalCommand> {
        let on_arrival = self.receiving.on_arrival.clone()?;
        let Output::Directory(directory) = &self.receiving.output else {
            return None;
        };
        let here = std::path::absolute(directory);
        let directory = here.unwrap_or_else(|_| directory.clone());
        let length = described.length.map(|length| length.to_string());
        Some(ArrivalCommand {
            on_arrival,
            environment: vec![
                ("GROUPCAST_DIR", directory.clone().into()),
                (
                    "GROUPCAST_GROUP",
                    self.receiving.link.group.to_string().into(),
                ),
                ("GROUPCAST_OUTCOME", "complete".into()),
                ("GROUPCAST_LABEL", described.label.clone().into()),
                ("GROUPCAST_SENDER", described.sender.clone().into()),
                ("GROUPCAST_LENGTH", length.unwrap_or_default().into()),
            ],
            directory,
        })
    }

    /// Forgets a transfer. Its disk's thread ends by itself.
    fn retire(&mut self, id: TransferId) {
        if let Some(incoming) = self.transfers.remove(&id) {
            let content = incoming.content_id();
            let thread = incoming.disk.retire();
            self.retired.extend(thread.map(|thread| (content, thread)));
        }
    }

    /// The target of a transfer, or why it is refused.
    fn target(&mut self, about: &About, id: TransferId) -> Result<Target, &'static str> {
        self.retired.retain(|(_, thread)| !thread.is_finished());
        let under_way = self.transfers.len() + self.lists.len() + self.retired.len();
        if under_way >= Self::TRANSFERS_MAX {
            return Err("this receiver takes no more transfers at once");
        }
        let spool = self.spool.clone();
        match (about.content, spool) {
            (Content::List { .. }, None) => Err("this receiver takes a stream only"),
            (Content::Files { .. }, None) => Err("this receiver takes a stream only"),
            (Content::Pipe, None) if !self.transfers.is_empty() => {
                Err("this receiver takes one stream at a time")
            }
            (Content::Pipe, None) => Ok(Target::PipeToStdout),
            (Content::Pipe, Some(spool)) => {
                let temporary = format!("stream-{}-{}", id.sender, id.number);
                Ok(Target::PipeToFile {
                    name: pipe_name(&about.label).ok_or("a stream needs a plain name")?,
                    spool,
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
                // The sender was restarted: the new transfer takes over what the former one has
                // brought.
                let former = self.transfers.iter().find_map(|(former, incoming)| {
                    (incoming.content_id() == Some(content)).then_some(*former)
                });
                if let Some(former) = former {
                    let now = self.host.now();
                    let reason = "the same content is sent anew";
                    self.host.bulk().conclude(now, former, Err(reason));
                    self.retire(former);
                }
                let expected = self.expected(spool, content, layout)?;
                Ok(Target::Files(expected))
            }
            (
                Content::List {
                    id: content,
                    layout,
                    hashed,
                    ..
                },
                Some(spool),
            ) => {
                let is_same = |one: &Incoming| one.content_id() == Some(content);
                if hashed && self.transfers.values().any(is_same) {
                    return Err("the same content is under way");
                }
                let expected = self.expected(spool, content, layout)?;
                Ok(Target::List { expected, hashed })
            }
        }
    }

    /// The files of `content`, for the disk's thread.
    fn expected(
        &mut self,
        spool: Arc<Spool>,
        content: ContentId,
        layout: Layout,
    ) -> Result<Expected, &'static str> {
        let listed: usize = self.transfers.values().map(Incoming::manifest_len).sum();
        let listed = listed + self.lists.manifests_len();
        if listed + layout.manifest as usize > self.receiving.limits.manifest_max {
            return Err("the lists of files of all transfers under way are too long");
        }
        let is_former = |retired: &mut (Option<ContentId>, _)| retired.0 == Some(content);
        let former = self.retired.extract_if(.., is_former);
        let former = former.map(|(_, thread)| thread).collect();
        let placed = self.placed.iter().find(|(id, _)| *id == content);
        Ok(Expected {
            placed: placed.map(|(_, manifest)| manifest.clone()),
            spool,
            partials_max: self.receiving.partials_max,
            former,
            id: content,
            layout,
            limits: self.receiving.limits,
        })
    }

    /// Refuses a transfer: it has ended here.
    fn refuse(
        &mut self,
        transfer: &Described,
        reason: &str,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        self.totals.refused += 1;
        self.turn_away(transfer, reason, tell);
    }

    /// Tells the sender and the user that a transfer is refused.
    fn turn_away(
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

    /// Takes the results of the disks.
    fn take_done(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let now = self.host.now();
        let ids: Vec<TransferId> = self.transfers.keys().copied().collect();
        for id in ids {
            while let Some(done) = self.transfers.get(&id).and_then(|one| one.disk.poll()) {
                match done {
                    Done::Prepared(held) => self.prepared(id, held, tell),
                    Done::Consumed(bytes) => self.consumed(now, id, bytes),
                    Done::Written(chunk) => self.written(now, id, chunk),
                    // Only lists have this result, and they are not in `transfers`.
                    Done::Compared { .. } => {}
                    Done::Verified => self.host.bulk().conclude(now, id, Ok(())),
                    Done::Published => self.published(id, tell),
                    Done::Failed { reason, kept } => self.failed(id, &reason, kept, tell),
                }
            }
        }
    }

    /// Bytes of a pipe, or chunks that came before the manifest, are written.
    fn consumed(&mut self, now: Time, id: TransferId, bytes: u64) {
        self.host.bulk().consumed(now, id, bytes);
        if let Some(incoming) = self.transfers.get_mut(&id) {
            incoming.is_kept = incoming.content_id().is_some();
        }
    }

    /// A chunk is written: takes its buffer back.
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
                Content::Pipe | Content::List { .. } => Order::InOrder,
            },
            name: Bytes::copy_from_slice(self.receiving.link.name.as_bytes()),
        };
        match self.host.bulk().accept(now, id, &acceptance) {
            Ok(()) => tell(ReceiveEvent::Accepted {
                transfer: &incoming.described,
                held: incoming.held,
            }),
            // Its sender has gone meanwhile.
            Err(_) => self.retire(id),
        }
    }

    fn published(&mut self, id: TransferId, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let now = self.host.now();
        self.host.bulk().conclude(now, id, Ok(()));
        // If all had to hold it first, the sender waits for this.
        self.host.bulk().in_place(now, id);
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
    fn failed(
        &mut self,
        id: TransferId,
        reason: &str,
        kept: bool,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
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
            kept,
        });
        self.retire(id);
    }

    /// The protocol has ended the transfer.
    fn broke_off(
        &mut self,
        id: TransferId,
        failure: &Failure,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let Some(incoming) = self.transfers.get(&id) else {
            return;
        };
        if incoming.state == State::Concluded {
            return self.retire(id);
        }
        // If the sender was stopped, the transfer can be resumed; if it gave up for another reason,
        // its content does not exist any more.
        let is_gone = matches!(failure, Failure::Cancelled(reason) if !reason.starts_with(STOPPED));
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
            Failure::Full => {
                "the sender has as many receivers as it takes: this one was one too many".into()
            }
            Failure::Excluded => "its sender sends it to other receivers".into(),
            Failure::SameName => {
                let name = printable(self.receiving.link.name.as_bytes());
                format!("another receiver is called {name} too: each needs a name of its own")
            }
            Failure::GivenUp => "this receiver gave it up".into(),
            _ => "it came to nothing".into(),
        };
        // A transfer that is for other receivers has not failed here.
        self.totals.failed += usize::from(*failure != Failure::Excluded);
        tell(ReceiveEvent::Failed {
            transfer: &incoming.described,
            reason: &reason,
            kept: !is_gone && incoming.is_kept,
        });
        self.retire(id);
    }

    /// Stops, and tells the senders.
    fn give_up(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let ids: Vec<TransferId> = self.transfers.keys().copied().collect();
        for id in ids {
            let under_way = self.transfers.get(&id);
            if let Some(incoming) = under_way.filter(|one| one.state != State::Concluded) {
                let kept = incoming.is_kept;
                self.failed(id, "the receiver was stopped", kept, tell);
            }
        }
    }
}

/// The name of a pipe's file: the last part of its label.
fn pipe_name(label: &str) -> Option<String> {
    let name = label.rsplit('/').next().unwrap_or_default();
    let is_plain = !matches!(name, "" | "." | ".." | ".groupcast") && !name.contains('\0');
    (is_plain && name.len() <= crate::Manifest::NAME_MAX).then(|| name.to_owned())
}
