//! Rings that joins ask for: who makes one, who joins it, what is refused, how it ends, and what
//! becomes of names that two parts of a network have claimed.

mod swarm;

use std::net::Ipv4Addr;

use bytes::Bytes;
use groupcast_core::wire::Writer;
use groupcast_core::{Delivery, Event, MemberId, MessageId, OrderPlace, Rng, Service};
use groupcast_session::frame::{BusRequest, ClientFrame};
use groupcast_session::groups::{Access, Carrier, Principal, Right, Rule};
use groupcast_session::names::Pool;
use groupcast_session::{ClientId, EngineConfig};

use crate::world::World;

type Client = (MemberId, ClientId);

/// The envelope of a word about rings, and the word by which a daemon removes itself from one.
const NAMES: u8 = 19;
const REMOVE: u8 = 4;

fn pool(third: u8) -> Option<Pool> {
    Pool::new(Ipv4Addr::new(239, 192, third, 0), 28, 4809)
}

fn config() -> EngineConfig {
    EngineConfig {
        ring_pool: pool(80),
        ..EngineConfig::default()
    }
}

/// Daemons that are together, with a client each.
fn cluster<const N: usize>(config: EngineConfig) -> (World, Rng, [Client; N]) {
    let mut world = World::with_config(N, config);
    let mut rng = Rng::new(1);
    let all: Vec<_> = (1..=N).map(|host| world.member(host)).collect();
    world.divide(std::slice::from_ref(&all), &mut rng);
    world.run(&mut rng);
    let clients = std::array::from_fn(|index| {
        let member = all[index];
        (member, world.connect(member, &format!("c{}", index + 1)))
    });
    (world, rng, clients)
}

fn act(world: &mut World, who: Client, act: impl FnOnce(&mut crate::world::client::TestClient)) {
    world.act(who.0, who.1, act);
}

/// The last line that the client saw.
fn last(world: &mut World, who: Client) -> String {
    let story = world.client(who.0, who.1).story();
    story.last().cloned().unwrap_or_default()
}

fn tops(world: &World, daemon: MemberId) -> Vec<String> {
    let rings = world.daemons[&daemon].engine.rings_made();
    rings.iter().map(|ring| ring.top.to_string()).collect()
}

#[test]
fn a_join_makes_a_ring_others_join_it_and_the_last_gives_it_back() {
    let (mut world, mut rng, [al, bo, cy]) = cluster(config());
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, al), "wb.cb regular join: c1@h1");
    assert_eq!(world.client(al.0, al.1).carried["wb.cb"], "wb.cb");
    let made = world.daemons[&al.0].engine.rings_made();
    assert_eq!(made.len(), 1);
    assert_eq!(world.daemons[&cy.0].engine.rings_made(), made);

    // A client that joins below it joins it, whether it asks for a ring or not.
    act(&mut world, bo, |client| client.join("page.wb.cb"));
    act(&mut world, cy, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    act(&mut world, al, |client| {
        client.publish(&["wb.cb"], Service::Agreed, b"to the ring");
        client.publish(&["page.wb.cb"], Service::Agreed, b"below");
    });
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, cy), "c1@h1>wb.cb to the ring");
    assert_eq!(last(&mut world, bo), "c1@h1>page.wb.cb below");
    assert_eq!(world.client(bo.0, bo.1).carried["page.wb.cb"], "wb.cb");
    assert_eq!(world.client(al.0, al.1).accepted, 2);

    act(&mut world, al, |client| client.leave("wb.cb"));
    act(&mut world, cy, |client| client.leave("wb.cb"));
    world.run_made(&mut rng);
    assert!(world.client(al.0, al.1).carried.is_empty());
    assert_eq!(tops(&world, al.0), ["wb.cb"], "bo is in it");
    world.vanish(bo.0, bo.1);
    world.run_made(&mut rng);
    for who in [al, bo, cy] {
        assert!(tops(&world, who.0).is_empty());
        assert_eq!(world.daemons[&who.0].engine.status().rings, []);
    }
    assert_eq!(world.judge_made(), [""; 0]);
}

