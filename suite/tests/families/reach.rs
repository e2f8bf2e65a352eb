//! No family is left out. The swarm, the fuzz targets and the conformance tests go through
//! `registry::FAMILIES`; so it is enough that this list, as it is compiled here, has every line of
//! the registry: a family behind a feature that the suite does not switch on would be missing. That
//! every protocol has a line, `cargo xtask arrows` holds.

use groupcast_protocols::registry::FAMILIES;

const REGISTRY: &str = include_str!("../../../crates/protocols/src/registry.rs");

#[test]
fn the_suite_reaches_every_family_of_the_registry_under_the_name_of_its_module() {
    let listed: Vec<&str> = REGISTRY
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("&crate::")?
                .strip_suffix("::FAMILY,")
        })
        .collect();
    let reached: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(listed, reached);
}
