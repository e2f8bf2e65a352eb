//! Who gossips to whom in each exchange, which copies are lost, and what H is.

use std::time::Duration;

use groupcast_core::{MemberId, MessageId};
use groupcast_protocols::gossip::{GossipConfig, HashConfig, HashPlace, Variant};

use super::super::exchange::{Script, Sending};

/// Rounds begin at their multiples: those of a script begin together.
const ROUND: u64 = 100;

fn paper(variant: Variant) -> GossipConfig {
    GossipConfig {
        variant,
        first_round: Some(Duration::from_millis(ROUND)),
        ..GossipConfig::paper()
    }
}

pub(super) fn fig3_1() -> Script {
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

pub(super) fn fig5_5(variant: Variant) -> Script {
    Script {
        members: &["A", "B", "C", "D", "E"],
        zones: &[],
        // 004 5.3.1: round 1 A to C, B to A, C to D, D to B, E to C; round 2 A to E, B to C, C to
        // A, D to A, E to D.
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

pub(super) fn fig5_8() -> Script {
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

pub(super) fn fig7_1() -> Script {
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
                place: HashPlace::Given(printed),
                ask_bufferers: true,
                gaps: false,
            }),
            ..paper(Variant::Basic)
        },
        until: 390,
    }
}