#[test]
fn a_publisher_outside_the_group_follows_it_to_a_ring_and_back() {
    let (mut world, mut rng, [al, bo]) = cluster(config());
    let publish = |world: &mut World, text: &str| {
        act(world, bo, |client| {
            client.publish(&["wb.cb"], Service::Agreed, text.as_bytes());
        });
    };
    let has_seen = |world: &mut World, line: &str| {
        let story = world.client(al.0, al.1).story();
        assert!(story.iter().any(|it| it == line), "{line}: {story:#?}");
    };
    // The daemon remembers where this message went.
    publish(&mut world, "to nobody");
    world.run_made(&mut rng);
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    publish(&mut world, "to the ring");
    world.run_made(&mut rng);
    has_seen(&mut world, "c2@h2>wb.cb to the ring");

    act(&mut world, al, |client| client.leave("wb.cb"));
    world.run_made(&mut rng);
    assert!(tops(&world, bo.0).is_empty());
    act(&mut world, al, |client| client.join("wb.cb"));
    world.run_made(&mut rng);
    publish(&mut world, "to the own order");
    world.run_made(&mut rng);
    has_seen(&mut world, "c2@h2>wb.cb to the own order");
    assert_eq!(world.client(bo.0, bo.1).accepted, 3);
}

#[test]
fn what_would_fragment_is_refused_and_the_group_is_named() {
    let (mut world, mut rng, [al, bo]) = cluster(EngineConfig {
        rings: vec!["fix.x".into()],
        ..config()
    });
    act(&mut world, bo, |client| client.join("page.wb.cb"));
    world.run_made(&mut rng);
    act(&mut world, al, |client| {
        client.join_on_ring("wb.cb");
        client.join_on_ring("ed.cb");
    });
    world.run_made(&mut rng);
    act(&mut world, bo, |client| {
        client.join_on_ring("cb");
        client.join_on_ring("x");
        client.join_on_ring("*.y");
        client.join_on_ring("a..b");
        client.join_on_ring("page.wb.cb");
    });
    world.run_made(&mut rng);
    let texts = |world: &mut World, who: Client| -> Vec<String> {
        let rejected = &world.client(who.0, who.1).rejected_groups;
        rejected.iter().map(|(_, text)| text.clone()).collect()
    };
    let of_al = texts(&mut world, al);
    assert!(of_al.len() == 1 && of_al[0].contains("page.wb.cb from the daemons' own order"));
    let of_bo = texts(&mut world, bo);
    for part in [
        "stands for all below",
        "column 3",
        "is in \"page.wb.cb\" already",
        "around the ring ed.cb",
        "the group fix.x from the ring fix.x",
    ] {
        let found = of_bo.iter().any(|text| text.contains(part));
        assert!(found, "{part}: {of_bo:?}");
    }
    assert_eq!(tops(&world, bo.0), ["ed.cb"]);

    // On a ring, too: a part of it cannot be taken away while it is in use.
    act(&mut world, bo, |client| client.join("page.ed.cb"));
    world.run_made(&mut rng);
    act(&mut world, al, |client| {
        client.join_on_ring("page.ed.cb");
        client.join_on_ring("other.ed.cb");
    });
    world.run_made(&mut rng);
    let of_al = texts(&mut world, al);
    assert!(
        of_al[1].contains("page.ed.cb from the ring ed.cb"),
        "{of_al:?}"
    );
    assert_eq!(tops(&world, bo.0), ["ed.cb", "other.ed.cb"]);
    assert_eq!(
        world.client(al.0, al.1).carried["other.ed.cb"],
        "other.ed.cb"
    );
}

