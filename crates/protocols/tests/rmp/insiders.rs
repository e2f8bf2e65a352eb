//! Goal: nothing that one member sends keeps the others from going on together once it is gone.
//! Method: a member that is real, and that sends beside what it should mutations of one kind of
//! message, with fields at their limits; then it dies.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};
use groupcast_protocols::rmp::{Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// The kinds of RMP's messages.
const KINDS: std::ops::RangeInclusive<u8> = 33..=59;
/// Bodies that it keeps to mutate.
const KEPT: usize = 32;
/// How often it sends what nobody asked for, and how much.
const TICK: Duration = Duration::from_millis(2);
const OF_A_TICK: usize = 4;
/// The longest body that it makes.
const BODY_MAX: usize = 1_431;
/// Of what it sends itself, this share is mutated.
const MUTATED: f64 = 0.1;
/// It is honest for so long, then not for so long, and so on.
const PHASE: Duration = Duration::from_millis(500);

/// A member that has the key and no scruples.
struct Insider {
    inner: Rmp,
    rng: Rng,
    /// The kind that it mutates; 0 for all.
    kind: u8,
    known: Vec<VecDeque<Bytes>>,
    peers: Vec<MemberId>,
    outgoing: VecDeque<(Transmit, Vec<u8>)>,
    scratch: TransmitBuf,
    next: Time,
}

impl Insider {
    fn new(inner: Rmp, rng: Rng, kind: u8, now: Time) -> Self {
        Self {
            inner,
            rng,
            kind,
            known: vec![VecDeque::new(); 64],
            peers: Vec::new(),
            outgoing: VecDeque::new(),
            scratch: TransmitBuf::new(64, 0, 0),
            next: now,
        }
    }

    fn mutates(&self, kind: u8) -> bool {
        KINDS.contains(&kind) && (self.kind == 0 || self.kind == kind)
    }

    fn remember(&mut self, body: Bytes) {
        let Some(kind) = body.first().copied().filter(|kind| self.mutates(*kind)) else {
            return;
        };
        let bodies = &mut self.known[usize::from(kind)];
        if bodies.len() == KEPT {
            bodies.pop_front();
        }
        bodies.push_back(body);
    }

    /// One of the bodies that are known, mutated.
    fn invent(&mut self) {
        let kinds: Vec<usize> = (0..self.known.len())
            .filter(|kind| !self.known[*kind].is_empty())
            .collect();
        let Some(kind) = self.rng.pick(&kinds).copied() else {
            return;
        };
        let bodies: Vec<Bytes> = self.known[kind].iter().cloned().collect();
        let (Some(body), Some(other)) = (
            self.rng.pick(&bodies).cloned(),
            self.rng.pick(&bodies).cloned(),
        ) else {
            return;
        };
        let mut body = body.to_vec();
        mutate(&mut self.rng, &mut body, &other);
        let destination = match self.rng.pick(&self.peers).copied() {
            Some(peer) if self.rng.chance(0.5) => Destination::Member(peer),
            _ => Destination::Group,
        };
        let class = match self.rng.chance(0.5) {
            true => SocketClass::Control,
            false => SocketClass::Data,
        };
        self.outgoing
            .push_back((Transmit { destination, class }, body));
    }

    /// Takes what the member would send, and mutates some of it.
    fn collect(&mut self, now: Time) {
        let bad = now.as_nanos() / PHASE.as_nanos() as u64 % 2 == 1;
        self.scratch.clear();
        while let Some(transmit) = self.inner.poll_transmit(now, &mut self.scratch) {
            let bodies: Vec<Bytes> = self.scratch.iter().map(Bytes::copy_from_slice).collect();
            self.scratch.clear();
            for body in bodies {
                self.remember(body.clone());
                let mut sent = body.to_vec();
                let kind = body.first().copied().unwrap_or_default();
                if bad && self.mutates(kind) && self.rng.chance(MUTATED) {
                    mutate(&mut self.rng, &mut sent, &body);
                }
                self.outgoing.push_back((transmit, sent));
            }
        }
    }
}

impl Protocol for Insider {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if !self.peers.contains(&from) {
            self.peers.push(from);
        }
        self.remember(body.clone());
        self.inner.handle_datagram(now, from, body);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next <= now {
            self.next = now + TICK;
            for _ in 0..OF_A_TICK {
                self.invent();
            }
        }
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if self.outgoing.is_empty() {
            self.collect(now);
        }
        let (transmit, body) = self.outgoing.pop_front()?;
        buf.push(&[&body]);
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.inner.poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = self.inner.poll_timeout();
        Some(due.map_or(self.next, |due| due.min(self.next)))
    }
}

