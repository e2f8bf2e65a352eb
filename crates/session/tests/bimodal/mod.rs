//! Bimodal groups beside the ring, over a channel that loses what a test says: messages, gaps,
//! approximate views.

mod bus;
mod daemon;

use bytes::Bytes;
use groupcast_core::{Event, NodeId, Rng, Service, Time};
use groupcast_session::frame::{ClientFrame, ClientKind, Hello, MAGIC, Request};
use groupcast_session::groups::Fact;
use groupcast_session::{ClientId, Engine, EngineConfig};

use self::daemon::{Daemon, config, delivery, member, pair, spread};
use crate::world::client::{Seen, TestClient};
use crate::world::{World, take_output};

#[test]
fn members_messages_and_gaps_reach_the_subscribers_without_a_ring() {
    let (mut one, al, mut two, bo) = pair();
    one.act(al, |client| {
        client.publish(&["ticks"], Service::Bimodal, b"first");
        client.publish(&["ticks"], Service::Bimodal, b"second");
        client.publish(&["ticks"], Service::Bimodal, b"third");
    });
    assert_eq!(one.client(al).accepted, 3);
    // The second is lost on its way. al's announcements were numbers 1 and, for the newcomer, 2.
    let sent: Vec<_> = one.sent.drain(..).collect();
    let numbers: Vec<u64> = sent.iter().map(|(_, sent)| sent.id.number).collect();
    let lost = numbers[numbers.len() - 2];
    for (index, delivery) in sent {
        match delivery.id.number == lost {
            true => two.gap(index, 1, lost, lost),
            false => two.event(index, Event::Deliver(delivery)),
        }
    }
    let gap = format!("ticks lost {lost}..{lost} of h1");
    let expected = [
        "ticks regular join: bo@h2",
        "ticks regular network: al@h1,bo@h2",
        "al@h1>ticks first",
        &gap,
        "al@h1>ticks third",
    ];
    assert_eq!(two.story(bo), expected);
    let expected = [
        "ticks regular join: al@h1",
        "ticks regular network: al@h1,bo@h2",
        "al@h1>ticks first",
        "al@h1>ticks second",
        "al@h1>ticks third",
    ];
    assert_eq!(one.story(al), expected);
    assert!(two.client(bo).views().all(|view| view.approximate));
    let last = two.client(bo).messages().last().cloned();
    let last = last.expect("the third came");
    assert_eq!((last.service, last.place), (Service::Bimodal, None));
    assert_eq!(last.number, Some(lost + 1));
    let groups = two.engine.groups();
    assert_eq!(groups.len(), 1);
    assert!(groups[0].approximate && groups[0].members.len() == 2);
}

#[test]
fn a_view_that_was_shown_is_not_shown_again() {
    let (mut one, mut two) = (Daemon::new(1, config()), Daemon::new(2, config()));
    let (al, bo) = (one.connect("al"), two.connect("bo"));
    one.act(al, |client| client.join("ticks"));
    spread(&mut one, &mut two);
    two.act(bo, |client| client.join("ticks"));
    two.tend(&[1]);
    assert_eq!(two.story(bo), ["ticks regular join: al@h1,bo@h2"]);
}

/// Each view goes to every subscriber.
#[test]
fn who_joins_and_leaves_in_a_loop_costs_the_others_one_view_at_a_time() {
    let mut one = Daemon::new(1, config());
    let (al, bo) = (one.connect("al"), one.connect("bo"));
    one.act(al, |client| client.join("ticks"));
    let before = one.engine.counters().views;
    for _ in 0..50 {
        one.act(bo, |client| client.join("ticks"));
        one.act(bo, |client| client.leave("ticks"));
    }
    assert_eq!(one.engine.counters().views - before, 100, "to bo alone");
    assert_eq!(one.story(al), ["ticks regular join: al@h1"]);
    one.tend(&[]);
    let expected = ["ticks regular join: al@h1", "ticks regular network: al@h1"];
    assert_eq!(one.story(al), expected);
    // One change alone is told with its cause.
    one.act(bo, |client| client.join("ticks"));
    one.tend(&[]);
    one.tend(&[]);
    let story = one.story(al);
    assert_eq!(story[2..], ["ticks regular join: al@h1,bo@h1"]);
}

