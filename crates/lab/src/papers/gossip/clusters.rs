//! Two clusters joined by a noisy link (004 6.8.1, 6.10: Fig. 6.11–6.12, 6.17–6.18).

use super::super::plot::Axis;
use super::super::{Data, Plot, Verdict};
use super::curve::{Curve, brief};
use super::histogram::{HISTOGRAMS, Histogram, Look};
use super::metric::{ARRIVAL_99, ARRIVAL_MAX, BETWEEN, DELIVERY_99, INTERFERENCE, MISSING};
use super::network::Shape;
use super::point::{GossipPoint, Scheme};
use super::{FIVE_SEEDS, Figure, POINTS, SWEEP};

/// Latencies, 50 % between.
pub const FIG6_11: Figure = Figure {
    title: "Latency in the second of two clusters, 50 % noise between them",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let schemes = [Scheme::Grb, Scheme::Srm, Scheme::AdaptiveSrm];
        schemes
            .map(|scheme| setting(scheme, 0.5, 100.0).shortened(quick))
            .to_vec()
    },
    metrics: &[ARRIVAL_99, ARRIVAL_MAX, DELIVERY_99, BETWEEN, MISSING],
    looks: &[Look::Arrival, Look::Delivery],
    per_member: None,
    sweep: Some(|quick| {
        let slow = |scheme| GossipPoint {
            bandwidth: SLOW,
            ..setting(scheme, 0.5, 100.0)
        };
        let schemes = [Scheme::Grb, Scheme::Srm, Scheme::AdaptiveSrm];
        let slow = schemes.map(slow);
        let hierarchical = setting(Scheme::Hierarchical, 0.5, 100.0);
        let all = slow.into_iter().chain([hierarchical]);
        all.map(|setting| setting.shortened(quick)).collect()
    }),
    judge: fig6_11,
    plots: plot_latencies,
};

/// Interference over noise and rate.
pub const FIG6_17: Figure = Figure {
    title: "Interference in the second of two clusters over noise and rate",
    seeds: FIVE_SEEDS,
    plan: fig6_17_plan,
    metrics: &[INTERFERENCE, MISSING],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig6_17,
    plots: plot_interference,
};

/// 004 6.8.1: members of each cluster.
const CLUSTER: u32 = 40;
/// What the links of other figures carry; 004 prints nothing for these.
const SLOW: u64 = 1_500_000;
const NOISES: [f64; 5] = [0.1, 0.2, 0.3, 0.4, 0.5];
const RATES: [f64; 3] = [25.0, 50.0, 100.0];

fn setting(scheme: Scheme, between: f64, rate: f64) -> GossipPoint {
    GossipPoint {
        noise: 0.01,
        noise_apart: between,
        rate,
        ..GossipPoint::new(Shape::Clusters { size: CLUSTER }, scheme)
    }
}

fn fig6_17_plan(quick: bool) -> Vec<GossipPoint> {
    let (noises, rates) = if quick {
        (&NOISES[4..], &RATES[2..])
    } else {
        (&NOISES[..], &RATES[..])
    };
    let mut plan = Vec::new();
    for scheme in [Scheme::Grb, Scheme::Srm] {
        for rate in rates {
            for noise in noises {
                plan.push(setting(scheme, *noise, *rate).shortened(quick));
            }
        }
    }
    plan
}

fn histogram(data: &Data, scheme: Scheme, look: Look) -> Histogram {
    let having = [("scheme", scheme.name().into()), ("of", look.name().into())];
    Histogram::read(data.table(HISTOGRAMS), &having)
}

