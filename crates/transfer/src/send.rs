//! Sending: files or a pipe, to the receivers that register or are required, until each of them is
//! settled.

mod below;
mod comparison;
mod settled;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast_core::{MemberId, NodeId, Time};
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{
    DeliverTo, Notice, Outcome, PhaseKind, Progress, RateControl, STOPPED, Transfer, TransferId,
    Wanted,
};
use groupcast_protocols::xgm::Subgroups;

use self::below::all_by_name;
use self::comparison::{Compared, Comparison};
pub(crate) use self::settled::called;
use self::settled::{AfterList, Settled, tell_settled, unanswered};
pub(crate) use self::waits::Waits;
use crate::about::{About, Content};
use crate::content::Files;
use crate::host::{BulkHost, PATIENCE, TransferError, TransferLink};
use crate::manifest::Scan;
use crate::pace::{Pace, Rates};
use crate::read_ahead::{FileSource, PipeSource, Supply};

/// The content that is sent.
pub enum Cargo {
    /// Files and directories.
    Files(Scan),
    /// A pipe, to its end. It can be read only once, so a receiver that is late or too slow is
    /// given up.
    Pipe(Box<dyn Read + Send>),
}

/// The receivers of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// All receivers that register in time.
    Anybody,
    /// This many receivers.
    Count(usize),
    /// These receivers, by name, each counted once; others may come.
    Required(Vec<String>),
    /// These receivers and no others, by name, if they are in the transfer's subgroups. Each comes
    /// with the subgroups that it is known to be in.
    Listed(Vec<(String, Subgroups)>),
    /// At least `min`, or nobody is served; at most `max`. It begins when `max` are there, or
    /// `register_within` is over.
    Between {
        /// The fewest.
        min: usize,
        /// The most; not fewer.
        max: usize,
    },
}

/// A transfer to be sent.
pub struct Sending {
    /// What is sent: files or a pipe.
    pub cargo: Cargo,
    /// A name for it, for people.
    pub label: String,
    /// The receivers that it is for.
    pub audience: Audience,
    /// Only receivers in one of these subgroups are counted and served. [`Subgroups::ALL`] serves
    /// everybody.
    pub subgroups: Subgroups,
    /// Whether no receiver puts anything in place before every receiver that is required, or was
    /// there at the start, has verified all of it. If one of them goes before that, the transfer
    /// ends for all. A pipe is refused.
    pub together: bool,
    /// Whether the transfer ends for all if a required receiver goes: one that is named; or so many
    /// that fewer than the counted ones are left; or, with [`Audience::Anybody`], one that was
    /// there at the start. The others are told who has gone.
    pub strict: bool,
    /// The most receivers that may fail; one more ends the transfer for all. They keep what has
    /// come for the next attempt. Default: any number.
    pub failed_max: Option<usize>,
    /// Whether receivers are asked first what they hold of the files, so that it is not sent again.
    /// If any may hold something, all files are read once more, for their hashes. Has no effect for
    /// a pipe or [`Audience::Between`].
    pub compare: bool,
    /// Changes the rate while the transfer runs. Default: the rate of the link's settings
    /// throughout.
    pub rates: Option<Rates>,
    /// The network, and the protocol with its settings.
    pub link: TransferLink,
}

