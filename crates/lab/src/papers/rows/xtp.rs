//! The rows of 003: XTP reliable multicast, Multidriver and List-Based Multidriver.

use super::super::{Paper, Row};

/// What its rows share unless they say otherwise.
pub(super) const SETUP: &str = "5 hosts on a 4 Mb/s token ring (a medium of its own: shared, one frame at a time, bounded \
    access), host model with a cost per driver crossing, 16 KB buffers; latency = mean of 100 \
    consecutive 1-byte transfers, ≥ 3 runs.";

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "xtp-fig2",
        paper: Paper::Xtp,
        place: "Fig. 5.2",
        setup: "a sender and three receivers, nothing lost: a transaction under the Multidriver, with \
            replies and marks",
        finding: "the exchange as a transcript: opening, tags, replies, deliver-to, close",
    },
    Row {
        id: "xtp-prune",
        paper: Paper::Xtp,
        place: "§ 5.4",
        setup: "a sender and three receivers in subgroups of their own, list-based; after the first round one \
            subgroup is pruned",
        finding: "the exchange as a transcript: the vector rides in the next packet, the pruned receiver leaves \
            at once, the others go on",
    },
    Row {
        id: "xtp-table1",
        paper: Paper::Xtp,
        place: "Table 5.1–5.3",
        setup: "1-byte transfers to 1–12 receivers: list-based, unicast, Multidriver (return data \
            itself acknowledged)",
        finding: "multicast about 3× unicast at 1; list-based ≤ 1.2× a series of unicasts at 5 (36.3/30.5), \
            Multidriver 1.21×, list-based the faster of the two there; both grow more slowly per node; \
            the crossover that the paper extrapolates (8–10 in 5.5.2, 6–10 in 6.1) is found",
    },
    Row {
        id: "xtp-table4",
        paper: Paper::Xtp,
        place: "Table 5.4–5.5",
        setup: "500 KB file to 1–5 receivers vs sequential unicast",
        finding: "ahead of sequential unicast from 3 receivers on (the paper averages rates arithmetically; with true sequential rates from 2)",
    },
    Row {
        id: "xtp-table6",
        paper: Paper::Xtp,
        place: "Table 5.6",
        setup: "fast sender, slow receivers",
        finding: "the gain is stable against relative host speed",
    },
    Row {
        id: "xtp-table7",
        paper: Paper::Xtp,
        place: "Table 5.7",
        setup: "Multidriver vs list-based throughput",
        finding: "Multidriver ahead by 0–17 % (2.6–14.4 % in the paper)",
    },
    Row {
        id: "xtp-damping",
        paper: Paper::Xtp,
        place: "§ 3.3.3",
        setup: "control packets reaching the sender, N = 2…200, with none / damping / slotting / \
            both; host delay varied",
        finding: "damping + slotting cut them; how far depends on timing, as the paper warns: the \
            curve over host delay and slot length is the result",
    },
    Row {
        id: "xtp-bucket",
        paper: Paper::Xtp,
        place: "§ 3.3.3, 4.2",
        setup: "receivers slower than the bucket's lifetime",
        finding: "early release happens exactly then; the paper drops such receivers silently, ours is \
            detected and reported",
    },
    Row {
        id: "xtp-compare",
        paper: Paper::Xtp,
        place: "ch. 3, 6.2(4)",
        setup: "ack, nak, ring, tree, xtp, multidriver, list, cp, napp, vmtp, mtp, with and without \
            four collectors; N = 2…200",
        finding: "control packets at the sender, latency, throughput, one figure each; collectors hold \
            the sender's control traffic at a constant",
    },
];
