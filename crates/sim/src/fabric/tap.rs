//! Packets on their way into a pcap file.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use groupcast_core::Time;

use super::{Packet, Target};
use crate::host;
use crate::link::pcap::{Frame, Pcap};
use crate::topology::Vertex;

/// The address of the group, for captures: organisation-local.
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 1), 4809);
/// What every packet has left of its hops: a simulated network has no loops to end.
const HOPS_LEFT: u8 = 64;

/// A capture of one direction of a link.
pub(super) struct Tap {
    pcap: Pcap<Box<dyn Write>>,
    /// Packets that it still takes.
    left: u64,
    /// What went wrong with the writer; nothing is written after it.
    error: Option<io::Error>,
}

impl Tap {
    /// Writes into `pcap` until it has `packets_max` packets.
    pub(super) fn new(pcap: Pcap<Box<dyn Write>>, packets_max: u64) -> Self {
        Self {
            pcap,
            left: packets_max,
            error: None,
        }
    }

    /// A packet leaves at `now`.
    pub(super) fn record(&mut self, now: Time, ends: [Vertex; 2], mtu: u32, packet: &Packet) {
        if self.left == 0 || self.error.is_some() {
            return;
        }
        self.left -= 1;
        let frame = Frame {
            stations: ends.map(|vertex| vertex.0),
            from: packet.datagram.source,
            to: match packet.target {
                Target::All => SocketAddr::V4(GROUP),
                Target::Host(host) => host::address(host),
            },
            identification: packet.number as u16,
            ttl: HOPS_LEFT,
            mtu,
            fragment: packet.fragment,
            payload: &packet.datagram.bytes,
        };
        self.error = self.pcap.write(now, &frame).err();
    }

    /// Ends the file.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.pcap.finish().map(drop),
        }
    }
}
