//! The protocols by name, one line each.

use alloc::boxed::Box;

use groupcast_core::{MemberId, Ordered, Rng, Time};

use crate::ring;

/// A protocol that orders messages in a group.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name on command lines and in configurations.
    pub name: &'static str,
    /// An instance with the settings that tests use.
    pub build: fn(MemberId, Rng, Time) -> Box<dyn Ordered>,
}

/// All protocols that order messages in a group.
pub const ORDERED: &[Family] = &[Family {
    name: "ring",
    build: ring::build,
}];
