//! What happens while daemons agree on their groups again, event by event: transitions at odd
//! moments, more than may be held, messages that come before what they rest on.

use groupcast_core::{Configuration, ConfigurationKind, Event, MemberId, Rng, Service};
use groupcast_session::frame::Disconnect;
use groupcast_session::groups::{Carrier, Fact};
use groupcast_session::{ClientId, EngineConfig};

use super::{pair, pair_with, story};
use crate::world::World;

fn all(world: &mut World, members: &[MemberId]) {
    for member in members {
        while world.deliver(*member) {}
    }
}

/// Hands `event` to a daemon as what its ring says next.
fn say(world: &mut World, member: MemberId, event: Event) {
    let now = world.now;
    let daemon = world.daemon(member);
    daemon.engine.handle_event(now, Carrier::Order, event);
    world.settle(member);
}

fn kind(event: &Event) -> Option<ConfigurationKind> {
    match event {
        Event::Configuration(configuration) => Some(configuration.kind),
        _ => None,
    }
}

/// Both clients are in the group g.
fn joined() -> (World, Rng, [(MemberId, ClientId); 2]) {
    let (mut world, mut rng, clients) = pair();
    for who in clients {
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
    }
    (world, rng, clients)
}

#[test]
fn who_joins_between_two_messages_of_one_kind_gets_the_second() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"first");
    });
    world.act(bo.0, bo.1, |client| client.join("g"));
    world.run(&mut rng);
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"second");
    });
    world.run(&mut rng);
    let end = ["g regular join: bo@h2", "al@h1>g second"];
    assert!(story(&mut world, bo).ends_with(&end.map(String::from)));
}

/// Daemons 1 and 2 meet while long messages and a join of al's wait in the ring's queue. Bytes
/// that daemon 2 holds when all of it has come, and whether bo is connected then.
fn held(held_max: usize) -> (World, [MemberId; 2], usize, bool) {
    let config = EngineConfig {
        held_max,
        ..EngineConfig::default()
    };
    let mut world = World::with_config(2, config);
    let mut rng = Rng::new(4);
    let [one, two] = [1, 2].map(|host| world.member(host));
    world.divide(&[vec![one], vec![two]], &mut rng);
    world.run(&mut rng);
    let al = (one, world.connect(one, "al"));
    let bo = (two, world.connect(two, "bo"));
    for group in ["g", "h"] {
        world.act(bo.0, bo.1, |client| client.join(group));
        world.run(&mut rng);
    }
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, &[1; 4_000]);
        client.publish(&["g"], Service::Agreed, &[2; 4_000]);
        client.join("h");
        client.publish(&["g"], Service::Agreed, &[3; 4_000]);
    });
    world.divide(&[vec![one, two]], &mut rng);
    all(&mut world, &[one, two]);
    // Three names, three messages, and a join.
    (0..7).for_each(|_| assert!(world.order(one, &mut rng)));
    all(&mut world, &[one, two]);
    let status = world.daemon(two).engine.status();
    assert_eq!(status.phase.name(), "exchanging");
    let connected = world.client(bo.0, bo.1).disconnected.is_none();
    (world, [one, two], status.held, connected)
}

#[test]
fn when_more_is_held_than_may_be_all_clients_go_and_memberships_stay() {
    let (world, ..) = held(1 << 20);
    let bytes = |world: &World| {
        let daemon = world.daemons.values().next_back().expect("it runs");
        daemon.engine.status().held
    };
    let most = bytes(&world);
    assert!((12_000..13_000).contains(&most), "{most} bytes");
    let (mut world, [_, two], ..) = held(most);
    assert_eq!(world.daemon(two).engine.status().held, most);
    let clients = &world.daemon(two).clients;
    assert!(clients.values().all(|client| client.disconnected.is_none()));

    let (mut world, [one, two], left, connected) = held(5_000);
    assert!(!connected);
    let clients = world.daemon(two).clients.values();
    let ends: Vec<_> = clients.filter_map(|it| it.disconnected.clone()).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].0, Disconnect::Overload);
    assert!(ends[0].1.contains("more than may be held"), "{}", ends[0].1);
    let facts = &world.daemon(two).facts;
    let too_much = |fact: &Fact| matches!(fact, Fact::HeldTooMuch { bytes } if *bytes > 5_000);
    assert_eq!(facts.iter().filter(|fact| too_much(fact)).count(), 1);
    assert!(left < 1_000, "{left} bytes: data is let go");
    // Both states; the clients' last words are not ordered yet.
    let mut rng = Rng::new(5);
    assert!(world.order(one, &mut rng) && world.order(two, &mut rng));
    all(&mut world, &[one, two]);
    let groups = world.daemon(two).engine.groups();
    let h = groups.iter().find(|group| &*group.name == "h");
    let members = h.expect("the join was held").members.iter();
    let members: Vec<&str> = members.map(|member| &**member).collect();
    assert_eq!(members, ["al@h1", "bo@h2"]);
    assert_eq!(world.daemon(two).engine.counters().nonsense, 0);
}

