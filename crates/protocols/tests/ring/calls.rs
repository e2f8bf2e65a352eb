//! Goal: calls for the resting token never cost the ring when the called token does not get through.
//! Method: one way closed for tokens; the ring must stay as it is.

use std::time::Duration;

use groupcast_core::{MessageId, Service, SocketClass};
use groupcast_protocols::ring::Ring;
use groupcast_sim::Cluster;

use super::formed;

fn say(cluster: &mut Cluster<Ring>, host: usize) -> MessageId {
    cluster
        .submit(host, Service::Agreed, "a few words")
        .expect("there is room")
}

#[test]
fn a_member_that_a_called_token_does_not_reach_is_served_by_rotation() {
    let mut cluster = formed(5, 61);
    cluster.run_for(Duration::from_secs(1));
    let before = cluster.configurations(0).len();
    cluster.drop_all(|info| info.from == 0 && info.to == 3 && info.class == SocketClass::Token);
    for _ in 0..40 {
        let id = say(&mut cluster, 3);
        cluster.must(
            "delivered everywhere",
            |cluster| (0..5).all(|host| cluster.has_delivered(host, id)),
            Duration::from_secs(2),
        );
        cluster.run_for(Duration::from_millis(200));
    }
    let changes = cluster.configurations(0).len() - before;
    assert!(changes <= 2, "{changes} configurations");
    cluster.check();
}
