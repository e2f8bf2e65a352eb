//! What a topology answers is what was put in.

use super::*;
use crate::link::BusSpec;
use crate::topology::{EdgeId, Kind, NameTaken, Way};

#[test]
fn ways_are_the_two_directions_of_links() {
    let mut topology = Topology::new();
    let [a, b, c] = [0; 3].map(|_| topology.add(Kind::Plain));
    let ab = topology.connect_ways(a, b, [link(1), link(2)]);
    let cb = topology.connect(c, b, link(3));
    assert_eq!([ab, cb], [EdgeId(0), EdgeId(1)]);
    for edge in topology.edges() {
        let [there, back] = edge.ways();
        assert_eq!((there.edge(), back.edge()), (edge, edge));
        assert_eq!((there.reversed(), back.reversed()), (back, there));
        assert_eq!(
            topology.ends(edge),
            [topology.tail(there), topology.head(there)]
        );
        assert_eq!(
            topology.ends(edge),
            [topology.head(back), topology.tail(back)]
        );
    }
    let from_b: Vec<_> = topology.ways_from(b).collect();
    assert_eq!(from_b, [(Way(1), a), (Way(3), c)]);
    assert_eq!(topology.way(a, b), Some(Way(0)));
    assert_eq!(topology.way(a, c), None);
    assert_eq!(topology.delay(Way(0)), MS);
    assert_eq!(topology.delay(Way(1)), MS * 2);
}

#[test]
fn the_way_into_a_cable_takes_its_propagation() {
    let bus = BusSpec::default();
    let topology = generate::bus(3, bus).unwrap();
    let into = topology.way(Vertex(1), Vertex(0)).unwrap();
    assert_eq!(topology.delay(into), bus.propagation);
    assert_eq!(topology.delay(into.reversed()), Duration::ZERO);
    assert_eq!(topology.kind(Vertex(0)), Kind::Bus(bus));
}

#[test]
fn hosts_are_numbered_as_they_are_placed_and_once() {
    let mut topology = generate::star(5, link(1)).unwrap();
    topology.place_hosts([Vertex(4), Vertex(2)]);
    assert_eq!(topology.place_host(Vertex(0)), 2);
    assert_eq!(topology.place_host(Vertex(4)), 0);
    assert_eq!(topology.hosts(), [Vertex(4), Vertex(2), Vertex(0)]);
    assert_eq!(topology.host_at(Vertex(2)), Some(1));
    assert_eq!(topology.host_at(Vertex(1)), None);
}

#[test]
fn a_vertex_is_found_by_what_it_is_called() {
    let mut topology = generate::chain(3, link(1)).unwrap();
    topology.set_name(Vertex(1), "router").unwrap();
    for vertex in topology.vertices() {
        let name = topology.name(vertex).into_owned();
        assert_eq!(topology.find(&name), Some(vertex));
    }
    for stranger in ["1", "3", "02", "", "Router"] {
        assert_eq!(topology.find(stranger), None, "{stranger:?}");
    }
    let taken = topology.set_name(Vertex(0), "2").unwrap_err();
    let (name, by) = ("2".to_owned(), Vertex(2));
    assert_eq!(taken, NameTaken { name, by });
    topology.set_name(Vertex(1), "gate").unwrap();
    topology.set_name(Vertex(1), "gate").unwrap();
    assert_eq!(topology.find("router"), None);
    assert_eq!(topology.name(Vertex(1)), "gate");
}

#[test]
fn what_is_reachable_ends_at_links_that_are_down() {
    let mut topology = generate::chain(5, link(1)).unwrap();
    assert!(topology.is_connected());
    topology.set_up(EdgeId(2), false);
    assert!(!topology.is_connected());
    assert_eq!(
        topology.reachable(Vertex(1)),
        [Vertex(1), Vertex(0), Vertex(2)]
    );
    topology.set_up(EdgeId(2), true);
    assert!(topology.is_connected());
}
