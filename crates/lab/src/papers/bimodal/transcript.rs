//! The exchanges that 004 draws: what members say to each other, in order (Fig. 3.1, 5.5–5.6, 5.8, 7.1).
//!
//! Where the text leaves a message open, our reading is a condition of the run. A judge reads the transcript alone.

use std::ops::Range;
use std::time::Duration;

use groupcast_core::{MemberId, MessageId};
use groupcast_protocols::gossip::{GossipConfig, HashConfig, Place, Variant};

use super::super::data::{RecordRef, Table};
use super::super::plot::{Axis, Series};
use super::super::{Context, Data, Host, Plot, Reproduction, RunError, Verdict};
use super::exchange::{Played, Script, Sending, play};

/// An exchange of 004.
pub struct Transcript {
    title: &'static str,
    /// Each variant that is played, and its script.
    scripts: fn() -> Vec<(&'static str, Script)>,
    /// Our readings of what the text leaves open.
    readings: &'static [(&'static str, &'static str)],
    judge: fn(&Data, &mut Verdict),
}

const SAID: &str = "said";
const DELIVERED: &str = "delivered";
const HOLDS: &str = "holds";
/// Rounds begin at their multiples: those of a script begin together.
const ROUND: u64 = 100;

/// One anti-entropy round.
pub const FIG3_1: Transcript = Transcript {
    title: "Gossip, solicitation, retransmission",
    scripts: || vec![("basic", fig3_1_script())],
    readings: &[
        (
            "members",
            "the text names A to D; E is the sender of all three messages",
        ),
        (
            "second round",
            "A gossips to D: 004 says only that D finds its loss in the next round",
        ),
    ],
    judge: fig3_1,
};

/// Multicast repairs.
pub const FIG5_5: Transcript = Transcript {
    title: "A message that only B received: basic Pbcast and Pbcast-ipmc",
    scripts: || {
        vec![
            ("basic", fig5_5_script(Variant::Basic)),
            ("ipmc", fig5_5_script(Variant::Ipmc)),
        ]
    },
    readings: &[
        (
            "rounds",
            "all members' begin together, so that C's digest to D is sent before C's repair",
        ),
        (
            "threshold",
            "2: 004's prose has the counter start at 0 and multicasts at the second request",
        ),
    ],
    judge: fig5_5,
};

/// Local recovery.
pub const FIG5_8: Transcript = Transcript {
    title: "Pbcast-local: info to a neighbour, its request for a multicast",
    scripts: || vec![("local", fig5_8_script())],
    readings: &[(
        "step 5",
        "A has sent a unicast repair to B by then; the neighbour's request is the second and meets the threshold",
    )],
    judge: fig5_8,
};

/// Hash buffering.
pub const FIG7_1: Transcript = Transcript {
    title: "Who buffers what, and whom A1 asks for M2",
    scripts: || vec![("hash", fig7_1_script())],
    readings: &[
        (
            "short-term buffer",
            "none: the figure shows the bufferers alone",
        ),
        (
            "A1 hears of M2",
            "from A2's gossip; as the prose of Fig. 7.1 has it, A1 itself computes whom to ask",
        ),
    ],
    judge: fig7_1,
};

fn paper(variant: Variant) -> GossipConfig {
    GossipConfig {
        variant,
        first_round: Some(Duration::from_millis(ROUND)),
        ..GossipConfig::paper()
    }
}

fn fig3_1_script() -> Script {
    Script {
        members: &["A", "B", "C", "D", "E"],
        zones: &[],
        // Nobody gossips to D in the first round.
        partners: &[
            &[&[1], &[3]],
            &[&[2], &[0]],
            &[&[0], &[1]],
            &[&[4], &[4]],
            &[&[0], &[2]],
        ],
        messages: &[
            Sending {
                name: "M0",
                at: 10,
                by: 4,
                lost_by: &[2],
            },
            Sending {
                name: "M1",
                at: 20,
                by: 4,
                lost_by: &[3],
            },
            Sending {
                name: "M2",
                at: 30,
                by: 4,
                lost_by: &[],
            },
        ],
        config: paper(Variant::Basic),
        until: 290,
    }
}

fn fig5_5_script(variant: Variant) -> Script {
    Script {
        members: &["A", "B", "C", "D", "E"],
        zones: &[],
        // 004 5.3.1: round 1 A to C, B to A, C to D, D to B, E to C; round 2 A to E, B to C, C to A, D to A, E to D.
        partners: &[
            &[&[2], &[4]],
            &[&[0], &[2]],
            &[&[3], &[0]],
            &[&[1], &[0]],
            &[&[2], &[3]],
        ],
        messages: &[
            Sending {
                name: "M1",
                at: 10,
                by: 0,
                lost_by: &[2, 3, 4],
            },
            Sending {
                name: "M2",
                at: 20,
                by: 0,
                lost_by: &[],
            },
            Sending {
                name: "M3",
                at: 110,
                by: 0,
                lost_by: &[],
            },
        ],
        config: paper(variant),
        until: 1_500,
    }
}

fn fig5_8_script() -> Script {
    Script {
        members: &["A", "B", "C"],
        zones: &[0, 1, 1],
        // In the first round neighbours get to know each other.
        partners: &[&[&[], &[1]], &[&[], &[]], &[&[], &[]]],
        messages: &[Sending {
            name: "M",
            at: 10,
            by: 0,
            lost_by: &[1, 2],
        }],
        config: paper(Variant::Local),
        until: 290,
    }
}

/// The twelve values of 7.2, in tenths: by message, then by member.
const PLACES: [(&str, [u32; 4]); 3] = [
    ("M1", [2, 8, 3, 9]),
    ("M2", [5, 4, 6, 1]),
    ("M3", [8, 2, 4, 7]),
];

/// H(⟨message, member⟩) as printed. M1 and M3 are A1's first and second message, M2 is A3's first.
fn printed(message: MessageId, member: MemberId) -> u32 {
    let row = match (message.sender.node.0, message.number) {
        (1, 1) => PLACES[0].1,
        (3, 1) => PLACES[1].1,
        _ => PLACES[2].1,
    };
    let tenths = row.get(member.node.0 as usize - 1).copied().unwrap_or(9);
    (u64::from(tenths) * (1 << 32) / 10) as u32
}

fn fig7_1_script() -> Script {
    Script {
        members: &["A1", "A2", "A3", "A4"],
        zones: &[],
        partners: &[
            &[&[], &[], &[], &[]],
            &[&[], &[0], &[], &[]],
            &[&[], &[], &[], &[]],
            &[&[], &[], &[], &[]],
        ],
        messages: &[
            Sending {
                name: "M1",
                at: 10,
                by: 0,
                lost_by: &[],
            },
            Sending {
                name: "M2",
                at: 30,
                by: 2,
                lost_by: &[0],
            },
            Sending {
                name: "M3",
                at: 50,
                by: 0,
                lost_by: &[],
            },
        ],
        config: GossipConfig {
            hash: Some(HashConfig {
                bufferers: 1,
                short_term: 0,
                place: Place::Given(printed),
                ask_bufferers: true,
                gaps: false,
            }),
            ..paper(Variant::Basic)
        },
        until: 390,
    }
}

/// A line of a transcript that is looked for.
#[derive(Clone, Copy)]
struct Line(&'static str, &'static str, &'static str, &'static str);

impl Line {
    fn is(&self, row: &RecordRef<'_>) -> bool {
        (
            row.text("from"),
            row.text("to"),
            row.text("kind"),
            row.text("message"),
        ) == (self.0, self.1, self.2, self.3)
    }
}

/// What `variant` said but for digests that led to nothing and for the first multicasts, as `from → to kind message`.
fn spoken<'a>(data: &'a Data, variant: &'a str) -> impl Iterator<Item = RecordRef<'a>> {
    let rows = data.table(SAID).having("variant", variant);
    rows.filter(|row| !matches!(row.text("kind"), "data" | "join"))
}

fn text(row: &RecordRef<'_>) -> String {
    let (kind, message) = (row.text("kind"), row.text("message"));
    let what = format!("{kind} {message}");
    format!(
        "{} → {} {}",
        row.text("from"),
        row.text("to"),
        what.trim_end()
    )
}

/// That these lines are spoken in this order, whatever is spoken between them.
fn in_order(data: &Data, variant: &str, lines: &[Line], claim: &str, verdict: &mut Verdict) {
    let mut left = lines.iter();
    let mut next = left.next();
    let mut found = Vec::new();
    for row in spoken(data, variant) {
        if next.is_some_and(|line| line.is(&row)) {
            found.push(format!("{} ({} ms)", text(&row), row.number("at")));
            next = left.next();
        }
    }
    verdict.check(
        next.is_none(),
        format!("{variant}: {claim}"),
        match next {
            None => found.join(", "),
            Some(line) => format!(
                "{}; then no {} → {} {} {}",
                found.join(", "),
                line.0,
                line.1,
                line.2,
                line.3
            ),
        },
    );
}

/// That of all requests and repairs nothing else is spoken before `until` milliseconds.
fn nothing_else(data: &Data, variant: &str, until: f64, lines: &[Line], verdict: &mut Verdict) {
    let others: Vec<String> = spoken(data, variant)
        .filter(|row| row.number("at") < until && row.text("kind") != "gossip")
        .filter(|row| !lines.iter().any(|line| line.is(row)))
        .map(|row| text(&row))
        .collect();
    verdict.check(
        others.is_empty(),
        format!("{variant}: nothing else is asked or repaired before {until} ms"),
        if others.is_empty() {
            "nothing".to_owned()
        } else {
            others.join(", ")
        },
    );
}

/// When `member` delivered `message`, in milliseconds; not a number if never.
fn delivery(data: &Data, variant: &str, member: &str, message: &str) -> f64 {
    let mut rows = data.table(DELIVERED).having("variant", variant);
    let found = rows.find(|row| row.text("member") == member && row.text("message") == message);
    found.map_or(f64::NAN, |row| row.number("at"))
}

fn fig3_1(data: &Data, verdict: &mut Verdict) {
    let first = [
        Line("B", "C", "gossip", ""),
        Line("C", "B", "request", "M0"),
        Line("B", "C", "repair", "M0"),
    ];
    let second = [
        Line("A", "D", "gossip", ""),
        Line("D", "A", "request", "M1"),
        Line("A", "D", "repair", "M1"),
    ];
    in_order(
        data,
        "basic",
        &first,
        "C finds its loss in B's digest and recovers M0 from B",
        verdict,
    );
    in_order(
        data,
        "basic",
        &second,
        "D finds its loss in the next round",
        verdict,
    );
    nothing_else(data, "basic", 300.0, &[first, second].concat(), verdict);
    let (c, d) = (
        delivery(data, "basic", "C", "M2"),
        delivery(data, "basic", "D", "M2"),
    );
    verdict.check(
        (100.0..200.0).contains(&c) && (200.0..300.0).contains(&d),
        "FIFO: C delivers M2 in the first round, after M0; D in the second, after M1",
        format!("at {c} and {d} ms"),
    );
}

fn fig5_5(data: &Data, verdict: &mut Verdict) {
    let first = [
        Line("A", "C", "gossip", ""),
        Line("C", "A", "request", "M1"),
        Line("A", "C", "repair", "M1"),
        Line("A", "E", "gossip", ""),
        Line("E", "A", "request", "M1"),
    ];
    for (variant, last) in [
        ("basic", Line("A", "E", "repair", "M1")),
        ("ipmc", Line("A", "all", "multicast repair", "M1")),
    ] {
        let lines = [&first[..], &[last]].concat();
        in_order(
            data,
            variant,
            &lines,
            "C recovers M1 from A in round 1, E in round 2",
            verdict,
        );
        nothing_else(data, variant, 300.0, &lines, verdict);
    }
    let [basic, ipmc] = ["basic", "ipmc"].map(|variant| delivery(data, variant, "D", "M1"));
    verdict.check(
        (200.0..300.0).contains(&ipmc),
        "ipmc: D recovers M1 in round 2, by the multicast",
        format!("at {ipmc} ms"),
    );
    verdict.check(
        basic >= 300.0,
        "basic: D still lacks M1 after round 2, and recovers it in a later one",
        format!("at {basic} ms"),
    );
}

fn fig5_8(data: &Data, verdict: &mut Verdict) {
    let steps = [
        Line("A", "B", "gossip", ""),
        Line("B", "A", "request", "M"),
        Line("B", "C", "info", "M"),
        Line("C", "A", "mcast", "M"),
        Line("A", "all", "multicast repair", "M"),
    ];
    in_order(
        data,
        "local",
        &steps,
        "the five steps of the figure, in order",
        verdict,
    );
    let unicast = Line("A", "B", "repair", "M");
    nothing_else(
        data,
        "local",
        200.0,
        &[&steps[..], &[unicast]].concat(),
        verdict,
    );
    let c = delivery(data, "local", "C", "M");
    verdict.check(
        c < 290.0,
        "C has M in the same round, though nobody gossiped to it",
        format!("at {c} ms"),
    );
}

fn fig7_1(data: &Data, verdict: &mut Verdict) {
    let holds: Vec<(&str, &str)> = data
        .table(HOLDS)
        .records()
        .map(|row| (row.text("message"), row.text("member")))
        .collect();
    for (message, bufferer) in [("M1", "A1"), ("M2", "A4"), ("M3", "A2")] {
        let found: Vec<&str> = holds
            .iter()
            .filter(|(of, _)| *of == message)
            .map(|(_, member)| *member)
            .collect();
        verdict.check(
            found == [bufferer],
            format!("{message} is buffered by {bufferer} alone"),
            found.join(", "),
        );
    }
    let lines = [
        Line("A1", "A4", "special request", "M2"),
        Line("A4", "A1", "repair", "M2"),
    ];
    in_order(
        data,
        "hash",
        &lines,
        "A1 asks A4 for M2 and gets it",
        verdict,
    );
    nothing_else(data, "hash", 390.0, &lines, verdict);
    let at = delivery(data, "hash", "A1", "M2");
    verdict.check(at.is_finite(), "A1 delivers M2", format!("at {at} ms"));
}

impl Reproduction for Transcript {
    fn title(&self) -> &'static str {
        self.title
    }

