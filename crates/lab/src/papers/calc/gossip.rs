//! `pb-fig3.3`: 004 Fig. 3.3. Does gossip deliver to almost all or almost none, and is the middle
//! less likely the larger the group?
//!
//! The text prints two values, 10^-16 for N = 25 and 10^-37 for N = 100, but neither fan-out nor
//! rounds, nor what a crash "during a run" is to a process that has delivered. Fan-out 7 and 21
//! rounds are the whole numbers that come nearest to both values, with crashes met contact by
//! contact; the table `risks` shows what hangs on each choice.

use std::ops::Range;

use groupcast_core::Rng;

use super::super::plot::{Axis, Point, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Table, Verdict};
use super::reach::{Crashing, ReachModel};

/// The bimodal distribution of deliveries.
pub struct GossipReach;

const SIZES: [usize; 4] = [25, 50, 75, 100];
const FAN_OUT: f64 = 7.0;
const ROUNDS: usize = 21;
/// 004 3.8: the analysis' own assumptions.
const LOSS: f64 = 0.05;
const CRASH: f64 = 0.001;
/// What the paper leaves open: fan-outs and rounds that the risk is computed for besides.
const OPEN: ([f64; 5], [usize; 6]) = ([5.0, 6.0, 7.0, 8.0, 9.0], [8, 12, 16, 21, 26, 31]);
/// Outcomes less likely than this are too rare to be counted.
const LIKELY: f64 = 1e-3;

fn model(processes: usize, fan_out: f64, rounds: usize) -> ReachModel {
    ReachModel {
        processes,
        fan_out,
        rounds,
        loss: LOSS,
        crash: CRASH,
        crashing: Crashing::AtContact,
    }
}

impl Reproduction for GossipReach {
    fn title(&self) -> &'static str {
        "Almost all or almost none: how many processes deliver"
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Calc]
    }

    fn seeds(&self) -> Range<u64> {
        1..21
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let plays = context.choose(1000, 50);
        let seeds: Vec<u64> = context.seeds().collect();
        let mut data = Data::new();
        data.condition("fan-out", FAN_OUT);
        data.condition("rounds", ROUNDS);
        data.condition("loss", "5 %");
        data.condition("crash", "0.1 % a contact");
        data.condition("epidemics played a group size", plays * seeds.len());
        let played = context.each(&seeds, |seed| Ok(play_all(*seed, plays)))?;
        data.push(outcomes(&played));
        data.push(risks(context)?);
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        judge_shape(data, &mut verdict);
        judge_risk(data, &mut verdict);
        judge_played(data, &mut verdict);
        note_what_is_open(data, &mut verdict);
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        vec![plot_distribution(data), plot_risk(data)]
    }
}

/// How often each number of processes delivered, by group size.
fn play_all(seed: u64, plays: usize) -> Vec<Vec<u64>> {
    let rng = Rng::new(seed);
    let play = |size: usize| {
        let mut rng = rng.fork_index(size as u64);
        let mut counts = vec![0; size + 1];
        for _ in 0..plays {
            counts[model(size, FAN_OUT, ROUNDS).simulate(&mut rng)] += 1;
        }
        counts
    };
    SIZES.into_iter().map(play).collect()
}

fn outcomes(played: &[Vec<Vec<u64>>]) -> Table {
    let columns = [
        ("processes", ""),
        ("delivered", ""),
        ("probability", ""),
        ("played", ""),
        ("counted", ""),
    ];
    let mut table = Table::new("outcomes", &columns);
    for (index, size) in SIZES.into_iter().enumerate() {
        let distribution = model(size, FAN_OUT, ROUNDS).distribution();
        let count = |delivered: usize| {
            played
                .iter()
                .map(|seed| seed[index][delivered])
                .sum::<u64>()
        };
        let total: u64 = (0..=size).map(count).sum();
        for (delivered, probability) in distribution.into_iter().enumerate().skip(1) {
            table.row([
                size.into(),
                delivered.into(),
                probability.into(),
                total.into(),
                count(delivered).into(),
            ]);
        }
    }
    table
}

/// The risk that half of the group delivers, for what the paper prints and for what it leaves open.
fn risks(context: &Context<'_>) -> Result<Table, RunError> {
    let mut points = Vec::new();
    for fan_out in context.choose(&OPEN.0[..], &[FAN_OUT]) {
        for rounds in OPEN.1 {
            points.extend(SIZES.map(|size| ("at contact", model(size, *fan_out, rounds))));
        }
    }
    points.extend(SIZES.map(|size| {
        let model = model(size, FAN_OUT, ROUNDS);
        let crashing = Crashing::Throughout;
        ("throughout", ReachModel { crashing, ..model })
    }));
    let risks = context.each(&points, |(_, model)| {
        Ok(model.distribution()[model.processes / 2])
    })?;
    let columns = ["crash", "fan-out", "rounds", "processes", "risk"].map(|name| (name, ""));
    let mut table = Table::new("risks", &columns);
    for ((crash, model), risk) in points.into_iter().zip(risks) {
        table.row([
            crash.into(),
            model.fan_out.into(),
            model.rounds.into(),
            model.processes.into(),
            risk.into(),
        ]);
    }
    Ok(table)
}

