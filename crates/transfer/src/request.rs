//! A request to a group: bytes for all members that answer, and what each of them replies (003
//! 5.3.2: a multicast transaction). The members run [`answer`](fn@crate::answer).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId, Time};
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{
    BulkConfig, DeliverTo, Multidriver, Notice, Outcome, Policy, STOPPED, Transfer, TransferId,
};
use groupcast_protocols::xgm::Subgroups;

use crate::about::AboutRequest;
use crate::host::{BulkHost, TransferError, TransferLink};
use crate::send::Audience;

/// A request to be made.
#[derive(Clone, Debug)]
pub struct Requesting {
    /// What is asked. Members refuse what is longer than they take: 1 MiB, unless they say
    /// otherwise.
    pub bytes: Bytes,
    /// Who is asked. With [`Audience::Between`] nobody is, if fewer than the least come.
    pub audience: Audience,
    /// Only members in one of these subgroups are asked, and answer. Of all 64: everybody.
    pub subgroups: Subgroups,
    /// If given, members see no byte of the request from here on before all that were there at the
    /// start, or are required, hold it whole, and not that it is whole before that either. One that
    /// is gone before ends the request for all.
    pub deliver_to: Option<u64>,
    /// From now until the last reply. Whoever has not replied whole by then has not replied.
    pub timeout: Duration,
    /// The most bytes of a reply. So much is kept for each member that is replying.
    pub reply_max: usize,
    /// Over which network, by which settings: see [`settings`](Self::settings).
    pub link: TransferLink,
}

impl Requesting {
    /// Settings of a request: the policy `multidriver`, which is the one that has replies, 2 s for
    /// members to come, without parity.
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

/// Something that a requester's user may want to see.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestEvent<'a> {
    /// A member takes part.
    Registered {
        /// The name of the member.
        member: &'a str,
        /// Where it was heard.
        address: Option<SocketAddr>,
    },
    /// The request goes out.
    Started {
        /// Members that it begins with.
        members: usize,
    },
    /// A reply is here whole.
    Reply {
        /// The name of the member.
        member: &'a str,
        /// What it said of the end; of a command, its exit code.
        code: u32,
        /// What it replied.
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
    /// each of the two.
    Stranger(Stranger),
}

/// What became of the request at a member.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Became {
    /// It has replied.
    Replied {
        /// What it said of the end.
        code: u32,
        /// Bytes of its reply.
        bytes: u64,
    },
    /// Its reply is longer than the requester takes.
    TooLong,
    /// It was asked, and had not replied when the time was over. Where that was over before
    /// anybody was asked, it is [`Outcome::TooFew`].
    TimedOut,
    /// It has not replied, and will not.
    Failed(Outcome),
}

/// How a request ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestReport {
    /// Every member that registered, refused or was required, and what became of it. One that was
    /// restarted and has replied has replied.
    pub members: Vec<(String, Became)>,
    /// From the announcement until everybody was settled.
    pub took: Duration,
    /// Whether the time was over before that.
    pub timed_out: bool,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Asks until every member has replied or is given up, the time is over, or `stop` is set. `tell`
/// hears what happens. Runs on the calling thread.
///
/// ```no_run
/// # use std::error::Error;
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use std::sync::atomic::AtomicBool;
/// use std::time::Duration;
///
/// use groupcast_transfer::xgm::Subgroups;
/// use groupcast_transfer::{Audience, Key, RequestEvent, Requesting, TransferLink, request};
///
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let requesting = Requesting {
///     bytes: "how full are your disks?".into(),
///     audience: Audience::Between { min: 2, max: 20 },
///     subgroups: Subgroups::ALL,
///     deliver_to: None,
///     timeout: Duration::from_secs(10),
///     reply_max: 64 << 10,
///     link: TransferLink {
///         name: "console".into(),
///         interface: Ipv4Addr::LOCALHOST,
///         group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 4), 4822),
///         key: Some(Key::load("cluster.key".as_ref())?),
///         bulk: Requesting::settings(),
///         fit_packet: true,
///         ttl: 1,
///         dscp: 0,
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
/// If the network cannot be used, or the settings or the audience make no sense.
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
            // The last word to the members is on its way with the next turn.
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
        requester.host.turn(left.min(Requester::PATIENCE))?;
        while let Some(stranger) = requester.host.poll_stranger() {
            tell(RequestEvent::Stranger(stranger));
        }
    }
}

