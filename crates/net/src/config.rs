//! Configuration of an endpoint.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use groupcast_core::node::{AdmissionConfig, Reach};

use crate::error::NetError;

/// How the group is reached from this host. Members of both kinds can be in one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Group {
    /// By IP multicast to this address and port, the same at every member that has multicast; and
    /// by a unicast copy to each that has none, as it says when it is admitted.
    Multicast(SocketAddrV4),
    /// By a unicast copy to each of these peers (their listen addresses), and to every peer that
    /// makes itself known: this host has no multicast. The own address may be among them: one list
    /// can serve all.
    Mesh(Vec<SocketAddrV4>),
}

/// How long to poll the sockets before the thread goes to sleep. Waking it costs some 40 µs;
/// polling costs a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spin {
    /// Never: the thread sleeps at every wait.
    Off,
    /// While traffic was seen in the last 100 µs, if this process may use more than four cores. The
    /// default.
    #[default]
    Auto,
    /// For up to this long at every wait. Longer than the idle wait: a core is always busy.
    For(Duration),
}

/// Configuration of an endpoint. Start from [`EndpointConfig::multicast`] or
/// [`EndpointConfig::mesh`].
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The address of the control socket. Its IP is one of this host's and chooses the interface;
    /// the address is what peers answer to, and every datagram leaves from it. A mesh member
    /// receives data at the next port.
    pub listen: SocketAddrV4,
    /// How the group is reached.
    pub group: Group,
    /// How many routers a multicast may pass, plus one. Default 1: it stays on the link. At least
    /// 1.
    pub multicast_ttl: u8,
    /// The class of service that every datagram asks for (DSCP, RFC 2474), 0 to 63. Default 0:
    /// none. Networks that know nothing of it ignore it.
    pub dscp: u8,
    /// Whether multicasts also reach other members on this host. Default `None`: if the listen
    /// address is a loopback one. Set it where several members share a host's real address; each
    /// then also hears itself.
    pub multicast_loop: Option<bool>,
    /// With multicast: members that have none, and that need not know this one. It invites them
    /// with a small datagram to these addresses, and they get copies once they have proved that
    /// they are there. Default: none.
    pub invited: Vec<SocketAddrV4>,
    /// The most members without multicast that get copies from a member that has it; a further one
    /// is not admitted. Default 16.
    pub copies_max: usize,
    /// Bytes of receive buffer to ask the kernel for, for data. Default 8 MiB. Too small: datagrams
    /// are lost whenever the process is not scheduled for a while; see
    /// [`BufferReport`](crate::BufferReport).
    pub receive_buffer: usize,
    /// Bytes of send buffer to ask for. Default 512 KiB: below a common device queue (1,000
    /// packets), so that a busy link slows this member down instead of dropping its datagrams.
    pub send_buffer: usize,
    /// Whether to use segmentation offload on sending and coalescing on receipt. Default true; it
    /// falls back by itself where the kernel or the device refuses.
    pub offload: bool,
    /// Whether the kernel is to say when each datagram came: for protocols that tell what waits in
    /// a host from what the network delays. Costs some time a datagram, at other sockets of the
    /// host, too. Default false.
    pub stamps: bool,
    /// The most datagrams in one send, 1 to 64. Default 48; 16 give most of the gain.
    pub segments_max: usize,
    /// About how many datagrams to take in one turn before the caller gets its turn. Default 512.
    /// Too large: clients wait while the network is busy.
    pub receive_max: usize,
    /// How long a batch waits for room in the send buffer before it is dropped (and recovered by
    /// the protocol like any other loss). Default 50 ms.
    pub send_patience: Duration,
    /// When to poll instead of sleeping.
    pub spin: Spin,
}

impl EndpointConfig {
    /// The defaults, with IP multicast to `group`.
    pub fn multicast(listen: SocketAddrV4, group: SocketAddrV4) -> Self {
        Self::new(listen, Group::Multicast(group))
    }

    /// The defaults, on a host without multicast: a unicast copy to each of `peers`.
    pub fn mesh(listen: SocketAddrV4, peers: Vec<SocketAddrV4>) -> Self {
        Self::new(listen, Group::Mesh(peers))
    }

    fn new(listen: SocketAddrV4, group: Group) -> Self {
        Self {
            listen,
            group,
            multicast_ttl: 1,
            dscp: 0,
            multicast_loop: None,
            invited: Vec::new(),
            copies_max: AdmissionConfig::default().copies_max,
            receive_buffer: 8 << 20,
            send_buffer: 512 << 10,
            offload: true,
            stamps: false,
            segments_max: 48,
            receive_max: 512,
            send_patience: Duration::from_millis(50),
            spin: Spin::default(),
        }
    }

    /// What the node's configuration must say of the same group.
    pub fn reach(&self) -> Reach {
        match &self.group {
            Group::Multicast(_) => Reach::Multicast,
            Group::Mesh(peers) => Reach::Mesh(
                peers
                    .iter()
                    .filter(|peer| **peer != self.listen)
                    .map(|peer| SocketAddr::V4(*peer))
                    .collect(),
            ),
        }
    }

