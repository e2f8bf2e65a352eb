//! What clients may take of a daemon: memory and time, each and together.

use groupcast_core::{MemberId, Rng, Service, Time};
use groupcast_session::bus::Bus;
use groupcast_session::client::Connection;
use groupcast_session::frame::{
    ClientFrame, ClientKind, Disconnect, MAGIC, credit_cost, encode_publish_head,
};
use groupcast_session::groups::{Fact, InputAhead, OPERATORS_MAX, Transport, Whence};
use groupcast_session::{ClientId, Engine, EngineConfig};

use crate::world::client::TestClient;
use crate::world::{World, take_output};

type Who = (MemberId, ClientId);

/// One daemon, alone in its configuration.
fn alone(config: EngineConfig) -> (World, Rng, MemberId) {
    let mut world = World::with_config(1, config);
    let mut rng = Rng::new(1);
    let one = world.member(1);
    world.divide(&[vec![one]], &mut rng);
    world.run(&mut rng);
    (world, rng, one)
}

/// Begins a message of `len` bytes: all of it but the last byte is written.
fn begin(client: &mut TestClient, number: u64, len: usize) {
    let cost = encode_publish_head(&mut client.written, number, Service::Agreed, &["g"], len);
    client.outstanding += credit_cost(cost) as u64;
    client.written.extend(vec![0; len - 1]);
}

fn end(world: &mut World, who: Who) -> Option<(Disconnect, String)> {
    world.client(who.0, who.1).disconnected.clone()
}

fn pass(world: &mut World, seconds: u64) {
    world.now += std::time::Duration::from_secs(seconds);
    let members: Vec<MemberId> = world.daemons.keys().copied().collect();
    for member in members {
        let now = world.now;
        world.daemon(member).engine.handle_timeout(now);
        world.settle(member);
    }
}

/// A client that has not said hello may not make the daemon hold a message.
#[test]
fn before_the_hello_no_frame_is_long() {
    let (mut world, _, one) = alone(EngineConfig::default());
    let now = world.now;
    let engine = &mut world.daemon(one).engine;
    let silent = engine.connected(now, Transport::Tcp).unwrap();
    let mut bytes = MAGIC.to_vec();
    bytes.extend(4097u32.to_be_bytes());
    engine.space(silent).unwrap()[..bytes.len()].copy_from_slice(&bytes);
    engine.received(now, silent, bytes.len());
    assert!(engine.space(silent).is_none(), "it is refused");
    let facts = std::iter::from_fn(|| engine.poll_fact());
    let refused = facts.into_iter().any(
        |fact| matches!(fact, Fact::Refused { text, .. } if text.contains("limit of 4096 bytes")),
    );
    assert!(refused);
}

/// However many connect over TCP and say nothing, others come in, and few connections are open.
#[test]
fn silence_over_tcp_keeps_nobody_out() {
    let (mut world, _, one) = alone(EngineConfig::default());
    let now = world.now;
    let engine = &mut world.daemon(one).engine;
    let mut open = std::collections::BTreeSet::new();
    for _ in 0..2_000 {
        open.insert(engine.connected(now, Transport::Tcp).expect("it is let in"));
        while let Some(client) = engine.poll_output() {
            take_output(engine, now, client);
        }
        while let Some(client) = engine.poll_close() {
            open.remove(&client);
        }
        assert!(open.len() <= 64);
    }
    assert_eq!(engine.counters().clients_refused, 2_000 - 64);
    assert!(engine.connected(now, Transport::Unix).is_some());
}

/// A client of the bus over TCP comes, and is welcomed.
fn come_by_bus(world: &mut World, one: MemberId) -> (ClientId, Bus) {
    let now = world.now;
    let engine = &mut world.daemon(one).engine;
    let id = engine.connected(now, Transport::Tcp).expect("it is let in");
    let mut bus = Bus::new(None);
    tell_bus(engine, now, id, &mut bus);
    (id, bus)
}

