//! The protocols by name, one line each.
//!
//! The swarm, the fuzz targets, the conformance tests and scenarios know the protocols by this list
//! alone. `windowed` and [`total`](crate::total) are not in it: the one is a mechanism for a single
//! comparison, which stops for ever when a member crashes, the other a layer over a protocol that
//! is.

use groupcast_core::Family;
use groupcast_core::family::OrderFamily;

/// All families; the first is the default.
pub const FAMILIES: &[&Family] = &[
    &crate::ring::FAMILY,
    &crate::rmp::FAMILY,
    &crate::bulk::FAMILY,
    &crate::gossip::FAMILY,
    &crate::srm::FAMILY,
    &crate::flood::FAMILY,
    &crate::xgm::FAMILY,
    &crate::managed::FAMILY,
    &crate::compared::FAMILY,
    &crate::connections::FAMILY,
    &crate::vmtp::FAMILY,
    &crate::mtp::FAMILY,
    &crate::napp::FAMILY,
    #[cfg(feature = "example")]
    &crate::example::FAMILY,
];

/// Those that order the messages of all groups of a daemon, in configurations. The first is the
/// default.
pub const ORDERED: &[&OrderFamily] = &[&crate::ring::ORDER, &crate::rmp::ORDER];

/// The one of [`ORDERED`] that is called `name`.
pub fn order(name: &str) -> Option<&'static OrderFamily> {
    ORDERED.iter().copied().find(|order| order.name() == name)
}

/// The family called `name`.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().find(|family| family.name == name)
}

#[cfg(test)]
mod tests {
    use groupcast_core::family::OrderLimits;

    use super::*;

    #[test]
    fn the_ordered_families_are_those_with_configurations() {
        let with = FAMILIES
            .iter()
            .filter(|family| family.contract.has_configurations())
            .map(|family| family.name);
        assert!(with.eq(ORDERED.iter().map(|order| order.name())));
    }

    #[test]
    fn an_order_has_a_channel_and_presets_of_its_own() {
        for (index, order) in ORDERED.iter().enumerate() {
            let others = &ORDERED[..index];
            assert!(others.iter().all(|other| other.channel != order.channel));
            for preset in order.presets() {
                for config in [
                    order.daemon_config(Some(preset.name)),
                    order.member_config(Some(preset.name)),
                ] {
                    let mut config = config.expect("a member has the presets of a daemon");
                    assert!(config.members().is_ok(), "{order:?} {}", preset.name);
                    let limits = OrderLimits {
                        body_max: 1_000,
                        ..config.limits()
                    };
                    config.set_limits(limits);
                    assert_eq!(config.boxed().limits(), limits);
                }
            }
            assert!(order.daemon_config(Some("nothing")).is_none());
        }
    }
}
