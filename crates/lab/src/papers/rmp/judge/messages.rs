//! How many datagrams a message takes (ch. 8).

use super::super::super::points::Points;
use super::super::super::{Data, Verdict};
use super::{is_near, list};

/// What a message takes where every receiver acknowledges it: sender and receivers are `sites`, and
/// each receiver of a datagram loses it with probability `loss`. The sender multicasts again until
/// it has all acknowledgements.
pub(in super::super) fn positive_acks(sites: f64, loss: f64) -> f64 {
    let receivers = sites - 1.0;
    let fails = 1.0 - (1.0 - loss).powi(2);
    let more = |round: i32| 1.0 - (1.0 - fails.powi(round)).powf(receivers);
    let rounds: f64 = (0..200).map(more).sum();
    rounds + receivers / (1.0 - loss)
}

/// All datagrams a message, of which a multicast is one.
pub(in super::super) fn datagrams(points: &Points<'_>) -> f64 {
    ["multicasts", "unicasts", "repairs"]
        .iter()
        .map(|column| points.mean(column))
        .sum()
}

/// Ch. 8, [MaCh84].
pub(in super::super) fn msgs(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let busy = points.of("load", "always");
    let rings = busy.different("members");
    let high: Vec<(f64, f64)> = rings
        .iter()
        .map(|sites| {
            let of = busy.at("members", *sites).at("loss", 0.0);
            (of.mean("multicasts"), of.mean("unicasts"))
        })
        .collect();
    verdict.check(
        high.len() == 3 && (high.iter()).all(|it| is_near(it.0, 2.0, 0.05) && it.1 < 0.05),
        "high load, no loss: 2 multicasts a message (5 %), and no unicast, in rings of 3, 4 and 8",
        format!(
            "{} multicasts, {} unicasts",
            list(high.iter().map(|it| it.0)),
            list(high.iter().map(|it| it.1))
        ),
    );
    low_load(&points, verdict);
    against_positive(&busy, &rings, verdict);
}

/// One message now and then.
fn low_load(points: &Points<'_>, verdict: &mut Verdict) {
    let loads = points.words("load").into_iter();
    let rate = |load: &str| load.strip_suffix("/s")?.parse::<f64>().ok();
    let rates: Vec<(f64, &str)> = loads.filter_map(|load| Some((rate(load)?, load))).collect();
    // Below one a second null ACKs pass the token on.
    let between: Vec<_> = rates.iter().filter(|(rate, _)| *rate >= 2.0).collect();
    let of = |load: &str| {
        let of = points.of("load", load);
        (of.mean("multicasts"), of.mean("unicasts"))
    };
    let counts: Vec<(f64, f64)> = between.iter().map(|(_, load)| of(load)).collect();
    verdict.check(
        !counts.is_empty()
            && (counts.iter()).all(|it| is_near(it.0, 2.0, 0.05) && is_near(it.1, 1.0, 0.05)),
        "low load (2 messages a second and more, each after the one before is done): 2 multicasts \
         and a unicast (5 %)",
        format!(
            "{} multicasts, {} unicasts at {} messages a second",
            list(counts.iter().map(|it| it.0)),
            list(counts.iter().map(|it| it.1)),
            list(between.iter().map(|(rate, _)| *rate)),
        ),
    );
    for (rate, load) in rates.iter().filter(|(rate, _)| *rate < 2.0) {
        let (multicasts, unicasts) = of(load);
        verdict.note(format!(
            "{rate} messages a second: {multicasts:.2} multicasts and {unicasts:.2} unicasts: null \
             ACKs after 1 s, and their Confirms"
        ));
    }
}

/// Loss, beside positive acknowledgements.
fn against_positive(busy: &Points<'_>, rings: &[f64], verdict: &mut Verdict) {
    for sites in rings {
        let of = busy.at("members", *sites);
        let each: Vec<(f64, f64, f64)> = of
            .different("loss")
            .into_iter()
            .map(|loss| {
                let ours = datagrams(&of.at("loss", loss));
                (loss, ours, positive_acks(*sites, loss))
            })
            .collect();
        let words = each.iter().map(|(loss, ours, positive)| {
            format!("{:.1} %: {ours:.2} beside {positive:.2}", loss * 100.0)
        });
        verdict.check(
            each.len() >= 3 && each.iter().all(|(_, ours, positive)| ours < positive),
            format!(
                "ring of {sites}, high load: at every loss fewer datagrams than positive \
                acknowledgements"
            ),
            words.collect::<Vec<_>>().join(", "),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_loss_everybody_acknowledges_once() {
        assert_eq!(positive_acks(4.0, 0.0), 4.0);
        // Two sites: rounds are geometric, 1/0.81; each has an ACK if the packet came.
        let two = positive_acks(2.0, 0.1);
        assert!((two - (1.0 / 0.81 + 1.0 / 0.9)).abs() < 1e-9, "{two}");
    }
}
