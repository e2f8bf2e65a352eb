//! The protocols by name, one line each.

use alloc::boxed::Box;

use groupcast_core::trace::Inspect;
use groupcast_core::{Instrumented, MemberId, Rng, Time};

use crate::{bulk, flood, gossip, ring, srm};

/// A protocol that carries messages in a group.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name on command lines and in configurations.
    pub name: &'static str,
    /// An instance with the settings that tests use.
    pub build: fn(MemberId, Rng, Time) -> Box<dyn Instrumented>,
    /// Reads its datagrams from outside.
    pub inspect: Inspect,
}

/// All protocols that order messages in a group.
pub const ORDERED: &[Family] = &[Family {
    name: "ring",
    build: ring::build,
    inspect: ring::inspect,
}];

/// The policies of bulk transfers, with a message a transfer: what one sender sends comes in its order.
pub const BULK: &[Family] = &[
    Family {
        name: "bulk-ack",
        build: bulk::build_ack,
        inspect: bulk::inspect,
    },
    Family {
        name: "bulk-nak",
        build: bulk::build_nak,
        inspect: bulk::inspect,
    },
    Family {
        name: "bulk-ring",
        build: bulk::build_ring,
        inspect: bulk::inspect,
    },
    Family {
        name: "bulk-tree",
        build: bulk::build_tree,
        inspect: bulk::inspect,
    },
];

/// All protocols without an order across senders, which report what they miss instead of preventing it at any price.
pub const GAPPED: &[Family] = &[
    Family {
        name: "gossip",
        build: gossip::build,
        inspect: gossip::inspect,
    },
    Family {
        name: "srm",
        build: srm::build,
        inspect: srm::inspect,
    },
];

/// Bare multicast, which promises nothing: what the others are compared with.
pub const FLOOD: Family = Family {
    name: "flood",
    build: flood::build,
    inspect: flood::inspect,
};
