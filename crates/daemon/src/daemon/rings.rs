//! The further rings in the daemon's loop: joins them when clients ask, and leaves them when
//! clients want nothing of them any more.

use std::sync::Arc;
use std::time::Duration;

use groupcast_core::trace::Observation;
use groupcast_core::{Event, Time};
use groupcast_session::groups::Carrier;

use super::Daemon;
use super::leaving::RunPhase;
use crate::config::Ring as RingConfig;
use crate::error::DaemonError;
use crate::rings::{Ring, RingNews};

/// How often the daemon checks whether clients still want each ring.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

impl Daemon {
    /// Makes a turn of each ring, and handles its events.
    pub(super) fn turn_rings(&mut self) -> Result<(), DaemonError> {
        self.follow_rings()?;
        let now = self.endpoint.now();
        let mut elsewhere = Vec::new();
        for index in 0..self.rings.len() {
            self.join_ring(now, index);
            let Some(ring) = &mut self.rings[index] else {
                continue;
            };
            let (engine, narrator) = (&mut self.engine, &self.narrator);
            let top = &ring.config.top.clone();
            let handle = |event: Event, observe: &mut dyn FnMut(&Observation)| {
                narrator.ring_event(top, &event);
                engine.handle_event(now, Carrier::Ring(index), event);
                while let Some((carrier, observation)) = engine.poll_observation() {
                    match carrier == Carrier::Ring(index) {
                        true => observe(&observation),
                        false => elsewhere.push((carrier, observation)),
                    }
                }
            };
            let news = ring.turn(now, handle);
            let news = news.map_err(DaemonError::system("read the network of a ring"))?;
            for news in &news {
                self.narrator.ring_news(top, news);
                if let RingNews::NameInUse(_) = news {
                    if let Some(ring) = &mut self.rings[index] {
                        ring.abandon(now);
                    }
                    self.begin_ring(now, index)?;
                }
            }
        }
        for (carrier, observation) in elsewhere {
            self.observe(carrier, &observation);
        }
        self.look_at_rings(now)
    }

    /// Follows the engine's rings: adds those that joins have made, and closes those that have
    /// ended.
    fn follow_rings(&mut self) -> Result<(), DaemonError> {
        let changes = self.engine.ring_changes();
        if std::mem::replace(&mut self.ring_changes, changes) == changes {
            return Ok(());
        }
        let places = self.engine.ring_places();
        self.rings
            .resize_with(places.max(self.rings.len()), || None);
        for index in self.config.rings.len()..places {
            let made = self.engine.ring_at(index);
            let made = made.map(|ring| (Arc::<str>::from(ring.top.to_string()), ring.multicast));
            let known = self.rings[index].as_ref();
            let known = known.map(|ring| (ring.config.top.clone(), ring.config.multicast));
            if made == known {
                continue;
            }
            if let Some(mut old) = self.rings[index].take() {
                old.close();
            }
            if let Some((top, multicast)) = made {
                let order = self.config.made_rings.clone();
                let ring = RingConfig {
                    top,
                    multicast,
                    order,
                };
                let ring = Ring::new(&self.config, ring, index)?;
                self.engine
                    .begin_ring(self.endpoint.now(), index, ring.member());
                self.rings[index] = Some(ring);
            }
        }
        Ok(())
    }

    /// Whether clients ask for a ring that can be joined now.
    pub(super) fn is_ring_to_join(&self, now: Time) -> bool {
        let mut rings = self.rings.iter().enumerate();
        self.phase == RunPhase::Running
            && rings.any(|(index, ring)| {
                let may = ring.as_ref().is_some_and(|ring| ring.may_join(now));
                may && self.engine.asks_for_ring(index) && !self.is_history_open(index)
            })
    }

    /// Whether the daemon is still leaving a former ring of the same name: its last lines must come
    /// before the first one of this ring in the same history.
    fn is_history_open(&self, index: usize) -> bool {
        let Some(ring) = &self.rings[index] else {
            return false;
        };
        let mut others = self.rings.iter().enumerate();
        others.any(|(other, it)| {
            let it = it.as_ref().filter(|it| other != index && !it.is_out());
            it.is_some_and(|it| ring.shares_history(it))
        })
    }

    /// Joins a ring that clients ask for.
    fn join_ring(&mut self, now: Time, index: usize) {
        let running = self.phase == RunPhase::Running && !self.is_history_open(index);
        let Some(ring) = &mut self.rings[index] else {
            return;
        };
        if !running || !ring.may_join(now) || !self.engine.asks_for_ring(index) {
            return;
        }
        let (name, registry) = (&self.config.name, self.endpoint.registry());
        let joined = ring.join(now, name, &self.keys, registry);
        self.narrator.ring_joined(ring, &joined);
        if let (Ok(true), Some(history)) = (&joined, &self.history) {
            history.joined(&ring.config.top, ring.member());
        }
        if let Err(error) = joined
            && !error.may_pass()
        {
            self.engine.refuse_ring(now, index, &error.to_string());
        }
    }

    /// Leaves the rings of which clients have wanted nothing for long enough.
    fn look_at_rings(&mut self, now: Time) -> Result<(), DaemonError> {
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK_INTERVAL;
        for index in 0..self.rings.len() {
            let Some(ring) = &mut self.rings[index] else {
                continue;
            };
            if ring.is_out() {
                // This has no effect while clients want something of it.
                self.engine.done_with_ring(index);
                continue;
            }
            let is_used = !ring.is_in() || self.engine.uses_ring(index);
            if ring.tend(now, is_used) {
                ring.leave(now, false);
                self.begin_ring(now, index)?;
            }
        }
        Ok(())
    }

    /// Tells the ring and the engine that the next stay in the ring is that of a new member.
    fn begin_ring(&mut self, now: Time, index: usize) -> Result<(), DaemonError> {
        let Some(ring) = &mut self.rings[index] else {
            return Ok(());
        };
        let member = ring.renew(&self.config.name)?;
        self.engine.begin_ring(now, index, member);
        Ok(())
    }

    /// Writes an observation into the history of its carrier.
    pub(super) fn observe(&mut self, carrier: Carrier, observation: &Observation) {
        match carrier {
            Carrier::Ring(index) => {
                if let Some(Some(ring)) = self.rings.get_mut(index) {
                    ring.observe(observation);
                }
            }
            Carrier::Order | Carrier::Bimodal(_) => self.endpoint.node_mut().observe(observation),
        }
    }
}