/// An event at a sender.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendEvent<'a> {
    /// The transfer is announced, and receivers may register.
    Announced {
        /// The bytes of all files; `None` for a pipe.
        bytes: Option<u64>,
        /// How many entries the manifest has; 0 for a pipe.
        entries: usize,
    },
    /// Receivers have not come: told after two seconds, and again when others are missing.
    Waiting {
        /// The names of those that are named.
        names: &'a [&'a str],
        /// How many are missing of those that are named or counted (at most so many, if fewer may
        /// do). 0 if any one will do, or if as many are here as are needed, and others may come.
        missing: usize,
        /// How many are here.
        here: usize,
        /// How long they are still waited for.
        left: Duration,
    },
    /// The files are being read, to be compared with what receivers have: told once, if that takes
    /// longer than two seconds.
    Comparing {
        /// The bytes of all files.
        bytes: u64,
    },
    /// Everything is sent, and receivers have not concluded: told after two seconds, and again when
    /// these are others, at most once a second.
    Unconcluded {
        /// The names of those that have not.
        names: &'a [&'a str],
        /// Whether they look what they have of the files, before these are sent. If not, they put
        /// in place what came, or run a command.
        compare: bool,
    },
    /// A receiver takes part.
    Registered {
        /// The name of the receiver.
        receiver: &'a str,
        /// The address that it was heard from.
        address: Option<SocketAddr>,
        /// Whether it gets copies, because multicasts do not reach it.
        copies: bool,
        /// If it was started again during this transfer: the name that it had before.
        back: Option<&'a str>,
    },
    /// The first data goes out.
    Started {
        /// How many receivers it begins with.
        receivers: usize,
    },
    /// The progress, about ten times a second.
    Progress {
        /// The progress of each receiver, as the protocol knows it.
        progress: &'a Progress,
        /// The names of these receivers, in the same order.
        names: &'a [&'a str],
        /// How many bytes of the stream were sent so far, without repeated packets.
        sent: u64,
        /// How many datagrams were sent as copies so far, to receivers that multicasts do not
        /// reach.
        copies: u64,
    },
    /// A receiver is settled.
    Settled {
        /// The name of the receiver.
        receiver: &'a str,
        /// The outcome at the receiver.
        outcome: &'a Outcome,
        /// Which of its lives that is.
        life: Life,
    },
    /// A receiver misses data that was released before it had it (protocol `xtp`). Files are sent
    /// to it again after the others are done; of a pipe it gets nothing more.
    Outrun {
        /// The name of the receiver.
        receiver: &'a str,
    },
    /// A receiver says that it came too late for a pipe, or below a relay, which cannot go back. It
    /// gets nothing, and is none of the receivers; not told if its word is lost.
    CameLate {
        /// The name of the receiver; below a relay `relay/name`.
        receiver: &'a str,
        /// The address that it was heard from; `None` below a relay.
        address: Option<SocketAddr>,
    },
    /// [`Sending::rates`] has changed the rate.
    Rate {
        /// The rate from now on; `None` while the transfer pauses.
        rate: Option<RateControl>,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each host, and again after ten minutes.
    Stranger(Stranger),
    /// The sender cannot join the group or leave it, or not at the address that its interface has
    /// now. It tries again each second; reported once until that works.
    Trouble {
        /// What it cannot, and why, in words.
        problem: &'a str,
    },
    /// Something that goes on in spite of it, and that a user could do something about: the receive
    /// buffer is smaller than asked for.
    Warning {
        /// What it is, in words.
        problem: &'a str,
    },
}

/// Which life of a receiver took part, if it was started again during the transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It was not started again.
    Only,
    /// Another has come since: what became of this one matters no more.
    Former,
    /// It has come back.
    Back,
}

impl Life {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Former => "former",
            Self::Back => "back",
        }
    }
}

/// The report of a transfer that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendReport {
    /// Every receiver that registered or was required, and its outcome; and every host without
    /// multicast that was named ([`LinkReach`](crate::LinkReach)) and has never answered, as
    /// [`Outcome::Absent`]. A receiver below a relay is named `relay/receiver`. A relay whose
    /// account of all receivers below it has come is left out.
    pub receivers: Vec<(String, Outcome)>,
    /// The length of the stream, hashes and manifest included.
    pub bytes: u64,
    /// How many bytes were sent, without repeated packets. Fewer than `bytes` if the receivers held
    /// the rest; more if a later pass sent some again.
    pub sent: u64,
    /// How many packets were sent, repeated ones included.
    pub packets: u64,
    /// How many packets were sent again.
    pub repeated: u64,
    /// How many datagrams were sent as copies, to receivers that multicasts do not reach.
    pub copies: u64,
    /// The time from the first data until every receiver was settled.
    pub took: Duration,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Sends until every receiver is settled, or `stop` is set. `tell` gets the events.
