//! Multicast trees: who is reached, by how many copies, after how long; in closed form where there
//! is one.

use super::*;
use crate::link::BusSpec;
use crate::topology::{EdgeId, Kind, MulticastTree, Routes, Way};

/// When a packet of `sender` is at each vertex that it reaches, in delay and hops. Panics if it
/// comes to one twice.
fn spread(
    tree: &MulticastTree,
    topology: &Topology,
    routes: &mut Routes,
    sender: Vertex,
) -> Vec<Option<(Duration, u32)>> {
    let mut at = vec![None; topology.vertices().len()];
    at[sender.index()] = Some((Duration::ZERO, 0));
    for way in tree.flow(topology, routes, sender) {
        let (delay, hops) = at[topology.tail(way).index()].expect("parents before children");
        let head = &mut at[topology.head(way).index()];
        assert!(head.is_none(), "{way:?} leads where the packet has been");
        *head = Some((delay + topology.delay(way), hops + 1));
    }
    at
}

/// Links of the tree at a vertex.
fn degree(tree: &MulticastTree, topology: &Topology, vertex: Vertex) -> usize {
    let mut edges: Vec<EdgeId> = tree
        .ways()
        .iter()
        .filter(|way| topology.ends(way.edge()).contains(&vertex))
        .map(|way| way.edge())
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges.len()
}

/// It spans what it contains without a loop, and nothing dangles.
fn assert_pruned_tree(tree: &MulticastTree, topology: &Topology, ways_a_link: usize) {
    let on: Vec<_> = topology
        .vertices()
        .filter(|it| tree.contains(*it))
        .collect();
    assert_eq!(tree.ways().len(), (on.len() - 1) * ways_a_link);
    for vertex in on {
        let needed = vertex == tree.root() || tree.is_member(vertex);
        assert!(
            needed || degree(tree, topology, vertex) >= 2,
            "{vertex:?} dangles"
        );
    }
}

proptest! {
    #[test]
    fn a_source_tree_takes_shortest_paths_to_its_members((topology, mut rng) in networks(false)) {
        let source = any_vertex(&topology, &mut rng);
        let members = some_vertices(&topology, &mut rng);
        let mut routes = Routes::new();
        let tree = MulticastTree::source(&topology, &mut routes, source, &members);
        assert_pruned_tree(&tree, &topology, 1);
        let at = spread(&tree, &topology, &mut routes, source);
        for vertex in topology.vertices() {
            prop_assert_eq!(tree.is_member(vertex), members.contains(&vertex));
            prop_assert_eq!(tree.contains(vertex), at[vertex.index()].is_some());
            if tree.contains(vertex) {
                prop_assert_eq!(at[vertex.index()], routes.distance(&topology, source, vertex));
            }
        }
    }

    /// Where directions differ, the tree is that of the members' routes to the source.
    #[test]
    fn a_source_tree_is_of_reverse_paths((topology, mut rng) in networks(true)) {
        let source = any_vertex(&topology, &mut rng);
        let members = some_vertices(&topology, &mut rng);
        let mut routes = Routes::new();
        let tree = MulticastTree::source(&topology, &mut routes, source, &members);
        let mut paths: Vec<Way> = members
            .iter()
            .flat_map(|member| routes.path(&topology, *member, source))
            .map(Way::reversed)
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let mut ways = tree.ways().to_vec();
        ways.sort_unstable();
        prop_assert_eq!(ways, paths);
    }

    /// From a sender to a member over the shared tree: the two paths to the core, less what they
    /// have in common.
    #[test]
    fn over_a_core_tree_paths_meet_where_those_to_the_core_do((topology, mut rng) in networks(false)) {
        let core = any_vertex(&topology, &mut rng);
        let members = some_vertices(&topology, &mut rng);
        let sender = any_vertex(&topology, &mut rng);
        let mut routes = Routes::new();
        let tree = MulticastTree::core(&topology, &mut routes, core, &members);
        assert_pruned_tree(&tree, &topology, 2);
        let at = spread(&tree, &topology, &mut routes, sender);
        let up = routes.path(&topology, sender, core);
        for member in &members {
            let mut down = routes.path(&topology, *member, core);
            let mut rising = up.clone();
            while rising.last().is_some() && rising.last() == down.last() {
                rising.pop();
                down.pop();
            }
            let delay = rising.iter().chain(&down).map(|way| topology.delay(*way)).sum();
            let hops = (rising.len() + down.len()) as u32;
            prop_assert_eq!(at[member.index()], Some((delay, hops)));
        }
        for vertex in topology.vertices() {
            let reached = at[vertex.index()].is_some();
            let passed = vertex == sender || up.iter().any(|way| topology.head(*way) == vertex);
            prop_assert!(!reached || tree.contains(vertex) || passed, "{:?} has no part in it", vertex);
            prop_assert!(reached || !tree.contains(vertex), "{:?} is left out", vertex);
        }
    }

    #[test]
    fn packets_never_go_back_where_they_came_from((topology, mut rng) in networks(true)) {
        let core = any_vertex(&topology, &mut rng);
        let members = some_vertices(&topology, &mut rng);
        let mut routes = Routes::new();
        let trees = [
            MulticastTree::core(&topology, &mut routes, core, &members),
            MulticastTree::source(&topology, &mut routes, core, &members),
        ];
        for tree in trees {
            for way in topology.ways() {
                let at = topology.head(way);
                let all: Vec<_> = tree.outs(at, None).collect();
                let onward: Vec<_> = tree.outs(at, Some(way)).collect();
                let expected: Vec<_> = all.into_iter().filter(|out| *out != way.reversed()).collect();
                prop_assert_eq!(onward, expected);
                prop_assert!(tree.outs(at, None).all(|out| topology.tail(out) == at));
            }
        }
    }
}

