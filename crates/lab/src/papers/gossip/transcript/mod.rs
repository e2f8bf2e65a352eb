//! The exchanges that 004 draws: what members say to each other, in order (Fig. 3.1, 5.5–5.6, 5.8,
//! 7.1).
//!
//! Where the text leaves a message open, our reading is a condition of the run. A judge reads the
//! transcript alone.

mod judge;
mod script;

use std::ops::Range;

use groupcast_protocols::gossip::Variant;

use self::judge::{spoken, text};
use super::super::data::Table;
use super::super::plot::{Axis, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Verdict};
use super::exchange::{Exchange, Script, run_script};

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

/// One anti-entropy round.
pub const FIG3_1: Transcript = Transcript {
    title: "Gossip, solicitation, retransmission",
    scripts: || vec![("basic", script::fig3_1())],
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
    judge: judge::fig3_1,
};

/// Multicast repairs.
pub const FIG5_5: Transcript = Transcript {
    title: "A message that only B received: basic Pbcast and Pbcast-ipmc",
    scripts: || {
        vec![
            ("basic", script::fig5_5(Variant::Basic)),
            ("ipmc", script::fig5_5(Variant::Ipmc)),
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
    judge: judge::fig5_5,
};

/// Local recovery.
pub const FIG5_8: Transcript = Transcript {
    title: "Pbcast-local: info to a neighbour, its request for a multicast",
    scripts: || vec![("local", script::fig5_8())],
    readings: &[(
        "step 5",
        "A has sent a unicast repair to B by then; the neighbour's request is the second and meets the threshold",
    )],
    judge: judge::fig5_8,
};

/// Hash buffering.
pub const FIG7_1: Transcript = Transcript {
    title: "Who buffers what, and whom A1 asks for M2",
    scripts: || vec![("hash", script::fig7_1())],
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
    judge: judge::fig7_1,
};

impl Reproduction for Transcript {
    fn title(&self) -> &'static str {
        self.title
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Sim]
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
            Table::new(SAID, &Exchange::SAID),
            Table::new(DELIVERED, &Exchange::DELIVERED),
            Table::new(HOLDS, &Exchange::HOLDS),
        ];
        for (variant, script) in (self.scripts)() {
            run_script(&script)?.write(&script, variant, &mut tables);
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
