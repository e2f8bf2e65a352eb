//! Goal: who leaves is missed by nobody, also where a good-bye was lost.
//! Method: of a ring of four two leave at once, and the first copy of each good-bye does not reach
//! one of the others, or no copy does.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::{Service, SubmitError};
use groupcast_protocols::ring::Ring;
use groupcast_sim::Cluster;

use super::formed;

const JOIN: u8 = 10;
const FLAG_LEAVING: u8 = 1;

/// Hosts 2 and 3 leave, and host `deaf` loses this many copies of each good-bye. The two others,
/// when they are together.
fn left_by_two(deaf: usize, copies: usize) -> Cluster<Ring> {
    let mut cluster = formed(4, 90);
    let mut lost: BTreeMap<usize, usize> = BTreeMap::new();
    cluster.drop_all(move |info| {
        let goodbye = matches!(info.body(), [JOIN, flags, ..] if flags & FLAG_LEAVING != 0);
        if info.to != deaf || !goodbye {
            return false;
        }
        let count = lost.entry(info.from).or_default();
        *count += 1;
        *count <= copies
    });
    cluster.leave(2);
    cluster.leave(3);
    let pair = |cluster: &Cluster<Ring>, host| {
        let now = cluster.current_configuration(host);
        now.is_some_and(|it| it.members.len() == 2)
    };
    cluster.must(
        "a ring of two",
        |cluster| pair(cluster, 0) && pair(cluster, 1),
        Duration::from_millis(60),
    );
    cluster
}

/// A member that has not heard a good-bye itself waits for its next copy before it agrees on who is
/// left.
#[test]
fn who_loses_the_first_copies_of_good_byes_counts_no_less_as_left() {
    for deaf in [0, 1] {
        for copies in [1, 2] {
            let mut cluster = left_by_two(deaf, copies);
            for host in [0, 1] {
                let submitted = cluster.submit(host, Service::Majority, "of two");
                assert!(submitted.is_ok(), "at {host}, {deaf} lost {copies}");
            }
            cluster.run_for(Duration::from_secs(1));
            assert_eq!(cluster.deliveries(0).len(), 2);
            cluster.check();
        }
    }
}

/// Whoever heard none takes the word of another for nothing: two of four are no majority.
#[test]
fn who_hears_no_good_bye_misses_those_who_left() {
    for deaf in [0, 1] {
        let mut cluster = left_by_two(deaf, 3);
        for host in [0, 1] {
            let submitted = cluster.submit(host, Service::Majority, "of four");
            let minority = SubmitError::Minority { members: 2, of: 4 };
            assert_eq!(submitted, Err(minority), "at {host}, {deaf} heard none");
        }
        cluster.check();
    }
}
