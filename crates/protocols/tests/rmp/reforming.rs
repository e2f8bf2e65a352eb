//! Goal: members that hold different parts of an old configuration come together again. Method:
//! ways that are cut in one direction under load, so that one member knows less than the others
//! when the group reforms.

use std::time::Duration;

use groupcast_core::{Service, SocketClass};
use groupcast_protocols::rmp::RmpConfig;
use groupcast_sim::{Block, Cluster};

use super::with_config;
use crate::all_have;

/// Seed 611 of the swarm. A member that does not hear what another one is ready for cannot forget
/// what all hold, and its window fills. The others go on until it can take no more; then it had no
/// room for what they hold above, and no reformation ended.
#[test]
fn a_member_that_knew_less_of_what_all_hold_has_room_for_what_the_others_kept() {
    let config = RmpConfig {
        gap_max: 64,
        ..RmpConfig::lan()
    };
    let mut cluster = with_config(5, 611, config);
    cluster.network().block(Block {
        from: 2,
        to: 4,
        class: SocketClass::Data,
    });
    for step in 0..400 {
        let payload = vec![step as u8; 1_200];
        cluster
            .submit([0, 1, 3][step % 3], Service::Agreed, payload)
            .expect("there is room");
        cluster.run_for(Duration::from_millis(1));
    }
    cluster.heal();
    let limit = Duration::from_secs(5);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        limit,
    );
    let id = cluster.submit(4, Service::Safe, "all can go on");
    let ids = [id.expect("there is room")];
    cluster.must("everywhere", |it| all_have(it, &ids), limit);
    cluster.check();
}
