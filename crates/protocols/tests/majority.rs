//! Goal: of the parts of a group that was cut at most one takes messages that a majority must hold,
//! whatever was under way; members that leave of their own accord are missed by nobody.
//! Method: partitions, crashes and leaves in silence; the same for every family that orders
//! messages.

use std::time::Duration;

use groupcast_core::{Instrumented, Ordered as _, Service, SubmitError};
use groupcast_protocols::registry;
use groupcast_sim::{Cluster, ClusterConfig};

type Group = Cluster<Box<dyn Instrumented>>;

/// A group of `hosts` members of each ordered family.
fn groups(hosts: usize, seed: u64) -> impl Iterator<Item = Group> {
    registry::ORDERED.iter().map(move |order| {
        let config = ClusterConfig::new(hosts, seed);
        let build = |member, rng, now| order.family.build(member, rng, now);
        let mut group = Cluster::started(config, build);
        group.must("one group", Cluster::all_in_one_configuration, PATIENCE);
        group
    })
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until each of `hosts` is in a configuration of as many members.
fn together(group: &mut Group, hosts: &[usize]) {
    let members = |group: &Group, host| {
        let configuration = group.current_configuration(host);
        configuration.map(|it| it.members.len())
    };
    let formed = |group: &Group| {
        hosts
            .iter()
            .all(|it| members(group, *it) == Some(hosts.len()))
    };
    group.must("these are together", formed, PATIENCE);
}

/// What `host` says of a message for a majority; its status says the same.
fn ask(group: &mut Group, host: usize) -> Result<(), SubmitError> {
    let status = group.protocol(host).expect("it runs").status();
    let submitted = group.submit(host, Service::Majority, "for a majority");
    assert_eq!(status.has_majority(), Some(submitted.is_ok()), "at {host}");
    if let Err(SubmitError::Minority { members, of }) = submitted {
        let said = (status.members.len(), status.max_n);
        assert_eq!(said, (members, Some(of)), "at {host}");
    }
    submitted.map(|_| ())
}

fn minority(members: usize, of: usize) -> Result<(), SubmitError> {
    Err(SubmitError::Minority { members, of })
}

#[test]
fn a_part_without_a_majority_refuses_although_nothing_was_under_way() {
    for mut group in groups(5, 301) {
        group.partition(&[&[0], &[1, 2], &[3, 4]]);
        for part in [&[0][..], &[1, 2], &[3, 4]] {
            together(&mut group, part);
        }
        // Parts of parts know of the same five.
        group.partition(&[&[0], &[1], &[2], &[3, 4]]);
        together(&mut group, &[1]);
        for (host, members) in [(0, 1), (1, 1), (3, 2)] {
            assert_eq!(ask(&mut group, host), minority(members, 5), "at {host}");
        }
        group.heal();
        group.partition(&[&[0, 1, 2], &[3, 4]]);
        together(&mut group, &[0, 1, 2]);
        assert_eq!(ask(&mut group, 0), Ok(()));
        assert_eq!(ask(&mut group, 4), minority(2, 5));
        // Two of those three are a majority now: of the others there are too few.
        group.partition(&[&[0, 1], &[2], &[3, 4]]);
        together(&mut group, &[0, 1]);
        together(&mut group, &[2]);
        assert_eq!(ask(&mut group, 1), Ok(()));
        assert_eq!(ask(&mut group, 2), minority(1, 3));
        assert_eq!(ask(&mut group, 3), minority(2, 5));
        group.heal();
        group.must("one again", Cluster::all_in_one_configuration, PATIENCE);
        assert_eq!(ask(&mut group, 3), Ok(()));
        group.check();
    }
}

#[test]
fn who_is_left_when_the_others_crashed_refuses_until_as_many_are_there_again() {
    for mut group in groups(3, 302) {
        group.crash(1);
        group.crash(2);
        together(&mut group, &[0]);
        assert_eq!(ask(&mut group, 0), minority(1, 3));
        group.restart(1);
        together(&mut group, &[0, 1]);
        assert_eq!(ask(&mut group, 0), Ok(()));
        assert_eq!(ask(&mut group, 1), Ok(()));
        group.check();
    }
}

#[test]
fn members_that_leave_are_not_missed() {
    for mut group in groups(5, 303) {
        for left in [4, 3] {
            group.leave(left);
            let rest: Vec<usize> = (0..left).collect();
            together(&mut group, &rest);
        }
        // Three of three; a crash leaves two of them.
        group.crash(2);
        together(&mut group, &[0, 1]);
        assert_eq!(ask(&mut group, 0), Ok(()));
        group.leave(1);
        together(&mut group, &[0]);
        assert_eq!(ask(&mut group, 0), Ok(()));
        group.check();
    }
}

/// What one of two had under way when the other left is held by all that are left.
#[test]
fn what_is_under_way_when_another_leaves_is_not_lost() {
    for seed in 304..312 {
        for mut group in groups(2, seed) {
            let (from, mut ids) = (group.now(), Vec::new());
            for millisecond in 0..40 {
                if millisecond == 20 {
                    group.leave(1);
                }
                let submitted = group.submit(0, Service::Majority, "under way");
                ids.push(submitted.expect("there is room"));
                group.run_for(Duration::from_micros(700 + 40 * (seed - 303)));
            }
            together(&mut group, &[0]);
            group.run_for(Duration::from_secs(1));
            assert_eq!(group.gaps(0), [], "seed {seed}, from {from:?} on");
            assert!(ids.iter().all(|id| group.has_delivered(0, *id)));
            group.check();
        }
    }
}
