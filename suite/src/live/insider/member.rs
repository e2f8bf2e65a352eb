//! A member of the group that has the key and no scruples.
//!
//! It is a real member, so that the others take it in and tell it what there is; of what it sends,
//! some is mutated, and it sends mutations of everything that it has heard beside that. The values
//! that it likes best are those at the limits of fields.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::family::OrderFamily;
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, Protocol, Rng, SocketClass, Time, Transmit,
    TransmitBuf,
};
use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing, new_member};
use groupcast_protocols::registry;
use serde_json::json;

use super::super::Outcome;

/// The hidden word with which the soak program starts itself as an insider.
pub(super) const INSIDER: &str = "insider-member";
/// What the insider is called.
const NAME: &str = "insider";
/// How often it sends what nobody asked for, and how much.
const TICK: Duration = Duration::from_millis(2);
const OF_A_TICK: usize = 8;
/// Bodies that it keeps of each kind, which their first byte tells.
const KEPT: usize = 64;
/// The longest body that it makes.
const BODY_MAX: usize = 1_431;
/// It is honest for this long, then mutates what it sends itself for as long.
const PHASE: Duration = Duration::from_secs(5);
/// Of what it sends itself, this share is mutated in the bad half of its time.
const MUTATED: f64 = 0.1;

/// An insider, in its process: prints how much it has sent, until it is killed.
pub(super) fn main(words: &[&str]) -> Outcome {
    let [protocol, interface, group, key, seed] = words else {
        return Err("usage: insider PROTOCOL INTERFACE GROUP KEY SEED".into());
    };
    let order = registry::order(protocol).ok_or("there is no such protocol")?;
    let listen = SocketAddrV4::new(interface.parse()?, 0);
    let config = EndpointConfig::multicast(listen, group.parse()?);
    let local = new_member(NAME)?;
    let rng = Rng::new(seed.parse()?);
    let sealing = Sealing::Key(Key::load(Path::new(key))?);
    let builder = Endpoint::builder(config, local, sealing).rng(rng.fork("node"));
    let mut endpoint = builder.free_port().open()?;
    let insider = Insider::new(order, local, &rng, endpoint.now())?;
    endpoint.node_mut().open(order.channel, insider);
    let (mut ready, mut told) = (Vec::new(), endpoint.now());
    loop {
        endpoint.turn(Some(TICK), &mut ready)?;
        while endpoint.node_mut().poll_event().is_some() {}
        while endpoint.node_mut().poll_transition().is_some() {}
        if endpoint.now() - told > Duration::from_secs(1) {
            told = endpoint.now();
            let node = endpoint.node();
            if let Some(insider) = node.instance(order.channel) {
                println!("{}", insider.report(node.peers().count()));
            }
        }
    }
}

struct Insider {
    inner: Box<dyn Instrumented>,
    rng: Rng,
    /// What it has heard and sent, by kind.
    known: BTreeMap<u8, VecDeque<Bytes>>,
    /// Whom it has heard.
    peers: Vec<MemberId>,
    /// What waits to be sent.
    outgoing: VecDeque<(Transmit, Vec<u8>)>,
    scratch: TransmitBuf,
    next: Time,
    sent: BTreeMap<u8, u64>,
}

impl Insider {
    fn new(order: &OrderFamily, local: MemberId, rng: &Rng, now: Time) -> Outcome<Self> {
        let config = order.daemon_config(None).ok_or("a protocol has presets")?;
        let make = config.members()?.factory(1);
        Ok(Self {
            inner: make(local, rng.fork(order.name()), now),
            rng: rng.fork("insider"),
            known: BTreeMap::new(),
            peers: Vec::new(),
            outgoing: VecDeque::new(),
            scratch: TransmitBuf::new(64, 0, 0),
            next: now,
            sent: BTreeMap::new(),
        })
    }

    fn report(&self, peers: usize) -> serde_json::Value {
        let known: BTreeMap<String, usize> = self
            .known
            .iter()
            .map(|(kind, bodies)| (kind.to_string(), bodies.len()))
            .collect();
        let sent: BTreeMap<String, u64> = self
            .sent
            .iter()
            .map(|(kind, count)| (kind.to_string(), *count))
            .collect();
        let sum: u64 = self.sent.values().sum();
        json!({"peers": peers, "mutated": sum, "known": known, "sent": sent})
    }

