//! Whom an endpoint knows, by whatever they said: who is there, so that a sender need not guess it from the answers to a
//! single announcement.

use alloc::collections::BTreeMap;
use core::time::Duration;

use groupcast_core::{MemberId, NodeId, Time};

/// The other members that were heard, and are not known to be gone.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Each node's last life, and when it was last heard.
    known: BTreeMap<NodeId, (MemberId, Time)>,
    /// Whether anybody was ever heard.
    met: bool,
    /// When this endpoint first had something to send.
    began: Option<Time>,
}

impl Others {
    /// This endpoint has something to send.
    pub(super) fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// `from` was heard. At most `max` are known: those silent for `vanish_after` make room.
    pub(super) fn hear(&mut self, now: Time, from: MemberId, max: usize, vanish_after: Duration) {
        self.met = true;
        if self.known.len() >= max && !self.known.contains_key(&from.node) {
            self.known
                .retain(|_, (_, heard)| now - *heard < vanish_after);
        }
        if self.known.len() < max || self.known.contains_key(&from.node) {
            self.known.insert(from.node, (from, now));
        }
    }

    /// Who is known.
    pub(super) fn known(&self) -> impl Iterator<Item = &MemberId> {
        self.known.values().map(|(member, _)| member)
    }

    /// Those who were not heard from `since` on were asked then, and are gone.
    pub(super) fn forget_silent(&mut self, since: Time) {
        self.known.retain(|_, (_, heard)| *heard >= since);
    }

    /// Until when to wait for somebody to be there: for `register_within` since there was something to send, unless others
    /// were there before.
    pub(super) fn lonely_until(&self, register_within: Duration) -> Option<Time> {
        let began = self.began.filter(|_| !self.met)?;
        Some(began + register_within)
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(1);

    fn member(node: u64, life: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(life),
        }
    }

    #[test]
    fn a_node_is_known_by_its_last_life_until_it_does_not_answer() {
        let mut others = Others::default();
        others.hear(Time::from_millis(1), member(1, 5), 4, SILENCE);
        others.hear(Time::from_millis(2), member(1, 6), 4, SILENCE);
        others.hear(Time::from_millis(9), member(2, 7), 4, SILENCE);
        assert!(others.known().eq(&[member(1, 6), member(2, 7)]));
        others.forget_silent(Time::from_millis(9));
        assert!(others.known().eq(&[member(2, 7)]));
    }

    #[test]
    fn those_that_are_silent_make_room_and_no_others_do() {
        let mut others = Others::default();
        others.hear(Time::from_millis(1), member(1, 1), 2, SILENCE);
        others.hear(Time::from_millis(900), member(2, 1), 2, SILENCE);
        others.hear(Time::from_millis(950), member(3, 1), 2, SILENCE);
        assert!(others.known().eq(&[member(1, 1), member(2, 1)]));
        others.hear(Time::from_millis(1001), member(3, 1), 2, SILENCE);
        assert!(others.known().eq(&[member(2, 1), member(3, 1)]));
    }

    #[test]
    fn nobody_is_waited_for_alone_once_others_were_met() {
        let mut others = Others::default();
        others.begin(Time::from_millis(3));
        others.begin(Time::from_millis(8));
        assert_eq!(others.lonely_until(SILENCE), Some(Time::from_millis(1003)));
        others.hear(Time::from_millis(9), member(1, 1), 2, SILENCE);
        assert_eq!(others.lonely_until(SILENCE), None);
    }
}
