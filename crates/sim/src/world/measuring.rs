//! How a world reports its datagrams to a meter, if it has one.

use std::time::Duration;

use groupcast_core::trace::Inspect;
use groupcast_core::{Instrumented, SocketClass};

use super::World;
use crate::host::config::KindPrice;
use crate::host::{Datagram, Received};
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
    /// What a host pays for the kinds of these datagrams, which it receives.
    pub(super) fn kinds_received(&self, at: usize, datagrams: &[Received]) -> Duration {
        let (prices, measuring) = (&self.hosts[at].config.kinds, &self.measuring);
        let Some(measuring) = measuring.as_ref().filter(|_| !prices.is_empty()) else {
            return Duration::ZERO;
        };
        let datagrams = datagrams.iter().map(|received| &received.datagram);
        let protocols = datagrams.filter(|datagram| !is_admission(&datagram.bytes));
        let kinds = protocols.map(|datagram| measuring.read(datagram).inspected.kind);
        kinds.map(|kind| price(prices, kind, |it| it.receive)).sum()
    }

    /// What a host pays for the kinds of these datagrams, which it sends.
    pub(super) fn kinds_sent<'a>(
        &self,
        from: usize,
        class: SocketClass,
        datagrams: impl Iterator<Item = &'a [u8]>,
    ) -> Duration {
        let (prices, measuring) = (&self.hosts[from].config.kinds, &self.measuring);
        let Some(measuring) = measuring.as_ref().filter(|_| !prices.is_empty()) else {
            return Duration::ZERO;
        };
        let protocols = datagrams.filter(|bytes| !is_admission(bytes));
        let kinds =
            protocols.map(|bytes| (measuring.inspect)(class, body_of(bytes), &mut |_| {}).kind);
        kinds.map(|kind| price(prices, kind, |it| it.send)).sum()
    }

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

/// What `of` says of a kind.
fn price(prices: &[KindPrice], kind: &str, of: fn(&KindPrice) -> Duration) -> Duration {
    let named = prices.iter().filter(|price| price.kind == kind);
    named.map(of).sum()
}