/// A view of many members takes long to make.
#[test]
fn a_call_makes_one_long_view_and_tells_how_long_it_was() {
    let mut one = Daemon::new(1, config());
    let bo = one.connect("bo");
    // 300 clients of another daemon.
    for host in 10..13u64 {
        let mut presence = vec![2, 2, b'a', b'0' + (host % 10) as u8, 100];
        for client in 0..100u8 {
            presence.extend([3, b'c', b'0' + client / 10, b'0' + client % 10]);
        }
        let event = Event::Deliver(delivery(member(host), 1, presence.into()));
        one.event(0, event);
    }
    let client = one.client(bo);
    for _ in 0..3 {
        client.join("ticks");
        client.leave("ticks");
    }
    let written = std::mem::take(&mut client.written);
    let space = one.engine.space(bo).expect("it is read");
    space[..written.len()].copy_from_slice(&written);
    let mut len = written.len();
    for named in [301, 300, 301, 300, 301, 300] {
        let handled = one.engine.received(one.now, bo, len);
        assert_eq!(
            (handled.frames, handled.named, handled.more),
            (1, named, true)
        );
        len = 0;
    }
}

/// Time passes at two daemons that hear each other, but for the announcements that the first loses.
fn pass(one: &mut Daemon, two: &mut Daemon, seconds: u64, loses: bool) {
    for _ in 0..seconds * 4 {
        for (daemon, other) in [(&mut *one, 2), (&mut *two, 1)] {
            daemon.now += std::time::Duration::from_millis(250);
            daemon.tend(&[other]);
        }
        if loses {
            one.sent.clear();
        }
        spread(one, two);
        spread(two, one);
    }
}

#[test]
fn views_are_right_again_ten_seconds_after_an_announcement_was_lost() {
    let (mut one, _, mut two, _) = pair();
    pass(&mut one, &mut two, 2, false);
    let cy = one.connect("cy");
    one.act(cy, |client| client.join("ticks"));
    pass(&mut one, &mut two, 1, true);
    let members = |daemon: &Daemon| daemon.engine.groups()[0].members.len();
    assert_eq!((members(&one), members(&two)), (3, 2));
    pass(&mut one, &mut two, 10, false);
    assert_eq!(members(&two), 3);
    // A leave that nobody heard of, of the last two clients.
    let clients: Vec<ClientId> = one.clients.keys().copied().collect();
    for id in clients {
        one.act(id, |client| client.leave("ticks"));
    }
    pass(&mut one, &mut two, 1, true);
    assert_eq!(members(&two), 3);
    pass(&mut one, &mut two, 10, false);
    assert_eq!(members(&two), 1);
}

#[test]
fn a_daemon_that_slept_is_in_the_others_views_again_at_once() {
    let (mut one, _, mut two, _) = pair();
    for _ in 0..14 {
        two.now += std::time::Duration::from_secs(1);
        two.tend(&[]);
    }
    assert_eq!(two.engine.groups()[0].members.len(), 1);
    one.now = two.now;
    one.tend(&[2]);
    spread(&mut one, &mut two);
    assert_eq!(two.engine.groups()[0].members.len(), 2);
}

#[test]
fn groups_are_apart_and_leaving_is_seen() {
    let (mut one, al, mut two, bo) = pair();
    two.act(bo, |client| client.join("news"));
    one.act(al, |client| {
        client.publish(&["news"], Service::Bimodal, b"extra");
        client.publish(&["ticks"], Service::Bimodal, b"tick");
        client.leave("ticks");
    });
    spread(&mut one, &mut two);
    two.gap(0, 1, 90, 91);
    two.tend(&[1]);
    let story = two.story(bo);
    let tail = [
        "news regular join: bo@h2",
        "al@h1>ticks tick",
        "al@h1>news extra",
        "ticks lost 90..91 of h1",
        "ticks regular network: bo@h2",
    ];
    assert_eq!(story[story.len() - 5..], tail);
    let story = one.story(al);
    assert_eq!(
        story.last().map(String::as_str),
        Some("ticks regular leave: bo@h2")
    );
    // A client that vanishes is forgotten with its daemon.
    two.now = Time::from_millis(10_000);
    two.tend(&[]);
    assert!(
        two.engine
            .groups()
            .iter()
            .all(|group| group.members.len() == 1)
    );
}

