//! A member that sends the truth but for one field, and what others must do when it is gone.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_core::contract::Contract;
use groupcast_sim::ClusterConfig;

use super::{Conduct, Group, Honest, Insider, group, works};

/// Makes a datagram's body false.
pub(crate) type Lie = fn(&mut [u8]);

struct Liar(Lie);

impl Conduct for Liar {
    fn instead(&mut self, _now: Time, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        (self.0)(&mut body);
        body
    }
}

/// Writes `value` over a field of a body of one of `kinds`.
pub(crate) fn overwrite(body: &mut [u8], kinds: &[u8], at: usize, value: &[u8]) {
    if kinds.contains(&body[0])
        && let Some(field) = body.get_mut(at..at + value.len())
    {
        field.copy_from_slice(value);
    }
}

const HOSTS: usize = 5;

/// A group of `HOSTS`, of which host `liar` tells `lie`; none is started.
fn group_of(honest: Honest, config: ClusterConfig, liar: usize, lie: Lie) -> Group {
    group(config, liar, honest, move |inner, _, _| {
        Box::new(Insider::new(inner, Liar(lie)))
    })
}

/// Host `liar` tells `lie` from the beginning, where it comes `first`, or to a group; then it is
/// gone.
fn after(group: &mut Group, liar: usize, first: bool, what: &str) {
    let others: Vec<usize> = (0..HOSTS).filter(|host| *host != liar).collect();
    if first {
        group.start(liar);
    }
    group.start(others[0]);
    group.run_for(Duration::from_secs(1));
    for host in &others[1..] {
        group.start(*host);
    }
    group.run_for(Duration::from_secs(1));
    if !first {
        group.start(liar);
        group.run_for(Duration::from_secs(1));
    }
    // It lies where there is a reformation.
    group.crash(others[3]);
    group.run_for(Duration::from_secs(2));
    group.partition(&[&[liar], &others[..]]);
    group.run_for(Duration::from_secs(2));
    group.heal();
    group.run_for(Duration::from_secs(2));
    group.crash(liar);
    works(group, what);
    // The last one that was in a configuration with it tells a new one nothing false.
    group.restart(others[3]);
    works(group, what);
    group.crash(others[0]);
    works(group, what);
}

/// Each of `lies`, told by the lowest and by the highest member, is over when that is gone.
pub(crate) fn each_is_over(honest: Honest, contract: Contract, lies: &[(&str, Lie)]) {
    for (what, lie) in lies {
        for (liar, first) in [(0, true), (0, false), (HOSTS - 1, true)] {
            let config = ClusterConfig {
                contract,
                ..ClusterConfig::new(HOSTS, 1)
            };
            let mut group = group_of(honest, config, liar, *lie);
            after(&mut group, liar, first, what);
        }
    }
}
