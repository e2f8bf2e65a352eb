//! One run: a plan becomes an experiment, the experiment runs, what it measured becomes lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use groupcast_core::{Instrumented, Time};
use groupcast_sim::experiment::{Change, Experiment, ExperimentConfig};
use groupcast_sim::fabric::Multicast;
use groupcast_sim::link::pcap::Pcap;
use groupcast_sim::measure::{Bins, MeterConfig};
use groupcast_sim::source::{Arrivals, SourceConfig};

use super::Scenario;
use super::files::{self, WriteError};
use super::measure::WINDOWS_MAX;
use super::measured::Lines;
use super::network::MulticastKey;
use super::plan::{Plan, PlannedSource};
use super::record::{Record, Sheet};
use super::run::{RunError, Watch};
use super::source::When;
use super::summary::seconds;

/// What a run came to.
pub(super) struct Outcome {
    /// Its line of `runs.csv`.
    pub(super) run: Record,
    /// The other files' lines.
    pub(super) sheets: Vec<(&'static str, Sheet)>,
    /// Captures that were written, by the names of their files.
    pub(super) captures: Vec<String>,
    pub(super) events: u64,
    pub(super) hops: u64,
    /// What the checker found.
    pub(super) violations: Vec<String>,
}

/// Runs `scenario` with `seed`; captures go to the directory `captures`.
pub(super) fn run(
    scenario: &Scenario,
    seed: u64,
    captures: Option<&Path>,
    watch: &dyn Watch,
) -> Result<Outcome, RunError> {
    let plan = scenario
        .plan(seed)
        .map_err(|error| RunError::Scenario { seed, error })?;
    let run = Run {
        scenario,
        seed,
        captures,
        watch,
    };
    run.simulate(plan)
}

struct Run<'a> {
    scenario: &'a Scenario,
    seed: u64,
    captures: Option<&'a Path>,
    watch: &'a dyn Watch,
}

