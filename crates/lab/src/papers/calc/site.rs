//! The networks of 000 Fig. 16, built as topologies: shared media, routers and links whose price is
//! their delay.
//!
//! Crossing a medium (an Ethernet, an FDDI ring) is paid on the way into it; leaving it is free, as
//! all stations hear what one sends. So one transmission on a medium is paid once, however many
//! listen.

use std::time::Duration;

use groupcast_sim::link::{BusSpec, LinkSpec};
use groupcast_sim::topology::{Kind, MulticastTree, Routes, Topology, Vertex};

/// A network with a source and the members that it sends to.
pub(super) struct Site {
    topology: Topology,
    source: Vertex,
    members: Vec<Vertex>,
}

/// What the source's packet costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cost {
    /// A copy to each member.
    pub(super) unicast: u64,
    /// One multicast along shortest paths.
    pub(super) multicast: u64,
}

/// How media are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joined {
    /// Each with each, by links of this price.
    Fully(u64),
    /// By a router in the middle, with links of this price to it.
    Centrally(u64),
}

/// Where the source of a network of sites is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// On an Ethernet of its own, in the first site.
    OwnEthernet,
    /// On the Ethernet of the first member.
    WithMember,
}

impl Site {
    /// `members` on `ethernets`, equally many on each, the source on the first.
    pub(super) fn of_ethernets(ethernets: usize, members: usize, joined: Joined) -> Self {
        let mut topology = Topology::new();
        let media: Vec<Vertex> = (0..ethernets).map(|_| medium(&mut topology)).collect();
        join(&mut topology, &media, joined);
        let source = station(&mut topology, &[media[0]]);
        let members = (0..members)
            .map(|member| station(&mut topology, &[media[member * ethernets / members]]))
            .collect();
        Self {
            topology,
            source,
            members,
        }
    }

    /// `members` in `sites`, equally many in each: a site is an FDDI ring with one Ethernet a
    /// member around it.
    pub(super) fn of_sites(sites: usize, members: usize, joined: Joined, source: Source) -> Self {
        let mut topology = Topology::new();
        let rings: Vec<Vertex> = (0..sites).map(|_| medium(&mut topology)).collect();
        join(&mut topology, &rings, joined);
        let ethernets: Vec<Vertex> = (0..members)
            .map(|member| ethernet_on(&mut topology, rings[member * sites / members]))
            .collect();
        let source = match source {
            Source::OwnEthernet => {
                let own = ethernet_on(&mut topology, rings[0]);
                station(&mut topology, &[own])
            }
            Source::WithMember => station(&mut topology, &[ethernets[0]]),
        };
        let members = ethernets
            .iter()
            .map(|ethernet| station(&mut topology, &[*ethernet]))
            .collect();
        Self {
            topology,
            source,
            members,
        }
    }

    /// What a packet to all members costs.
    pub(super) fn cost(&self) -> Cost {
        let mut routes = Routes::new();
        let copies = routes.copies(&self.topology, self.source, &self.members);
        let tree = MulticastTree::source(&self.topology, &mut routes, self.source, &self.members);
        let flow = tree.flow(&self.topology, &mut routes, self.source);
        let price = |topology: &Topology, way| topology.spec(way).delay.as_millis() as u64;
        Cost {
            unicast: self.topology.cost(copies, price),
            multicast: self.topology.cost(flow, price),
        }
    }
}

/// A link that costs `price`; routes are shortest by delay, so they are cheapest.
fn link(price: u64) -> LinkSpec {
    LinkSpec::ideal(0, Duration::from_millis(price))
}

fn medium(topology: &mut Topology) -> Vertex {
    topology.add(Kind::Bus(BusSpec {
        propagation: Duration::ZERO,
        ..BusSpec::default()
    }))
}

/// A host or router with taps on `media`.
fn station(topology: &mut Topology, media: &[Vertex]) -> Vertex {
    let station = topology.add(Kind::Plain);
    for medium in media {
        topology.connect_ways(station, *medium, [link(1), link(0)]);
    }
    station
}

fn ethernet_on(topology: &mut Topology, ring: Vertex) -> Vertex {
    let ethernet = medium(topology);
    station(topology, &[ethernet, ring]);
    ethernet
}

/// Gives each medium a router and joins these.
fn join(topology: &mut Topology, media: &[Vertex], joined: Joined) {
    let routers: Vec<Vertex> = media
        .iter()
        .map(|medium| station(topology, &[*medium]))
        .collect();
    match joined {
        Joined::Fully(price) => {
            for (index, router) in routers.iter().enumerate() {
                for other in &routers[index + 1..] {
                    topology.connect(*router, *other, link(price));
                }
            }
        }
        Joined::Centrally(price) => {
            let centre = topology.add(Kind::Plain);
            for router in &routers {
                topology.connect(centre, *router, link(price));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_is_paid_once_a_transmission_not_once_a_listener() {
        let cost = Site::of_ethernets(1, 5, Joined::Fully(4)).cost();
        assert_eq!(
            cost,
            Cost {
                unicast: 5,
                multicast: 1
            }
        );
    }

    #[test]
    fn a_link_is_paid_by_every_copy_and_once_by_a_multicast() {
        // Two members near (1 each), two behind a link of 10 (1 + 10 + 1 each).
        let cost = Site::of_ethernets(2, 4, Joined::Fully(10)).cost();
        assert_eq!(
            cost,
            Cost {
                unicast: 26,
                multicast: 12
            }
        );
        // Through a centre the same link is two of half its price.
        assert_eq!(Site::of_ethernets(2, 4, Joined::Centrally(5)).cost(), cost);
    }

    #[test]
    fn where_the_source_is_decides_what_near_means() {
        let own = Site::of_sites(1, 2, Joined::Fully(16), Source::OwnEthernet).cost();
        assert_eq!(
            own,
            Cost {
                unicast: 6,
                multicast: 4
            }
        );
        let with = Site::of_sites(1, 2, Joined::Fully(16), Source::WithMember).cost();
        assert_eq!(
            with,
            Cost {
                unicast: 4,
                multicast: 3
            }
        );
    }
}
