//! Groups over a few daemons: one behaviour a test, the whole story of what a client saw.

mod world;

use bytes::Bytes;
use groupcast_core::{Delivery, Event, MemberId, MessageId, Place, Rng, Service};
use groupcast_session::frame::{ClientFrame, ClientKind, Disconnect, Hello, MAGIC, Refusal};
use groupcast_session::groups::{Fact, Transport};
use groupcast_session::{ClientId, EngineConfig};
use world::World;
use world::client::TestClient;

/// Two daemons in one configuration, with a client each.
fn pair() -> (World, Rng, [(MemberId, ClientId); 2]) {
    let mut world = World::new(2);
    let mut rng = Rng::new(1);
    let (one, two) = (world.member(1), world.member(2));
    world.divide(&[vec![one, two]], &mut rng);
    world.run(&mut rng);
    let al = (one, world.connect(one, "al"));
    let bo = (two, world.connect(two, "bo"));
    (world, rng, [al, bo])
}

fn story(world: &mut World, (member, id): (MemberId, ClientId)) -> Vec<String> {
    world.client(member, id).story()
}

#[test]
fn members_see_joins_messages_and_leaves_in_one_order() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| client.join("g"));
    world.run(&mut rng);
    world.act(bo.0, bo.1, |client| client.join("g"));
    world.run(&mut rng);
    world.act(bo.0, bo.1, |client| {
        client.publish(&["g"], Service::Agreed, b"hello");
    });
    world.run(&mut rng);
    world.act(al.0, al.1, |client| client.leave("g"));
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, al),
        [
            "g regular join: al@h1",
            "g regular join: al@h1,bo@h2",
            "bo@h2>g hello",
            "g regular leave: bo@h2",
        ]
    );
    assert_eq!(story(&mut world, bo)[..], story(&mut world, al)[1..]);
    assert_eq!(world.client(bo.0, bo.1).accepted, 1);
    let views = |world: &mut World, who: (MemberId, ClientId)| {
        let views = world.client(who.0, who.1).views().cloned();
        views.collect::<Vec<_>>()
    };
    assert_eq!(views(&mut world, bo)[..], views(&mut world, al)[1..]);
}

#[test]
fn groups_are_open_and_a_message_to_several_comes_once_by_the_first() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| {
        client.join("b");
        client.join("c");
    });
    world.run(&mut rng);
    world.act(bo.0, bo.1, |client| {
        client.publish(&["a", "c", "b"], Service::Safe, b"several");
        client.publish(&["a"], Service::Fifo, b"nobody");
    });
    world.run(&mut rng);
    let messages: Vec<_> = world.client(al.0, al.1).messages().cloned().collect();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].group(), "c");
    assert_eq!(messages[0].service, Service::Safe);
    assert_eq!(
        messages[0].destinations.iter().collect::<Vec<_>>(),
        ["a", "c", "b"]
    );
    assert_eq!(world.client(bo.0, bo.1).accepted, 2);
}

#[test]
fn private_messages_reach_one_client() {
    let (mut world, mut rng, [al, bo]) = pair();
    let cy = (bo.0, world.connect(bo.0, "cy"));
    world.act(al.0, al.1, |client| {
        client.publish(&["bo@h2"], Service::Agreed, b"for bo");
        client.publish(&["nobody@h2"], Service::Agreed, b"for nobody");
        client.publish(&["al@h1"], Service::Agreed, b"for me");
    });
    world.run(&mut rng);
    assert_eq!(story(&mut world, bo), ["al@h1>bo@h2 for bo"]);
    assert_eq!(story(&mut world, al), ["al@h1>al@h1 for me"]);
    assert!(story(&mut world, cy).is_empty());
    assert_eq!(world.client(al.0, al.1).accepted, 3);
}

