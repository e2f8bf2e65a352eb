//! Rings that joins make, in the world: each daemon has them at places of its own, and a channel is
//! known by its top and its address.

use groupcast_core::{MemberId, Rng};
use groupcast_session::names::Planted;

use super::World;
use super::rings::RingChannel;

impl World {
    /// The daemons that start from here on have this bug.
    pub fn plant(&mut self, bug: Planted) {
        self.planted = Some(bug);
    }

    /// The daemon's rings are those that its engine says; whether others are.
    pub(super) fn follow_rings(&mut self, member: MemberId) -> bool {
        let configured = self.config.rings.len();
        let daemon = self.daemons.get_mut(&member).expect("the daemon runs");
        let changes = daemon.engine.ring_changes();
        if std::mem::replace(&mut daemon.ring_changes, changes) == changes {
            return false;
        }
        for place in configured..daemon.engine.ring_places() {
            let daemon = &self.daemons[&member];
            let made = daemon
                .engine
                .ring_at(place)
                .map(|it| (it.top.to_string(), it.multicast));
            let known = daemon.places.get(&place).copied();
            let ring = made.map(|(top, multicast)| {
                let mut rings = self.rings.iter();
                let found = rings.position(|it| it.top == top && it.multicast == Some(multicast));
                found.unwrap_or_else(|| {
                    self.rings.push(RingChannel::new(&top, Some(multicast)));
                    self.rings.len() - 1
                })
            });
            if known == ring {
                continue;
            }
            if let Some(old) = known {
                self.daemon(member).places.remove(&place);
                self.end_ring(old, member);
            }
            if let Some(new) = ring {
                self.daemon(member).places.insert(place, new);
                self.begin_ring(new, member);
            }
        }
        true
    }

    /// Does what the daemons' hosts do about rings that joins have made: who is asked for one joins
    /// it, as far as the network goes, and who wants nothing of it leaves it and gives it back.
    /// Whether anything was to be done.
    pub fn tend_made(&mut self, rng: &mut Rng) -> bool {
        let mut busy = false;
        for ring in self.config.rings.len()..self.rings.len() {
            let daemons: Vec<MemberId> = self.daemons.keys().copied().collect();
            let mut joins = false;
            for daemon in daemons {
                let Some(place) = self.place_of(ring, daemon) else {
                    continue;
                };
                if self.is_in_ring(ring, daemon) {
                    if self.leave_unused(ring, daemon) {
                        busy = true;
                        joins = true;
                    }
                    continue;
                }
                let engine = &mut self.daemon(daemon).engine;
                if engine.asks_for_ring(place) {
                    self.enter(ring, daemon);
                    busy = true;
                    joins = true;
                } else if !engine.uses_ring(place) {
                    let before = engine.ring_changes();
                    engine.done_with_ring(place);
                    busy |= engine.ring_changes() != before;
                    self.settle(daemon);
                }
            }
            if joins {
                self.reform(ring, rng);
            }
        }
        busy
    }

    /// The ring's daemons form configurations anew, as the network goes.
    pub fn reform(&mut self, ring: usize, rng: &mut Rng) {
        let there = self.in_ring(ring);
        let parts = self.components.iter().map(|component| {
            let members = component.members.iter().copied();
            members.filter(|it| there.contains(it)).collect::<Vec<_>>()
        });
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        self.divide_ring(ring, &parts, rng);
    }

    /// All rings that joins have made.
    pub fn reform_all(&mut self, rng: &mut Rng) {
        for ring in self.config.rings.len()..self.rings.len() {
            self.reform(ring, rng);
        }
    }

    /// Orders and delivers, joins and leaves rings, until nothing happens any more.
    pub fn run_made(&mut self, rng: &mut Rng) {
        for _ in 0..10_000 {
            self.run(rng);
            if !self.tend_made(rng) {
                let is_quiet = self.daemons.values().all(|it| it.queue.is_empty());
                if is_quiet {
                    return;
                }
            }
        }
        panic!("the rings never come to rest");
    }

    /// What the histories of all rings violate.
    pub fn judge_made(&self) -> Vec<String> {
        let all = (0..self.rings.len()).flat_map(|ring| self.judge_ring(ring));
        all.collect()
    }
}
