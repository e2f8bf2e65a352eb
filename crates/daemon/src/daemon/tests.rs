//! Goal: what waits is not slept on and is bounded, and a ring that is made again is joined again.
//! Method: real sockets, and turns one at a time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use groupcast_session::frame::{
    ClientFrame, ClientKind, DaemonFrame, FRAME_MAX, FrameDecoder, Hello, MAGIC, VERSION,
    encode_publish_head,
};
use groupcast_session::names::Pool;

use super::*;
use crate::config::{Listen, Options, PoolOptions, RingOptions};

/// All of a test may take this long.
const LIMIT: Duration = Duration::from_secs(30);

fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

fn socket_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("gc-loop-{}-{name}", std::process::id()))
}

/// The configuration of the daemon `name` of a cluster at `multicast`, with `more`.
fn config(name: &str, multicast: SocketAddrV4, more: Options) -> Config {
    let options = Options {
        name: Some(name.into()),
        listen: Some(Listen {
            ip: Ipv4Addr::LOCALHOST.into(),
            port: Some(free_port()),
        }),
        multicast: Some(multicast),
        socket: Some(socket_of(name)),
        insecure: Some(true),
        ..more
    };
    Config::build(None, options).unwrap()
}

/// A client that has said hello.
struct Client {
    stream: UnixStream,
    decoder: FrameDecoder,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let mut stream = UnixStream::connect(path).unwrap();
        let mut bytes = MAGIC.to_vec();
        ClientFrame::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            features: groupcast_session::frame::FEATURES,
            kind: ClientKind::Application,
            delivery_window: 1 << 30,
            name: None,
            token: None,
        })
        .encode(&mut bytes);
        stream.write_all(&bytes).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self {
            stream,
            decoder: FrameDecoder::new(FRAME_MAX),
        }
    }

    fn send(&mut self, frame: &ClientFrame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn join_on_ring(&mut self, group: &str) {
        self.send(&ClientFrame::Join {
            group: group.into(),
            discard_own: false,
            ring: true,
        });
    }

    fn publish(&mut self, number: u64, service: Service, group: &str, payload: &[u8]) {
        let mut bytes = Vec::new();
        encode_publish_head(&mut bytes, number, service, &[group], payload.len());
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The frames that have come.
    fn frames(&mut self) -> Vec<DaemonFrame> {
        let (frames, goes_on) = self.frames_until_end();
        assert!(
            goes_on,
            "the daemon has ended the connection: {:?}",
            frames.last()
        );
        frames
    }

    /// The frames that have come, and whether others may come.
    fn frames_until_end(&mut self) -> (Vec<DaemonFrame>, bool) {
        let mut frames = Vec::new();
        loop {
            while let Some(raw) = self.decoder.next_frame().unwrap() {
                frames.extend(DaemonFrame::decode(raw).unwrap());
            }
            match self.stream.read(self.decoder.space()) {
                Ok(0) => return (frames, false),
                Ok(len) => self.decoder.filled(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return (frames, true),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn join(&mut self, group: &str) {
        self.send(&ClientFrame::Join {
            group: group.into(),
            discard_own: false,
            ring: false,
        });
    }

    /// Why the daemon has ended the connection, if it has said so.
    fn last_word(&mut self) -> Option<String> {
        match self.frames_until_end() {
            (mut frames, false) => match frames.pop() {
                Some(DaemonFrame::Disconnected { text, .. }) => Some(text),
                _ => None,
            },
            (_, true) => None,
        }
    }
}

/// The messages among frames, by their payloads.
fn messages(frames: Vec<DaemonFrame>) -> impl Iterator<Item = Bytes> {
    frames.into_iter().filter_map(|frame| match frame {
        DaemonFrame::Message(message) => Some(message.payload),
        _ => None,
    })
}

/// `count` clients of a daemon that are in `groups`, which from then on has time for one client of
/// a message in each turn.
fn crowd(daemon: &mut Daemon, name: &str, count: usize, groups: &[&str]) -> Vec<Client> {
    let mut clients: Vec<_> = (0..count)
        .map(|_| Client::connect(&socket_of(name)))
        .collect();
    for client in &mut clients {
        groups.iter().for_each(|group| client.join(group));
    }
    turn_until(daemon, "a crowd", |daemon| {
        let found = daemon.engine.groups();
        groups.iter().all(|group| {
            let found = found.iter().find(|it| *it.name == **group);
            found.is_some_and(|it| it.members.len() == count)
        })
    });
    daemon.work = 1;
    clients
}

/// Takes the events that wait for the engine; how many bytes of messages are among them.
fn take_waiting(daemon: &mut Daemon) -> usize {
    let events = std::iter::from_fn(|| daemon.endpoint.node_mut().poll_event());
    let lens = events.map(|(_, it)| match it.event {
        Event::Deliver(delivery) => delivery.payload.len(),
        _ => 0,
    });
    lens.sum()
}

/// Daemon `name` on a thread of its own.
fn other(
    name: &'static str,
    multicast: SocketAddrV4,
    more: Options,
) -> (StopHandle, JoinHandle<()>) {
    let (give, take) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let daemon = Daemon::start(config(name, multicast, more)).unwrap();
        give.send(daemon.stop_handle()).unwrap();
        daemon.run().unwrap();
    });
    (take.recv().unwrap(), thread)
}

/// A daemon with another on a thread of its own, at an address that ends so.
fn two([name, other_name]: [&'static str; 2], last: u8) -> (Daemon, StopHandle, JoinHandle<()>) {
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, last), free_port());
    let (stop, thread) = other(other_name, multicast, Options::default());
    let mut daemon = Daemon::start(config(name, multicast, Options::default())).unwrap();
    turn_until(&mut daemon, "two daemons", |it| members(it) == 2);
    (daemon, stop, thread)
}

/// The other daemon sends each message when the one before has come back to it.
#[test]
fn a_token_does_not_wait_for_clients() {
    const CLIENTS: usize = 40;
    const MESSAGES: u64 = 30;
    let (mut daemon, stop, thread) = two(["token", "token-other"], 101);
    let mut clients = crowd(&mut daemon, "token", CLIENTS, &["g"]);
    let mut publisher = Client::connect(&socket_of("token-other"));
    publisher.join("g");
    let (mut sent, mut got) = (0, 0);
    let count = daemon.engine.counters().delivered;
    turn_until(&mut daemon, "all messages there", |_| {
        let frames = publisher.frames();
        let is_in = frames
            .iter()
            .any(|frame| matches!(frame, DaemonFrame::View(_)));
        got += messages(frames).count() as u64;
        if sent == got && (is_in || sent > 0) && sent < MESSAGES {
            sent += 1;
            publisher.publish(sent, Service::Agreed, "g", &sent.to_be_bytes());
        }
        std::thread::sleep(Duration::from_millis(1));
        got == MESSAGES
    });
    let given = daemon.engine.counters().delivered - count;
    println!("{given} were given meanwhile");
    let all = MESSAGES * CLIENTS as u64;
    assert!(given < all / 2, "{given} of {all}");
    // All come in their order.
    let mut payloads = vec![Vec::new(); CLIENTS];
    turn_until(&mut daemon, "all messages here", |_| {
        for (client, payloads) in clients.iter_mut().zip(&mut payloads) {
            payloads.extend(messages(client.frames()));
        }
        payloads.iter().all(|it| it.len() == MESSAGES as usize)
    });
    let expected = (1..=MESSAGES).map(|it| Bytes::copy_from_slice(&it.to_be_bytes()));
    let expected: Vec<_> = expected.collect();
    assert!(payloads.iter().all(|it| *it == expected));
    drop(publisher);
    stop.stop();
    thread.join().unwrap();
}

/// Of a ring that the daemon has in common with another.
#[test]
fn a_token_of_a_ring_goes_on_before_the_engine_has_its_turn() {
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 105), free_port());
    let ring = RingOptions {
        top: "wb.cb".into(),
        multicast: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 106), free_port()),
        settings: std::collections::BTreeMap::new(),
    };
    let options = Options {
        rings: Some(vec![ring]),
        ..Options::default()
    };
    let (stop, thread) = other("early-other", multicast, options.clone());
    let mut daemon = Daemon::start(config("early", multicast, options)).unwrap();
    let clients = ["early", "early-other"].map(|name| {
        let mut client = Client::connect(&socket_of(name));
        client.join("page.wb.cb");
        client
    });
    let stay = |daemon: &Daemon| daemon.rings[0].as_ref().and_then(Ring::status);
    turn_until(&mut daemon, "both in the ring", |it| {
        stay(it).is_some_and(|it| it.group.members.len() == 2)
    });
    let accepted = |daemon: &Daemon| stay(daemon).unwrap().node.accepted;
    let begun = Instant::now();
    let before = accepted(&daemon);
    while accepted(&daemon) < before + 3 {
        assert!(begun.elapsed() < LIMIT, "the ring is not read");
        // The beginning of a turn.
        let wait = Some(Duration::from_millis(5));
        daemon.endpoint.await_work(wait, &mut daemon.ready).unwrap();
        daemon.ready.clear();
        daemon.rings[0].as_mut().unwrap().wake();
        daemon.read_network(daemon.endpoint.now()).unwrap();
    }
    drop(clients);
    stop.stop();
    thread.join().unwrap();
}

