//! Is H fair (004 7.2–7.3)? Chi-squares of its values and of what members buffer, in the table that
//! each group has.
//!
//! Chance leaves the chi-square of a group at its degrees of freedom however many messages are
//! hashed; a bias of the group's table adds up with them. So it is taken after several numbers of
//! messages, and in several encodings of ⟨message, address⟩, which the paper leaves open.

use groupcast_core::{MemberId, MessageId};
use groupcast_protocols::gossip::{Shuffle, is_bufferer};

use super::super::data::RecordRef;
use super::super::plot::{Axis, Plot, Point, Series};
use super::super::{Data, Table, Verdict};

/// Members of the group whose load is looked at.
pub(super) const MEMBERS: usize = 100;
/// Messages after which the chi-squares are taken; the claim is judged at the second.
pub(super) const LOOKS: [u64; 3] = [250, 1000, 4000];
/// Bufferers wanted.
const WANTED: u32 = 6;
/// Bins that H's values fall into.
const BINS: usize = 64;

/// How unevenly H fell.
#[derive(Clone, Copy)]
pub(super) struct ChiSquares {
    /// Of H's values over [`BINS`] equal bins.
    values: f64,
    /// Of the messages buffered by each of [`MEMBERS`] members.
    load: f64,
}

/// H(⟨message, member⟩), in one of the encodings that the paper leaves open.
type Encoding = fn(&Shuffle, MessageId, MemberId, u32) -> u32;

/// Ours, and two that a reader of the paper might choose; the last argument is the member's place
/// in the group.
const ENCODINGS: [(&str, Encoding); 3] = [
    ("ours", |shuffle, message, member, _| {
        shuffle.place(message, member)
    }),
    ("address first", |shuffle, message, member, _| {
        shuffle.hash(&bytes::<4, 32>([
            member.node.0,
            member.incarnation.0,
            message.sender.node.0,
            message.number,
        ]))
    }),
    ("consecutive addresses", |shuffle, message, _, index| {
        shuffle.hash(&bytes::<3, 24>([
            0x0a00_0001,
            message.number,
            0x0a00_0001 + u64::from(index),
        ]))
    }),
];

fn bytes<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == 8 * WORDS) };
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// The first messages of `sender`.
pub(super) fn messages_of(sender: MemberId, count: u64) -> impl Iterator<Item = MessageId> {
    (1..=count).map(move |number| MessageId { sender, number })
}

/// The chi-squares of a group, by encoding, after each of `looks` messages.
pub(super) fn measure(
    shuffle: &Shuffle,
    members: &[MemberId],
    looks: &[u64],
) -> Vec<Vec<ChiSquares>> {
    let encodings = ENCODINGS.iter();
    encodings
        .map(|(_, encoding)| chi_squares(shuffle, members, encoding, looks))
        .collect()
}

/// The chi-squares after each of `looks` messages.
fn chi_squares(
    shuffle: &Shuffle,
    members: &[MemberId],
    encoding: &Encoding,
    looks: &[u64],
) -> Vec<ChiSquares> {
    let share = f64::from(WANTED) / members.len() as f64;
    let mut bins = [0u64; BINS];
    let mut buffered = vec![0u64; members.len()];
    let mut taken = Vec::new();
    for message in messages_of(members[0], looks.last().copied().unwrap_or(0)) {
        for (index, member) in members.iter().enumerate() {
            let place = encoding(shuffle, message, *member, index as u32);
            bins[place as usize / (u32::MAX as usize / BINS + 1)] += 1;
            buffered[index] += u64::from(is_bufferer(place, members.len() as u32, WANTED));
        }
        if looks.contains(&message.number) {
            let messages = message.number as f64;
            let even = messages * members.len() as f64 / BINS as f64;
            let equal = messages * share;
            taken.push(ChiSquares {
                values: chi_square(&bins, even, even),
                // Each member's load is a binomial count of its own.
                load: chi_square(&buffered, equal, equal * (1.0 - share)),
            });
        }
    }
    taken
}

fn chi_square(counts: &[u64], expected: f64, variance: f64) -> f64 {
    let squares = counts
        .iter()
        .map(|count| (*count as f64 - expected).powi(2));
    squares.sum::<f64>() / variance
}

/// The groups' chi-squares summed up, for every encoding and look.
pub(super) fn table(groups: &[&[Vec<ChiSquares>]], looks: &[u64]) -> Table {
    let columns = [
        "encoding",
        "of",
        "messages",
        "chi-square",
        "degrees of freedom",
    ];
    let mut table = Table::new("fairness", &columns.map(|name| (name, "")));
    for (row, (encoding, _)) in ENCODINGS.iter().enumerate() {
        for (column, messages) in looks.iter().enumerate() {
            let sum = |of: fn(&ChiSquares) -> f64| -> f64 {
                groups.iter().map(|group| of(&group[row][column])).sum()
            };
            let kinds: [(&str, f64, usize); 2] = [
                ("values", sum(|each| each.values), BINS - 1),
                ("load", sum(|each| each.load), MEMBERS),
            ];
            for (of, sum, freedom) in kinds {
                let freedom = freedom * groups.len();
                table.row([
                    (*encoding).into(),
                    of.into(),
                    (*messages).into(),
                    sum.into(),
                    freedom.into(),
                ]);
            }
        }
    }
    table
}