/// On a cycle of 8 around core 0, packets pass the core to reach the other side, however near it is
/// by unicast.
#[test]
fn over_a_core_tree_the_far_side_of_a_cycle_is_beyond_the_core() {
    let mut cycle = generate::chain(8, link(5)).unwrap();
    cycle.connect(Vertex(7), Vertex(0), link(5));
    let all: Vec<_> = cycle.vertices().collect();
    let mut routes = Routes::new();
    let tree = MulticastTree::core(&cycle, &mut routes, Vertex(0), &all);
    // 4 is equally far both ways and joins by its lower neighbour 3.
    let depth = |vertex: u32| vertex.min(8 - vertex);
    for sender in 0..8u32 {
        let at = spread(&tree, &cycle, &mut routes, Vertex(sender));
        for member in 0..8u32 {
            let same_side = (sender <= 4) == (member <= 4) || sender == 0 || member == 0;
            let hops = match same_side {
                true => depth(sender).abs_diff(depth(member)),
                false => depth(sender) + depth(member),
            };
            assert_eq!(at[member as usize], Some((MS * 5 * hops, hops)));
        }
    }
}

/// Two leaves of a full binary tree are apart twice the levels below their nearest common ancestor.
#[test]
fn over_the_root_of_a_tree_paths_are_those_of_the_tree() {
    let tree = generate::tree(2, 6, link(1)).unwrap();
    let leaves: Vec<_> = tree.vertices().skip(63).collect();
    let mut routes = Routes::new();
    for core in [0, 5, 70].map(Vertex) {
        let shared = MulticastTree::core(&tree, &mut routes, core, &leaves);
        let sender = leaves[9];
        let at = spread(&shared, &tree, &mut routes, sender);
        for (index, leaf) in leaves.iter().enumerate() {
            let levels = u32::BITS - (index as u32 ^ 9).leading_zeros();
            assert_eq!(at[leaf.index()], Some((MS * 2 * levels, 2 * levels)));
        }
    }
}

