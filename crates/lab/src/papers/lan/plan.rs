//! Which points each figure has.

use super::point::{Duplex, KB500, LanPoint, MB2, Open, System, best_poll};

/// Numbers of receivers (001 Fig. 8, 11, 14, 17).
fn receivers(quick: bool) -> &'static [u32] {
    if quick {
        &[1, 2, 10, 30]
    } else {
        &[1, 2, 3, 4, 5, 8, 10, 15, 20, 25, 30]
    }
}

/// Every pair of `a` and `b`.
fn pairs<A: Copy, B: Copy>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter()
        .flat_map(|a| b.iter().map(move |b| (*a, *b)))
        .collect()
}

fn tree(height: u32) -> System {
    System::Tree { height }
}

fn nak(window: u32) -> System {
    System::Nak {
        poll: best_poll(window),
    }
}

/// The settings of Table 3, in the order in which 001 found them.
pub(super) fn best(size: u64) -> Vec<LanPoint> {
    let nak = System::Nak { poll: 43 };
    let all = [
        LanPoint::new(nak, 8_000, 50),
        LanPoint::new(System::Ring, 8_000, 50),
        LanPoint::new(tree(15), 8_000, 20),
        LanPoint::new(tree(6), 8_000, 20),
        LanPoint::new(System::Ack, 50_000, 5),
    ];
    all.map(|setting| setting.size(size)).to_vec()
}

/// Table 1 and 3.
pub(super) fn table3(_quick: bool) -> Vec<LanPoint> {
    best(MB2)
}

/// A search for the best parameters of each.
pub(super) fn search(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[8_000, 50_000]
    } else {
        &[1_400, 3_000, 5_000, 8_000, 12_500, 25_000, 50_000]
    };
    let windows: &[u32] = if quick {
        &[5, 50]
    } else {
        &[2, 5, 10, 20, 35, 50]
    };
    let all = pairs(packets, windows).into_iter();
    all.flat_map(|(packet, window)| {
        let ring = (window > super::point::RECEIVERS).then_some(System::Ring);
        [System::Ack, nak(window), tree(15), tree(6)]
            .into_iter()
            .chain(ring)
            .map(move |system| LanPoint::new(system, packet, window).size(MB2))
    })
    .collect()
}

/// Table 2: packets that do and do not fill the last round of polls, trees whose chains do and do
/// not divide.
pub(super) fn table2(quick: bool) -> Vec<LanPoint> {
    // Windows with which no acknowledgement finds the sender's socket full: the table is about what
    // is sent, not lost.
    let systems = [
        (System::Ack, 2),
        (System::Nak { poll: 17 }, 20),
        (System::Nak { poll: 10 }, 20),
        (System::Ring, 35),
        (tree(6), 5),
        (tree(15), 5),
        (tree(4), 5),
    ];
    let receivers: &[u32] = if quick { &[7, 30] } else { &[1, 7, 16, 30] };
    let sizes: &[u64] = if quick {
        &[8_000, KB500]
    } else {
        &[1, 8_000, 80_000, KB500]
    };
    pairs(&systems, receivers)
        .into_iter()
        .flat_map(|((system, window), receivers)| {
            let setting = LanPoint::new(system, 8_000, window).to(receivers);
            sizes.iter().map(move |size| setting.size(*size))
        })
        .collect()
}

/// TCP to each in turn beside ACK. 001 does not say with which packets: these are the best of Fig.
/// 10.
pub(super) fn fig8(quick: bool) -> Vec<LanPoint> {
    pairs(&[System::Tcp, System::Ack], receivers(quick))
        .into_iter()
        .map(|(system, receivers)| LanPoint::new(system, 50_000, 2).size(426_502).to(receivers))
        .collect()
}

/// ACK, ACK without the copy, and raw UDP.
pub(super) fn fig9(quick: bool) -> Vec<LanPoint> {
    let sizes: &[u64] = if quick {
        &[1, 10_000, KB500]
    } else {
        &[
            1, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 35_000, 50_000, 100_000, 200_000, KB500,
        ]
    };
    let free = Open {
        copy: 0,
        ..Open::DEFAULT
    };
    pairs(
        &[
            (System::Ack, Open::DEFAULT),
            (System::Ack, free),
            (System::Udp, Open::DEFAULT),
        ],
        sizes,
    )
    .into_iter()
    .map(|((system, open), size)| LanPoint {
        open,
        ..LanPoint::new(system, 50_000, 2).size(size)
    })
    .collect()
}