    fn hosts(&self) -> &'static [Host] {
        &[Host::Sim]
    }

    fn seeds(&self) -> Range<u64> {
        1..2
    }

    fn run(&self, _context: &Context<'_>) -> Result<Data, RunError> {
        let mut data = Data::new();
        data.condition("a datagram takes", "5 ms");
        for (name, reading) in self.readings {
            data.condition(name, reading);
        }
        let mut tables = [
            Table::new(SAID, &Played::SAID),
            Table::new(DELIVERED, &Played::DELIVERED),
            Table::new(HOLDS, &Played::HOLDS),
        ];
        for (variant, script) in (self.scripts)() {
            play(&script)?.write(&script, variant, &mut tables);
        }
        tables.into_iter().for_each(|table| data.push(table));
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        (self.judge)(data, &mut verdict);
        for variant in data.table(SAID).words("variant") {
            let lines: Vec<String> = spoken(data, variant)
                .filter(|row| row.number("at") < 300.0)
                .map(|row| format!("{} ms {}", row.number("at"), text(&row)))
                .collect();
            verdict.note(format!("transcript, {variant}: {}", lines.join("; ")));
        }
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        let said = data.table(SAID);
        let plot = |variant: &str| {
            let members = said.words("from");
            let at = |name: &str| {
                members
                    .iter()
                    .position(|it| *it == name)
                    .map(|it| it as f64)
            };
            let mut plot = Plot::new(
                variant,
                Axis::linear("time", "ms").from(0.0).to(300.0),
                Axis::categories("member", members.iter().copied()),
            );
            for kind in said.words("kind") {
                for row in said
                    .having("variant", variant)
                    .filter(|row| row.text("kind") == kind)
                {
                    let ends = (at(row.text("from")), at(row.text("to")));
                    if let (Some(from), Some(to)) = ends
                        && row.number("at") < 300.0
                    {
                        let begin = row.number("at");
                        let name = format!("{kind} {}", row.text("message"));
                        let points = [(begin, from), (begin + 5.0, to)];
                        plot = plot.with(Series::line(name.trim_end(), points));
                    }
                }
            }
            plot
        };
        said.words("variant").into_iter().map(plot).collect()
    }
}
