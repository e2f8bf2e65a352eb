//! What 004 6.3–6.5 says of the curves, each a check of the verdict.

use super::super::super::data::Table;
use super::super::super::{Data, Verdict};
use super::super::SWEEP;
use super::super::curve::{brief, rows};
use super::super::metric::{LINK_IN, LINK_OUT, MISSING_ALL, Metric, REPAIRS, REQUESTS, SENT};
use super::super::point::{Open, Scheme};
use super::{PBCASTS, SRMS, curve};

/// Four times as many members, and this much more or less is still "about constant".
const FLAT: f64 = 1.5;
/// Four times as many members, and at least this much more is a rise that goes with the group.
const RISE: f64 = 2.0;
/// The share of the variance that a straight line explains where growth is "linear".
const STRAIGHT: f64 = 0.9;

pub(super) fn use_rises(table: &Table, scheme: Scheme, metric: Metric, verdict: &mut Verdict) {
    let curve = curve(table, scheme, "tree", metric);
    verdict.check(
        curve.growth() > 1.1 && curve.line().0 > 0.0,
        format!("{}: {} rises with the group", metric.name, scheme.name()),
        format!("{} %", curve.text()),
    );
}

/// SRM uses more of the link than Pbcast, the more the larger the group; Pbcast's use grows more
/// slowly.
pub(super) fn links(table: &Table, verdict: &mut Verdict) {
    for metric in [LINK_OUT, LINK_IN] {
        for srm in SRMS {
            use_rises(table, srm, metric, verdict);
            let above = curve(table, srm, "tree", metric);
            let (slope, _) = above.line();
            for pbcast in PBCASTS {
                let below = curve(table, pbcast, "tree", metric);
                let slower = below.line().0;
                verdict.check(
                    above.is_above(&below) && slower < slope,
                    format!(
                        "{}: {} above {} at every size, and growing faster",
                        metric.name,
                        srm.name(),
                        pbcast.name()
                    ),
                    format!(
                        "{} % beside {} % in the largest group; {} beside {} % more a member",
                        brief(above.last()),
                        brief(below.last()),
                        brief(slope),
                        brief(slower)
                    ),
                );
            }
        }
    }
}

pub(super) fn rises(
    table: &Table,
    scheme: Scheme,
    network: &str,
    metric: Metric,
    verdict: &mut Verdict,
) {
    let curve = curve(table, scheme, network, metric);
    let (slope, _) = curve.line();
    verdict.check(
        curve.growth() >= RISE && slope > 0.0,
        format!(
            "{}: {} rises with the group ({RISE} times at least)",
            metric.name,
            scheme.name()
        ),
        format!("{} times: {}", brief(curve.growth()), curve.text()),
    );
}

pub(super) fn rises_in_a_line(
    table: &Table,
    scheme: Scheme,
    network: &str,
    metric: Metric,
    verdict: &mut Verdict,
) {
    let curve = curve(table, scheme, network, metric);
    let (slope, fit) = curve.line();
    verdict.check(
        curve.growth() >= RISE && slope > 0.0 && fit >= STRAIGHT,
        format!(
            "{}: {} linear in the size of the group ({RISE} times at least, a line explains {} %)",
            metric.name,
            scheme.name(),
            STRAIGHT * 100.0
        ),
        format!(
            "{} times, a line explains {:.0} %: {}",
            brief(curve.growth()),
            fit * 100.0,
            curve.text()
        ),
    );
}

pub(super) fn is_flat(
    table: &Table,
    scheme: Scheme,
    network: &str,
    metric: Metric,
    verdict: &mut Verdict,
) {
    let curve = curve(table, scheme, network, metric);
    let growth = curve.growth();
    verdict.check(
        (FLAT.recip()..=FLAT).contains(&growth),
        format!(
            "{}: {} about constant (within {FLAT} times)",
            metric.name,
            scheme.name()
        ),
        format!("{} times: {}", brief(growth), curve.text()),
    );
}

/// What multicast repairs do: no more requests, more repairs, and still fewer than SRM's.
pub(super) fn a_few_more_repairs(table: &Table, network: &str, verdict: &mut Verdict) {
    let of = |scheme, metric| curve(table, scheme, network, metric);
    let (basic, ipmc) = (of(Scheme::Pbcast, REPAIRS), of(Scheme::Ipmc, REPAIRS));
    let srm = of(Scheme::Srm, REPAIRS);
    let ((slope, _), (steep, _)) = (ipmc.line(), srm.line());
    verdict.check(
        ipmc.is_above(&basic) && ipmc.last() < srm.last() / 2.0 && slope < steep / 2.0,
        "repairs: Pbcast-ipmc above Pbcast at every size, with less than half of SRM's slope and of its repairs",
        format!(
            "{}; with Pbcast {} and SRM {} in the largest group",
            ipmc.text(),
            brief(basic.last()),
            brief(srm.last())
        ),
    );
    let (basic, ipmc) = (of(Scheme::Pbcast, REQUESTS), of(Scheme::Ipmc, REQUESTS));
    verdict.note(format!(
        "requests, Pbcast-ipmc: {}; Pbcast: {} (004: slightly fewer with ipmc)",
        ipmc.text(),
        basic.text()
    ));
}

pub(super) fn all_deliver(table: &Table, verdict: &mut Verdict) {
    let short: Vec<String> = table
        .records()
        .filter(|row| row.number(MISSING_ALL.name) != 0.0)
        .map(|row| {
            format!(
                "{} of {} deliveries missing with {} at {}, seed {}",
                row.number(MISSING_ALL.name),
                row.number(SENT.name) * (row.number("size") - 1.0),
                row.text("scheme"),
                row.number("size"),
                row.number("seed")
            )
        })
        .collect();
    verdict.note(
        "whom nobody gossips to for all the rounds that a message is kept loses it: with sub-gsize 1 and 10 rounds some \
         e^-10 to e^-9 of what was lost at first, so one message in a few runs of the largest group",
    );
    verdict.check(
        short.is_empty() && !table.rows.is_empty(),
        "every member delivers every message, in every run",
        if short.is_empty() {
            format!("in all {} runs", table.rows.len())
        } else {
            format!(
                "not in {}: {}",
                short.len(),
                short[..short.len().min(3)].join("; ")
            )
        },
    );
}

pub(super) fn note_delivery(table: &Table, verdict: &mut Verdict) {
    let all = table
        .records()
        .filter(|row| row.number(MISSING_ALL.name) == 0.0);
    verdict.note(format!(
        "every member delivered every message in {} of {} runs",
        all.count(),
        table.rows.len()
    ));
}

/// What hangs on what 004 leaves open; it decides nothing.
pub(super) fn remark_on_sweep(data: &Data, verdict: &mut Verdict) {
    let table = data.table(SWEEP);
    for open in Open::sweep() {
        let keys = open.keys();
        let having: Vec<_> = Open::COLUMNS
            .iter()
            .map(|(name, _)| *name)
            .zip(keys)
            .collect();
        let found: Vec<String> = rows(table, &having)
            .map(|row| {
                format!(
                    "{} {} and {}",
                    row.text("scheme"),
                    brief(row.number(REQUESTS.name)),
                    brief(row.number(REPAIRS.name))
                )
            })
            .collect();
        verdict.note(format!(
            "{}: requests and repairs in the largest group: {}",
            open.text(),
            found.join(", ")
        ));
    }
}
