//! The members that an endpoint knows because it has heard them, whatever they said: a sender that
//! waits for all that are there need not guess them from the answers to a single announcement.

use alloc::collections::BTreeMap;
use core::time::Duration;

use groupcast_core::{MemberId, NodeId, Time};

/// The other members that were heard, and are not known to be gone.
#[derive(Debug, Default)]
pub(super) struct KnownMembers {
    /// Each node's last incarnation, and when it was last heard.
    known: BTreeMap<NodeId, (MemberId, Time)>,
    /// Whether any other member was ever heard.
    any_heard: bool,
    /// When this endpoint first had something to send.
    began: Option<Time>,
}

impl KnownMembers {
    /// This endpoint has something to send.
    pub(super) fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// `from` was heard. At most `max` are known: those silent for `vanish_after` make room.
    pub(super) fn hear(&mut self, now: Time, from: MemberId, max: usize, vanish_after: Duration) {
        self.any_heard = true;
        if self.known.len() >= max && !self.known.contains_key(&from.node) {
            self.known
                .retain(|_, (_, heard)| now - *heard < vanish_after);
        }
        if self.known.len() < max || self.known.contains_key(&from.node) {
            self.known.insert(from.node, (from, now));
        }
    }

    /// The members that are known.
    pub(super) fn members(&self) -> impl Iterator<Item = &MemberId> {
        self.known.values().map(|(member, _)| member)
    }

    /// Forgets the members that were not heard from `since` on: they were asked then, and are gone.
    pub(super) fn forget_silent(&mut self, since: Time) {
        self.known.retain(|_, (_, heard)| *heard >= since);
    }

    /// Until when to wait for the first member to be heard: for `register_within` since there was
    /// something to send. `None` if one was heard before.
    pub(super) fn wait_for_first(&self, register_within: Duration) -> Option<Time> {
        let began = self.began.filter(|_| !self.any_heard)?;
        Some(began + register_within)
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(1);

    fn member(node: u64, incarnation: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        }
    }

    #[test]
    fn a_node_is_known_by_its_last_incarnation_until_it_does_not_answer() {
        let mut known = KnownMembers::default();
        known.hear(Time::from_millis(1), member(1, 5), 4, SILENCE);
        known.hear(Time::from_millis(2), member(1, 6), 4, SILENCE);
        known.hear(Time::from_millis(9), member(2, 7), 4, SILENCE);
        assert!(known.members().eq(&[member(1, 6), member(2, 7)]));
        known.forget_silent(Time::from_millis(9));
        assert!(known.members().eq(&[member(2, 7)]));
    }

    #[test]
    fn those_that_are_silent_make_room_and_no_others_do() {
        let mut known = KnownMembers::default();
        known.hear(Time::from_millis(1), member(1, 1), 2, SILENCE);
        known.hear(Time::from_millis(900), member(2, 1), 2, SILENCE);
        known.hear(Time::from_millis(950), member(3, 1), 2, SILENCE);
        assert!(known.members().eq(&[member(1, 1), member(2, 1)]));
        known.hear(Time::from_millis(1001), member(3, 1), 2, SILENCE);
        assert!(known.members().eq(&[member(2, 1), member(3, 1)]));
    }

    #[test]
    fn nobody_is_waited_for_alone_once_others_were_met() {
        let mut known = KnownMembers::default();
        known.begin(Time::from_millis(3));
        known.begin(Time::from_millis(8));
        assert_eq!(known.wait_for_first(SILENCE), Some(Time::from_millis(1003)));
        known.hear(Time::from_millis(9), member(1, 1), 2, SILENCE);
        assert_eq!(known.wait_for_first(SILENCE), None);
    }
}
