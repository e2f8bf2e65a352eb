//! The rows of 001: ACK, NAK with polling, ring and tree over switched Ethernet.

use super::super::{Paper, Row};

/// What its rows share unless they say otherwise.
pub(super) const SETUP: &str = "30 receivers on two switches, 100 Mb/s, one sender, UDP ≤ 64 KB datagrams fragmented by IP, \
    go-back-N, buffer reservation on, unicast acknowledgements, mean of 3 runs.";

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "lan-table1",
        paper: Paper::Lan,
        place: "Table 1",
        setup: "buffer high-water marks of the four",
        finding: "ACK, tree low; NAK, ring high",
    },
    Row {
        id: "lan-table2",
        paper: Paper::Lan,
        place: "Table 2",
        setup: "count control packets of the data phase, P packets, N receivers, no loss, chains = \
            ⌈N/H⌉",
        finding: "ACK N·P; NAK N·⌈P/i⌉; ring P + N − 1 (all acknowledge the last); tree N·P in the \
            network, P·⌈N/H⌉ at the sender: exactly",
    },
    Row {
        id: "lan-fig8",
        paper: Paper::Lan,
        place: "Fig. 8",
        setup: "426,502-byte file, 1–30 receivers, TCP one after another vs ACK-based",
        finding: "TCP linear in N; multicast grows < 10 % from 1 to 30; multicast ahead for N > 1",
    },
    Row {
        id: "lan-fig9",
        paper: Paper::Lan,
        place: "Fig. 9",
        setup: "ACK-based vs raw UDP vs ACK without the copy",
        finding: "two round trips' cost at small sizes; copy cost at large",
    },
    Row {
        id: "lan-fig10",
        paper: Paper::Lan,
        place: "Fig. 10",
        setup: "ACK: packet size × window, 500 KB",
        finding: "best window = 2 at every packet size; larger packets better",
    },
    Row {
        id: "lan-fig11",
        paper: Paper::Lan,
        place: "Fig. 11",
        setup: "ACK: N = 1…30, small and large messages, packets up to 50 KB",
        finding: "below 4 KB linear in N; above 8 KB about flat",
    },
    Row {
        id: "lan-fig12",
        paper: Paper::Lan,
        place: "Fig. 12",
        setup: "NAK: poll interval 1…20, window 20, packet sizes whose 500 KB fill the window (≤ \
            12.5 KB), and a second window for larger ones",
        finding: "best at 80–90 % of the window for every packet size",
    },
    Row {
        id: "lan-fig13",
        paper: Paper::Lan,
        place: "Fig. 13",
        setup: "NAK: buffer size × packet size, poll 80–85 %",
        finding: "too small and too large a packet both lose; a too small window loses",
    },
    Row {
        id: "lan-fig14",
        paper: Paper::Lan,
        place: "Fig. 14",
        setup: "NAK: N = 1…30, 500 KB, best parameters (8 KB: window 25, poll 21)",
        finding: "mean growth ≤ 6 % (5.5 % in the paper); larger packets scale better",
    },
    Row {
        id: "lan-fig15",
        paper: Paper::Lan,
        place: "Fig. 15",
        setup: "ring: packet size, 2 MB, window 35",
        finding: "best between 5 and 10 KB",
    },
    Row {
        id: "lan-fig16",
        paper: Paper::Lan,
        place: "Fig. 16",
        setup: "ring: window size",
        finding: "needs > N buffers; gains beyond that",
    },
    Row {
        id: "lan-fig17",
        paper: Paper::Lan,
        place: "Fig. 17",
        setup: "ring: N = 1…30, 2 MB, window 50",
        finding: "< 2 % growth",
    },
    Row {
        id: "lan-fig18",
        paper: Paper::Lan,
        place: "Fig. 18",
        setup: "tree: height 1…30, 8 KB and 50 KB, window 20",
        finding: "neither extreme is best; 8 KB ahead of 50 KB at every height but 1",
    },
    Row {
        id: "lan-fig19",
        paper: Paper::Lan,
        place: "Fig. 19",
        setup: "tree: height × window, 8 KB",
        finding: "taller trees need larger windows (≈ 10 at H = 30, 2 at H = 1); given enough window H \
            = 1 is the worst",
    },
    Row {
        id: "lan-fig20",
        paper: Paper::Lan,
        place: "Fig. 20",
        setup: "tree: small messages",
        finding: "H ≥ 15 clearly slower than H < 6",
    },
    Row {
        id: "lan-fig21",
        paper: Paper::Lan,
        place: "Fig. 21",
        setup: "tree H = 6: window × packet size",
        finding: "1300 B and 50 KB both worse than 8 KB",
    },
    Row {
        id: "lan-table3",
        paper: Paper::Lan,
        place: "Table 3",
        setup: "2 MB: ACK 50 KB × window 5; NAK 8 KB × 50, poll 43; ring 8 KB × 50; trees 8 KB × 20; \
            also by a parameter search",
        finding: "order NAK > ring > tree(15) > tree(6) > ACK (89.7 / 84.6 / 81.2 / 77.3 / 68.0 Mb/s \
            in the paper)",
    },
    Row {
        id: "lan-small",
        paper: Paper::Lan,
        place: "§§ 5–6",
        setup: "one-packet messages, all four",
        finding: "ACK, NAK and ring equal, tree behind",
    },
];
