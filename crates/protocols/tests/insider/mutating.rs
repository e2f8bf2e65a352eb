//! A member that sends beside what it should mutations of some kinds of messages, with fields at
//! their limits.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Rng, Service, SocketClass, Time, Transmit};
use groupcast_sim::ClusterConfig;

use super::{Conduct, Honest, Insider, group, works};

/// Bodies that it keeps to mutate.
const KEPT: usize = 32;
/// How often it sends what nobody asked for, and how much.
const TICK: Duration = Duration::from_millis(2);
const OF_A_TICK: usize = 4;
/// The longest body that it makes.
const BODY_MAX: usize = 1_431;
/// Of what it sends itself, this share is mutated.
const MUTATED: f64 = 0.1;
/// It is honest for this long, then not for this long, and so on.
const PHASE: Duration = Duration::from_millis(500);

struct Mutating {
    rng: Rng,
    /// The kinds that it mutates.
    kinds: RangeInclusive<u8>,
    known: Vec<VecDeque<Bytes>>,
    peers: Vec<MemberId>,
    next: Time,
}

impl Mutating {
    fn new(rng: Rng, kinds: RangeInclusive<u8>, now: Time) -> Self {
        Self {
            rng,
            kinds,
            known: vec![VecDeque::new(); 256],
            peers: Vec::new(),
            next: now,
        }
    }

    fn remember(&mut self, body: &Bytes) {
        let Some(kind) = body.first().filter(|kind| self.kinds.contains(kind)) else {
            return;
        };
        let bodies = &mut self.known[usize::from(*kind)];
        if bodies.len() == KEPT {
            bodies.pop_front();
        }
        bodies.push_back(body.clone());
    }

    /// One of the bodies that are known, mutated.
    fn one(&mut self) -> Option<(Transmit, Vec<u8>)> {
        let kinds: Vec<usize> = (0..self.known.len())
            .filter(|kind| !self.known[*kind].is_empty())
            .collect();
        let kind = *self.rng.pick(&kinds)?;
        let bodies: Vec<Bytes> = self.known[kind].iter().cloned().collect();
        let (body, other) = (self.rng.pick(&bodies)?, self.rng.pick(&bodies)?);
        let (mut body, other) = (body.to_vec(), other.clone());
        mutate(&mut self.rng, &mut body, &other);
        let destination = match self.rng.pick(&self.peers).copied() {
            Some(peer) if self.rng.chance(0.5) => Destination::Member(peer),
            _ => Destination::Group,
        };
        let class = match self.rng.chance(0.5) {
            true => SocketClass::Control,
            false => SocketClass::Data,
        };
        Some((Transmit { destination, class }, body))
    }
}

impl Conduct for Mutating {
    fn note_heard(&mut self, from: MemberId, body: &Bytes) {
        if !self.peers.contains(&from) {
            self.peers.push(from);
        }
        self.remember(body);
    }

    fn instead(&mut self, now: Time, body: &[u8]) -> Vec<u8> {
        let bad = now.as_nanos() / PHASE.as_nanos() as u64 % 2 == 1;
        self.remember(&Bytes::copy_from_slice(body));
        let mut sent = body.to_vec();
        if bad && self.kinds.contains(&body[0]) && self.rng.chance(MUTATED) {
            mutate(&mut self.rng, &mut sent, body);
        }
        sent
    }

    fn invent(&mut self, now: Time) -> Vec<(Transmit, Vec<u8>)> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + TICK;
        (0..OF_A_TICK).filter_map(|_| self.one()).collect()
    }

    fn due(&self) -> Option<Time> {
        Some(self.next)
    }
}

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

/// An insider mutates messages of `kinds` for five seconds, while hosts 0 and 3 publish, and is
/// gone: the others come together within ten seconds, and deliver.
pub(crate) fn is_outlived(honest: Honest, kinds: RangeInclusive<u8>, seed: u64) {
    let what = format!("an insider that mutates kinds {kinds:?}, seed {seed}");
    let config = ClusterConfig {
        replay: what.clone(),
        ..ClusterConfig::new(HONEST + 1, seed)
    };
    let mut group = group(config, HONEST, honest, move |inner, rng, now| {
        Box::new(Insider::new(inner, Mutating::new(rng, kinds.clone(), now)))
    });
    for host in 0..HONEST {
        group.start(host);
    }
    group.run_for(Duration::from_secs(1));
    group.start(HONEST);
    for step in 0..1_000_usize {
        let service = Service::ALL[step % Service::ALL.len()];
        let payload = vec![step as u8; 1 + step * 37 % 3_000];
        // Refused where too much waits.
        let _ = group.submit(step % 2 * 3, service, payload);
        group.run_for(Duration::from_millis(5));
    }
    group.crash(HONEST);
    works(&mut group, &what);
}
