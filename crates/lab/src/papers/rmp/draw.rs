//! What to draw of 000's figures.

use super::super::plot::{Axis, Point, Series};
use super::super::points::Points;
use super::super::{Data, Plot};
use super::judge::{self, WIRE};

/// The mean of a column at each value of another, with the range over seeds as bars.
fn barred(points: &Points<'_>, x: &str, y: &str) -> Vec<Point> {
    let each = |at: f64| {
        let of = points.at(x, at);
        let (least, most) = of.range(y);
        Point::with_bar(at, of.mean(y), least, most)
    };
    points.different(x).into_iter().map(each).collect()
}

/// The ten loads of Fig. 12, as names and as sources and sinks.
fn loads(points: &Points<'_>) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for sources in points.different("sources") {
        let sinks = points.at("sources", sources).different("sinks");
        all.extend(sinks.into_iter().map(|sinks| (sources, sinks)));
    }
    all
}

/// A bar a load and system of a column, times the sinks if `times_sinks`.
fn by_load(data: &Data, title: &str, column: &str, y: Axis, times_sinks: bool) -> Plot {
    let points = Points::read(data);
    let loads = loads(&points);
    let names = loads
        .iter()
        .map(|(sources, sinks)| format!("{sources} × {sinks}"));
    let mut plot = Plot::new(title, Axis::categories("sources × sinks", names), y);
    for system in ["RMP", "MBus II", "MBus I"] {
        let of = points.system(system);
        let bar = |(at, (sources, sinks)): (usize, &(f64, f64))| {
            let of = of.load(*sources, *sinks);
            let factor = if times_sinks { *sinks } else { 1.0 };
            let (least, most) = of.range(column);
            Point::with_bar(
                at as f64,
                of.mean(column) * factor,
                least * factor,
                most * factor,
            )
        };
        let bars: Vec<Point> = loads.iter().enumerate().map(bar).collect();
        plot = plot.with(Series::bars(system, bars));
    }
    plot
}

pub(super) fn fig12(data: &Data) -> Vec<Plot> {
    let y = Axis::linear("all sinks together", "KB/s").from(0.0);
    vec![by_load(data, "aggregate throughput", "throughput", y, true).guide(WIRE, "the wire")]
}

pub(super) fn fig15(data: &Data) -> Vec<Plot> {
    let y = Axis::linear("time with a frame", "%").from(0.0).to(100.0);
    vec![by_load(data, "use of the cable", "cable", y, false)]
}

pub(super) fn fig13(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let mut plot = Plot::new(
        "a lone sender",
        Axis::linear("destinations", "").from(0.0),
        Axis::log("a destination gets", "KB/s"),
    );
    for system in ["RMP", "MBus I", "RPC", "TCP"] {
        let of = points.system(system);
        plot = plot.with(Series::line(system, barred(&of, "sinks", "throughput")));
    }
    let limit = (1..=8).map(|n| (f64::from(n), WIRE / f64::from(n)));
    vec![plot.with(Series::line("limit of unicast", limit).dashed())]
}

pub(super) fn fig14(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let systems = [
        ("RMP, agreed", points.system("RMP").of("service", "agreed")),
        (
            "RMP, reliable",
            points.system("RMP").of("service", "reliable"),
        ),
        ("RPC", points.system("RPC")),
    ];
    [
        ("from packet to packet", "period"),
        ("until delivery", "latency"),
    ]
    .map(|(title, column)| {
        let mut plot = Plot::new(
            title,
            Axis::linear("destinations", "").from(0.0),
            Axis::linear(title, "ms").from(0.0),
        );
        for (name, points) in &systems {
            plot = plot.with(Series::line(*name, barred(points, "sinks", column)));
        }
        plot
    })
    .into()
}

pub(super) fn fig14k(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let mut plot = Plot::new(
        "eight sites, of which some send",
        Axis::linear("K", "").from(0.0),
        Axis::linear("latency, times that at K = 0", "").from(0.0),
    );
    for sources in points.different("sources") {
        let ratios = judge::growth(&points.at("sources", sources));
        plot = plot.with(Series::line(format!("{sources} send"), ratios));
    }
    let law = (0..=7).map(|k| (f64::from(k), judge::law(f64::from(k))));
    let lone = (0..=7).map(|k| (f64::from(k), f64::from(k) + 1.0));
    vec![
        plot.with(Series::line("(K + 2)/2", law).dashed())
            .with(Series::line("K + 1", lone).dashed()),
    ]
}

pub(super) fn table2(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let versions = judge::TABLE2.map(|(version, _)| version);
    let ours = |(at, version): (usize, &&str)| {
        let of = points.system("MBus II").of("version", version);
        (at as f64, of.mean("throughput"))
    };
    let ours: Vec<(f64, f64)> = versions.iter().enumerate().map(ours).collect();
    let paper = judge::TABLE2.iter().enumerate();
    let paper: Vec<(f64, f64)> = paper.map(|(at, (_, kbps))| (at as f64, *kbps)).collect();
    vec![
        Plot::new(
            "MBus II after each step",
            Axis::categories("version", versions),
            Axis::log("throughput", "KB/s"),
        )
        .with(Series::points("the model", ours))
        .with(Series::points("000", paper)),
    ]
}

pub(super) fn msgs(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let busy = points.of("load", "always");
    let mut plot = Plot::new(
        "high load",
        Axis::linear("loss at a receiver", "").from(0.0),
        Axis::linear("datagrams a message", "").from(0.0),
    );
    for (colour, sites) in busy.different("members").into_iter().enumerate() {
        let of = busy.at("members", sites);
        let losses = of.different("loss");
        let ours = losses
            .iter()
            .map(|loss| (*loss, judge::datagrams(&of.at("loss", *loss))));
        let positive = losses
            .iter()
            .map(|loss| (*loss, judge::positive_acks(sites, *loss)));
        plot = plot
            .with(Series::line(format!("RMP, {sites} sites"), ours).colour(colour))
            .with(
                Series::line(format!("positive ACKs, {sites} sites"), positive)
                    .colour(colour)
                    .dashed(),
            );
    }
    vec![plot]
}
