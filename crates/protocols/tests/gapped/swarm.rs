//! Gossip with small buffers under random faults. Goal: what members drop because it does not fit,
//! they report. Method: seeds, with the settings of the swarm of all families, but buffers of a few
//! messages.

use std::sync::Arc;
use std::time::Duration;

use groupcast_core::Rng;
use groupcast_protocols::gossip::{self, Gossip, GossipConfig};
use groupcast_sim::Factory;
use groupcast_sim::swarm::{Scenario, Swarm, SwarmConfig};

fn swarm() -> Swarm<Gossip> {
    let config = SwarmConfig {
        len_max: 4_000,
        messages: 200,
        duration: Duration::from_secs(30),
        progress_within: Duration::from_secs(30),
        // Views are whole, so nobody's first message is lost in silence.
        acquainted: true,
        ..SwarmConfig::of(&gossip::FAMILY)
    };
    Swarm::new(config, small_buffers)
}

fn small_buffers(scenario: &Scenario) -> Factory<Gossip> {
    let config = GossipConfig {
        message_max: 5_000,
        buffer_max: 20_000,
        ..gossip::random_config(Rng::new(scenario.seed).fork("gossip"))
    };
    Arc::new(move |member, rng, now| Gossip::new(config.clone(), member, rng, now).unwrap())
}

#[test]
fn no_fault_makes_a_member_lie() {
    let report = swarm().run_range(0..50, 2, false, &|_| ());
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|it| (it.seed, it.violations.first()))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(report.accepted > 7_500, "{} accepted", report.accepted);
}

/// A member is cut off for longer than the others know it, and sends its first message meanwhile.
/// After the cut a message of it comes before its own word.
#[test]
fn the_first_message_of_a_member_that_was_forgotten_is_accounted_for() {
    let report = swarm().run_seed(46);
    assert_eq!(report.violations, Vec::<String>::new());
}

/// A datagram of a life that had ended 200 s before came for the first time when nothing was known
/// of that life any more: its message was delivered again.
#[test]
fn what_is_late_of_a_sender_that_was_forgotten_is_not_delivered_again() {
    let swarm = Swarm::of(&gossip::FAMILY, None, SwarmConfig::of(&gossip::FAMILY));
    assert_eq!(swarm.run_seed(61_888).violations, Vec::<String>::new());
}

/// Announcements after the healing are lost, or come from who is not admitted yet: the two meet
/// when the first message is already sent.
#[test]
fn who_meets_a_sender_late_is_owed_nothing_of_before() {
    let swarm = Swarm::of(&gossip::FAMILY, None, SwarmConfig::of(&gossip::FAMILY));
    for seed in [10_577, 30_890] {
        assert_eq!(swarm.run_seed(seed).violations, Vec::<String>::new());
    }
}