#[test]
fn own_messages_can_be_left_out() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| {
        client.send(&ClientFrame::Join {
            group: "g".into(),
            discard_own: true,
        });
        client.publish(&["g"], Service::Agreed, b"mine");
    });
    world.act(bo.0, bo.1, |client| {
        client.publish(&["g"], Service::Agreed, b"another's");
    });
    world.run(&mut rng);
    assert!(story(&mut world, al).contains(&"bo@h2>g another's".into()));
    assert!(!story(&mut world, al).contains(&"al@h1>g mine".into()));
    assert_eq!(world.client(al.0, al.1).accepted, 1);
}

/// A daemon remembers where the last message went. All of these begin alike, and each goes somewhere else.
#[test]
fn messages_that_begin_alike_follow_every_change_between_them() {
    type Change<'a> = &'a dyn Fn(&mut TestClient);
    let (mut world, mut rng, [al, bo]) = pair();
    let discarding = ClientFrame::Join {
        group: "g".into(),
        discard_own: true,
    };
    let steps: [(&str, (MemberId, ClientId), Change<'_>); 5] = [
        ("bo joins", bo, &|client| client.join("g")),
        ("al joins", al, &|client| client.join("g")),
        ("al discards", al, &|client| client.send(&discarding)),
        ("bo leaves", bo, &|client| client.leave("g")),
        ("bo is back", bo, &|client| client.join("g")),
    ];
    for (step, (daemon, client), change) in steps {
        world.act(daemon, client, change);
        world.run(&mut rng);
        for time in ["", " still"] {
            world.act(al.0, al.1, |client| {
                client.publish(&["g"], Service::Agreed, format!("{step}{time}").as_bytes());
            });
            world.run(&mut rng);
        }
    }
    let mut heard = |who| {
        let mut story = story(&mut world, who);
        story.retain(|line| line.contains('>'));
        story
    };
    let of_al = |steps: &[&str]| -> Vec<String> {
        let twice = |step: &&str| [format!("al@h1>g {step}"), format!("al@h1>g {step} still")];
        steps.iter().flat_map(twice).collect()
    };
    let four = ["bo joins", "al joins", "al discards", "bo is back"];
    assert_eq!(heard(bo), of_al(&four));
    assert_eq!(heard(al), of_al(&["al joins"]));
}

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

/// Daemon 1, whose client has published two messages that are still in its queue, meets daemon 2, where a client is
/// subscribed, and daemon 3. The first message is ordered before any state, then daemon 3 is lost.
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

/// What was ordered before the states is held, in a configuration that ends before they are exchanged, and still reaches
/// a subscriber that came to the publisher in that configuration and stayed.
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

#[test]
fn names_are_unique_at_a_daemon_and_free_again_when_their_client_is_gone() {
    let (mut world, mut rng, [al, _]) = pair();
    let other = world.connect(al.0, "al");
    let (code, text) = world.client(al.0, other).refused.clone().unwrap();
    assert_eq!(code, Refusal::NameInUse);
    assert!(text.contains("choose another name"), "{text}");
    assert!(!world.client(al.0, other).open);
    // The name of a client that is leaving is waited for.
    world.act(al.0, al.1, |client| client.join("g"));
    world.vanish(al.0, al.1);
    let again = world.connect(al.0, "al");
    assert!(world.client(al.0, again).welcome.is_none());
    world.run(&mut rng);
    let welcome = world.client(al.0, again).welcome.clone().unwrap();
    assert_eq!(welcome.private_name, "al@h1");
    // Without a name the daemon makes one.
    let nameless = world.connect(al.0, "");
    assert!(
        world
            .client(al.0, nameless)
            .welcome
            .as_ref()
            .is_some_and(|welcome| welcome.private_name.ends_with("@h1"))
    );
}

#[test]
fn bye_waits_for_acceptance() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(bo.0, bo.1, |client| client.join("g"));
    world.run(&mut rng);
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Safe, b"first");
        client.send(&ClientFrame::Bye);
    });
    assert!(world.client(al.0, al.1).disconnected.is_none());
    world.run(&mut rng);
    let client = world.client(al.0, al.1);
    assert_eq!(client.accepted, 1);
    assert_eq!(client.disconnected.clone().unwrap().0, Disconnect::Bye);
    assert!(!client.open);
    assert!(story(&mut world, bo).contains(&"al@h1>g first".into()));
}

