//! What 000 says of Fig. 6, looked for in the transcript.

use super::super::super::data::RecordRef;
use super::super::super::{Data, Verdict};
use super::{DELIVERED, SAID, SITES, TAKEN};

/// The datagrams of each frame, as `from → to datagram`.
const FRAMES: [(f64, &[&str]); 4] = [
    (
        1.0,
        &["B → all data (B,1)", "A → all ACK((B,1),1,B), not to D"],
    ),
    (2.0, &["D → all data (D,1)", "B → all ACK((D,1),2,C)"]),
    (
        3.0,
        &["D → B NACK(1)", "B → D ACK((B,1),1,B)", "C → B Confirm(2)"],
    ),
    (4.0, &["C → all ACK(null,3,D)", "D → C Confirm(3)"]),
];

fn line(row: &RecordRef<'_>) -> String {
    let lost = match row.text("lost by") {
        "" => String::new(),
        site => format!(", not to {site}"),
    };
    let (from, to) = (row.text("from"), row.text("to"));
    format!("{from} → {to} {}{lost}", row.text("datagram"))
}

/// The frame in which `site` delivered `message`; not a number if never.
fn delivery(data: &Data, site: &str, message: &str) -> f64 {
    let mut rows = data.table(DELIVERED).having("site", site);
    let found = rows.find(|row| row.text("message") == message);
    found.map_or(f64::NAN, |row| row.number("frame"))
}

pub(super) fn fig6(data: &Data, verdict: &mut Verdict) {
    for (frame, expected) in FRAMES {
        let rows = data.table(SAID).having("frame", frame);
        let lines: Vec<String> = rows.map(|row| line(&row)).collect();
        verdict.check(
            lines == expected,
            format!("frame {frame}: {}, and nothing else", expected.join("; ")),
            lines.join("; "),
        );
    }
    deliveries(data, verdict);
    forgotten(data, verdict);
    let behind = data.table(SAID).having("frame", 0.0);
    let lines: Vec<String> = behind
        .map(|row| format!("{:.0} ms {}", row.number("at"), line(&row)))
        .collect();
    verdict.note(format!("behind the figure: {}", lines.join("; ")));
}

/// Who delivers what, and in which frame.
fn deliveries(data: &Data, verdict: &mut Verdict) {
    let early =
        ["A", "B", "C"].map(|site| (delivery(data, site, "(B,1)"), delivery(data, site, "(D,1)")));
    verdict.check(
        early.iter().all(|frames| *frames == (1.0, 2.0)),
        "A, B and C deliver (B,1) in frame 1 and (D,1) in frame 2",
        format!("in frames {early:?}"),
    );
    let of_d: Vec<(f64, &str)> = data
        .table(DELIVERED)
        .having("site", "D")
        .map(|row| (row.number("frame"), row.text("message")))
        .collect();
    verdict.check(
        of_d == [(3.0, "(B,1)"), (3.0, "(D,1)")],
        "D delivers (B,1) and (D,1) in frame 3, after the NACK",
        format!("{of_d:?}"),
    );
}

/// What a site has forgotten when it takes the token.
fn forgotten(data: &Data, verdict: &mut Verdict) {
    let sites = SITES.len() as f64;
    let taken: Vec<(f64, f64)> = data
        .table(TAKEN)
        .records()
        .map(|row| (row.number("timestamp"), row.number("freed")))
        .collect();
    let last = 2.0_f64;
    let due = |stamp: f64| (stamp - sites + 1.0).clamp(0.0, last);
    let all = |bound: f64| taken.iter().any(|(stamp, _)| due(*stamp) == bound);
    verdict.check(
        taken.iter().all(|(stamp, freed)| *freed >= due(*stamp)) && all(1.0) && all(last),
        format!("who takes the token of timestamp t keeps nothing up to t − {sites} + 1"),
        taken
            .iter()
            .map(|(stamp, freed)| format!("t = {stamp}: up to {freed}"))
            .collect::<Vec<_>>()
            .join(", "),
    );
    if taken.iter().any(|(stamp, freed)| *freed > due(*stamp)) {
        verdict.note(
            "where more is forgotten than the rule says: packets and Confirms bear marks of what \
             their sender holds, too (ours)",
        );
    }
}
