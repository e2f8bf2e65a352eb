//! Which rows can be run, and by what. One line a row.

use super::{Reproduction, Row, calc, gossip, lan, ring, rmp, rows, xtp};

/// The row called `id`.
pub fn row(id: &str) -> Option<&'static Row> {
    rows().find(|row| row.id == id)
}

/// What runs the row called `id`; `None` until its protocol is built.
pub fn reproduction(id: &str) -> Option<&'static dyn Reproduction> {
    let found: &dyn Reproduction = match id {
        "rmp-fig6" => &rmp::Transcript,
        "rmp-fig12" => &rmp::FIG12,
        "rmp-fig13" => &rmp::FIG13,
        "rmp-fig14" => &rmp::FIG14,
        "rmp-fig14k" => &rmp::FIG14K,
        "rmp-fig15" => &rmp::FIG15,
        "rmp-table2" => &rmp::TABLE2,
        "rmp-failure" => &rmp::FAILURE,
        "rmp-msgs" => &rmp::MSGS,
        "rmp-table4" => &calc::IntraSite,
        "rmp-table5" => &calc::InterSite,
        "pb-fig3.3" => &calc::GossipReach,
        "pb-hash" => &calc::Hash,
        "lan-table1" => &lan::TABLE1,
        "lan-table2" => &lan::TABLE2,
        "lan-fig8" => &lan::FIG8,
        "lan-fig9" => &lan::FIG9,
        "lan-fig10" => &lan::FIG10,
        "lan-fig11" => &lan::FIG11,
        "lan-fig12" => &lan::FIG12,
        "lan-fig13" => &lan::FIG13,
        "lan-fig14" => &lan::FIG14,
        "lan-fig15" => &lan::FIG15,
        "lan-fig16" => &lan::FIG16,
        "lan-fig17" => &lan::FIG17,
        "lan-fig18" => &lan::FIG18,
        "lan-fig19" => &lan::FIG19,
        "lan-fig20" => &lan::FIG20,
        "lan-fig21" => &lan::FIG21,
        "lan-table3" => &lan::TABLE3,
        "lan-small" => &lan::SMALL,
        "pb-fig3.1" => &gossip::FIG3_1,
        "pb-fig5.5" => &gossip::FIG5_5,
        "pb-fig5.8" => &gossip::FIG5_8,
        "pb-fig7.1" => &gossip::FIG7_1,
        "pb-fig4.3" => &gossip::FIG4_3,
        "pb-fig4.5" => &gossip::FIG4_5,
        "pb-fig4.7" => &gossip::FIG4_7,
        "pb-fig4.9" => &gossip::FIG4_9,
        "pb-cost" => &gossip::COST,
        "pb-fig6.1" => &gossip::FIG6_1,
        "pb-fig6.2" => &gossip::FIG6_2,
        "pb-fig6.4" => &gossip::FIG6_4,
        "pb-fig6.5" => &gossip::FIG6_5,
        "pb-fig6.6" => &gossip::FIG6_6,
        "pb-fig6.7" => &gossip::FIG6_7,
        "pb-fig6.8" => &gossip::FIG6_8,
        "pb-fig6.9" => &gossip::FIG6_9,
        "pb-fig6.11" => &gossip::FIG6_11,
        "pb-fig6.14" => &gossip::FIG6_14,
        "pb-fig6.16" => &gossip::FIG6_16,
        "pb-fig6.17" => &gossip::FIG6_17,
        "pb-fig7.6" => &gossip::FIG7_6,
        "pb-fig7.8" => &gossip::FIG7_8,
        "pb-fig7.9" => &gossip::FIG7_9,
        "pb-fig7.10" => &gossip::FIG7_10,
        "pb-fig7.11" => &gossip::Locations,
        "ring-fig1" => &ring::FIG1,
        "ring-fig2" => &ring::FIG2,
        "ring-fig3" => &ring::FIG3,
        "ring-fig4" => &ring::FIG4,
        "ring-fig5" => &ring::FIG5,
        "ring-fig6" => &ring::FIG6,
        "ring-fig7" => &ring::FIG7,
        "xtp-fig2" => &xtp::FIG2,
        "xtp-prune" => &xtp::PRUNE,
        "xtp-table1" => &xtp::TABLE1,
        "xtp-table4" => &xtp::TABLE4,
        "xtp-table6" => &xtp::TABLE6,
        "xtp-table7" => &xtp::TABLE7,
        "xtp-compare" => &xtp::COMPARE,
        "xtp-damping" => &xtp::DAMPING,
        "xtp-bucket" => &xtp::BUCKET,
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
