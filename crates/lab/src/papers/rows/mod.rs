//! The tables and figures of the five papers as data: what each was measured on and what it found.
//!
//! Nothing here runs; which of them can be run stands in [`registry`](super::registry).

mod gossip;
mod lan;
mod ring;
mod rmp;
mod xtp;

use super::{Paper, Row};

/// Every row, in the papers' order.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let papers: [&'static [Row]; 5] = [rmp::ROWS, lan::ROWS, ring::ROWS, xtp::ROWS, gossip::ROWS];
    papers.into_iter().flatten()
}

/// What all rows of `paper` share unless they say otherwise; empty if nothing.
pub(super) fn common_setup(paper: Paper) -> &'static str {
    match paper {
        Paper::Rmp => rmp::SETUP,
        Paper::Lan => lan::SETUP,
        Paper::AcceleratedRing => ring::SETUP,
        Paper::Xtp => xtp::SETUP,
        Paper::Gossip => gossip::SETUP,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_an_id_of_its_own_a_setup_and_a_finding() {
        let mut seen = BTreeSet::new();
        for row in rows() {
            assert!(seen.insert(row.id), "{} twice", row.id);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            assert!(row.id.chars().all(plain), "{}", row.id);
            for text in [row.place, row.setup, row.finding] {
                assert!(!text.trim().is_empty(), "{}", row.id);
            }
        }
        assert_eq!(seen.len(), 73);
    }
}
