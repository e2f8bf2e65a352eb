//! A request to a group: bytes for all members that answer, and the reply of each (003 5.3.2: a
//! multicast transaction). The members run [`answer`](fn@crate::answer).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_core::{MemberId, NodeId, Time};
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{
    BulkConfig, DeliverTo, Multidriver, Notice, Outcome, Policy, STOPPED, Transfer, TransferId,
};
use groupcast_protocols::xgm::Subgroups;

use crate::about::AboutRequest;
use crate::host::{BulkHost, PATIENCE, TransferError, TransferLink};
use crate::replies::Replies;
use crate::send::Audience;

/// A request to be made.
#[derive(Clone, Debug)]
pub struct Requesting {
    /// The request's bytes. Members refuse a request that is longer than they take: 1 MiB by
    /// default.
    pub bytes: Bytes,
    /// The members that are asked. With [`Audience::Between`] no member is asked if fewer than the
    /// least come.
    pub audience: Audience,
    /// Only members in one of these subgroups are asked. [`Subgroups::ALL`] asks everybody.
    pub subgroups: Subgroups,
    /// If given, members see no byte of the request from this offset on, nor that it is whole,
    /// before all members hold it whole that were there at the start or are required. If one of
    /// them goes before that, the request ends for all.
    pub deliver_to: Option<u64>,
    /// The longest time from now until the last reply. A reply that is not whole by then is lost.
    pub timeout: Duration,
    /// The most bytes of a reply.
    pub reply_max: usize,
    /// The most bytes that are kept of all replies that have not come whole. Beyond it the longest
    /// of them is given up ([`Became::Crowded`]).
    pub replies_max: usize,
    /// The network, and the settings: see [`settings`](Self::settings).
    pub link: TransferLink,
}

impl Requesting {
    /// The settings of a request: the policy `multidriver`, the only one with replies; 2 s for
    /// members to register; no parity.
    pub fn settings() -> BulkConfig {
        let lan = BulkConfig::lan();
        BulkConfig {
            policy: Policy::Multidriver(Multidriver::for_window(lan.window)),
            block: None,
            register_within: Duration::from_secs(2),
            ..lan
        }
    }
}

/// An event at a requester.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestEvent<'a> {
    /// A member takes part.
    Registered {
        /// The name of the member.
        member: &'a str,
        /// The address that it was heard from.
        address: Option<SocketAddr>,
    },
    /// The request goes out.
    Started {
        /// How many members it begins with.
        members: usize,
    },
    /// A reply has come whole.
    Reply {
        /// The name of the member.
        member: &'a str,
        /// The code at the reply's end; for a command, its exit code.
        code: u32,
        /// The reply's bytes.
        bytes: &'a [u8],
    },
    /// No reply will come from a member.
    Failed {
        /// The name of the member.
        member: &'a str,
        /// Why.
        became: &'a Became,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each host, and again after ten minutes.
    Stranger(Stranger),
}

/// The outcome of a request at a member.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Became {
    /// It has replied.
    Replied {
        /// The code at the reply's end.
        code: u32,
        /// The length of its reply.
        bytes: u64,
    },
    /// Its reply is longer than the requester takes.
    TooLong,
    /// Its reply was the longest of those that had not come whole when they took more than the
    /// requester keeps.
    Crowded,
    /// It was asked, and had not replied when the time was over. If the time was over before any
    /// member was asked, it is [`Outcome::TooFew`].
    TimedOut,
    /// It has not replied, and will not.
    Failed(Outcome),
}

/// The report of a request that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestReport {
    /// Every member that registered, refused or was required, and its outcome; and every host
    /// without multicast of the link that never answered, as [`Outcome::Absent`]. A member that was
    /// restarted and then replied counts as replied.
    pub members: Vec<(String, Became)>,
    /// The time from the announcement until every member was settled.
    pub took: Duration,
    /// Whether the time-out came before that.
    pub timed_out: bool,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Asks until every member has replied or is given up, the time is over, or `stop` is set. `tell`
