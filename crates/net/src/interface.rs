//! The interface that a host's multicasts leave by.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};

/// Any multicast address: what routes one of them routes all, as a rule.
const PROBE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 1), 4809);

/// The address from which multicasts would leave this host; 127.0.0.1 if it has no way out.
pub fn default_interface() -> Ipv4Addr {
    // Connecting a UDP socket sends nothing; it only asks the routing table.
    let routed = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect(PROBE)?;
        socket.local_addr()
    });
    match routed.map(|address| address.ip()) {
        Ok(IpAddr::V4(ip)) if !ip.is_unspecified() => ip,
        _ => Ipv4Addr::LOCALHOST,
    }
}