#[test]
fn what_is_sent_the_wrong_way_is_rejected_with_a_text() {
    let mut one = Daemon::new(1, config());
    let al = one.connect("al");
    one.act(al, |client| {
        client.publish(&["ticks"], Service::Agreed, b"x");
        client.publish(&["other"], Service::Bimodal, b"x");
        client.publish(&["ticks", "news"], Service::Bimodal, b"x");
        client.publish(&["ticks"], Service::Bimodal, &[0; 63_001]);
        client.publish(&["ticks"], Service::Bimodal, b"good");
    });
    let parts = [
        "publish to it with the service bimodal",
        "not bimodal at the daemon h1",
        "goes to one group",
        "at most 63000",
    ];
    let client = one.client(al);
    for (number, part) in (1..).zip(parts) {
        assert!(
            client.rejected[&number].contains(part),
            "{:?}",
            client.rejected
        );
    }
    assert_eq!((client.rejected.len(), client.accepted), (4, 5));

    // A client from before there were gaps would not know what it misses.
    let mut old = TestClient::new("old");
    old.written = MAGIC.to_vec();
    old.send(&ClientFrame::Hello(Hello {
        version_min: 1,
        version_max: 1,
        features: 0,
        kind: ClientKind::Application,
        delivery_window: 1 << 20,
        name: Some("old".into()),
        token: None,
    }));
    let old = one.connect_with(old);
    one.act(old, |client| client.join("ticks"));
    let rejected = one.client(old).rejected_groups.clone();
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].0, Request::Join("ticks".into()));
    assert!(rejected[0].1.contains("upgrade"), "{rejected:?}");
}

#[test]
fn who_joins_a_group_that_is_bimodal_at_other_daemons_alone_is_told() {
    let mut one = Daemon::new(1, config());
    let al = one.connect("al");
    let hear = |one: &mut Daemon, names: &[&str]| {
        let names = names.iter().map(|name| NodeId::from_name(name));
        one.engine.bimodal_elsewhere(names);
    };
    // A group that is bimodal here too is none of them.
    hear(&mut one, &["ticks", "quotes"]);
    one.act(al, |client| client.join("quotes"));
    one.act(al, |client| client.join("ticks"));
    let rejected = one.client(al).rejected_groups.clone();
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].0, Request::Join("quotes".into()));
    assert!(rejected[0].1.contains("bimodal.groups"), "{rejected:?}");
}

#[test]
fn an_agreed_group_of_the_same_name_is_found_and_told_once() {
    let (mut world, mut rng) = (World::new(2), Rng::new(1));
    let [one, two] = [world.member(1), world.member(2)];
    let engine = Engine::new(config(), one, "h1").expect("the limits are right");
    world.daemon(one).engine = engine;
    world.divide(&[vec![one, two]], &mut rng);
    world.run(&mut rng);
    let bo = world.connect(two, "bo");
    let mut agreed_elsewhere = |world: &mut World| {
        world.run(&mut rng);
        let engine = &mut world.daemon(one).engine;
        for _ in 0..3 {
            engine.tend_bimodal(Time::ZERO, 0, []);
        }
        engine.status().bimodal[0].agreed_elsewhere
    };
    assert_eq!(agreed_elsewhere(&mut world), 0);
    world.act(two, bo, |client| client.join("ticks"));
    assert_eq!(agreed_elsewhere(&mut world), 1);
    world.act(two, bo, |client| client.leave("ticks"));
    assert_eq!(agreed_elsewhere(&mut world), 0);
    let facts = world.daemon(one).facts.iter();
    let told = facts.filter(|fact| matches!(fact, Fact::TwoGroups { .. }));
    let told: Vec<String> = told.map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("\"ticks\"") && told[0].contains("bo@h2"),
        "{told:?}"
    );
}

#[test]
fn a_full_gossip_keeps_messages_waiting_and_a_bye_waits_for_them() {
    let mut one = Daemon::new(1, config());
    let al = one.connect("al");
    one.full = true;
    one.act(al, |client| {
        client.publish(&["ticks"], Service::Bimodal, b"waits");
        client.send(&ClientFrame::Bye);
    });
    assert_eq!(one.client(al).accepted, 0);
    assert!(one.client(al).disconnected.is_none());
    assert_eq!(one.engine.status().bimodal[0].waiting, 1);
    one.full = false;
    one.event(0, Event::Writable);
    assert_eq!(one.client(al).accepted, 1);
    assert!(one.client(al).disconnected.is_some());
    assert_eq!(one.sent.len(), 1);
    assert_eq!(one.engine.status().input, 0);
}

