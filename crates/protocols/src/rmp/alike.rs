//! Which members are alike: given the same input, they will do the same. The explorer, which runs
//! all schedules of a small group, compares members so.

use core::hash::{Hash, Hasher};

use super::Rmp;

/// Members with the same settings whose output was drained, and which are alike, hash alike. What
/// they have counted or only tell does not tell them apart: nothing that they do follows from it.
impl Hash for Rmp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            config: _,
            local,
            rng,
            state: phase,
            timers,
            peers,
            probes,
            claims,
            polls_told,
            answered,
            pollers,
            brittle,
            absences,
            refused: _,
            askers,
            namesakes,
            leaving,
            flow,
            timing,
            queue,
            unordered,
            outbox: _,
            events: _,
            transitions: _,
            works_since: _,
            passes: _,
            counters: _,
        } = self;
        (local, rng, phase, timers, peers, probes, claims).hash(state);
        (
            polls_told, answered, pollers, brittle, absences, askers, namesakes, leaving, flow,
            timing, queue, unordered,
        )
            .hash(state);
    }
}
