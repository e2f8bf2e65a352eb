//! Daemons of the cluster whose order is another protocol than this daemon's: they form another
//! group, on the same address.
//!
//! Each protocol that orders messages has a channel. Datagrams on the channels of protocols that
//! this daemon does not run come here: their senders and times are noted for the log and for
//! `status`, and nothing else happens.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::family::OrderFamily;
use groupcast_core::{MemberId, Protocol, Time, Transmit, TransmitBuf};

use crate::instance::CarrierEvent;

/// A daemon counts as present for this long after it was heard: every daemon sends something each
/// second.
const LATELY: Duration = Duration::from_secs(60);
/// The most daemons that are remembered.
const HEARD_MAX: usize = 128;

/// The daemons that speak one other protocol.
pub(crate) struct Others {
    family: &'static OrderFamily,
    /// When each daemon was last heard.
    heard: BTreeMap<MemberId, Time>,
}

impl Others {
    /// No daemon was heard yet.
    pub(crate) fn new(family: &'static OrderFamily) -> Self {
        Self {
            family,
            heard: BTreeMap::new(),
        }
    }

    /// The protocol that these daemons speak.
    pub(crate) fn protocol(&self) -> &'static str {
        self.family.name()
    }

    /// The daemons that were heard within the last minute, and when.
    pub(crate) fn heard(&self, now: Time) -> impl Iterator<Item = (MemberId, Time)> {
        let all = self.heard.iter().map(|(member, at)| (*member, *at));
        all.filter(move |(_, at)| now - *at < LATELY)
    }
}

impl Protocol for Others {
    type Event = CarrierEvent;

    fn handle_datagram(&mut self, now: Time, from: MemberId, _body: Bytes) {
        self.heard.insert(from, now);
        if self.heard.len() > HEARD_MAX {
            let oldest = self.heard.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(member, _)| *member) {
                self.heard.remove(&oldest);
            }
        }
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, _buf: &mut TransmitBuf) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self) -> Option<CarrierEvent> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};
    use groupcast_protocols::registry::ORDERED;

    use super::*;

    fn hear(others: &mut Others, number: u64, now: Time) {
        let member = MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number),
        };
        others.handle_datagram(now, member, Bytes::new());
    }

    #[test]
    fn who_is_silent_for_a_minute_is_not_there() {
        let mut others = Others::new(ORDERED[0]);
        hear(&mut others, 1, Time::ZERO);
        hear(&mut others, 2, Time::ZERO + LATELY / 2);
        assert_eq!(others.heard(Time::ZERO + LATELY / 2).count(), 2);
        assert_eq!(others.heard(Time::ZERO + LATELY).count(), 1);
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut others = Others::new(ORDERED[0]);
        for number in 0..10_000 {
            hear(&mut others, number, Time::from_millis(number));
        }
        let now = Time::from_millis(10_000);
        assert_eq!(others.heard(now).count(), HEARD_MAX);
        assert!(
            others
                .heard(now)
                .all(|(member, _)| member.node.0 >= 10_000 - 128)
        );
    }
}
