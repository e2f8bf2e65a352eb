//! What is watched once all have come together: how a group lives with a fault that lasts, and that
//! it changes nothing in calm.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::{
    ConfigId, ConfigurationKind, Instrumented, MemberId, MessageId, Service, SubmitError, Time,
};

use super::lasting::Lasting;
use super::run::Run;
use crate::cluster::Cluster;
use crate::host::Status;

/// How long the group is watched in calm: without a fault its configuration must not change.
const CALM: Duration = Duration::from_secs(4);
/// Within which time a message is delivered everywhere in calm.
const CALM_LATENCY_MAX: Duration = Duration::from_secs(2);
/// How long a group may take to find out how to live with a fault that lasts.
const SETTLING: Duration = Duration::from_secs(10);
/// How long it is watched then.
const WATCHED: Duration = Duration::from_secs(60);
/// The most regular configurations that a member installs in that time.
const CONFIGURATIONS_MAX: usize = 6;

/// When each of some hosts last delivered a message of each other one.
struct Heard {
    hosts: Vec<(usize, MemberId)>,
    /// Deliveries of each host that were looked at.
    seen: Vec<usize>,
    last: BTreeMap<(usize, MemberId), Time>,
}

impl Heard {
    fn new<P: Instrumented>(cluster: &Cluster<P>, hosts: &[usize]) -> Self {
        let member = |host: &usize| Some((*host, cluster.member(*host)?));
        let hosts: Vec<_> = hosts.iter().filter_map(member).collect();
        let deliveries = |(host, _): &(usize, MemberId)| cluster.deliveries(*host).len();
        let each = |(host, _): &(usize, MemberId)| {
            hosts
                .iter()
                .map(|(_, from)| (*host, *from))
                .collect::<Vec<_>>()
        };
        let pairs = hosts.iter().flat_map(each);
        Self {
            seen: hosts.iter().map(deliveries).collect(),
            last: pairs.map(|pair| (pair, cluster.now())).collect(),
            hosts,
        }
    }

    /// Looks at what was delivered since the last look.
    fn look<P: Instrumented>(&mut self, cluster: &Cluster<P>) {
        for ((host, _), seen) in self.hosts.iter().zip(&mut self.seen) {
            let deliveries = cluster.deliveries(*host);
            for delivery in &deliveries[*seen..] {
                if let Some(last) = self.last.get_mut(&(*host, delivery.id.sender)) {
                    *last = cluster.now();
                }
            }
            *seen = deliveries.len();
        }
    }

    /// The host that has delivered nothing of a member for longest, and since when.
    fn longest(&self) -> Option<(usize, MemberId, Time)> {
        let longest = self.last.iter().min_by_key(|(_, at)| **at);
        longest.map(|((host, from), at)| (*host, *from, *at))
    }
}

