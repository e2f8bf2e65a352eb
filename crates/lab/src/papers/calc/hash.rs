//! `pb-hash`: 004 7.2–7.3. Is the shuffle table's H fair, and does a group lose a message as often
//! as the closed form says?
//!
//! A seed is a group: its own table, its own members, messages from one of them. The closed form is
//! about tables drawn at random; what one table does to different messages is not independent, so
//! the intervals of the Monte Carlo are drawn over groups, never over messages of one. Fairness is
//! about the one table that a group has: chi-squares are taken in each group, and then together.

use std::ops::Range;

use groupcast_core::{Incarnation, MemberId, NodeId, Rng};
use groupcast_protocols::gossip::{Shuffle, is_bufferer};

use super::super::plot::{Axis, Point, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Table, Verdict};
use super::fairness::{self, ChiSquares, LOOKS, MEMBERS, messages_of};
use super::loss::{member_loss, p_fail, p_fail_limit};

/// Fairness of H, and the probability that all bufferers of a message miss it.
pub struct Hash;

/// Group sizes of the Monte Carlo.
const SIZES: [usize; 5] = [16, 32, 64, 128, 256];
/// Bufferers wanted: few enough to see failures, and about the paper's C.
const WANTED: [u32; 2] = [2, 6];
/// The paper's upper loss a link (7.9).
const LINK_LOSS: f64 = 0.015;
/// Group sizes at which the closed form is compared with its limit.
const LIMIT_SIZES: [f64; 6] = [10.0, 100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0];
/// The loss at which it is, the same at every size.
const LIMIT_LOSS: f64 = 0.1;

impl Reproduction for Hash {
    fn title(&self) -> &'static str {
        "Who buffers what: is the hash fair, are messages lost as computed?"
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Calc]
    }

    fn seeds(&self) -> Range<u64> {
        1..201
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let messages = context.choose(LOOKS[1], LOOKS[0]);
        let looks = context.choose(&LOOKS[..], &LOOKS[..1]);
        let seeds: Vec<u64> = context.seeds().collect();
        let groups = context.each(&seeds, |seed| Ok(Group::measure(*seed, messages, looks)))?;

        let mut data = Data::new();
        data.condition("messages a group", messages);
        data.condition("groups", seeds.len());
        data.condition("loss a link", "1.5 %");
        data.condition("links a message crosses", "log2 n");
        let chi_squares: Vec<&[Vec<ChiSquares>]> =
            groups.iter().map(|group| &group.fairness[..]).collect();
        data.push(fairness::table(&chi_squares, looks));
        data.push(failures(&groups, messages));
        data.push(limit());
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        fairness::judge(data, &mut verdict);
        judge_failures(data, &mut verdict);
        judge_limit(data, &mut verdict);
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        vec![plot_failures(data), fairness::plot(data)]
    }
}

/// What one group, with its own table, came to.
struct Group {
    /// By encoding, by look.
    fairness: Vec<Vec<ChiSquares>>,
    /// Initial multicasts that failed, by group size and bufferers wanted.
    failed: [[u64; WANTED.len()]; SIZES.len()],
}

impl Group {
    fn measure(seed: u64, messages: u64, looks: &[u64]) -> Self {
        let rng = Rng::new(seed);
        let shuffle = Shuffle::new(seed);
        let mut names = rng.fork("members");
        let members: Vec<MemberId> = (0..SIZES[SIZES.len() - 1])
            .map(|index| MemberId {
                node: NodeId::from_name(&format!("host-{index}")),
                incarnation: Incarnation(names.next_u64()),
            })
            .collect();
        let fairness = fairness::measure(&shuffle, &members[..MEMBERS], looks);
        let mut losses = rng.fork("losses");
        let failed =
            SIZES.map(|size| count_failures(&shuffle, &members[..size], messages, &mut losses));
        Self { fairness, failed }
    }
}

/// Failed initial multicasts in a group that loses datagrams to each member independently.
fn count_failures(
    shuffle: &Shuffle,
    members: &[MemberId],
    messages: u64,
    losses: &mut Rng,
) -> [u64; WANTED.len()] {
    let loss = loss_of(members.len());
    let mut failed = [0; WANTED.len()];
    for message in messages_of(members[0], messages) {
        let mut missed = false;
        let mut chosen = [false; WANTED.len()];
        let mut safe = [false; WANTED.len()];
        for (_, place) in shuffle.places(message, members) {
            let lost = losses.chance(loss);
            missed |= lost;
            for (index, wanted) in WANTED.iter().enumerate() {
                let bufferer = is_bufferer(place, members.len() as u32, *wanted);
                chosen[index] |= bufferer;
                safe[index] |= bufferer && !lost;
            }
        }
        for index in 0..WANTED.len() {
            let all_have_it = !chosen[index] && !missed;
            failed[index] += u64::from(!safe[index] && !all_have_it);
        }
    }
    failed
}

fn loss_of(members: usize) -> f64 {
    member_loss(LINK_LOSS, (members as f64).log2())
}