/// What the bus and the engine have for each other, as far as the client is open.
fn tell_bus(engine: &mut Engine, now: Time, id: ClientId, bus: &mut Bus) {
    loop {
        let frames = bus.frames().to_vec();
        let Some(space) = engine.space(id) else {
            return;
        };
        space[..frames.len()].copy_from_slice(&frames);
        bus.frames_taken(frames.len());
        engine.received_all(now, id, frames.len());
        engine.set_input_ahead(now, id, bus.input_ahead());
        let told = take_output(engine, now, id);
        bus.take_frames(&told).expect("frames are right");
        if told.is_empty() && !bus.has_frames() {
            return;
        }
    }
}

/// Whoever reaches the bus could connect and say nothing, and hold all places for ever, since the
/// bus says hello for every client. People type slowly: who says nothing stays as long as there are
/// places.
#[test]
fn silence_on_the_bus_keeps_nobody_out() {
    const PLACES: usize = 20;
    let config = EngineConfig {
        clients_max: PLACES,
        ..EngineConfig::default()
    };
    let (mut world, _, one) = alone(config);
    let (speaker, mut bus) = come_by_bus(&mut world, one);
    bus.take_text(b"# I only listen\n");
    let now = world.now;
    tell_bus(&mut world.daemon(one).engine, now, speaker, &mut bus);
    let come = |world: &mut World| come_by_bus(world, one).0;
    let silent: Vec<_> = (1..PLACES).map(|_| come(&mut world)).collect();
    let refused = |world: &mut World| world.daemon(one).engine.counters().clients_refused;
    come(&mut world);
    assert_eq!(refused(&mut world), 1, "those that are there may speak yet");
    world.now += std::time::Duration::from_secs(600);
    let now = world.now;
    let engine = &mut world.daemon(one).engine;
    engine.handle_timeout(now);
    while let Some(id) = engine.poll_close() {
        engine.closed(now, id);
    }
    let open = |world: &mut World, id| world.daemon(one).engine.space(id).is_some();
    assert!(silent.iter().all(|id| open(&mut world, *id)), "nobody came");
    let late: Vec<_> = (0..5).map(|_| come(&mut world)).collect();
    assert_eq!(refused(&mut world), 1);
    assert!(late.iter().all(|id| open(&mut world, *id)));
    let stay = silent.iter().filter(|id| open(&mut world, **id)).count();
    assert_eq!(stay, PLACES - 1 - late.len());
    assert!(open(&mut world, speaker), "it has said something");
}

/// One host that connects without end would keep out all clients whose way is so long that their
/// hello comes after 64 such connections.
#[test]
fn silence_from_one_host_takes_no_place_from_others() {
    let (mut world, _, one) = alone(EngineConfig::default());
    let now = world.now;
    let engine = &mut world.daemon(one).engine;
    let connect = |engine: &mut Engine, address: &str| {
        let whence = Whence {
            address: Some(address.parse().unwrap()),
            ..Whence::default()
        };
        let client = engine.connected_from(now, Transport::Tcp, whence);
        client.expect("it is let in")
    };
    let good = ["10.0.0.5:1", "[2001:db8:0:1::5]:1"].map(|address| connect(engine, address));
    let silent = connect(engine, "10.0.0.9:999");
    for port in 1..500 {
        connect(engine, &format!("10.0.0.9:{port}"));
        // A host can have any address of its network.
        connect(engine, &format!("[2001:db8:0:2::{port}]:1"));
        while let Some(client) = engine.poll_output() {
            take_output(engine, now, client);
        }
        while engine.poll_close().is_some() {}
    }
    for client in good {
        assert!(engine.space(client).is_some(), "it may say hello yet");
    }
    assert!(engine.space(silent).is_none());
}

