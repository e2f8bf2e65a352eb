//! The families of protocols, as the registry lists them: one `&crate::module::FAMILY` a line.
//!
//! The swarm, the fuzz targets, the conformance tests and scenarios go through the registry, so a
//! protocol that it does not list is reached by none of them: [`check`] refuses it. This crate
//! names nothing of ours and reads the sources. A family's module is called as the family is, which
//! the suite holds.

use std::fs;
use std::path::Path;

use crate::exec;

const PROTOCOLS: &str = "crates/protocols/src";
const REGISTRY: &str = "crates/protocols/src/registry.rs";
/// How a module shows that it has a protocol that carries messages.
const SIGN: &str = " Ordered for ";
/// Modules with such a protocol that are no family.
const EXEMPT: &[&str] = &[
    // A layer over another protocol, which is one.
    "total",
    // For one comparison; it stops for ever when a member crashes, so there is no contract to hold
    // it to.
    "windowed",
];

/// The names of all families, in the registry's order.
pub(crate) fn names() -> Result<Vec<String>, String> {
    let path = exec::root().join(REGISTRY);
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let names: Vec<String> = text.lines().filter_map(listed).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(format!("{} lists no family", path.display()));
    }
    Ok(names)
}

/// The protocols that the registry leaves out, one a line; empty if all are listed.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let listed = names()?;
    let root = exec::root().join(PROTOCOLS);
    let trouble = |error| format!("cannot read {}: {error}", root.display());
    let mut breaches = Vec::new();
    for entry in fs::read_dir(&root).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        let module = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_known = EXEMPT.contains(&&*module) || listed.iter().any(|name| *name == module);
        if !is_known && has_sign(&path)? {
            breaches.push(format!(
                "{module} has a protocol that swarm, fuzz targets and conformance tests do not reach: list it in {REGISTRY}"
            ));
        }
    }
    Ok(breaches)
}

/// Whether a file, or one of a folder that is no test, implements the trait.
fn has_sign(path: &Path) -> Result<bool, String> {
    let trouble = |error| format!("cannot read {}: {error}", path.display());
    if !path.is_dir() {
        return Ok(fs::read_to_string(path).map_err(trouble)?.contains(SIGN));
    }
    for entry in fs::read_dir(path).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        if !path.ends_with("tests") && has_sign(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The module whose family a line of the registry lists.
fn listed(line: &str) -> Option<&str> {
    line.trim()
        .strip_prefix("&crate::")?
        .strip_suffix("::FAMILY,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_listed_and_every_line_has_one() {
        assert_eq!(check(), Ok(Vec::new()));
        let listed = names().expect("the registry lists families");
        // Its members are of bulk, with policies that are for comparison alone.
        for name in listed.iter().filter(|name| *name != "compared") {
            let folder = exec::root().join(PROTOCOLS).join(name);
            let path = match folder.is_dir() {
                true => folder,
                false => folder.with_extension("rs"),
            };
            assert_eq!(has_sign(&path), Ok(true), "{name}");
        }
    }

    #[test]
    fn the_registry_can_be_read() {
        let names = names().expect("the registry lists families");
        assert_eq!(names.first().map(String::as_str), Some("ring"));
        assert!(names.len() > 3, "{names:?}");
    }
}
