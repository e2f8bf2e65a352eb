//! Answering requests to a group: a thread works on each request, a bounded number at once, and its
//! result is the reply (003 5.3.2, X_MRreply).

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
use groupcast_protocols::bulk::{Acceptance, Failure, Notice, TransferId};
use groupcast_protocols::xgm::Subgroups;

use crate::about::AboutRequest;
use crate::host::{BulkHost, PATIENCE, TransferError, TransferLink};

/// A member that answers.
#[derive(Clone, Debug)]
pub struct Answering {
    /// The network and the settings. Of the settings only those of buffers count: the requester's
    /// hold for the others.
    pub link: TransferLink,
    /// The most requests that are worked on at once, 1 at least; four times as many may wait, and
    /// more are refused.
    pub at_once: usize,
    /// The most bytes of a request; a longer one is refused.
    pub request_max: usize,
    /// The subgroups that this member is in: it answers requests to everybody, or to one of them.
    /// Default: one at random.
    pub subgroups: Option<Subgroups>,
}

/// A request that has come whole.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The request's bytes.
    pub bytes: Bytes,
    /// The requester's name, as the requester says it: it proves nothing.
    pub requester: String,
    over: Arc<AtomicBool>,
}

impl Asked {
    /// Whether the requester does not wait for it any more: the work on it should end.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// The result of work on a request: a code and the reply, or why there is none.
pub type Answered = Result<(u32, Vec<u8>), String>;

/// An event at an answering member, for its user.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnswerEvent<'a> {
    /// The member is ready for requests.
    Listening,
    /// A request has come whole, and work on it begins.
    Begun {
        /// The requester's name.
        requester: &'a str,
        /// The length of the request.
        bytes: usize,
    },
    /// The requester has the reply.
    Replied {
        /// The requester's name.
        requester: &'a str,
        /// The code of the reply.
        code: u32,
        /// Bytes of the reply.
        bytes: usize,
    },
    /// A request was not taken, or came to nothing.
    Failed {
        /// The requester's name.
        requester: &'a str,
        /// The reason, in words.
        reason: &'a str,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each host, and again after ten minutes.
    Stranger(Stranger),
}

/// Answers until `stop` is set. `work` is called for each request, on a thread of its own, and
/// should end when [`Asked::is_over`] says so. `tell` gets the events, on the calling thread.
///
/// ```no_run
/// # use std::error::Error;
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use std::sync::atomic::AtomicBool;
///
/// use groupcast_transfer::bulk::BulkConfig;
/// use groupcast_transfer::{Answering, Asked, Key, LinkReach, TransferLink, answer};
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
///         reach: LinkReach::default(),
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
/// If the network cannot be used, or [`Answering::at_once`] is 0. A failure of one request is an
/// event.
pub fn answer(
    answering: Answering,
    work: &(dyn Fn(&Asked) -> Answered + Sync),
    stop: &AtomicBool,
    tell: &mut dyn FnMut(AnswerEvent<'_>),
) -> Result<(), TransferError> {
    if answering.at_once == 0 {
        return Err(TransferError::NothingAtOnce);
    }
    let mut host = BulkHost::open(&answering.link)?;
    host.join(answering.subgroups);
    thread::scope(|scope| {
        let mut member = AnsweringMember::new(host, answering, work, scope);
        tell(AnswerEvent::Listening);
        let result = member.run(stop, tell);
        // Tells threads that still work to end: the scope waits for them.
        member.give_up(tell);
        let last = member.host.turn(Duration::ZERO);
        result.and(last)
    })
}

/// A request at this member.
struct Work {
    requester: String,
    stream: Vec<u8>,
    /// Whether the requester counts this member in, and whether the request has come whole. An
    /// empty request comes whole before any member is counted in.
    is_enrolled: bool,
    is_received: bool,
    /// Work on it waits for a thread, or has begun.
    is_queued: bool,
    over: Arc<AtomicBool>,
    /// The reply: its code, its bytes, and how many of them the protocol has taken.
    reply: Option<(u32, Vec<u8>, usize)>,
    /// Why there is none.
    problem: Option<String>,
}

impl Work {
    /// Whether work on it may begin now: true once, however often the protocol says the same.
    fn begins(&mut self) -> bool {
        let may_begin = self.is_enrolled && self.is_received;
        may_begin && !std::mem::replace(&mut self.is_queued, true)
    }
}

struct AnsweringMember<'scope, 'env> {
    host: BulkHost,
    answering: Answering,
    work: &'env (dyn Fn(&Asked) -> Answered + Sync),
    scope: &'scope Scope<'scope, 'env>,
    requests: BTreeMap<TransferId, Work>,
    /// Requests that have come whole and wait for a thread.
    waiting: VecDeque<TransferId>,
    running: usize,
    done: Receiver<(TransferId, Answered)>,
    tell_done: Sender<(TransferId, Answered)>,
}

impl<'scope, 'env> AnsweringMember<'scope, 'env> {
    /// How many requests may wait for each that is worked on.
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
            self.host.turn(PATIENCE)?;
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

    /// Notes a fact about a request, and queues it if work on it may begin.
    fn note(&mut self, id: TransferId, note: impl FnOnce(&mut Work)) {
        if let Some(work) = self.requests.get_mut(&id) {
            note(work);
            if work.begins() {
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
            // It is for receivers of files.
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
        if self.requests.len() >= self.answering.at_once.saturating_mul(Self::WAITING + 1) {
            let reason = "this member has too many requests to answer";
            return self.refuse(id, &requester, reason, tell);
        }
        let now = self.host.now();
        let acceptance =
            Acceptance::in_order(Bytes::copy_from_slice(self.answering.link.name.as_bytes()));
        if self.host.bulk().accept(now, id, &acceptance).is_ok() {
            let work = Work {
                requester,
                stream: Vec::new(),
                is_enrolled: false,
                is_received: false,
                is_queued: false,
                over: Arc::default(),
                reply: None,
                problem: None,
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

    /// Begins work on waiting requests, as many as may run at once.
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
                // If the member has ended meanwhile, nobody waits for this.
                let _ = answers.send((id, answered.unwrap_or_else(panicked)));
                let _ = waker.wake();
            });
        }
    }

    /// Takes the results of threads.
    fn take_done(&mut self) {
        while let Ok((id, answered)) = self.done.try_recv() {
            self.running -= 1;
            let now = self.host.now();
            let Some(work) = self.requests.get_mut(&id) else {
                // The request is over, and the user was told.
                continue;
            };
            match answered {
                Ok((code, bytes)) => {
                    work.reply = Some((code, bytes, 0));
                    self.go_on(id);
                }
                Err(reason) => {
                    self.host.bulk().conclude(now, id, Err(&reason));
                    work.problem = Some(reason);
                }
            }
        }
    }

    /// Gives the protocol as much of a reply as it takes.
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

    /// The request has ended before the reply was there.
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
            Failure::Dropped => {
                "the requester gave this member up: too slow, too late, or not heard".into()
            }
            Failure::Full => "the requester asks no more members: this one was one too many".into(),
            Failure::Excluded => "it is for other subgroups".into(),
            Failure::SameName => {
                let name = printable(self.answering.link.name.as_bytes());
                format!("another member is called {name} too: each needs a name of its own")
            }
            _ => work.problem.unwrap_or_else(|| "it came to nothing".into()),
        };
        tell(AnswerEvent::Failed {
            requester: &work.requester,
            reason: &reason,
        });
    }

    /// Stops, and tells the requesters.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_a_request_begins_once_however_often_it_is_told_of() {
        let mut work = Work {
            requester: "r".into(),
            stream: Vec::new(),
            is_enrolled: false,
            is_received: false,
            is_queued: false,
            over: Arc::default(),
            reply: None,
            problem: None,
        };
        assert!(!work.begins());
        work.is_received = true;
        assert!(!work.begins(), "the requester may not count this member in");
        work.is_enrolled = true;
        assert!(work.begins());
        for _ in 0..3 {
            work.is_enrolled = true;
            assert!(!work.begins());
        }
    }
}
