//! Opening an endpoint: the one way in which a member gets its sockets, its seal and its node.
//!
//! What every host of a protocol needs is required ([`Endpoint::builder`]): the network, who the
//! member is, and how its datagrams are sealed. What few hosts choose has a default: the bounds of
//! admission, the source of randomness, an observer, the port. The protocols are the caller's: it
//! opens their channels once the endpoint says what a datagram may hold ([`Endpoint::body_max`]).

use std::marker::PhantomData;
use std::net::{SocketAddrV4, UdpSocket};

use groupcast_core::node::{AdmissionConfig, NodeConfig};
use groupcast_core::seal::Sealer;
use groupcast_core::trace::Observer;
use groupcast_core::{Incarnation, MemberId, Node, NodeId, Protocol, Rng};

use crate::clock::Clock;
use crate::config::EndpointConfig;
use crate::endpoint::Endpoint;
use crate::error::NetError;
use crate::key::{Key, KeyError, random_u64};
use crate::seal::{AesGcmSealer, InsecureSealer, Purpose};

/// How the datagrams of a member are sealed.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// With AES-GCM under the cluster's key.
    Key(Key),
    /// Not at all: every host on the network can read and forge everything.
    Insecure,
}

impl Sealing {
    fn sealer(&self, purpose: Purpose, incarnation: Incarnation) -> Box<dyn Sealer> {
        match self {
            Self::Key(key) => Box::new(AesGcmSealer::new(key, purpose, incarnation)),
            Self::Insecure => Box::new(InsecureSealer),
        }
    }
}

/// A member called `name` that has never been before: its incarnation is random.
///
/// # Errors
/// [`KeyError::Entropy`] if the system has no randomness to give.
pub fn new_member(name: &str) -> Result<MemberId, KeyError> {
    Ok(MemberId {
        node: NodeId::from_name(name),
        incarnation: Incarnation(random_u64()?),
    })
}

/// Opens an [`Endpoint`] for protocols of type `P`; made by [`Endpoint::builder`].
#[must_use = "nothing is open before `open`"]
pub struct EndpointBuilder<P> {
    config: EndpointConfig,
    local: MemberId,
    sealing: Sealing,
    purpose: Purpose,
    admission: AdmissionConfig,
    rng: Option<Rng>,
    observer: Option<Box<dyn Observer>>,
    free_port: bool,
    clock: Option<Clock>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> EndpointBuilder<P> {
    /// Ports that [`free_port`](Self::free_port) tries: another process may take one just before.
    const ATTEMPTS: usize = 8;

    pub(crate) fn new(config: EndpointConfig, local: MemberId, sealing: Sealing) -> Self {
        Self {
            config,
            local,
            sealing,
            purpose: Purpose::default(),
            admission: AdmissionConfig::default(),
            rng: None,
            observer: None,
            free_port: false,
            clock: None,
            protocol: PhantomData,
        }
    }

    /// What the key is used for: members with another purpose are another cluster. Default
    /// [`Purpose::Group`].
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }

    /// The bounds of admission; how many get copies says [`EndpointConfig::copies_max`] instead.
    /// Default: those of [`AdmissionConfig::default`], enough for 256 peers.
    pub fn admission(mut self, admission: AdmissionConfig) -> Self {
        self.admission = admission;
        self
    }

    /// What the challenges to unknown peers are drawn from. Default: a generator seeded by the
    /// operating system. Others must not be able to guess it.
    pub fn rng(mut self, rng: Rng) -> Self {
        self.rng = Some(rng);
        self
    }

    /// Sees what happens at the member, beginning with its start. Default: no observer, and no
    /// payload is hashed.
    pub fn observer(mut self, observer: Box<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Listens on a port that is free, whatever the configuration names. For members that others
    /// need not find by their port: peers learn it from the member's datagrams.
    pub fn free_port(mut self) -> Self {
        self.free_port = true;
        self
    }

    /// Its time is that of `clock`: that of another endpoint, if what one is told is said to the
    /// other. Default: a clock that starts now.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Opens the sockets. Nothing is sent, and no channel is open yet.
    ///
    /// # Errors
    /// What was wrong with the configuration or the network, and what to do; nothing is left open
    /// then.
    pub fn open(mut self) -> Result<Endpoint<P>, NetError> {
        let rng = match self.rng.take() {
            Some(rng) => rng,
            None => Rng::new(random_u64()?),
        };
        let mut attempt = 1;
        loop {
            if self.free_port {
                self.config.listen = with_free_port(self.config.listen);
            }
            match Endpoint::open(self.config.clone(), self.node(&rng)) {
                Err(NetError::InUse { .. }) if self.free_port && attempt < Self::ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
                Ok(mut endpoint) => {
                    if let Some(clock) = self.clock {
                        endpoint.set_clock(clock);
                    }
                    if let Some(observer) = self.observer {
                        endpoint.node_mut().observe_with(observer);
                    }
                    return Ok(endpoint);
                }
            }
        }
    }

    fn node(&self, rng: &Rng) -> Node<P> {
        let config = NodeConfig {
            local: self.local,
            reach: self.config.reach(),
            invited: self.config.invited.iter().map(|it| (*it).into()).collect(),
            admission: AdmissionConfig {
                copies_max: self.config.copies_max,
                ..self.admission
            },
        };
        Node::new(
            config,
            self.sealing.sealer(self.purpose, self.local.incarnation),
            rng,
        )
    }
}

/// `listen` with a port that no socket of this host uses now.
pub(crate) fn with_free_port(listen: SocketAddrV4) -> SocketAddrV4 {
    let probe = UdpSocket::bind((*listen.ip(), 0)).and_then(|probe| probe.local_addr());
    // Why an address cannot be bound is explained when the endpoint is opened.
    let port = probe.map_or(u16::MAX, |address| address.port());
    SocketAddrV4::new(*listen.ip(), port)
}
