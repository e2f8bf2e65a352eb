//! A small network of bulk endpoints, for rows in which single datagrams matter: every datagram
//! takes [`DELAY`], unless the row's rule loses it or has it wait, and no processor takes time.
//!
//! Endpoint 0 sends; the users of the others take what they are given, and reply what they are told
//! to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::trace::Inspected;
use groupcast_core::{
    Destination, Incarnation, MemberId, NodeId, Protocol as _, Rng, Time, TransmitBuf,
};
use groupcast_protocols::bulk::{
    Acceptance, Bulk, BulkConfig, Notice, Transfer, TransferId, describe, inspect_requests,
};

use super::super::RunError;

/// One way, for every datagram.
pub(super) const DELAY: Duration = Duration::from_micros(500);

/// A datagram that leaves for one endpoint.
pub(super) struct Leaving {
    pub(super) at: Time,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: &'static str,
}

/// A datagram that was sent.
pub(super) struct Spoken {
    pub(super) at: Time,
    pub(super) from: usize,
    /// All, if `None`.
    pub(super) to: Option<usize>,
    /// What it says.
    pub(super) what: String,
}

/// How much longer a datagram takes; `None`: it is lost.
pub(super) type Way = Box<dyn FnMut(&Leaving) -> Option<Duration>>;

/// Endpoints, and the datagrams between them.
pub(super) struct Stage {
    pub(super) now: Time,
    pub(super) endpoints: Vec<Bulk>,
    /// What each user was told, but data.
    pub(super) notices: Vec<Vec<(Time, Notice)>>,
    /// How many bytes each receiver's user was given.
    pub(super) received: Vec<u64>,
    /// All that was said, if it is recorded.
    pub(super) said: Option<Vec<Spoken>>,
    /// When which receiver's user had how many bytes.
    pub(super) delivered: Vec<(Time, usize, u64)>,
    /// What each receiver's user replies when it has everything.
    pub(super) reply: Bytes,
    way: Way,
    stream: Bytes,
    id: Option<TransferId>,
    /// By when they arrive, and in which order they were sent.
    flying: BTreeMap<(Time, u64), (usize, usize, Bytes)>,
    sent: u64,
}

pub(super) fn member(index: usize) -> MemberId {
    MemberId {
        node: NodeId(index as u64 + 1),
        incarnation: Incarnation(index as u64 + 1),
    }
}

impl Stage {
    /// A sender and this many receivers, which know each other.
    pub(super) fn new(
        receivers: usize,
        config: &BulkConfig,
        seed: u64,
        way: Way,
    ) -> Result<Self, RunError> {
        let rng = Rng::new(seed);
        let endpoint = |index: usize| {
            let bulk = Bulk::new(member(index), config.clone(), rng.fork_index(index as u64));
            bulk.map_err(|error| RunError::Failed(error.to_string()))
        };
        let endpoints: Result<Vec<Bulk>, RunError> = (0..=receivers).map(endpoint).collect();
        Ok(Self {
            now: Time::from_millis(1),
            endpoints: endpoints?,
            notices: vec![Vec::new(); receivers + 1],
            received: vec![0; receivers + 1],
            said: None,
            delivered: Vec::new(),
            reply: Bytes::new(),
            way,
            stream: Bytes::new(),
            id: None,
            flying: BTreeMap::new(),
            sent: 0,
        })
    }

    /// The sender's user sends this many bytes.
    pub(super) fn send(&mut self, length: usize, transfer: Transfer) -> Result<(), RunError> {
        self.stream = vec![0; length].into();
        let id = self.endpoints[0].send(self.now, transfer);
        self.id = Some(id.map_err(|error| RunError::Failed(error.to_string()))?);
        Ok(())
    }

    /// Runs until the sender has settled everybody, or for `within`; whether it has.
    pub(super) fn run_until_sent(&mut self, within: Duration) -> bool {
        let end = self.now + within;
        while self.now < end {
            self.drain();
            if self.is_sent() {
                return true;
            }
            self.step(end);
        }
        false
    }

    /// Runs until `done`, or for `within`.
    pub(super) fn run_until(&mut self, done: impl Fn(&Self) -> bool, within: Duration) {
        let end = self.now + within;
        while self.now < end {
            self.drain();
            if done(self) {
                return;
            }
            self.step(end);
        }
    }

