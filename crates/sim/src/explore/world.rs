//! A world of the explorer: engines, what is on its way, time, and what may still go wrong. A step
//! makes a new world out of one; the sites that it does not touch are shared.

use std::hash::Hash;
use std::rc::Rc;

use bytes::Bytes;
use groupcast_core::trace::{Observable as _, Observation};
use groupcast_core::{Destination, Incarnation, MemberId, NodeId, Ordered, Time, TransmitBuf};

use super::ExploreConfig;
use super::fingerprint;

/// The member at `site`.
pub(super) fn member(site: usize) -> MemberId {
    let id = site as u64 + 1;
    MemberId {
        node: NodeId(id),
        incarnation: Incarnation(id),
    }
}

pub(super) struct World<P> {
    pub(super) now: Time,
    pub(super) sites: Vec<Rc<Site<P>>>,
    /// Copies of datagrams on their way, by their keys.
    pub(super) copies: Vec<InFlight>,
    /// Which messages were submitted, a bit each.
    pub(super) submitted: u64,
    /// What may still go wrong.
    pub(super) losses: u8,
    pub(super) late: u8,
    pub(super) crashes: u8,
    /// How many times time still passes when all is done.
    pub(super) rest: u8,
}

/// A member and what it saw.
pub(super) struct Site<P> {
    pub(super) engine: P,
    pub(super) alive: bool,
    pub(super) due: Option<Time>,
    pub(super) history: Rc<History>,
    /// Of the engine and the history.
    fingerprint: u64,
}

#[derive(Clone, Default)]
pub(super) struct History {
    pub(super) log: Vec<Observation>,
    pub(super) fingerprint: u64,
}

/// A datagram on its way to one receiver.
#[derive(Clone)]
pub(super) struct InFlight {
    pub(super) to: usize,
    /// Equal for equal bytes from one member to another.
    pub(super) key: u64,
    pub(super) datagram: Rc<Datagram>,
}

pub(super) struct Datagram {
    pub(super) from: usize,
    pub(super) body: Bytes,
}

impl<P> Clone for World<P> {
    fn clone(&self) -> Self {
        Self {
            sites: self.sites.clone(),
            copies: self.copies.clone(),
            ..*self
        }
    }
}

impl History {
    fn push(&mut self, observation: Observation) {
        let text = format!("{observation:?}");
        self.fingerprint = fingerprint::of(&(self.fingerprint, text));
        self.log.push(observation);
    }
}

impl<P> World<P> {
    /// What all that decides the future of this world comes to.
    pub(super) fn fingerprint(&self) -> u64 {
        let sites: [u64; 8] = std::array::from_fn(|site| {
            let site = self.sites.get(site);
            site.map_or(0, |site| site.fingerprint)
        });
        let left = (self.losses, self.late, self.crashes, self.rest);
        let copies = self.copies.iter().map(|copy| copy.key);
        let copies = copies.fold(self.copies.len() as u64, |sum, key| {
            fingerprint::of(&(sum, key))
        });
        fingerprint::of(&(self.now, self.submitted, sites, left, copies))
    }

    /// The same for the histories alone.
    pub(super) fn histories(&self) -> u64 {
        let sites = self.sites.iter();
        sites.fold(0, |sum, site| {
            fingerprint::of(&(sum, site.history.fingerprint))
        })
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = usize> {
        (0..self.sites.len()).filter(|site| self.sites[*site].alive)
    }
}

impl<P: Ordered + Clone + Hash> World<P> {
    /// Members that begin now, and have nothing to say yet.
    pub(super) fn new(config: &ExploreConfig, now: Time, make: impl Fn(usize) -> P) -> Self {
        let sites = (0..config.members).map(|site| {
            let mut history = History::default();
            history.push(Observation::Start);
            Rc::new(Site::new(make(site), history.into()))
        });
        Self {
            now,
            sites: sites.collect(),
            copies: Vec::new(),
            submitted: 0,
            losses: config.losses,
            late: config.late,
            crashes: config.crashes,
            rest: config.rest,
        }
    }

    /// Gives the engine at `site` an input, and takes all that it says.
    pub(super) fn input(
        &mut self,
        site: usize,
        buf: &mut TransmitBuf,
        input: impl FnOnce(&mut P, Time) -> Option<Observation>,
    ) {
        let now = self.now;
        let before = &self.sites[site];
        let mut engine = before.engine.clone();
        let mut history = Rc::clone(&before.history);
        if let Some(seen) = input(&mut engine, now) {
            Rc::make_mut(&mut history).push(seen);
        }
        while let Some(transmit) = engine.poll_transmit(now, buf) {
            for body in buf.iter() {
                self.send(site, transmit.destination, body);
            }
            buf.clear();
        }
        while let Some(event) = engine.poll_event() {
            if let Some(seen) = event.observation() {
                Rc::make_mut(&mut history).push(seen);
            }
        }
        while engine.poll_transition().is_some() {}
        self.sites[site] = Rc::new(Site::new(engine, history));
    }

    fn send(&mut self, from: usize, destination: Destination, body: &[u8]) {
        let body = Bytes::copy_from_slice(body);
        let datagram = Rc::new(Datagram { from, body });
        for to in 0..self.sites.len() {
            let is_meant = match destination {
                Destination::Group => true,
                Destination::Member(other) => other == member(to),
            };
            if is_meant && to != from && self.sites[to].alive {
                let key = fingerprint::of(&(from, to, &datagram.body[..]));
                let at = self.copies.partition_point(|copy| copy.key < key);
                let datagram = Rc::clone(&datagram);
                self.copies.insert(at, InFlight { to, key, datagram });
            }
        }
    }

    /// The member at `site` ends without a word, and what is on its way to it with it.
    pub(super) fn crash(&mut self, site: usize) {
        let before = &self.sites[site];
        let mut history = History::clone(&before.history);
        history.push(Observation::Crash);
        let ended = Site {
            engine: before.engine.clone(),
            alive: false,
            due: None,
            fingerprint: history.fingerprint,
            history: history.into(),
        };
        self.sites[site] = Rc::new(ended);
        self.copies.retain(|copy| copy.to != site);
        self.crashes -= 1;
    }
}

impl<P: Ordered + Clone + Hash> Site<P> {
    fn new(engine: P, history: Rc<History>) -> Self {
        Self {
            alive: true,
            due: engine.poll_timeout(),
            fingerprint: fingerprint::of(&(&engine, history.fingerprint)),
            engine,
            history,
        }
    }
}
