//! Goal: what a newcomer delivers behind its list stands where those place it who go on with it.
//! Method: no old member hears the list, so that it comes to nothing, while the newcomer has the
//! token and orders what they send.

use std::time::Duration;

use groupcast_core::{MemberId, Service};
use groupcast_protocols::rmp::{FAMILY, OrderRule, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use crate::all_have;

/// The kind byte of a list on the wire.
const LIST: u8 = 51;

/// Hosts 0 and 1 in one configuration; host 2 is let in by a list that neither passes, and has the
/// token.
fn ahead_of_all(order: OrderRule, seed: u64) -> Cluster<Rmp> {
    let build = move |member: MemberId, rng, now| {
        let config = RmpConfig {
            order,
            // A member that has not heard of the newcomer is not the first to notice.
            silence_max: Duration::from_secs(5),
            ..RmpConfig::lan()
        };
        Rmp::new(config, member, rng, now).expect("the settings are valid")
    };
    let judged = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(3, seed)
    };
    let mut cluster = Cluster::new(judged, build);
    cluster.start(0);
    cluster.start(1);
    let limit = Duration::from_secs(3);
    cluster.must("a pair", Cluster::all_in_one_configuration, limit);
    cluster.drop_all(|info| info.to < 2 && info.body().first() == Some(&LIST));
    cluster.start(2);
    let let_in = |it: &Cluster<Rmp>| !it.configurations(2).is_empty();
    cluster.must("let in", let_in, limit);
    assert_eq!(cluster.configurations(2)[0].members.len(), 3);
    cluster
}

/// Seed 70,182 of the swarm of groups with RMP. With `order = heard` the newcomer went by ACKs, as
/// all do; but no old member had passed its list, and a reformation ended that list: the same
/// message got another place there, and the newcomer had it twice.
#[test]
fn a_newcomer_delivers_nothing_of_others_before_one_of_them_has_passed_its_list() {
    for order in [OrderRule::Heard, OrderRule::Settled] {
        let mut cluster = ahead_of_all(order, 70_182);
        let behind = cluster.configurations(2)[0].id;
        let ids = [0, 1].map(|host| {
            let id = cluster.submit(host, Service::Agreed, "behind the list");
            id.expect("there is room")
        });
        let limit = Duration::from_secs(10);
        let reforms = |it: &Cluster<Rmp>| {
            let mut states =
                (0..3).filter_map(|host| it.protocol(host).map(|it| it.status().state));
            states.any(|state| state == "polling")
        };
        cluster.must("a list that is not passed", reforms, limit);
        cluster.heal();
        let is_over = |it: &Cluster<Rmp>| {
            let now = it.current_configuration(2).map(|it| it.id);
            now != Some(behind) && it.all_in_one_configuration()
        };
        cluster.must("one configuration", is_over, limit);
        for host in [0, 1] {
            let mut passed = cluster.configurations(host).iter();
            assert!(passed.all(|it| it.id != behind), "no old member passed it");
        }
        cluster.must("everywhere", |it| all_have(it, &ids), limit);
        cluster.check_at_rest();
    }
}