    pub(crate) fn loops(&self) -> bool {
        self.multicast_loop
            .unwrap_or_else(|| self.listen.ip().is_loopback())
    }

    pub(crate) fn check(&self) -> Result<(), NetError> {
        let wrong = |what: String| Err(NetError::Config { what });
        let listen = self.listen;
        if listen.ip().is_unspecified() || listen.ip().is_multicast() || listen.ip().is_broadcast()
        {
            return wrong(format!(
                "cannot listen on {}: name one address of this host (it also chooses the network interface)",
                listen.ip()
            ));
        }
        if listen.port() == 0 {
            return wrong(format!(
                "cannot listen on {listen}: name a port, the peers must know it"
            ));
        }
        match &self.group {
            Group::Multicast(group) if !group.ip().is_multicast() => {
                return wrong(format!(
                    "{} is not a multicast address: choose one in 239.0.0.0/8",
                    group.ip()
                ));
            }
            Group::Multicast(group) if is_for_routing(*group.ip()) => {
                return wrong(format!(
                    "{} is of 224.0.0.0/24, which is for the protocols of routers and hosts: choose an address in \
                     239.0.0.0/8",
                    group.ip()
                ));
            }
            Group::Multicast(group) if group.port() == 0 => {
                return wrong(format!("the multicast address {group} needs a port"));
            }
            Group::Mesh(_) if listen.port() == u16::MAX => {
                return wrong(format!(
                    "cannot listen on {listen}: data is received at the next port, and there is none"
                ));
            }
            Group::Mesh(peers) => {
                if let Some(peer) = peers.iter().find(|peer| !is_peer(**peer)) {
                    return wrong(format!(
                        "{peer} cannot be a peer: name the address and port that the other daemon listens on"
                    ));
                }
            }
            Group::Multicast(_) => {}
        }
        if let Some(peer) = self.invited.iter().find(|peer| !is_peer(**peer)) {
            return wrong(format!(
                "{peer} cannot get copies: name the address and port that a host without multicast listens on"
            ));
        }
        if self.multicast_ttl == 0 {
            return wrong(
                "a multicast TTL of 0 reaches nobody: 1 stays on the link, more passes routers"
                    .into(),
            );
        }
        if self.dscp > 63 {
            return wrong(format!(
                "a DSCP of {} is not possible: choose 0 to 63",
                self.dscp
            ));
        }
        if !(1..=64).contains(&self.segments_max) {
            return wrong(format!(
                "{} segments in a send are not possible: choose 1 to 64",
                self.segments_max
            ));
        }
        if self.receive_max == 0 {
            return wrong("at least one datagram must be taken in a turn".into());
        }
        Ok(())
    }
}

/// Whether the address is one of those that the network's own protocols use (RFC 5771, section 4):
/// all hosts are in 224.0.0.1, no router passes on any of them, and switches send them everywhere.
pub fn is_for_routing(ip: Ipv4Addr) -> bool {
    ip.octets().starts_with(&[224, 0, 0])
}

/// Whether a mesh peer can have this address: its data port is the next one.
fn is_peer(address: SocketAddrV4) -> bool {
    let ip = address.ip();
    !ip.is_unspecified()
        && !ip.is_multicast()
        && !ip.is_broadcast()
        && !matches!(address.port(), 0 | u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    #[test]
    fn contradictions_are_refused_with_a_remedy() {
        let good = EndpointConfig::multicast(address("10.79.0.1:4803"), address("239.79.0.1:4803"));
        assert!(good.check().is_ok());
        for (listen, group, what) in [
            ("0.0.0.0:4803", "239.79.0.1:4803", "name one address"),
            ("10.79.0.1:0", "239.79.0.1:4803", "name a port"),
            ("10.79.0.1:4803", "10.79.0.2:4803", "239.0.0.0/8"),
            ("10.79.0.1:4803", "239.79.0.1:0", "needs a port"),
            ("10.79.0.1:4803", "224.0.0.1:4803", "224.0.0.0/24"),
        ] {
            let config = EndpointConfig::multicast(address(listen), address(group));
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        for (listen, peer, what) in [
            ("10.79.0.1:65535", "10.79.0.2:4803", "next port"),
            ("10.79.0.1:4803", "239.79.0.1:4803", "cannot be a peer"),
        ] {
            let config = EndpointConfig::mesh(address(listen), vec![address(peer)]);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let mut config = good.clone();
        config.segments_max = 65;
        assert!(config.check().is_err());
        config = good;
        config.multicast_ttl = 0;
        assert!(config.check().is_err());
    }

    #[test]
    fn the_own_address_is_no_peer() {
        let (own, other) = (address("10.79.0.1:4803"), address("10.79.0.2:4803"));
        let config = EndpointConfig::mesh(own, vec![own, other]);
        assert_eq!(config.reach(), Reach::Mesh(vec![other.into()]));
    }
}