impl<P: Instrumented> Run<'_, P> {
    /// A fault lasts. After a time to settle, those whom it does not touch deliver what they say to
    /// each other, and nobody's configuration changes often.
    pub(super) fn endure(&mut self, lasting: &Lasting) -> Result<(), String> {
        self.cluster
            .note(format_args!("begins and lasts: {}", lasting.fault));
        lasting.fault.begin(&mut self.cluster, &self.scenario.host);
        let alive: Vec<usize> = self.cluster.alive().collect();
        self.converse(&alive, self.cluster.now() + SETTLING, None)?;
        let untouched = lasting.untouched.iter().copied();
        let untouched: Vec<usize> = untouched.filter(|host| alive.contains(host)).collect();
        let mut heard = Heard::new(&self.cluster, &untouched);
        let before = self.installed(&alive);
        self.converse(&alive, self.cluster.now() + WATCHED, Some(&mut heard))?;
        for ((host, before), after) in alive.iter().zip(before).zip(self.installed(&alive)) {
            let count = after - before;
            if count > CONFIGURATIONS_MAX {
                return Err(format!(
                    "h{host} installed {count} configurations within {WATCHED:?} of one lasting fault, {}",
                    lasting.fault
                ));
            }
        }
        self.cluster
            .note(format_args!("ends at last: {}", lasting.fault));
        lasting.fault.end(&mut self.cluster, &self.scenario.host);
        Ok(())
    }

    /// Members say something now and then, each about once a second, until `end`.
    fn converse(
        &mut self,
        alive: &[usize],
        end: Time,
        mut heard: Option<&mut Heard>,
    ) -> Result<(), String> {
        let turn = Duration::from_secs(1) / alive.len() as u32;
        while self.cluster.now() < end {
            for host in alive {
                let pause = self.rng.duration(Duration::ZERO, turn * 2);
                self.cluster.run_for(pause);
                let burst = if self.rng.chance(0.1) { 20 } else { 1 };
                for _ in 0..burst {
                    self.say_something(*host);
                }
                if let Some(heard) = &mut heard {
                    heard.look(&self.cluster);
                    self.judge_silence(heard)?;
                }
            }
        }
        Ok(())
    }

    /// A message of `host`, if its queue takes it: behind a fault queues may be full.
    fn say_something(&mut self, host: usize) {
        if self.cluster.status(host) == Status::Up {
            let service = self.service(&[Service::Agreed, Service::Safe]);
            let taken = self.cluster.submit(host, service, "it lasts").is_ok();
            self.accepted += u64::from(taken);
            self.refused += u64::from(!taken);
        }
    }

    fn judge_silence(&self, heard: &Heard) -> Result<(), String> {
        let limit = self.scenario.progress_within;
        match heard.longest() {
            Some((host, from, at)) if self.cluster.now() - at > limit => Err(format!(
                "under {} h{host} delivered nothing of {from:?}, whom it hears, for {limit:?}: {:?}",
                self.scenario
                    .lasting
                    .as_ref()
                    .map_or("nothing".to_owned(), ToString::to_string),
                self.cluster
            )),
            _ => Ok(()),
        }
    }

    /// How many regular configurations each of `hosts` has installed.
    fn installed(&self, hosts: &[usize]) -> Vec<usize> {
        let of = |host: &usize| {
            let all = self.cluster.configurations(*host).iter();
            all.filter(|it| it.kind == ConfigurationKind::Regular)
                .count()
        };
        hosts.iter().map(of).collect()
    }

    /// Nothing goes wrong any more but a little loss, and members send now and then, each as soon
    /// as it has seen its last message. The configuration stays as it is, and each message arrives
    /// soon.
    pub(super) fn watch_calm(&mut self, probes: &mut Vec<MessageId>) -> Result<(), String> {
        let alive: Vec<usize> = self.cluster.alive().collect();
        let before = self.configurations(&alive);
        let end = self.cluster.now() + CALM;
        while self.cluster.now() < end {
            let pause = Duration::from_millis(self.rng.below(400));
            self.cluster.run_for(pause);
            let host = self.rng.pick(&alive).copied().unwrap_or(alive[0]);
            for _ in 0..1 + self.rng.below(40) {
                probes.push(self.say_in_calm(host)?);
            }
        }
        let arrived = |cluster: &Cluster<P>| {
            let mut ids = probes.iter();
            ids.all(|id| alive.iter().all(|host| cluster.has_delivered(*host, *id)))
        };
        let limit = CALM_LATENCY_MAX;
        if !self.cluster.run_until_observed(arrived, limit) {
            return Err("a message of the calm is not delivered everywhere".to_owned());
        }
        if self.configurations(&alive) != before {
            let cluster = &self.cluster;
            return Err(format!("the configuration changed in calm: {cluster:?}"));
        }
        Ok(())
    }

    fn configurations(&self, hosts: &[usize]) -> Vec<Option<ConfigId>> {
        let of = |host: &usize| self.cluster.current_configuration(*host).map(|it| it.id);
        hosts.iter().map(of).collect()
    }

    /// A message of `host`, which waits until it has it itself, and a moment longer.
    fn say_in_calm(&mut self, host: usize) -> Result<MessageId, String> {
        let has_room_by = self.cluster.now() + CALM_LATENCY_MAX;
        let id = loop {
            match self.cluster.submit(host, Service::Agreed, "calm") {
                Ok(id) => break id,
                // Clients go on in the calm, and may have filled its queue just now.
                Err(SubmitError::Full { .. }) if self.cluster.now() < has_room_by => {
                    self.cluster.run_for(Duration::from_millis(1));
                }
                Err(error) => return Err(format!("host {host} refuses in calm: {error}")),
            }
        };
        let seen = |cluster: &Cluster<P>| cluster.has_delivered(host, id);
        let limit = CALM_LATENCY_MAX;
        if !self.cluster.run_until_observed(seen, limit) {
            return Err(format!("{id:?} is not delivered at its sender in calm"));
        }
        let pause = Duration::from_micros(self.rng.below(2_000));
        self.cluster.run_for(pause);
        Ok(id)
    }
}
