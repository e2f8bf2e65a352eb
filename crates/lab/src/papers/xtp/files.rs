//! Tables 5.4 to 5.7: a file of 500 KB to 1 to 5 receivers, and by unicast to one after the other.

use super::super::figure::SWEEP;
use super::super::plot::{Axis, Series};
use super::super::points::Points;
use super::super::{Data, Plot, Verdict};
use super::latency::calibrated;
use super::machines::{Machine, System};
use super::transfer::{Open, RingPoint, What, set_of};

use Machine::{Core, Flex, Zenith};

/// The receivers of Tables 5.4 and 5.7, the one that each adds.
const SETS: [Machine; 5] = [Flex, Zenith, Flex, Core, Core];
/// Table 5.5: a Zenith to each machine, in Kbit/s.
const UNICAST: [(Machine, f64); 3] = [(Flex, 606.1), (Core, 640.0), (Zenith, 347.8)];
/// Tables 5.4 and 5.7, to 1 to 5 receivers.
const LIST: [f64; 5] = [273.8, 235.3, 225.4, 206.9, 191.1];
const MULTIDRIVER: [f64; 5] = [320.0, 241.7, 233.4, 230.0, 221.4];
/// Table 5.6: a Flex to one and two Zeniths; and by unicast "roughly 350".
const FAST: [f64; 2] = [189.5, 175.7];
const ZENITHS: [Machine; 2] = [Zenith; 2];

fn point(system: System, open: Open, sender: Machine, receivers: &[Machine]) -> RingPoint {
    RingPoint {
        system,
        what: What::File(open),
        sender,
        receivers: receivers.to_vec(),
    }
}

fn sets(open: Open, system: System, counts: &[usize]) -> Vec<RingPoint> {
    let each = counts.iter().map(|count| &SETS[..*count]);
    each.map(|set| point(system, open, Zenith, set)).collect()
}

fn unicasts(open: Open, sender: Machine) -> Vec<RingPoint> {
    let each = UNICAST.iter();
    each.map(|(machine, _)| point(System::Unicast, open, sender, &[*machine]))
        .collect()
}

fn counts(quick: bool) -> &'static [usize] {
    if quick { &[1, 2, 3] } else { &[1, 2, 3, 4, 5] }
}

/// What `with` measures, for every other value of what 003 leaves open.
fn others(quick: bool, with: impl Fn(Open) -> Vec<RingPoint>) -> Vec<RingPoint> {
    match quick {
        true => Vec::new(),
        false => Open::OTHERS.into_iter().flat_map(with).collect(),
    }
}

/// Tables 5.4 and 5.5.
pub(super) fn table4(quick: bool) -> Vec<RingPoint> {
    let mut plan = unicasts(Open::DEFAULT, Zenith);
    plan.extend(sets(Open::DEFAULT, System::List, counts(quick)));
    plan
}

pub(super) fn table4_others(quick: bool) -> Vec<RingPoint> {
    others(quick, |open| {
        let mut plan = unicasts(open, Zenith);
        plan.extend(sets(open, System::List, &[1, 2, 3, 5]));
        plan
    })
}

/// Table 5.6, beside the slow sender.
pub(super) fn table6(_quick: bool) -> Vec<RingPoint> {
    with_both_senders(Open::DEFAULT)
}

fn with_both_senders(open: Open) -> Vec<RingPoint> {
    let mut plan = unicasts(open, Zenith);
    plan.extend(sets(open, System::List, &[1, 2]));
    plan.push(point(System::Unicast, open, Flex, &[Zenith]));
    for sender in [Flex, Zenith] {
        let to = |count| point(System::List, open, sender, &ZENITHS[..count]);
        plan.extend([1, 2].map(to));
    }
    plan
}

pub(super) fn table6_others(quick: bool) -> Vec<RingPoint> {
    others(quick, with_both_senders)
}