#[test]
fn bad_names_are_rejected_with_a_text_and_the_rest_goes_on() {
    let (mut world, mut rng, [al, _]) = pair();
    world.act(al.0, al.1, |client| {
        client.join("a@b");
        client.publish(&["tab\there"], Service::Agreed, b"bad");
        client.publish(&["g"], Service::Agreed, b"good");
    });
    world.run(&mut rng);
    let client = world.client(al.0, al.1);
    assert!(client.rejected_groups[0].1.contains("private names"));
    assert!(client.rejected[&1].contains("control characters"));
    assert_eq!(client.accepted, 2);
    assert_eq!(client.outstanding, 0, "all credit came back");
}

#[test]
fn unreliable_messages_are_accepted_when_handed_over_and_have_no_place() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(bo.0, bo.1, |client| client.join("g"));
    world.run(&mut rng);
    for number in 0..20u8 {
        world.act(al.0, al.1, |client| {
            client.publish(
                &["g", "h"],
                Service::Unreliable,
                &[b'u', number, b'.', b'.'],
            );
        });
        world.run(&mut rng);
    }
    assert_eq!(world.client(al.0, al.1).accepted, 20);
    let client = world.client(bo.0, bo.1);
    assert!(client.messages().count() > 0, "most arrive");
    assert!(
        client
            .messages()
            .all(|message| message.place.is_none() && message.group() == "g")
    );
}

#[test]
fn an_unreliable_message_that_overtakes_its_bindings_can_be_read() {
    for seed in 0..20 {
        let (mut world, _, [al, bo]) = pair();
        let mut rng = Rng::new(seed);
        world.act(bo.0, bo.1, |client| client.join("g"));
        world.run(&mut rng);
        world.act(al.0, al.1, |client| {
            client.publish(&["g"], Service::Unreliable, b"first of all");
        });
        while world.order(al.0, &mut rng) {}
        world.run(&mut rng);
        assert_eq!(world.daemon(bo.0).engine.counters().unreliable_dropped, 0);
    }
}

#[test]
fn a_client_that_does_not_read_holds_publishers_back_then_is_disconnected() {
    let config = EngineConfig {
        stop_publishers_at: 20_000,
        drop_unreliable_at: 40_000,
        disconnect_at: 60_000,
        publish_window: 8_000,
        ..EngineConfig::default()
    };
    let mut world = World::with_config(2, config);
    let mut rng = Rng::new(5);
    let (one, two) = (world.member(1), world.member(2));
    world.divide(&[vec![one, two]], &mut rng);
    world.run(&mut rng);
    let slow = (one, world.connect(one, "slow"));
    let near = (one, world.connect(one, "near"));
    let far = (two, world.connect(two, "far"));
    world.act(slow.0, slow.1, |client| client.join("g"));
    world.run(&mut rng);
    world.client(slow.0, slow.1).reads = false;
    let publish = |world: &mut World, rng: &mut Rng, who: (MemberId, ClientId), service| {
        let mut sent = 0;
        while world.client(who.0, who.1).may_publish() && sent < 500 {
            world.act(who.0, who.1, |client| {
                let number = client.published;
                let payload = [&number.to_be_bytes()[..], &[7; 992]].concat();
                client.publish(&["g"], service, &payload);
            });
            world.run(rng);
            sent += 1;
        }
        sent
    };
    let sent = publish(&mut world, &mut rng, near, Service::Agreed);
    assert!((19..40).contains(&sent), "held back after {sent} kB");
    // Another daemon's publisher is not held back, but unreliable messages are dropped ...
    for _ in 0..25 {
        world.act(far.0, far.1, |client| {
            let number = client.published;
            client.publish(
                &["g"],
                Service::Agreed,
                &[&number.to_be_bytes()[..], &[8; 992]].concat(),
            );
        });
        world.run(&mut rng);
    }
    for _ in 0..50 {
        world.act(far.0, far.1, |client| {
            client.publish(&["g"], Service::Unreliable, &[9; 1000]);
        });
        world.run(&mut rng);
    }
    assert!(world.daemon(one).engine.counters().unreliable_dropped > 10);
    assert!(world.client(slow.0, slow.1).open);
    // ... until the slow one is disconnected, and the near publisher goes on.
    for _ in 0..25 {
        world.act(far.0, far.1, |client| {
            let number = client.published;
            client.publish(
                &["g"],
                Service::Agreed,
                &[&number.to_be_bytes()[..], &[8; 992]].concat(),
            );
        });
        world.run(&mut rng);
    }
    assert_eq!(world.daemon(one).engine.counters().clients_disconnected, 1);
    world.client(slow.0, slow.1).reads = true;
    world.act(slow.0, slow.1, |_| {});
    let sent = publish(&mut world, &mut rng, near, Service::Agreed);
    assert_eq!(sent, 500, "nobody is slow any more");
    assert!(
        world
            .daemon(one)
            .facts
            .iter()
            .any(|fact| fact.to_string().contains("too slow"))
    );
}

