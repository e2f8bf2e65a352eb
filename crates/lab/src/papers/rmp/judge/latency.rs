//! Latency (Fig. 14), and what K adds to it (text p. 91).

use super::super::super::points::{Points, line};
use super::super::super::{Data, Verdict};
use super::{is_near, list};

/// Fig. 14: a message of one byte.
pub(in super::super) fn fig14(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let rmp = points.system("RMP").of("service", "agreed");
    let immediate = points.system("RMP").of("service", "reliable");
    let rpc = points.system("RPC");
    let period = |points: &Points<'_>| points.curve("sinks", "period");
    let alone = rpc.at("sinks", 1.0).mean("period");
    verdict.check(
        is_near(alone, 1.0, 0.05),
        "calibration: a call to one is within 5 % of 1 ms",
        format!("{alone:.3} ms"),
    );
    let ours = period(&rmp);
    let grows = ours.last().map_or(f64::NAN, |it| it.1) / ours.first().map_or(f64::NAN, |it| it.1);
    verdict.check(
        ours.len() >= 4 && grows <= 1.5,
        "RMP, from packet to packet: to 8 destinations at most 1.5 times as long as to one",
        format!("{grows:.2} times; {} ms", list(ours.iter().map(|it| it.1))),
    );
    let calls = period(&rpc);
    let (begin, slope) = line(&calls);
    let straight = |(n, ms): &(f64, f64)| is_near(*ms, begin + slope * n, 0.05);
    verdict.check(
        calls.len() >= 4 && calls.iter().all(straight) && begin.abs() < 0.1 * slope,
        "RPC is linear in the number of destinations, from 0 on, within 5 %",
        format!("{begin:.3} + {slope:.3} N ms"),
    );
    crossover(&rmp, &rpc, verdict);
    ordered(&rmp, &immediate, verdict);
    verdict.note(format!(
        "000 measured 3 ms a packet; this predicts {} ms: the model's processors do nothing but \
         network calls",
        list(ours.iter().map(|it| it.1))
    ));
}

/// From which number of destinations on a message is there sooner by RMP.
fn crossover(rmp: &Points<'_>, rpc: &Points<'_>, verdict: &mut Verdict) {
    let (ours, calls) = (rmp.curve("sinks", "latency"), rpc.curve("sinks", "latency"));
    let behind = ours
        .iter()
        .zip(&calls)
        .rev()
        .find(|(ours, calls)| ours.1 >= calls.1);
    let first = behind.map_or(1.0, |(ours, _)| ours.0 + 1.0);
    verdict.check(
        ours.len() >= 4 && first <= 3.0,
        "delivered at the destinations, in the mean, sooner than RPC from at most 3 of them on",
        format!(
            "from {first} on: {} beside {} ms",
            list(ours.iter().map(|it| it.1)),
            list(calls.iter().map(|it| it.1))
        ),
    );
}

/// What the order costs.
fn ordered(agreed: &Points<'_>, immediate: &Points<'_>, verdict: &mut Verdict) {
    let latency = |points: &Points<'_>| points.curve("sinks", "latency");
    let ratios: Vec<(f64, f64)> = latency(agreed)
        .iter()
        .zip(latency(immediate))
        .map(|(agreed, immediate)| (agreed.0, agreed.1 / immediate.1))
        .collect();
    let words = ratios
        .iter()
        .map(|(n, ratio)| format!("{n}: {ratio:.2}"))
        .collect::<Vec<_>>()
        .join(", ");
    let fits = |ratio: f64| (1.5..=2.0).contains(&ratio);
    verdict.check(
        ratios.len() >= 4 && ratios.iter().all(|(_, ratio)| fits(*ratio)),
        "ordered delivery costs 1.5 to 2 times immediate delivery, whatever the number of \
         destinations",
        words.clone(),
    );
    let by_law = |(n, ratio): &(f64, f64)| is_near(*ratio, order_law(*n), 0.15);
    verdict.check(
        ratios.len() >= 4 && ratios.iter().all(by_law),
        "it costs 2 N / (N + 1) times, as the token goes round, within 15 %",
        words,
    );
    verdict.note(
        "1.5 to 2 cannot come out for one and two destinations: of N + 1 members that are token \
         site in turn, one is the sender, whose ACK comes right behind its packet, and one the \
         destination, which waits for none; 000 says that the factor depends on the size of the \
         group, shows no measurement, and expects it where links take long",
    );
}

