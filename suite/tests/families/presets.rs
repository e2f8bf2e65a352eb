//! Goal: in the networks that a preset of the ring is documented for, no ring breaks without a
//! fault, nor with hosts as slow as it promises. Method: the ends of the table of presets, each for
//! a short time; `cargo xtask swarm --presets` runs all of it.

use std::time::Duration;

use groupcast_suite::presets::{Cell, Load, Outcome};

/// Runs `cells`, which must be calm.
fn run(cells: Vec<Cell>) -> Vec<(Cell, Outcome)> {
    let run = |cell: Cell| {
        let outcome = cell.run(Duration::from_secs(20));
        let Outcome {
            changes,
            violations,
            ..
        } = &outcome;
        assert!(
            outcome.is_calm(),
            "{cell:?}: {changes} changes, {violations:?}"
        );
        (cell, outcome)
    };
    cells.into_iter().map(run).collect()
}

#[test]
fn no_ring_breaks_in_calm_where_its_preset_fits() {
    for (cell, outcome) in run(Cell::few()) {
        assert!(outcome.messages > 10, "{cell:?}: {}", outcome.messages);
        assert_eq!(cell.load == Load::Sparse, outcome.quantile(0.99).is_some());
    }
}

#[test]
fn no_ring_breaks_in_calm_where_hosts_are_as_slow_as_a_lan_may_be() {
    let most = |cell: &Cell| cell.is_promised() && [2, 5, 9].contains(&cell.hosts);
    run(Cell::slow().into_iter().filter(most).collect());
}