/// The distribution for a group size, from one process on.
fn distribution(data: &Data, size: usize) -> Vec<f64> {
    let rows = data.table("outcomes").having("processes", size);
    rows.map(|row| row.number("probability")).collect()
}

fn judge_shape(data: &Data, verdict: &mut Verdict) {
    for size in SIZES {
        let distribution = distribution(data, size);
        let tenth = size / 10;
        let sum = |range: Range<usize>| {
            distribution
                .get(range)
                .map_or(f64::NAN, |part| part.iter().sum())
        };
        let none: f64 = sum(0..tenth);
        let between: f64 = sum(tenth..size - tenth - 1);
        let all: f64 = sum(size - tenth - 1..size);
        let bottom = distribution.iter().copied().fold(f64::INFINITY, f64::min);
        let at = distribution
            .iter()
            .position(|value| *value == bottom)
            .unwrap_or(0);
        let falls = distribution
            .get(..=at)
            .unwrap_or(&[])
            .windows(2)
            .all(|pair| pair[1] < pair[0]);
        // The mode itself may lie a little below all.
        let rise = distribution.get(at..size - tenth).unwrap_or(&[]);
        let rises = rise.windows(2).all(|pair| pair[1] > pair[0]);
        // 004 3.3: almost all with high, almost none with low, in between with vanishingly small
        // probability.
        verdict.check(
            all > 0.9 && none < 0.1 && between < none / 10.0 && falls && rises,
            format!("N = {size}: almost all (≥ 90 %) deliver, seldom almost none (≤ 10 %), ten times more seldom a number between; one valley"),
            format!("{all:.4}, {none:.1e}, {between:.1e}; bottom {bottom:.1e} at {}", at + 1),
        );
    }
}

fn risk_at_half(data: &Data, size: usize) -> f64 {
    distribution(data, size)
        .get(size / 2 - 1)
        .copied()
        .unwrap_or(f64::NAN)
}

fn judge_risk(data: &Data, verdict: &mut Verdict) {
    let risks = SIZES.map(|size| risk_at_half(data, size));
    let shown: Vec<String> = risks.iter().map(|risk| format!("{risk:.1e}")).collect();
    verdict.check(
        risks.windows(2).all(|pair| pair[1] < pair[0]),
        "the risk that half of the group delivers falls with N = 25, 50, 75, 100",
        shown.join(", "),
    );
    for (size, exponent, printed) in [(25, -16.0, "10⁻¹⁶"), (100, -37.0, "10⁻³⁷")] {
        let risk = risk_at_half(data, size);
        verdict.check(
            (risk.log10() - exponent).abs() <= 1.0,
            format!("it is {printed} at N = {size}, within an order of magnitude"),
            format!("{risk:.1e}"),
        );
    }
}

fn judge_played(data: &Data, verdict: &mut Verdict) {
    let rows = data.table("outcomes").records();
    let likely = rows.filter(|row| row.number("probability") >= LIKELY);
    let deviations: Vec<f64> = likely
        .map(|row| {
            let (played, p) = (row.number("played"), row.number("probability"));
            (row.number("counted") - played * p) / (played * p * (1.0 - p)).sqrt()
        })
        .collect();
    let worst = deviations
        .iter()
        .fold(0.0f64, |worst, z| worst.max(z.abs()));
    // With some 20 outcomes, 95 % of all plays keep every one within three standard deviations.
    verdict.check(
        deviations.len() >= 2 * SIZES.len() && deviations.iter().all(|z| z.abs() <= 3.0),
        format!("epidemics played process by process end as computed, outcome by outcome where it is likelier than {LIKELY} (|z| ≤ 3)"),
        format!("largest |z| of {} outcomes: {worst:.2}", deviations.len()),
    );
}

