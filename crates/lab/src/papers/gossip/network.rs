//! The networks of 004 ch. 4, 6 and 7: vertices, links, where members are, and which of them a
//! figure looks at.
//!
//! What the text draws but does not print is ours and said in the conditions of a run: how wide the
//! levels of a tree of depth 4 are, where its random members stand, which queue is before a link.

use std::time::Duration;

use groupcast_core::Rng;
use groupcast_sim::link::{LinkSpec, Loss, QueueLimit};
use groupcast_sim::topology::{Kind, Topology, TransitStub, Vertex, Way, draw, generate};

use super::super::RunError;
use super::point::GossipPoint;

/// 004 6.1: every link, each way, unless it says otherwise.
const LINK_DELAY: Duration = Duration::from_millis(5);
/// 004 6.10: between the clusters.
const FAR_DELAY: Duration = Duration::from_millis(30);
/// Members of a cluster that gossip with the other one (ours).
const LINKS: usize = 8;
/// 004 6.8.2: all links but the router's.
const FAST: u64 = 10_000_000;
/// Of a switch of 004 ch. 4 (an SP2's): it is no bottleneck.
const SWITCH_DELAY: Duration = Duration::from_micros(50);

/// A network as a figure has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// A tree of depth 4, a member on every vertex, the sender at the root (004 6.3.1).
    Dense { size: u32 },
    /// A star whose centre is no member, the sender on the rim (004 6.3.2).
    Star { size: u32 },
    /// A ternary tree filled breadth first, random members, the sender at the root (004 6.4.1).
    Sparse { size: u32, members: u32 },
    /// A chain, the sender at its end (004 6.7).
    Chain { size: u32 },
    /// Two full meshes of `size` members each, joined by one long link (004 6.8.1).
    Clusters { size: u32 },
    /// A tree whose root is a slow router and no member, the sender in its left half (004 6.8.2).
    Router { size: u32 },
    /// A transit-stub network, a member on every vertex, the sender on a transit router (004
    /// 7.5.1).
    TransitStub { size: u32 },
    /// Hosts around a switch that loses what the setting says (004 4.2, 4.5).
    Switch { size: u32 },
}

impl Shape {
    /// In words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dense { .. } => "tree",
            Self::Star { .. } => "star",
            Self::Sparse { .. } => "sparse tree",
            Self::Chain { .. } => "chain",
            Self::Clusters { .. } => "clusters",
            Self::Router { .. } => "router",
            Self::TransitStub { .. } => "transit-stub",
            Self::Switch { .. } => "switch",
        }
    }

    /// What the figures have on their axis: the number of vertices, or of members where they
    /// differ.
    pub(super) fn size(self) -> u32 {
        match self {
            Self::Sparse { members, .. } => members,
            Self::Clusters { size } => 2 * size,
            Self::Dense { size }
            | Self::Star { size }
            | Self::Chain { size }
            | Self::Router { size }
            | Self::TransitStub { size }
            | Self::Switch { size } => size,
        }
    }

    /// Which members gossip with the other cluster where gossip is hierarchical (004 3.7); so many
    /// that a few digests, requests and repairs get through in a round although half of them are
    /// lost on the way.
    pub(super) fn links(self) -> impl Fn(usize) -> bool {
        let cluster = match self {
            Self::Clusters { size } => size as usize,
            other => other.size() as usize,
        };
        move |host| host % cluster.max(1) < LINKS
    }

    /// How many members there are.
    pub(super) fn members(self) -> u32 {
        match self {
            Self::Star { size } | Self::Router { size } => size.saturating_sub(1),
            other => other.size(),
        }
    }
}

/// A network with its members; hosts are named by their index.
pub(super) struct Network {
    pub(super) topology: Topology,
    /// The core of the multicast tree; 004 does not say where it is. Ours: where the sender's side
    /// joins the rest.
    pub(super) core: Vertex,
    pub(super) sender: usize,
    /// Those that a figure looks at.
    pub(super) receivers: Vec<usize>,
    /// The sender's own link, away from it; the first if it has several.
    pub(super) out: Way,
    /// What joins the two halves of the network, where that is looked at.
    pub(super) between: Option<Way>,
    /// Where neighbours are, by host: equal for those in one subtree of the root or one cluster,
    /// where that matters (004 5.3.3, 3.7).
    pub(super) zones: Vec<u32>,
}