fn fig6_11(data: &Data, verdict: &mut Verdict) {
    for look in [Look::Arrival, Look::Delivery] {
        let grb = histogram(data, Scheme::Grb, look);
        let late = grb.share_from(1_000.0);
        verdict.check(
            late <= 0.001,
            format!("Pbcast-grb, {}: within about 1 s (99.9 %)", look.name()),
            format!(
                "{:.2} % later; the last within {} ms",
                late * 100.0,
                brief(grb.end())
            ),
        );
    }
    let srm = histogram(data, Scheme::Srm, Look::Arrival);
    verdict.check(
        srm.share_from(1_000.0) > 0.001 && srm.end() >= 2_000.0,
        "SRM delays some messages for seconds (2 s and more)",
        format!(
            "{:.2} % later than 1 s; the last within {} ms",
            srm.share_from(1_000.0) * 100.0,
            brief(srm.end())
        ),
    );
    let adaptive = histogram(data, Scheme::AdaptiveSrm, Look::Arrival);
    let late = adaptive.share_from(5_000.0);
    verdict.check(
        (0.02..=0.1).contains(&late),
        "adaptive SRM: about 5 % at 5 s or later (2 to 10 %)",
        format!(
            "{:.2} %; {:.2} % later than 1 s",
            late * 100.0,
            adaptive.share_from(1_000.0) * 100.0
        ),
    );
    for table in [POINTS, SWEEP] {
        for row in data.table(table).records() {
            verdict.note(format!(
                "{} over {} Mb/s, seed {}: 99 % arrive within {} ms, the last within {} ms; {} missing; {} kb/s between the \
                 clusters",
                row.text("scheme"),
                row.number("link") / 1e3,
                row.number("seed"),
                brief(row.number(ARRIVAL_99.name)),
                brief(row.number(ARRIVAL_MAX.name)),
                row.number(MISSING.name),
                brief(row.number(BETWEEN.name))
            ));
        }
    }
}

fn interference(data: &Data, scheme: Scheme, rate: f64) -> Curve {
    let having = [("scheme", scheme.name().into()), ("rate", rate.into())];
    Curve::read(
        data.table(POINTS),
        "noise apart",
        INTERFERENCE.name,
        &having,
    )
}

fn fig6_17(data: &Data, verdict: &mut Verdict) {
    let table = data.table(POINTS);
    let (mut above, mut all) = (0, 0);
    for rate in RATES {
        let (srm, grb) = (
            interference(data, Scheme::Srm, rate),
            interference(data, Scheme::Grb, rate),
        );
        all += srm.0.len();
        above += srm.0.iter().filter(|it| it.mean >= grb.at(it.x)).count();
        for (scheme, curve) in [(Scheme::Srm, &srm), (Scheme::Grb, &grb)] {
            if !curve.0.is_empty() {
                let text = format!("{} at {rate}/s: {} %", scheme.name(), curve.text());
                verdict.note(text);
            }
        }
    }
    verdict.check(
        all > 0 && above * 4 >= all * 3,
        "SRM's interference is at least Pbcast-grb's, at three points of four or more",
        format!("at {above} of {all}"),
    );
    let missing = |scheme: Scheme| {
        Curve::read(
            table,
            "noise apart",
            MISSING.name,
            &[("scheme", scheme.name().into())],
        )
    };
    let (srm, grb) = (missing(Scheme::Srm), missing(Scheme::Grb));
    verdict.check(
        srm.at(0.5) > 0.0,
        "SRM loses data above 40 % noise",
        format!("lost at the receiver, mean over rates: {}", srm.text()),
    );
    verdict.check(
        grb.most() == 0.0,
        "Pbcast-grb loses none at any noise",
        format!("lost at the receiver, mean over rates: {}", grb.text()),
    );
}

fn plot_latencies(data: &Data) -> Vec<Plot> {
    let plot = |look: Look| {
        let mut plot = Plot::new(
            look.name(),
            Axis::linear("latency", "ms").from(0.0),
            Axis::log("share of messages", "%"),
        );
        for scheme in [Scheme::Grb, Scheme::Srm, Scheme::AdaptiveSrm] {
            // SRM does not order.
            if look == Look::Arrival || scheme == Scheme::Grb {
                plot = plot.with(histogram(data, scheme, look).series(scheme.name(), 100.0));
            }
        }
        plot
    };
    vec![plot(Look::Arrival), plot(Look::Delivery)]
}

fn plot_interference(data: &Data) -> Vec<Plot> {
    let plot = |rate: &f64| {
        let mut plot = Plot::new(
            format!("{rate} messages a second"),
            Axis::linear("noise between the clusters", ""),
            Axis::linear("messages delayed by interference", "%").from(0.0),
        );
        for scheme in [Scheme::Grb, Scheme::Srm] {
            plot = plot.with(interference(data, scheme, *rate).series(scheme.name()));
        }
        plot
    };
    RATES.iter().map(plot).collect()
}
