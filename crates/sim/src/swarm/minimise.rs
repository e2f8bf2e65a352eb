//! Makes a failing scenario smaller, as long as it still fails: fewer faults, then fewer messages.

use super::scenario::Scenario;

/// The smallest scenario found within `trials` runs for which `fails` still holds. It holds for
/// `scenario`.
pub(crate) fn minimise(
    scenario: &Scenario,
    mut trials: usize,
    fails: impl Fn(&Scenario) -> bool,
) -> Scenario {
    let mut smallest = scenario.clone();
    let mut attempt = |candidate: Scenario, smallest: &mut Scenario| {
        let fails = trials > 0 && fails(&candidate);
        trials = trials.saturating_sub(1);
        if fails {
            *smallest = candidate;
        }
        fails
    };
    // From the back: what comes late depends on what came before.
    for index in (0..smallest.faults.len()).rev() {
        let mut candidate = smallest.clone();
        candidate.faults.remove(index);
        attempt(candidate, &mut smallest);
    }
    let mut chunk = smallest.load.len().div_ceil(2);
    while chunk > 0 {
        let mut start = 0;
        while start < smallest.load.len() {
            let mut candidate = smallest.clone();
            let end = (start + chunk).min(candidate.load.len());
            candidate.load.drain(start..end);
            if !attempt(candidate, &mut smallest) {
                start += chunk;
            }
        }
        chunk /= 2;
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::SwarmConfig;

    #[test]
    fn only_what_the_failure_needs_is_left() {
        let scenario = Scenario::new(&SwarmConfig::default(), 3);
        let (fault, message) = (scenario.faults[1].clone(), scenario.load[77]);
        let fails = |it: &Scenario| it.faults.contains(&fault) && it.load.contains(&message);
        let smallest = minimise(&scenario, 10_000, fails);
        assert_eq!(smallest.faults, std::slice::from_ref(&fault));
        assert_eq!(smallest.load, [message]);
        assert_eq!(smallest.hosts, scenario.hosts);
    }

    #[test]
    fn the_number_of_trials_is_kept() {
        let scenario = Scenario::new(&SwarmConfig::default(), 3);
        let runs = std::cell::Cell::new(0);
        minimise(&scenario, 5, |_| {
            runs.set(runs.get() + 1);
            false
        });
        assert_eq!(runs.get(), 5);
    }
}
