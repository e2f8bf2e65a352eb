//! The families of protocols, as the registry lists them: one `&module::FAMILY` a line.
//!
//! This crate names nothing of ours, so it reads the file. A family's module is called as the family is, which the suite
//! holds.

use std::fs;

use crate::exec;

const REGISTRY: &str = "crates/protocols/src/registry.rs";

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

/// The module whose family a line of the registry lists.
fn listed(line: &str) -> Option<&str> {
    line.trim().strip_prefix('&')?.strip_suffix("::FAMILY,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_can_be_read() {
        let names = names().expect("the registry lists families");
        assert_eq!(names.first().map(String::as_str), Some("ring"));
        assert!(names.len() > 3, "{names:?}");
    }
}