/// ACK: packets and windows.
pub(super) fn fig10(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[1_300, 8_000, 50_000]
    } else {
        &[500, 1_300, 3_000, 6_250, 12_500, 25_000, 50_000]
    };
    let windows: &[u32] = if quick { &[1, 2, 5] } else { &[1, 2, 3, 4, 5] };
    pairs(packets, windows)
        .into_iter()
        .map(|(packet, window)| LanPoint::new(System::Ack, packet, window))
        .collect()
}

/// ACK: small and large messages to 1–30.
pub(super) fn fig11(quick: bool) -> Vec<LanPoint> {
    let sizes: &[u64] = if quick {
        &[1, 2_000, 50_000, KB500]
    } else {
        &[
            1, 256, 1_000, 2_000, 3_000, 4_000, 8_000, 10_000, 20_000, 50_000, 100_000, KB500,
        ]
    };
    pairs(sizes, receivers(quick))
        .into_iter()
        .map(|(size, receivers)| {
            LanPoint::new(System::Ack, 50_000, 2)
                .size(size)
                .to(receivers)
        })
        .collect()
}

/// NAK: poll intervals; with twice the window only polls in steps of two.
pub(super) fn fig12(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[1_300, 8_000]
    } else {
        &[500, 1_300, 3_000, 5_000, 8_000, 12_500]
    };
    let polls: Vec<u32> = if quick {
        vec![1, 10, 16, 17, 18, 20]
    } else {
        (1..=20).collect()
    };
    // 500 KB in these are 20 packets and 10: a window of 20 would never be full.
    let large: &[(u32, u32)] = if quick {
        &[]
    } else {
        &[(25_000, 10), (50_000, 5)]
    };
    let small = pairs(packets, &polls)
        .into_iter()
        .map(|(packet, poll)| LanPoint::new(System::Nak { poll }, packet, 20));
    let large = large.iter().flat_map(|(packet, window)| {
        let poll = |poll| LanPoint::new(System::Nak { poll }, *packet, *window);
        (1..=*window).map(poll)
    });
    small.chain(large).collect()
}

/// NAK: buffers and packets.
pub(super) fn fig13(quick: bool) -> Vec<LanPoint> {
    let buffers: &[u32] = if quick {
        &[50_000, 400_000]
    } else {
        &[50_000, 100_000, 200_000, 300_000, 400_000, 500_000]
    };
    let packets: &[u32] = if quick {
        &[500, 8_000, 50_000]
    } else {
        &[500, 1_300, 3_000, 5_000, 8_000, 12_500, 25_000, 50_000]
    };
    pairs(buffers, packets)
        .into_iter()
        .map(|(buffer, packet)| {
            let window = buffer / packet;
            LanPoint::new(nak(window), packet, window)
        })
        .collect()
}

/// NAK: 1–30 receivers with the best parameters.
pub(super) fn fig14(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[500, 8_000, 50_000]
    } else {
        &[500, 1_300, 3_000, 8_000, 12_500, 25_000, 50_000]
    };
    pairs(packets, receivers(quick))
        .into_iter()
        .map(|(packet, receivers)| {
            // 001 prints them for 8 KB: a window of 25, so 200 KB, and a poll of 21.
            let window = 200_000 / packet;
            let poll = if packet == 8_000 {
                21
            } else {
                best_poll(window)
            };
            LanPoint::new(System::Nak { poll }, packet, window).to(receivers)
        })
        .collect()
}

/// Ring: packets.
pub(super) fn fig15(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[1_300, 8_000, 50_000]
    } else {
        &[
            500, 1_300, 2_000, 3_000, 5_000, 6_500, 8_000, 10_000, 15_000, 20_000, 30_000, 50_000,
        ]
    };
    packets
        .iter()
        .map(|packet| LanPoint::new(System::Ring, *packet, 35).size(MB2))
        .collect()
}