impl Network {
    /// The network of `setting`. What is random follows from `seed`.
    pub(super) fn build(setting: &GossipPoint, seed: u64) -> Result<Self, RunError> {
        let mut rng = Rng::new(seed).fork("network of 004");
        let mut net = match setting.shape {
            Shape::Dense { size } => Ok(dense(setting, size)),
            Shape::Star { size } => star(setting, size),
            Shape::Sparse { size, members } => sparse(setting, size, members, &mut rng),
            Shape::Chain { size } => chain(setting, size),
            Shape::Clusters { size } => clusters(setting, size),
            Shape::Router { size } => Ok(router(setting, size)),
            Shape::TransitStub { size } => transit_stub(setting, size, &mut rng),
            Shape::Switch { size } => switch(setting, size),
        }?;
        if setting.open.core_far {
            let last = net.topology.vertices().len() - 1;
            net.core = Vertex(last as u32);
        }
        Ok(net)
    }

    /// The network, seen from the member at `sender`.
    fn seen_from(topology: Topology, core: Vertex, sender: Vertex, looked_at: &[Vertex]) -> Self {
        let host = |vertex: Vertex| topology.host_at(vertex);
        let (out, _) = topology
            .ways_from(sender)
            .next()
            .expect("a sender has a link");
        Self {
            core,
            sender: host(sender).expect("a member is on the sender's vertex"),
            receivers: looked_at.iter().copied().filter_map(host).collect(),
            out,
            between: None,
            zones: vec![0; topology.hosts().len()],
            topology,
        }
    }
}

/// A link of 004 ch. 6–7 that loses a share of what passes, data or control.
fn link(setting: &GossipPoint, bandwidth: u64, delay: Duration, noise: f64) -> LinkSpec {
    let loss = if noise > 0.0 {
        Loss::Rate(noise)
    } else {
        Loss::None
    };
    LinkSpec::ideal(bandwidth, delay)
        .with_queue(QueueLimit::packets(setting.open.queue))
        .with_loss(loss)
}

fn usual(setting: &GossipPoint) -> LinkSpec {
    link(setting, setting.bandwidth, LINK_DELAY, setting.noise)
}

/// Makes both directions of the link between two neighbours lose what the figure singles it out
/// for.
fn single_out(topology: &mut Topology, setting: &GossipPoint, from: Vertex, to: Vertex) {
    for (tail, head) in [(from, to), (to, from)] {
        if let Some(way) = topology.way(tail, head) {
            let delay = topology.spec(way).delay;
            let spec = link(setting, setting.bandwidth, delay, setting.noise_apart);
            *topology.spec_mut(way) = spec;
        }
    }
}

/// How wide each level of a tree of depth 4 and of `size` vertices is: each wider than the one
/// above by one factor. The first level below the root has `first` vertices if that is given.
fn widths(size: u32, first: Option<u32>) -> [u32; 5] {
    let sum = |factor: f64| -> f64 {
        let level = first.map_or(factor, f64::from);
        1.0 + level * (1.0 + factor + factor.powi(2) + factor.powi(3))
    };
    let (mut low, mut high) = (0.5f64, f64::from(size));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if sum(middle) < f64::from(size) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let second = first.map_or(low, f64::from);
    let mut widths = [1, 0, 0, 0, 0];
    for (level, width) in widths.iter_mut().enumerate().skip(1) {
        *width = (second * low.powi(level as i32 - 1)).round().max(1.0) as u32;
    }
    // The last level takes what rounding left.
    let above: u32 = widths[..4].iter().sum();
    widths[4] = size.saturating_sub(above).max(1);
    widths
}

/// A tree with levels of these widths, children spread evenly; the first vertex of each level.
fn layered(widths: &[u32; 5], link: impl Fn(usize) -> LinkSpec) -> (Topology, [Vec<Vertex>; 5]) {
    let mut topology = Topology::new();
    let levels = widths.map(|width| {
        let level: Vec<Vertex> = (0..width).map(|_| topology.add(Kind::Plain)).collect();
        level
    });
    for depth in 1..levels.len() {
        let (above, level) = (&levels[depth - 1], &levels[depth]);
        for (index, vertex) in level.iter().enumerate() {
            let parent = above[index * above.len() / level.len()];
            topology.connect(parent, *vertex, link(depth));
        }
    }
    (topology, levels)
}