/// The other daemon has nobody to give messages to.
#[test]
fn a_daemon_that_is_behind_does_not_read_without_end() {
    const LEN: usize = 1_000;
    const MESSAGES: u64 = 400;
    const PUBLISHERS: usize = 10;
    let (mut daemon, stop, thread) = two(["flood", "flood-other"], 102);
    let clients = crowd(&mut daemon, "flood", 20, &["g"]);
    // Each publishes what it has credit for at first.
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|_| Client::connect(&socket_of("flood-other")).stream)
        .map(|mut stream| {
            stream.set_nonblocking(false).unwrap();
            std::thread::spawn(move || {
                for number in 1..=MESSAGES {
                    let mut frame = Vec::new();
                    encode_publish_head(&mut frame, number, Service::Agreed, &["g"], LEN);
                    frame.resize(frame.len() + LEN, 7);
                    stream.write_all(&frame).unwrap();
                }
                stream
            })
        })
        .collect();
    turn_until(&mut daemon, "it is behind", |it| it.backlog.is_behind());
    for _ in 0..1_500 {
        daemon.turn().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let waiting = take_waiting(&mut daemon);
    println!("{waiting} bytes wait");
    // What is read at once comes on top: 512 packets at most.
    assert!(waiting <= 1_000_000, "{waiting}");
    let streams: Vec<_> = publishers
        .into_iter()
        .map(|it| it.join().unwrap())
        .collect();
    drop((daemon, clients, streams));
    stop.stop();
    thread.join().unwrap();
}