fn failures(groups: &[Group], messages: u64) -> Table {
    let columns = [
        ("members", ""),
        ("wanted", ""),
        ("loss", ""),
        ("closed form", ""),
        ("counted", ""),
        ("standard error", ""),
        ("groups", ""),
    ];
    let mut table = Table::new("failures", &columns);
    for (row, size) in SIZES.into_iter().enumerate() {
        for (column, wanted) in WANTED.into_iter().enumerate() {
            let shares = groups
                .iter()
                .map(|group| group.failed[row][column] as f64 / messages as f64);
            let (mean, error) = mean_and_error(shares);
            table.row([
                size.into(),
                wanted.into(),
                loss_of(size).into(),
                p_fail(size as f64, f64::from(wanted), loss_of(size)).into(),
                mean.into(),
                error.into(),
                groups.len().into(),
            ]);
        }
    }
    table
}

fn limit() -> Table {
    let columns = [
        ("members", ""),
        ("wanted", ""),
        ("closed form", ""),
        ("limit", ""),
    ];
    let mut table = Table::new("limit", &columns);
    for wanted in WANTED {
        for size in LIMIT_SIZES {
            let wide = f64::from(wanted);
            table.row([
                size.into(),
                wanted.into(),
                p_fail(size, wide, LIMIT_LOSS).into(),
                p_fail_limit(wide, LIMIT_LOSS).into(),
            ]);
        }
    }
    table
}

/// The mean of `values` and its standard error.
fn mean_and_error(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

fn judge_failures(data: &Data, verdict: &mut Verdict) {
    let points: Vec<f64> = data
        .table("failures")
        .records()
        .map(|row| {
            (row.number("counted") - row.number("closed form")) / row.number("standard error")
        })
        .collect();
    let worst = points.iter().fold(0.0f64, |worst, z| worst.max(z.abs()));
    let outside = points.iter().filter(|z| z.abs() > 1.96).count();
    // Ten intervals of 95 % each would miss somewhere in two runs of five: together they are 95 %
    // if each is 99.5 %.
    verdict.check(
        points.len() == 10 && points.iter().all(|z| z.abs() <= 2.807),
        "P_fail counted agrees with the closed form at all group sizes and C together at 95 % (|z| ≤ 2.81 at each of 10)",
        format!("largest |z| = {worst:.2}; {outside} of {} outside their own 95 % interval", points.len()),
    );
}

fn judge_limit(data: &Data, verdict: &mut Verdict) {
    let table = data.table("limit");
    for wanted in [2.0, 6.0] {
        let distances: Vec<f64> = table
            .having("wanted", wanted)
            .map(|row| {
                (row.number("limit") - row.number("closed form")).abs() / row.number("limit")
            })
            .collect();
        let falling = distances.windows(2).all(|pair| pair[1] < pair[0]);
        let last = distances.last().copied().unwrap_or(f64::NAN);
        verdict.check(
            falling && last < 1e-3,
            format!("at C = {wanted} and constant loss P_fail tends to e^(−C(1−P_loss)): ever nearer, within 0.1 % at 10⁶ members"),
            format!("{last:.1e} away at 10⁶"),
        );
    }
}

fn plot_failures(data: &Data) -> Plot {
    let table = data.table("failures");
    let mut plot = Plot::new(
        "Initial multicasts that fail (bars: 95 % over groups)",
        Axis::log("members", ""),
        Axis::log("P_fail", ""),
    );
    for (colour, wanted) in WANTED.into_iter().enumerate() {
        let rows = || table.having("wanted", wanted);
        let computed = rows().map(|row| (row.number("members"), row.number("closed form")));
        let counted = rows().map(|row| {
            let (y, error) = (row.number("counted"), 1.96 * row.number("standard error"));
            Point::with_bar(row.number("members"), y, y - error, y + error)
        });
        plot = plot
            .with(
                Series::line(format!("closed form, C = {wanted}"), computed)
                    .colour(colour)
                    .dashed(),
            )
            .with(Series::points(format!("counted, C = {wanted}"), counted).colour(colour));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::super::super::Cell;
    use super::super::super::context::options;
    use super::*;

    #[test]
    fn the_threads_do_not_show_in_the_data() {
        let run = |jobs| {
            let options = options(1..4, true, jobs);
            Hash.run(&Context::new(&options, &|_, _| {})).unwrap()
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn an_unfair_hash_and_a_wrong_closed_form_do_not_pass() {
        let options = options(1..30, true, 2);
        let fair = Hash.run(&Context::new(&options, &|_, _| {})).unwrap();
        let spoil = |table: &str, column: usize, factor: f64| {
            let mut data = fair.clone();
            let table = data
                .tables
                .iter_mut()
                .find(|each| each.name == table)
                .unwrap();
            for row in &mut table.rows {
                if let Cell::Number(Some(number)) = &mut row[column] {
                    *number *= factor;
                }
            }
            Hash.judge(&data).checks
        };
        let uneven = spoil("fairness", 3, 1.3);
        assert!(!uneven[0].held && !uneven[1].held);
        assert!(!spoil("failures", 3, 1.5)[2].held);
        assert!(!spoil("limit", 3, 1.1)[3].held);
        assert!(!Hash.judge(&Data::new()).passed());
    }
}
