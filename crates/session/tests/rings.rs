//! Groups of several orders at a few daemons: which order carries what, and what happens while a
//! daemon is not in a ring.

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::frame::{
    BusRequest, ClientFrame, Disconnect, GuestFrame, GuestReply, Request,
};
use groupcast_session::guests::Ending;
use groupcast_session::{ClientId, EngineConfig};

use crate::world::World;

/// The daemons h1 and h2 with a client each, and the rings wb.cb and cb, in which they are not.
fn pair() -> (World, Rng, [(MemberId, ClientId); 2]) {
    let config = EngineConfig {
        rings: vec!["wb.cb".into(), "cb".into()],
        ..EngineConfig::default()
    };
    let mut world = World::with_config(2, config);
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
fn groups_at_and_below_a_top_wait_for_its_ring_and_others_do_not() {
    let (mut world, mut rng, [al, bo]) = pair();
    for who in [al, bo] {
        world.act(who.0, who.1, |client| {
            client.join("page1.wb.cb");
            client.join("room");
        });
    }
    world.act(al.0, al.1, |client| {
        client.publish(&["page1.wb.cb"], Service::Agreed, b"in the ring");
        client.publish(&["room"], Service::Agreed, b"in the room");
    });
    world.run(&mut rng);
    let in_room = ["room regular join: al@h1,bo@h2", "al@h1>room in the room"];
    assert_eq!(story(&mut world, bo), in_room);
    // Acceptance is told in the order of the client's messages.
    assert_eq!(world.client(al.0, al.1).accepted, 0);
    for host in [al.0, bo.0] {
        assert!(world.daemon(host).engine.asks_for_ring(0));
        assert!(!world.daemon(host).engine.asks_for_ring(1));
    }

    world.divide_ring(0, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, al)[3..],
        [
            "page1.wb.cb regular join: al@h1",
            "page1.wb.cb regular join: al@h1,bo@h2",
            "al@h1>page1.wb.cb in the ring",
        ]
    );
    assert_eq!(world.client(al.0, al.1).accepted, 2);
    for ring in 0..2 {
        assert_eq!(world.judge_ring(ring), [""; 0]);
    }
    let groups = world.daemon(al.0).engine.groups();
    let carried: Vec<_> = groups
        .iter()
        .map(|group| (&*group.name, group.ring.as_deref()))
        .collect();
    assert_eq!(carried, [("room", None), ("page1.wb.cb", Some("wb.cb"))]);
}

#[test]
fn a_daemon_that_loses_its_stay_in_a_ring_disconnects_who_has_something_there() {
    let (mut world, mut rng, [al, bo]) = pair();
    let co = (bo.0, world.connect(bo.0, "co"));
    let cy = (bo.0, world.connect(bo.0, "cy"));
    for who in [al, bo] {
        world.act(who.0, who.1, |client| client.join("cb"));
    }
    world.act(cy.0, cy.1, |client| client.join("room"));
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    world.act(co.0, co.1, |client| {
        client.publish(&["cb"], Service::Agreed, b"lost");
    });
    world.lose_stay(1, bo.0);
    world.run(&mut rng);
    let end = |world: &mut World, who: (MemberId, ClientId)| {
        let end = &world.client(who.0, who.1).disconnected;
        end.as_ref().map(|(code, _)| *code)
    };
    assert_eq!(end(&mut world, bo), Some(Disconnect::Other));
    assert_eq!(end(&mut world, co), Some(Disconnect::Other));
    assert_eq!(world.client(co.0, co.1).accepted, 0);
    assert_eq!(end(&mut world, cy), None);

    // In its next stay nothing is left of them, and others are served.
    world.act(cy.0, cy.1, |client| {
        client.publish(&["cb"], Service::Agreed, b"anew");
    });
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(world.client(cy.0, cy.1).accepted, 1);
    let seen = story(&mut world, al);
    assert_eq!(
        seen.last().map(String::as_str),
        Some("cy@h2>cb anew"),
        "{seen:?}"
    );
    assert_eq!(world.judge_ring(1), [""; 0]);
}