/// More than are written to in one turn.
#[test]
fn a_daemon_that_cannot_leave_tells_all_its_clients_that_it_stops() {
    const CLIENTS: usize = 600;
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 107), free_port());
    let mut daemon = Daemon::start(config("many", multicast, Options::default())).unwrap();
    let mut clients = crowd(&mut daemon, "many", CLIENTS, &[]);
    turn_until(&mut daemon, "all are welcome", |daemon| {
        let accepted = daemon.engine.counters().clients_accepted;
        accepted == CLIENTS as u64 && !daemon.clients.has_output()
    });
    daemon.phase = RunPhase::LeavingOrder(daemon.endpoint.now());
    stop(&mut daemon);
    drop(daemon);
    let told = clients.iter_mut().filter_map(Client::last_word).count();
    assert_eq!(told, CLIENTS);
}

/// It does not leave first.
#[test]
fn a_daemon_that_is_asked_twice_to_stop_tells_its_clients_so() {
    let (mut daemon, stop, thread) = two(["twice", "twice-other"], 108);
    let mut client = Client::connect(&socket_of("twice"));
    turn_until(&mut daemon, "a welcome", |it| {
        it.engine.counters().clients_accepted == 1
    });
    let handle = daemon.stop_handle();
    handle.stop();
    handle.stop();
    daemon.run().unwrap();
    let told = client.last_word().expect("a reason");
    assert_eq!(told, STOPPING);
    stop.stop();
    thread.join().unwrap();
}

/// Of the order and of a ring. It does not get out of them in time: otherwise its last word comes
/// after all messages anyway.
#[test]
fn a_daemon_that_stops_has_given_to_all_what_it_gave_to_one() {
    const CLIENTS: usize = 20;
    const GROUPS: [&str; 2] = ["g", "page.wb.cb"];
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 103), free_port());
    let ring = RingOptions {
        top: "wb.cb".into(),
        multicast: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 104), free_port()),
        settings: std::collections::BTreeMap::new(),
    };
    let options = Options {
        rings: Some(vec![ring]),
        ..Options::default()
    };
    let mut daemon = Daemon::start(config("half", multicast, options)).unwrap();
    let mut clients = crowd(&mut daemon, "half", CLIENTS, &GROUPS);
    for (number, group) in (1..).zip(GROUPS.into_iter().cycle().take(60)) {
        clients[0].publish(number, Service::Agreed, group, group.as_bytes());
    }
    let mut got = vec![Vec::new(); CLIENTS];
    let mut read = || {
        for (client, got) in clients.iter_mut().zip(&mut got) {
            got.extend(messages(client.frames_until_end().0));
        }
        GROUPS.map(|group| {
            let of = |got: &Vec<Bytes>| got.iter().filter(|it| **it == group).count();
            got.iter().map(of).collect::<Vec<_>>()
        })
    };
    // A few more turns do not end it.
    turn_until(&mut daemon, "both are given half", |_| {
        read().iter().all(|counts| counts[0] > counts[CLIENTS - 3])
    });
    daemon.phase = RunPhase::LeavingOrder(daemon.endpoint.now());
    stop(&mut daemon);
    for counts in read() {
        println!("{counts:?}");
        assert!(counts.iter().all(|it| *it == counts[0]), "{counts:?}");
    }
}

