//! Connections that end, daemons that die, networks that part and meet.

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::frame::ClientFrame;
use groupcast_session::groups::Fact;
use groupcast_session::{ClientId, EngineConfig};

use super::{pair, pair_with, story};
use crate::world::World;

#[test]
fn a_connection_that_ends_is_a_disconnect_and_what_it_sent_before_counts() {
    let (mut world, mut rng, [al, bo]) = pair();
    for who in [al, bo] {
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
    }
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"last words");
    });
    world.vanish(al.0, al.1);
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, bo),
        [
            "g regular join: al@h1,bo@h2",
            "al@h1>g last words",
            "g regular disconnect: bo@h2",
        ]
    );
    let status = world.daemon(al.0).engine.status();
    assert!(status.clients.is_empty());
    assert_eq!(status.input, 0);
}

#[test]
fn a_crash_is_seen_as_a_transition_and_a_network_view() {
    let (mut world, mut rng, [al, bo]) = pair();
    for who in [al, bo] {
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
    }
    world.crash(al.0);
    world.divide(&[vec![bo.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, bo)[1..],
        ["g transitional network: bo@h2", "g regular network: bo@h2",]
    );
    let one = world.start(1);
    world.divide(&[vec![one, bo.0]], &mut rng);
    world.run(&mut rng);
    let al = (one, world.connect(one, "al"));
    world.act(al.0, al.1, |client| client.join("g"));
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, bo)[3..],
        [
            "g transitional network: bo@h2",
            "g regular network: bo@h2",
            "g regular join: al@h1,bo@h2",
        ]
    );
}

#[test]
fn components_go_on_alone_and_merge_without_replay() {
    let (mut world, mut rng, [al, bo]) = pair();
    for who in [al, bo] {
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
    }
    world.divide(&[vec![al.0], vec![bo.0]], &mut rng);
    world.run(&mut rng);
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"apart");
        client.join("only al's");
    });
    world.run(&mut rng);
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    world.act(al.0, al.1, |client| {
        client.publish(&["only al's", "g"], Service::Agreed, b"together");
    });
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, bo)[1..],
        [
            "g transitional network: bo@h2",
            "g regular network: bo@h2",
            "g transitional network: bo@h2",
            "g regular network: al@h1,bo@h2",
            "al@h1>g together",
        ]
    );
    let last = |world: &mut World, who: (MemberId, ClientId)| {
        let mut views = world.client(who.0, who.1).views().rev();
        views.find(|view| &*view.group == "g").unwrap().clone()
    };
    assert_eq!(last(&mut world, al), last(&mut world, bo));
    let groups = world.daemon(bo.0).engine.groups();
    let names: Vec<_> = groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["g", "only al's"]);
}

/// Daemon 1, whose client has published two messages that are still in its queue, meets daemon 2,
/// where a client is subscribed, and daemon 3. The first message is ordered before any state, then
/// daemon 3 is lost.
fn interrupted(vanishes: bool) -> (World, Rng, [(MemberId, ClientId); 2]) {
    let mut world = World::new(3);
    let mut rng = Rng::new(3);
    let [one, two, three] = [1, 2, 3].map(|host| world.member(host));
    world.divide(&[vec![one], vec![two], vec![three]], &mut rng);
    world.run(&mut rng);
    let al = (one, world.connect(one, "al"));
    let bo = (two, world.connect(two, "bo"));
    world.act(bo.0, bo.1, |client| client.join("g"));
    world.act(al.0, al.1, |client| client.join("unrelated"));
    world.run(&mut rng);
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"held 1");
        client.publish(&["g"], Service::Agreed, b"held 2");
    });
    if vanishes {
        world.vanish(al.0, al.1);
    }
    world.divide(&[vec![one, two, three]], &mut rng);
    while world.deliver(one) {}
    // What binds "g" comes first; with the client's disconnect, all that it asked for is ordered.
    for _ in 0..if vanishes { 4 } else { 2 } {
        assert!(world.order(one, &mut rng));
    }
    for member in [one, two, three] {
        while world.deliver(member) {}
    }
    assert_eq!(world.daemon(two).engine.status().phase.name(), "exchanging");
    (world, rng, [al, bo])
}

