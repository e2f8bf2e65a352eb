//! The network of the demo: addresses on loopback, and whether multicast works there.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use groupcast_net::{EndpointConfig, KeyError, Spin, probe_multicast, random_u64};

/// The members' addresses, and how they reach each other.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    members: Vec<SocketAddrV4>,
    group: Option<SocketAddrV4>,
}

impl Network {
    /// Ports below those that the kernel hands out by itself.
    const PORT_MIN: u16 = 20_000;
    const PORT_MAX: u16 = 32_000;
    /// How many random ports are tried before one is taken untested.
    const TRIES: usize = 64;

    /// Random addresses on loopback for `count` members; multicast if it works there.
    pub(crate) fn on_loopback(count: u8) -> Result<Self, KeyError> {
        let [a, b, c, d, ..] = random_u64()?.to_ne_bytes();
        let port = free_port(u16::from_ne_bytes([c, d]));
        // One address of 127.0.0.0/8 each, away from 127.0.0.1 where others live.
        let member = |index| Ipv4Addr::new(127, 64 + a % 64, b, index);
        let group = Ipv4Addr::new(239, 79, a, b);
        Ok(Self {
            members: (1..=count)
                .map(|index| SocketAddrV4::new(member(index), port))
                .collect(),
            group: probe_multicast(Ipv4Addr::LOCALHOST, group)
                .then(|| SocketAddrV4::new(group, port)),
        })
    }

    /// The multicast group; `None` where there is no multicast.
    pub(crate) fn group(&self) -> Option<SocketAddrV4> {
        self.group
    }

    /// The address of member `index`.
    pub(crate) fn address(&self, index: usize) -> SocketAddrV4 {
        self.members[index]
    }

    /// The endpoint of member `index`.
    pub(crate) fn endpoint(&self, index: usize) -> EndpointConfig {
        let listen = self.address(index);
        let config = match self.group {
            Some(group) => EndpointConfig::multicast(listen, group),
            None => EndpointConfig::mesh(listen, self.members.clone()),
        };
        EndpointConfig {
            // The threads of all members share the cores of this machine.
            spin: Spin::Off,
            ..config
        }
    }
}

/// A port that is free on all addresses of this machine, as is the next one (a mesh needs two).
fn free_port(start: u16) -> u16 {
    let ports = usize::from(Network::PORT_MAX - Network::PORT_MIN);
    // The stride has no factor in common with the number of ports: no port is tried twice.
    let candidate = |attempt: usize| (usize::from(start) + attempt * 1_237) % ports;
    let is_free = |port: u16| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    (0..Network::TRIES)
        .map(|attempt| Network::PORT_MIN + candidate(attempt) as u16)
        .find(|port| is_free(*port) && is_free(port + 1))
        .unwrap_or(Network::PORT_MIN + candidate(0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_an_address_each_and_share_a_group() {
        let network = Network::on_loopback(16).unwrap();
        let mut addresses: Vec<_> = (0..16).map(|index| network.address(index)).collect();
        addresses.dedup();
        assert_eq!(addresses.len(), 16);
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn a_port_in_use_is_passed_over() {
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, free_port(7))).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_ne!(free_port(7), port);
    }
}
