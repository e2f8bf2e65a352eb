//! How a world reports its datagrams to a meter, if it has one.

use groupcast_core::Instrumented;
use groupcast_core::trace::Inspect;

use super::World;
use crate::host::Datagram;
use crate::measure::{Meter, Reading};
use crate::network::{body_of, is_admission};

/// The meter of a world, and how it reads the protocol's datagrams.
pub(crate) struct Measuring {
    pub(crate) inspect: Inspect,
    pub(crate) meter: Meter,
}

impl Measuring {
    /// What `datagram` is. It is read once, however many receive it: what a receiver accepts is
    /// what was sent.
    fn read<'a>(&self, datagram: &'a Datagram) -> &'a Reading {
        datagram
            .reading
            .get_or_init(|| Reading::of(self.inspect, datagram.class, body_of(&datagram.bytes)))
    }
}

impl<P: Instrumented> World<P> {
    /// A host sends a datagram.
    pub(super) fn measure_sent(&mut self, datagram: &Datagram) {
        let now = self.agenda.now();
        let Some(measuring) = &mut self.measuring else {
            return;
        };
        if !is_admission(&datagram.bytes) {
            let inspected = measuring.read(datagram).inspected;
            let len = datagram.bytes.len();
            measuring.meter.sent(now, datagram.from, inspected, len);
        }
    }

    /// A process handles a datagram.
    pub(super) fn measure_received(&mut self, at: usize, datagram: &Datagram) {
        let now = self.agenda.now();
        let Some(measuring) = &mut self.measuring else {
            return;
        };
        if !is_admission(&datagram.bytes) {
            let Reading { inspected, stamps } = measuring.read(datagram);
            for stamp in stamps {
                measuring.meter.saw(now, at, *stamp);
            }
            let len = datagram.bytes.len();
            measuring.meter.received(now, at, *inspected, len);
        }
    }
}