#[test]
fn a_message_before_any_configuration_is_nonsense() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"early");
    });
    while world.order(al.0, &mut rng) {}
    let event = world.daemon(bo.0).inbox.pop_back().expect("it is ordered");
    let new = world.start(3);
    say(&mut world, new, event);
    assert_eq!(world.daemon(new).engine.counters().nonsense, 1);
}

#[test]
fn a_daemon_that_has_left_installs_nothing() {
    let (mut world, _, [al, _]) = pair();
    say(&mut world, al.0, Event::Left);
    let regular = Configuration {
        kind: ConfigurationKind::Regular,
        id: world.daemon(al.0).configs[0],
        members: vec![al.0],
        left: Vec::new(),
    };
    say(&mut world, al.0, Event::Configuration(regular));
    let phase = world.daemon(al.0).engine.status().phase;
    assert_eq!(phase.name(), "stopped");
}

#[test]
fn a_message_that_is_reported_lost_is_not_waited_for_and_others_gaps_are_theirs() {
    let (mut world, mut rng, [al, bo]) = pair();
    for who in [al, bo] {
        world.act(who.0, who.1, |client| {
            client.publish(&["g"], Service::Majority, b"m");
        });
    }
    // Names come first.
    (0..2).for_each(|_| assert!(world.order(al.0, &mut rng)));
    world.refuse(al.0);
    let gap = world.daemon(al.0).inbox.back().expect("just now").clone();
    say(&mut world, bo.0, gap);
    assert!(world.client(bo.0, bo.1).rejected.is_empty());
    world.run(&mut rng);
    assert_eq!(world.client(bo.0, bo.1).accepted, 1);
    assert_eq!(world.client(al.0, al.1).rejected.len(), 1);
    let clients = world.daemon(al.0).engine.status().clients;
    assert_eq!(clients[0].unaccepted, 0);
}

/// The last state may come behind the end of its configuration.
#[test]
fn a_transition_before_the_last_state_is_shown_before_what_follows_that_state() {
    let (mut world, mut rng, [al, bo]) = joined();
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    all(&mut world, &[al.0, bo.0]);
    assert!(world.order(al.0, &mut rng) && world.order(bo.0, &mut rng));
    let states: Vec<Event> = world.daemon(al.0).inbox.drain(..).collect();
    let [first, last] = <[Event; 2]>::try_from(states).expect("two states");
    let config = world
        .daemon(al.0)
        .engine
        .status()
        .config
        .expect("there is one");
    say(&mut world, al.0, first);
    let transition = Configuration {
        kind: ConfigurationKind::Transitional,
        id: config,
        members: vec![al.0],
        left: Vec::new(),
    };
    say(&mut world, al.0, Event::Configuration(transition));
    say(&mut world, al.0, last);
    let end = [
        "g regular network: al@h1,bo@h2",
        "g transitional network: al@h1",
    ];
    let seen = story(&mut world, al);
    assert!(seen.ends_with(&end.map(String::from)), "{seen:?}");
    let view = world
        .client(al.0, al.1)
        .views()
        .next_back()
        .expect("just now");
    assert_eq!((view.id.config, view.id.seq), (config, 0));
}

#[test]
fn what_happens_at_daemons_that_do_not_come_along_is_not_shown() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| client.join("g"));
    world.run(&mut rng);
    world.act(bo.0, bo.1, |client| client.join("g"));
    while world.order(bo.0, &mut rng) {}
    let joins: Vec<Event> = world.daemon(al.0).inbox.drain(..).collect();
    let transition = Configuration {
        kind: ConfigurationKind::Transitional,
        id: world.daemon(al.0).configs[0],
        members: vec![al.0],
        left: Vec::new(),
    };
    say(&mut world, al.0, Event::Configuration(transition));
    for event in joins {
        say(&mut world, al.0, event);
    }
    let seen = ["g regular join: al@h1", "g transitional network: al@h1"];
    assert_eq!(story(&mut world, al), seen);
    assert_eq!(world.daemon(al.0).engine.counters().nonsense, 0);
}