/// gets the events. Runs on the calling thread.
///
/// ```no_run
/// # use std::error::Error;
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use std::sync::atomic::AtomicBool;
/// use std::time::Duration;
///
/// use groupcast_transfer::xgm::Subgroups;
/// use groupcast_transfer::{
///     Audience, Key, LinkReach, RequestEvent, Requesting, TransferLink, request,
/// };
///
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let requesting = Requesting {
///     bytes: "how full are your disks?".into(),
///     audience: Audience::Between { min: 2, max: 20 },
///     subgroups: Subgroups::ALL,
///     deliver_to: None,
///     timeout: Duration::from_secs(10),
///     reply_max: 64 << 10,
///     replies_max: 16 << 20,
///     link: TransferLink {
///         name: "console".into(),
///         interface: Ipv4Addr::LOCALHOST,
///         group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 4), 4822),
///         key: Some(Key::load("cluster.key".as_ref())?),
///         bulk: Requesting::settings(),
///         fit_packet: true,
///         ttl: 1,
///         dscp: 0,
///         reach: LinkReach::default(),
///     },
/// };
/// let report = request(requesting, &AtomicBool::new(false), &mut |event| {
///     if let RequestEvent::Reply { member, bytes, .. } = event {
///         println!("{member}: {} bytes", bytes.len());
///     }
/// })?;
/// println!("{:?}", report.members);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the network cannot be used, or the settings or the audience are invalid.
pub fn request(
    requesting: Requesting,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(RequestEvent<'_>),
) -> Result<RequestReport, TransferError> {
    let host = BulkHost::open(&requesting.link)?;
    let mut requester = Requester::begin(host, requesting)?;
    loop {
        requester.take_notices(tell);
        if requester.is_over {
            requester.tell_absent(tell);
            // The next turn sends the last datagrams to the members.
            requester.host.turn(Duration::ZERO)?;
            return Ok(requester.report());
        }
        let now = requester.host.now();
        if stop.load(Ordering::Relaxed) && !requester.stopped {
            requester.stopped = true;
            requester.host.bulk().cancel(now, requester.id, STOPPED);
            continue;
        }
        if now >= requester.until && !requester.timed_out {
            requester.timed_out = true;
            let reason = "its time is over";
            requester.host.bulk().cancel(now, requester.id, reason);
            continue;
        }
        requester.supply(now);
        let left = requester.until - now;
        requester.host.turn(left.min(PATIENCE))?;
        while let Some(stranger) = requester.host.poll_stranger() {
            tell(RequestEvent::Stranger(stranger));
        }
    }
}

struct Requester {
    host: BulkHost,
    id: TransferId,
    /// The request, and the byte that ends it.
    stream: Bytes,
    names: BTreeMap<MemberId, String>,
    required: BTreeMap<NodeId, String>,
    /// Replies whose end has not come.
    replying: Replies,
    replied: BTreeSet<NodeId>,
    became: Vec<(MemberId, String, Became)>,
    begun: Instant,
    until: Time,
    /// The request has gone out.
    has_started: bool,
    is_over: bool,
    timed_out: bool,
    stopped: bool,
}

impl Requester {
    fn begin(mut host: BulkHost, requesting: Requesting) -> Result<Self, TransferError> {
        let (receivers, required) = requesting.audience.wanted();
        let about = AboutRequest {
            host: requesting.link.name,
        };
        let stream = AboutRequest::stream(&requesting.bytes);
        let transfer = Transfer {
            about: about.encode(),
            length: Some(stream.len() as u64),
            rewindable: true,
            receivers,
            subgroups: requesting.subgroups,
            confirm: false,
            deliver_to: match requesting.deliver_to {
                // Never beyond the byte that ends the request, which members wait for.
                Some(first) => DeliverTo::UpTo {
                    first: first.min(requesting.bytes.len() as u64),
                    step: None,
                },
                None => DeliverTo::AtOnce,
            },
            replies: true,
            strict: false,
        };
        let now = host.now();
        let id = host.bulk().send(now, transfer)?;
        Ok(Self {
            host,
            id,
            stream,
            names: BTreeMap::new(),
            required,
            replying: Replies::new(requesting.reply_max, requesting.replies_max),
            replied: BTreeSet::new(),
            became: Vec::new(),
            begun: Instant::now(),
            until: now + requesting.timeout,
            has_started: false,
            is_over: false,
            timed_out: false,
            stopped: false,
        })
    }

    /// Offers the bytes of the request that the protocol wants.
    fn supply(&mut self, now: Time) {
        while let Some(wanted) = self.host.bulk().wanted(self.id) {
            let end = (wanted.end as usize).min(self.stream.len());
            let start = (wanted.start as usize).min(end);
            let part = self.stream.slice(start..end);
            // The request may end with any offer; its notices say so.
            if part.is_empty() || self.host.bulk().offer(now, self.id, part).is_err() {
                return;
            }
        }
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(RequestEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Registered { receiver, name, .. } => {
                    let address = self.host.address(receiver);
                    let name = self.host.unique_name(&self.names, receiver, &name);
                    let member = &name;
                    tell(RequestEvent::Registered { member, address });
                    self.names.insert(receiver, name);
                }
                Notice::Started { receivers, .. } => {
                    self.has_started = true;
                    let members = receivers;
                    tell(RequestEvent::Started { members });
                }
                Notice::Reply {
                    id,
                    receiver,
                    bytes,
                    ..
                } if id == self.id => self.take_reply(receiver, &bytes),
                Notice::ReplyEnded {
                    id, receiver, code, ..
                } if id == self.id => self.reply_ended(receiver, code, tell),
                Notice::Settled {
                    receiver,
                    outcome,
                    name,
                    ..
                } => self.settled(receiver, outcome, &name, tell),
                Notice::Sent { id } if id == self.id => self.is_over = true,
                // Events of other senders' transfers are ignored.
                _ => {}
            }
        }
    }

    /// The next bytes of a reply.
    fn take_reply(&mut self, receiver: MemberId, bytes: &[u8]) {
        let now = self.host.now();
        self.host
            .bulk()
            .reply_consumed(now, self.id, bytes.len() as u64);
        self.replying.take(receiver, bytes);
    }

    fn reply_ended(
        &mut self,
        receiver: MemberId,
        code: u32,
        tell: &mut dyn FnMut(RequestEvent<'_>),
    ) {
        self.replied.insert(receiver.node);
        let name = self.name_of(receiver, b"");
        let member = &name;
        let became = match self.replying.end(receiver) {
            Err(became) => {
                tell(RequestEvent::Failed {
                    member,
                    became: &became,
                });
                became
            }
            Ok(bytes) => {
                tell(RequestEvent::Reply {
                    member,
                    code,
                    bytes: &bytes,
                });
                let bytes = bytes.len() as u64;
                Became::Replied { code, bytes }
            }
        };
        self.became.push((receiver, name, became));
    }

    /// A member is settled. If it has replied, its outcome is known already.
    fn settled(
        &mut self,
        receiver: MemberId,
        outcome: Outcome,
        name: &[u8],
        tell: &mut dyn FnMut(RequestEvent<'_>),
    ) {
        self.replying.forget(receiver);
        let has_replied = self.became.iter().any(|(member, ..)| *member == receiver);
        if has_replied || is_former(&outcome, receiver, &self.replied) {
            return;
        }
        let name = self.name_of(receiver, name);
        let became = match outcome {
            Outcome::Cancelled if self.timed_out && self.has_started => Became::TimedOut,
            // The time was over while the request waited for members: none was asked.
            Outcome::Cancelled if self.timed_out => Became::Failed(Outcome::TooFew),
            outcome => Became::Failed(outcome),
        };
        tell(RequestEvent::Failed {
            member: &name,
            became: &became,
        });
        self.became.push((receiver, name, became));
    }

    /// Hosts without multicast that have never answered.
    fn tell_absent(&mut self, tell: &mut dyn FnMut(RequestEvent<'_>)) {
        for (member, name) in self.host.absent() {
            let became = Became::Failed(Outcome::Absent);
            tell(RequestEvent::Failed {
                member: &name,
                became: &became,
            });
            self.became.push((member, name, became));
        }
    }

    /// The name of a member: as it registered, as it was required, or as it says now.
    fn name_of(&self, member: MemberId, name: &[u8]) -> String {
        let known = self.names.get(&member);
        let known = known.or_else(|| self.required.get(&member.node)).cloned();
        known.unwrap_or_else(|| match name {
            [] => member.to_string(),
            name => self.host.unique_name(&self.names, member, name),
        })
    }

    fn report(self) -> RequestReport {
        let mut became = self.became;
        // A restarted member may have replied after its former life was given up.
        became.retain(|(member, _, became)| match became {
            Became::Failed(outcome) => !is_former(outcome, *member, &self.replied),
            _ => true,
        });
        RequestReport {
            members: became
                .into_iter()
                .map(|(_, name, became)| (name, became))
                .collect(),
            took: self.begun.elapsed(),
            timed_out: self.timed_out,
            stopped: self.stopped,
        }
    }
}

/// Whether the outcome is that of a former life of a member that was restarted and has `replied`.
fn is_former(outcome: &Outcome, member: MemberId, replied: &BTreeSet<NodeId>) -> bool {
    let is_gone = matches!(outcome, Outcome::Vanished | Outcome::Absent);
    is_gone && replied.contains(&member.node)
}