#[test]
fn a_daemon_that_has_left_a_ring_comes_back_as_another_member_for_what_clients_ask() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(al.0, al.1, |client| client.join("cb"));
    world.act(bo.0, bo.1, |client| client.join("cb"));
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    assert!(world.daemon(bo.0).engine.uses_ring(1));
    world.act(bo.0, bo.1, |client| client.leave("cb"));
    assert!(world.daemon(bo.0).engine.uses_ring(1), "it waits");
    world.run(&mut rng);
    assert!(!world.daemon(bo.0).engine.uses_ring(1));
    assert!(!world.daemon(bo.0).engine.uses_ring(0));
    assert!(world.leave_unused(1, bo.0) && !world.leave_unused(1, al.0));
    world.divide_ring(1, &[vec![al.0]], &mut rng);
    world.run(&mut rng);

    // What it publishes now waits for the next stay, and what it is in is told anew.
    world.act(bo.0, bo.1, |client| {
        client.publish(&["cb"], Service::Agreed, b"from outside");
        client.join("x.cb");
    });
    world.run(&mut rng);
    assert!(world.daemon(bo.0).engine.asks_for_ring(1));
    assert_eq!(world.client(bo.0, bo.1).accepted, 0);
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(world.client(bo.0, bo.1).accepted, 1);
    assert_eq!(
        story(&mut world, al).last().map(String::as_str),
        Some("bo@h2>cb from outside")
    );
    assert_eq!(
        story(&mut world, bo).last().map(String::as_str),
        Some("x.cb regular join: bo@h2")
    );
    assert_eq!(world.judge_ring(1), [""; 0]);
}

#[test]
fn a_client_that_goes_leaves_all_its_orders_before_its_name_is_free() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.act(bo.0, bo.1, |client| client.join("wb.cb"));
    world.act(al.0, al.1, |client| {
        client.join("wb.cb");
        client.join("room");
    });
    world.divide_ring(0, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    world.vanish(al.0, al.1);
    // The daemon's own order is done with it first.
    while world.order(al.0, &mut rng) | world.deliver(al.0) {}
    let again = world.connect(al.0, "al");
    assert!(world.client(al.0, again).welcome.is_none());
    assert!(
        world.daemon(al.0).engine.uses_ring(0),
        "it is not gone there"
    );
    world.run(&mut rng);
    assert!(world.client(al.0, again).welcome.is_some());
    assert_eq!(
        story(&mut world, bo).last().map(String::as_str),
        Some("wb.cb regular disconnect: bo@h2")
    );
    assert!(!world.daemon(al.0).engine.uses_ring(0));
}