struct Requester {
    host: BulkHost,
    id: TransferId,
    /// The request, and what ends it.
    stream: Bytes,
    reply_max: usize,
    names: BTreeMap<MemberId, String>,
    required: BTreeMap<NodeId, String>,
    /// Replies of which the end has not come; `None`: it is too long.
    replying: BTreeMap<MemberId, Option<Vec<u8>>>,
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
    /// How long a turn may wait: how late a stop request is seen.
    const PATIENCE: Duration = Duration::from_millis(100);

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
                // Never beyond the byte that ends the request: that is what members wait for.
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
            reply_max: requesting.reply_max,
            names: BTreeMap::new(),
            required,
            replying: BTreeMap::new(),
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

    /// Offers what is wanted of the request.
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
                    let name = self.unique_name(receiver, &name);
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
                // Other senders' transfers are no business of this one.
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
        let reply = self.replying.entry(receiver);
        let reply = reply.or_insert_with(|| Some(Vec::new()));
        match reply {
            Some(it) if it.len() + bytes.len() <= self.reply_max => it.extend_from_slice(bytes),
            _ => *reply = None,
        }
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
        let became = match self.replying.remove(&receiver) {
            Some(None) => {
                let became = &Became::TooLong;
                tell(RequestEvent::Failed { member, became });
                Became::TooLong
            }
            reply => {
                let bytes = &reply.flatten().unwrap_or_default();
                tell(RequestEvent::Reply {
                    member,
                    code,
                    bytes,
                });
                let bytes = bytes.len() as u64;
                Became::Replied { code, bytes }
            }
        };
        self.became.push((receiver, name, became));
    }

    /// What became of a member. Of one that has replied that is told.
    fn settled(
        &mut self,
        receiver: MemberId,
        outcome: Outcome,
        name: &[u8],
        tell: &mut dyn FnMut(RequestEvent<'_>),
    ) {
        self.replying.remove(&receiver);
        let has_replied = self.became.iter().any(|(member, ..)| *member == receiver);
        if has_replied || is_former(&outcome, receiver, &self.replied) {
            return;
        }
        let name = self.name_of(receiver, name);
        let became = match outcome {
            Outcome::Cancelled if self.timed_out && self.has_started => Became::TimedOut,
            // The time was over while others were waited for: nobody was asked.
            Outcome::Cancelled if self.timed_out => Became::Failed(Outcome::TooFew),
            outcome => Became::Failed(outcome),
        };
        tell(RequestEvent::Failed {
            member: &name,
            became: &became,
        });
        self.became.push((receiver, name, became));
    }

    /// What a member is called: as it registered, as it was required, or as it says now.
    fn name_of(&self, member: MemberId, name: &[u8]) -> String {
        let known = self.names.get(&member);
        let known = known.or_else(|| self.required.get(&member.node)).cloned();
        known.unwrap_or_else(|| match name {
            [] => member.to_string(),
            name => self.unique_name(member, name),
        })
    }

    /// What a member that calls itself `name` is called here: no two have one name.
    fn unique_name(&self, member: MemberId, name: &[u8]) -> String {
        let name = printable(name);
        let is_taken = self.names.values().any(|other| *other == name);
        if !name.is_empty() && !is_taken {
            return name;
        }
        let address = self.host.address(member);
        let address = address.map_or_else(|| member.to_string(), |at| at.to_string());
        format!("{name}@{address}")
    }

    fn report(self) -> RequestReport {
        let mut became = self.became;
        // It may have replied only after its former life was given up.
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

/// Whether what became of `member` is that of a former life: it was restarted, and has `replied`.
fn is_former(outcome: &Outcome, member: MemberId, replied: &BTreeSet<NodeId>) -> bool {
    let is_gone = matches!(outcome, Outcome::Vanished | Outcome::Absent);
    is_gone && replied.contains(&member.node)
}