///
/// # Errors
/// If the network cannot be used, or the content cannot be read; receivers are told then, and put
/// nothing in place.
pub fn send(
    sending: Sending,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(SendEvent<'_>),
) -> Result<SendReport, TransferError> {
    let mut host = BulkHost::open(&sending.link)?;
    host.count_group(&sending.audience, stop)?;
    let mut sender = match Sender::begin(host, sending, stop, tell)? {
        Begun::Sending(sender) => sender,
        Begun::Nobody(report) => return Ok(report),
    };
    loop {
        sender.take_accounts(tell);
        sender.take_notices(tell);
        sender.give_up_if_too_many_failed();
        if let Some(report) = sender.report.take() {
            // The next turn sends the last datagrams to the receivers.
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
        sender.begin_if_it_is_time();
        sender.pace.follow(&mut sender.host, sender.id, tell)?;
        sender.show_progress(tell);
        sender.tell_waits(tell);
        sender.host.turn(PATIENCE)?;
        tell_trouble(&mut sender.host, tell);
    }
}

/// Tells of strangers in the group, of what keeps this host from it, and warnings.
pub(crate) fn tell_trouble(host: &mut BulkHost, tell: &mut dyn FnMut(SendEvent<'_>)) {
    while let Some(stranger) = host.poll_stranger() {
        tell(SendEvent::Stranger(stranger));
    }
    if let Some(problem) = host.poll_trouble() {
        tell(SendEvent::Trouble { problem: &problem });
    }
    while let Some(problem) = host.poll_warning() {
        tell(SendEvent::Warning { problem: &problem });
    }
}

enum Source {
    Files(FileSource),
    Pipe(PipeSource),
}

/// A transfer that has begun, or has ended because no receiver is there.
enum Begun {
    Sending(Box<Sender>),
    Nobody(SendReport),
}

/// What a host has sent so far.
#[derive(Clone, Copy)]
struct Traffic {
    /// Packets, repeated ones included.
    packets: u64,
    /// Packets that were sent again.
    repeated: u64,
    /// Datagrams that were sent as copies.
    copies: u64,
}

impl Traffic {
    fn of(host: &mut BulkHost) -> Self {
        let counters = host.bulk().counters();
        let (packets, repeated) = (counters.packets_sent, counters.packets_repeated);
        Self {
            packets,
            repeated,
            copies: host.copies_sent(),
        }
    }
}

/// A transfer under way.
struct Sender {
    host: BulkHost,
    id: TransferId,
    source: Source,
    names: BTreeMap<MemberId, String>,
    /// The life of each receiver that registered last.
    latest: BTreeMap<NodeId, MemberId>,
    required: BTreeMap<NodeId, String>,
    settled: Vec<Settled>,
    /// When it begins at the latest, though a receiver is missing.
    begin_at: Option<Time>,
    /// Receivers that have said what they have, where one that is required has not.
    has_answered: BTreeSet<NodeId>,
    /// Receivers that have refused the list of the files, of which the user was told.
    refused: Vec<Settled>,
    begun: Option<Instant>,
    waits: Waits,
    /// What the host had sent before: for the lists.
    of_lists: Traffic,
    shown: Time,
    /// The length of the stream, if it is known, and how many bytes the protocol has taken.
    length: Option<u64>,
    read: u64,
    report: Option<SendReport>,
    stopped: bool,
    /// Whether a receiver below a relay that fails ends it for all.
    is_strict: bool,
    /// How many receivers may fail; `None` for any number, or once it was exceeded.
    failed_max: Option<usize>,
    pace: Pace,
    failure: Option<TransferError>,
}

impl Sender {
    /// How often progress is reported.
    const SHOW: Duration = Duration::from_millis(100);
    /// How long receivers may take to register for a transfer that will be ended, because one that
    /// is required did not come: they are told so.
    const TOLD_WITHIN: Duration = Duration::from_secs(3);
    /// The most bytes that are offered between two turns, so that the network is read in time.
    const OFFER_MAX: usize = 1 << 20;

    fn begin(
        mut host: BulkHost,
        sending: Sending,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) -> Result<Begun, TransferError> {
        let mut pace = Pace::new(sending.rates);
        let (receivers, required) = sending.audience.wanted();
        let mut after = AfterList::none(receivers);
        let mut about = About {
            host: sending.link.name.clone(),
            label: sending.label,
            content: Content::Pipe,
        };
        let thread = TransferError::system("start a thread");
        let mut length = None;
        let source = match sending.cargo {
            Cargo::Files(scan) => {
                let entries = scan.manifest.entries().len();
                let mut files = Box::new(Files::new(scan));
                about.content = files.content();
                length = Some(files.layout().len());
                let bytes = Some(files.layout().content);
                tell(SendEvent::Announced { bytes, entries });
                if sending.compare && !matches!(after.receivers, Wanted::Between { .. }) {
                    let comparison = Comparison {
                        wanted: after.receivers,
                        subgroups: sending.subgroups,
                        required: &required,
                        ends_for_all: sending.together || sending.strict,
                    };
                    let compared =
                        comparison.ask(&mut host, &about, files, &mut pace, stop, tell)?;
                    (after, files) = match compared {
                        Compared::Present(after, files) => (after, files),
                        Compared::Nobody(report) => return Ok(Begun::Nobody(report)),
                    };
                }
                Source::Files(FileSource::new(*files, host.waker()).map_err(thread)?)
            }
            Cargo::Pipe(pipe) => {
                let (bytes, entries) = (None, 0);
                tell(SendEvent::Announced { bytes, entries });
                Source::Pipe(PipeSource::new(pipe, host.waker()).map_err(thread)?)
            }
        };
        let transfer = Transfer {
            about: about.encode(),
            length,
            rewindable: matches!(source, Source::Files(_)),
            receivers: after.receivers,
            subgroups: sending.subgroups,
            confirm: true,
            replies: false,
            strict: sending.strict,
            deliver_to: match sending.together {
                true => DeliverTo::Aside,
                false => DeliverTo::AtOnce,
            },
        };
        let now = host.now();
        let of_lists = Traffic::of(&mut host);
        let most = sending.link.bulk.receivers_max;
        let least = match transfer.receivers {
            Wanted::Between { min, max } => (max >= most).then_some(min),
            _ => None,
        };
        let id = host.bulk().send(now, transfer)?;
        host.accounts().open(id.number);
        if sending.strict {
            // Not every protocol notices while data goes out that a single receiver has gone.
            host.monitor(id);
        }
        pace.follow(&mut host, id, tell)?;
        let told_within = Self::TOLD_WITHIN.min(sending.link.bulk.register_within);
        Ok(Begun::Sending(Box::new(Self {
            begin_at: after.is_short.then(|| now + told_within),
            has_answered: after.has_answered,
            refused: after.refused,
            host,
            id,
            source,
            names: BTreeMap::new(),
            latest: BTreeMap::new(),
            required,
            settled: after.settled,
            begun: None,
            waits: Waits::new(now).needs(least),
            of_lists,
            shown: now,
            length,
            read: 0,
            report: None,
            stopped: false,
            is_strict: sending.strict,
            failed_max: sending.failed_max,
            pace,
            failure: None,
        })))
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Registered { receiver, name, .. } => self.registered(receiver, &name, tell),
                Notice::Started { receivers, .. } => {
                    self.begun = Some(Instant::now());
                    tell(SendEvent::Started { receivers });
                    self.give_up_if_one_below_has_gone();
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
                Notice::Sent { id } if id == self.id => self.report = Some(self.conclude(tell)),
                Notice::CameLate { id, receiver, name } if id == self.id => {
                    tell(SendEvent::CameLate {
                        receiver: &self.host.unique_name(&self.names, receiver, &name),
                        address: self.host.address(receiver),
                    });
                }
                // Other senders' transfers are no business of this one.
                _ => {}
            }
        }
    }

    fn life(&self, receiver: MemberId) -> Life {
        let is_other = |it: &MemberId| it.node == receiver.node && *it != receiver;
        match self.latest.get(&receiver.node) {
            Some(latest) if *latest != receiver => Life::Former,
            Some(_) if self.names.keys().any(is_other) => Life::Back,
            _ => Life::Only,
        }
    }

    fn registered(&mut self, receiver: MemberId, name: &[u8], tell: &mut dyn FnMut(SendEvent<'_>)) {
        self.host.accounts().admit(self.id.number, receiver);
        let address = self.host.address(receiver);
        let name = self.host.unique_name(&self.names, receiver, name);
        let former = self.latest.insert(receiver.node, receiver);
        let former = former.filter(|former| *former != receiver);
        tell(SendEvent::Registered {
            receiver: &name,
            address,
            copies: self.host.gets_copies(receiver),
            back: former
                .and_then(|it| self.names.get(&it))
                .map(String::as_str),
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
        // One that was heard, and has not registered before all is ended, is no reason for that.
        let outcome = match outcome {
            Outcome::Absent if self.has_answered.contains(&receiver.node) => Outcome::Cancelled,
            outcome => outcome,
        };
        let known = self.names.get(&receiver);
        let known = known.or_else(|| self.required.get(&receiver.node)).cloned();
        let name = known.unwrap_or_else(|| match name {
            [] => receiver.to_string(),
            name => self.host.unique_name(&self.names, receiver, name),
        });
        let mut refused = self.refused.iter();
        if !refused.any(|(it, _, was)| *it == receiver && *was == outcome) {
            tell(SendEvent::Settled {
                receiver: &name,
                outcome: &outcome,
                life: self.life(receiver),
            });
        }
        self.settled.push((receiver, name, outcome));
    }

    /// How many bytes of the stream have left so far, without repeated packets. The protocol takes
    /// some ahead.
    fn sent(&mut self) -> u64 {
        let all = Traffic::of(&mut self.host);
        let first = |traffic: Traffic| traffic.packets - traffic.repeated;
        let packets = first(all) - first(self.of_lists);
        let packet = self.host.bulk().config().packet as u64;
        self.read.min(packets * packet)
    }

    fn conclude(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) -> SendReport {
        let all = Traffic::of(&mut self.host);
        let sent = self.sent();
        let accounts = self.host.accounts().close(self.id.number);
        let mut settled = std::mem::take(&mut self.settled);
        let never_came = unanswered(&self.host);
        never_came.iter().for_each(|one| tell_settled(one, tell));
        settled.extend(never_came);
        SendReport {
            receivers: all_by_name(settled, &self.names, &accounts),
            bytes: self.length.unwrap_or(self.read),
            sent,
            packets: all.packets - self.of_lists.packets,
            repeated: all.repeated - self.of_lists.repeated,
            copies: all.copies - self.of_lists.copies,
            took: self.begun.map(|begun| begun.elapsed()).unwrap_or_default(),
            stopped: self.stopped,
        }
    }

    /// How many hosts without multicast had the time to answer, and have not.
    fn unanswered(&mut self) -> usize {
        let time = self.host.bulk().config().present_within;
        let is_over = self.begun.is_some_and(|begun| begun.elapsed() >= time);
        match is_over {
            true => self.host.awaited().len(),
            false => 0,
        }
    }

    fn give_up_if_too_many_failed(&mut self) {
        // Before the first data a receiver may not have registered yet, and would not hear that the
        // transfer ends.
        let Some(max) = self.failed_max.filter(|_| self.begun.is_some()) else {
            return;
        };
        if self.failures() > max {
            self.failed_max = None;
            self.give_up(&format!("{STOPPED}: more than {max} receivers failed"));
        }
    }

    /// Whether all that answered the list have come again, and hear how the transfer ends.
    fn are_told(&self) -> bool {
        let is_settled = |node| self.settled.iter().any(|(it, ..)| it.node == node);
        let mut answered = self.has_answered.iter();
        answered.all(|node| self.latest.contains_key(node) || is_settled(*node))
    }

    fn begin_if_it_is_time(&mut self) {
        let now = self.host.now();
        if self.begin_at.is_some_and(|at| at <= now || self.are_told()) {
            self.begin_at = None;
            self.host.bulk().begin(now, self.id);
        }
    }

    fn give_up(&mut self, reason: &str) {
        let now = self.host.now();
        self.host.bulk().cancel(now, self.id, reason);
    }

    /// Offers the bytes that the protocol wants and the source has.
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

    fn tell_waits(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) {
        let (host, required) = (&mut self.host, &self.required);
        self.waits.tell(host, self.id, required, tell);
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
        let names = &self.names;
        let name_of = |member| names.get(&member).cloned().unwrap_or_default();
        let at = (now, false);
        self.waits.tell_unconcluded(&progress, at, &name_of, tell);
        if progress.phase != PhaseKind::Announcing {
            let sent = self.sent();
            let name = |member| self.names.get(member).map_or("", String::as_str);
            let names: Vec<&str> = progress
                .receivers
                .iter()
                .map(|receiver| name(&receiver.receiver))
                .collect();
            tell(SendEvent::Progress {
                progress: &progress,
                names: &names,
                sent,
                copies: self.host.copies_sent() - self.of_lists.copies,
            });
        }
    }
}
