//! The rows of 002: the Accelerated Ring.

use super::super::{Paper, Row};

/// What its rows share unless they say otherwise.
pub(super) const SETUP: &str = "8 hosts, 1 sender + 1 receiver client each (daemon) or one process each (library); 1350 B \
    payload; original = accelerated window 0 with the second priority method at all members \
    (with the first method a window of 0 still accelerates). Prototypes use the first method, \
    Spread the second: run both.";

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "ring-fig1",
        paper: Paper::AcceleratedRing,
        place: "Fig. 1",
        setup: "Agreed latency vs throughput, 1 Gb/s; library, daemon; original, accelerated",
        finding: "accelerated ahead of original on both axes at once, somewhere on the curve ≥ 1.45× \
            throughput at ≤ 0.6× latency (the paper's best point is 1.6× at < 0.55×); ≥ 90 % of \
            the wire in payload; the library–daemon latency gap is smaller when accelerated",
    },
    Row {
        id: "ring-fig2",
        paper: Paper::AcceleratedRing,
        place: "Fig. 2",
        setup: "the same, Safe",
        finding: "original climbs from ≈ 600 Mb/s; accelerated ≥ 900 Mb/s",
    },
    Row {
        id: "ring-fig3",
        paper: Paper::AcceleratedRing,
        place: "Fig. 3",
        setup: "Agreed, 10 Gb/s, hosts CPU-bound",
        finding: "accelerated ahead; library > daemon; daemon gains 25–40 % throughput at ≥ 25 % lower \
            latency in the paper: report ours",
    },
    Row {
        id: "ring-fig4",
        paper: Paper::AcceleratedRing,
        place: "Fig. 4",
        setup: "Agreed, 10 Gb/s, 1350 vs 8850 B",
        finding: "larger datagrams lift the maximum ≥ 1.5× (daemon +87 %, library +58 % in the paper)",
    },
    Row {
        id: "ring-fig5",
        paper: Paper::AcceleratedRing,
        place: "Fig. 5",
        setup: "Safe, 10 Gb/s",
        finding: "as fig. 3; Safe peaks no lower than Agreed",
    },
    Row {
        id: "ring-fig6",
        paper: Paper::AcceleratedRing,
        place: "Fig. 6",
        setup: "Safe, 1350 vs 8850 B",
        finding: "as fig. 4",
    },
    Row {
        id: "ring-fig7",
        paper: Paper::AcceleratedRing,
        place: "Fig. 7",
        setup: "Safe, 10 Gb/s, 1–5 % load",
        finding: "original faster below about 4–5 % load, accelerated above",
    },
];