/// What was ordered before the states is held, in a configuration that ends before they are
/// exchanged, and still reaches a subscriber that came to the publisher in that configuration and
/// stayed.
#[test]
fn what_is_held_in_an_interrupted_exchange_is_delivered_by_the_next() {
    let (mut world, mut rng, [al, bo]) = interrupted(false);
    assert_eq!(world.client(al.0, al.1).accepted, 0);
    let three = world.member(3);
    world.divide(&[vec![al.0, bo.0], vec![three]], &mut rng);
    world.run(&mut rng);
    let held = ["al@h1>g held 1", "al@h1>g held 2"];
    let seen = story(&mut world, bo);
    let messages = seen.iter().filter(|line| line.contains("held"));
    assert_eq!(messages.collect::<Vec<_>>(), held);
    assert_eq!(world.client(al.0, al.1).accepted, 2);
    let facts = &world.daemon(bo.0).facts;
    let interrupted = |fact: &Fact| matches!(fact, Fact::Interrupted { .. });
    assert!(facts.iter().any(interrupted));
}

/// The example in the documentation of configuration changes.
#[test]
fn an_interrupted_exchange_is_an_extension_of_the_transition_before_it() {
    let mut world = World::new(3);
    let mut rng = Rng::new(3);
    let [one, two, three] = [1, 2, 3].map(|host| world.member(host));
    world.divide(&[vec![one, two], vec![three]], &mut rng);
    world.run(&mut rng);
    let clients = [(one, "al"), (two, "bo"), (three, "cy")].map(|(member, name)| {
        let who = (member, world.connect(member, name));
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
        who
    });
    let bo = clients[1];
    world.act(bo.0, bo.1, |client| {
        client.publish(&["g"], Service::Agreed, b"hello");
    });
    world.divide(&[vec![one, two, three]], &mut rng);
    for member in [one, two, three] {
        while world.deliver(member) {}
    }
    // The state of h1, bo's message, the state of h2.
    for member in [one, two, two] {
        assert!(world.order(member, &mut rng));
    }
    for member in [one, two, three] {
        while world.deliver(member) {}
    }
    world.divide(&[vec![one, two], vec![three]], &mut rng);
    world.run(&mut rng);

    let end = |members: &str| {
        [
            format!("g transitional network: {members}"),
            format!("g transitional network: {members}"),
            "bo@h2>g hello".to_owned(),
            format!("g regular network: {members}"),
        ]
    };
    let both = end("al@h1,bo@h2");
    assert!(story(&mut world, clients[0]).ends_with(&both));
    assert!(story(&mut world, bo).ends_with(&both));
    assert!(story(&mut world, clients[2]).ends_with(&end("cy@h3")));
    let id = |world: &mut World, (member, id): (MemberId, ClientId)| {
        let mut views = world.client(member, id).views().rev();
        views.nth(1).expect("there are four").id
    };
    let [al, bo, cy] = clients.map(|who| id(&mut world, who));
    assert_eq!(al, bo);
    assert_eq!((al.config, al.seq), (cy.config, cy.seq));
    assert_ne!(al, cy, "they have other members");
}

/// The state that follows does not have the client any more, but still its name.
#[test]
fn what_is_held_of_a_client_that_vanished_is_delivered_too() {
    let (mut world, mut rng, [al, bo]) = interrupted(true);
    let three = world.member(3);
    world.divide(&[vec![al.0, bo.0], vec![three]], &mut rng);
    world.run(&mut rng);
    let held = ["al@h1>g held 1", "al@h1>g held 2"];
    let seen = story(&mut world, bo);
    let messages = seen.iter().filter(|line| line.contains("held"));
    assert_eq!(messages.collect::<Vec<_>>(), held);
    assert_eq!(world.daemon(bo.0).engine.counters().nonsense, 0);
}