#[test]
fn who_may_not_join_a_group_makes_no_ring_for_it() {
    let (mut world, mut rng, [al]) = cluster(config());
    let of_others = Rule {
        groups: vec!["wb.cb".into()],
        who: vec![Principal::User(1000)],
        rights: vec![Right::Join],
    };
    let now = world.now;
    let engine = &mut world.daemon(al.0).engine;
    engine.set_access(now, Access(vec![of_others]));
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    // At once: a ring that was made would have to be ended again.
    let (_, text) = &world.client(al.0, al.1).rejected_groups[0];
    assert!(text.contains("do not let this client join"), "{text}");
    world.run_made(&mut rng);
    assert_eq!(tops(&world, al.0), [""; 0]);
}

#[test]
fn without_a_pool_a_ring_is_refused_by_words_that_say_what_to_set() {
    let (mut world, mut rng, [al]) = cluster(EngineConfig::default());
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    let (_, text) = &world.client(al.0, al.1).rejected_groups[0];
    assert!(text.contains("ring_pool = { network ="), "{text}");
}

#[test]
fn the_bus_asks_for_a_ring_and_takes_it_back() {
    let (mut world, mut rng, [al, bo]) = cluster(config());
    let ask = |token, request| ClientFrame::Bus { token, request };
    let accept = |pattern: &str, ring| BusRequest::Accept {
        group: "wb.cb".into(),
        pattern: pattern.into(),
        ring,
    };
    let reject = |pattern: &str| BusRequest::Reject {
        group: "wb.cb".into(),
        pattern: pattern.into(),
    };
    act(&mut world, al, |client| {
        client.send(&ask(1, accept("a.*", true)));
        client.send(&ask(2, accept("b", true)));
        client.send(&ask(3, reject("b")));
    });
    world.run_made(&mut rng);
    let done = world.client(al.0, al.1).done.clone();
    let text = |token: u64| {
        done.iter()
            .find(|(at, _)| *at == token)
            .map(|it| it.1.clone())
    };
    assert_eq!(text(1).as_deref(), Some(""));
    assert!(text(2).is_some_and(|text| text.contains("taken back")));
    assert_eq!(text(3).as_deref(), Some(""));
    assert_eq!(tops(&world, bo.0), ["wb.cb"]);
    act(&mut world, al, |client| client.send(&ask(4, reject("a.*"))));
    world.run_made(&mut rng);
    assert!(tops(&world, bo.0).is_empty());
}

#[test]
fn a_ring_whose_daemons_are_killed_is_no_more() {
    let (mut world, mut rng, [al, bo, cy]) = cluster(config());
    for who in [al, bo] {
        act(&mut world, who, |client| client.join_on_ring("wb.cb"));
    }
    world.run_made(&mut rng);
    world.crash(al.0);
    world.divide(&[vec![bo.0, cy.0]], &mut rng);
    world.reform_all(&mut rng);
    world.run_made(&mut rng);
    assert_eq!(tops(&world, cy.0), ["wb.cb"]);
    assert_eq!(last(&mut world, bo), "wb.cb regular network: c2@h2");
    world.crash(bo.0);
    world.divide(&[vec![cy.0]], &mut rng);
    world.run_made(&mut rng);
    assert!(tops(&world, cy.0).is_empty());
    act(&mut world, cy, |client| client.join("wb.cb"));
    world.run_made(&mut rng);
    assert!(world.client(cy.0, cy.1).carried.is_empty());
}