/// Daemons 1 and 2, with 3 or without, are in a configuration whose exchange is interrupted, and
/// then all three in another. What a ring says of the first one's end is left out as `skips` says.
fn three(skips: impl Fn(&Event) -> bool) -> Vec<String> {
    let mut world = World::new(3);
    let mut rng = Rng::new(6);
    let [one, two, three] = [1, 2, 3].map(|host| world.member(host));
    world.divide(&[vec![one, two, three]], &mut rng);
    world.run(&mut rng);
    let clients = [(one, "al"), (two, "bo"), (three, "cy")].map(|(member, name)| {
        let who = (member, world.connect(member, name));
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
        who
    });
    world.divide(&[vec![one, two, three]], &mut rng);
    all(&mut world, &[one, two, three]);
    world.divide(&[vec![one, two], vec![three]], &mut rng);
    world.divide(&[vec![one, two, three]], &mut rng);
    for member in [one, two] {
        let inbox = &mut world.daemon(member).inbox;
        let kinds: Vec<_> = inbox.iter().map(kind).collect();
        let [transitional, regular] = [
            Some(ConfigurationKind::Transitional),
            Some(ConfigurationKind::Regular),
        ];
        assert_eq!(kinds, [transitional, regular, transitional, regular]);
        // They never were in a configuration without the third.
        inbox.drain(1..3);
        inbox.retain(|event| !skips(event));
    }
    world.run(&mut rng);
    story(&mut world, clients[0])
}

#[test]
fn who_came_along_through_the_transition_counts_not_who_is_in_the_next_configuration() {
    let seen = three(|_| false);
    let end = [
        "g transitional network: al@h1,bo@h2,cy@h3",
        "g transitional network: al@h1,bo@h2",
        "g regular network: al@h1,bo@h2,cy@h3",
    ];
    assert!(seen.ends_with(&end.map(String::from)), "{seen:?}");
}

#[test]
fn a_configuration_that_ends_without_a_transition_is_taken_to_have_had_one() {
    let transitional = |event: &Event| kind(event) == Some(ConfigurationKind::Transitional);
    let seen = three(transitional);
    let end = [
        "g transitional network: al@h1,bo@h2,cy@h3",
        "g transitional network: al@h1,bo@h2,cy@h3",
        "g regular network: al@h1,bo@h2,cy@h3",
    ];
    assert!(seen.ends_with(&end.map(String::from)), "{seen:?}");

    let (mut world, mut rng, [al, bo]) = joined();
    world.divide(&[vec![al.0], vec![bo.0]], &mut rng);
    world
        .daemon(al.0)
        .inbox
        .retain(|event| !transitional(event));
    world.run(&mut rng);
    let end = ["g transitional network: al@h1", "g regular network: al@h1"];
    let seen = story(&mut world, al);
    assert!(seen.ends_with(&end.map(String::from)), "{seen:?}");
}

#[test]
fn who_is_not_in_the_next_configuration_did_not_come_along() {
    let (mut world, mut rng, [al, bo]) = joined();
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    all(&mut world, &[al.0, bo.0]);
    world.divide(&[vec![al.0], vec![bo.0]], &mut rng);
    let transitional = |event: &Event| kind(event) == Some(ConfigurationKind::Transitional);
    let inbox = &mut world.daemon(al.0).inbox;
    inbox.retain(|event| !transitional(event));
    world.run(&mut rng);
    let end = [
        "g transitional network: al@h1,bo@h2",
        "g transitional network: al@h1",
        "g regular network: al@h1",
    ];
    let seen = story(&mut world, al);
    assert!(seen.ends_with(&end.map(String::from)), "{seen:?}");
    let views: Vec<_> = world.client(al.0, al.1).views().collect();
    assert!(
        views[views.len() - 3..views.len() - 1]
            .iter()
            .all(|view| view.id.seq == 0)
    );
}

#[test]
fn an_unreliable_message_does_not_wait_for_states() {
    let (mut world, mut rng, [al, bo]) = joined();
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Unreliable, b"now");
    });
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    all(&mut world, &[al.0, bo.0]);
    assert!(world.order(al.0, &mut rng));
    all(&mut world, &[al.0]);
    assert_eq!(
        world.daemon(al.0).engine.status().phase.name(),
        "exchanging"
    );
    let seen = story(&mut world, al);
    assert_eq!(seen.last().map(String::as_str), Some("al@h1>g now"));
}

/// al's daemon has not heard yet what the numbers of bo's daemon mean. bo's message that names them
/// comes early.
fn ahead() -> (World, Rng, [(MemberId, ClientId); 2]) {
    ahead_with(EngineConfig::default())
}

