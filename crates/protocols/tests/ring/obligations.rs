//! Goal: a member that has told the others that it holds everything delivers what they may have
//! delivered relying on it, even if it never installs the ring that they formed together (Totem's
//! obligation set). Method: a message that nobody has, a safe one behind it, recovery, and a cut in
//! the instant in which the first member has installed the new ring.

use std::time::Duration;

use groupcast_check::Violation;
use groupcast_core::{Service, SocketClass};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::Cluster;

use super::with_config;

const LOST_WITH: usize = 0;
const SENDER: usize = 3;
const OTHERS: [usize; 2] = [1, 2];

/// What the checker says after the story, told with these settings.
fn story(config: RingConfig) -> Vec<Violation> {
    let mut cluster = with_config(4, 41, config);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    // The first member's message reaches nobody; the second one claims the next number and is heard
    // by all others.
    cluster.drop_all(|info| info.from == LOST_WITH && info.class == SocketClass::Data);
    let high =
        |cluster: &Cluster<Ring>, host: usize| cluster.protocol(host).expect("runs").status().high;
    let before = high(&cluster, LOST_WITH);
    cluster
        .submit(LOST_WITH, Service::Agreed, "nobody has this")
        .expect("there is room");
    let claimed = |cluster: &Cluster<Ring>| high(cluster, LOST_WITH) > before;
    cluster.must(
        "a number is claimed for it",
        claimed,
        Duration::from_millis(50),
    );
    cluster
        .submit(SENDER, Service::Safe, "behind the gap")
        .expect("there is room");
    let held = |cluster: &Cluster<Ring>, host: usize| {
        let status = cluster.protocol(host).expect("runs").status();
        status.high > status.aru
    };
    cluster.must(
        "held behind the gap",
        |cluster| OTHERS.iter().all(|host| held(cluster, *host)),
        Duration::from_millis(50),
    );
    cluster.crash(LOST_WITH);
    let installed = |cluster: &Cluster<Ring>, host: usize| cluster.configurations(host).len() > 1;
    let first = |cluster: &Cluster<Ring>| OTHERS.iter().any(|host| installed(cluster, *host));
    cluster.must(
        "the first has installed the next ring",
        first,
        Duration::from_secs(1),
    );
    let obliged = OTHERS
        .into_iter()
        .find(|host| !installed(&cluster, *host))
        .expect("one is later than the other");
    cluster.partition(&[&[obliged]]);
    cluster.run_for(Duration::from_secs(2));
    cluster.violations(true, None)
}

#[test]
fn a_member_delivers_what_others_may_have_delivered_relying_on_it() {
    assert_eq!(story(RingConfig::lan()), []);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn the_checker_finds_it_where_the_obligation_is_forgotten() {
    use groupcast_protocols::ring::Planted;

    let config = RingConfig {
        planted: Some(Planted::NoObligations),
        ..RingConfig::lan()
    };
    let violations = story(config);
    assert!(
        violations.iter().any(|violation| violation.rule == "safe"),
        "{violations:?}"
    );
}