/// Ring: windows. One of 30 is refused.
pub(super) fn fig16(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[8_000]
    } else {
        &[1_300, 3_000, 8_000, 16_000]
    };
    let windows: &[u32] = if quick {
        &[30, 31, 50]
    } else {
        &[30, 31, 32, 33, 35, 40, 45, 50, 60, 80, 100]
    };
    pairs(packets, windows)
        .into_iter()
        .map(|(packet, window)| LanPoint::new(System::Ring, packet, window).size(MB2))
        .collect()
}

/// Ring: 1–30 receivers.
pub(super) fn fig17(quick: bool) -> Vec<LanPoint> {
    receivers(quick)
        .iter()
        .map(|receivers| {
            LanPoint::new(System::Ring, 8_000, 50)
                .size(MB2)
                .to(*receivers)
        })
        .collect()
}

/// Tree: heights that divide 30, and what comes nearest between.
fn heights(quick: bool) -> &'static [u32] {
    if quick {
        &[1, 6, 15, 30]
    } else {
        &[1, 2, 3, 5, 6, 10, 15, 20, 25, 30]
    }
}

/// Tree: heights, with large and small packets.
pub(super) fn fig18(quick: bool) -> Vec<LanPoint> {
    pairs(&[8_000, 50_000], heights(quick))
        .into_iter()
        .map(|(packet, height)| LanPoint::new(tree(height), packet, 20))
        .collect()
}

/// Tree: heights and windows.
pub(super) fn fig19(quick: bool) -> Vec<LanPoint> {
    let windows: &[u32] = if quick {
        &[1, 2, 5, 20]
    } else {
        &[1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20]
    };
    pairs(&[1, 3, 6, 15, 30], windows)
        .into_iter()
        .map(|(height, window)| LanPoint::new(tree(height), 8_000, window))
        .collect()
}

/// Tree: small messages.
pub(super) fn fig20(quick: bool) -> Vec<LanPoint> {
    let sizes: &[u64] = if quick {
        &[1, 4_000]
    } else {
        &[1, 256, 1_000, 2_000, 4_000, 8_000]
    };
    pairs(heights(quick), sizes)
        .into_iter()
        .map(|(height, size)| LanPoint::new(tree(height), 8_000, 20).size(size))
        .collect()
}

/// Tree of height 6: windows and packets.
pub(super) fn fig21(quick: bool) -> Vec<LanPoint> {
    let packets: &[u32] = if quick {
        &[1_300, 8_000, 50_000]
    } else {
        &[1_300, 3_000, 8_000, 16_000, 50_000]
    };
    let windows: &[u32] = if quick {
        &[2, 10, 20]
    } else {
        &[1, 2, 3, 5, 8, 10, 15, 20]
    };
    pairs(packets, windows)
        .into_iter()
        .map(|(packet, window)| LanPoint::new(tree(6), packet, window))
        .collect()
}

/// Messages of one packet.
pub(super) fn small(quick: bool) -> Vec<LanPoint> {
    let sizes: &[u64] = if quick {
        &[1, 4_000]
    } else {
        &[1, 256, 1_000, 2_000, 4_000, 8_000]
    };
    let systems = [System::Ack, nak(20), System::Ring, tree(6), tree(15)];
    pairs(&systems, sizes)
        .into_iter()
        .map(|(system, size)| LanPoint::new(system, 8_000, 35).size(size))
        .collect()
}

/// Other values of what 001 leaves open.
pub(super) const OPEN: [Open; 6] = [
    Open {
        copy: 12,
        ..Open::DEFAULT
    },
    Open {
        send_buffer: 16,
        ..Open::DEFAULT
    },
    Open {
        send_buffer: 256,
        ..Open::DEFAULT
    },
    Open {
        costs: 100,
        ..Open::DEFAULT
    },
    Open {
        costs: 300,
        ..Open::DEFAULT
    },
    Open {
        duplex: Duplex::Half,
        ..Open::DEFAULT
    },
];

/// `plan` again with each of [`OPEN`].
pub(super) fn open(plan: Vec<LanPoint>) -> Vec<LanPoint> {
    pairs(&OPEN, &plan)
        .into_iter()
        .map(|(open, setting)| match setting.open.copy {
            // "Without the copy" stays so.
            0 => LanPoint {
                open: Open { copy: 0, ..open },
                ..setting
            },
            _ => LanPoint { open, ..setting },
        })
        .collect()
}
