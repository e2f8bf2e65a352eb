//! An adversary on the wire: it records datagrams and sends old ones again, whole, damaged or cut,
//! from any address.
//!
//! It holds no key, so nothing that it does may change anything but counters.

use std::rc::Rc;
use std::time::Duration;

use groupcast_core::Rng;

use crate::host::{Datagram, address};

/// How the adversary works.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdversaryConfig {
    /// Mean time between its datagrams. Default 3 ms.
    pub interval: Duration,
    /// How many datagrams it remembers; they are of all ages. Default 512.
    pub memory: usize,
}

impl Default for AdversaryConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(3),
            memory: 512,
        }
    }
}

/// It remembers for as long as the world lives, and attacks while it is told to.
pub(crate) struct Adversary {
    config: AdversaryConfig,
    memory: Vec<Rc<Datagram>>,
    seen: u64,
    rng: Rng,
}

impl Adversary {
    pub(crate) fn new(config: AdversaryConfig, rng: Rng) -> Self {
        Self {
            config,
            memory: Vec::new(),
            seen: 0,
            rng,
        }
    }

    /// Sees a datagram pass. What it remembers is a uniform sample of all that it saw.
    pub(crate) fn record(&mut self, datagram: &Rc<Datagram>) {
        self.seen += 1;
        if self.memory.len() < self.config.memory {
            self.memory.push(Rc::clone(datagram));
            return;
        }
        let place = self.rng.below(self.seen) as usize;
        if let Some(old) = self.memory.get_mut(place) {
            *old = Rc::clone(datagram);
        }
    }

    /// How long until the next attack.
    pub(crate) fn pause(&mut self) -> Duration {
        self.rng.duration(Duration::ZERO, self.config.interval * 2)
    }

    /// A datagram and its victim among `hosts`.
    pub(crate) fn attack(&mut self, hosts: usize) -> Option<(Rc<Datagram>, usize)> {
        let victim = self.rng.below(hosts as u64) as usize;
        let original = Rc::clone(self.rng.pick(&self.memory)?);
        let forgery = match self.rng.below(10) {
            0..7 => original,
            7 => self.forge(&original, |rng, bytes| {
                let bit = rng.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }),
            8 => self.forge(&original, |rng, bytes| {
                bytes.truncate(rng.below(bytes.len() as u64) as usize);
            }),
            _ => self.forge(&original, |rng, bytes| {
                let from = rng.below(bytes.len() as u64) as usize;
                bytes[from..].fill_with(|| rng.next_u64() as u8);
            }),
        };
        Some((self.relocate(forgery, hosts), victim))
    }

    fn forge(
        &mut self,
        original: &Datagram,
        change: impl FnOnce(&mut Rng, &mut Vec<u8>),
    ) -> Rc<Datagram> {
        let mut bytes = original.bytes.to_vec();
        change(&mut self.rng, &mut bytes);
        let Datagram {
            from,
            source,
            class,
            ..
        } = *original;
        Rc::new(Datagram::new(from, source, class, bytes.into()))
    }

    /// One datagram in five is given another source address: a host's, or one that no host has.
    fn relocate(&mut self, datagram: Rc<Datagram>, hosts: usize) -> Rc<Datagram> {
        if !self.rng.chance(0.2) {
            return datagram;
        }
        let source = address(self.rng.below(hosts as u64 + 1) as usize);
        let Datagram { from, class, .. } = *datagram;
        let bytes = datagram.bytes.clone();
        Rc::new(Datagram::new(from, source, class, bytes))
    }
}