fn note_what_is_open(data: &Data, verdict: &mut Verdict) {
    let (mut falling, mut total) = (Vec::new(), 0);
    let mut by_fan_out = Vec::new();
    for (fan_out, rounds) in combinations(data) {
        let risks = risks_of(data, "at contact", fan_out, rounds);
        total += 1;
        if risks.windows(2).all(|pair| pair[1] < pair[0]) {
            falling.push(rounds);
        }
        if let (true, Some(risk)) = (rounds == ROUNDS as f64, risks.first()) {
            by_fan_out.push(format!("{fan_out}: {risk:.0e}"));
        }
    }
    let least = falling.iter().copied().fold(f64::INFINITY, f64::min);
    verdict.note(format!(
        "The text prints neither fan-out nor rounds. Of {total} pairs tried the risk falls through all four sizes in {}, \
         all of {least} rounds or more: fewer end the epidemic of a large group on its way. How small the risk is hangs on \
         the fan-out (N = {}, {ROUNDS} rounds: {}).",
        falling.len(),
        SIZES[0],
        by_fan_out.join(", "),
    ));
    verdict.note(format!(
        "Fan-out {FAN_OUT} and {ROUNDS} rounds were chosen because they come nearest to the two risks that the text \
         prints: that these come out is no result. The shape and the fall with N are."
    ));
    let throughout = risks_of(data, "throughout", FAN_OUT, ROUNDS as f64);
    let shown: Vec<String> = throughout
        .iter()
        .map(|risk| format!("{risk:.1e}"))
        .collect();
    let falling = throughout.windows(2).all(|pair| pair[1] < pair[0]);
    verdict.note(format!(
        "If a crashed process takes no part in the whole run, the risks are {}, which {}.",
        shown.join(", "),
        if falling {
            "fall all the same"
        } else {
            "do not fall"
        },
    ));
}

/// The risks for all group sizes, in their order.
fn risks_of(data: &Data, crash: &str, fan_out: f64, rounds: f64) -> Vec<f64> {
    let rows = data.table("risks").having("crash", crash);
    let rows =
        rows.filter(|row| row.number("fan-out") == fan_out && row.number("rounds") == rounds);
    rows.map(|row| row.number("risk")).collect()
}

/// The pairs of fan-out and rounds that the risk was computed for.
fn combinations(data: &Data) -> Vec<(f64, f64)> {
    let mut pairs = Vec::new();
    for row in data.table("risks").records() {
        let pair = (row.number("fan-out"), row.number("rounds"));
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}

fn plot_distribution(data: &Data) -> Plot {
    let title =
        format!("Probability that k of N processes deliver, fan-out {FAN_OUT}, {ROUNDS} rounds");
    let mut plot = Plot::new(
        title,
        Axis::linear("k, processes that deliver", ""),
        Axis::log("probability", "").to(10.0),
    );
    for (colour, size) in SIZES.into_iter().enumerate() {
        let rows = || data.table("outcomes").having("processes", size);
        let computed = rows().map(|row| (row.number("delivered"), row.number("probability")));
        let likely = rows().filter(|row| row.number("probability") >= LIKELY);
        let counted = likely.map(|row| {
            let (played, count) = (row.number("played"), row.number("counted"));
            let error = 1.96 * count.sqrt();
            let place = row.number("delivered");
            Point::with_bar(
                place,
                count / played,
                (count - error) / played,
                (count + error) / played,
            )
        });
        plot = plot.with(Series::steps(format!("N = {size}"), computed).colour(colour));
        let name = if colour + 1 == SIZES.len() {
            "played (95 %)"
        } else {
            ""
        };
        plot = plot.with(Series::points(name, counted).colour(colour));
    }
    plot
}

fn plot_risk(data: &Data) -> Plot {
    let mut plot = Plot::new(
        format!("Risk that half of the group delivers, fan-out {FAN_OUT}"),
        Axis::linear("N, processes", "").from(0.0).to(110.0),
        Axis::log("probability", ""),
    );
    for (colour, rounds) in OPEN.1.into_iter().enumerate() {
        let risks = risks_of(data, "at contact", FAN_OUT, rounds as f64);
        let points = SIZES.iter().map(|size| *size as f64).zip(risks);
        let series = Series::line(format!("{rounds} rounds"), points).colour(colour);
        plot = plot.with(if rounds == ROUNDS {
            series
        } else {
            series.dashed()
        });
    }
    plot.with(Series::points("the paper's two values", [(25.0, 1e-16), (100.0, 1e-37)]).colour(6))
}

#[cfg(test)]
mod tests {
    use super::super::super::context::options;
    use super::super::super::{Cell, Context};
    use super::*;

    fn run() -> Data {
        let options = options(1..5, true, 2);
        GossipReach
            .run(&Context::new(&options, &|_, _| {}))
            .unwrap()
    }

    #[test]
    fn a_valley_filled_or_a_risk_that_rises_does_not_pass() {
        let data = run();
        assert!(
            GossipReach.judge(&data).passed(),
            "{:?}",
            GossipReach.judge(&data)
        );
        let spoil = |at: f64, probability: f64| {
            let mut data = data.clone();
            for row in &mut data.tables[0].rows {
                if row[0] == Cell::from(100.0) && row[1] == Cell::from(at) {
                    row[2] = probability.into();
                }
            }
            GossipReach.judge(&data)
        };
        assert!(!spoil(50.0, 1e-5).passed());
        assert!(!spoil(50.0, 1e-30).passed());
        assert!(!spoil(99.0, 0.5).passed());
        assert!(!GossipReach.judge(&Data::new()).passed());
    }
}