/// Rows of the fairness table: those of one encoding, of values or of load.
fn fairness_of<'a>(
    data: &'a Data,
    encoding: &'a str,
    of: &'a str,
) -> impl Iterator<Item = RecordRef<'a>> {
    let rows = data.table("fairness").having("encoding", encoding);
    rows.filter(move |row| row.text("of") == of)
}

pub(super) fn judge(data: &Data, verdict: &mut Verdict) {
    let claims = [
        ("values", "H's values are even over 64 bins"),
        ("load", "100 members buffer equally much"),
    ];
    for (of, claim) in claims {
        let mut rows =
            fairness_of(data, "ours", of).filter(|row| row.number("messages") <= LOOKS[1] as f64);
        let (sum, freedom, messages) =
            rows.by_ref()
                .last()
                .map_or((f64::NAN, f64::NAN, 0.0), |row| {
                    (
                        row.number("chi-square"),
                        row.number("degrees of freedom"),
                        row.number("messages"),
                    )
                });
        // Hundreds of groups times dozens of degrees of freedom: the sum is normal to all purposes.
        let deviation = (sum - freedom) / (2.0 * freedom).sqrt();
        verdict.check(
            deviation.abs() <= 1.96,
            format!("{claim}: chi-square of all groups together within its 95 % interval (|z| ≤ 1.96) after {messages} messages each"),
            format!("{sum:.0} at {freedom} degrees of freedom, z = {deviation:.2}"),
        );
    }
    note_bias(data, verdict);
}

/// What a chi-square that grows with the messages says: chance stays what it is, a bias adds up.
fn note_bias(data: &Data, verdict: &mut Verdict) {
    for (of, share, trials, what) in [
        (
            "values",
            1.0 / BINS as f64,
            MEMBERS as f64,
            "how often a 64th of H's range is hit",
        ),
        (
            "load",
            f64::from(WANTED) / MEMBERS as f64,
            1.0,
            "how much a member buffers",
        ),
    ] {
        let (mut shown, mut biases) = (Vec::new(), Vec::new());
        for (encoding, _) in ENCODINGS {
            let ratios: Vec<(f64, f64)> = fairness_of(data, encoding, of)
                .map(|row| {
                    let ratio = row.number("chi-square") / row.number("degrees of freedom");
                    (row.number("messages"), ratio)
                })
                .collect();
            let Some((messages, ratio)) = ratios.last().filter(|_| ratios.len() > 1) else {
                return;
            };
            let freedom = fairness_of(data, encoding, of)
                .last()
                .map_or(f64::NAN, |row| row.number("degrees of freedom"));
            let excess = ratio - 1.0;
            if excess < 1.96 * (2.0 / freedom).sqrt() {
                return;
            }
            let bias = (excess * (1.0 - share) / (messages * trials * share)).sqrt();
            let ratios: Vec<String> = ratios
                .iter()
                .map(|(_, ratio)| format!("{ratio:.3}"))
                .collect();
            shown.push(format!("{encoding} {}", ratios.join(", ")));
            biases.push(format!("{:.1} %", 100.0 * bias));
        }
        verdict.note(format!(
            "Chi-square of {of} per degree of freedom after {} messages a group, by encoding: {}. What grows with the messages \
             is no chance but a lasting bias of a group's table: {} (root mean square) in {what}, in every encoding tried.",
            LOOKS.map(|look| look.to_string()).join(", "),
            shown.join("; "),
            biases.join(", "),
        ));
    }
}

pub(super) fn plot(data: &Data) -> Plot {
    let mut plot = Plot::new(
        "Chi-square per degree of freedom, all groups together (bars: 95 %)",
        Axis::log("messages a group", ""),
        Axis::linear("chi-square / degrees of freedom", ""),
    )
    .guide(1.0, "chance");
    for (colour, (encoding, _)) in ENCODINGS.into_iter().enumerate() {
        for of in ["values", "load"] {
            let points = fairness_of(data, encoding, of).map(|row| {
                let freedom = row.number("degrees of freedom");
                let (y, error) = (
                    row.number("chi-square") / freedom,
                    1.96 * (2.0 / freedom).sqrt(),
                );
                Point::with_bar(row.number("messages"), y, y - error, y + error)
            });
            let series = Series::line(format!("{of}, {encoding}"), points).colour(colour);
            plot = plot.with(if of == "load" {
                series.dashed()
            } else {
                series
            });
        }
    }
    plot
}