#[test]
fn a_daemon_that_is_killed_while_it_asks_leaves_nothing() {
    let (mut world, mut rng, [al, bo]) = cluster(config());
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    // The question is in the order, and has no answer.
    assert!(world.order(al.0, &mut rng));
    world.crash(al.0);
    world.divide(&[vec![bo.0]], &mut rng);
    world.run_made(&mut rng);
    assert!(tops(&world, bo.0).is_empty());
    act(&mut world, bo, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    assert_eq!(tops(&world, bo.0), ["wb.cb"]);
}

/// A word about rings is of the daemons' own order: one that comes on a ring, or that makes no
/// sense, is counted, and changes nothing.
#[test]
fn words_about_rings_of_who_may_not_say_them_are_counted_and_dropped() {
    let (mut world, mut rng, [al, bo]) = cluster(config());
    for who in [al, bo] {
        act(&mut world, who, |client| client.join_on_ring("wb.cb"));
    }
    world.run_made(&mut rng);
    let before = world.daemons[&al.0].engine.rings_made();
    let config = world.daemons[&al.0].configs[0];
    let own = |bytes: &[u8]| {
        Event::Deliver(Delivery {
            id: MessageId {
                sender: bo.0,
                number: 900,
            },
            service: Service::Agreed,
            place: Some(OrderPlace {
                config,
                seq: 1 << 50,
            }),
            payload: Bytes::copy_from_slice(bytes),
        })
    };
    // That bo is in the ring no more, as daemons say it in their own order.
    let mut said = Vec::new();
    Writer::new(&mut said).u8(NAMES).config(config).u8(REMOVE);
    Writer::new(&mut said).u8(5).put(b"wb.cb");
    let nonsense = |world: &World| world.daemons[&al.0].engine.counters().nonsense;
    let in_ring = world.daemons[&al.0].engine.status().rings[0].index;
    for (carrier, bytes) in [
        (Carrier::Ring(in_ring), &said[..]),
        (Carrier::Order, &said[..said.len() - 1]),
        (Carrier::Order, &said[..1]),
    ] {
        let before = nonsense(&world);
        let now = world.now;
        world
            .daemon(al.0)
            .engine
            .handle_event(now, carrier, own(bytes));
        assert_eq!(nonsense(&world), before + 1, "{carrier:?} {bytes:?}");
    }
    world.run_made(&mut rng);
    assert_eq!(world.daemons[&al.0].engine.rings_made(), before);
    act(&mut world, bo, |client| {
        client.publish(&["wb.cb"], Service::Agreed, b"still in it");
    });
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, al), "c2@h2>wb.cb still in it");
}

#[test]
fn halves_that_made_the_same_ring_merge() {
    let (mut world, mut rng, [al, bo]) = cluster(config());
    world.divide(&[vec![al.0], vec![bo.0]], &mut rng);
    for who in [al, bo] {
        act(&mut world, who, |client| client.join_on_ring("wb.cb"));
    }
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, bo), "wb.cb regular join: c2@h2");
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    world.reform_all(&mut rng);
    world.run_made(&mut rng);
    for who in [al, bo] {
        assert_eq!(last(&mut world, who), "wb.cb regular network: c1@h1,c2@h2");
        assert_eq!(tops(&world, who.0), ["wb.cb"]);
    }
    let [one, two] = [al, bo].map(|who| world.daemons[&who.0].engine.rings_made());
    assert_eq!(one, two);
    assert_eq!(world.judge_made(), [""; 0]);
}

#[test]
fn a_name_with_members_elsewhere_moves_to_the_ring_that_the_other_part_made() {
    let (mut world, mut rng, [al, bo, cy]) = cluster(config());
    world.divide(&[vec![al.0], vec![bo.0, cy.0]], &mut rng);
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    act(&mut world, bo, |client| client.join("page.wb.cb"));
    world.run_made(&mut rng);
    let other = world.connect(cy.0, "other");
    world.act(cy.0, other, |client| {
        let request = BusRequest::Accept {
            group: "page.wb.cb".into(),
            pattern: "t.*".into(),
            ring: false,
        };
        client.send(&ClientFrame::Bus { token: 1, request });
    });
    world.run_made(&mut rng);
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    world.reform_all(&mut rng);
    world.run_made(&mut rng);
    let story = world.client(bo.0, bo.1).story();
    let views: Vec<&str> = story.iter().rev().take(2).map(String::as_str).collect();
    assert!(
        views[0].starts_with("page.wb.cb regular join: c2@h2") || views[1].ends_with("c2@h2"),
        "{story:?}"
    );
    let leave = story
        .iter()
        .position(|line| line.starts_with("page.wb.cb regular leave"));
    assert!(leave.is_some(), "{story:?}");
    assert_eq!(world.client(bo.0, bo.1).carried["page.wb.cb"], "wb.cb");
    assert_eq!(world.client(cy.0, other).carried["page.wb.cb"], "wb.cb");
    act(&mut world, al, |client| {
        client.publish(&["page.wb.cb"], Service::Agreed, b"one ring");
    });
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, bo), "c1@h1>page.wb.cb one ring");
    // Its pattern has come along.
    assert_ne!(last(&mut world, (cy.0, other)), "c1@h1>page.wb.cb one ring");
    assert_eq!(world.judge_made(), [""; 0]);
}