/// Makes turns until the daemon stops.
fn stop(daemon: &mut Daemon) {
    let begun = Instant::now();
    while daemon.turn().unwrap() {
        assert!(begun.elapsed() < LIMIT, "it stops");
    }
}

/// Makes turns until `is_done`.
fn turn_until(daemon: &mut Daemon, what: &str, mut is_done: impl FnMut(&mut Daemon) -> bool) {
    let begun = Instant::now();
    while !is_done(daemon) {
        assert!(begun.elapsed() < LIMIT, "{what}");
        daemon.turn().unwrap();
    }
}

/// The members of the daemon's order.
fn members(daemon: &Daemon) -> usize {
    let order = instance::order(daemon.endpoint.node()).unwrap();
    order.member.status().members.len()
}

/// The daemon is not alone: it does not go on at once after every event, and nothing else wakes it.
#[test]
fn messages_of_a_bimodal_group_that_has_room_again_are_not_slept_on() {
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 95), free_port());
    let groups = || Options {
        bimodal_groups: Some(vec!["ticks".into()]),
        ..Options::default()
    };
    let (stop, other) = other("room-other", multicast, groups());
    let mut config = config("room", multicast, groups());
    config.bimodal.queue_max = config.bimodal.message_max;
    let mut daemon = Daemon::start(config).unwrap();
    let mut client = Client::connect(&socket_of("room"));
    turn_until(&mut daemon, "two daemons", |it| members(it) == 2);
    // Six are read before the network and may be gone with a datagram that comes then. Of the
    // others, which are read behind it, there are more than the queue takes.
    for number in 1..=14 {
        client.publish(number, Service::Bimodal, "ticks", &[0; 10_000]);
    }
    let mut waited = 0;
    turn_until(&mut daemon, "all messages", |daemon| {
        let said = daemon.engine.status();
        let queued = instance::bimodal(daemon.endpoint.node()).map_or(0, |groups| {
            let mut queued = 0;
            groups.report_of(0, &mut |name, value| {
                if name == "queued" {
                    queued = value;
                }
            });
            queued
        });
        if said.bimodal[0].waiting > 0 && queued == 0 {
            waited += 1;
            assert_eq!(daemon.patience(), Some(Duration::ZERO));
        }
        said.counters.published == 14 && said.bimodal[0].waiting == 0
    });
    assert!(waited > 0, "the queue of the gossip was never full");
    drop(client);
    stop.stop();
    other.join().unwrap();
}

