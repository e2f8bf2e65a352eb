//! Goal: a receiver that is demoted under the policy `tree` leaves its place: nobody waits for what
//! it would acknowledge for others, no other of its chain is demoted with it, and it has a place
//! again in its pass. Method: the small network, chains of three, and one receiver of a chain that
//! loses much: its first, its middle, its last.

use std::time::Duration;

use super::net::{Net, file, member};
use crate::bulk::{BulkConfig, Outcome, Policy, RateControl, SlowPolicy, Wanted};

const RECEIVERS: usize = 9;
const LENGTH: usize = 4_000_000;

fn config() -> BulkConfig {
    BulkConfig {
        packet: 1000,
        window: 256,
        policy: Policy::Tree { height: 3 },
        slow: SlowPolicy::Demote,
        slow_after: Duration::from_millis(50),
        present_within: Duration::from_millis(200),
        rate: RateControl::Fixed {
            bytes_per_second: 4_000_000,
        },
        ..BulkConfig::lan()
    }
}

/// A transfer to nine, of whom some lose three tenths: after how many seconds the others had
/// everything, how many polls the sender had sent by then, and the network in the end.
fn run(slow: &[usize], loss: f64) -> (f64, u64, Net) {
    let mut net = Net::new(RECEIVERS + 1, &config(), LENGTH);
    for index in slow {
        net.loss[*index] = loss;
    }
    net.send(file(LENGTH, Wanted::Count(RECEIVERS)));
    let begun = net.now;
    net.must(Duration::from_secs(60), |net| {
        (1..=RECEIVERS).all(|index| slow.contains(&index) || net.has_stream(index, 0))
    });
    let took = (net.now - begun).as_secs_f64();
    let polls = net.endpoints[0].counters().polls_sent;
    net.must(Duration::from_secs(60), Net::is_sent);
    std::eprintln!("{slow:?} lose {loss}: the others after {took}, {polls} polls");
    (took, polls, net)
}

#[test]
fn a_receiver_that_is_demoted_leaves_its_chain_and_comes_back() {
    let (undisturbed, ..) = run(&[], 0.0);
    for slow in [&[4][..], &[5], &[6], &[4, 6], &[4, 5, 6]] {
        let (took, polls, net) = run(slow, 0.3);
        assert!(took < 1.2 * undisturbed, "{took} instead of {undisturbed}");
        // Nobody waits for what is acknowledged by nobody.
        assert!(polls < 3, "{polls}");
        assert_eq!(net.endpoints[0].counters().demoted as usize, slow.len());
        for index in 1..=RECEIVERS {
            assert!(net.has_stream(index, 0), "{index}");
            assert_eq!(net.outcomes()[&member(index)], Outcome::Complete);
        }
    }
}
