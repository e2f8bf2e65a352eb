//! The rows of 000: the Reliable Multicast Protocol and the Message Bus.

use super::super::{Paper, Row};

/// What its rows share unless they say otherwise.
pub(super) const SETUP: &str = "";

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "rmp-fig6",
        paper: Paper::Rmp,
        place: "Fig. 6",
        setup: "4 sites A–D, ACK to D lost in frame 1, NACK in 3 (unicast), one null ACK and D's \
            Confirm in 4; ACK batching off",
        finding: "the exact packet exchange of the four frames, as a transcript (frame 3 also has the \
            Confirm C→B); D delivers (B,1),(D,1) after the NACK; accepting timestamp t frees \
            timestamps ≤ t−N+1",
    },
    Row {
        id: "rmp-fig12",
        paper: Paper::Rmp,
        place: "Fig. 12",
        setup: "sources × sinks ∈ {1,2,4,8}, sources ≤ sinks (a sender is a sink too), shared 10 \
            Mb/s Ethernet, 8 KB packets, stop-and-wait, 5 MB a source; RMP, MBus II, \
            single-server TCP (MBus I)",
        finding: "aggregate throughput passes the wire's own rate for ≥ 2 sinks under RMP; the TCP \
            server never does; 2 sources × 8 sinks ≥ 5× the wire (5.45× in the paper); at 4 and \
            8 sources the spread is high (starvation on CSMA/CD) and is reported, not asserted",
    },
    Row {
        id: "rmp-fig13",
        paper: Paper::Rmp,
        place: "Fig. 13",
        setup: "one sender, 1–8 destinations (sender not a destination)",
        finding: "RMP roughly constant in N, unicast systems fall as 1/N; RMP ahead from N = 2",
    },
    Row {
        id: "rmp-fig14",
        paper: Paper::Rmp,
        place: "Fig. 14",
        setup: "same, 1-byte packets, latency, K = 0, stop-and-wait",
        finding: "latency nearly constant in N; unicast RPC linear in N; crossover at small N; ordered \
            delivery costs 1.5–2× immediate delivery",
    },
    Row {
        id: "rmp-fig14k",
        paper: Paper::Rmp,
        place: "text p. 91",
        setup: "K = 0…N−1 under heavy load",
        finding: "latency grows by about (K+2)/2, throughput does not change",
    },
    Row {
        id: "rmp-fig15",
        paper: Paper::Rmp,
        place: "Fig. 15",
        setup: "the 10 loads of Fig. 12",
        finding: "utilisation: RMP > MBus I > MBus II at the median; RMP's median about 70 %",
    },
    Row {
        id: "rmp-table2",
        paper: Paper::Rmp,
        place: "Tables 2–3",
        setup: "MBus II through the steps of Table 2: 5 % loss removed, 512 B → 4 KB → 8 KB packets, \
            timer calls cut, adaptive time-outs",
        finding: "throughput grows at every step, ≥ 10× in all (30 → 466 KB/s in the paper; raw RMP \
            840); the share of time in network calls grows with packet size",
    },
    Row {
        id: "rmp-failure",
        paper: Paper::Rmp,
        place: "ch. 8",
        setup: "a site crashes at low and high load, near and far",
        finding: "detection time tracks the back-off (2 s clamp, 10 tries): about 5 s near, 15–20 s \
            far at the paper's settings; ours with adaptive settings beside it",
    },
    Row {
        id: "rmp-table4",
        paper: Paper::Rmp,
        place: "Table 4",
        setup: "the four intra-site topologies of Fig. 16",
        finding: "IP 8, 28, 38, 38 and multicast 1, 6, 16, 12, the ratios follow (the printed 4.33 for 28/6 is a slip)",
    },
    Row {
        id: "rmp-table5",
        paper: Paper::Rmp,
        place: "Table 5",
        setup: "the inter-site topologies; Ethernet and FDDI cost 1, intra-site link 4 (2 to the \
            router), WAN 16 (8 to the router); the source on a ninth Ethernet (our reading)",
        finding: "92/27, 126/61, 126/45 and their ratios; the text's rule \"efficiency between H/S and 1.7·H/S\" fails for topology 2",
    },
    Row {
        id: "rmp-msgs",
        paper: Paper::Rmp,
        place: "ch. 8, [MaCh84]",
        setup: "traffic rate and error rate swept",
        finding: "≈ 2 multicasts per message at high load and low error; 2 + 1 unicast at low load; \
            below N positive ACKs for N ≥ 3",
    },
];
