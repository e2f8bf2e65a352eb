//! 000 Fig. 6, packet by packet: four sites, an ACK that does not reach D, D's NACK, the Confirm of
//! C, a null ACK and D's Confirm; and what is forgotten after it.

mod exchange;
mod judge;

use std::ops::Range;
use std::time::Duration;

use self::exchange::{DELAY, Exchange, Frame, SITES, play};
use super::super::data::Table;
use super::super::plot::{Axis, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Verdict};

/// What was sent.
const SAID: &str = "said";
/// Who delivered what.
const DELIVERED: &str = "delivered";
/// Who took the token, and what it has forgotten then.
const TAKEN: &str = "taken";
/// What a datagram takes in the drawing, in milliseconds: longer than in the run, so that its
/// direction is seen.
const DRAWN: f64 = 0.1;

/// Fig. 6.
pub struct Transcript;

/// The figure's four frames, and behind them the null ACKs that its text tells of.
fn frames() -> [Frame; 5] {
    let frame = |number, takes: Duration| Frame {
        number,
        takes,
        sends: None,
        deaf: None,
    };
    [
        Frame {
            sends: Some(1),
            deaf: Some(3),
            ..frame(1, Duration::from_micros(500))
        },
        Frame {
            sends: Some(3),
            ..frame(2, DELAY * 2 + Duration::from_micros(10))
        },
        frame(3, Duration::from_millis(500)),
        frame(4, Duration::from_secs(1)),
        frame(0, Duration::from_secs(10)),
    ]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// What happened, as tables.
fn tables(exchange: &Exchange) -> [Table; 3] {
    let mut said = Table::new(
        SAID,
        &[
            ("frame", ""),
            ("at", "ms"),
            ("from", ""),
            ("to", ""),
            ("datagram", ""),
            ("lost by", ""),
        ],
    );
    for it in &exchange.said {
        said.row([
            it.frame.into(),
            millis(it.at).into(),
            SITES[it.from].into(),
            it.to.map_or("all", |to| SITES[to]).into(),
            it.what.as_str().into(),
            it.lost_by.map_or("", |site| SITES[site]).into(),
        ]);
    }
    let mut delivered = Table::new(
        DELIVERED,
        &[("frame", ""), ("at", "ms"), ("site", ""), ("message", "")],
    );
    for it in &exchange.delivered {
        delivered.row([
            it.frame.into(),
            millis(it.at).into(),
            SITES[it.site].into(),
            it.message.as_str().into(),
        ]);
    }
    let mut taken = Table::new(TAKEN, &[("site", ""), ("timestamp", ""), ("freed", "")]);
    for it in &exchange.taken {
        taken.row([SITES[it.site].into(), it.stamp.into(), it.freed.into()]);
    }
    [said, delivered, taken]
}

impl Reproduction for Transcript {
    fn title(&self) -> &'static str {
        "Operation of RMP: data, ACKs, a NACK, Confirms, a null ACK"
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Sim]
    }

    fn seeds(&self) -> Range<u64> {
        1..2
    }

    fn run(&self, _context: &Context<'_>) -> Result<Data, RunError> {
        let exchange = play(&frames())?;
        let mut data = Data::new();
        data.condition("a datagram takes", "0.1 ms");
        data.condition(
            "settings",
            "000's constants, NACKs unicast, one packet an ACK",
        );
        data.condition("D sends", "0.5 ms after B, before B would confirm");
        data.condition("frame 0", "what comes behind the figure");
        tables(&exchange)
            .into_iter()
            .for_each(|table| data.push(table));
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        judge::fig6(data, &mut verdict);
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        [("frames 1 and 2", 0.0, 0.75), ("frame 3", 0.7, 2.0)]
            .into_iter()
            .map(|(title, from, to)| drawn(data, title, from, to))
            .collect()
    }
}

/// The datagrams that were sent from `from` to `to` milliseconds, each a line between two sites.
fn drawn(data: &Data, title: &str, from: f64, to: f64) -> Plot {
    let place = |name: &str| SITES.iter().position(|site| *site == name);
    let mut plot = Plot::new(
        title,
        Axis::linear("time", "ms").from(from).to(to + DRAWN),
        Axis::categories("site", SITES),
    );
    for row in data.table(SAID).records() {
        let at = row.number("at");
        let Some(sender) = place(row.text("from")).filter(|_| (from..to).contains(&at)) else {
            continue;
        };
        let goes_to = |site: &usize| match place(row.text("to")) {
            Some(to) => *site == to,
            None => *site != sender && Some(*site) != place(row.text("lost by")),
        };
        // There and back for each receiver: one line.
        let ways = (0..SITES.len()).filter(goes_to).flat_map(|site| {
            let begin = (at, sender as f64);
            [begin, (at + DRAWN, site as f64), begin]
        });
        plot = plot.with(Series::line(row.text("datagram"), ways));
    }
    plot
}