/// Table 5.7, beside Table 5.4.
pub(super) fn table7(quick: bool) -> Vec<RingPoint> {
    let both = [System::Multidriver, System::List];
    let each = both.map(|system| sets(Open::DEFAULT, system, counts(quick)));
    each.concat()
}

pub(super) fn table7_others(quick: bool) -> Vec<RingPoint> {
    others(quick, |open| {
        let both = [System::Multidriver, System::List];
        both.map(|system| sets(open, system, &[1, 2, 3, 5]))
            .concat()
    })
}

/// The rate by which files go to this many receivers, one after the other: as 003 counts, a share
/// of the mean of the rates; and as long as it takes.
fn sequential(points: &Points<'_>, receivers: &[Machine]) -> (f64, f64) {
    let unicast = points.system("unicast");
    let rates = receivers.iter().map(|machine| {
        let set = set_of(&[*machine]);
        unicast.of("set", &set).mean("throughput")
    });
    let count = receivers.len() as f64;
    let arithmetic = rates.clone().sum::<f64>() / count / count;
    (arithmetic, 1.0 / rates.map(|rate| 1.0 / rate).sum::<f64>())
}

/// Of a system and sender the throughput at each number of receivers.
fn rates(points: &Points<'_>, system: &str, sender: Machine) -> Vec<(usize, f64)> {
    let of = points.system(system).of("sender", sender.name());
    let curve = of.curve("receivers", "throughput");
    curve
        .into_iter()
        .map(|(count, rate)| (count as usize, rate))
        .collect()
}

fn calibration(points: &Points<'_>, verdict: &mut Verdict) {
    let unicast = points.system("unicast").of("sender", Zenith.name());
    for (machine, paper) in UNICAST {
        let set = format!("1 {}", machine.name());
        let ours = unicast.of("set", &set).mean("throughput");
        let what = format!("unicast from a Zenith to a {}, in Kbit/s", machine.name());
        calibrated(verdict, &what, ours, paper);
    }
}

/// The number of receivers from which on multicast is ahead; `true`: as 003 counts the unicasts.
fn ahead_from(points: &Points<'_>, arithmetic: bool) -> Option<usize> {
    let ours = rates(points, "list-based", Zenith);
    let is_ahead = |(count, rate): &(usize, f64)| {
        let (as_003, real) = sequential(points, &SETS[..*count]);
        *rate > if arithmetic { as_003 } else { real }
    };
    let behind = ours.iter().rev().find(|it| !is_ahead(it)).map(|it| it.0);
    let mut counts = ours.iter().map(|it| it.0);
    counts.find(|count| behind.is_none_or(|behind| *count > behind))
}

pub(super) fn judge4(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    calibration(&points, verdict);
    let from = |arithmetic| ahead_from(&points, arithmetic);
    let words = |from: Option<usize>| match from {
        Some(count) => format!("from {count} on"),
        None => "never".to_owned(),
    };
    verdict.check(
        from(true).is_some_and(|count| count <= 3),
        "ahead of sequential unicast from 3 receivers on, as 003 counts it (the mean of the rates, shared)",
        words(from(true)),
    );
    verdict.check(
        from(false).is_some_and(|count| count <= 2),
        "with the time that one after the other really takes, from 2 on",
        words(from(false)),
    );
    let ours = rates(&points, "list-based", Zenith);
    verdict.note(format!(
        "list-based: {}; 003: {}",
        listed(&ours),
        paper(&LIST)
    ));
    let each = ours.iter().map(|(count, _)| {
        let (as_003, real) = sequential(&points, &SETS[..*count]);
        format!("{count}: {as_003:.0} as 003 counts, {real:.0} really")
    });
    verdict.note(format!(
        "sequential unicast, Kbit/s: {}",
        each.collect::<Vec<_>>().join("; ")
    ));
    verdict.note(
        "003 averages rates where it should add times: two transfers at 606.1 and 347.8 Kbit/s one after the \
         other carry 221 Kbit/s, not 238.5, so that its own multicast (235.3) is ahead from 2 on",
    );
    each_other(data, verdict, |points| {
        format!(
            "ahead {} as 003 counts, {} really; {}",
            words(ahead_from(points, true)),
            words(ahead_from(points, false)),
            listed(&rates(points, "list-based", Zenith))
        )
    });
}

