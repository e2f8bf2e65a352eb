//! Goal: no client keeps a turn busy for long, each gets its share, and what a client is told last
//! arrives. Method: real sockets, and turns one at a time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;

use bytes::Bytes;
use groupcast_core::{Delivery, Event, Incarnation, MemberId, MessageId, NodeId, Service};
use groupcast_session::EngineConfig;
use groupcast_session::frame::{
    BusRequest, ClientFrame, ClientKind, DaemonFrame, FEATURES, FRAME_MAX, FrameDecoder, Hello,
    MAGIC, VERSION,
};
use groupcast_session::groups::{Carrier, Fact, Question};

use super::shares::{
    END_COST, LONG_PART, PART_REST_MAX, PATTERN_REST, REQUEST_COST, REQUEST_REST, REQUESTS_FREE,
    WAKE_COST, WRITE_SHARE,
};
use super::*;
use crate::config::BusAddress;

const READABLE: Readiness = Readiness {
    readable: true,
    writable: false,
    closed: false,
};
/// This many frames the engine handles in one call at most.
const ONE_CALL: u64 = 64;
/// The shortest frame there is, of a kind that no daemon knows.
const UNKNOWN: [u8; 5] = [0, 0, 0, 1, 200];

fn engine() -> Engine {
    engine_of(EngineConfig::default())
}

fn engine_of(config: EngineConfig) -> Engine {
    let local = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    Engine::new(config, local, "h").unwrap()
}

fn hello() -> Vec<u8> {
    hello_with(0)
}

fn hello_with(features: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    ClientFrame::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        features,
        kind: ClientKind::Application,
        delivery_window: 1 << 20,
        name: None,
        token: None,
    })
    .encode(&mut bytes);
    bytes
}

