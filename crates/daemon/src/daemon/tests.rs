//! Goal: what waits is not slept on, and a ring that is made again is joined again. Method: real
//! sockets, and turns one at a time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use groupcast_session::frame::{
    ClientFrame, ClientKind, DaemonFrame, FRAME_MAX, FrameDecoder, Hello, MAGIC, VERSION,
    encode_publish_head,
};
use groupcast_session::names::Pool;

use super::*;
use crate::config::{Listen, Options, PoolOptions};

/// All of a test may take so long.
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
        let mut frames = Vec::new();
        loop {
            while let Some(raw) = self.decoder.next_frame().unwrap() {
                frames.extend(DaemonFrame::decode(raw).unwrap());
            }
            match self.stream.read(self.decoder.space()) {
                Ok(0) => panic!("the daemon has ended the connection"),
                Ok(len) => self.decoder.filled(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return frames,
                Err(error) => panic!("{error}"),
            }
        }
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
    let (give, take) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let daemon = Daemon::start(config("room-other", multicast, groups())).unwrap();
        give.send(daemon.stop_handle()).unwrap();
        daemon.run().unwrap();
    });
    let stop = take.recv().unwrap();
    let mut config = config("room", multicast, groups());
    config.bimodal.queue_max = config.bimodal.message_max;
    let mut daemon = Daemon::start(config).unwrap();
    let mut client = Client::connect(&socket_of("room"));
    turn_until(&mut daemon, "two daemons", |it| members(it) == 2);
    for number in 1..=12 {
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
        said.counters.published == 12 && said.bimodal[0].waiting == 0
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
