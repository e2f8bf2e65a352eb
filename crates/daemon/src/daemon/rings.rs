//! The rings in the daemon's loop: joined when clients ask, left when they want nothing any more.

use std::time::Duration;

use groupcast_core::trace::Observation;
use groupcast_core::{Event, Time};
use groupcast_session::groups::Carrier;

use super::Daemon;
use super::leaving::RunPhase;
use crate::error::DaemonError;
use crate::rings::RingNews;

/// What clients want of a ring is looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

impl Daemon {
    /// A turn of each ring, and what comes of it.
    pub(super) fn turn_rings(&mut self) -> Result<(), DaemonError> {
        let now = self.endpoint.now();
        let mut elsewhere = Vec::new();
        for index in 0..self.rings.len() {
            self.join_ring(now, index);
            let (ring, engine) = (&mut self.rings[index], &mut self.engine);
            let (top, narrator) = (&ring.config.top.clone(), &self.narrator);
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
                    self.rings[index].abandon(now);
                    self.begin_ring(index)?;
                }
            }
        }
        for (carrier, observation) in elsewhere {
            self.observe(carrier, &observation);
        }
        self.look_at_rings(now)
    }

    /// Joins a ring that clients ask for.
    fn join_ring(&mut self, now: Time, index: usize) {
        let running = self.phase == RunPhase::Running;
        if !running || !self.rings[index].is_out() || !self.engine.asks_for_ring(index) {
            return;
        }
        let ring = &mut self.rings[index];
        let joined = ring.join(now, &self.config.name, self.endpoint.registry());
        self.narrator.ring_joined(ring, &joined);
    }

    /// Leaves the rings of which clients have wanted nothing for long enough.
    fn look_at_rings(&mut self, now: Time) -> Result<(), DaemonError> {
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK_INTERVAL;
        for index in 0..self.rings.len() {
            let is_used = !self.rings[index].is_in() || self.engine.uses_ring(index);
            if self.rings[index].tend(now, is_used) {
                self.rings[index].leave(now, false);
                self.begin_ring(index)?;
            }
        }
        Ok(())
    }

    /// The daemon's next stay in a ring is that of a new member.
    fn begin_ring(&mut self, index: usize) -> Result<(), DaemonError> {
        let member = self.rings[index].renew(&self.config.name)?;
        self.engine.begin_ring(index, member);
        Ok(())
    }

    /// Writes an observation into the history that it is of.
    pub(super) fn observe(&mut self, carrier: Carrier, observation: &Observation) {
        match carrier {
            Carrier::Ring(index) => {
                if let Some(ring) = self.rings.get_mut(index) {
                    ring.observe(observation);
                }
            }
            Carrier::Order | Carrier::Bimodal(_) => self.endpoint.node_mut().observe(observation),
        }
    }
}