impl Run<'_> {
    fn simulate(&self, plan: Plan) -> Result<Outcome, RunError> {
        let topology = &plan.topology;
        let shape = Record::default()
            .with("seed", self.seed)
            .with("hosts", topology.hosts().len())
            .with("vertices", topology.vertices().len())
            .with("links", topology.edges().len());
        let name = |vertex: &_| topology.name(*vertex).into_owned();
        let vertices: Vec<String> = topology.hosts().iter().map(name).collect();
        let factory = self.scenario.protocol.factory(vertices.len());
        let mut experiment = Experiment::with_factory(self.config(&plan), factory);
        let captures = self.capture(&mut experiment, &plan)?;
        self.fill(&mut experiment, &plan);
        self.pass(&mut experiment);
        let record = shape.with("simulated_s", seconds(experiment.now().as_nanos()));
        let (events, hops) = (experiment.events(), experiment.hops());
        let trace_hash = experiment.trace_hash();
        let violations: Vec<String> = experiment
            .violations()
            .iter()
            .map(ToString::to_string)
            .collect();
        let measures = experiment.finish().map_err(|error| WriteError {
            path: self.captures.unwrap_or(Path::new("")).to_owned(),
            error,
        })?;
        let lines = Lines {
            seed: self.seed,
            measures: &measures,
            vertices: &vertices,
            flows: &plan.flows,
        };
        let record = record
            .with("measured_s", measures.measured.as_secs_f64())
            .with("events", events)
            .with("hops", hops);
        // A group that holds together installs none after the warm-up.
        let has_configurations = self.scenario.protocol.family.contract.has_configurations();
        let configurations = measures.hosts.iter().map(|host| host.configurations).max();
        let record = lines
            .overall(record)
            .with(
                "configurations_max",
                configurations.filter(|_| has_configurations),
            )
            .with(
                "violations",
                self.scenario.judged.then_some(violations.len()),
            )
            .with("trace_hash", format!("{trace_hash:016x}"));
        Ok(Outcome {
            run: record,
            sheets: lines.sheets(),
            captures,
            events,
            hops,
            violations,
        })
    }

    fn config(&self, plan: &Plan) -> ExperimentConfig {
        let scenario = self.scenario;
        let measure = &scenario.measure;
        let nanos = u64::try_from(measure.latency_max.as_nanos()).unwrap_or(u64::MAX);
        // Hosts that are alike are not named one by one.
        let base = plan.hosts.first().cloned().unwrap_or_default();
        let others = plan
            .hosts
            .iter()
            .cloned()
            .enumerate()
            .filter(|(_, host)| *host != base);
        let overrides: BTreeMap<_, _> = others.collect();
        ExperimentConfig {
            multicast: match scenario.network.multicast {
                MulticastKey::Source => Some(Multicast::SourceTrees),
                MulticastKey::Core => Some(Multicast::CoreTree(plan.core)),
                MulticastKey::Copies => None,
            },
            mtu: scenario.network.mtu,
            senders_wait: scenario.network.senders_wait,
            hosts: base,
            overrides,
            measure: MeterConfig {
                warm_up: scenario.warm_up - Time::ZERO,
                window: measure.window,
                // And one of no length, for what happens at the very end.
                windows_max: WINDOWS_MAX as usize + 1,
                bins: Bins::linear(nanos, measure.bins as u32),
                ..MeterConfig::default()
            },
            judged: scenario.judged,
            contract: scenario.protocol.family.contract,
            acquainted: scenario.protocol.acquainted(),
            ..ExperimentConfig::new(
                plan.topology.clone(),
                scenario.protocol.family.inspect,
                self.seed,
            )
        }
    }

    /// Hosts, sources, flows and changes.
    fn fill<P: Instrumented>(&self, experiment: &mut Experiment<P>, plan: &Plan) {
        for (expected, source) in plan.sources.iter().enumerate() {
            let number = experiment.add_source(source.host, self.source(source));
            let number = number.expect("rates, bursts and traces were checked when they were read");
            assert_eq!(
                number, expected,
                "changes name a source by its place in the plan"
            );
        }
        for flow in &plan.flows {
            experiment.add_flow(*flow);
        }
        for host in &plan.parted {
            experiment.schedule(Time::ZERO, Change::Part(*host));
        }
        experiment.start_together(plan.started.iter().copied());
        for (at, change) in &plan.changes {
            experiment.schedule(*at, change.clone());
        }
    }

    fn source(&self, planned: &PlannedSource) -> SourceConfig {
        let keys = &self.scenario.sources[planned.table];
        SourceConfig {
            arrivals: match &keys.when {
                When::Constant { rate } => Arrivals::Constant { rate: *rate },
                When::Poisson { rate } => Arrivals::Poisson { rate: *rate },
                When::Bursts { rate, burst } => Arrivals::Bursts {
                    rate: *rate,
                    burst: *burst,
                },
                When::Trace(trace) => Arrivals::Trace(trace.clone()),
                When::Saturate => Arrivals::Saturate,
                When::Reply { advance, .. } => {
                    match Arrivals::reply(planned.answers.iter().copied()) {
                        Arrivals::Reply { to, due_max, .. } => Arrivals::Reply {
                            to,
                            due_max,
                            advance: *advance,
                        },
                        other => other,
                    }
                }
            },
            size: keys.size,
            service: keys.service,
            start: keys.start,
            stop: keys.stop.unwrap_or(self.scenario.duration),
            count: keys.count,
            stagger: keys.stagger,
        }
    }

    /// Lets the time pass, and tells.
    fn pass<P: Instrumented>(&self, experiment: &mut Experiment<P>) {
        let end = self.scenario.duration.as_nanos();
        for percent in 1..=100 {
            let until = u128::from(end) * u128::from(percent) / 100;
            experiment.run_to(Time::from_nanos(until as u64));
            self.watch.progress(self.seed, percent);
        }
    }

    /// The files that are captured into, by name.
    fn capture<P: Instrumented>(
        &self,
        experiment: &mut Experiment<P>,
        plan: &Plan,
    ) -> Result<Vec<String>, WriteError> {
        let mut names = Vec::new();
        let (Some(directory), Some(keys)) = (self.captures, &self.scenario.capture) else {
            return Ok(names);
        };
        for way in &plan.captures {
            let ends = [plan.topology.tail(*way), plan.topology.head(*way)];
            let [from, to] = ends.map(|vertex| legible(&plan.topology.name(vertex)));
            // Several links may join the same two vertices, and names may differ in one sign.
            let again = |number| match number {
                1 => format!("{}.{from}-{to}.pcap", self.seed),
                number => format!("{}.{from}-{to}.{number}.pcap", self.seed),
            };
            let free = (1..).map(again).find(|name| !names.contains(name));
            let name = free.expect("there are more numbers than links");
            let path = files::partial(directory, &name);
            let at = |error| WriteError {
                path: path.clone(),
                error,
            };
            let out = BufWriter::new(File::create(&path).map_err(at)?);
            let pcap = Pcap::new(Box::new(out) as Box<dyn Write>).map_err(at)?;
            experiment.capture(*way, pcap, keys.packets_max);
            names.push(name);
        }
        Ok(names)
    }
}

/// A name of a vertex as part of a file's name.
fn legible(name: &str) -> String {
    let safe = |c: char| {
        if c.is_alphanumeric() || matches!(c, '.' | '_') {
            c
        } else {
            '_'
        }
    };
    name.chars().map(safe).collect()
}
