//! After the healing: all who live come together, and a message of each reaches all.

use std::time::Duration;

use groupcast_core::{Instrumented, MessageId, Service, SubmitError, Time};

use super::run::Run;
use crate::cluster::Cluster;
use crate::host::Status;

/// How long after the healing members that report what they miss have to meet.
pub(super) const MEETING: Duration = Duration::from_secs(5);

impl<P: Instrumented> Run<'_, P> {
    /// All who live come together, and a message of each reaches all. The messages, if they did.
    pub(super) fn await_progress(&mut self, limit: Time) -> Result<Vec<MessageId>, String> {
        loop {
            let left = limit - self.cluster.now();
            let together = |cluster: &Cluster<P>| cluster.all_in_one_configuration();
            if self.config.contract.has_configurations()
                && !self.cluster.run_until_observed(together, left)
            {
                return Err(format!(
                    "no common configuration {:?} after healing: {:?}",
                    self.scenario.progress_within, self.cluster
                ));
            }
            if let Some(probes) = self.probe(limit)? {
                return Ok(probes);
            }
        }
    }

    /// `None` if the configuration changed meanwhile, so that nothing is owed.
    fn probe(&mut self, limit: Time) -> Result<Option<Vec<MessageId>>, String> {
        let config = self
            .cluster
            .current_configuration(self.first())
            .map(|it| it.id);
        let alive: Vec<usize> = self.cluster.alive().collect();
        let mut probes = Vec::new();
        for host in &alive {
            let services = self.config.services.as_deref();
            let services = services.unwrap_or(&[Service::Agreed, Service::Safe]);
            let service = self.rng.pick(services).copied();
            let service = service.unwrap_or(Service::Agreed);
            match self.cluster.submit(*host, service, "probe") {
                Ok(id) => probes.push(id),
                Err(SubmitError::Full { .. }) => {
                    // Its queue is full of the load: it must drain first.
                    let wait = Duration::from_millis(50).min(limit - self.cluster.now());
                    self.cluster.run_for(wait);
                    if wait.is_zero() {
                        return Err(format!("the queue of host {host} never drains"));
                    }
                    return Ok(None);
                }
                // A leave that began before the healing is not over yet. The others' probes until
                // then are to be delivered too: they must not fill queues.
                Err(SubmitError::Leaving) => {
                    self.cluster.run_for(Duration::from_millis(500));
                    return Ok(None);
                }
                Err(error) => return Err(format!("host {host} refuses a probe: {error}")),
            }
        }
        let left = limit - self.cluster.now();
        let mut missing: Vec<(usize, MessageId)> = alive
            .iter()
            .flat_map(|host| probes.iter().map(|id| (*host, *id)))
            .collect();
        let first = self.first();
        let ended = self.cluster.run_until_observed(
            |cluster| {
                // A member that was still leaving when everything healed is owed nothing.
                missing.retain(|(host, id)| {
                    cluster.is_alive(*host) && !cluster.has_delivered(*host, *id)
                });
                let same = cluster.current_configuration(first).map(|it| it.id) == config;
                missing.is_empty() || !same
            },
            left,
        );
        match (ended, missing.is_empty()) {
            (_, true) => Ok(Some(probes)),
            (true, false) => Ok(None),
            (false, false) => Err(format!(
                "{} messages of after the healing are not delivered within {:?}, {:?} at host {}: {:?}",
                missing.len(),
                self.scenario.progress_within,
                missing[0].1,
                missing[0].0,
                self.cluster
            )),
        }
    }

    /// The same without configurations: a message of each who lives is delivered or reported by all
    /// who live. Returned are those of senders whom all had met.
    pub(super) fn await_accounts(&mut self, limit: Time) -> Result<Vec<MessageId>, String> {
        // A member that begins only now is owed nothing of those that it has not met.
        self.cluster
            .run_for(MEETING.min(limit - self.cluster.now()));
        if self.config.acquainted {
            self.cluster.expect_accounts();
        }
        let mut probes = Vec::new();
        for host in self.cluster.alive().collect::<Vec<usize>>() {
            probes.extend(self.probe_from(host, limit)?.map(|id| (host, id)));
        }
        let hosts = 0..self.scenario.hosts;
        let mut missing: Vec<(usize, usize, MessageId)> = hosts
            .flat_map(|host| probes.iter().map(move |(from, id)| (host, *from, *id)))
            .collect();
        let acquainted = self.config.acquainted;
        loop {
            let step = MEETING.min(limit - self.cluster.now());
            let ended = self.cluster.run_until_observed(
                |cluster| {
                    missing.retain(|(host, _, id)| {
                        // Where announcements are lost, a meeting may take longer.
                        let met_later = !acquainted && cluster.begins_behind(*host, *id);
                        if met_later {
                            probes.retain(|(_, probe)| probe != id);
                        }
                        let settled = met_later || cluster.has_accounted_for(*host, *id);
                        cluster.is_alive(*host) && !settled
                    });
                    missing.is_empty()
                },
                step,
            );
            let Some((host, from, id)) = missing.first().filter(|_| !ended).copied() else {
                return Ok(probes.into_iter().map(|(_, id)| id).collect());
            };
            if self.cluster.now() >= limit {
                return Err(format!(
                    "{} messages of after the healing are neither delivered nor reported within {:?}, {id:?} at host {host}: {:?}",
                    missing.len(),
                    self.scenario.progress_within,
                    self.cluster
                ));
            }
            // A member that has not heard of a sender's last message learns of it by the next.
            self.probe_from(from, limit)?;
        }
    }

    /// A message of `host`, unless its process ends meanwhile.
    fn probe_from(&mut self, host: usize, limit: Time) -> Result<Option<MessageId>, String> {
        let services = self.config.services.as_deref().unwrap_or(&[Service::Fifo]);
        let service = self.rng.pick(services).copied().unwrap_or(Service::Fifo);
        // A leave that began before the healing may end, and a queue may have to drain.
        while self.cluster.status(host) == Status::Up {
            match self.cluster.submit(host, service, "probe") {
                Ok(id) => return Ok(Some(id)),
                Err(_) if self.cluster.now() < limit => {
                    self.cluster.run_for(Duration::from_millis(50));
                }
                Err(error) => return Err(format!("host {host} refuses a probe: {error}")),
            }
        }
        Ok(None)
    }
}
