//! Random networks: random graphs, transit-stub networks.

use std::collections::BTreeSet;

use groupcast_core::Rng;

use super::{ShapeError, limit_edges, pairs, plain, positive, probability};
use crate::link::LinkSpec;
use crate::topology::{Topology, Vertex};

/// A random tree of `size` vertices and further random links, `edges` in all, no two between the
/// same vertices.
///
/// Each vertex is linked to one of those before it, all equally likely (a random recursive tree,
/// logarithmically deep); the further links are any set of the other pairs, all sets equally
/// likely.
///
/// # Errors
/// `size` is 0, `edges` is less than the tree needs or more than there are pairs, or there are too
/// many.
pub fn random(
    size: u32,
    edges: u64,
    link: LinkSpec,
    rng: &mut Rng,
) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain(size.into())?;
    let (least, most) = (u64::from(size) - 1, pairs(size));
    if !(least..=most).contains(&edges) {
        return Err(ShapeError::Edges {
            edges,
            size,
            least,
            most,
        });
    }
    limit_edges(edges)?;
    let linked = connect_tree(&mut topology, &vertices, link, rng);
    for (a, b) in further_pairs(size, &linked, edges - least, rng) {
        topology.connect(vertices[a as usize], vertices[b as usize], link);
    }
    Ok(topology)
}

/// What a transit-stub network is made of, after Calvert, Doar and Zegura, "Modeling Internet
/// Topology" (IEEE Communications Magazine, 1997), whose generator (GT-ITM) 004 used in chapter 7.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransitStub {
    /// Transit domains (backbones). Each two are joined by one link between routers drawn at
    /// random.
    pub transits: u32,
    /// Routers of each transit domain.
    pub transit_size: u32,
    /// Stub domains that hang on each transit router, each by one link to a vertex of it drawn at
    /// random.
    pub stubs: u32,
    /// Vertices of each stub domain.
    pub stub_size: u32,
    /// Probability of a link between two routers of a domain, beyond those of a random tree of all.
    pub transit_edges: f64,
    /// Probability of a link between two vertices of a stub domain, beyond those of a random tree
    /// of all.
    pub stub_edges: f64,
    /// Links between transit routers.
    pub transit: LinkSpec,
    /// Links between a transit router and a stub domain.
    pub access: LinkSpec,
    /// Links within stub domains.
    pub stub: LinkSpec,
}

impl TransitStub {
    /// How many vertices there are: `transits * transit_size * (1 + stubs * stub_size)`.
    pub fn size(&self) -> u64 {
        let routers = u64::from(self.transits) * u64::from(self.transit_size);
        let behind = u64::from(self.stubs) * u64::from(self.stub_size);
        routers.saturating_mul(behind.saturating_add(1))
    }

    fn check(&self) -> Result<(), ShapeError> {
        positive("transits", self.transits)?;
        positive("transit_size", self.transit_size)?;
        if self.stubs > 0 {
            positive("stub_size", self.stub_size)?;
        }
        probability("transit_edges", self.transit_edges)?;
        probability("stub_edges", self.stub_edges)?;
        // As if all domains were full meshes, which bounds the time as well.
        let transits = u64::from(self.transits);
        let routers = transits.saturating_mul(u64::from(self.transit_size));
        let backbone = transits
            .saturating_mul(pairs(self.transit_size))
            .saturating_add(pairs(self.transits));
        let stubs = routers.saturating_mul(u64::from(self.stubs));
        limit_edges(backbone.saturating_add(stubs.saturating_mul(pairs(self.stub_size) + 1)))
    }
}

