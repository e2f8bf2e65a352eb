//! What to draw of 002's figures: mean latency over throughput, one plot a wire.

use super::super::plot::Axis;
use super::super::{Data, Plot};
use super::curve::{Curve, Curves};
use super::point::{Implementation, Protocol};

/// One plot for each wire.
pub(super) fn by_wire(data: &Data) -> Vec<Plot> {
    let curves = Curves::read(data);
    let wires = curves.wires().into_iter();
    wires.map(|wire| curves_on(&curves, wire)).collect()
}

/// The curves on one wire.
fn curves_on(curves: &Curves, wire: f64) -> Plot {
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
