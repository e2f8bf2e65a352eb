//! Unicast routes against Floyd and Warshall, and what the bounded cache of tables must not change.

use super::*;
use crate::topology::{EdgeId, Kind, Routes, Way};

type Distance = (Duration, u32);

/// The least delay and hops between all pairs, by trying every vertex between.
fn floyd_warshall(topology: &Topology) -> Vec<Vec<Option<Distance>>> {
    let size = topology.vertices().len();
    let mut best = vec![vec![None; size]; size];
    for (vertex, best) in best.iter_mut().enumerate() {
        best[vertex] = Some((Duration::ZERO, 0));
    }
    for way in topology.ways().filter(|way| topology.is_up(way.edge())) {
        let (tail, head) = (topology.tail(way).index(), topology.head(way).index());
        best[tail][head] = nearer(best[tail][head], Some((topology.delay(way), 1)));
    }
    for between in 0..size {
        for from in 0..size {
            for to in 0..size {
                let through = best[from][between].zip(best[between][to]);
                let through = through.map(|((a, i), (b, j)): (Distance, Distance)| (a + b, i + j));
                best[from][to] = nearer(best[from][to], through);
            }
        }
    }
    best
}

fn nearer(a: Option<Distance>, b: Option<Distance>) -> Option<Distance> {
    a.into_iter().chain(b).min()
}

/// Takes a tenth of the links away.
fn cut_some(topology: &mut Topology, rng: &mut Rng) {
    for edge in topology.edges() {
        topology.set_up(edge, !rng.chance(0.1));
    }
}

proptest! {
    #[test]
    fn paths_are_shortest_and_ties_go_to_the_lowest((mut topology, mut rng) in networks(true)) {
        cut_some(&mut topology, &mut rng);
        let best = floyd_warshall(&topology);
        let best = |from: Vertex, to: Vertex| best[from.index()][to.index()];
        let mut routes = Routes::new();
        for from in topology.vertices() {
            for to in topology.vertices() {
                prop_assert_eq!(routes.distance(&topology, from, to), best(from, to));
                let lowest = topology
                    .ways_from(from)
                    .filter(|(way, _)| from != to && topology.is_up(way.edge()))
                    .filter(|(way, head)| {
                        let rest = best(*head, to).map(|(delay, hops)| (delay + topology.delay(*way), hops + 1));
                        rest.is_some() && rest == best(from, to)
                    })
                    .min_by_key(|(way, head)| (*head, *way));
                prop_assert_eq!(routes.next(&topology, from, to), lowest.map(|(way, _)| way));
            }
        }
    }

    #[test]
    fn a_path_leads_from_one_end_to_the_other((topology, mut rng) in networks(true)) {
        let (from, to) = (any_vertex(&topology, &mut rng), any_vertex(&topology, &mut rng));
        let mut routes = Routes::new();
        let path = routes.path(&topology, from, to);
        let mut at = from;
        for way in &path {
            prop_assert_eq!(topology.tail(*way), at);
            at = topology.head(*way);
        }
        prop_assert_eq!(at, to);
        let delay = path.iter().map(|way| topology.delay(*way)).sum();
        prop_assert_eq!(routes.distance(&topology, from, to), Some((delay, path.len() as u32)));
    }

    #[test]
    fn the_limit_on_memory_changes_no_answer((topology, mut rng) in networks(false), tables in 0..4usize) {
        let bytes_max = tables * topology.vertices().len() * 4;
        let (mut bounded, mut unbounded) = (Routes::with_limit(bytes_max), Routes::new());
        for _ in 0..200 {
            let (from, to) = (any_vertex(&topology, &mut rng), any_vertex(&topology, &mut rng));
            prop_assert_eq!(bounded.next(&topology, from, to), unbounded.next(&topology, from, to));
            prop_assert!(bounded.bytes() <= tables.max(1) * topology.vertices().len() * 4);
        }
    }
}

#[test]
fn routes_follow_links_when_they_are_told() {
    let mut ring = generate::chain(4, link(1)).unwrap();
    let back = ring.connect(Vertex(3), Vertex(0), link(1));
    let mut routes = Routes::new();
    let shortcut = back.ways()[1];
    assert_eq!(routes.next(&ring, Vertex(0), Vertex(3)), Some(shortcut));
    ring.set_up(back, false);
    assert_eq!(routes.next(&ring, Vertex(0), Vertex(3)), Some(shortcut));
    routes.invalidate();
    assert_eq!(routes.next(&ring, Vertex(0), Vertex(3)), Some(Way(0)));
    ring.set_up(EdgeId(1), false);
    routes.invalidate();
    assert_eq!(routes.next(&ring, Vertex(0), Vertex(3)), None);
    assert_eq!(routes.distance(&ring, Vertex(0), Vertex(3)), None);
    assert_eq!(routes.path(&ring, Vertex(0), Vertex(3)), []);
}

#[test]
fn a_network_that_has_grown_is_noticed() {
    let mut topology = generate::chain(3, link(5)).unwrap();
    let mut routes = Routes::new();
    assert_eq!(
        routes.distance(&topology, Vertex(0), Vertex(2)),
        Some((MS * 10, 2))
    );
    let shortcut = topology.connect(Vertex(0), Vertex(2), link(1));
    assert_eq!(
        routes.path(&topology, Vertex(0), Vertex(2)),
        [shortcut.ways()[0]]
    );
    let new = topology.add(Kind::Plain);
    assert_eq!(routes.next(&topology, Vertex(0), new), None);
}

/// Vertices with one link have no tables of their own.
#[test]
fn a_star_needs_one_table() {
    let star = generate::star(5_000, link(1)).unwrap();
    let mut routes = Routes::new();
    for to in star.vertices() {
        for from in [0, 1, 4_999].map(Vertex) {
            let hops = match (from == to, from.0 == 0 || to.0 == 0) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            };
            assert_eq!(routes.distance(&star, from, to), Some((MS * hops, hops)));
        }
    }
    assert_eq!(routes.bytes(), 5_000 * 4);
}

/// Between two vertices of a tree there is one path, by their nearest common ancestor.
#[test]
fn ten_thousand_vertices_take_little_memory() {
    let tree = generate::filled_tree(3, 10_000, link(5)).unwrap();
    let mut routes = Routes::new();
    let mut rng = Rng::new(1);
    let destinations: Vec<_> = (0..50).map(|_| any_vertex(&tree, &mut rng)).collect();
    for trial in 0..2_000 {
        let (from, to) = (any_vertex(&tree, &mut rng), destinations[trial % 50]);
        let (mut a, mut b, mut hops) = (from.0, to.0, 0);
        while a != b {
            // The one with the higher number is at least as deep, and so not above the other.
            let deeper = if a > b { &mut a } else { &mut b };
            *deeper = (*deeper - 1) / 3;
            hops += 1;
        }
        let distance = routes.distance(&tree, from, to);
        assert_eq!(distance, Some((MS * 5 * hops, hops)), "{from:?} to {to:?}");
    }
    assert!(routes.bytes() <= 50 * 10_000 * 4);
}
