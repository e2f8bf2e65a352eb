//! What it costs when nothing is lost: digests beside session messages (004 5.5).

use super::super::plot::Axis;
use super::super::{Data, Plot, Verdict};
use super::curve::{Curve, brief};
use super::metric::{RECEIPTS, REQUESTS};
use super::network::Shape;
use super::point::{GossipPoint, Scheme};
use super::{FIVE_SEEDS, Figure, POINTS};

/// Control receipts over the size of the group.
pub const COST: Figure = Figure {
    title: "Gossip and session messages received a second, by all members",
    seeds: FIVE_SEEDS,
    plan,
    metrics: &[RECEIPTS, REQUESTS],
    looks: &[],
    per_member: None,
    sweep: None,
    judge,
    plots,
};

const BOTH: [Scheme; 2] = [Scheme::Pbcast, Scheme::Srm];
const SIZES: [u32; 5] = [10, 20, 40, 80, 160];
/// How near a count must come to the formula.
const NEAR: f64 = 0.05;

fn plan(quick: bool) -> Vec<GossipPoint> {
    let sizes = if quick { &SIZES[..3] } else { &SIZES[..] };
    let settings = BOTH.iter().flat_map(|scheme| {
        sizes.iter().map(|size| {
            let setting = GossipPoint {
                noise: 0.0,
                bandwidth: 0,
                ..GossipPoint::new(Shape::Switch { size: *size }, *scheme)
            };
            setting.shortened(quick)
        })
    });
    settings.collect()
}

fn curve(data: &Data, scheme: Scheme) -> Curve {
    let having = [("scheme", scheme.name().into())];
    Curve::read(data.table(POINTS), "size", RECEIPTS.name, &having)
}

fn judge(data: &Data, verdict: &mut Verdict) {
    near(data, Scheme::Pbcast, "10·G", |size| 10.0 * size, verdict);
    // Its own message reaches the G − 1 others.
    near(
        data,
        Scheme::Srm,
        "G·(G − 1)",
        |size| size * (size - 1.0),
        verdict,
    );
    let [gossip, session] = BOTH.map(|scheme| curve(data, scheme));
    verdict.note(format!(
        "with the largest group {} beside {} a second",
        brief(gossip.last()),
        brief(session.last())
    ));
}

/// That the count of receipts follows a formula of the size of the group.
fn near(
    data: &Data,
    scheme: Scheme,
    formula: &str,
    expected: impl Fn(f64) -> f64,
    verdict: &mut Verdict,
) {
    let curve = curve(data, scheme);
    let off = curve
        .0
        .iter()
        .map(|it| (it.mean / expected(it.x) - 1.0).abs());
    let worst = off.fold(f64::NAN, f64::max);
    verdict.check(
        worst <= NEAR,
        format!(
            "{}: {formula} a second at every size, within {:.0} %",
            scheme.name(),
            NEAR * 100.0
        ),
        format!("off by {:.1} % at most: {}", worst * 100.0, curve.text()),
    );
}

fn plots(data: &Data) -> Vec<Plot> {
    let mut plot = Plot::new(
        "received a second, all members together",
        Axis::log("members", ""),
        Axis::log("gossip or session messages", "1/s"),
    );
    for scheme in BOTH {
        plot = plot.with(curve(data, scheme).series(scheme.name()));
    }
    vec![plot]
}