#[test]
fn a_client_that_gives_no_credit_gets_a_window_and_no_more() {
    let (mut world, mut rng, [al, bo]) = pair();
    let cy = (
        al.0,
        world.connect_with(al.0, TestClient::with_window("cy", 5_000)),
    );
    world.client(cy.0, cy.1).grants = false;
    world.act(cy.0, cy.1, |client| client.join("g"));
    for number in 0..20u8 {
        world.act(bo.0, bo.1, |client| {
            client.publish(&["g"], Service::Agreed, &[number; 1_000]);
        });
        world.run(&mut rng);
    }
    assert_eq!(world.client(cy.0, cy.1).messages().count(), 5);
    // What it needs no credit for still comes.
    world.act(cy.0, cy.1, |client| {
        client.send(&ClientFrame::Ping { token: 7 });
        client.publish(&["elsewhere"], Service::Agreed, b"x");
    });
    world.run(&mut rng);
    assert_eq!(world.client(cy.0, cy.1).reports, ["pong 7"]);
    assert_eq!(world.client(cy.0, cy.1).accepted, 1);
    world.act(cy.0, cy.1, |client| {
        client.send(&ClientFrame::Credit { bytes: 3_500 });
    });
    assert_eq!(world.client(cy.0, cy.1).messages().count(), 8);
}

#[test]
fn a_client_that_exceeds_its_credit_is_disconnected() {
    let (mut world, _, [al, bo]) = pair();
    let window = world.client(al.0, al.1).credit as usize;
    // More than the window is allowed while nothing is outstanding, and nothing besides.
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, &vec![1; window + 1]);
    });
    assert!(world.client(al.0, al.1).disconnected.is_none());
    world.divide(&[], &mut Rng::new(1));
    for _ in 0..20 {
        world.act(bo.0, bo.1, |client| {
            client.publish(&["g"], Service::Agreed, &vec![1; window / 4]);
        });
    }
    let (code, text) = world.client(bo.0, bo.1).disconnected.clone().unwrap();
    assert_eq!(code, Disconnect::Protocol);
    assert!(text.contains("exceeds the credit"), "{text}");
}

