//! What a world tells a meter of its datagrams; nothing unless somebody measures.

use groupcast_core::trace::Inspect;
use groupcast_core::{Ordered, SocketClass};

use super::World;
use crate::measure::Meter;
use crate::network::{body_of, is_admission};

/// Who measures a world, and how it reads the protocol's datagrams.
pub(crate) struct Measuring {
    pub(crate) inspect: Inspect,
    pub(crate) meter: Meter,
}

impl<P: Ordered> World<P> {
    /// A host sends a datagram.
    pub(super) fn measure_sent(&mut self, from: usize, class: SocketClass, datagram: &[u8]) {
        let now = self.agenda.now();
        let Some(Measuring { inspect, meter }) = &mut self.measuring else {
            return;
        };
        if !is_admission(datagram) {
            let inspected = inspect(class, body_of(datagram), &mut |_| {});
            meter.sent(now, from, inspected, datagram.len());
        }
    }

    /// A process handles a datagram.
    pub(super) fn measure_received(&mut self, at: usize, class: SocketClass, datagram: &[u8]) {
        let now = self.agenda.now();
        let Some(Measuring { inspect, meter }) = &mut self.measuring else {
            return;
        };
        if !is_admission(datagram) {
            let inspected = inspect(class, body_of(datagram), &mut |payload| {
                meter.arrived(now, at, payload);
            });
            meter.received(now, at, inspected, datagram.len());
        }
    }
}
