//! Who gets which messages, and in which order.

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::ClientId;
use groupcast_session::frame::ClientFrame;

use super::{pair, story};
use crate::world::World;
use crate::world::client::TestClient;

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
fn a_message_that_the_ring_gives_up_is_rejected_and_those_around_it_are_accepted() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(bo.0, bo.1, |client| client.join("g"));
    world.run(&mut rng);
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, b"before");
        client.publish(&["g"], Service::Majority, b"given up");
        client.publish(&["g"], Service::Agreed, b"behind");
    });
    // What names the group goes first.
    while world.client(al.0, al.1).accepted < 1 {
        world.order(al.0, &mut rng);
        world.deliver(al.0);
    }
    world.refuse(al.0);
    world.run(&mut rng);
    let client = world.client(al.0, al.1);
    assert_eq!(client.rejected.keys().collect::<Vec<_>>(), [&2]);
    assert!(client.rejected[&2].contains("no majority"));
    assert_eq!(client.accepted, 3);
    assert_eq!(
        story(&mut world, bo)[1..],
        ["al@h1>g before", "al@h1>g behind"]
    );
}

#[test]
fn a_client_that_does_not_know_resilient_services_is_told_that_a_message_is_agreed() {
    let (mut world, mut rng, [al, bo]) = pair();
    let old = TestClient::of_older_library("old");
    let old = (bo.0, world.connect_with(bo.0, old));
    for who in [bo, old] {
        world.act(who.0, who.1, |client| client.join("g"));
    }
    world.run(&mut rng);
    let sent = [Service::KResilient(2), Service::Majority, Service::Safe];
    for service in sent {
        world.act(al.0, al.1, |client| {
            client.publish(&["g"], service, service.to_string().as_bytes());
        });
    }
    world.run(&mut rng);
    let services = |world: &mut World, who: (MemberId, ClientId)| {
        let messages = world.client(who.0, who.1).messages();
        messages.map(|message| message.service).collect::<Vec<_>>()
    };
    assert_eq!(services(&mut world, bo), sent);
    let told = [Service::Agreed, Service::Agreed, Service::Safe];
    assert_eq!(services(&mut world, old), told);
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
            ring: false,
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

/// A daemon remembers where the last message went. All of these begin alike, and each goes
/// somewhere else.
#[test]
fn messages_that_begin_alike_follow_every_change_between_them() {
    type Change<'a> = &'a dyn Fn(&mut TestClient);
    let (mut world, mut rng, [al, bo]) = pair();
    let discarding = ClientFrame::Join {
        group: "g".into(),
        discard_own: true,
        ring: false,
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

/// What is delivered before it is ordered may be ahead of the facts that name its sender and its
/// groups, and comes while daemons exchange their state.
#[test]
fn messages_without_a_place_are_accepted_and_reach_all_members() {
    for seed in 0..40 {
        let (mut world, _, [al, bo]) = pair();
        let mut rng = Rng::new(seed);
        world.early = true;
        world.act(al.0, al.1, |client| client.join("g"));
        world.run(&mut rng);
        world.act(bo.0, bo.1, |client| {
            client.publish(&["g"], Service::Reliable, b"r");
            client.publish(&["g"], Service::Agreed, b"a");
            client.publish(&["g", "new"], Service::Reliable, b"r");
            client.publish(&["g"], Service::Fifo, b"f");
        });
        world.run(&mut rng);
        assert_eq!(world.client(bo.0, bo.1).accepted, 4, "seed {seed}");
        let messages = world.client(al.0, al.1).messages();
        let services: Vec<Service> = messages.map(|message| message.service).collect();
        assert_eq!(services.len(), 4, "seed {seed}: {services:?}");
    }
}

#[test]
fn a_message_to_a_client_reaches_no_other_of_that_name() {
    let (mut world, mut rng, [al, bo]) = pair();
    let other = (bo.0, world.connect(bo.0, "al"));
    world.act(bo.0, bo.1, |client| {
        client.publish(&["al@h1"], Service::Agreed, b"for one");
    });
    world.run(&mut rng);
    assert_eq!(story(&mut world, al), ["bo@h2>al@h1 for one"]);
    assert!(story(&mut world, other).is_empty());
}
