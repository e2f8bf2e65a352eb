//! A machine whose cores several hosts share.

use std::time::Duration;

use groupcast_core::Time;

/// The cores of a machine: each piece of work goes to the one that is free first, in the order in
/// which it is asked for, and runs to its end.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    free_at: Vec<Time>,
}

impl Machine {
    /// Makes it a machine of at least `cores` cores.
    pub(crate) fn grow(&mut self, cores: u32) {
        let cores = cores.max(1) as usize;
        if self.free_at.len() < cores {
            self.free_at.resize(cores, Time::ZERO);
        }
    }

    /// Works for `cost`, no earlier than `from`; when it is done.
    pub(crate) fn work(&mut self, from: Time, cost: Duration) -> Time {
        let Some(core) = self.free_at.iter_mut().min() else {
            return from + cost;
        };
        *core = (*core).max(from) + cost;
        *core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_do_three_pieces_in_two_rounds() {
        let mut machine = Machine::default();
        machine.grow(2);
        machine.grow(1);
        let done = [10, 10, 10].map(|cost| {
            machine
                .work(Time::from_nanos(5), Duration::from_nanos(cost))
                .as_nanos()
        });
        assert_eq!(done, [15, 15, 25]);
        let late = machine.work(Time::from_nanos(100), Duration::from_nanos(1));
        assert_eq!(late.as_nanos(), 101);
    }
}