    /// Lets some time pass.
    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.drain();
            self.step(end);
        }
        self.drain();
    }

    /// The transfer that is sent, and its sender.
    pub(super) fn sending(&mut self) -> Option<(TransferId, &mut Bulk)> {
        Some((self.id?, &mut self.endpoints[0]))
    }

    fn is_sent(&self) -> bool {
        let mut told = self.notices[0].iter();
        told.any(|(_, notice)| matches!(notice, Notice::Sent { .. }))
    }

    /// What comes next, not after `end`.
    fn step(&mut self, end: Time) {
        let timeouts = self.endpoints.iter().filter_map(Bulk::poll_timeout);
        let flying = self.flying.keys().next().map(|(at, _)| *at);
        let next = timeouts.chain(flying).min().unwrap_or(end).min(end);
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, body) = entry.remove();
            self.endpoints[to].handle_datagram(self.now, member(from), body);
            self.hear(to);
        }
        for endpoint in &mut self.endpoints {
            endpoint.handle_timeout(self.now);
        }
    }

    fn drain(&mut self) {
        (0..self.endpoints.len()).for_each(|index| self.hear(index));
        self.offer();
        let mut buf = TransmitBuf::new(16, 0, 0);
        for from in 0..self.endpoints.len() {
            buf.clear();
            while let Some(transmit) = self.endpoints[from].poll_transmit(self.now, &mut buf) {
                for body in buf.iter() {
                    let body = Bytes::copy_from_slice(body);
                    let Inspected { kind, .. } =
                        inspect_requests(transmit.class, &body, &mut |_| {});
                    let to = match transmit.destination {
                        Destination::Group => None,
                        Destination::Member(member) => Some(member.node.0 as usize - 1),
                    };
                    if let Some(said) = &mut self.said {
                        said.push(Spoken {
                            at: self.now,
                            from,
                            to,
                            what: describe(&body),
                        });
                    }
                    self.fly(from, to, kind, &body);
                }
                buf.clear();
            }
        }
    }

    fn fly(&mut self, from: usize, to: Option<usize>, kind: &'static str, body: &Bytes) {
        let all = 0..self.endpoints.len();
        for to in all.filter(|it| to.map_or(*it != from, |to| *it == to)) {
            let leaving = Leaving {
                at: self.now,
                from,
                to,
                kind,
            };
            let Some(longer) = (self.way)(&leaving) else {
                continue;
            };
            let at = self.now + DELAY + longer;
            self.flying
                .insert((at, self.sent), (from, to, body.clone()));
            self.sent += 1;
        }
    }

    fn offer(&mut self) {
        let Some(id) = self.id else { return };
        while let Some(wanted) = self.endpoints[0].wanted(id) {
            let end = wanted.end.min(self.stream.len() as u64);
            if wanted.start >= end {
                return;
            }
            let bytes = self.stream.slice(wanted.start as usize..end as usize);
            if self.endpoints[0].offer(self.now, id, bytes).is_err() {
                return;
            }
        }
    }

    /// Takes what a user is told.
    fn hear(&mut self, index: usize) {
        let mut told = VecDeque::new();
        while let Some(notice) = self.endpoints[index].poll_event() {
            told.push_back(notice);
        }
        for notice in told {
            match &notice {
                Notice::Announced { id, .. } => {
                    let acceptance = Acceptance::in_order(Bytes::new());
                    // Of one that has ended meanwhile nothing comes.
                    let _ = self.endpoints[index].accept(self.now, *id, &acceptance);
                }
                Notice::Data { id, bytes, .. } => {
                    let len = bytes.len() as u64;
                    self.received[index] += len;
                    self.delivered.push((self.now, index, self.received[index]));
                    self.endpoints[index].consumed(self.now, *id, len);
                    continue;
                }
                Notice::Received { id, .. } if self.endpoints[index].wants_reply(*id) => {
                    let endpoint = &mut self.endpoints[index];
                    endpoint.reply(self.now, *id, &self.reply);
                    endpoint.finish_reply(self.now, *id, 0);
                }
                Notice::Reply { id, bytes, .. } => {
                    let len = bytes.len() as u64;
                    self.endpoints[index].reply_consumed(self.now, *id, len);
                }
                _ => {}
            }
            self.notices[index].push((self.now, notice));
        }
    }
}