/// So what must be held is bounded by what the daemons had handed to the ring before.
#[test]
fn no_clients_message_is_handed_over_while_states_are_exchanged() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    while world.deliver(al.0) {}
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"waits");
    });
    assert!(world.order(al.0, &mut rng), "its state");
    assert!(!world.order(al.0, &mut rng), "and nothing else");
    world.run(&mut rng);
    assert_eq!(world.client(al.0, al.1).accepted, 1);
}

/// Joins wait when there are many. Those of a client that is gone do not: it would leave the groups
/// at once. A client that says good-bye gets what it asked for.
#[test]
fn joins_that_wait_go_with_a_client_that_vanishes() {
    const GROUPS: usize = 40;
    for vanishes in [true, false] {
        let (mut world, mut rng, [al, bo]) = pair();
        for (client, run) in [(bo, true), (al, false)] {
            world.act(client.0, client.1, |client| {
                for number in 0..GROUPS {
                    client.join(&format!("g{number}"));
                }
            });
            if run {
                world.run(&mut rng);
            }
        }
        match vanishes {
            true => world.vanish(al.0, al.1),
            false => world.act(al.0, al.1, |client| client.send(&ClientFrame::Bye)),
        }
        world.run(&mut rng);
        let seen = story(&mut world, bo);
        let count = |what: &str| seen.iter().filter(|line| line.contains(what)).count();
        let joins = count("join: al@h1,");
        assert_eq!(joins == GROUPS, !vanishes, "{joins} joins");
        assert!(joins > 0 && count("disconnect: bo@h2") == joins);
        let status = world.daemon(al.0).engine.status();
        assert_eq!((status.clients.len(), status.input), (0, 0));
    }
}

/// To take a client out of thousands of groups at once would keep a daemon from everything else for
/// tens of milliseconds. Others' messages go between the parts, and everybody sees each group once.
#[test]
fn who_leaves_many_groups_leaves_them_in_parts() {
    const GROUPS: usize = 60;
    const PART: usize = 25;
    for vanishes in [true, false] {
        let (mut world, mut rng, [al, bo]) = pair_with(EngineConfig {
            groups_left_at_once: PART,
            ..EngineConfig::default()
        });
        for client in [bo, al] {
            world.act(client.0, client.1, |client| {
                for number in 0..GROUPS {
                    client.join(&format!("g{number}"));
                }
                client.join("g0");
            });
            world.run(&mut rng);
        }
        let before = story(&mut world, bo).len();
        match vanishes {
            true => world.vanish(al.0, al.1),
            false => world.act(al.0, al.1, |client| client.send(&ClientFrame::Bye)),
        }
        let mut parts = Vec::new();
        while world.order(al.0, &mut rng) {
            world.act(bo.0, bo.1, |client| {
                let text = format!("after {} parts", parts.len());
                client.publish(&["g0"], Service::Agreed, text.as_bytes());
            });
            let seen = story(&mut world, bo).len();
            while world.deliver(bo.0) {}
            parts.push(story(&mut world, bo).len() - seen);
            world.order(bo.0, &mut rng);
            for member in [al.0, bo.0] {
                while world.deliver(member) {}
            }
        }
        let seen = story(&mut world, bo).split_off(before);
        let (left, rest): (Vec<_>, Vec<_>) = seen
            .into_iter()
            .partition(|line| line.ends_with(" regular disconnect: bo@h2"));
        let mut groups: Vec<&str> = left
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!((left.len(), groups.len()), (GROUPS, GROUPS));
        assert!(
            rest.iter().all(|line| line.starts_with("bo@h2>g0 after ")),
            "{rest:?}"
        );
        assert_eq!(rest.len(), parts.len());
        assert!(
            parts.len() > 2 && parts.iter().all(|part| *part <= PART),
            "{parts:?}"
        );
        let status = world.daemon(al.0).engine.status();
        assert_eq!((status.clients.len(), status.input), (0, 0));
    }
}
