//! What a point of 004's figures is measured with: scheme, network, load, noise, and what the text
//! leaves open.

use super::super::data::Cell;
use super::network::Shape;

/// A protocol of 004, or one that it is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    /// SRM with fixed timers (004 5.4).
    Srm,
    /// SRM whose timers adapt (004 5.4.3).
    AdaptiveSrm,
    /// Basic Pbcast (004 5.2).
    Pbcast,
    /// With multicast repairs by the request counter (004 5.3.1).
    Ipmc,
    /// And by the gossip retransmit bit (004 5.3.2).
    Grb,
    /// The same within each cluster, and between them by a few members of each (004 3.7).
    Hierarchical,
    /// And by neighbours (004 5.3.3).
    Local,
    /// Multicast repairs by the counter, few bufferers a message (004 7.3–7.4).
    Hash,
    /// Our ring, every message Safe: virtual synchrony.
    Ring,
    /// A group whose window waits for everybody's acknowledgement, as Ensemble's (004 4.4).
    Windowed,
    /// Bare multicast: what the data alone costs.
    Bare,
}

impl Scheme {
    /// All, in the order of legends.
    pub(super) const ALL: [Self; 11] = [
        Self::Srm,
        Self::AdaptiveSrm,
        Self::Pbcast,
        Self::Ipmc,
        Self::Grb,
        Self::Hierarchical,
        Self::Local,
        Self::Hash,
        Self::Ring,
        Self::Windowed,
        Self::Bare,
    ];

    /// As figures call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Srm => "SRM",
            Self::AdaptiveSrm => "adaptive SRM",
            Self::Pbcast => "Pbcast",
            Self::Ipmc => "Pbcast-ipmc",
            Self::Grb => "Pbcast-grb",
            Self::Hierarchical => "Pbcast-grb, hierarchical",
            Self::Local => "Pbcast-local",
            Self::Hash => "Pbcast-hash",
            Self::Ring => "ring, Safe",
            Self::Windowed => "windowed",
            Self::Bare => "data alone",
        }
    }
}

/// One point of one curve.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct GossipPoint {
    pub(super) shape: Shape,
    pub(super) scheme: Scheme,
    /// Bits a second of every link; see [`Shape`] for those that are different.
    pub(super) bandwidth: u64,
    /// The share of packets that every link loses.
    pub(super) noise: f64,
    /// The share that the link which a figure singles out loses.
    pub(super) noise_apart: f64,
    /// Messages a second.
    pub(super) rate: f64,
    /// Bytes of a message's packet on a link, all headers included, as ns-2 counts them.
    pub(super) size: u32,
    /// How long the sender sends, in seconds.
    pub(super) seconds: f64,
    /// Members that are perturbed, and how probable a sleep is (004 4.3).
    pub(super) perturbed: u32,
    pub(super) perturb_rate: f64,
    pub(super) open: Open,
}

impl GossipPoint {
    /// 004 6.3.1: 100 messages a second of 210 bytes for 100 s over links of 1.5 Mb/s that lose 0.1
    /// %; over 10 Mb/s in large trees and between clusters.
    pub(super) fn new(shape: Shape, scheme: Scheme) -> Self {
        Self {
            shape,
            scheme,
            bandwidth: match shape {
                // 004 prints none here. SRM's session messages alone fill 1.5 Mb/s with 300
                // members, and with the queues of 1.5 Mb/s a request from the other cluster comes
                // too late for its round.
                Shape::Sparse { .. } | Shape::Clusters { .. } => 10_000_000,
                _ => 1_500_000,
            },
            noise: 0.001,
            noise_apart: 0.0,
            rate: 100.0,
            size: 210,
            seconds: 100.0,
            perturbed: 0,
            perturb_rate: 0.0,
            open: Open::OURS,
        }
    }

    /// Whether the gossip of a full run is shortened to one of seconds.
    pub(super) fn shortened(self, quick: bool) -> Self {
        Self {
            seconds: if quick {
                self.seconds / 10.0
            } else {
                self.seconds
            },
            ..self
        }
    }
}

/// What 004 does not print.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Open {
    /// Packets that wait before a link: ns-2's own default.
    pub(super) queue: u32,
    /// Members that a member gossips to each round: 1 in 5.5, 2 in 4.3.1.
    pub(super) sub_gsize: u32,
    /// The most requests, and the most repairs, that a member sends a round.
    pub(super) limit: u32,
    /// Whether the core of the multicast tree is the vertex that is farthest from ours (the last
    /// one).
    pub(super) core_far: bool,
    /// Whether a duplicate sets a message's gossip count back (Fig. 5.3 as printed).
    pub(super) duplicate_resets: bool,
    /// Members that buffer a message, wanted (004's C).
    pub(super) bufferers: u32,
    /// The most children of a member in a spanning tree (ch. 4).
    pub(super) arity: u16,
}

impl Open {
    /// What the figures are measured with.
    pub(super) const OURS: Self = Self {
        queue: 50,
        sub_gsize: 1,
        limit: 100,
        core_far: false,
        duplicate_resets: true,
        bufferers: 6,
        arity: 4,
    };

    /// The columns that tell it apart.
    pub(super) const COLUMNS: [(&str, &str); 7] = [
        ("queue", ""),
        ("sub-gsize", ""),
        ("limit", ""),
        ("core", ""),
        ("duplicates", ""),
        ("bufferers", ""),
        ("arity", ""),
    ];

    /// Their cells.
    pub(super) fn keys(&self) -> [Cell; 7] {
        [
            self.queue.into(),
            self.sub_gsize.into(),
            self.limit.into(),
            if self.core_far { "far" } else { "near" }.into(),
            if self.duplicate_resets {
                "reset"
            } else {
                "ignored"
            }
            .into(),
            self.bufferers.into(),
            u32::from(self.arity).into(),
        ]
    }

    /// One choice at a time different from ours.
    pub(super) fn sweep() -> Vec<Self> {
        let ours = Self::OURS;
        vec![
            Self {
                queue: 10,
                ..ours.clone()
            },
            Self {
                queue: 1_000,
                ..ours.clone()
            },
            Self {
                sub_gsize: 2,
                ..ours.clone()
            },
            Self {
                limit: 10,
                ..ours.clone()
            },
            Self {
                limit: 1_000,
                ..ours.clone()
            },
            Self {
                core_far: true,
                ..ours
            },
        ]
    }

    /// What is different from ours, in words.
    pub(super) fn text(&self) -> String {
        let ours = Self::OURS.keys();
        let differs = Self::COLUMNS
            .iter()
            .zip(self.keys())
            .zip(&ours)
            .filter(|((_, cell), ours)| cell != *ours)
            .map(|(((name, _), cell), _)| format!("{name} {cell}"));
        differs.collect::<Vec<_>>().join(", ")
    }
}
