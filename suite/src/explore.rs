//! All schedules of a small group, over the families whose members can be compared: RMP.

use std::time::Duration;

use groupcast_core::{Family, Service};
use groupcast_protocols::rmp::{Rmp, RmpConfig};
use groupcast_sim::explore::{ExploreConfig, ExploreReport, explore};

/// How long a formed group is calm before it is explored.
const CALM: Duration = Duration::from_millis(300);
/// How long the token stays at a member of a group that is calm.
const STAYS: Duration = Duration::from_millis(25);

/// The families that can be explored.
pub const FAMILIES: &[&Family] = &[&groupcast_protocols::rmp::FAMILY];

/// A group of three that is explored.
#[derive(Clone, Debug)]
pub struct Case {
    /// What tells it from the other cases.
    pub name: String,
    /// The group, without faults.
    pub config: ExploreConfig,
}

/// Each set of senders of one message for each of `services`, with the token at each member, and
/// each service at each of the senders. Three services at most.
pub fn cases(family: &Family, services: &[Service]) -> Vec<Case> {
    let mut cases = Vec::new();
    for senders in senders(services) {
        for token in 0..3_u32 {
            let messages: Vec<_> = senders
                .iter()
                .copied()
                .zip(services.iter().copied())
                .collect();
            let sent = messages
                .iter()
                .map(|(site, service)| format!("{site} {service}"));
            let sent: Vec<_> = sent.collect();
            let idle = CALM + STAYS * token;
            cases.push(Case {
                name: format!("{} after {idle:?}", sent.join(", ")),
                config: ExploreConfig {
                    messages,
                    idle,
                    ..ExploreConfig::of(family)
                },
            });
        }
    }
    cases
}

/// Different senders of messages with these services: where two have the same, in one order only.
fn senders(services: &[Service]) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for (index, service) in services.iter().enumerate() {
        let mut next = Vec::new();
        for set in &sets {
            let before = services[..index].iter().rposition(|other| other == service);
            let least = before.map_or(0, |at| set[at] + 1);
            let free = (least..3).filter(|site| !set.contains(site));
            next.extend(free.map(|site| [&set[..], &[site]].concat()));
        }
        sets = next;
    }
    sets
}

/// Explores one group of RMP's members, in which the bug `plant` may be planted.
pub fn explore_rmp(
    config: &ExploreConfig,
    plant: Option<&str>,
    goes_on: &mut dyn FnMut(&ExploreReport) -> bool,
) -> ExploreReport {
    let settings = RmpConfig {
        planted: plant.and_then(|name| name.parse().ok()),
        ..RmpConfig::lan()
    };
    let make = |member, rng, now| {
        Rmp::new(settings.clone(), member, rng, now).expect("the preset is valid")
    };
    explore(config, make, goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_senders_of_equal_services_are_a_set() {
        let (agreed, safe) = (Service::Agreed, Service::Safe);
        assert_eq!(senders(&[agreed, agreed]), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(senders(&[agreed, safe]).len(), 6);
        assert_eq!(senders(&[safe, safe, safe]), [[0, 1, 2]]);
        assert_eq!(cases(FAMILIES[0], &[agreed, agreed]).len(), 9);
    }
}
