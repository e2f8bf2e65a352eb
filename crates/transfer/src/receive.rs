//! Receiving: a service that takes any number of transfers into a directory, or one pipe to the
//! standard output.

mod ending;
mod event;
mod followers;
mod lists;
mod placed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_core::text::printable;
use groupcast_net::Moved;
use groupcast_protocols::bulk::{Acceptance, DeliverTo, Notice, Order, TransferId};
use groupcast_protocols::xgm::Subgroups;

pub use self::ending::STOPPED_HERE;
pub use self::event::{Described, ReceiveEvent, Received};
use self::followers::Followers;
use self::lists::Lists;
use self::placed::Placed;
use crate::about::{About, AboutConnection, AboutRequest, Content, Layout};
use crate::arrival::{ArrivalCommand, OnArrival};
use crate::disk::{Disk, Done, Expected, Former, NotStarted, Target};
use crate::host::{BulkHost, PATIENCE, TransferError, TransferLink};
use crate::incoming::{Incoming, State};
use crate::manifest::{ContentId, Limits, SPOOL};
use crate::spool::Home;

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
/// ended. `tell` gets the events. What is being put in place when `stop` is set is finished and
/// told first; what comes then is refused. Senders of what was complete less than 1.2 s ago get
/// answers for the rest of that time.
///
/// # Errors
/// If the target or the network cannot be used.
pub fn receive(
    receiving: Receiving,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(ReceiveEvent<'_>),
) -> Result<Received, TransferError> {
    let service = Service::new(receiving)?;
    if let Some(home) = service.home.as_deref()
        && home.current().is_shared()
    {
        let directory = home.path();
        tell(ReceiveEvent::Shared { directory });
    }
    tell(ReceiveEvent::Listening);
    service.run(stop, tell)
}

struct Service {
    host: BulkHost,
    home: Option<Arc<Home>>,
    receiving: Receiving,
    transfers: BTreeMap<TransferId, Incoming>,
    /// Transfers that have ended while they were put in place: the disk says how.
    ending: Vec<Incoming>,
    /// The disks' threads of transfers that have ended, while they still write.
    retired: Vec<(Option<ContentId>, JoinHandle<()>)>,
    /// Lists of files that are about to be sent, and the results of comparing.
    lists: Lists,
    placed: Placed,
    /// Transfers whose content is under way from other senders.
    followers: Followers,
    /// How many streams were to go into a file.
    streams: u64,
    totals: Received,
    /// Whether the user has stopped it.
    is_stopped: bool,
}

impl Service {
    /// How often progress is reported.
    const SHOW: Duration = Duration::from_millis(100);
    /// How long after a transfer is complete a receiver that is stopped still answers its sender,
    /// unless the sender ends the transfer before. Senders that wait for an outcome ask each second
    /// (`rto_max`) or more often.
    const LAST_WORDS: Duration = Duration::from_millis(1200);
    /// The most transfers at once; more are refused. Each may hold two times the protocol's
    /// `buffer_max`.
    const TRANSFERS_MAX: usize = 16;

    fn new(receiving: Receiving) -> Result<Self, TransferError> {
        let home = match &receiving.output {
            Output::Directory(path) => Some(Arc::new(Home::open(
                path,
                &receiving.limits,
                receiving.durable,
            )?)),
            Output::Stdout => None,
        };
        let mut host = BulkHost::open(&receiving.link)?;
        host.join(receiving.subgroups);
        Ok(Self {
            host,
            home,
            receiving,
            transfers: BTreeMap::new(),
            ending: Vec::new(),
            retired: Vec::new(),
            lists: Lists::default(),
            placed: Placed::default(),
            followers: Followers::default(),
            streams: 0,
            totals: Received::default(),
            is_stopped: false,
        })
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) -> Result<Received, TransferError> {
        loop {
            if stop.load(Ordering::Relaxed) && !self.is_stopped {
                self.give_up(tell);
            }
            if self.is_over() {
                break;
            }
            self.turn(PATIENCE, tell)?;
        }
        // The next turn sends the last datagrams to the senders.
        self.host.turn(Duration::ZERO)?;
        self.retired.extend(self.lists.end_all());
        for (_, thread) in self.retired.drain(..) {
            // Waits until everything is written. A thread reports its error before it ends.
            let _ = thread.join();
        }
        self.tell_warnings(tell);
        Ok(self.totals)
    }

    fn tell_warnings(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        let (host, home) = (&mut self.host, self.home.as_deref());
        let mut next = || host.poll_warning().or_else(|| home?.take_warning());
        while let Some(problem) = next() {
            tell(ReceiveEvent::Warning { problem: &problem });
        }
    }

    /// One turn of the loop; it waits for at most `patience`.
    fn turn(
        &mut self,
        patience: Duration,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) -> Result<(), TransferError> {
        self.host.turn(patience)?;
        while let Some(stranger) = self.host.poll_stranger() {
            tell(ReceiveEvent::Stranger(stranger));
        }
        match self.host.poll_moved() {
            Some(Moved::Back) => tell(ReceiveEvent::Rejoined { address: None }),
            Some(Moved::To(address)) => {
                let address = Some(address);
                tell(ReceiveEvent::Rejoined { address });
            }
            None => {}
        }
        if let Some(problem) = self.host.poll_trouble() {
            tell(ReceiveEvent::Trouble { problem: &problem });
        }
        self.tell_warnings(tell);
        if let Some(home) = self.home.as_deref()
            && let Some(is_shared) = home.take_news()
        {
            let directory = home.path();
            tell(ReceiveEvent::Renewed { directory });
            if is_shared {
                tell(ReceiveEvent::Shared { directory });
            }
        }
        self.take_notices(tell);
        self.take_done(tell);
        self.take_compared();
        self.follow(tell);
        Ok(())
    }

    fn is_over(&self) -> bool {
        match self.is_stopped {
            true => !self.puts_in_place() && !self.has_last_words(),
            false => self.receiving.once && self.ended() > 0 && self.is_idle(),
        }
    }

    fn is_idle(&self) -> bool {
        self.transfers.is_empty() && self.ending.is_empty()
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
                Notice::Received { id, .. } if self.followers.is_received(id) => {}
                Notice::Data { id, offset, bytes } => self.data(id, offset, bytes, tell),
                Notice::Received { id, .. } => match self.host.bulk().deliver_to(id) {
                    Some(DeliverTo::Aside) => self.verify(id),
                    _ => self.publish(id),
                },
                Notice::AllHold { id } => self.publish(id),
                Notice::Outrun { id, receiver: None } => {
                    if let Some(incoming) = self.transfers.get(&id) {
                        let transfer = &incoming.described;
                        tell(ReceiveEvent::Outrun { transfer });
                    }
                }
                Notice::Missed { id } => {
                    let address = self.host.address(id.sender);
                    tell(ReceiveEvent::Missed { address });
                    let name = self.receiving.link.name.as_bytes();
                    self.host.bulk().say_missed(id, name);
                }
                Notice::Served { id, served } => {
                    if let Some(incoming) = self.transfers.get(&id) {
                        let transfer = &incoming.described;
                        tell(ReceiveEvent::Served { transfer, served });
                    }
                }
                Notice::Failed { id, failure } => self.broke_off(id, &failure, tell),
                Notice::Ended { id } => self.ended_well(id, tell),
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
        if self.is_stopped {
            let name = self.receiving.link.name.as_bytes();
            let now = self.host.now();
            self.host.bulk().refuse(now, id, STOPPED_HERE, name);
            return;
        }
        if let Content::List { .. } = about.content {
            return self.list_announced(&described, &about);
        }
        let is_busy = self.ended() > 0 || !self.is_idle();
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
        if !self.waits(&described, &about) {
            self.begin(described, &about, tell);
        }
    }

    /// Begins a transfer that was announced, or refuses it.
    fn begin(
        &mut self,
        described: Described,
        about: &About,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let has_room = self.has_room().map_err(str::to_owned);
        if let Err(reason) = has_room.and_then(|()| self.start(&described, about)) {
            self.refuse(&described, &reason, tell);
        }
    }

    /// Starts the disk's thread of a transfer.
    ///
    /// # Errors
    /// Why it is refused.
    fn start(&mut self, described: &Described, about: &About) -> Result<(), String> {
        let target = self.target(about, described.id)?;
        let command = self.command(described);
        match Disk::open(target, command, self.host.waker()) {
            Ok(disk) => {
                let (described, now) = (described.clone(), self.host.now());
                let id = described.id;
                let incoming = Incoming::new(described, about.content, disk, now);
                self.transfers.insert(id, incoming);
                Ok(())
            }
            Err(refused) => Err(self.not_started(about.content_id(), refused)),
        }
    }

    /// A disk's thread was not started: keeps the threads that it was to wait for. Why, for people.
    fn not_started(&mut self, content: Option<ContentId>, refused: NotStarted) -> String {
        let NotStarted { error, former } = refused;
        let former = former.into_threads().into_iter();
        self.retired.extend(former.map(|thread| (content, thread)));
        format!("cannot start a thread: {error}")
    }

    /// The command for a transfer, if there is one.
    fn command(&self, described: &Described) -> Option<ArrivalCommand> {
        let on_arrival = self.receiving.on_arrival.clone()?;
        let length = described.length.map(|length| length.to_string());
        Some(ArrivalCommand {
            on_arrival,
            environment: vec![
                (
                    "GROUPCAST_GROUP",
                    self.receiving.link.group.to_string().into(),
                ),
                ("GROUPCAST_OUTCOME", "complete".into()),
                ("GROUPCAST_LABEL", described.label.clone().into()),
                ("GROUPCAST_SENDER", described.sender.clone().into()),
                ("GROUPCAST_LENGTH", length.unwrap_or_default().into()),
            ],
        })
    }

    /// Whether one more transfer may begin. One that takes over from another is none more.
    ///
    /// # Errors
    /// Why it is refused.
    fn has_room(&mut self) -> Result<(), &'static str> {
        self.retired.retain(|(_, thread)| !thread.is_finished());
        let ending = self.ending.len() + self.retired.len();
        let under_way = self.transfers.len() + self.lists.len() + self.followers.len() + ending;
        if under_way < Self::TRANSFERS_MAX {
            return Ok(());
        }
        match self.lists.make_way(self.host.now()) {
            Some(threads) => {
                self.retired.extend(threads);
                Ok(())
            }
            None => Err("this receiver takes no more transfers at once"),
        }
    }

    /// The target of a transfer, or why it is refused.
    fn target(&mut self, about: &About, id: TransferId) -> Result<Target, &'static str> {
        let home = self.home.clone();
        match (about.content, home) {
            (Content::List { .. }, None) => Err("this receiver takes a stream only"),
            (Content::Files { .. }, None) => Err("this receiver takes a stream only"),
            (Content::Pipe, None) if !self.is_idle() => {
                Err("this receiver takes one stream at a time")
            }
            (Content::Pipe, None) => Ok(Target::PipeToStdout),
            (Content::Pipe, Some(_)) if self.ending.iter().any(|it| it.described.id == id) => {
                Err("the stream is being put in place already")
            }
            (Content::Pipe, Some(home)) => {
                // A sender that comes back may offer its stream again, while what came of it before
                // is still removed.
                self.streams += 1;
                let temporary = format!("stream-{}-{}-{}", id.sender, id.number, self.streams);
                Ok(Target::PipeToFile {
                    name: pipe_name(&about.label).ok_or("a stream needs a plain name")?,
                    home,
                    temporary,
                })
            }
            (
                Content::Files {
                    id: content,
                    layout,
                    ..
                },
                Some(home),
            ) => {
                self.make_way(content);
                let expected = self.expected(home, (content, layout), true)?;
                Ok(Target::Files(expected))
            }
            (
                Content::List {
                    id: content,
                    layout,
                    hashed,
                    ..
                },
                Some(home),
            ) => {
                // One that has ended here keeps nobody waiting, though its sender, which may have
                // been killed, does not know that it has.
                let comes = |one: &Incoming| {
                    let has_come = matches!(one.state, State::Publishing | State::Concluded);
                    one.content_id() == Some(content) && !has_come
                };
                if hashed {
                    if self.transfers.values().any(comes) {
                        return Err("the same content is under way");
                    }
                    self.make_way(content);
                }
                let expected = self.expected(home, (content, layout), hashed)?;
                Ok(Target::List { expected, hashed })
            }
        }
    }

    /// The files of `content`, for the disk's thread. If it `writes`, it waits for former threads.
    fn expected(
        &mut self,
        home: Arc<Home>,
        (content, layout): (ContentId, Layout),
        writes: bool,
    ) -> Result<Expected, &'static str> {
        let limits = &self.receiving.limits;
        let (mut listed, mut paths) = (0, 0);
        let lens = self.transfers.values().map(Incoming::manifest_len);
        for len in lens
            .chain(self.lists.manifest_lens())
            .chain([layout.manifest as usize])
        {
            listed += len;
            paths += limits.paths_of(len);
        }
        if listed > limits.manifest_max {
            return Err("the lists of files of all transfers under way are too long");
        }
        if paths > limits.paths_of_all_max {
            return Err("the paths of all transfers under way may be too long");
        }
        let former = match writes {
            true => self.former(content),
            false => Former::default(),
        };
        Ok(Expected {
            placed: self.placed.get(content),
            home,
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
        incoming.moved = now;
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
                    Done::Published(manifest) => self.published(id, manifest, tell),
                    Done::Failed {
                        reason,
                        kept,
                        of_sender,
                    } => {
                        if of_sender {
                            // Those that follow it have senders of their own to ask.
                            self.followers.led_by_nobody(id, kept);
                        }
                        self.failed(id, &reason, kept, tell);
                    }
                }
            }
        }
        self.take_outcomes(tell);
    }

    /// Bytes of a pipe, or chunks that came before the manifest, are written.
    fn consumed(&mut self, now: Time, id: TransferId, bytes: u64) {
        self.host.bulk().consumed(now, id, bytes);
        if let Some(incoming) = self.transfers.get_mut(&id) {
            incoming.is_kept = incoming.content_id().is_some();
            incoming.moved = now;
        }
    }

    /// A chunk is written: takes its buffer back.
    fn written(&mut self, now: Time, id: TransferId, chunk: Vec<u8>) {
        self.host.bulk().consumed(now, id, chunk.len() as u64);
        if let Some(incoming) = self.transfers.get_mut(&id) {
            incoming.recycle(chunk);
            incoming.moved = now;
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
        incoming.moved = now;
        let acceptance = Acceptance {
            held,
            order: match incoming.content {
                Content::Files { .. } => Order::AsTheyCome,
                Content::Pipe | Content::List { .. } => Order::InOrder,
            },
            name: Bytes::copy_from_slice(self.receiving.link.name.as_bytes()),
        };
        let bulk = self.host.bulk();
        // One that has followed another has said that it holds everything.
        let accepted = bulk.accept(now, id, &acceptance);
        match accepted.or_else(|_| bulk.hold_again(now, id, &acceptance)) {
            Ok(()) => tell(ReceiveEvent::Accepted {
                transfer: &incoming.described,
                held: incoming.held,
            }),
            // Its sender has gone meanwhile.
            Err(_) => self.forget(id),
        }
    }
}

/// The name of a pipe's file: the last part of its label.
fn pipe_name(label: &str) -> Option<String> {
    let name = label.rsplit('/').next().unwrap_or_default();
    let is_taken = matches!(name, "" | "." | "..") || name.as_bytes() == SPOOL;
    let is_plain = !is_taken && !name.contains('\0');
    (is_plain && name.len() <= crate::Manifest::NAME_MAX).then(|| name.to_owned())
}
