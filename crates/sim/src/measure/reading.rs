//! What a meter reads in a datagram: what it is, and which measured messages are whole in it.

use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspect, Inspected};

use super::Stamp;

/// A datagram, read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) inspected: Inspected,
    /// Of the messages that are whole in it, as far as they carry any.
    pub(crate) stamps: Vec<Stamp>,
}

impl Reading {
    /// Reads the protocol's bytes of a datagram.
    pub(crate) fn of(inspect: Inspect, class: SocketClass, body: &[u8]) -> Self {
        let mut stamps = Vec::new();
        let inspected = inspect(class, body, &mut |payload| {
            stamps.extend(Stamp::read(payload));
        });
        Self { inspected, stamps }
    }
}