#[test]
fn a_sender_off_the_tree_spreads_from_where_it_meets_the_tree() {
    // 0 - 1 - 2 - 3, and 4 hangs on 1; the core is 0, the members are 2 and 3.
    let mut topology = generate::chain(5, link(1)).unwrap();
    topology.set_up(EdgeId(3), false);
    topology.connect(Vertex(4), Vertex(1), link(1));
    let mut routes = Routes::new();
    let tree = MulticastTree::core(&topology, &mut routes, Vertex(0), &[Vertex(2), Vertex(3)]);
    assert!(!tree.contains(Vertex(4)));
    let at = spread(&tree, &topology, &mut routes, Vertex(4));
    let hops: Vec<_> = at.into_iter().flatten().map(|(_, hops)| hops).collect();
    assert_eq!(hops, [2, 1, 2, 3, 0]);
}

#[test]
fn members_out_of_reach_are_left_out() {
    let mut chain = generate::chain(4, link(1)).unwrap();
    chain.set_up(EdgeId(1), false);
    let all: Vec<_> = chain.vertices().collect();
    let mut routes = Routes::new();
    for tree in [
        MulticastTree::core(&chain, &mut routes, Vertex(0), &all),
        MulticastTree::source(&chain, &mut routes, Vertex(0), &all),
    ] {
        let members = [0, 1, 2, 3].map(|it| tree.is_member(Vertex(it)));
        assert_eq!(members, [true, true, false, false]);
        assert!(!tree.contains(Vertex(3)));
        assert_eq!(tree.flow(&chain, &mut routes, Vertex(3)), []);
    }
}

/// An Ethernet with `hosts` hosts and a router, which comes last.
fn ethernet(topology: &mut Topology, hosts: usize) -> Vec<Vertex> {
    let propagation = Duration::ZERO;
    let cable = topology.add(Kind::Bus(BusSpec {
        propagation,
        ..BusSpec::default()
    }));
    let stations = topology.add_many(Kind::Plain, hosts as u32 + 1);
    for station in &stations {
        topology.connect(cable, *station, link(0));
    }
    stations
}

/// A packet on an Ethernet costs 1, on another link its delay in milliseconds.
fn price(topology: &Topology, way: Way) -> u64 {
    match topology.kind(topology.head(way)) {
        Kind::Bus(_) | Kind::TokenRing(_) => 1,
        Kind::Plain | Kind::Switch { .. } => topology.delay(way).as_millis() as u64,
    }
}

/// Costs of copies and of multicast to `hosts` destinations on each of `sites` Ethernets whose
/// routers `join` links, from a further host on the first.
fn costs(sites: usize, hosts: usize, join: fn(&mut Topology, &[Vertex])) -> (u64, u64) {
    let mut topology = Topology::new();
    let (mut routers, mut members, mut source) = (Vec::new(), Vec::new(), None);
    for site in 0..sites {
        let mut stations = ethernet(&mut topology, hosts + usize::from(site == 0));
        routers.extend(stations.pop());
        source = source.or_else(|| stations.pop());
        members.extend(stations);
    }
    join(&mut topology, &routers);
    assert_eq!(members.len(), 8);
    let (source, mut routes) = (source.unwrap(), Routes::new());
    let copies = routes.copies(&topology, source, &members);
    let tree = MulticastTree::source(&topology, &mut routes, source, &members);
    let flow = tree.flow(&topology, &mut routes, source);
    (topology.cost(copies, price), topology.cost(flow, price))
}

/// Figure 16 and Table 4 of 000: links between Ethernets cost 4, or 2 to a central router.
#[test]
fn costs_are_those_of_the_four_sites_of_000() {
    let each_to_each = |topology: &mut Topology, routers: &[Vertex]| {
        for (index, a) in routers.iter().enumerate() {
            for b in &routers[index + 1..] {
                topology.connect(*a, *b, link(4));
            }
        }
    };
    let to_the_centre = |topology: &mut Topology, routers: &[Vertex]| {
        let centre = topology.add(Kind::Plain);
        for router in routers {
            topology.connect(centre, *router, link(2));
        }
    };
    assert_eq!(costs(1, 8, each_to_each), (8, 1));
    assert_eq!(costs(2, 4, each_to_each), (28, 6));
    assert_eq!(costs(4, 2, each_to_each), (38, 16));
    assert_eq!(costs(4, 2, to_the_centre), (38, 12));
}