    fn remember(&mut self, body: Bytes) {
        let Some(kind) = body.first() else {
            return;
        };
        let bodies = self.known.entry(*kind).or_default();
        if bodies.len() == KEPT {
            bodies.pop_front();
        }
        bodies.push_back(body);
    }

    /// Something of a random kind, mutated.
    fn invent(&mut self) {
        let kinds: Vec<u8> = self.known.keys().copied().collect();
        let Some(kind) = self.rng.pick(&kinds).copied() else {
            return;
        };
        let bodies = &self.known[&kind];
        let index = self.rng.below(bodies.len() as u64) as usize;
        let other = self.rng.below(bodies.len() as u64) as usize;
        let (mut body, other) = (bodies[index].to_vec(), bodies[other].clone());
        mutate(&mut self.rng, &mut body, &other);
        let destination = match self.rng.pick(&self.peers) {
            Some(peer) if self.rng.chance(0.5) => Destination::Member(*peer),
            _ => Destination::Group,
        };
        let class = match self.rng.chance(0.5) {
            true => SocketClass::Control,
            false => SocketClass::Data,
        };
        *self.sent.entry(kind).or_default() += 1;
        self.outgoing
            .push_back((Transmit { destination, class }, body));
    }

    /// Takes what the member would send, and mutates some of it.
    fn collect(&mut self, now: Time) {
        let phase = now.as_nanos() / PHASE.as_nanos() as u64;
        let bad = phase % 2 == 1;
        self.scratch.clear();
        while let Some(transmit) = self.inner.poll_transmit(now, &mut self.scratch) {
            let bodies: Vec<Bytes> = self.scratch.iter().map(Bytes::copy_from_slice).collect();
            self.scratch.clear();
            for body in bodies {
                self.remember(body.clone());
                let mut sent = body.to_vec();
                if bad && self.rng.chance(MUTATED) {
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

    fn read_first(&self) -> SocketClass {
        self.inner.read_first()
    }
}

/// Changes `body` in one to four places. Its kind, the first byte, stays most of the time.
fn mutate(rng: &mut Rng, body: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=rng.below(4) {
        if body.is_empty() {
            body.push(rng.next_u64() as u8);
        }
        let first = usize::from(body.len() > 1 && rng.chance(0.95));
        let at = rng.range(first as u64..body.len() as u64) as usize;
        match rng.below(7) {
            0 => body[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xfe, 0xff]).unwrap_or(&0),
            1 => body[at] ^= 1 << rng.below(8),
            // A field of two, four or eight bytes at its limits, or beside what it is.
            2 | 3 => {
                let width = 2 << rng.below(3);
                let end = (at + width).min(body.len());
                let field = &mut body[at..end];
                let mut value = field
                    .iter()
                    .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
                value = match rng.below(6) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => u64::MAX - 1,
                    3 => value.wrapping_add(1 + rng.below(1 << 20)),
                    4 => value.wrapping_sub(1 + rng.below(1 << 20)),
                    _ => 1 << rng.below(64),
                };
                let len = field.len();
                field.copy_from_slice(&value.to_be_bytes()[8 - len..]);
            }
            4 => body.truncate(at),
            // As long as a datagram can be.
            5 => {
                let piece = body[at..].to_vec();
                while body.len() < BODY_MAX {
                    body.extend_from_slice(&piece);
                }
                body.truncate(BODY_MAX);
            }
            // The end of another of its kind.
            _ => {
                body.truncate(at);
                body.extend_from_slice(other.get(at..).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_stay_within_a_datagram_and_change_something() {
        let mut rng = Rng::new(1);
        let (one, other) = ([1; 100], [2; 300]);
        let mut changed = 0;
        for _ in 0..10_000 {
            let mut body = one.to_vec();
            mutate(&mut rng, &mut body, &other);
            assert!(body.len() <= BODY_MAX, "{}", body.len());
            changed += u32::from(body != one);
        }
        assert!(changed > 9_000, "{changed}");
    }
}
