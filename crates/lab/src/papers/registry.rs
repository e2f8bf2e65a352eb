//! Which rows can be run, and by what. One line a row.

use super::{Reproduction, Row, calc, rows};

/// The row called `id`.
pub fn row(id: &str) -> Option<&'static Row> {
    rows().find(|row| row.id == id)
}

/// What runs the row called `id`; `None` until its protocol is built.
pub fn reproduction(id: &str) -> Option<&'static dyn Reproduction> {
    let found: &dyn Reproduction = match id {
        "pb-hash" => &calc::Hash,
        _ => return None,
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_has_a_host_seeds_and_a_title() {
        let built = rows().filter_map(|row| Some((row.id, reproduction(row.id)?)));
        let mut count = 0;
        for (id, reproduction) in built {
            assert!(!reproduction.hosts().is_empty(), "{id}");
            assert!(!reproduction.seeds().is_empty(), "{id}");
            assert!(!reproduction.title().is_empty(), "{id}");
            count += 1;
        }
        assert!(count > 0);
    }
}
