//! Whether a member takes part in its group: the state machine of joining and leaving without
//! agreement.
//!
//! ```text
//!   Member --leave--> Leaving(..) --all is said--> Left
//!     |                                             ^
//!     +--leave, with nothing left to do-------------+
//! ```
//!
//! What a protocol still has to do while it leaves, and what it keeps for that, is its own: the
//! value of `Leaving`.

use alloc::collections::VecDeque;

use crate::trace::Transition;

/// Whether a member takes part. `L` is what its protocol keeps while it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Participation<L = ()> {
    /// It takes part.
    Member,
    /// It accepts no more messages, and finishes what it began.
    Leaving(L),
    /// It sends and delivers nothing more.
    Left,
}

impl<L> Participation<L> {
    /// Whether `leave` was not called yet.
    pub fn is_member(&self) -> bool {
        matches!(self, Self::Member)
    }

    /// Whether the leave is complete.
    pub fn has_left(&self) -> bool {
        matches!(self, Self::Left)
    }

    /// Goes on to `next`, and records that in `transitions`.
    ///
    /// # Panics
    /// If the diagram has no such edge: the caller's bug.
    pub fn advance(&mut self, next: Self, cause: &'static str, transitions: &mut Transitions) {
        let (from, to) = (self.name(), next.name());
        let legal = matches!(
            (&*self, &next),
            (Self::Member, Self::Leaving(_) | Self::Left)
                | (Self::Leaving(_), Self::Leaving(_) | Self::Left)
        );
        assert!(legal, "no edge from {from} to {to} ({cause})");
        transitions.record(from, to, cause);
        *self = next;
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Leaving(_) => "leaving",
            Self::Left => "left",
        }
    }
}

/// The last transitions of a state machine, until
/// [`poll_transition`](crate::Protocol::poll_transition) asks for them.
#[derive(Clone, Debug, Default)]
pub struct Transitions {
    recorded: VecDeque<Transition>,
}

impl Transitions {
    /// How many are kept for a host that does not ask; older ones are forgotten.
    pub const KEPT: usize = 64;

    /// Records a change.
    pub fn record(&mut self, from: &'static str, to: &'static str, cause: &'static str) {
        if self.recorded.len() == Self::KEPT {
            self.recorded.pop_front();
        }
        self.recorded.push_back(Transition::new(from, to, cause));
    }

    /// Takes the oldest one.
    pub fn pop(&mut self) -> Option<Transition> {
        self.recorded.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    type State = Participation<u8>;

    #[test]
    fn the_edges_of_the_diagram_are_legal_and_recorded() {
        let (mut state, mut transitions) = (State::Member, Transitions::default());
        for (next, cause) in [
            (State::Leaving(1), "leave"),
            (State::Leaving(2), "all is stable"),
            (State::Left, "good-bye"),
        ] {
            state.advance(next, cause, &mut transitions);
        }
        let recorded = core::iter::from_fn(|| transitions.pop());
        let recorded: Vec<_> = recorded.map(|it| (it.from, it.to, it.cause)).collect();
        let expected = [
            ("member", "leaving", "leave"),
            ("leaving", "leaving", "all is stable"),
            ("leaving", "left", "good-bye"),
        ];
        assert_eq!(recorded, expected);
    }

    #[test]
    #[should_panic(expected = "no edge from left to leaving (leave)")]
    fn who_has_left_does_not_leave_again() {
        let mut state = State::Left;
        state.advance(State::Leaving(0), "leave", &mut Transitions::default());
    }

    #[test]
    fn only_the_last_transitions_are_kept() {
        let mut transitions = Transitions::default();
        transitions.record("a", "b", "first");
        for _ in 0..Transitions::KEPT {
            transitions.record("b", "b", "later");
        }
        assert_eq!(transitions.pop().map(|it| it.cause), Some("later"));
        assert_eq!(
            core::iter::from_fn(|| transitions.pop()).count(),
            Transitions::KEPT - 1
        );
    }
}
