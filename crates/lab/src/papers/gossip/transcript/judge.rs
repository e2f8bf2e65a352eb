//! What 004 says of each exchange, looked for in its transcript.

use super::super::super::data::RecordRef;
use super::super::super::{Data, Verdict};
use super::{DELIVERED, HOLDS, SAID};

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

/// What `variant` said but for digests that led to nothing and for the first multicasts, as `from →
/// to kind message`.
pub(super) fn spoken<'a>(data: &'a Data, variant: &'a str) -> impl Iterator<Item = RecordRef<'a>> {
    let rows = data.table(SAID).having("variant", variant);
    rows.filter(|row| !matches!(row.text("kind"), "data" | "join"))
}

/// A line of the transcript: `from → to kind message`.
pub(super) fn text(row: &RecordRef<'_>) -> String {
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

pub(super) fn fig3_1(data: &Data, verdict: &mut Verdict) {
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

pub(super) fn fig5_5(data: &Data, verdict: &mut Verdict) {
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

pub(super) fn fig5_8(data: &Data, verdict: &mut Verdict) {
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
        300.0,
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

pub(super) fn fig7_1(data: &Data, verdict: &mut Verdict) {
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
