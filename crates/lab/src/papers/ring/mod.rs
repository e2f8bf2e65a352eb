//! 002: the Accelerated Ring beside the original one, latency over throughput (Fig. 1–7).
//!
//! A figure is a list of curves, each measured at several loads on the simulator or on namespaces, and a judge.
//!
//! - `setup`: implementations, protocols, wires, windows, loads.
//! - `sim`, `net`: one point on the simulator, and on namespaces of this machine.
//! - `curve`: what can be said of a curve beside another.
//! - `judge`: what each figure concluded, as arithmetic.
//! - `plan`: which points a figure has.
//!
//! What does not come out, and why:
//! - Fig. 2, library: at one or two packets a visit the message that waits behind them doubles the latency, so the curve
//!   begins with a fall and "more than all before" is met at once. Its climb as such begins as the daemon's does.
//! - Fig. 5, Spread: where Safe takes delivery off the token's path, original and accelerated ring are bound by the same
//!   processor, whatever the windows, and peak within 1 %; 002 measured 35 % more. Below that the accelerated one is
//!   ahead as in Fig. 3.
//! - Fig. 7 comes out unless a process takes so long to wake up that data catches up with the token (see its sweep).

mod curve;
mod judge;
mod net;
mod plan;
mod setup;
mod sim;

use std::ops::Range;

use groupcast_core::Service;

use self::curve::{Curve, Curves};
use self::setup::{HOSTS, Implementation, Protocol, Setting};
use super::plot::Axis;
use super::{Context, Data, Host, Plot, Reproduction, RunError, Verdict};

/// One of 002's figures.
pub struct Figure {
    title: &'static str,
    hosts: &'static [Host],
    /// What is measured on the simulator.
    plan: fn(quick: bool) -> Vec<Setting>,
    /// What is measured beside it, over what 002 leaves open.
    sweep: Option<fn(quick: bool) -> Vec<Setting>>,
    judge: fn(&Curves, &mut Verdict),
    /// What the sweep says; it decides nothing.
    remark: fn(&Data, &mut Verdict),
}

/// Agreed, 1 Gb/s.
pub const FIG1: Figure = Figure {
    title: "Agreed latency and throughput, 1 Gb/s",
    hosts: &[Host::Sim, Host::Net],
    plan: |quick| plan::gbit1(Service::Agreed, quick),
    sweep: None,
    judge: judge::fig1,
    remark: |_, _| {},
};

/// Safe, 1 Gb/s.
pub const FIG2: Figure = Figure {
    title: "Safe latency and throughput, 1 Gb/s",
    hosts: &[Host::Sim, Host::Net],
    plan: |quick| plan::gbit1(Service::Safe, quick),
    sweep: None,
    judge: judge::fig2,
    remark: |_, _| {},
};

/// Agreed, 10 Gb/s.
pub const FIG3: Figure = Figure {
    title: "Agreed latency and throughput, 10 Gb/s",
    hosts: &[Host::Sim],
    plan: |quick| plan::gbit10(Service::Agreed, quick),
    sweep: Some(|quick| plan::windows(Implementation::Daemon, Service::Agreed, quick)),
    judge: judge::fig3,
    remark: judge::windows,
};

/// Agreed, 10 Gb/s, two sizes.
pub const FIG4: Figure = Figure {
    title: "Agreed latency and throughput of 1350 B and 8850 B messages, 10 Gb/s",
    hosts: &[Host::Sim],
    plan: |quick| plan::sizes(Service::Agreed, quick),
    sweep: None,
    judge: judge::fig4,
    remark: |_, _| {},
};

/// Safe, 10 Gb/s, and what Agreed peaks at.
pub const FIG5: Figure = Figure {
    title: "Safe latency and throughput, 10 Gb/s",
    hosts: &[Host::Sim],
    plan: plan::safe_beside_agreed,
    sweep: Some(|quick| plan::windows(Implementation::Spread, Service::Safe, quick)),
    judge: judge::fig5,
    remark: judge::windows,
};

/// Safe, 10 Gb/s, two sizes.
pub const FIG6: Figure = Figure {
    title: "Safe latency and throughput of 1350 B and 8850 B messages, 10 Gb/s",
    hosts: &[Host::Sim],
    plan: |quick| plan::sizes(Service::Safe, quick),
    sweep: None,
    judge: judge::fig4,
    remark: |_, _| {},
};

/// Safe, 10 Gb/s, low loads.
pub const FIG7: Figure = Figure {
    title: "Safe latency at low throughputs, 10 Gb/s",
    hosts: &[Host::Sim],
    plan: plan::low,
    sweep: Some(plan::delays),
    judge: judge::fig7,
    remark: judge::delays,
};

impl Reproduction for Figure {
    fn title(&self) -> &'static str {
        self.title
    }

    fn hosts(&self) -> &'static [Host] {
        self.hosts
    }

    fn seeds(&self) -> Range<u64> {
        1..4
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let mut data = Data::new();
        data.condition("hosts", HOSTS);
        let mut table = curve::table();
        match context.options().host {
            Host::Net => net::run(context, &(self.plan)(true), &mut data, &mut table)?,
            Host::Sim | Host::Calc => sim::run(
                context,
                &(self.plan)(context.options().quick),
                &mut data,
                &mut table,
            )?,
        }
        data.push(table);
        if let Some(sweep) = self.sweep {
            data.push(sim::sweep(context, &sweep(context.options().quick))?);
        }
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        (self.judge)(&Curves::read(data), &mut verdict);
        (self.remark)(data, &mut verdict);
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        let curves = Curves::read(data);
        curves
            .wires()
            .into_iter()
            .map(|wire| self.plot(&curves, wire))
            .collect()
    }
}

impl Figure {
    fn plot(&self, curves: &Curves, wire: f64) -> Plot {
        let title = match wire {
            1_000.0.. => format!("{} Gb/s", wire / 1_000.0),
            _ => format!("{wire} Mb/s"),
        };
        let several = |of: fn(&Curve) -> String| {
            let first = curves.iter().next().map(of);
            curves.iter().any(|curve| Some(of(curve)) != first)
        };
        let services = several(|curve| curve.key.service.clone());
        let sizes = several(|curve| curve.key.size.to_string());
        let mut plot = Plot::new(
            title,
            Axis::linear("payload that a receiver gets", "Mb/s").from(0.0),
            Axis::linear("mean latency", "µs").from(0.0),
        );
        for curve in curves.iter().filter(|curve| curve.key.wire == wire) {
            let key = &curve.key;
            let mut name = format!("{}, {}", key.implementation, key.protocol);
            if sizes {
                name += &format!(", {} B", key.size);
            }
            if services {
                name += &format!(", {}", key.service);
            }
            let kinds = Implementation::ALL.iter().map(|kind| kind.name());
            let mut colour = kinds.take_while(|kind| *kind != key.implementation).count();
            if sizes && key.size > 1_500.0 {
                colour += Implementation::ALL.len();
            }
            let series = curve.series(&name).colour(colour);
            plot = plot.with(if key.protocol == Protocol::Original.name() {
                series.dashed()
            } else {
                series
            });
        }
        plot
    }
}
