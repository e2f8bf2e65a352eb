//! What is a client's alone: its name, its credit, its errors, its end.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Delivery, Event, MemberId, MessageId, OrderPlace, Rng, Service};
use groupcast_session::frame::{ClientFrame, ClientKind, Disconnect, Hello, MAGIC, Refusal};
use groupcast_session::groups::Transport;
use groupcast_session::{ClientId, EngineConfig};

use super::{pair, story};
use crate::world::World;
use crate::world::client::TestClient;

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

/// The former client of the name cannot leave its groups while the order stands still.
#[test]
fn who_waits_for_its_name_is_refused_when_its_time_is_over() {
    let (mut world, _, [al, _]) = pair();
    world.act(al.0, al.1, |client| client.join("g"));
    world.vanish(al.0, al.1);
    // It is late with its hello, which takes nothing of the time that it may wait then.
    let mut client = TestClient::new("al");
    let hello = std::mem::take(&mut client.written);
    let again = world.connect_with(al.0, client);
    world.now += Duration::from_secs(8);
    world.act(al.0, again, |client| client.written = hello);
    let wait = |world: &mut World, time: Duration| {
        world.now += time;
        let now = world.now;
        world.daemon(al.0).engine.handle_timeout(now);
        world.settle(al.0);
    };
    let within = EngineConfig::default().hello_within;
    wait(&mut world, within - Duration::from_millis(1));
    let client = world.client(al.0, again);
    assert!(client.welcome.is_none() && client.refused.is_none() && client.open);
    wait(&mut world, Duration::from_millis(1));
    let client = world.client(al.0, again);
    let (code, text) = client.refused.clone().unwrap();
    assert_eq!(code, Refusal::NameInUse);
    assert!(
        text.contains("\"al\"") && text.contains("try again"),
        "{text}"
    );
    assert!(!client.open);
}

/// The others would wait until their time is over, and be told of a former client then.
#[test]
fn of_those_who_wait_for_one_name_the_first_gets_it_and_the_others_are_told() {
    let (mut world, mut rng, [al, _]) = pair();
    world.act(al.0, al.1, |client| client.join("g"));
    world.vanish(al.0, al.1);
    let waiting = [(); 4].map(|()| world.connect(al.0, "al"));
    let other = world.connect(al.0, "cy");
    world.vanish(al.0, waiting[0]);
    world.run(&mut rng);
    assert!(world.client(al.0, waiting[1]).welcome.is_some());
    for id in [waiting[2], waiting[3]] {
        let client = world.client(al.0, id);
        let (code, text) = client.refused.clone().expect("the name is another's");
        assert_eq!(code, Refusal::NameInUse);
        assert!(text.starts_with("another client"), "{text}");
        assert!(!client.open);
    }
    let others = [al.1, waiting[0], other].map(|id| world.client(al.0, id).refused.is_none());
    assert_eq!(others, [true; 3]);
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
    let go_on = |world: &mut World, rng: &mut Rng| {
        for _ in 0..25 {
            world.act(far.0, far.1, |client| {
                let number = client.published;
                let payload = [&number.to_be_bytes()[..], &[8; 992]].concat();
                client.publish(&["g"], Service::Agreed, &payload);
            });
            world.run(rng);
        }
    };
    let sent = publish(&mut world, &mut rng, near, Service::Agreed);
    assert!((19..40).contains(&sent), "held back after {sent} kB");
    // A client that publishes to others is not held back for it.
    let apart = (one, world.connect(one, "apart"));
    for _ in 0..100 {
        assert!(
            world.client(apart.0, apart.1).may_publish(),
            "it has credit"
        );
        world.act(apart.0, apart.1, |client| {
            client.publish(&["other"], Service::Agreed, &[6; 1_000]);
        });
        world.run(&mut rng);
    }
    // Another daemon's publisher is not held back, but unreliable messages are dropped ...
    go_on(&mut world, &mut rng);
    for _ in 0..50 {
        world.act(far.0, far.1, |client| {
            client.publish(&["g"], Service::Unreliable, &[9; 1000]);
        });
        world.run(&mut rng);
    }
    assert!(world.daemon(one).engine.counters().unreliable_dropped > 10);
    assert!(world.client(slow.0, slow.1).open);
    // ... until the slow one is disconnected, and the near publisher goes on.
    go_on(&mut world, &mut rng);
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
        token: None,
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
            place: Some(OrderPlace {
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