/// Who can connect could keep operators from seeing why nobody else can, and from changing the key.
#[test]
fn tools_of_who_runs_the_daemon_come_in_however_many_clients_there_are() {
    const OWN: u32 = 7;
    let config = EngineConfig {
        clients_max: 2,
        ..EngineConfig::default()
    };
    let (mut world, _, one) = alone(config);
    let now = world.now;
    let engine = &mut world.daemon(one).engine;
    engine.set_own_user(OWN);
    let come = |engine: &mut Engine, over: Transport, user: u32, kind: ClientKind| {
        let whence = Whence {
            user: Some(user),
            ..Whence::default()
        };
        let id = engine.connected_from(now, over, whence)?;
        let mut client = Connection::with_token(None, kind, 1 << 20, None);
        let hello = client.poll_transmit()?.to_vec();
        engine.space(id)?[..hello.len()].copy_from_slice(&hello);
        let before = engine.counters().clients_accepted;
        engine.received(now, id, hello.len());
        (engine.counters().clients_accepted > before).then_some(id)
    };
    let unix = Transport::Unix;
    for _ in 0..2 {
        assert!(come(engine, unix, 9, ClientKind::Application).is_some());
    }
    for (over, user, kind) in [
        (unix, 9, ClientKind::Tool),
        (unix, 0, ClientKind::Application),
        (Transport::Tcp, 0, ClientKind::Tool),
    ] {
        assert!(come(engine, over, user, kind).is_none(), "{over:?} {user}");
    }
    let tools = [0, OWN].map(|user| come(engine, unix, user, ClientKind::Tool));
    assert!(tools.iter().all(Option::is_some), "{tools:?}");
    // However many are still to read why they are refused.
    while engine
        .connected_from(now, unix, Whence::default())
        .is_some()
    {}
    let more = std::iter::from_fn(|| come(engine, unix, OWN, ClientKind::Tool));
    let more = more.take(OPERATORS_MAX + 1).count();
    assert_eq!(more, OPERATORS_MAX, "they are bounded as well");
}

/// A client that waits for its name has said hello, and is told something else.
#[test]
fn who_makes_room_over_tcp_is_told_what_it_lacks() {
    let (mut world, _, one) = alone(EngineConfig::default());
    let al = world.connect(one, "al");
    world.act(one, al, |client| client.join("g"));
    world.vanish(one, al);
    let now = world.now;
    let hello = TestClient::new("al").written;
    let engine = &mut world.daemon(one).engine;
    for number in 0..66 {
        let client = engine.connected(now, Transport::Tcp).unwrap();
        if number == 0 {
            engine.space(client).unwrap()[..hello.len()].copy_from_slice(&hello);
            engine.received(now, client, hello.len());
        }
    }
    let facts = std::iter::from_fn(|| engine.poll_fact());
    let texts = facts.filter_map(|fact| match fact {
        Fact::Refused { text, .. } => Some(text),
        _ => None,
    });
    let texts: Vec<String> = texts.collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("waits for a name"), "{texts:?}");
    assert!(texts[1].contains("has not said hello"), "{texts:?}");
}

/// Clients that never finish their messages do not keep others from publishing.
#[test]
fn of_clients_that_hold_memory_with_unfinished_messages_the_largest_goes_first() {
    let (mut world, mut rng, one) = alone(EngineConfig {
        message_max: 100_000,
        input_max: 400_000,
        ..EngineConfig::default()
    });
    let holders = ["a", "b", "c", "d"].map(|name| (one, world.connect(one, name)));
    for (who, len) in holders.into_iter().zip([90_000, 95_000, 90_000, 90_000]) {
        world.act(who.0, who.1, |client| begin(client, 1, len));
    }
    let al = (one, world.connect(one, "al"));
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, &[1; 90_000]);
    });
    world.run(&mut rng);
    assert_eq!(end(&mut world, al), None);
    assert_eq!(world.client(al.0, al.1).accepted, 1);
    let ends = holders.map(|who| end(&mut world, who));
    let (code, text) = ends[1].clone().expect("it holds most");
    assert_eq!(code, Disconnect::Overload);
    assert!(text.contains("unfinished message"), "{text}");
    assert_eq!(ends.iter().flatten().count(), 1);
}

