//! Goal: a member says from whom nothing comes.
//! Method: one way is closed; what the members say.

use std::time::Duration;

use groupcast_core::Ordered as _;
use groupcast_core::status::Hearing;
use groupcast_protocols::rmp::Rmp;
use groupcast_sim::Cluster;

use super::formed;

fn hearing(cluster: &Cluster<Rmp>, host: usize) -> Hearing {
    let rmp = cluster.protocol(host).expect("it runs");
    rmp.hearing(cluster.now())
}

#[test]
fn a_closed_way_that_harms_nobody_is_known_where_it_leads() {
    let mut cluster = formed(5, 72);
    let (from, to) = (1, 3);
    let before = cluster.configurations(0).len();
    cluster.run_for(Duration::from_secs(30));
    cluster.block(from, to);
    let from = cluster.member(from).expect("it runs");
    let known = move |cluster: &Cluster<Rmp>| hearing(cluster, to).unheard == [from];
    cluster.must("it is not heard", known, Duration::from_secs(15));
    for host in (0..5).filter(|host| *host != to) {
        assert_eq!(hearing(&cluster, host), Hearing::default());
    }
    cluster.heal();
    let heard = move |cluster: &Cluster<Rmp>| hearing(cluster, to).unheard.is_empty();
    cluster.must("it is heard", heard, Duration::from_secs(3));
    assert_eq!(cluster.configurations(0).len(), before);
}
