//! Packets on their way into a pcap file.

use std::fmt;
use std::io::Write;

use crate::link::pcap::Pcap;

/// A capture of one direction of a link.
pub(crate) struct Tap {
    pub(super) pcap: Pcap<Box<dyn Write>>,
    /// Packets that still fit.
    pub(super) left: u64,
}

impl Tap {
    /// Writes into `pcap` until it has `packets_max` packets.
    pub(crate) fn new(pcap: Pcap<Box<dyn Write>>, packets_max: u64) -> Self {
        Self {
            pcap,
            left: packets_max,
        }
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