#[test]
fn what_is_of_two_orders_or_has_no_levels_is_refused() {
    let (mut world, mut rng, [al, _]) = pair();
    world.act(al.0, al.1, |client| {
        client.publish(&["room", "x.cb"], Service::Agreed, b"two");
        client.publish(&["x.cb", "x.wb.cb"], Service::Agreed, b"two rings");
        client.publish(&["a..cb"], Service::Agreed, b"empty");
        client.join(".cb");
        client.join("a..b");
    });
    world.run(&mut rng);
    let client = world.client(al.0, al.1);
    for (number, parts) in [
        (
            1,
            [
                "\"room\" and \"x.cb\"",
                "the daemon's own and the ring \"cb\"",
            ],
        ),
        (2, ["the ring \"cb\" and the ring \"wb.cb\"", "two orders"]),
        (3, ["\"a..cb\"", "column 3"]),
    ] {
        let text = &client.rejected[&number];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let [(Request::Join(group), text)] = &client.rejected_groups[..] else {
        panic!("{:?}", client.rejected_groups);
    };
    assert!(group == ".cb" && text.contains("column 1"), "{text}");
    assert!(story(&mut world, al).contains(&"a..b regular join: al@h1".to_owned()));
}

#[test]
fn the_bus_asks_the_order_of_a_domain() {
    let (mut world, mut rng, [al, bo]) = pair();
    for ring in 0..2 {
        world.divide_ring(ring, &[vec![al.0, bo.0]], &mut rng);
    }
    let ask = |token, request| ClientFrame::Bus { token, request };
    let accept = |group: &str| BusRequest::Accept {
        group: group.into(),
        pattern: "*".into(),
        ring: false,
    };
    world.act(al.0, al.1, |client| {
        client.send(&ask(1, accept("*.wb.cb")));
        client.send(&ask(2, accept("*.cb")));
        client.send(&ask(3, BusRequest::Identify { id: "me.cb".into() }));
        client.send(&ask(4, BusRequest::Identify { id: "me".into() }));
    });
    world.run(&mut rng);
    let answers: Vec<_> = world.client(al.0, al.1).done.clone();
    let text = |token: u64| {
        let mut answers = answers.iter();
        let found = answers
            .find(|(at, _)| *at == token)
            .expect("it is answered");
        found.1.clone()
    };
    assert_eq!((text(1), text(4)), (String::new(), String::new()));
    assert!(
        text(2).contains("two orders") && text(2).contains("wb.cb"),
        "{}",
        text(2)
    );
    assert!(text(3).contains("the ring \"cb\""), "{}", text(3));
    world.act(bo.0, bo.1, |client| {
        client.publish(&["x.wb.cb"], Service::Agreed, b"below");
    });
    world.run(&mut rng);
    assert_eq!(
        story(&mut world, al),
        ["*.wb.cb regular join: al@h1", "bo@h2>x.wb.cb below"]
    );
}

/// `al` answers requests to two groups, the second of which a ring carries. Places of the two
/// orders may be equal: the daemon names requests anew.
#[test]
fn requests_go_through_the_orders_of_their_groups_and_have_names_of_their_own() {
    let (mut world, mut rng, [al, bo]) = pair();
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.act(al.0, al.1, |client| {
        for (token, group) in [(1, "plain"), (2, "jobs.cb")] {
            client.join(group);
            client.say(GuestFrame::Claim {
                token,
                may_wait: false,
                role: groupcast_session::guests::Role::Answering,
                group: group.into(),
            });
        }
    });
    world.run(&mut rng);
    world.act(bo.0, bo.1, |client| {
        client.say(GuestFrame::Guest { id: 7, floor: 0 });
        for number in 1..=6 {
            client.say(GuestFrame::Request {
                number,
                answers: 1,
                handler: None,
                within: std::time::Duration::from_secs(1),
                group: ["plain", "jobs.cb"][number as usize % 2].into(),
                payload: bytes::Bytes::copy_from_slice(&[number as u8]),
                stream_len: 0,
            });
        }
    });
    world.run(&mut rng);
    let asked: Vec<(u64, Vec<u8>)> = world
        .client(al.0, al.1)
        .guest
        .iter()
        .filter_map(|(reply, payload)| match reply {
            GuestReply::Request { place, .. } => Some((place.seq, payload.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(asked.len(), 6);
    assert!(asked.is_sorted_by(|one, next| one.0 < next.0), "{asked:?}");
    world.act(al.0, al.1, |client| {
        for (seq, payload) in &asked {
            client.say(GuestFrame::Answer {
                seq: *seq,
                payload: payload.clone().into(),
                stream_len: 0,
            });
        }
    });
    world.run(&mut rng);
    let answers = &world.client(bo.0, bo.1).guest;
    let answered = answers.iter().filter_map(|(reply, payload)| match reply {
        GuestReply::Answer { number, .. } => Some((*number, payload.clone())),
        _ => None,
    });
    let mut answered: Vec<(u64, Vec<u8>)> = answered.collect();
    answered.sort();
    let expected: Vec<_> = (1..=6).map(|number| (number, vec![number as u8])).collect();
    assert_eq!(answered, expected);
    assert_eq!(world.judge_ring(1), [""; 0]);
}

/// How the requests of a client have ended.
fn endings(world: &mut World, who: (MemberId, ClientId)) -> Vec<(u64, Ending)> {
    let replies = world.client(who.0, who.1).guest.iter();
    let endings = replies.filter_map(|(reply, _)| match reply {
        GuestReply::Ended { number, ending, .. } => Some((*number, *ending)),
        _ => None,
    });
    endings.collect()
}

#[test]
fn a_request_ends_however_the_daemon_comes_to_be_in_its_ring() {
    let (mut world, mut rng, [al, bo]) = pair();
    let ask = |number| GuestFrame::Request {
        number,
        answers: 1,
        handler: None,
        within: std::time::Duration::from_secs(1),
        group: "jobs.cb".into(),
        payload: bytes::Bytes::from_static(b"do"),
        stream_len: 0,
    };
    // It waits for the ring, which is another stay before the daemon is in it.
    world.act(bo.0, bo.1, |client| {
        client.say(GuestFrame::Guest { id: 7, floor: 0 });
        client.say(ask(1));
    });
    world.run(&mut rng);
    world.lose_stay(1, bo.0);
    assert_eq!(endings(&mut world, bo), []);
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(endings(&mut world, bo), [(1, Ending::Nobody)]);

    // It has been given to a member when the daemon loses its stay; its client is in no group.
    world.act(al.0, al.1, |client| {
        client.join("jobs.cb");
        client.say(GuestFrame::Claim {
            token: 1,
            may_wait: false,
            role: groupcast_session::guests::Role::Answering,
            group: "jobs.cb".into(),
        });
    });
    world.run(&mut rng);
    world.act(bo.0, bo.1, |client| client.say(ask(2)));
    world.run(&mut rng);
    assert_eq!(endings(&mut world, bo).len(), 1, "al has not answered");
    world.lose_stay(1, bo.0);
    world.settle(bo.0);
    assert_eq!(
        endings(&mut world, bo),
        [(1, Ending::Nobody), (2, Ending::Unknown)]
    );
    assert_eq!(world.client(bo.0, bo.1).disconnected, None);
}

#[test]
fn what_waits_for_a_ring_that_the_daemon_cannot_be_in_is_refused_with_the_reason() {
    let (mut world, mut rng, [al, bo]) = pair();
    let asks = |world: &mut World| {
        world.act(al.0, al.1, |client| {
            client.join("x.cb");
            client.publish(&["cb"], Service::Agreed, b"to the ring");
            client.publish(&["room"], Service::Agreed, b"to the room");
            let request = BusRequest::Accept {
                group: "y.cb".into(),
                pattern: "*".into(),
                ring: false,
            };
            client.send(&ClientFrame::Bus { token: 5, request });
            client.say(GuestFrame::Guest { id: 7, floor: 0 });
            client.say(GuestFrame::Claim {
                token: 6,
                may_wait: false,
                role: groupcast_session::guests::Role::Answering,
                group: "x.cb".into(),
            });
        });
        // A client that goes away meanwhile is not kept either.
        let goes = world.connect(al.0, "goes");
        world.act(al.0, goes, |client| client.join("x.cb"));
        world.vanish(al.0, goes);
    };
    asks(&mut world);
    world.run(&mut rng);
    assert!(world.daemon(al.0).engine.asks_for_ring(1));
    assert_eq!(world.client(al.0, al.1).accepted, 0);
    let now = world.now;
    let engine = &mut world.daemon(al.0).engine;
    engine.refuse_ring(now, 1, "its history is no history");
    assert!(!engine.asks_for_ring(1) && !engine.uses_ring(1));
    world.settle(al.0);
    world.run(&mut rng);
    let is_told =
        |text: &str| text.contains("\"cb\"") && text.contains("its history is no history");
    let client = world.client(al.0, al.1);
    assert!(is_told(&client.rejected[&1]), "{:?}", client.rejected);
    let [(Request::Join(group), text)] = &client.rejected_groups[..] else {
        panic!("{:?}", client.rejected_groups);
    };
    assert!(group == "x.cb" && is_told(text), "{text}");
    let (token, text) = &client.done[0];
    assert!(*token == 5 && is_told(text), "{text}");
    let roles = client.guest.iter().filter_map(|(reply, _)| match reply {
        GuestReply::Role(notice) => Some(format!("{:?}", notice.state)),
        _ => None,
    });
    let roles: Vec<String> = roles.collect();
    assert!(
        roles.len() == 1 && roles[0].contains("no history"),
        "{roles:?}"
    );
    assert_eq!(client.accepted, 2, "the room has its message");
    let names = world.daemon(al.0).engine.status().clients;
    let names: Vec<&str> = names.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["al@h1"]);

    // What is asked when the ring can be joined is carried out.
    world.act(al.0, al.1, |client| client.join("x.cb"));
    world.divide_ring(1, &[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    let last = story(&mut world, al).pop();
    assert_eq!(last.as_deref(), Some("x.cb regular join: al@h1"));
    // A client that is in it is refused nothing.
    let now = world.now;
    world.daemon(al.0).engine.refuse_ring(now, 1, "no");
    world.run(&mut rng);
    assert_eq!(world.client(al.0, al.1).rejected_groups.len(), 1);
}
