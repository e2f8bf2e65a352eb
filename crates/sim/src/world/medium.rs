//! The medium between the hosts of a world: the switch or the fabric.

use crate::fabric::Fabric;
use crate::network::Network;

/// One of two networks: both take a datagram from a host and say when which hosts have it.
pub(crate) enum Medium {
    /// One switch with a link to each host, two events a datagram and receiver: the network of
    /// tests and of the swarm, with its filters and faults.
    Switch(Box<Network>),
    /// A topology, one event a hop: the network of scenarios.
    Fabric(Box<Fabric>),
}

impl Medium {
    /// The switch.
    ///
    /// # Panics
    /// If the medium is a fabric: a `Cluster` makes its own, which is not.
    pub(crate) fn switch(&mut self) -> &mut Network {
        match self {
            Self::Switch(network) => network,
            Self::Fabric(_) => panic!("the hosts of a cluster are joined by a switch"),
        }
    }

    /// The fabric.
    ///
    /// # Panics
    /// If the medium is a switch: an `Experiment` makes its own, which is not.
    pub(crate) fn fabric(&mut self) -> &mut Fabric {
        match self {
            Self::Fabric(fabric) => fabric,
            Self::Switch(_) => panic!("the hosts of an experiment are joined by a fabric"),
        }
    }
}
