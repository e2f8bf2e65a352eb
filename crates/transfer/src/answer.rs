//! Answering requests to a group: each request is worked on by a thread of its own, a bounded
//! number at once, and what comes of it is replied (003 5.3.2, X_MRreply).

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{Acceptance, Failure, Notice, Order, TransferId};
use groupcast_protocols::xgm::Subgroups;

use crate::about::AboutRequest;
use crate::host::{BulkHost, TransferError, TransferLink};

/// A member that answers.
#[derive(Clone, Debug)]
pub struct Answering {
    /// Over which network. Of its settings the requester's rule, but for the buffers.
    pub link: TransferLink,
    /// Requests that are worked on at once; four times as many wait. More are refused.
    pub at_once: usize,
    /// The most bytes of a request; a longer one is refused.
    pub request_max: usize,
    /// The subgroups that this member is in: it answers what is asked of everybody, or of one of
    /// these. Default: one at random.
    pub subgroups: Option<Subgroups>,
}

/// A request that is here whole.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What is asked.
    pub bytes: Bytes,
    /// What the requester is called. It is what the requester says, so it may be anybody.
    pub requester: String,
    over: Arc<AtomicBool>,
}

impl Asked {
    /// Whether the requester waits for it no longer: whoever works on it should end.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What comes of a request: a code with what is replied, or why nothing is.
pub type Answered = Result<(u32, Vec<u8>), String>;

/// Something that an answering member's user may want to see.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnswerEvent<'a> {
    /// It is ready for requests.
    Listening,
    /// A request is here whole, and is worked on.
    Begun {
        /// Whose.
        requester: &'a str,
        /// Bytes of it.
        bytes: usize,
    },
    /// The requester has the reply.
    Replied {
        /// Whose request it was.
        requester: &'a str,
        /// The code that it was told.
        code: u32,
        /// Bytes of the reply.
        bytes: usize,
    },
    /// A request was not taken, or came to nothing.
    Failed {
        /// Whose.
        requester: &'a str,
        /// The reason, in words.
        reason: &'a str,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each of the two.
    Stranger(Stranger),
}

/// Answers until `stop` is set. `work` is called on a thread of its own for each request, and ends
/// when [`Asked::is_over`] says so; `tell` hears what happens, on the calling thread.
///
/// ```no_run
/// # use std::error::Error;
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use std::sync::atomic::AtomicBool;
///
/// use groupcast_transfer::bulk::BulkConfig;
/// use groupcast_transfer::{Answering, Asked, Key, TransferLink, answer};
///
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let answering = Answering {
///     link: TransferLink {
///         name: "host-1".into(),
///         interface: Ipv4Addr::LOCALHOST,
///         group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 4), 4822),
///         key: Some(Key::load("cluster.key".as_ref())?),
///         bulk: BulkConfig::lan(),
///         fit_packet: true,
///         ttl: 1,
///         dscp: 0,
///     },
///     at_once: 8,
///     request_max: 1 << 20,
///     subgroups: None,
/// };
/// let work = |asked: &Asked| Ok((0, asked.bytes.to_ascii_uppercase()));
/// answer(answering, &work, &AtomicBool::new(false), &mut |_| ())?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the network cannot be used. What goes wrong with a request is no error.
pub fn answer(
    answering: Answering,
    work: &(dyn Fn(&Asked) -> Answered + Sync),
    stop: &AtomicBool,
    tell: &mut dyn FnMut(AnswerEvent<'_>),
) -> Result<(), TransferError> {
    let mut host = BulkHost::open(&answering.link)?;
    host.join(answering.subgroups);
    thread::scope(|scope| {
        let mut member = AnsweringMember::new(host, answering, work, scope);
        tell(AnswerEvent::Listening);
        let result = member.run(stop, tell);
        // Whoever still works is told to end: the scope waits for them.
        member.give_up(tell);
        let last = member.host.turn(Duration::ZERO);
        result.and(last)
    })
}

/// A request at this member.
struct Work {
    requester: String,
    stream: Vec<u8>,
    /// The requester counts this member in, and the request is here whole. An empty one is here
    /// before anybody is counted in.
    is_enrolled: bool,
    is_received: bool,
    over: Arc<AtomicBool>,
    /// What is replied, and how much of it the protocol has taken.
    reply: Option<(u32, Vec<u8>, usize)>,
}

struct AnsweringMember<'scope, 'env> {
    host: BulkHost,
    answering: Answering,
    work: &'env (dyn Fn(&Asked) -> Answered + Sync),
    scope: &'scope Scope<'scope, 'env>,
    requests: BTreeMap<TransferId, Work>,
    /// Requests that are here whole and wait for others to be done.
    waiting: VecDeque<TransferId>,
    running: usize,
    done: Receiver<(TransferId, Answered)>,
    tell_done: Sender<(TransferId, Answered)>,
}

impl<'scope, 'env> AnsweringMember<'scope, 'env> {
    /// How long a turn may wait: how late a stop request is seen.
    const PATIENCE: Duration = Duration::from_millis(100);
    /// Requests that wait for each that is worked on.
    const WAITING: usize = 4;

    fn new(
        host: BulkHost,
        answering: Answering,
        work: &'env (dyn Fn(&Asked) -> Answered + Sync),
        scope: &'scope Scope<'scope, 'env>,
    ) -> Self {
        let (tell_done, done) = mpsc::channel();
        Self {
            host,
            answering,
            work,
            scope,
            requests: BTreeMap::new(),
            waiting: VecDeque::new(),
            running: 0,
            done,
            tell_done,
        }
    }

    fn run(
        &mut self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(AnswerEvent<'_>),
    ) -> Result<(), TransferError> {
        while !stop.load(Ordering::Relaxed) {
            self.host.turn(Self::PATIENCE)?;
            while let Some(stranger) = self.host.poll_stranger() {
                tell(AnswerEvent::Stranger(stranger));
            }
            self.take_notices(tell);
            self.take_done();
            self.begin_waiting(tell);
        }
        Ok(())
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(AnswerEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            let now = self.host.now();
            match notice {
                Notice::Announced { id, about, length } => self.announced(id, &about, length, tell),
                Notice::Data { id, bytes, .. } => {
                    let len = bytes.len() as u64;
                    self.host.bulk().consumed(now, id, len);
                    if let Some(work) = self.requests.get_mut(&id) {
                        work.stream.extend_from_slice(&bytes);
                    }
                }
                Notice::Enrolled { id } => self.note(id, |work| work.is_enrolled = true),
                Notice::Received { id, .. } => self.note(id, |work| work.is_received = true),
                Notice::ReplyRoom { id } => self.go_on(id),
                Notice::Failed { id, failure } => self.broke_off(id, &failure, tell),
                Notice::Ended { id } => self.ended(id, tell),
                _ => {}
            }
        }
    }

    /// Notes something of a request, which may be worked on now.
    fn note(&mut self, id: TransferId, note: impl FnOnce(&mut Work)) {
        if let Some(work) = self.requests.get_mut(&id) {
            note(work);
            if work.is_enrolled && work.is_received {
                self.waiting.push_back(id);
            }
        }
    }

    fn announced(
        &mut self,
        id: TransferId,
        about: &[u8],
        length: Option<u64>,
        tell: &mut dyn FnMut(AnswerEvent<'_>),
    ) {
        let is_request = AboutRequest::is_announced(about) && self.host.bulk().wants_reply(id);
        if !is_request {
            // It is for those that receive files.
            return;
        }
        let Ok(about) = AboutRequest::decode(about) else {
            return self.refuse(id, "", "not understood", tell);
        };
        let requester = printable(about.host.as_bytes());
        let most = self.answering.request_max;
        if length.is_none_or(|length| length > AboutRequest::stream_len(most)) {
            let reason = format!("a request has at most {most} bytes here");
            return self.refuse(id, &requester, &reason, tell);
        }
        if self.requests.len() >= self.answering.at_once * (Self::WAITING + 1) {
            let reason = "this member has too many requests to answer";
            return self.refuse(id, &requester, reason, tell);
        }
        let now = self.host.now();
        let acceptance = Acceptance {
            held: Vec::new(),
            order: Order::InOrder,
            name: Bytes::copy_from_slice(self.answering.link.name.as_bytes()),
        };
        if self.host.bulk().accept(now, id, &acceptance).is_ok() {
            let work = Work {
                requester,
                stream: Vec::new(),
                is_enrolled: false,
                is_received: false,
                over: Arc::default(),
                reply: None,
            };
            self.requests.insert(id, work);
        }
    }

    fn refuse(
        &mut self,
        id: TransferId,
        requester: &str,
        reason: &str,
        tell: &mut dyn FnMut(AnswerEvent<'_>),
    ) {
        let now = self.host.now();
        let name = self.answering.link.name.as_bytes();
        self.host.bulk().refuse(now, id, reason, name);
        tell(AnswerEvent::Failed { requester, reason });
    }

    /// Has as many requests worked on as may be at once.
    fn begin_waiting(&mut self, tell: &mut dyn FnMut(AnswerEvent<'_>)) {
        while self.running < self.answering.at_once
            && let Some(id) = self.waiting.pop_front()
        {
            let Some(work) = self.requests.get_mut(&id) else {
                continue;
            };
            let asked = Asked {
                bytes: AboutRequest::request_of(std::mem::take(&mut work.stream)),
                requester: work.requester.clone(),
                over: Arc::clone(&work.over),
            };
            let (requester, bytes) = (work.requester.as_str(), asked.bytes.len());
            tell(AnswerEvent::Begun { requester, bytes });
            let (answers, waker) = (self.tell_done.clone(), self.host.waker());
            let work = self.work;
            self.running += 1;
            self.scope.spawn(move || {
                let answered = catch_unwind(AssertUnwindSafe(|| work(&asked)));
                let panicked = |_| Err("the program that answers has panicked".to_owned());
                // If the member is gone meanwhile, nobody waits for this.
                let _ = answers.send((id, answered.unwrap_or_else(panicked)));
                let _ = waker.wake();
            });
        }
    }

    /// What has come of requests.
    fn take_done(&mut self) {
        while let Ok((id, answered)) = self.done.try_recv() {
            self.running -= 1;
            let now = self.host.now();
            let Some(work) = self.requests.get_mut(&id) else {
                // It is over, and that was told.
                continue;
            };
            match answered {
                Ok((code, bytes)) => {
                    work.reply = Some((code, bytes, 0));
                    self.go_on(id);
                }
                Err(reason) => self.host.bulk().conclude(now, id, Err(&reason)),
            }
        }
    }

    /// Gives the protocol what it takes of a reply.
    fn go_on(&mut self, id: TransferId) {
        let now = self.host.now();
        let work = self.requests.get_mut(&id);
        let Some((code, bytes, taken)) = work.and_then(|work| work.reply.as_mut()) else {
            return;
        };
        let bulk = self.host.bulk();
        *taken += bulk.reply(now, id, &bytes[*taken..]);
        if *taken == bytes.len() {
            bulk.finish_reply(now, id, *code);
        }
    }

    /// The requester has the reply.
    fn ended(&mut self, id: TransferId, tell: &mut dyn FnMut(AnswerEvent<'_>)) {
        if let Some(work) = self.requests.remove(&id)
            && let Some((code, bytes, _)) = work.reply
        {
            tell(AnswerEvent::Replied {
                requester: &work.requester,
                code,
                bytes: bytes.len(),
            });
        }
    }

    /// The request is over before its reply was there.
    fn broke_off(
        &mut self,
        id: TransferId,
        failure: &Failure,
        tell: &mut dyn FnMut(AnswerEvent<'_>),
    ) {
        let Some(work) = self.requests.remove(&id) else {
            return;
        };
        work.over.store(true, Ordering::Relaxed);
        let reason = match failure {
            Failure::Cancelled(reason) => {
                format!("the requester gave up: {}", printable(reason.as_bytes()))
            }
            Failure::Lost => "the requester is not heard any more".into(),
            Failure::Dropped => "the requester gave this member up: too slow, or too late".into(),
            Failure::Full => "the requester asks no more members: this one was one too many".into(),
            Failure::Excluded => "it is for other subgroups".into(),
            Failure::SameName => {
                let name = printable(self.answering.link.name.as_bytes());
                format!("another member is called {name} too: each needs a name of its own")
            }
            Failure::GivenUp => "it came to nothing, and the requester was told why".into(),
            _ => "it came to nothing".into(),
        };
        tell(AnswerEvent::Failed {
            requester: &work.requester,
            reason: &reason,
        });
    }

    /// Stops: the requesters are told.
    fn give_up(&mut self, tell: &mut dyn FnMut(AnswerEvent<'_>)) {
        let now = self.host.now();
        for (id, work) in std::mem::take(&mut self.requests) {
            work.over.store(true, Ordering::Relaxed);
            let reason = "the member was stopped";
            self.host.bulk().conclude(now, id, Err(reason));
            tell(AnswerEvent::Failed {
                requester: &work.requester,
                reason,
            });
        }
    }
}