/// Multicast's throughput as a factor of sequential unicast's.
fn gain(points: &Points<'_>, sender: Machine, receivers: &[Machine]) -> f64 {
    let of = points.of("sender", sender.name());
    let ours = of.system("list-based").of("set", &set_of(receivers));
    ours.mean("throughput") / sequential(&of, receivers).0
}

/// From the slow and the fast sender of 003, at one and two of their receivers.
fn gains(points: &Points<'_>) -> [[f64; 2]; 2] {
    [1, 2].map(|count| {
        let slow = gain(points, Zenith, &SETS[..count]);
        [slow, gain(points, Flex, &ZENITHS[..count])]
    })
}

pub(super) fn judge6(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    calibration(&points, verdict);
    for (count, [slow, fast]) in [1, 2].into_iter().zip(gains(&points)) {
        verdict.check(
            (0.75..=1.0 / 0.75).contains(&(fast / slow)),
            format!(
                "to {count}: what multicast gains over sequential unicast is the same from a fast sender as \
                 from a slow one, within a quarter"
            ),
            format!("{fast:.2} and {slow:.2} times"),
        );
    }
    verdict.note("003: 0.54 and 0.45 times to one, 1.01 and 0.99 to two");
    let same = [1, 2].map(|count| {
        let [fast, slow] = [Flex, Zenith].map(|sender| gain(&points, sender, &ZENITHS[..count]));
        format!("{fast:.2} and {slow:.2} times to {count}")
    });
    verdict.note(format!(
        "003's receivers differ: Zeniths of the fast sender, a Flex and a Zenith of the slow one. To the same \
         Zeniths from both: {}",
        same.join(", ")
    ));
    verdict.note(
        "the slowest receiver sets the pace here: a second Zenith costs multicast nothing and sequential unicast \
         as much again, a Zenith beside a Flex less than that. 003's multicast to two loses more than ours",
    );
    let unicast = points.system("unicast").of("sender", Flex.name());
    verdict.note(format!(
        "unicast from a Flex to a Zenith: {:.0} Kbit/s, a prediction; 003: roughly 350",
        unicast.mean("throughput")
    ));
    let ours = rates(&points, "list-based", Flex);
    verdict.note(format!(
        "list-based from a Flex: {}; 003: {}",
        listed(&ours),
        paper(&FAST)
    ));
    each_other(data, verdict, |points| {
        let [one, two] = gains(points);
        format!(
            "{:.2} and {:.2} times to one, {:.2} and {:.2} to two",
            one[1], one[0], two[1], two[0]
        )
    });
}

/// By how much the Multidriver is ahead of the list-based one, at each number of receivers.
fn ahead(points: &Points<'_>) -> Vec<(usize, f64)> {
    let list = rates(points, "list-based", Zenith);
    let multidriver = rates(points, "Multidriver", Zenith);
    let both = multidriver.iter().zip(&list);
    both.map(|(ours, list)| (ours.0, ours.1 / list.1 - 1.0))
        .collect()
}

fn shares(ahead: &[(usize, f64)]) -> String {
    let each = ahead
        .iter()
        .map(|(count, share)| format!("{count}: {:.1} %", share * 100.0));
    each.collect::<Vec<_>>().join(", ")
}

pub(super) fn judge7(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let ours = ahead(&points);
    verdict.check(
        ours.len() >= 3 && ours.iter().all(|(_, share)| (0.0..=0.17).contains(share)),
        "the Multidriver is ahead by 0 to 17 % at every number of receivers",
        shares(&ours),
    );
    verdict.note(format!(
        "Multidriver: {}; 003: {}",
        listed(&rates(&points, "Multidriver", Zenith)),
        paper(&MULTIDRIVER)
    ));
    verdict.note(format!(
        "list-based: {}; 003: {}",
        listed(&rates(&points, "list-based", Zenith)),
        paper(&LIST)
    ));
    each_other(data, verdict, |points| shares(&ahead(points)));
}

