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
    &crate::rmp::FAMILY,
    &crate::bulk::FAMILY,
    &crate::gossip::FAMILY,
    &crate::srm::FAMILY,
    &crate::flood::FAMILY,
    #[cfg(feature = "example")]
    &crate::example::FAMILY,
];

/// Those that order the messages of all groups of a daemon, in configurations. The first is the
/// default.
pub const ORDERED: &[&Family] = &[&crate::ring::FAMILY, &crate::rmp::FAMILY];

/// The family called `name`.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().find(|family| family.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordered_families_are_those_with_configurations() {
        let names = |families: &mut dyn Iterator<Item = &&'static Family>| {
            families
                .map(|family| family.name)
                .collect::<alloc::vec::Vec<_>>()
        };
        let mut with = FAMILIES
            .iter()
            .filter(|it| it.contract.has_configurations());
        assert_eq!(names(&mut ORDERED.iter()), names(&mut with));
    }
}