/// A client that has said hello and written `UNKNOWN` until its socket was full.
fn flood(path: &Path) -> StdUnixStream {
    let mut stream = StdUnixStream::connect(path).unwrap();
    stream.write_all(&hello()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let frames = UNKNOWN.repeat(1_000);
    while stream.write(&frames).is_ok_and(|len| len == frames.len()) {}
    stream
}

#[test]
fn there_are_files_for_all_clients_for_those_that_are_refused_or_linger_and_for_rings() {
    let config = EngineConfig::default();
    let (refused, lingering) = (REFUSED_MAX, linger::COUNT_MAX);
    let connections = config.clients_max + refused + lingering;
    // Each ring has two sockets, a poll and a history.
    let rings = 4 * RINGS_PER_DAEMON_MAX;
    // Each trace has a file, and there are sockets, histories and the log.
    assert!(files_wanted(config.clients_max) >= (connections + rings + 128) as u64);
}

/// Whoever keeps all files of a daemon open would fill its log otherwise.
#[test]
fn that_no_client_can_be_accepted_is_told_to_the_loop_and_tried_again_later() {
    let path = std::env::temp_dir().join(format!("gc-trouble-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    // A socket that does not listen: each accept fails.
    let (one, _other) = StdUnixStream::pair().unwrap();
    let listener = std::os::unix::net::UnixListener::from(std::os::fd::OwnedFd::from(one));
    listener.set_nonblocking(true).unwrap();
    clients.unix.listener = mio::net::UnixListener::from_std(listener);
    let (mut engine, mut now) = (engine(), Time::ZERO);
    clients.accept_at = Some(now);
    for _ in 0..3 {
        clients.take_input(now, &mut engine);
        assert_eq!(clients.patience(now, &mut engine), Some(ACCEPT_PAUSE));
        assert!(clients.take_trouble().is_some());
        assert!(clients.take_trouble().is_none(), "it is told once");
        now += ACCEPT_PAUSE;
    }
}

/// Writing to a client may give others output, as credit that they wait for: the loop does not
/// sleep on it.
#[test]
fn output_that_came_while_others_were_written_to_is_not_slept_on() {
    let path = std::env::temp_dir().join(format!("gc-due-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let (mut engine, now) = (engine(), Time::ZERO);
    assert_eq!(clients.patience(now, &mut engine), None);
    let stream = StdUnixStream::connect(&path).unwrap();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    assert_eq!(clients.patience(now, &mut engine), Some(Duration::ZERO));
    clients.give_output(now, &mut engine);
    assert_eq!(clients.patience(now, &mut engine), None);
    drop(stream);
}

#[test]
fn a_long_answer_is_written_in_shares() {
    const LEN: usize = 16 << 20;
    let path = std::env::temp_dir().join(format!("gc-long-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let now = Time::ZERO;
    let mut client = StdUnixStream::connect(&path).unwrap();
    client.write_all(&hello()).unwrap();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let id = *clients.streams.keys().next().unwrap();
    clients.readable.push(id);
    clients.take_input(now, &mut engine);
    engine.answer(now, id, Question::Status, Bytes::from(vec![b' '; LEN]));
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut all) = (vec![0; 1 << 20], 0);
        while all < LEN {
            all += client.read(&mut bytes).unwrap();
        }
    });
    while !reader.is_finished() {
        let written = clients.write(now, id, &mut engine);
        assert!(written < 2 * WRITE_SHARE, "{written} bytes in a turn");
    }
    reader.join().unwrap();
}

#[test]
fn a_turn_is_short_however_many_clients_flood_and_each_gets_its_share() {
    const FLOODS: usize = 40;
    let path = std::env::temp_dir().join(format!("gc-flood-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let now = Time::ZERO;
    let floods: Vec<_> = (0..FLOODS).map(|_| flood(&path)).collect();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
    assert_eq!(ids.len(), FLOODS);
    for id in ids {
        clients.readable.push(id);
    }
    // A call may handle more frames than the turn has left.
    let most = (READ_TOTAL / REQUEST_COST) as u64 + ONE_CALL;
    let mut before = 0;
    let mut turns = 0;
    while engine.counters().clients_accepted < FLOODS as u64 {
        clients.take_input(now, &mut engine);
        let frames = engine.counters().frames_unknown;
        assert!(
            frames - before <= most,
            "{} frames in a turn",
            frames - before
        );
        before = frames;
        turns += 1;
        assert!(turns <= 2 * FLOODS, "some client is never read");
    }
    assert!(turns > 2, "they were too few to fill a turn");
    drop(floods);
}

#[test]
fn a_little_is_read_before_the_network_and_the_rest_behind_it() {
    let path = std::env::temp_dir().join(format!("gc-first-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let now = Time::ZERO;
    let mut calm = StdUnixStream::connect(&path).unwrap();
    calm.write_all(&hello()).unwrap();
    let floods: Vec<_> = (0..40).map(|_| flood(&path)).collect();
    clients.accept_at = Some(now);
    clients.take_first_input(now, &mut engine);
    assert_eq!(clients.count(), 0, "connections wait for the network");
    clients.take_input(now, &mut engine);
    let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
    for id in ids {
        clients.readable.push(id);
    }
    clients.take_first_input(now, &mut engine);
    assert!(engine.counters().clients_accepted > 0, "the first was read");
    let first = engine.counters().frames_unknown;
    // A read brings thousands of frames: those for which there is no room wait.
    assert!(
        first <= (READ_FIRST / REQUEST_COST) as u64 + ONE_CALL,
        "{first} frames"
    );
    assert!(clients.readable.len() > 0);
    clients.take_input(now, &mut engine);
    let both = engine.counters().frames_unknown;
    // Both halves of the turn may exceed their shares by a call.
    assert!(both > first && both <= (READ_TOTAL / REQUEST_COST) as u64 + 2 * ONE_CALL);
    drop(floods);
}

#[test]
fn a_turn_compiles_one_pattern_of_a_client_and_what_stands_behind_it_waits() {
    const PATTERNS: u64 = 20;
    let path = std::env::temp_dir().join(format!("gc-patterns-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let mut now = Time::ZERO;
    let mut dear = StdUnixStream::connect(&path).unwrap();
    let mut bytes = hello();
    for token in 0..PATTERNS {
        // Twice each: the second is known.
        for _ in 0..2 {
            let request = BusRequest::Accept {
                group: "g".into(),
                pattern: format!("{token}(a|b|c|d|e|f|g|h|){{40}}"),
                ring: false,
            };
            ClientFrame::Bus { token, request }.encode(&mut bytes);
        }
    }
    bytes.extend_from_slice(&UNKNOWN);
    dear.write_all(&bytes).unwrap();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let id = *clients.streams.keys().next().unwrap();
    clients.handle_ready(now, token_of(id), READABLE);
    for compiled in 1..=PATTERNS {
        clients.take_input(now, &mut engine);
        assert_eq!(engine.counters().patterns_compiled, compiled);
        assert_eq!(engine.counters().frames_unknown, 0);
        // Whatever it sends meanwhile, it rests.
        clients.handle_ready(now, token_of(id), READABLE);
        clients.take_input(now, &mut engine);
        assert_eq!(engine.counters().patterns_compiled, compiled);
        now += PATTERN_REST;
    }
    clients.take_input(now, &mut engine);
    assert_eq!(engine.counters().frames_unknown, 1, "the last frame");
}

/// A view of a bimodal group names all members, and each join and leave makes one for its client.
#[test]
fn who_joins_and_leaves_a_large_bimodal_group_gets_a_few_views_and_rests() {
    let path = std::env::temp_dir().join(format!("gc-views-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine_of(EngineConfig {
        bimodal_groups: vec!["ticks".into()],
        ..EngineConfig::default()
    });
    let now = Time::ZERO;
    // 300 clients of other daemons.
    for host in 0..3u8 {
        let mut presence = vec![2, 2, b'a', b'0' + host, 100];
        for client in 0..100u8 {
            presence.extend([3, b'c', b'0' + client / 10, b'0' + client % 10]);
        }
        let number = u64::from(host) + 2;
        let sender = MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number),
        };
        let delivery = Delivery {
            id: MessageId { sender, number: 1 },
            service: Service::Bimodal,
            place: None,
            payload: presence.into(),
        };
        engine.handle_event(now, Carrier::Bimodal(0), Event::Deliver(delivery));
    }
    let mut client = StdUnixStream::connect(&path).unwrap();
    let mut bytes = hello_with(FEATURES);
    for _ in 0..20 {
        ClientFrame::Join {
            group: "ticks".into(),
            discard_own: false,
            ring: false,
        }
        .encode(&mut bytes);
        ClientFrame::Leave {
            group: "ticks".into(),
        }
        .encode(&mut bytes);
    }
    client.write_all(&bytes).unwrap();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let id = *clients.streams.keys().next().unwrap();
    clients.handle_ready(now, token_of(id), READABLE);
    clients.take_input(now, &mut engine);
    let views = engine.counters().views;
    assert!((2..=4).contains(&views), "{views} views");
    assert!(clients.rests.contains(id));
}

#[test]
fn who_sends_many_requests_rests_and_the_others_do_not() {
    let path = std::env::temp_dir().join(format!("gc-rest-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let mut now = Time::ZERO;
    let _flood = flood(&path);
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let flooding = *clients.streams.keys().next().unwrap();
    let wake = |clients: &mut Clients, engine: &mut Engine, now| {
        clients.handle_ready(now, token_of(flooding), READABLE);
        clients.take_input(now, engine);
        engine.counters().frames_unknown
    };
    let first = wake(&mut clients, &mut engine, now);
    assert!(first > REQUESTS_FREE as u64);
    assert_eq!(wake(&mut clients, &mut engine, now), first, "it rests");

    let mut calm = StdUnixStream::connect(&path).unwrap();
    calm.write_all(&hello()).unwrap();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let other = *clients.streams.keys().next_back().unwrap();
    clients.handle_ready(now, token_of(other), READABLE);
    clients.take_input(now, &mut engine);
    assert_eq!(engine.counters().clients_accepted, 2, "it is read at once");

    clients.give_output(now, &mut engine);
    let rest = clients.patience(now, &mut engine).unwrap();
    // Its hello is a request as well.
    assert_eq!(rest, REQUEST_REST * (first as u32 + 1));
    now += rest;
    clients.take_input(now, &mut engine);
    assert!(engine.counters().frames_unknown > first, "it has rested");
}

#[test]
fn where_two_send_long_frames_each_rests_after_a_part_and_what_ends_comes_whole() {
    let path = std::env::temp_dir().join(format!("gc-part-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let mut now = Time::ZERO;
    let join = |clients: &mut Clients, engine: &mut Engine| {
        let mut stream = StdUnixStream::connect(&path).unwrap();
        stream.write_all(&hello()).unwrap();
        clients.accept_at = Some(now);
        clients.take_input(now, engine);
        let id = *clients.streams.keys().next_back().unwrap();
        clients.handle_ready(now, token_of(id), READABLE);
        clients.take_input(now, engine);
        stream.set_nonblocking(true).unwrap();
        (stream, id)
    };
    let (mut endless, other) = join(&mut clients, &mut engine);
    let (mut long, id) = join(&mut clients, &mut engine);
    assert_eq!(engine.counters().clients_accepted, 2);

    endless.write_all(&(1u32 << 24).to_be_bytes()).unwrap();
    for _ in 0..4 {
        while endless.write(&[0; 1 << 12]).is_ok() {}
        clients.handle_ready(now, token_of(other), READABLE);
        clients.take_input(now, &mut engine);
        assert!(clients.long.contains(&other));
        assert!(clients.rests.is_empty(), "it is alone");
    }

    let mut frame = (1u32 << 20).to_be_bytes().to_vec();
    // Of a kind that no daemon knows: it is counted and ignored.
    frame.resize(4 + (1 << 20), 200);
    let (mut rest, mut parts) = (&frame[..], 0);
    while engine.counters().frames_unknown == 0 {
        while let Ok(len) = long.write(rest) {
            rest = &rest[len..];
            if rest.is_empty() {
                break;
            }
        }
        let before = rest.len();
        clients.handle_ready(now, token_of(id), READABLE);
        clients.take_input(now, &mut engine);
        if !clients.rests.contains(id) {
            assert!(before == 0, "a part of it, and no rest");
            continue;
        }
        parts += 1;
        clients.handle_ready(now, token_of(id), READABLE);
        assert_eq!(clients.readable.len(), 0, "it is not read while it rests");
        clients.give_output(now, &mut engine);
        let time = clients.patience(now, &mut engine).unwrap();
        assert!(time > Duration::ZERO && time <= PART_REST_MAX);
        now += time;
    }
    assert!(parts >= 2, "{parts} parts");
    assert!(frame.len() > parts * LONG_PART);
    assert!(!clients.long.contains(&id), "it has ended");
    drop(endless);
    clients.end(now, other, &mut engine);
    assert!(clients.long.is_empty());
}

/// Each end takes a client out of all that knows it: many at once would be a long turn.
#[test]
fn of_many_clients_that_end_at_once_a_turn_takes_a_share() {
    const COUNT: usize = 200;
    let path = std::env::temp_dir().join(format!("gc-ends-all-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let (mut engine, now) = (engine(), Time::ZERO);
    let mut streams = Vec::new();
    for number in 0..COUNT {
        let mut stream = StdUnixStream::connect(&path).unwrap();
        stream.write_all(&hello()).unwrap();
        streams.push(stream);
        clients.accept_at = Some(now);
        clients.take_input(now, &mut engine);
        assert_eq!(clients.streams.len(), number + 1);
    }
    let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
    let wake = |clients: &mut Clients, closed| {
        for id in &ids {
            let readiness = Readiness { closed, ..READABLE };
            clients.handle_ready(now, token_of(*id), readiness);
        }
    };
    wake(&mut clients, false);
    clients.take_input(now, &mut engine);
    assert_eq!(engine.counters().clients_accepted, COUNT as u64);
    clients.give_output(now, &mut engine);
    drop(streams);
    wake(&mut clients, true);
    let mut turns = 0;
    while !clients.streams.is_empty() {
        let before = clients.streams.len();
        assert_eq!(clients.patience(now, &mut engine), Some(Duration::ZERO));
        clients.take_input(now, &mut engine);
        let ended = before - clients.streams.len();
        assert!(ended > 0 && ended <= READ_TOTAL / END_COST, "{ended} ends");
        turns += 1;
    }
    assert!(turns > 2, "{turns} turns");
    assert_eq!(engine.status().clients.len(), 0);
}

/// To wake a client takes as long as some kilobytes, however little is written to it.
#[test]
fn a_turn_does_not_wake_all_clients() {
    const COUNT: usize = 600;
    let path = std::env::temp_dir().join(format!("gc-wakes-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine();
    let mut now = Time::ZERO;
    raise_file_limit(COUNT).unwrap();
    let mut streams = Vec::new();
    for _ in 0..COUNT {
        streams.push(StdUnixStream::connect(&path).unwrap());
        clients.accept_at = Some(now);
        clients.take_input(now, &mut engine);
        now += Duration::from_millis(1);
    }
    let most = (WRITE_TOTAL / WAKE_COST) as u64;
    let before = clients.calls();
    clients.give_output(now, &mut engine);
    assert!(clients.has_output());
    assert!(clients.calls().writes - before.writes <= most);
    while clients.has_output() {
        clients.give_output(now, &mut engine);
    }
    // Each has been greeted.
    for stream in &mut streams {
        let mut magic = [0; MAGIC.len()];
        stream.read_exact(&mut magic).unwrap();
    }
}

/// Their end comes in the read that would note that they sent much.
#[test]
fn nothing_is_kept_of_who_sends_a_part_of_a_long_frame_and_ends() {
    let path = std::env::temp_dir().join(format!("gc-ends-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let (mut engine, now) = (engine(), Time::ZERO);
    for _ in 0..3 {
        let mut stream = StdUnixStream::connect(&path).unwrap();
        stream.write_all(&hello()).unwrap();
        clients.accept_at = Some(now);
        clients.take_input(now, &mut engine);
        let id = *clients.streams.keys().next_back().unwrap();
        clients.handle_ready(now, token_of(id), READABLE);
        clients.take_input(now, &mut engine);
        let mut part = (1u32 << 24).to_be_bytes().to_vec();
        part.resize(LONG_PART + 4096, 0);
        stream.write_all(&part).unwrap();
        drop(stream);
        let closed = Readiness {
            closed: true,
            ..READABLE
        };
        clients.handle_ready(now, token_of(id), closed);
        clients.take_input(now, &mut engine);
        assert_eq!(clients.count(), 0, "it was read to its end");
    }
    assert_eq!(engine.counters().clients_accepted, 3);
    assert!(clients.long.is_empty() && clients.rests.is_empty());
    assert_eq!(clients.readable.len_took_much(), 0);
}

/// The keep-alive of the system does not ask a host to which something is under way.
#[test]
fn who_acknowledges_nothing_is_not_there_any_more() {
    const RETURN: u16 = 6;
    let poll = mio::Poll::new().unwrap();
    let path = std::env::temp_dir().join(format!("gc-silent-{}", std::process::id()));
    let tcp = TcpAcceptor::open(([127, 0, 0, 1], 0).into(), None).unwrap();
    let address = tcp.address().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, Some(tcp)).unwrap();
    let mut engine = engine();
    let mut turn = |clients: &mut Clients, token| {
        clients.handle_ready(Time::ZERO, token, READABLE);
        clients.take_input(Time::ZERO, &mut engine);
        clients.give_output(Time::ZERO, &mut engine);
    };
    let connect = |_| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&hello()).unwrap();
        client
    };
    let [gone, mut there] = [0, 1].map(connect);
    while clients.count() < 2 {
        turn(&mut clients, TCP_ACCEPTOR);
    }
    // What comes from the daemon is lost, as if this host were gone.
    let nothing = socket2::SockFilter::new(RETURN, 0, 0, 0);
    socket2::SockRef::from(&gone)
        .attach_filter(&[nothing])
        .unwrap();
    for id in [1, 2] {
        turn(&mut clients, token_of(ClientId(id)));
    }
    let begun = std::time::Instant::now();
    while clients.count() == 2 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
        clients.end_silent(Time::ZERO, &mut engine, Duration::from_millis(300));
    }
    assert_eq!(clients.streams.keys().collect::<Vec<_>>(), [&ClientId(2)]);
    assert_eq!(
        clients.patience(Time::ZERO, &mut engine),
        Some(LOOK_INTERVAL)
    );
    let mut magic = [0; MAGIC.len()];
    there.read_exact(&mut magic).unwrap();
    clients.end_silent(Time::ZERO, &mut engine, Duration::ZERO);
    assert_eq!(
        clients.count(),
        1,
        "it owes nothing, however long it is silent"
    );
}

/// A client that has a lot to read and goes on sending still gets the last frame.
#[test]
fn the_reason_of_an_expulsion_arrives_over_tcp() {
    let path = std::env::temp_dir().join(format!("gc-linger-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let any = TcpAcceptor::open(([127, 0, 0, 1], 0).into(), None).unwrap();
    let mut clients = Clients::open(poll.registry(), &path, Some(any)).unwrap();
    let mut engine = engine();
    let now = Time::ZERO;
    let mut client = TcpStream::connect(clients.tcp_address().unwrap()).unwrap();
    client.write_all(&hello()).unwrap();
    clients.accept_at = Some(now);
    let id = loop {
        clients.take_input(now, &mut engine);
        clients.accept_at = Some(now);
        if let Some(id) = clients.streams.keys().next().copied() {
            clients.readable.push(id);
            if engine.counters().clients_accepted == 1 {
                break id;
            }
        }
    };
    let long = Bytes::from(vec![b' '; 1 << 20]);
    engine.answer(now, id, Question::Status, long);
    clients.give_output(now, &mut engine);
    // A frame of no length, and more behind it that the daemon does not read.
    client.write_all(&[0; 200_000]).unwrap();
    while engine.counters().frames_bad == 0 {
        clients.readable.push(id);
        clients.take_input(now, &mut engine);
    }
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        std::thread::sleep(Duration::from_millis(100));
        client.read_to_end(&mut all).map(|_| all)
    });
    while !reader.is_finished() {
        clients.write(now, id, &mut engine);
        clients.give_output(now, &mut engine);
        clients.handle_ready(now, token_of(id), READABLE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let all = reader
        .join()
        .unwrap()
        .expect("the connection ends, it is not reset");
    let text = String::from_utf8_lossy(&all);
    assert!(text.contains("a frame of no bytes"), "{}", all.len());
}

/// Clients and a listener for the bus at `path`.
fn with_bus(registry: &Registry, directory: &Path) -> (Clients, PathBuf) {
    let bus_path = directory.join("bus");
    let mut clients = Clients::open(registry, &directory.join("socket"), None).unwrap();
    let bus = BusAcceptor::open(&BusAddress::Unix(bus_path.clone()), None).unwrap();
    clients.listen_for_bus(vec![bus], None, None).unwrap();
    (clients, bus_path)
}

/// The engine is done with it when its last frame is text that waits for room in the socket.
#[test]
fn the_reason_of_an_expulsion_is_not_lost_where_text_of_the_bus_waits() {
    let directory = std::env::temp_dir().join(format!("gc-last-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let poll = mio::Poll::new().unwrap();
    let (mut clients, bus_path) = with_bus(poll.registry(), &directory);
    let (mut engine, mut now) = (engine(), Time::ZERO);
    let mut client = StdUnixStream::connect(bus_path).unwrap();
    clients.accept_at = Some(now);
    let ready = Readiness {
        writable: true,
        ..READABLE
    };
    let turn = |clients: &mut Clients, engine: &mut Engine, now: &mut Time| {
        clients.take_input(*now, engine);
        if let Some(id) = clients.streams.keys().next().copied() {
            clients.handle_ready(*now, token_of(id), ready);
        }
        clients.give_output(*now, engine);
        *now += Duration::from_millis(1);
    };
    while engine.counters().clients_accepted == 0 {
        turn(&mut clients, &mut engine, &mut now);
    }
    let id = *clients.streams.keys().next().unwrap();
    // It does not read, and asks for what fills its socket.
    client.set_nonblocking(true).unwrap();
    while !clients.blocked.contains(&id) {
        let _ = client.write(b"help\nhelp\nhelp\n");
        turn(&mut clients, &mut engine, &mut now);
    }
    engine.stop(now, "the last word");
    while !clients.streams.is_empty() {
        turn(&mut clients, &mut engine, &mut now);
    }
    assert_eq!(clients.count(), 1, "it lingers");
    let mut told = Vec::new();
    let ends = |told: &mut Vec<u8>| {
        let mut bytes = [0; 1 << 16];
        match (&client).read(&mut bytes) {
            Ok(0) => return true,
            Ok(len) => told.extend_from_slice(&bytes[..len]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        false
    };
    while !ends(&mut told) {
        clients.handle_ready(now, token_of(id), ready);
    }
    let told = String::from_utf8(told).unwrap();
    let last = told.lines().next_back();
    assert_eq!(last, Some("closed stopping the last word"));
    assert_eq!(clients.count(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}

/// What a client reads until its connection ends: of its last frame the text.
fn last_word(mut client: StdUnixStream) -> Option<String> {
    let (mut bytes, mut decoder) = (Vec::new(), FrameDecoder::new(FRAME_MAX));
    // Where the daemon has not read what it sent, the end is an error.
    let _ = client.read_to_end(&mut bytes);
    let mut rest = &bytes[..];
    let mut last = None;
    loop {
        while let Some(raw) = decoder.next_frame().unwrap() {
            last = match DaemonFrame::decode(raw).unwrap() {
                Some(
                    DaemonFrame::Refused { text, .. } | DaemonFrame::Disconnected { text, .. },
                ) => Some(text),
                _ => None,
            };
        }
        if rest.is_empty() {
            return last;
        }
        let len = rest.read(decoder.space()).unwrap();
        decoder.filled(len);
    }
}

#[test]
fn who_is_one_too_many_even_to_be_refused_in_turn_is_told_and_so_is_the_log() {
    let path = std::env::temp_dir().join(format!("gc-many-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let mut engine = engine_of(EngineConfig {
        clients_max: 1,
        ..EngineConfig::default()
    });
    let now = Time::ZERO;
    // If root runs this, they may be tools of an operator, as far as the engine knows yet.
    let (open, refused) = match rustix::process::geteuid().is_root() {
        true => (1 + REFUSED_MAX + OPERATORS_MAX, 1),
        false => (1 + REFUSED_MAX, REFUSED_MAX + 1),
    };
    let mut streams: Vec<_> = (0..open + 1)
        .map(|_| {
            let mut stream = StdUnixStream::connect(&path).unwrap();
            stream.write_all(&hello()).unwrap();
            stream
        })
        .collect();
    while engine.counters().clients_refused < refused as u64 {
        clients.accept_at = Some(now);
        clients.take_input(now, &mut engine);
    }
    assert_eq!(clients.count(), open);
    let told = last_word(streams.pop().unwrap()).expect("a reason");
    assert!(
        told.contains("has 1 clients, as many as it takes"),
        "{told}"
    );
    let facts = std::iter::from_fn(|| engine.poll_fact());
    let told = facts.filter(|fact| matches!(fact, Fact::Refused { .. }));
    assert_eq!(told.count(), refused);
}

/// The system has no room for it in the poll.
#[test]
fn whom_the_daemon_cannot_wait_for_is_told_and_so_is_the_log() {
    let path = std::env::temp_dir().join(format!("gc-unwatched-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let (mut engine, now) = (engine(), Time::ZERO);
    let client = StdUnixStream::connect(&path).unwrap();
    let stream = loop {
        if let Some(Ok(stream)) = clients.accept_one() {
            break stream;
        }
    };
    let Stream::Unix(socket) = &stream else {
        panic!("it is a Unix socket");
    };
    // A socket cannot be registered twice.
    let fd = std::os::fd::AsRawFd::as_raw_fd(socket);
    let mut source = mio::unix::SourceFd(&fd);
    clients
        .registry
        .register(&mut source, Token(0), Interest::READABLE)
        .unwrap();
    clients.admit(now, stream, &mut engine);
    clients.give_output(now, &mut engine);
    assert_eq!(clients.count(), 0);
    let told = last_word(client).expect("a reason");
    assert!(told.contains("cannot wait for this client"), "{told}");
    let fact = engine.poll_fact().expect("a line for the log");
    let line = fact.to_string();
    assert!(line.starts_with("refused a connection (user "), "{line}");
    assert_eq!(engine.counters().clients_refused, 1);
}

/// Text of the bus that is no whole message takes memory, as an unfinished frame does.
#[test]
fn unfinished_messages_of_the_bus_are_bounded_together_and_in_time() {
    const MESSAGE: usize = 1 << 20;
    let directory = std::env::temp_dir().join(format!("gc-unfinished-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let poll = mio::Poll::new().unwrap();
    let (mut clients, bus_path) = with_bus(poll.registry(), &directory);
    let config = EngineConfig {
        message_max: MESSAGE,
        input_max: MESSAGE,
        ..EngineConfig::default()
    };
    let mut engine = engine_of(config);
    let mut now = Time::ZERO;
    // The second holds most when all together are too much; the last one types slowly.
    let begun = [300_000, 600_000, 400_000, 20].map(|len| {
        let client = StdUnixStream::connect(&bus_path).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut text = format!("msg t g {MESSAGE}\n").into_bytes();
        text.resize(len, b'x');
        (client, text)
    });
    let (sockets, mut texts) = begun.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let mut told = vec![String::new(); sockets.len()];
    let mut turns = |clients: &mut Clients, engine: &mut Engine, now: &mut Time, count: usize| {
        for _ in 0..count {
            for ((mut socket, text), told) in sockets.iter().zip(&mut texts).zip(&mut told) {
                let written = socket.write(text).unwrap_or(0);
                text.drain(..written);
                let mut bytes = [0; 4096];
                let read = socket.read(&mut bytes).unwrap_or(0);
                told.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
            clients.accept_at = Some(*now);
            let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
            for id in ids {
                clients.handle_ready(*now, token_of(id), READABLE);
            }
            clients.take_input(*now, engine);
            engine.handle_timeout(*now);
            clients.give_output(*now, engine);
            *now += Duration::from_millis(1);
        }
        told.clone()
    };
    let told_soon = turns(&mut clients, &mut engine, &mut now, 1_000);
    let closed = |told: &[String]| -> Vec<bool> {
        told.iter()
            .map(|it| it.contains("closed overload"))
            .collect()
    };
    assert_eq!(closed(&told_soon), [false, true, false, false]);
    assert!(
        told_soon[1].contains("unfinished message"),
        "{}",
        told_soon[1]
    );
    now += EngineConfig::default().frame_within;
    let told_late = turns(&mut clients, &mut engine, &mut now, 5);
    assert_eq!(closed(&told_late), [true, true, true, false]);
    assert!(
        told_late[0].contains("not come whole within"),
        "{}",
        told_late[0]
    );
    std::fs::remove_dir_all(directory).unwrap();
}

/// Each trace opens files, which may take as long as everything else in a turn.
#[test]
fn one_trace_is_begun_in_a_turn_and_who_began_it_rests() {
    const LOOPS: usize = 3;
    let directory = std::env::temp_dir().join(format!("gc-begins-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (path, bus_path) = (directory.join("socket"), directory.join("bus"));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let traces = directory.join("traces");
    std::fs::create_dir_all(&traces).unwrap();
    let bus = BusAcceptor::open(&BusAddress::Unix(bus_path.clone()), None).unwrap();
    let traces = Traces::open(&traces).unwrap();
    clients
        .listen_for_bus(vec![bus], None, Some(traces))
        .unwrap();
    let mut engine = engine();
    let mut now = Time::ZERO;
    let looping: Vec<_> = (0..LOOPS)
        .map(|number| {
            let mut client = StdUnixStream::connect(&bus_path).unwrap();
            let text = format!("tracefile t{number}\ntracefile off\n");
            client.write_all(text.repeat(400).as_bytes()).unwrap();
            client.set_nonblocking(true).unwrap();
            client
        })
        .collect();
    clients.accept_at = Some(now);
    let replies = |client: &StdUnixStream| {
        let mut bytes = [0; 16 << 10];
        let len = (&mut &*client).read(&mut bytes).unwrap_or(0);
        bytes[..len].iter().filter(|byte| **byte == b'\n').count()
    };
    let mut told = [0; LOOPS];
    for _ in 0..200 {
        clients.take_input(now, &mut engine);
        clients.give_output(now, &mut engine);
        let more: Vec<usize> = looping.iter().map(replies).collect();
        // The reply to one that began a trace, to the `off` behind it, and the greeting.
        assert!(more.iter().sum::<usize>() <= 2 + LOOPS, "{more:?}");
        let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
        for (id, (told, more)) in ids.iter().zip(told.iter_mut().zip(more)) {
            *told += more;
            clients.handle_ready(now, token_of(*id), READABLE);
        }
        now += Duration::from_millis(1);
    }
    // In 200 ms there is time for 40 of them, and each client has its share.
    assert!(told.iter().all(|it| (20..=34).contains(it)), "{told:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn who_says_a_little_does_not_wait_for_those_that_send_without_end() {
    const FLOODS: usize = 40;
    const LEN: usize = 40 << 10;
    let path = std::env::temp_dir().join(format!("gc-fresh-{}", std::process::id()));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let (mut engine, now) = (engine(), Time::ZERO);
    // Long frames without end, of a kind that no daemon knows.
    let begin = |_| {
        let mut stream = StdUnixStream::connect(&path).unwrap();
        stream.write_all(&hello()).unwrap();
        stream.set_nonblocking(true).unwrap();
        (stream, 0)
    };
    let mut floods: Vec<(StdUnixStream, usize)> = (0..FLOODS).map(begin).collect();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
    let mut frame = (LEN as u32).to_be_bytes().to_vec();
    frame.resize(4 + LEN, 200);
    let fill = |floods: &mut Vec<(StdUnixStream, usize)>| {
        for (stream, at) in floods {
            while let Ok(len) = stream.write(&frame[*at..]) {
                *at = (*at + len) % frame.len();
            }
        }
    };
    for round in 0..24 {
        fill(&mut floods);
        for id in &ids {
            clients.handle_ready(now, token_of(*id), READABLE);
        }
        if round < 23 {
            clients.take_first_input(now, &mut engine);
            clients.take_input(now, &mut engine);
        }
    }
    // One may have been read in two parts, the second of which was short.
    assert!(clients.readable.len_heavy() >= FLOODS - 2);
    let mut little = StdUnixStream::connect(&path).unwrap();
    little.write_all(&hello()).unwrap();
    clients.accept_at = Some(now);
    clients.take_input(now, &mut engine);
    let id = *clients.streams.keys().next_back().unwrap();
    clients.handle_ready(now, token_of(id), READABLE);
    let waits = |clients: &Clients| clients.readable.iter().any(|it| it == id);
    assert!(waits(&clients));
    clients.take_first_input(now, &mut engine);
    assert!(!waits(&clients), "it was read before the network was");
    let floods = clients.readable.len_heavy();
    assert!(floods > FLOODS / 2, "{floods} floods wait");
}
