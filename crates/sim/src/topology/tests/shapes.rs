//! The generated shapes have the sizes, the links and the distances that they should.

use super::*;
use crate::topology::generate::{EDGES_MAX, VERTICES_MAX};
use crate::topology::{Routes, ShapeError};

/// Hops between two vertices.
fn hops(topology: &Topology, from: u32, to: u32) -> u32 {
    let distance = Routes::new().distance(topology, Vertex(from), Vertex(to));
    distance.unwrap().1
}

/// Vertices and links; every link is counted at both of its ends.
fn counts(topology: &Topology) -> (usize, usize) {
    let degrees: usize = topology
        .vertices()
        .map(|it| topology.ways_from(it).count())
        .sum();
    assert_eq!(degrees, 2 * topology.edges().len());
    assert!(topology.is_connected());
    (topology.vertices().len(), topology.edges().len())
}

#[test]
fn a_full_tree_has_a_power_of_its_branching_on_every_level() {
    for (branching, depth) in [(0, 0), (1, 4), (2, 6), (3, 4), (5, 3)] {
        let tree = generate::tree(branching, depth, link(1)).unwrap();
        let size: u32 = (0..=depth).map(|level| branching.pow(level)).sum();
        assert_eq!(counts(&tree), (size as usize, size as usize - 1));
        let mut on_level = vec![0; depth as usize + 1];
        let mut routes = Routes::new();
        for vertex in tree.vertices() {
            let (_, level) = routes.distance(&tree, vertex, Vertex(0)).unwrap();
            on_level[level as usize] += 1;
        }
        let powers: Vec<_> = (0..=depth).map(|level| branching.pow(level)).collect();
        assert_eq!(on_level, powers, "{branching} to {depth}");
    }
}

#[test]
fn a_filled_tree_is_filled_breadth_first() {
    let tree = generate::filled_tree(3, 1_000, link(1)).unwrap();
    assert_eq!(counts(&tree), (1_000, 999));
    for vertex in tree.vertices().skip(1) {
        let (_, parent) = tree.ways_from(vertex).next().unwrap();
        assert_eq!(parent.0, (vertex.0 - 1) / 3);
    }
    // Levels of 1, 3, 9, 27, 81, 243 leave 636 of 729 places on the sixth.
    assert_eq!(
        [0, 3, 12, 363, 364, 999].map(|it| hops(&tree, it, 0)),
        [0, 1, 2, 5, 6, 6]
    );
}

#[test]
fn the_simple_shapes_have_their_counts_and_distances() {
    let star = generate::star(21, link(1)).unwrap();
    assert_eq!(counts(&star), (21, 20));
    assert_eq!((hops(&star, 0, 20), hops(&star, 1, 20)), (1, 2));

    let chain = generate::chain(20, link(1)).unwrap();
    assert_eq!(counts(&chain), (20, 19));
    assert_eq!(hops(&chain, 1, 19), 18);

    let mesh = generate::mesh(40, link(1)).unwrap();
    assert_eq!(counts(&mesh), (40, 780));
    assert_eq!(hops(&mesh, 3, 39), 1);

    let dumbbell = generate::dumbbell(3, 4, link(1), link(9)).unwrap();
    assert_eq!(counts(&dumbbell), (9, 8));
    assert_eq!(
        [(2, 4), (5, 8), (2, 8)].map(|(a, b)| hops(&dumbbell, a, b)),
        [2, 2, 3]
    );

    assert_eq!(counts(&generate::star(1, link(1)).unwrap()), (1, 0));
    assert_eq!(
        counts(&generate::switch(4, 1_000, link(1)).unwrap()),
        (5, 4)
    );
}

/// The network of 004, Figure 6.10: two clusters of 40, 5 ms inside, 30 ms between.
#[test]
fn clusters_are_joined_by_their_first_vertices() {
    let clusters = generate::clusters(2, 40, link(5), link(30)).unwrap();
    assert_eq!(counts(&clusters), (80, 2 * 780 + 1));
    let mut routes = Routes::new();
    let mut distance = |from, to| {
        let distance = routes.distance(&clusters, Vertex(from), Vertex(to));
        distance.unwrap()
    };
    assert_eq!(distance(1, 39), (MS * 5, 1));
    assert_eq!(distance(0, 40), (MS * 30, 1));
    assert_eq!(distance(1, 79), (MS * 40, 3));
}

#[test]
fn a_shape_that_cannot_be_is_refused_before_it_takes_memory() {
    let zero = |name| Err(ShapeError::Zero(name));
    let check = |shape: Result<Topology, ShapeError>| shape.map(|_| ());
    assert_eq!(check(generate::star(0, link(1))), zero("size"));
    assert_eq!(check(generate::tree(0, 2, link(1))), zero("branching"));
    assert_eq!(
        check(generate::filled_tree(0, 2, link(1))),
        zero("branching")
    );
    assert_eq!(check(generate::switch(0, 1, link(1))), zero("hosts"));
    assert_eq!(
        check(generate::clusters(0, 3, link(1), link(1))),
        zero("clusters")
    );

    let huge = [
        generate::tree(10, 200, link(1)),
        generate::chain(u32::MAX, link(1)),
        generate::switch(u32::MAX, 1, link(1)),
        generate::clusters(u32::MAX, u32::MAX, link(1), link(1)),
        generate::dumbbell(u32::MAX, u32::MAX, link(1), link(1)),
    ];
    for shape in huge {
        match shape {
            Err(ShapeError::Vertices(size)) => assert!(size > VERTICES_MAX),
            other => panic!("{other:?}"),
        }
    }
    match generate::mesh(10_000, link(1)) {
        Err(ShapeError::TooManyEdges(edges)) => assert!(edges > EDGES_MAX),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_says_what_would_do() {
    let mut rng = Rng::new(1);
    let error = generate::random(5, 3, link(1), &mut rng).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a network of 5 vertices has from 4 to 10 links, not 3"
    );
    let share = generate::TransitStub {
        transits: 1,
        transit_size: 1,
        stubs: 1,
        stub_size: 1,
        transit_edges: 0.5,
        stub_edges: 1.5,
        transit: link(1),
        access: link(1),
        stub: link(1),
    };
    let error = generate::transit_stub(&share, &mut rng).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stub_edges is 1.5, but must be between 0 and 1"
    );
}
