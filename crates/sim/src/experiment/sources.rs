//! The sources of an experiment at work.

use std::collections::BTreeMap;

use groupcast_core::{Instrumented, Rng, Time};

use super::{Experiment, Plan};
use crate::source::{Arrivals, Source, SourceConfig, SourceError};
use crate::world::Offer;

/// All sources, by number.
pub(super) struct Sources {
    all: Vec<Placed>,
    /// The sources that answer what their host delivers, by host. There are few of them, and many
    /// deliveries to look them up for.
    repliers: BTreeMap<usize, Vec<usize>>,
    rng: Rng,
}

struct Placed {
    host: usize,
    source: Source,
    /// When it is asked next; it may be due earlier by now, and is then asked earlier too.
    planned: Option<Time>,
}

impl Sources {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            all: Vec::new(),
            repliers: BTreeMap::new(),
            rng,
        }
    }

    fn at_host(&self, host: usize) -> Vec<usize> {
        let numbers = 0..self.all.len();
        numbers.filter(|it| self.all[*it].host == host).collect()
    }
}

impl<P: Instrumented> Experiment<P> {
    /// A source sends at `host`; its number.
    ///
    /// # Errors
    /// It contradicts itself.
    pub fn add_source(&mut self, host: usize, config: SourceConfig) -> Result<usize, SourceError> {
        let number = self.sources.all.len();
        let rate = config.arrivals.rate();
        let replies = matches!(config.arrivals, Arrivals::Reply { .. });
        let source = Source::new(config, self.sources.rng.fork_index(number as u64))?;
        self.sources.all.push(Placed {
            host,
            source,
            planned: None,
        });
        if replies {
            self.sources.repliers.entry(host).or_default().push(number);
        }
        if rate.is_some() {
            self.expect_from(host);
        }
        self.plan(number);
        Ok(number)
    }

    /// Tells the meter at which rate and over which paths messages of `host` come.
    fn expect_from(&mut self, host: usize) {
        let of_host = self.sources.all.iter().filter(|it| it.host == host);
        let rates = of_host.filter_map(|it| it.source.config().arrivals.rate());
        let rate = rates.sum();
        let delays = self.world.medium.fabric().delays_from(host);
        let meter = self.meter();
        meter.set_rate(host, rate);
        for (to, delay) in delays.into_iter().enumerate() {
            if let Some(delay) = delay.filter(|_| to != host) {
                meter.set_path(host, to, delay);
            }
        }
    }

    /// A source is asked for what is due.
    pub(super) fn emit(&mut self, number: usize) {
        let now = self.plans.now();
        self.sources.all[number].planned = None;
        while let Some(message) = self.sources.all[number].source.take(now) {
            let host = self.sources.all[number].host;
            let payload = self.meter().offer(now, host).payload(message.len);
            let offer = self.world.offer(host, message.service, payload);
            let source = &mut self.sources.all[number].source;
            if offer == Offer::Taken {
                source.taken();
            } else {
                source.refused();
                self.meter().refused(now, host);
            }
        }
        self.plan(number);
    }

    /// Asks a source when it says that it is due.
    fn plan(&mut self, number: usize) {
        let placed = &mut self.sources.all[number];
        let Some(due) = placed.source.due() else {
            return;
        };
        if placed.planned.is_none_or(|planned| due < planned) {
            placed.planned = Some(due);
            self.plans.push(due, Plan::Emit(number));
        }
    }

    /// There is room at `host`, or a process again.
    pub(super) fn room(&mut self, host: usize) {
        let now = self.world.now();
        for number in self.sources.at_host(host) {
            self.sources.all[number].source.writable(now);
            self.plan(number);
        }
    }

    /// The user of `host` has a message of `from`: the sources that answer it are asked.
    pub(super) fn reply(&mut self, host: usize, from: usize) {
        let now = self.world.now();
        let repliers = self.sources.repliers.get(&host);
        for number in repliers.cloned().into_iter().flatten() {
            self.sources.all[number].source.delivered(now, from);
            self.plan(number);
        }
    }

    pub(super) fn set_playing(&mut self, number: usize, plays: bool) {
        let now = self.plans.now();
        if let Some(Placed { source, .. }) = self.sources.all.get_mut(number) {
            if plays {
                source.sound(now);
            } else {
                source.silence();
            }
            self.plan(number);
        }
    }
}