/// A transit-stub network: first the transit routers, domain by domain, then for each of them in
/// turn its stub domains, vertex by vertex.
///
/// # Errors
/// There are no transit routers, stub domains are empty, a share is not between 0 and 1, or there
/// are too many vertices or links (counted as if every domain were a full mesh).
pub fn transit_stub(shape: &TransitStub, rng: &mut Rng) -> Result<Topology, ShapeError> {
    shape.check()?;
    let (mut topology, vertices) = plain(shape.size())?;
    let routers = shape.transits as usize * shape.transit_size as usize;
    let (routers, behind) = vertices.split_at(routers);
    let domains: Vec<_> = routers.chunks(shape.transit_size as usize).collect();
    for domain in &domains {
        connect_domain(
            &mut topology,
            domain,
            shape.transit,
            shape.transit_edges,
            rng,
        );
    }
    for (index, domain) in domains.iter().enumerate() {
        for other in &domains[index + 1..] {
            let (a, b) = (one_of(domain, rng), one_of(other, rng));
            topology.connect(a, b, shape.transit);
        }
    }
    let stubs = behind.chunks(shape.stub_size.max(1) as usize);
    for (index, stub) in stubs.enumerate() {
        let router = routers[index / shape.stubs as usize];
        topology.connect(router, one_of(stub, rng), shape.access);
        connect_domain(&mut topology, stub, shape.stub, shape.stub_edges, rng);
    }
    Ok(topology)
}

fn one_of(domain: &[Vertex], rng: &mut Rng) -> Vertex {
    domain[rng.below(domain.len() as u64) as usize]
}

/// Links each vertex but the first to one of those before it; answers which, by index.
fn connect_tree(
    topology: &mut Topology,
    vertices: &[Vertex],
    link: LinkSpec,
    rng: &mut Rng,
) -> Vec<u32> {
    let mut linked = vec![0];
    for (index, vertex) in vertices.iter().enumerate().skip(1) {
        let before = rng.below(index as u64) as u32;
        topology.connect(vertices[before as usize], *vertex, link);
        linked.push(before);
    }
    linked
}

/// A random tree and every further pair with probability `share`.
fn connect_domain(
    topology: &mut Topology,
    vertices: &[Vertex],
    link: LinkSpec,
    share: f64,
    rng: &mut Rng,
) {
    let linked = connect_tree(topology, vertices, link, rng);
    for b in 1..vertices.len() {
        for a in 0..b {
            if linked[b] != a as u32 && rng.chance(share) {
                topology.connect(vertices[a], vertices[b], link);
            }
        }
    }
}