/// What the order of a packet costs at one of `destinations`, where the token goes round and only
/// ways count: twice the packet's way, but no second one where the token site is the sender or the
/// destination itself.
fn order_law(destinations: f64) -> f64 {
    2.0 * destinations / (destinations + 1.0)
}

/// What K adds, "under heavy load".
pub(in super::super) fn fig14k(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let mut spread = Vec::new();
    for sources in points.different("sources") {
        for seed in points.different("seed") {
            let of = points.at("sources", sources).at("seed", seed);
            let (least, most) = of.range("throughput");
            spread.push(most / least - 1.0);
        }
    }
    verdict.check(
        !spread.is_empty() && spread.iter().all(|share| *share <= 0.05),
        "with a seed, throughput is the same for every K, within 5 %",
        format!(
            "within {:.2} %",
            spread.iter().fold(0.0, |a, b| b.max(a)) * 100.0
        ),
    );
    let all = points
        .different("sources")
        .last()
        .copied()
        .unwrap_or(f64::NAN);
    let ratios = growth(&points.at("sources", all));
    let misses = |(k, ratio): &(f64, f64)| !is_near(*ratio, law(*k), 0.15);
    verdict.check(
        ratios.len() >= 4 && !ratios.iter().any(misses),
        format!("all {all} sites send: latency grows by (K + 2)/2, within 15 %"),
        words(&ratios),
    );
    for sources in points.different("sources") {
        let of = points.at("sources", sources);
        let ratios = growth(&of);
        verdict.note(format!(
            "{sources} of {all} sites send: {} ms at K = 0, times {}; (K + 2)/2 is {}, K + 1 is {}",
            list([k0(&of)]),
            words(&ratios),
            list(ratios.iter().map(|it| law(it.0))),
            list(ratios.iter().map(|it| it.0 + 1.0)),
        ));
    }
    verdict.note(
        "a lone sender's token moves once a packet, so that each K is another packet's time; of \
         two, a packet waits at every pass, which is the load that (K + 2)/2 counts on; of eight, \
         a packet waits for the seven others before its own ACK, and K is small beside that",
    );
    verdict.note(
        "000 shows no measurement of this: its latency is one over the packets a second, which K does \
         not change; the factor is two ways of a datagram, packet and ACK, and one more for each \
         pass, if a packet waits at each pass and none for its own ACK: two senders, not eight",
    );
    verdict.note(
        "K = 1 costs less than a pass: a packet's sender holds it, and ours counts it (the marks \
         of K + 1 members); packets bear marks as ACKs do",
    );
}

/// "A factor of roughly (K+2)/2".
pub(in super::super) fn law(k: f64) -> f64 {
    (k + 2.0) / 2.0
}

/// The K of a service.
fn resilience(service: &str) -> f64 {
    match service.strip_prefix("k-resilient:") {
        Some(k) => k.parse().unwrap_or(f64::NAN),
        None => 0.0,
    }
}

fn k0(points: &Points<'_>) -> f64 {
    points.of("service", "agreed").mean("returned")
}

/// Latency at each K, as a factor of that at K = 0.
pub(in super::super) fn growth(points: &Points<'_>) -> Vec<(f64, f64)> {
    let services = points.words("service");
    let each = services.iter().map(|service| {
        let latency = points.of("service", service).mean("returned");
        (resilience(service), latency / k0(points))
    });
    each.collect()
}

fn words(ratios: &[(f64, f64)]) -> String {
    let each = ratios
        .iter()
        .map(|(k, ratio)| format!("K = {k}: {ratio:.2}"));
    each.collect::<Vec<_>>().join(", ")
}