impl Ordered for Insider {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        self.inner.submit(now, service, payload)
    }

    fn services(&self) -> &'static [Service] {
        self.inner.services()
    }

    fn leave(&mut self, now: Time) {
        self.inner.leave(now);
    }

    fn local(&self) -> MemberId {
        self.inner.local()
    }
}

impl Instrumented for Insider {}

/// Changes `body` in one to three places; its kind stays.
fn mutate(rng: &mut Rng, body: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=rng.below(3) {
        if body.len() < 2 {
            return;
        }
        let at = rng.range(1..body.len() as u64) as usize;
        match rng.below(8) {
            0 => body[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xfe, 0xff]).unwrap_or(&0),
            1 => body[at] ^= 1 << rng.below(8),
            // A field at its limits, or beside what it is.
            2..=5 => {
                let width = *rng.pick(&[1, 2, 6, 8]).unwrap_or(&1);
                let end = (at + width).min(body.len());
                let field = &mut body[at..end];
                let bytes = field.iter();
                let value = bytes.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
                let value = match rng.below(6) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => u64::MAX - 1,
                    3 => value.wrapping_add(1 + rng.below(1 << 10)),
                    4 => value.wrapping_sub(1 + rng.below(1 << 10)),
                    _ => 1 << rng.below(64),
                };
                let len = field.len();
                field.copy_from_slice(&value.to_be_bytes()[8 - len..]);
            }
            6 => body.truncate(at),
            // The end of another of its kind.
            _ => {
                body.truncate(at);
                body.extend_from_slice(other.get(at..).unwrap_or_default());
                body.truncate(BODY_MAX);
            }
        }
    }
}

const HONEST: usize = 4;

/// An insider mutates messages of `kind` for five seconds, while hosts 0 and 3 publish, and is
/// gone: the others are in one configuration within ten seconds, and deliver.
fn after(kind: u8, seed: u64) {
    let factory = move |member: MemberId, rng: Rng, now| -> Box<dyn Instrumented> {
        let bad = rng.fork("insider");
        let rmp = Rmp::new(RmpConfig::lan(), member, rng, now).expect("the settings are valid");
        // Hosts are nodes 1, 2, …
        match member.node.0 as usize == HONEST + 1 {
            true => Box::new(Insider::new(rmp, bad, kind, now)),
            false => Box::new(rmp),
        }
    };
    let config = ClusterConfig {
        replay: format!("an insider that mutates kind {kind}"),
        ..ClusterConfig::new(HONEST + 1, seed)
    };
    let mut cluster: Cluster<Box<dyn Instrumented>> = Cluster::new(config, factory);
    for host in 0..HONEST {
        cluster.start(host);
    }
    cluster.run_for(Duration::from_secs(1));
    cluster.start(HONEST);
    for step in 0..1_000_usize {
        let service = Service::ALL[step % Service::ALL.len()];
        let payload = vec![step as u8; 1 + step * 37 % 3_000];
        // Refused where too much waits.
        let _ = cluster.submit(step % 2 * 3, service, payload);
        cluster.run_for(Duration::from_millis(5));
    }
    cluster.crash(HONEST);
    let limit = Duration::from_secs(10);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        limit,
    );
    let submitted = (0..HONEST).map(|host| cluster.submit(host, Service::Safe, "still here"));
    let ids: Vec<MessageId> = submitted.map(|id| id.expect("there is room")).collect();
    let delivered = |cluster: &Cluster<Box<dyn Instrumented>>| {
        (0..HONEST).all(|host| ids.iter().all(|id| cluster.has_delivered(host, *id)))
    };
    cluster.must("delivered", delivered, limit);
    assert!(
        cluster.all_in_one_configuration(),
        "kind {kind}, seed {seed}"
    );
}

#[test]
fn nothing_that_one_member_sends_keeps_the_others_apart_when_it_is_gone() {
    for (kind, seeds) in KINDS
        .map(|kind| (kind, 0..2))
        .chain([(0, 0..12), (34, 0..12)])
    {
        for seed in seeds {
            after(kind, seed);
        }
    }
}

/// ACKs place packets: after these, members hold different packets at one position.
#[test]
fn members_that_lack_what_cannot_be_brought_come_together_again() {
    for seed in [32, 58, 75, 88, 111] {
        after(34, seed);
    }
}