/// Those that send long messages faster than the order takes them do not cost others, who send
/// little, their connections.
#[test]
fn of_clients_whose_messages_wait_the_one_with_most_goes_first() {
    let (mut world, mut rng, one) = alone(EngineConfig {
        message_max: 100_000,
        input_max: 400_000,
        ..EngineConfig::default()
    });
    let full = (one, world.connect(one, "full"));
    let holders = ["a", "b", "c", "d"].map(|name| (one, world.connect(one, name)));
    let al = (one, world.connect(one, "al"));
    world.queue_max = 1;
    let publish = |world: &mut World, who: Who, len| {
        world.act(who.0, who.1, |client| {
            client.publish(&["g"], Service::Agreed, &vec![1; len]);
        });
    };
    publish(&mut world, full, 10);
    for (who, len) in holders.into_iter().zip([92_000, 95_000, 90_000, 90_000]) {
        publish(&mut world, who, len);
    }
    let before = world.daemon(one).engine.status().input;
    assert!((365_000..370_000).contains(&before), "{before}");
    publish(&mut world, al, 40_000);
    assert_eq!(end(&mut world, al), None);
    let ends = holders.map(|who| end(&mut world, who));
    let (code, text) = ends[1].clone().expect("it holds most");
    assert_eq!(code, Disconnect::Overload);
    assert!(text.contains("this client's"), "{text}");
    assert_eq!(ends.iter().flatten().count(), 1);
    assert!(world.daemon(one).engine.status().input < before - 50_000);
    // One that has gone and left much behind is no better.
    world.vanish(one, holders[0].1);
    publish(&mut world, full, 90_000);
    assert_eq!(end(&mut world, full), None);
    world.queue_max = usize::MAX;
    world.run(&mut rng);
    assert_eq!(world.client(al.0, al.1).accepted, 1);
    assert_eq!(world.client(full.0, full.1).accepted, 2);
    let status = world.daemon(one).engine.status();
    assert_eq!((status.input, status.clients.len()), (0, 4));
}

#[test]
fn a_message_that_does_not_come_whole_in_time_ends_its_connection() {
    let (mut world, mut rng, one) = alone(EngineConfig::default());
    let slow = (one, world.connect(one, "slow"));
    let steady = (one, world.connect(one, "steady"));
    world.act(slow.0, slow.1, |client| begin(client, 1, 90_000));
    // A client that always has begun another message, and finishes each, may go on.
    world.act(steady.0, steady.1, |client| begin(client, 1, 5_000));
    for number in 2..=10 {
        pass(&mut world, 20);
        world.act(steady.0, steady.1, |client| {
            client.written.push(0);
            begin(client, number, 5_000);
        });
        world.run(&mut rng);
        assert_eq!(end(&mut world, slow).is_some(), number > 3);
    }
    let (code, text) = end(&mut world, slow).expect("it never finished");
    assert_eq!(code, Disconnect::Overload);
    assert!(text.contains("not come whole within 60 s"), "{text}");
    assert_eq!(end(&mut world, steady), None);
    assert_eq!(world.client(steady.0, steady.1).accepted, 9);
    assert_eq!(world.daemon(one).engine.status().clients.len(), 1);
}

/// A frame is late too where bytes of it have come that cannot be read before more come.
#[test]
fn a_record_that_does_not_come_whole_in_time_ends_its_connection() {
    let (mut world, _, one) = alone(EngineConfig::default());
    let slow = (one, world.connect(one, "slow"));
    let whole = (one, world.connect(one, "whole"));
    for (who, at) in [(slow, 0), (whole, 0), (whole, 50)] {
        let now = world.now + std::time::Duration::from_secs(at);
        let engine = &mut world.daemon(who.0).engine;
        let unfinished = (at == 0).then_some(0);
        engine.set_input_ahead(
            now,
            who.1,
            InputAhead {
                unfinished,
                ..InputAhead::default()
            },
        );
    }
    pass(&mut world, 59);
    assert_eq!(end(&mut world, slow), None);
    pass(&mut world, 2);
    let (code, text) = end(&mut world, slow).expect("its record never came whole");
    assert_eq!(code, Disconnect::Overload);
    assert!(text.contains("not come whole within 60 s"), "{text}");
    assert_eq!(end(&mut world, whole), None);
}

