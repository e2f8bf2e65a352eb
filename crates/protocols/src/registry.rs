//! The protocols by name, one line each.
//!
//! The swarm, the fuzz targets, the conformance tests and scenarios know the protocols by this list
//! alone. `windowed` and [`total`](crate::total) are not in it: the one is a mechanism for a single
//! comparison, which stops for ever when a member crashes, the other a layer over a protocol that
//! is.

use groupcast_core::Family;

/// All families; the first is the default.
pub const FAMILIES: &[&Family] = &[
    &crate::ring::FAMILY,
    &crate::bulk::FAMILY,
    &crate::gossip::FAMILY,
    &crate::srm::FAMILY,
    &crate::flood::FAMILY,
    #[cfg(feature = "example")]
    &crate::example::FAMILY,
];

/// The family called `name`.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().find(|family| family.name == name)
}
