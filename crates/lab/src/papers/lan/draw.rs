//! What to draw of 001's points: time over something, a curve for each value of something else.

use super::super::Plot;
use super::super::plot::{Axis, Point as Mark, Series};
use super::points::{Key, Point, Points};

/// A curve's name from its packet size.
pub(super) fn packet(key: &Key) -> String {
    format!("{} B", key.packet)
}

fn window(key: &Key) -> String {
    format!("window {}", key.window)
}

fn height(key: &Key) -> String {
    format!("height {}", key.height)
}

fn size(key: &Key) -> String {
    format!("{} B", key.size)
}

/// The system, with its height if it has one.
fn system(key: &Key) -> String {
    match key.height.is_finite() {
        true => format!("{}({})", key.system, key.height),
        false => key.system.clone(),
    }
}

fn time() -> Axis {
    Axis::linear("time", "ms").from(0.0)
}

/// Time over `x`, a curve for each `name`.
fn curves(
    points: &Points,
    title: &str,
    axis: Axis,
    x: fn(&Key) -> f64,
    name: impl Fn(&Key) -> String,
) -> Plot {
    let mut names: Vec<String> = Vec::new();
    for point in points.iter() {
        let name = name(&point.key);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .iter()
        .fold(Plot::new(title, axis, time()), |plot, curve| {
            let of = points.of(|key| name(key) == *curve);
            let mut marks: Vec<Mark> = of
                .iter()
                .filter(|point| point.time().is_finite())
                .map(|point| {
                    let (low, high) = point.range();
                    Mark::with_bar(x(&point.key), point.time(), low, high)
                })
                .collect();
            marks.sort_by(|a, b| a.x.total_cmp(&b.x));
            plot.with(Series::line(curve, marks))
        })
}

/// Time over the number of receivers.
pub(super) fn by_receivers(points: &Points, name: impl Fn(&Key) -> String) -> Vec<Plot> {
    let axis = Axis::linear("receivers", "");
    vec![curves(
        points,
        "time to all receivers",
        axis,
        |key| key.receivers,
        name,
    )]
}

/// ACK, with and without the copy, and UDP.
pub(super) fn overhead(points: &Points) -> Vec<Plot> {
    let name = |key: &Key| match (&*key.system, key.copy > 0.0) {
        ("ack", false) => "ack without the copy".to_owned(),
        _ => key.system.clone(),
    };
    let axis = || Axis::linear("message", "B").from(0.0);
    let small = points.of(|key| key.size <= 35_000.0);
    vec![
        curves(&small, "small messages", axis(), |key| key.size, name),
        curves(points, "all", axis(), |key| key.size, name),
    ]
}

/// Time over the window.
pub(super) fn windows(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("window", "packets").from(0.0);
    vec![curves(points, "window", axis, |key| key.window, packet)]
}

/// Time over the packet.
pub(super) fn packets(points: &Points) -> Vec<Plot> {
    let axis = Axis::log("packet", "B");
    vec![curves(points, "packet", axis, |key| key.packet, window)]
}

/// Small and large messages over the number of receivers.
pub(super) fn small_and_large(points: &Points) -> Vec<Plot> {
    let axis = || Axis::linear("receivers", "");
    let part = |title, small: bool| {
        let of = points.of(|key| (key.size <= 8_000.0) == small);
        curves(&of, title, axis(), |key| key.receivers, size)
    };
    vec![part("up to 8 KB", true), part("above 8 KB", false)]
}

/// Time over the poll interval.
pub(super) fn polls(points: &Points) -> Vec<Plot> {
    let windows = points.values(|key| key.window);
    let plot = |window: &f64| {
        let of = points.of(|key| key.window == *window);
        let axis = Axis::linear("poll interval", "packets").from(0.0);
        curves(
            &of,
            &format!("window {window}"),
            axis,
            |key| key.poll,
            packet,
        )
    };
    windows.iter().rev().map(plot).collect()
}

/// Time over the buffer.
pub(super) fn buffer_sizes(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("buffer", "KB").from(0.0);
    let buffer = |key: &Key| key.window * key.packet / 1e3;
    vec![curves(points, "buffer", axis, buffer, packet)]
}

/// Time over the height.
pub(super) fn heights(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("height", "").from(0.0);
    vec![curves(points, "height", axis, |key| key.height, packet)]
}

/// Time over the window, a curve a height.
pub(super) fn heights_by_window(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("window", "packets").from(0.0);
    vec![curves(points, "window", axis, |key| key.window, height)]
}

/// Small messages over the height.
pub(super) fn small_trees(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("height", "").from(0.0);
    vec![curves(
        points,
        "small messages",
        axis,
        |key| key.height,
        size,
    )]
}

/// Small messages of each system.
pub(super) fn small(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("message", "B").from(0.0);
    vec![curves(
        points,
        "messages of one packet",
        axis,
        |key| key.size,
        system,
    )]
}

/// A bar a point.
fn bars(points: &Points, y: Axis, name: &str, value: impl Fn(&Point) -> f64) -> Plot {
    let names: Vec<String> = points.iter().map(|point| system(&point.key)).collect();
    let values = points.iter().enumerate();
    let marks = values.map(|(index, point)| (index as f64, value(point)));
    Plot::new(name, Axis::categories("", names), y).with(Series::bars(name, marks))
}

/// What each keeps.
pub(super) fn buffers(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("kept at most", "KB").from(0.0);
    let kept = |point: &Point| point.mean(|measured| measured.buffered) / 1e3;
    vec![bars(points, axis, "the sender's buffer", kept)]
}

/// How fast each is.
pub(super) fn throughputs(points: &Points) -> Vec<Plot> {
    let axis = Axis::linear("throughput", "Mb/s").from(0.0);
    vec![bars(
        points,
        axis,
        "2 MB to 30 receivers",
        Point::throughput,
    )]
}

/// Acknowledgements of the largest message to the most receivers.
pub(super) fn acknowledgements(points: &Points) -> Vec<Plot> {
    let most = points.values(|key| key.size).last().copied();
    let all = points.values(|key| key.receivers).last().copied();
    let of = points.of(|key| Some(key.size) == most && Some(key.receivers) == all);
    let name = |key: &Key| match (key.poll.is_finite(), key.height.is_finite()) {
        (true, _) => format!("{}({})", key.system, key.poll),
        (_, true) => format!("{}({})", key.system, key.height),
        _ => key.system.clone(),
    };
    let names: Vec<String> = of.iter().map(|point| name(&point.key)).collect();
    let series = |label: &str, value: fn(&Point) -> f64| {
        let values = of.iter().enumerate();
        Series::bars(label, values.map(|(index, it)| (index as f64, value(it))))
    };
    let plot = Plot::new(
        "the largest message to the most receivers",
        Axis::categories("", names),
        Axis::linear("acknowledgements", "").from(0.0),
    )
    .with(series("in the network", |point| {
        point.mean(|measured| measured.sent)
    }))
    .with(series("at the sender", |point| {
        point.mean(|measured| measured.arrived)
    }));
    vec![plot]
}