/// A message of which a part came before the time of the last one was over has a time of its own.
#[test]
fn each_record_has_a_time_of_its_own() {
    let (mut world, _, one) = alone(EngineConfig::default());
    let steady = (one, world.connect(one, "steady"));
    for number in 0..3 {
        let now = world.now;
        let engine = &mut world.daemon(one).engine;
        let unfinished = Some(number);
        engine.set_input_ahead(
            now,
            steady.1,
            InputAhead {
                bytes: 9,
                unfinished,
                ..InputAhead::default()
            },
        );
        pass(&mut world, 50);
        assert_eq!(end(&mut world, steady), None);
    }
    pass(&mut world, 11);
    let (_, text) = end(&mut world, steady).expect("the last one never came whole");
    assert!(text.contains("only 9 bytes of it"), "{text}");
}

/// Clients that never read do not take more memory than there is for all, and those that do read
/// are not the ones that go.
#[test]
fn of_clients_for_which_too_much_waits_the_slowest_goes_first() {
    const MAX: usize = 200_000;
    let (mut world, mut rng, one) = alone(EngineConfig {
        output_max: MAX,
        stop_publishers_at: 1 << 30,
        ..EngineConfig::default()
    });
    let readers = ["r1", "r2"].map(|name| (one, world.connect(one, name)));
    let slow = ["s1", "s2", "s3", "s4", "s5"].map(|name| (one, world.connect(one, name)));
    let al = (one, world.connect(one, "al"));
    for who in readers.into_iter().chain(slow) {
        world.act(who.0, who.1, |client| client.join("g"));
    }
    // More waits for this one than for the others.
    world.act(slow[2].0, slow[2].1, |client| client.join("h"));
    world.run(&mut rng);
    for who in slow {
        world.client(who.0, who.1).reads = false;
    }
    let disconnected = |world: &mut World| {
        let status = world.daemon(one).engine.status();
        let waits: usize = status.clients.iter().map(|client| client.backlog).sum();
        (status.counters.clients_disconnected, waits)
    };
    let mut first_gone = None;
    for number in 0..1_000u32 {
        world.act(al.0, al.1, |client| {
            let payload = [&number.to_be_bytes()[..], &[0; 96]].concat();
            let group = ["g", "h"][number as usize % 2];
            client.publish(&[group], Service::Agreed, &payload);
        });
        world.run(&mut rng);
        let (gone, waits) = disconnected(&mut world);
        assert!(waits < 2 * MAX, "{waits} bytes wait");
        if gone > 0 && first_gone.is_none() {
            let mut facts = world.daemon(one).facts.iter().map(ToString::to_string);
            first_gone = facts.rfind(|fact| fact.contains("too slow"));
        }
    }
    let first = first_gone.expect("they never read");
    assert!(first.contains("disconnected s3@h1: too slow"), "{first}");
    for who in readers {
        assert_eq!(end(&mut world, who), None);
        assert_eq!(world.client(who.0, who.1).messages().count(), 500);
    }
}

/// Answers are part of what waits for the client that asked. A client that asks again and again and
/// reads nothing is disconnected for its own backlog, long before it has used up what all clients
/// share.
#[test]
fn a_client_that_asks_and_never_reads_is_held_to_its_own_backlog() {
    const MAX: usize = 4_096;
    let questions = [
        ClientFrame::Status,
        ClientFrame::Groups,
        ClientFrame::Rekey {
            path: b"/key".to_vec(),
        },
        ClientFrame::Ping { token: 1 },
    ];
    for question in questions {
        let (mut world, _, one) = alone(EngineConfig {
            disconnect_at: MAX,
            ..EngineConfig::default()
        });
        let asker = (one, world.connect(one, "asker"));
        let other = (one, world.connect(one, "other"));
        world.client(asker.0, asker.1).reads = false;
        let mut most = 0;
        for _ in 0..1_000 {
            world.act(asker.0, asker.1, |client| client.send(&question));
            world.act(other.0, other.1, |client| {
                client.send(&ClientFrame::Status);
            });
            let status = world.daemon(one).engine.status();
            let backlogs = status.clients.iter().map(|client| client.backlog);
            most = most.max(backlogs.max().unwrap_or(0));
        }
        assert!(most < 2 * MAX, "{question:?}: {most} bytes waited");
        let counters = world.daemon(one).engine.counters();
        assert_eq!(counters.clients_disconnected, 1, "{question:?}");
        let mut facts = world.daemon(one).facts.iter().map(ToString::to_string);
        let is_reason = |fact: &String| fact.contains("disconnected asker@h1: too slow");
        assert!(facts.any(|fact| is_reason(&fact)), "{question:?}");
        assert_eq!(end(&mut world, other), None, "it reads its answers");
    }
}