fn dense(setting: &GossipPoint, size: u32) -> Network {
    let (mut topology, levels) = layered(&widths(size, None), |_| usual(setting));
    let root = levels[0][0];
    let first = levels[1][0];
    if setting.noise_apart > 0.0 {
        single_out(&mut topology, setting, root, first);
    }
    let all: Vec<Vertex> = topology.vertices().collect();
    topology.place_hosts(all);
    // The first of the last level: it is behind the link that is singled out.
    let receiver = levels[4][0];
    let mut net = Network::seen_from(topology, root, root, &[receiver]);
    net.zones = zones(&levels);
    net
}

/// A zone for each subtree of the root, by vertex; the root is in none of them.
fn zones(levels: &[Vec<Vertex>; 5]) -> Vec<u32> {
    let mut zones = vec![0];
    let mut above: Vec<u32> = Vec::new();
    for level in &levels[1..] {
        let of = |index: usize| match above.len() {
            0 => index as u32 + 1,
            width => above[index * width / level.len()],
        };
        let of_level: Vec<u32> = (0..level.len()).map(of).collect();
        zones.extend(&of_level);
        above = of_level;
    }
    zones
}

fn star(setting: &GossipPoint, size: u32) -> Result<Network, RunError> {
    let mut topology = generate::star(size, usual(setting)).map_err(failed)?;
    let rim: Vec<Vertex> = topology.vertices().skip(1).collect();
    topology.place_hosts(rim.iter().copied());
    let (sender, receiver) = (rim[0], rim[rim.len() - 1]);
    Ok(Network::seen_from(topology, Vertex(0), sender, &[receiver]))
}

fn sparse(
    setting: &GossipPoint,
    size: u32,
    members: u32,
    rng: &mut Rng,
) -> Result<Network, RunError> {
    let mut topology = generate::filled_tree(3, size, usual(setting)).map_err(failed)?;
    let all: Vec<Vertex> = topology.vertices().collect();
    let root = Vertex(0);
    let drawn = draw(&all, &[root], members as usize, rng).map_err(failed)?;
    topology.place_hosts(drawn.iter().copied());
    // The farthest member, or one of them.
    let receiver = drawn[drawn.len() - 1];
    Ok(Network::seen_from(topology, root, root, &[receiver]))
}

fn chain(setting: &GossipPoint, size: u32) -> Result<Network, RunError> {
    let mut topology = generate::chain(size, usual(setting)).map_err(failed)?;
    single_out(&mut topology, setting, Vertex(0), Vertex(1));
    let all: Vec<Vertex> = topology.vertices().collect();
    topology.place_hosts(all);
    let receivers = [2, 8, 14, 18].map(Vertex);
    Ok(Network::seen_from(
        topology,
        Vertex(0),
        Vertex(0),
        &receivers,
    ))
}

fn clusters(setting: &GossipPoint, size: u32) -> Result<Network, RunError> {
    let between = link(setting, setting.bandwidth, FAR_DELAY, setting.noise_apart);
    let mut topology = generate::clusters(2, size, usual(setting), between).map_err(failed)?;
    let all: Vec<Vertex> = topology.vertices().collect();
    topology.place_hosts(all);
    // Neither sender nor receiver is at an end of the long link.
    let (sender, receiver) = (Vertex(1), Vertex(2 * size - 1));
    let mut net = Network::seen_from(topology, Vertex(0), sender, &[receiver]);
    if let Some(out) = net.topology.way(sender, Vertex(0)) {
        net.out = out;
    }
    net.between = net.topology.way(Vertex(0), Vertex(size));
    let hosts = 0..net.topology.hosts().len() as u32;
    net.zones = hosts.map(|host| host / size).collect();
    Ok(net)
}

fn router(setting: &GossipPoint, size: u32) -> Network {
    let link_of = |depth: usize| {
        let bandwidth = if depth == 1 { setting.bandwidth } else { FAST };
        link(setting, bandwidth, LINK_DELAY, setting.noise)
    };
    let (mut topology, levels) = layered(&widths(size, Some(2)), link_of);
    let root = levels[0][0];
    let members: Vec<Vertex> = topology.vertices().filter(|it| *it != root).collect();
    topology.place_hosts(members);
    // Seven links between them: 35 ms.
    let (sender, receiver) = (levels[3][0], levels[4][levels[4].len() - 1]);
    let mut net = Network::seen_from(topology, root, sender, &[receiver]);
    // What is looked at is the slow link of the sender's half.
    if let Some(up) = net.topology.way(levels[1][0], root) {
        net.out = up;
    }
    net
}

