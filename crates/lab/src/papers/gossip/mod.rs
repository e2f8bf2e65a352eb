//! 004: Pbcast and its variants beside SRM, over lossy networks, with slow members, and what it
//! buffers (ch. 4–7).
//!
//! A figure is a list of points, each measured on the simulator with every seed; a table of them;
//! distributions of latencies where it draws histograms; and a judge.
//!
//! - `point`, `network`, `protocol`: what a point is measured with, over which network, by which
//!   protocol.
//! - `sim`: one point. `metric`: the quantities that tables have columns for.
//! - `curve`, `histogram`: what can be said of points and of distributions.
//! - `perturbed`: slow members and drops (ch. 4). `cost`: digests beside session messages (5.5).
//!   `overhead`: requests, repairs, link use (6.3–6.5). `latency`: gaps and latencies (6.6, 6.7,
//!   6.9). `clusters`, `router`: 6.8 and 6.10. `buffers`, `locations`: what is buffered, and where
//!   (ch. 7). `transcript`: exchanges, played by `exchange`.

mod buffers;
mod clusters;
mod cost;
mod curve;
mod exchange;
mod histogram;
mod latency;
mod locations;
mod metric;
mod network;
mod overhead;
mod perturbed;
mod point;
mod protocol;
mod router;
mod sim;
#[cfg(test)]
mod tests;
mod transcript;

use std::ops::Range;

pub use self::buffers::{FIG7_6, FIG7_8, FIG7_9, FIG7_10};
pub use self::clusters::{FIG6_11, FIG6_17};
pub use self::cost::COST;
pub use self::latency::{FIG6_7, FIG6_8, FIG6_9, FIG6_16};
pub use self::locations::Locations;
pub use self::overhead::{FIG6_1, FIG6_2, FIG6_4, FIG6_5, FIG6_6};
pub use self::perturbed::{FIG4_3, FIG4_5, FIG4_7, FIG4_9};
pub use self::router::FIG6_14;
pub use self::transcript::{FIG3_1, FIG5_5, FIG5_8, FIG7_1, Transcript};

use self::histogram::{Found, Look};
use self::metric::Metric;
use self::point::GossipPoint;
use super::{Cell, Context, Data, LabHost, Plot, Reproduction, RunError, Verdict};

/// The table with a row a point and seed.
const POINTS: &str = "points";
/// The table of what 004 leaves open, swept.
const SWEEP: &str = "sweep";
/// The table with a row a member, point and seed.
const MEMBERS: &str = "members";

/// 004 6.3.1: five simulations a point.
const FIVE_SEEDS: Range<u64> = 1..6;
/// 004 ch. 4 says of no experiment how often it was made.
const THREE_SEEDS: Range<u64> = 1..4;

/// One of 004's figures.
pub struct Figure {
    title: &'static str,
    seeds: Range<u64>,
    /// What is measured, with every seed.
    plan: fn(quick: bool) -> Vec<GossipPoint>,
    /// The columns beside what tells the points apart.
    metrics: &'static [Metric],
    /// Which distributions are kept.
    looks: &'static [Look],
    /// What is kept of each member: a counter of its protocol.
    per_member: Option<&'static str>,
    /// What is measured beside it with the first seed, over what 004 leaves open.
    sweep: Option<fn(quick: bool) -> Vec<GossipPoint>>,
    judge: fn(&Data, &mut Verdict),
    plots: fn(&Data) -> Vec<Plot>,
}

/// What is kept of a point.
struct Measured {
    row: Vec<Cell>,
    distributions: Vec<Found>,
    members: Option<Vec<f64>>,
}

impl Reproduction for Figure {
    fn title(&self) -> &'static str {
        self.title
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Sim]
    }

    fn seeds(&self) -> Range<u64> {
        self.seeds.clone()
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let quick = context.options().quick;
        let plan = (self.plan)(quick);
        let sweep = self.sweep.map_or_else(Vec::new, |sweep| sweep(quick));
        let first = context.seeds().start;
        let every = plan
            .iter()
            .flat_map(|setting| context.seeds().map(move |seed| (setting, seed)));
        let points: Vec<(&GossipPoint, u64)> = every
            .chain(sweep.iter().map(|setting| (setting, first)))
            .collect();
        let measured = context.each(&points, |(setting, seed)| {
            let run = sim::measure(setting, *seed)?;
            Ok(Measured {
                row: metric::row(&run, *seed, self.metrics),
                distributions: histogram::distributions(&run, self.looks),
                members: self.per_member.map(|name| run.counters(name).collect()),
            })
        })?;
        let mut data = Data::new();
        metric::conditions(&plan, &mut data);
        let (of_plan, of_sweep) = measured.split_at(measured.len() - sweep.len());
        let rows = |of: &[Measured]| of.iter().map(|it| it.row.clone()).collect::<Vec<_>>();
        data.push(metric::table(POINTS, self.metrics, &rows(of_plan)));
        if !self.looks.is_empty() {
            let found = of_plan.iter().flat_map(|it| &it.distributions);
            data.push(histogram::table(found));
        }
        if let Some(name) = self.per_member {
            data.push(metric::members(of_plan, name));
        }
        if !sweep.is_empty() {
            data.push(metric::table(SWEEP, self.metrics, &rows(of_sweep)));
        }
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        (self.judge)(data, &mut verdict);
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        (self.plots)(data)
    }
}