/// What other daemons publish takes no more memory for those that do not read than there is for
/// all.
#[test]
fn of_subscribers_for_which_too_much_waits_some_go() {
    const MAX: usize = 100_000;
    let config = EngineConfig {
        output_max: MAX,
        ..config()
    };
    let (mut one, mut two) = (Daemon::new(1, self::config()), Daemon::new(2, config));
    let al = one.connect("al");
    let slow = ["a", "b", "c", "d"].map(|name| two.connect(name));
    for id in slow {
        two.act(id, |client| client.join("ticks"));
        two.client(id).reads = false;
    }
    for sent in 1..=30 {
        one.act(al, |client| {
            client.publish(&["ticks"], Service::Bimodal, &[b'.'; 10_000]);
        });
        spread(&mut one, &mut two);
        // They share the memory of a message.
        let gone = two.engine.counters().clients_disconnected;
        assert_eq!(gone > 0, sent * 10_000 >= MAX, "after {sent} messages");
    }
}

#[test]
fn a_slow_subscriber_misses_messages_and_is_told_which_and_nobody_waits_for_it() {
    let config = EngineConfig {
        drop_unreliable_at: 50_000,
        stop_publishers_at: 20_000,
        ..config()
    };
    let mut one = Daemon::new(1, config);
    let (al, slow) = (one.connect("al"), one.connect("slow"));
    for id in [al, slow] {
        one.act(id, |client| client.join("ticks"));
    }
    one.client(slow).reads = false;
    for _ in 0..20 {
        one.act(al, |client| {
            client.publish(&["ticks"], Service::Bimodal, &[b'.'; 10_000]);
        });
    }
    // The gossip itself loses something meanwhile.
    one.gap(0, 7, 1, 3);
    assert_eq!(one.client(al).accepted, 20, "publishers are not held back");
    assert_eq!(one.client(al).messages().count(), 20);
    one.client(slow).reads = true;
    // Its socket has room again.
    let client = one.clients.get_mut(&slow).expect("it connected");
    client
        .received
        .extend(take_output(&mut one.engine, one.now, slow));
    client.read(0);
    one.settle();

    let seen = &one.clients[&slow].seen;
    let mut accounted = 0;
    let (mut missed, mut foreign) = (0, 0);
    for seen in seen {
        match seen {
            Seen::Message(message) => {
                let number = message.number.expect("bimodal messages are numbered");
                assert!(
                    accounted == 0 || number == accounted + 1,
                    "in order, no hole"
                );
                accounted = number;
            }
            Seen::Gap(_, sender, first, last) if sender == "h1" => {
                assert_eq!(*first, accounted + 1);
                missed += last - first + 1;
                accounted = *last;
            }
            Seen::Gap(_, sender, 1, 3) if *sender == member(7).to_string() => foreign += 3,
            Seen::Gap(..) => panic!("{seen:?}"),
            Seen::View(_) => {}
        }
    }
    assert!(missed > 0 && foreign == 3, "{missed} {foreign}");
    let delivered = one.clients[&slow].messages().count() as u64;
    assert_eq!(delivered + missed, 20);
    assert_eq!(one.engine.counters().bimodal_missed, missed + foreign);
}

#[test]
fn junk_of_a_daemon_with_the_key_is_counted_and_bounded() {
    let config = EngineConfig {
        bimodal_members_max: 40,
        ..config()
    };
    let mut one = Daemon::new(1, config);
    let al = one.connect("al");
    one.act(al, |client| client.join("ticks"));
    one.event(
        0,
        Event::Deliver(delivery(member(9), 1, Bytes::from_static(&[77]))),
    );
    one.event(
        0,
        Event::Deliver(delivery(member(9), 2, Bytes::from_static(&[1]))),
    );
    assert_eq!(one.engine.counters().nonsense, 2);
    // 100 daemons with 100 clients each: the view stays within its limit.
    for host in 10..110u64 {
        let mut presence = vec![2, 2, b'a', b'0' + (host % 10) as u8, 100];
        for client in 0..100u8 {
            presence.extend([3, b'c', b'0' + client / 10, b'0' + client % 10]);
        }
        one.event(
            0,
            Event::Deliver(delivery(member(host), 1, presence.into())),
        );
    }
    one.tend(&[]);
    assert_eq!(one.engine.counters().nonsense, 2);
    let status = &one.engine.status().bimodal[0];
    assert_eq!(status.members, 41, "al and the 40 that fit");
}
