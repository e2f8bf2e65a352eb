//! Laws of topologies: counts of the shapes, shortest paths against Floyd and Warshall, trees
//! against closed forms.

mod graph;
mod import;
mod members;
mod paths;
mod shapes;
mod trees;

use std::time::Duration;

use groupcast_core::Rng;
use proptest::prelude::*;

use super::{Topology, Vertex, generate};
use crate::link::LinkSpec;

const MS: Duration = Duration::from_millis(1);

/// A link that takes `millis` milliseconds and has no limits.
const fn link(millis: u64) -> LinkSpec {
    LinkSpec::ideal(0, Duration::from_millis(millis))
}

/// Connected networks of up to 24 vertices, some of them trees, with delays of 0 to 3 ms that
/// differ by direction if `lopsided`.
fn networks(lopsided: bool) -> impl Strategy<Value = (Topology, Rng)> {
    (1..24u32, 0..30u64, any::<u64>()).prop_map(move |(size, further, seed)| {
        let mut rng = Rng::new(seed);
        let pairs = u64::from(size) * u64::from(size - 1) / 2;
        let edges = (u64::from(size) - 1 + further).min(pairs);
        let mut topology = generate::random(size, edges, link(0), &mut rng).unwrap();
        for edge in topology.edges() {
            let [there, back] = edge.ways();
            topology.spec_mut(there).delay = MS * rng.below(4) as u32;
            topology.spec_mut(back).delay = match lopsided {
                true => MS * rng.below(4) as u32,
                false => topology.spec(there).delay,
            };
        }
        (topology, rng)
    })
}

/// A random vertex.
fn any_vertex(topology: &Topology, rng: &mut Rng) -> Vertex {
    Vertex(rng.below(topology.vertices().len() as u64) as u32)
}

/// Some random vertices: none, all, or any number between.
fn some_vertices(topology: &Topology, rng: &mut Rng) -> Vec<Vertex> {
    let all: Vec<_> = topology.vertices().collect();
    let count = rng.below(all.len() as u64 + 1) as usize;
    super::draw(&all, &[], count, rng).unwrap()
}