/// Clients that wait for one long message share its bytes: it is in memory once.
#[test]
fn a_long_message_to_many_is_counted_once() {
    let (mut world, mut rng, one) = alone(EngineConfig {
        output_max: 200_000,
        stop_publishers_at: 1 << 30,
        ..EngineConfig::default()
    });
    let al = (one, world.connect(one, "al"));
    for name in ["s1", "s2", "s3", "s4", "s5"] {
        let who = (one, world.connect(one, name));
        world.act(who.0, who.1, |client| client.join("g"));
        world.run(&mut rng);
        world.client(who.0, who.1).reads = false;
    }
    world.act(al.0, al.1, |client| {
        client.publish(&["g"], Service::Agreed, &[1; 150_000]);
    });
    world.run(&mut rng);
    let counters = world.daemon(one).engine.counters();
    assert_eq!(counters.clients_disconnected, 0);
}

#[test]
fn memberships_of_all_clients_are_counted_through_joins_leaves_and_ends() {
    let (mut world, mut rng, one) = alone(EngineConfig {
        memberships_max: 3,
        ..EngineConfig::default()
    });
    let al = (one, world.connect(one, "al"));
    let bo = (one, world.connect(one, "bo"));
    let rejected = |world: &mut World, who: Who, group: &str| {
        let before = world.client(who.0, who.1).rejected_groups.len();
        world.act(who.0, who.1, |client| client.join(group));
        world.client(who.0, who.1).rejected_groups.len() > before
    };
    for group in ["a", "b", "a"] {
        assert!(
            !rejected(&mut world, al, group),
            "the same group counts once"
        );
    }
    assert!(!rejected(&mut world, bo, "a"));
    assert!(rejected(&mut world, bo, "c"));
    world.act(al.0, al.1, |client| {
        client.leave("b");
        client.leave("b");
    });
    assert!(!rejected(&mut world, bo, "c"));
    assert!(rejected(&mut world, bo, "d"));
    world.run(&mut rng);
    world.vanish(al.0, al.1);
    world.run(&mut rng);
    assert!(!rejected(&mut world, bo, "d"));
    assert!(rejected(&mut world, bo, "e"));
}

/// A client that takes nothing but gives some credit back now and then, even none, is as slow as
/// one that is silent.
#[test]
fn credit_is_no_sign_that_a_client_takes_its_messages() {
    let (mut world, mut rng, one) = alone(EngineConfig {
        stop_publishers_at: 20_000,
        ..EngineConfig::default()
    });
    let slow = (one, world.connect(one, "slow"));
    let al = (one, world.connect(one, "al"));
    world.act(slow.0, slow.1, |client| client.join("g"));
    world.run(&mut rng);
    world.client(slow.0, slow.1).reads = false;
    world.act(al.0, al.1, |client| {
        for number in 0..30u8 {
            client.publish(&["g"], Service::Agreed, &[number; 1_000]);
        }
    });
    world.run(&mut rng);
    for bytes in [0, 1, 0, 1] {
        let status = world.daemon(one).engine.status();
        assert_eq!(status.clients.len(), 2, "it has 30 s");
        pass(&mut world, 8);
        world.act(slow.0, slow.1, |client| {
            client.send(&ClientFrame::Credit { bytes });
        });
    }
    let status = world.daemon(one).engine.status();
    assert_eq!(status.counters.clients_disconnected, 1);
    let facts = &world.daemon(one).facts;
    let is_slow = |fact: &Fact| {
        fact.to_string()
            .contains("next to none were taken for 30 s")
    };
    assert!(facts.iter().any(is_slow));
}

