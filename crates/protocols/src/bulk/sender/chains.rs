//! The chains of a pass (policy `tree`, 001 section 3): who speaks for whom, and who has left its
//! place.
//!
//! A receiver that the pass does not wait for any more, since it is demoted or given up, or begins
//! anew, leaves its place in the roster empty, and all are told the roster again. The other places
//! stay, and so does every chain but for that receiver: what was acknowledged for the chain with it
//! is true of the chain without it, so no acknowledgement that is on its way claims too much.

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::context::Context;
use super::super::wire::EMPTY_PLACE;
use super::state::{Sending, Starting};
use super::{Sender, State};

impl Sender {
    /// This pass does not wait for these receivers any more: in their chains the one before each
    /// hears the one behind it from now on.
    pub(super) fn leave_chains(&mut self, context: &mut Context<'_>, receivers: &[MemberId]) {
        if !matches!(context.config.policy, Policy::Tree { .. }) {
            return;
        }
        let (State::Starting(Starting { pass, .. }) | State::Sending(Sending { pass, .. })) =
            &mut self.state
        else {
            // No acknowledgement is waited for.
            return;
        };
        let mut any = false;
        for place in pass.roster.iter_mut().filter(|it| receivers.contains(it)) {
            place.incarnation = EMPTY_PLACE;
            any = true;
        }
        if any {
            self.send_roster(context);
        }
    }
}

/// Those of a roster for whom `from` speaks in chains of this many: itself, as the first of its
/// chain, and those behind it; nobody, if it is not the first.
pub(super) fn chain_of(roster: &[MemberId], from: MemberId, height: usize) -> &[MemberId] {
    let Some(at) = roster.iter().position(|member| *member == from) else {
        return &[];
    };
    let start = at - at % height;
    let is_first = roster[start..at].iter().all(is_empty);
    let end = (start + height).min(roster.len());
    if is_first { &roster[at..end] } else { &[] }
}

/// Whether the receiver in this place has left it.
pub(super) fn is_empty(place: &MemberId) -> bool {
    place.incarnation == EMPTY_PLACE
}
