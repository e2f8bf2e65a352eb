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

/// How often the daemon checks whether clients still want each ring, and its interface.
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
            let has_time = self.engine.has_time_for(Carrier::Ring(index));
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
                engine.has_time_for(Carrier::Ring(index))
            };
            let news = ring.turn(now, has_time, handle);
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

    /// How long the loop may sleep, for the stays in rings: until the next look at them, or until
    /// one that clients ask for may be joined. `None` without rings.
    pub(super) fn ring_patience(&self, now: Time) -> Option<Duration> {
        let rings = self.rings.iter().enumerate();
        let rings = rings.filter_map(|(index, ring)| Some((index, ring.as_ref()?)));
        let joins = rings.map(|(index, ring)| {
            let wanted = self.phase == RunPhase::Running && self.engine.asks_for_ring(index);
            let joins_at = ring.may_join_at().filter(|_| wanted);
            let at = joins_at.filter(|_| !self.is_history_open(index));
            at.map_or(self.look_at, |at| at.min(self.look_at))
        });
        joins.min().map(|at| at - now)
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

    /// Leaves the rings of which clients have wanted nothing for long enough, and watches the
    /// interface of the others.
    pub(super) fn look_at_rings(&mut self, now: Time) -> Result<(), DaemonError> {
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
                // A ring of the same name and address may be made before the next turn, and is
                // another one.
                if index >= self.config.rings.len() && self.engine.ring_at(index).is_none() {
                    ring.close();
                    self.rings[index] = None;
                }
                continue;
            }
            ring.watch_interface();
            let is_used = !ring.is_in() || self.engine.uses_ring(index);
            if ring.tend(now, is_used) {
                ring.leave(now, false);
                self.begin_ring(now, index)?;
            }
        }
        Ok(())
    }

    /// Tells the ring and the engine that the next stay in the ring is that of a new member.
    pub(super) fn begin_ring(&mut self, now: Time, index: usize) -> Result<(), DaemonError> {
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

    use super::*;
    use crate::Config;
    use crate::config::{Listen, Options, RingOptions};

    fn free_port() -> u16 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().port()
    }

    fn daemon(name: &str, rings: Vec<RingOptions>) -> Daemon {
        let socket = std::env::temp_dir().join(format!("gc-look-{}-{name}", std::process::id()));
        let options = Options {
            name: Some(name.into()),
            listen: Some(Listen {
                ip: Ipv4Addr::LOCALHOST.into(),
                port: Some(free_port()),
            }),
            multicast: Some(SocketAddrV4::new(
                Ipv4Addr::new(239, 192, 79, 91),
                free_port(),
            )),
            socket: Some(socket),
            insecure: Some(true),
            rings: Some(rings),
            ..Options::default()
        };
        Daemon::start(Config::build(None, options).unwrap()).unwrap()
    }

    /// The daemon's other reasons to wake up, those of its order, may be farther apart.
    #[test]
    fn the_loop_sleeps_no_longer_than_until_the_next_look_at_its_rings() {
        let ring = RingOptions {
            top: "wb.cb".into(),
            multicast: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 92), free_port()),
            settings: std::collections::BTreeMap::new(),
        };
        let mut with = daemon("with", vec![ring]);
        for _ in 0..3 {
            let patience = with.patience();
            let is_soon = |it: Duration| it <= LOOK_INTERVAL;
            assert!(patience.is_some_and(is_soon), "{patience:?}");
            with.turn().unwrap();
        }
        let mut without = daemon("without", Vec::new());
        without.turn().unwrap();
        assert_eq!(without.patience(), None);
    }
}