/// `wanted` pairs `(a, b)`, `a < b < size`, other than `(linked[b], b)`, in ascending order of `b`,
/// then `a`.
///
/// Draws the smaller of the set and its complement and draws again what it has already, so that
/// either takes two trials a pair at most on average.
fn further_pairs(size: u32, linked: &[u32], wanted: u64, rng: &mut Rng) -> Vec<(u32, u32)> {
    let free = pairs(size) + 1 - u64::from(size);
    let complement = wanted > free / 2;
    let count = if complement { free - wanted } else { wanted };
    let mut drawn = BTreeSet::new();
    while (drawn.len() as u64) < count {
        let [x, y] = [0; 2].map(|_: u32| rng.below(u64::from(size)) as u32);
        let (a, b) = (x.min(y), x.max(y));
        if a != b && linked[b as usize] != a {
            drawn.insert((b, a));
        }
    }
    if !complement {
        return drawn.into_iter().map(|(b, a)| (a, b)).collect();
    }
    (1..size)
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter(|(a, b)| linked[*b as usize] != *a && !drawn.contains(&(*b, *a)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LINK: LinkSpec = LinkSpec::ideal(0, Duration::from_millis(5));

    /// Every link as its two ends, the lower first, in ascending order.
    fn links(topology: &Topology) -> Vec<[Vertex; 2]> {
        let mut links: Vec<_> = topology.edges().map(|edge| topology.ends(edge)).collect();
        links.iter_mut().for_each(|ends| ends.sort_unstable());
        links.sort_unstable();
        links
    }

    #[test]
    fn a_random_network_has_the_links_that_were_asked_for() {
        for (size, edges) in [(1, 0), (2, 1), (30, 29), (30, 60), (30, 400), (30, 435)] {
            let mut rng = Rng::new(u64::from(size) + edges);
            let topology = random(size, edges, LINK, &mut rng).unwrap();
            assert!(topology.is_connected(), "{size} vertices, {edges} links");
            let mut links = links(&topology);
            assert_eq!(links.len() as u64, edges);
            links.dedup();
            assert_eq!(links.len() as u64, edges, "no two join the same vertices");
        }
    }

    #[test]
    fn the_generator_alone_decides() {
        let draw = |seed| links(&random(50, 120, LINK, &mut Rng::new(seed)).unwrap());
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    /// 0 is linked to all others; of the 6 pairs of those, `wanted` are drawn: each comes in 6,000
    /// trials about `wanted` × 1,000 times, with a standard deviation of at most 39.
    #[test]
    fn further_links_are_equally_likely() {
        let mut rng = Rng::new(7);
        for wanted in 1..6 {
            let mut counts = [0; 6];
            for _ in 0..6_000 {
                let drawn = further_pairs(5, &[0; 5], wanted, &mut rng);
                assert_eq!(drawn.len() as u64, wanted);
                for (a, b) in drawn {
                    // (1,2), (1,3), (2,3), (1,4), (2,4), (3,4)
                    counts[((b - 1) * (b - 2) / 2 + a - 1) as usize] += 1;
                }
            }
            let mean = wanted as i32 * 1_000;
            assert!(
                counts.iter().all(|count: &i32| (count - mean).abs() < 160),
                "{wanted} of 6: {counts:?}"
            );
        }
    }

    const SHAPE: TransitStub = TransitStub {
        transits: 3,
        transit_size: 4,
        stubs: 2,
        stub_size: 5,
        transit_edges: 0.0,
        stub_edges: 0.0,
        transit: LinkSpec::ideal(3, Duration::from_millis(30)),
        access: LinkSpec::ideal(2, Duration::from_millis(10)),
        stub: LinkSpec::ideal(1, Duration::from_millis(2)),
    };

    /// How many links are like `link`.
    fn count(topology: &Topology, link: LinkSpec) -> u64 {
        let like = |edge: &crate::topology::EdgeId| *topology.spec(edge.ways()[0]) == link;
        topology.edges().filter(like).count() as u64
    }

    #[test]
    fn a_transit_stub_network_has_its_numbers_of_links() {
        for (share, extra_transit, extra_stub) in [(0.0, 0, 0), (1.0, 3, 6)] {
            let shape = TransitStub {
                transit_edges: share,
                stub_edges: share,
                ..SHAPE
            };
            let topology = transit_stub(&shape, &mut Rng::new(4)).unwrap();
            assert_eq!(shape.size(), 132);
            assert_eq!(topology.vertices().len(), 132);
            assert!(topology.is_connected());
            assert_eq!(count(&topology, shape.transit), 3 * (3 + extra_transit) + 3);
            assert_eq!(count(&topology, shape.access), 24);
            assert_eq!(count(&topology, shape.stub), 24 * (4 + extra_stub));
        }
    }

    #[test]
    fn a_stub_domain_hangs_on_its_router_alone() {
        let mut topology = transit_stub(&SHAPE, &mut Rng::new(9)).unwrap();
        let access = |topology: &Topology, edge| {
            *topology.spec(crate::topology::EdgeId::ways(edge)[0]) == SHAPE.access
        };
        let hung: Vec<_> = topology
            .edges()
            .filter(|edge| access(&topology, *edge))
            .collect();
        for (index, edge) in hung.into_iter().enumerate() {
            let [router, entry] = topology.ends(edge);
            assert_eq!(router.index(), index / 2, "two domains a router, in turn");
            topology.set_up(edge, false);
            let mut domain = topology.reachable(entry);
            domain.sort_unstable();
            let first = 12 + index as u32 * 5;
            assert_eq!(domain, (first..first + 5).map(Vertex).collect::<Vec<_>>());
            topology.set_up(edge, true);
        }
    }

    #[test]
    fn there_may_be_no_stubs() {
        let backbone = TransitStub { stubs: 0, ..SHAPE };
        let topology = transit_stub(&backbone, &mut Rng::new(4)).unwrap();
        assert_eq!(topology.vertices().len(), 12);
        assert!(topology.is_connected());
    }
}