#[test]
fn a_ring_claimed_at_two_addresses_has_one_outcome() {
    let (mut world, mut rng, [al, bo, cy]) = cluster(config());
    // Another ring has the address in one part only.
    world.divide(&[vec![al.0], vec![bo.0, cy.0]], &mut rng);
    act(&mut world, al, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    let first = world.daemons[&al.0].engine.rings_made()[0].clone();
    let rival = (0..)
        .map(|number| format!("r{number}"))
        .find(|name| {
            let top = name.parse().unwrap();
            let address = config().ring_pool.unwrap().address(&top, |_| false);
            address == Some(first.multicast)
        })
        .unwrap();
    act(&mut world, cy, |client| client.join_on_ring(&rival));
    world.run_made(&mut rng);
    act(&mut world, bo, |client| client.join_on_ring("wb.cb"));
    world.run_made(&mut rng);
    let second = world.daemons[&bo.0].engine.rings_made();
    assert!(second.iter().all(|ring| *ring != first) && second.len() == 2);
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    world.reform_all(&mut rng);
    world.run_made(&mut rng);
    act(&mut world, al, |client| {
        client.publish(&["wb.cb"], Service::Agreed, b"one outcome");
    });
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, bo), "c1@h1>wb.cb one outcome");
    let made = world.daemons[&cy.0].engine.rings_made();
    assert!(made.contains(&first), "the earlier stands");
    for who in [al, bo, cy] {
        assert_eq!(world.daemons[&who.0].engine.status().rings.len(), 2);
    }
    assert_eq!(world.judge_made(), [""; 0]);
}

#[test]
fn one_client_cannot_have_all_rings_made() {
    const MOST: usize = 32;
    let (mut world, mut rng, [al, bo]) = cluster(EngineConfig {
        ring_pool: Pool::new(Ipv4Addr::new(239, 192, 80, 0), 24, 4809),
        ..EngineConfig::default()
    });
    for number in 0..MOST {
        act(&mut world, al, |client| {
            client.join_on_ring(&format!("r{number}.cb"));
        });
        world.run_made(&mut rng);
    }
    assert_eq!(tops(&world, bo.0).len(), MOST);
    act(&mut world, al, |client| client.join_on_ring("more.cb"));
    world.run_made(&mut rng);
    let (_, text) = &world.client(al.0, al.1).rejected_groups[0];
    assert!(text.contains("32 rings, as many as one may"), "{text}");
    assert_eq!(tops(&world, bo.0).len(), MOST);
    // It may join rings that there are, and others may ask.
    act(&mut world, bo, |client| client.join_on_ring("more.cb"));
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, bo), "more.cb regular join: c2@h2");
    act(&mut world, al, |client| client.join_on_ring("more.cb"));
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, al), "more.cb regular join: c1@h1,c2@h2");
    for group in ["r0.cb", "more.cb"] {
        act(&mut world, al, |client| client.leave(group));
    }
    world.run_made(&mut rng);
    act(&mut world, al, |client| client.join_on_ring("last.cb"));
    world.run_made(&mut rng);
    assert_eq!(last(&mut world, al), "last.cb regular join: c1@h1");
    assert_eq!(world.judge_made(), [""; 0]);
}