/// The ring has the same name and the same address as before.
#[test]
fn a_ring_that_ends_and_is_made_again_within_a_turn_carries_its_groups() {
    let port = free_port();
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 96), free_port());
    let pool = PoolOptions {
        addresses: Pool::new(Ipv4Addr::new(239, 192, 79, 97), 32, port).unwrap(),
        settings: std::collections::BTreeMap::new(),
    };
    let options = Options {
        ring_pool: Some(pool),
        ..Options::default()
    };
    let mut daemon = Daemon::start(config("again", multicast, options)).unwrap();
    let mut first = Client::connect(&socket_of("again"));
    first.join_on_ring("g");
    let shown = |daemon: &mut Daemon, client: &mut Client, what: &str| {
        turn_until(daemon, what, |_| {
            let frames = client.frames();
            frames
                .iter()
                .any(|frame| matches!(frame, DaemonFrame::View(view) if view.members.len() == 1))
        });
    };
    shown(&mut daemon, &mut first, "a view of the first ring");
    let made = daemon.engine.ring_at(0).cloned().expect("it is made");

    // Its last client is gone, and the daemon leaves it.
    drop(first);
    turn_until(&mut daemon, "the ring is unused", |it| {
        !it.engine.uses_ring(0)
    });
    let now = daemon.endpoint.now();
    daemon.rings[0].as_mut().unwrap().abandon(now);
    daemon.begin_ring(now, 0).unwrap();
    turn_until(&mut daemon, "the ring ends", |it| {
        it.engine.rings_made().is_empty()
    });
    // Another client asks for it in the turn in which the daemon is done with it.
    daemon.look_at = daemon.endpoint.now() + LIMIT;
    let mut second = Client::connect(&socket_of("again"));
    turn_until(&mut daemon, "a welcome", |_| {
        let frames = second.frames();
        frames
            .iter()
            .any(|frame| matches!(frame, DaemonFrame::Welcome(_)))
    });
    assert!(daemon.engine.ring_at(0).is_some(), "it is still closing");
    second.join_on_ring("g");
    daemon.look_at = Time::ZERO;
    let now = daemon.endpoint.now();
    daemon.look_at_rings(now).unwrap();
    assert!(daemon.engine.ring_at(0).is_none(), "it is forgotten");
    // The rest of that turn.
    let begun = Instant::now();
    while daemon.engine.ring_at(0).is_none() {
        assert!(begun.elapsed() < LIMIT, "the ring is not made again");
        let mut ready = Vec::new();
        let wait = Some(Duration::from_millis(1));
        daemon.endpoint.await_work(wait, &mut ready).unwrap();
        let now = daemon.endpoint.now();
        for (token, readiness) in ready {
            daemon.clients.handle_ready(now, token, readiness);
        }
        daemon.clients.take_input(now, &mut daemon.engine);
        daemon.submit(now);
        daemon.endpoint.work().unwrap();
        daemon.take_events().unwrap();
    }
    let again = daemon.engine.ring_at(0).unwrap();
    assert_eq!(again.multicast, made.multicast);
    shown(&mut daemon, &mut second, "a view of the second ring");
    second.publish(1, Service::Agreed, "g", b"hello");
    turn_until(&mut daemon, "the message", |_| {
        let frames = second.frames();
        frames
            .iter()
            .any(|frame| matches!(frame, DaemonFrame::Message(_)))
    });
}

#[test]
fn a_list_of_groups_that_is_written_in_parts_is_whole() {
    const GROUPS: usize = 600;
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 98), free_port());
    let mut daemon = Daemon::start(config("list", multicast, Options::default())).unwrap();
    let mut client = Client::connect(&socket_of("list"));
    for index in 0..GROUPS {
        client.join(&format!("g{index}"));
        // As many as the socket has room for.
        if index % 50 == 49 {
            turn_until(&mut daemon, "the groups", |it| {
                it.engine.groups().len() == index + 1
            });
        }
    }
    client.send(&ClientFrame::Groups);
    let mut list = None;
    turn_until(&mut daemon, "the list", |_| {
        let mut reports = client.frames().into_iter().filter_map(|frame| match frame {
            DaemonFrame::GroupsReport(json) => Some(json),
            _ => None,
        });
        list = list.take().or_else(|| reports.next());
        list.is_some()
    });
    let said: Vec<Value> = serde_json::from_slice(&list.unwrap()).unwrap();
    assert_eq!(said.len(), GROUPS);
    assert_eq!(said[0]["group"], "g0");
    let members = |group: &Value| group["members"].as_array().map(Vec::len);
    assert!(said.iter().all(|group| members(group) == Some(1)));
    assert!(daemon.listing.is_none());
}

/// One holder of the key could fill the disk of every daemon of the cluster.
#[test]
fn ten_thousand_messages_that_make_no_sense_are_a_few_lines_of_the_log() {
    const MESSAGES: u64 = 10_000;
    let path = std::env::temp_dir().join(format!("gc-nonsense-{}", std::process::id()));
    let log = std::sync::Arc::new(std::fs::File::create(&path).unwrap());
    let lines = tracing_subscriber::fmt().with_writer(log).finish();
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 107), free_port());
    tracing::subscriber::with_default(lines, || {
        let options = Options::default();
        let mut daemon = Daemon::start(config("nonsense", multicast, options)).unwrap();
        turn_until(&mut daemon, "a configuration", |it| members(it) == 1);
        let mut sent = 0;
        turn_until(&mut daemon, "all messages", |daemon| {
            let now = daemon.endpoint.now();
            let node = daemon.endpoint.node_mut();
            let (order, service) = (Carrier::Order, Service::Agreed);
            let payload = Bytes::from_static(&[0xff]);
            while sent < MESSAGES
                && submit(node, None, now, order, service, payload.clone()).is_ok()
            {
                sent += 1;
            }
            daemon.engine.counters().nonsense == MESSAGES
        });
    });
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let skipped = log.matches("skipped a message of daemon").count();
    // As many as in every ten seconds that it took.
    assert!((50..=200).contains(&skipped), "{skipped}");
}