#[test]
fn a_slow_client_misses_unreliable_messages_and_no_others() {
    let (mut world, mut rng, one) = alone(EngineConfig {
        drop_unreliable_at: 5_000,
        ..EngineConfig::default()
    });
    let slow = (one, world.connect(one, "slow"));
    let al = (one, world.connect(one, "al"));
    world.act(slow.0, slow.1, |client| client.join("g"));
    world.run(&mut rng);
    world.client(slow.0, slow.1).reads = false;
    for (service, count) in [
        (Service::Agreed, 6),
        (Service::Unreliable, 2),
        (Service::Agreed, 1),
    ] {
        for number in 0..count {
            world.act(al.0, al.1, |client| {
                client.publish(&["g"], service, &[number + count; 1_000]);
            });
            world.run(&mut rng);
        }
    }
    let status = world.daemon(one).engine.status();
    assert_eq!(status.counters.unreliable_dropped, 2);
    let client = status
        .clients
        .iter()
        .find(|client| &*client.name == "slow@h1");
    assert_eq!(client.expect("it is connected").dropped, 2);
    world.client(slow.0, slow.1).reads = true;
    world.act(slow.0, slow.1, |client| client.join("h"));
    world.run(&mut rng);
    assert_eq!(world.client(slow.0, slow.1).messages().count(), 7);
}

/// Changes of groups are dear: who makes many waits for them, and who publishes does not.
#[test]
fn few_changes_of_groups_are_on_their_way_at_a_time() {
    let (mut world, mut rng, one) = alone(EngineConfig::default());
    world.queue_max = usize::MAX;
    let al = (one, world.connect(one, "al"));
    let bo = (one, world.connect(one, "bo"));
    world.act(bo.0, bo.1, |client| client.join("x"));
    world.run(&mut rng);
    let before = world.client(bo.0, bo.1).seen.len();
    world.act(al.0, al.1, |client| {
        for _ in 0..500 {
            client.join("g");
            client.leave("g");
        }
        client.join("g");
    });
    world.act(bo.0, bo.1, |client| {
        client.publish(&["x"], Service::Agreed, b"hello");
    });
    let waiting = world.daemon(one).queue.len();
    assert!((17..=20).contains(&waiting), "{waiting} wait");
    for _ in 0..waiting {
        world.order(one, &mut rng);
        world.deliver(one);
    }
    assert_eq!(world.client(bo.0, bo.1).seen.len(), before + 1);
    world.run(&mut rng);
    let joins = 501;
    let leaves = 500;
    assert_eq!(world.client(al.0, al.1).seen.len(), joins + leaves);
}

/// Clients that always have messages do not make one wait that has a message now and then: it waits
/// for what the order's queue has, and for one turn.
#[test]
fn a_lone_message_waits_for_one_turn_of_those_who_always_have_some() {
    const TURN: usize = 4 * 1024;
    const LEN: usize = 1_000;
    let (mut world, mut rng, one) = alone(EngineConfig::default());
    let lone = world.connect(one, "lone");
    let greedy: Vec<_> = (0..13)
        .map(|number| world.connect(one, &format!("greedy{number}")))
        .collect();
    let fill = |world: &mut World| {
        for id in &greedy {
            while world.client(one, *id).may_publish() {
                world.act(one, *id, |client| {
                    client.publish(&["g"], Service::Agreed, &[1; LEN]);
                });
            }
        }
    };
    let say = |world: &mut World| {
        world.act(one, lone, |client| {
            client.publish(&["g"], Service::Agreed, b"lone");
        });
    };
    say(&mut world);
    world.run(&mut rng);
    for round in 0..40 {
        fill(&mut world);
        for _ in 0..round {
            world.order(one, &mut rng);
            world.deliver(one);
        }
        fill(&mut world);
        say(&mut world);
        let mut ahead = 0;
        loop {
            let (_, _, payload) = world.daemon(one).queue.front().expect("messages wait");
            let is_lone = payload.ends_with(b"lone");
            world.order(one, &mut rng);
            world.deliver(one);
            if is_lone {
                break;
            }
            ahead += 1;
            fill(&mut world);
        }
        // The queue of the order is full, and one message waits before it that was refused.
        let most = world.queue_max + 1 + TURN.div_ceil(LEN);
        assert!(ahead <= most, "round {round}: {ahead} messages before it");
    }
}