fn transit_stub(setting: &GossipPoint, size: u32, rng: &mut Rng) -> Result<Network, RunError> {
    // One backbone of four routers, and stub domains of vertices that fill up to about `size`.
    let usual = usual(setting);
    let stub_size = (size / 4).saturating_sub(1).div_ceil(3).max(1);
    let shape = TransitStub {
        transits: 1,
        transit_size: 4,
        stubs: 3,
        stub_size,
        transit_edges: 0.6,
        stub_edges: 0.4,
        transit: usual,
        access: usual,
        stub: usual,
    };
    let mut topology = generate::transit_stub(&shape, rng).map_err(failed)?;
    let all: Vec<Vertex> = topology.vertices().take(size as usize).collect();
    let receiver = all[all.len() - 1];
    topology.place_hosts(all);
    Ok(Network::seen_from(
        topology,
        Vertex(0),
        Vertex(0),
        &[receiver],
    ))
}

fn switch(setting: &GossipPoint, size: u32) -> Result<Network, RunError> {
    let port = link(setting, setting.bandwidth, SWITCH_DELAY, 0.0);
    let mut topology = generate::star(size + 1, port).map_err(failed)?;
    let rim: Vec<Vertex> = topology.vertices().skip(1).collect();
    for host in &rim {
        // A message is dropped once between two members, on its way in.
        if let Some(way) = topology.way(Vertex(0), *host) {
            let spec = link(setting, setting.bandwidth, SWITCH_DELAY, setting.noise);
            *topology.spec_mut(way) = spec;
        }
    }
    topology.place_hosts(rim.iter().copied());
    // The last ones are perturbed; the second is not.
    Ok(Network::seen_from(topology, Vertex(0), rim[0], &[rim[1]]))
}

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::point::Scheme;
    use super::*;

    fn net(shape: Shape) -> Network {
        Network::build(&GossipPoint::new(shape, Scheme::Bare), 1).unwrap()
    }

    #[test]
    fn trees_of_depth_4_have_as_many_vertices_as_wanted_at_every_size() {
        for size in 20..=128 {
            let widths = widths(size, None);
            assert_eq!(widths.iter().sum::<u32>(), size);
            assert!(widths.iter().all(|width| *width > 0), "{size}: {widths:?}");
            let net = net(Shape::Dense { size });
            assert_eq!(net.topology.hosts().len(), size as usize);
            assert!(net.topology.is_connected());
        }
    }

    #[test]
    fn the_receiver_behind_the_router_is_35_ms_away() {
        for size in [20, 40, 60, 80, 100] {
            let net = net(Shape::Router { size });
            let mut routes = groupcast_sim::topology::Routes::new();
            let vertex = |host: usize| net.topology.hosts()[host];
            let (from, to) = (vertex(net.sender), vertex(net.receivers[0]));
            let found = routes.distance(&net.topology, from, to);
            assert_eq!(found, Some((Duration::from_millis(35), 7)), "{size}");
        }
    }

    #[test]
    fn the_link_that_is_singled_out_is_noisy_both_ways_and_no_other() {
        let setting = GossipPoint {
            noise_apart: 0.1,
            ..GossipPoint::new(Shape::Dense { size: 60 }, Scheme::Bare)
        };
        let net = Network::build(&setting, 1).unwrap();
        let noisy = |way: &Way| net.topology.spec(*way).loss == Loss::Rate(0.1);
        let found: Vec<Way> = net.topology.ways().filter(noisy).collect();
        assert_eq!(found, [net.out, net.out.reversed()]);
    }

    #[test]
    fn members_are_where_the_figures_have_them() {
        assert_eq!(net(Shape::Star { size: 21 }).topology.hosts().len(), 20);
        let sparse = net(Shape::Sparse {
            size: 1_000,
            members: 80,
        });
        assert_eq!(sparse.topology.hosts().len(), 80);
        assert_eq!(sparse.topology.hosts()[sparse.sender], Vertex(0));
        assert_eq!(net(Shape::Chain { size: 20 }).receivers.len(), 4);
        let clusters = net(Shape::Clusters { size: 40 });
        assert_eq!(clusters.topology.hosts().len(), 80);
        let stubs = net(Shape::TransitStub { size: 128 });
        assert!(stubs.topology.is_connected());
    }
}