/// Says what comes out with other values of what 003 leaves open; it decides nothing.
fn each_other(data: &Data, verdict: &mut Verdict, say: impl Fn(&Points<'_>) -> String) {
    let sweep = Points::of_table(data, SWEEP);
    for open in Open::OTHERS {
        let of = sweep.at("packet", open.packet.into());
        let of = of
            .at("window", open.window.into())
            .at("every", open.every.into());
        if !of.values("time").is_empty() {
            verdict.note(format!("with {}: {}", open.name(), say(&of)));
        }
    }
    verdict.note(
        "003 says neither how large packets are nor how often a file's sender asks; its low rate to one receiver \
         (273.8 where a unicast carries 606.1) is near what a round for every packet alone costs",
    );
}

fn listed(rates: &[(usize, f64)]) -> String {
    let each = rates
        .iter()
        .map(|(count, rate)| format!("{count}: {rate:.0}"));
    format!("{} Kbit/s", each.collect::<Vec<_>>().join(", "))
}

fn paper(rates: &[f64]) -> String {
    let each = rates.iter().map(|rate| format!("{rate:.1}"));
    each.collect::<Vec<_>>().join(", ")
}

fn throughput() -> Axis {
    Axis::linear("throughput", "Kbit/s").from(0.0)
}

fn receivers() -> Axis {
    Axis::linear("receivers", "").from(0.0)
}

/// A system's line, and what 003 measured.
fn with_paper(plot: Plot, points: &Points<'_>, system: &str, paper: &[f64], colour: usize) -> Plot {
    let ours = points.system(system).curve("receivers", "throughput");
    let paper = paper.iter().enumerate();
    let paper = paper.map(|(at, rate)| (at as f64 + 1.0, *rate));
    plot.with(Series::line(system, ours).colour(colour)).with(
        Series::points(format!("{system}, 003"), paper)
            .colour(colour)
            .dashed(),
    )
}

pub(super) fn draw4(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let plot = Plot::new("500 KB from a Zenith", receivers(), throughput());
    let plot = with_paper(plot, &points, "list-based", &LIST, 0);
    let counts = points.system("list-based").different("receivers");
    let both = counts.iter().map(|count| {
        let (as_003, real) = sequential(&points, &SETS[..*count as usize]);
        ((*count, as_003), (*count, real))
    });
    let (as_003, real): (Vec<_>, Vec<_>) = both.unzip();
    vec![
        plot.with(Series::line("sequential unicast, really", real).colour(1))
            .with(Series::line("as 003 counts it", as_003).colour(1).dashed()),
    ]
}

pub(super) fn draw6(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let gains = gains(&points);
    let of = |which: usize| {
        let each = gains.iter().enumerate();
        each.map(|(at, gain)| (at as f64, gain[which]))
            .collect::<Vec<_>>()
    };
    vec![
        Plot::new(
            "what multicast gains over sequential unicast",
            Axis::categories("receivers", ["1", "2"]),
            Axis::linear("throughput, times that of unicast", "").from(0.0),
        )
        .with(Series::bars("from a Zenith", of(0)))
        .with(Series::bars("from a Flex", of(1)))
        .with(Series::points(
            "from a Zenith, 003",
            [(0.0, 0.452), (1.0, 0.987)],
        ))
        .with(Series::points(
            "from a Flex, 003",
            [(0.0, 0.541), (1.0, 1.010)],
        )),
    ]
}

pub(super) fn draw7(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let plot = Plot::new("500 KB from a Zenith", receivers(), throughput());
    let plot = with_paper(plot, &points, "Multidriver", &MULTIDRIVER, 0);
    vec![with_paper(plot, &points, "list-based", &LIST, 1)]
}