#[test]
fn strangers_are_told_what_is_wrong() {
    let (mut world, _, [al, _]) = pair();
    let refusal = |world: &mut World, bytes: &[u8]| {
        let mut client = TestClient::new("stranger");
        client.written = bytes.to_vec();
        let id = world.connect_with(al.0, client);
        let client = world.client(al.0, id);
        assert!(!client.open);
        client.refused.clone().unwrap()
    };
    let (code, text) = refusal(&mut world, b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(code, Refusal::Protocol);
    assert!(
        text.contains("does not speak the client protocol"),
        "{text}"
    );

    let mut newer = MAGIC.to_vec();
    ClientFrame::Hello(Hello {
        version_min: 2,
        version_max: 3,
        features: 0,
        kind: ClientKind::Application,
        delivery_window: 0,
        name: None,
    })
    .encode(&mut newer);
    let (code, text) = refusal(&mut world, &newer);
    assert_eq!(code, Refusal::Version);
    assert!(text.contains("upgrade the daemon"), "{text}");

    let mut oversize = MAGIC.to_vec();
    oversize.extend([0xff; 5]);
    let (_, text) = refusal(&mut world, &oversize);
    assert!(text.contains("exceeds the limit"), "{text}");

    let mut silent = MAGIC.to_vec();
    ClientFrame::Status.encode(&mut silent);
    let (_, text) = refusal(&mut world, &silent);
    assert!(text.contains("status frame where none may be"), "{text}");
    assert_eq!(world.daemon(al.0).engine.counters().clients_refused, 4);
}

#[test]
fn connections_that_say_nothing_or_do_not_take_the_last_word_are_ended() {
    let (mut world, _, [al, _]) = pair();
    let now = world.now;
    let daemon = world.daemon(al.0);
    let silent = daemon.engine.connected(now, Transport::Tcp).unwrap();
    let at = daemon.engine.poll_timeout().unwrap();
    daemon.engine.handle_timeout(at);
    assert_eq!(daemon.engine.poll_close(), None, "it may still be told why");
    let at = daemon.engine.poll_timeout().unwrap();
    daemon.engine.handle_timeout(at);
    assert_eq!(daemon.engine.poll_close(), Some(silent));
    assert_eq!(daemon.engine.poll_timeout(), None);
}

#[test]
fn questions_are_answered() {
    let (mut world, mut rng, [al, _]) = pair();
    world.act(al.0, al.1, |client| {
        client.join("g");
        client.send(&ClientFrame::Status);
    });
    world.run(&mut rng);
    world.act(al.0, al.1, |client| client.send(&ClientFrame::Groups));
    assert_eq!(world.client(al.0, al.1).reports, ["{\"clients\":1}", "[1]"]);
}

#[test]
fn garbage_of_another_daemon_is_counted_and_skipped() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| client.join("g"));
    world.run(&mut rng);
    let config = world.daemon(al.0).configs[0];
    for payload in [
        &b""[..],
        b"\x03\x02\x01\x09",
        b"\x04\x63\x01",
        b"\x63",
        b"\x07\x00",
    ] {
        let event = Event::Deliver(Delivery {
            id: MessageId {
                sender: bo.0,
                number: 900,
            },
            service: Service::Agreed,
            place: Some(Place {
                config,
                seq: 1 << 50,
            }),
            payload: Bytes::from_static(payload),
        });
        world.daemon(al.0).inbox.push_back(event);
    }
    world.run(&mut rng);
    assert_eq!(world.daemon(al.0).engine.counters().nonsense, 5);
    assert_eq!(story(&mut world, al), ["g regular join: al@h1"]);
}

#[test]
fn when_the_ring_is_left_clients_are_told() {
    let (mut world, mut rng, [al, _]) = pair();
    world.daemon(al.0).inbox.push_back(Event::Left);
    world.run(&mut rng);
    let (code, _) = world.client(al.0, al.1).disconnected.clone().unwrap();
    assert_eq!(code, Disconnect::Stopping);
    let late = world.connect(al.0, "late");
    let (code, _) = world.client(al.0, late).refused.clone().unwrap();
    assert_eq!(code, Refusal::Stopping);
}
