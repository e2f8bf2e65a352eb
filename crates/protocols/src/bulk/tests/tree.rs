//! Goal: a receiver that is demoted or given up under the policy `tree` leaves its place: nobody
//! waits for what it would acknowledge for others, no other of its chain goes with it, and if it is
//! demoted it has a place again in its pass. Method: the small network, chains of three, and one
//! receiver of a chain that loses much, fails, is silent or is restarted: its first, its middle or
//! its last.

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

/// How a receiver is given up in the middle of a transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Gone {
    /// It is not heard any more.
    Dead,
    /// Its disk fails, and it says so.
    Failed,
    /// Another process of its host comes in its place.
    Restarted,
}

/// A transfer to nine that waits for all, of whom some are given up after a quarter of a second, or
/// are silent from then on until they are given up: after how many seconds the others have
/// everything, but for that silence, how many polls were sent without it, and the network in the
/// end.
fn run_without(gone: &[usize], how: Gone) -> (f64, u64, Net) {
    let config = BulkConfig {
        slow: SlowPolicy::Wait,
        ..config()
    };
    let mut net = Net::new(RECEIVERS + 1, &config, LENGTH);
    let id = net.send(file(LENGTH, Wanted::Count(RECEIVERS)));
    let begun = net.now;
    net.run(Duration::from_millis(250));
    for index in gone {
        match how {
            Gone::Dead => net.cut[*index] = true,
            Gone::Failed => {
                let now = net.now;
                net.endpoints[*index].conclude(now, id, Err("the disk is full"));
            }
            Gone::Restarted => {
                net.data[*index].clear();
                net.restart(*index, &config);
            }
        }
    }
    let (silent_from, polls_sent) = (net.now, |net: &Net| net.endpoints[0].counters().polls_sent);
    let before = polls_sent(&net);
    let mut while_silent = 0;
    if how == Gone::Dead {
        net.must(2 * config.vanish_after, |net| !net.outcomes().is_empty());
        while_silent = polls_sent(&net) - before;
    }
    let silent = net.now - silent_from;
    net.must(Duration::from_secs(60), |net| {
        (1..=RECEIVERS).all(|index| gone.contains(&index) || net.has_stream(index, 0))
    });
    let took = (net.now - begun - silent).as_secs_f64();
    let polls = polls_sent(&net) - while_silent;
    net.must(Duration::from_secs(60), Net::is_sent);
    std::eprintln!("{gone:?} {how:?}: the others after {took}, {polls} polls");
    (took, polls, net)
}

#[test]
fn a_receiver_that_is_given_up_leaves_its_chain() {
    let (undisturbed, ..) = run_without(&[], Gone::Failed);
    for (gone, how) in [
        (&[4][..], Gone::Failed),
        (&[5], Gone::Failed),
        (&[4, 5], Gone::Failed),
        (&[6], Gone::Restarted),
        (&[5], Gone::Dead),
    ] {
        let (took, polls, net) = run_without(gone, how);
        assert!(took < 1.1 * undisturbed, "{took} instead of {undisturbed}");
        // Nobody waits for what is acknowledged by nobody.
        assert!(polls < 3, "{polls}");
        let outcomes = net.outcomes();
        for index in 1..=RECEIVERS {
            let stays = !gone.contains(&index);
            let outcome = &outcomes[&member(index)];
            assert_eq!(*outcome == Outcome::Complete, stays, "{index}: {outcome:?}");
            // A receiver that comes in the place of another is served in the next pass.
            assert!(!stays && how != Gone::Restarted || net.has_stream(index, 0));
        }
    }
}