fn ahead_with(config: EngineConfig) -> (World, Rng, [(MemberId, ClientId); 2]) {
    let (mut world, mut rng, [al, bo]) = pair_with(config);
    world.act(al.0, al.1, |client| client.join("g"));
    world.act(bo.0, bo.1, |client| {
        client.publish(&["other"], Service::Agreed, b"my name");
    });
    world.run(&mut rng);
    world.early = true;
    world.act(bo.0, bo.1, |client| {
        client.publish(&["g"], Service::Agreed, b"names");
    });
    while world.order(bo.0, &mut rng) {}
    all(&mut world, &[bo.0]);
    world.act(bo.0, bo.1, |client| {
        client.publish(&["g"], Service::Reliable, b"early");
    });
    assert!(world.order(bo.0, &mut rng));
    let inbox = &mut world.daemon(al.0).inbox;
    let early = |event: &Event| matches!(event, Event::Deliver(it) if it.place.is_none());
    let at = inbox.iter().position(early).expect("it is on its way");
    let event = inbox.remove(at).expect("it is there");
    inbox.push_front(event);
    (world, rng, [al, bo])
}

#[test]
fn a_message_that_comes_before_the_names_in_it_is_delivered_when_they_have_come() {
    let (mut world, mut rng, [al, _]) = ahead();
    assert!(world.deliver(al.0));
    assert_eq!(story(&mut world, al), ["g regular join: al@h1"]);
    world.run(&mut rng);
    let seen = story(&mut world, al);
    assert_eq!(seen[1..], ["bo@h2>g early", "bo@h2>g names"]);
    assert_eq!(world.daemon(al.0).engine.counters().nonsense, 0);
}

#[test]
fn a_state_brings_the_names_too() {
    let (mut world, mut rng, [al, bo]) = ahead();
    assert!(world.deliver(al.0));
    world.daemon(al.0).inbox.clear();
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    let seen = story(&mut world, al);
    assert!(seen.contains(&"bo@h2>g early".to_owned()), "{seen:?}");
}

#[test]
fn messages_that_wait_for_names_keep_their_order() {
    let (mut world, mut rng, [al, bo]) = ahead();
    let mut inbox = std::mem::take(&mut world.daemon(al.0).inbox);
    world.act(bo.0, bo.1, |client| {
        client.publish(&["g"], Service::Fifo, b"one");
        client.publish(&["g"], Service::Fifo, b"two");
    });
    while world.order(bo.0, &mut rng) {}
    all(&mut world, &[al.0]);
    assert_eq!(story(&mut world, al).len(), 1);
    world.daemon(al.0).inbox.append(&mut inbox);
    world.run(&mut rng);
    let seen = story(&mut world, al);
    let place = |line: &str| seen.iter().position(|seen| seen == line);
    let (one, two) = (place("bo@h2>g one"), place("bo@h2>g two"));
    assert!(one.is_some() && one < two, "{seen:?}");
}

#[test]
fn an_unreliable_message_whose_names_are_not_known_is_dropped() {
    let (mut world, mut rng, [al, _]) = ahead();
    let mut event = world.daemon(al.0).inbox[0].clone();
    if let Event::Deliver(delivery) = &mut event {
        delivery.service = Service::Unreliable;
    }
    say(&mut world, al.0, event);
    assert_eq!(world.daemon(al.0).engine.counters().unreliable_dropped, 1);
    world.daemon(al.0).inbox.pop_front();
    world.run(&mut rng);
    let seen = story(&mut world, al);
    assert!(!seen.contains(&"bo@h2>g early".to_owned()), "{seen:?}");
}

#[test]
fn messages_that_wait_for_names_are_bounded_and_go_with_their_daemon() {
    let held_max = 64 << 10;
    let (mut world, mut rng, [al, bo]) = ahead_with(EngineConfig {
        held_max,
        ..EngineConfig::default()
    });
    let event = world.daemon(al.0).inbox[0].clone();
    let Event::Deliver(delivery) = &event else {
        panic!("{event:?}");
    };
    let fit = held_max / delivery.payload.len();
    let refused = |world: &mut World| world.daemon(al.0).engine.counters().nonsense;
    for _ in 0..=fit {
        say(&mut world, al.0, event.clone());
    }
    let before = refused(&mut world);
    assert!(before > 0 && before < fit as u64, "{before} of {fit}");
    world.daemon(al.0).inbox.clear();
    world.crash(bo.0);
    world.divide(&[vec![al.0]], &mut rng);
    world.run(&mut rng);
    world.act(al.0, al.1, |client| client.join("h"));
    world.run(&mut rng);
    for _ in 0..fit as u64 - before {
        say(&mut world, al.0, event.clone());
    }
    assert_eq!(refused(&mut world), before);
}
