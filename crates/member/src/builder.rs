//! The settings with which a member is opened.

use std::net::{Ipv4Addr, SocketAddrV4};

use groupcast_core::Rng;
use groupcast_core::family::{OrderConfig, OrderFamily, OrderLimits};
use groupcast_core::trace::Observer;
use groupcast_net::{
    Endpoint, EndpointConfig, KeyError, NetError, Sealing, default_interface, new_member,
    random_u64,
};
use groupcast_protocols::ring::{self, ConfigError, RingConfig};
use groupcast_protocols::rmp::{self, RmpConfig};

use crate::member::Member;

/// Why a member cannot join. Nothing is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The member has no name.
    #[error("a member needs a name that no other member has, and this one is empty")]
    NoName,
    /// The sockets cannot be opened.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The operating system gives no random bytes.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The settings of the protocol contradict each other.
    #[error("the setting {0}")]
    Ring(#[from] ConfigError),
}

/// Opens a [`Member`]; made by [`Member::builder`].
#[must_use = "nothing is open before `join`"]
pub struct MemberBuilder {
    name: String,
    network: EndpointConfig,
    free_port: bool,
    sealing: Sealing,
    order: &'static OrderFamily,
    config: Box<dyn OrderConfig>,
    observer: Option<Box<dyn Observer>>,
}

impl MemberBuilder {
    pub(crate) fn new(name: &str, group: SocketAddrV4, sealing: Sealing) -> Self {
        let listen = SocketAddrV4::new(default_interface(), 0);
        Self {
            name: name.into(),
            network: EndpointConfig::multicast(listen, group),
            free_port: true,
            sealing,
            order: &ring::ORDER,
            config: Box::new(RingConfig::lan()),
            observer: None,
        }
    }

    /// The address of the interface that the others are reached by. Default: the interface by which
    /// multicasts leave this host. With 127.0.0.1 everything stays on this host.
    pub fn interface(mut self, interface: Ipv4Addr) -> Self {
        self.network.listen = SocketAddrV4::new(interface, self.network.listen.port());
        self
    }

    /// The whole configuration of the network: a fixed port to listen on, a mesh of peers instead
    /// of multicast, buffers. Default: multicast to the group, from a free port.
    pub fn network(mut self, network: EndpointConfig) -> Self {
        self.network = network;
        self.free_port = false;
        self
    }

    /// The ring orders the messages, with these settings. Default: [`RingConfig::lan`]. All members
    /// should have the same settings.
    pub fn ring(mut self, ring: RingConfig) -> Self {
        self.order = &ring::ORDER;
        self.config = Box::new(ring);
        self
    }

    /// RMP orders the messages instead of the ring, with these settings. All members must use it:
    /// members with another protocol form another group, which does not hear this one.
    pub fn rmp(mut self, rmp: RmpConfig) -> Self {
        self.order = &rmp::ORDER;
        self.config = Box::new(rmp);
        self
    }

    /// The observer of everything that the member submits, delivers and installs, for instance a
    /// history. Default: none.
    pub fn observer(mut self, observer: Box<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Opens the sockets and begins to look for the others. The first event is the configuration of
    /// this member alone; configurations with the others that it finds follow.
    ///
    /// Packets are made no larger than the interface takes in one piece.
    ///
    /// # Errors
    /// If the name is empty, the group's address is none for groups, sockets cannot be opened, or
    /// settings contradict each other; nothing is left open then.
    pub fn join(self) -> Result<Member, JoinError> {
        if self.name.is_empty() {
            return Err(JoinError::NoName);
        }
        let local = new_member(&self.name)?;
        let rng = Rng::new(random_u64()?);
        let mut builder =
            Endpoint::builder(self.network, local, self.sealing).rng(rng.fork("node"));
        if self.free_port {
            builder = builder.free_port();
        }
        if let Some(observer) = self.observer {
            builder = builder.observer(observer);
        }
        let mut endpoint = builder.open()?;
        let (order, mut config) = (self.order, self.config);
        let limits = config.limits();
        let fitting = endpoint.body_max().unwrap_or(usize::MAX);
        config.set_limits(OrderLimits {
            body_max: limits.body_max.min(fitting),
            ..limits
        });
        let make = config.members()?.factory(1);
        let member = make(local, rng.fork(order.name()), endpoint.now());
        endpoint.node_mut().open(order.channel, member);
        Ok(Member::new(self.name, endpoint, order)?)
    }
}
