//! The client against a real engine behind real sockets; the ring is a queue that gives back what
//! it takes.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use groupcast_client::{
    Address, Cause, Client, ClientError, ClientEvent, ConnectError, Disconnect, Options, Refusal,
    Service,
};
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, Incarnation, MemberId, MessageId,
    NodeId, OrderPlace, Time,
};
use groupcast_session::groups::{Carrier, Question, Transport};
use groupcast_session::{ClientId, Engine, EngineConfig};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A daemon of one member, in a thread.
struct TestDaemon {
    path: PathBuf,
    tcp: SocketAddr,
    stop: Arc<AtomicBool>,
    /// While set, the ring takes messages and gives none back.
    stall: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestDaemon {
    fn start(name: &str, config: EngineConfig) -> Self {
        let file = format!("groupcast-test-{}-{name}.sock", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        let unix = UnixListener::bind(&path).expect("the test may make a socket");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = tcp.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stall = Arc::new(AtomicBool::new(false));
        let flags = (stop.clone(), stall.clone());
        let thread = std::thread::spawn(move || {
            Loop::new(config, unix, tcp).run(&flags.0, &flags.1);
        });
        Self {
            path,
            tcp: address,
            stop,
            stall,
            thread: Some(thread),
        }
    }

    fn connect(&self, name: &str) -> Client {
        self.connect_with(Options {
            name: Some(name.into()),
            ..Options::default()
        })
    }

    fn connect_with(&self, options: Options) -> Client {
        let address = Address::Unix(self.path.clone());
        Client::connect(&address, options).expect("the daemon takes it")
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok(), "the daemon panicked");
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Loop {
    engine: Engine,
    unix: UnixListener,
    tcp: TcpListener,
    sockets: Vec<(ClientId, Socket)>,
    ring: VecDeque<Delivery>,
    submitted: u64,
    local: MemberId,
    start: Instant,
}

impl Loop {
    fn new(config: EngineConfig, unix: UnixListener, tcp: TcpListener) -> Self {
        unix.set_nonblocking(true).expect("sockets can");
        tcp.set_nonblocking(true).expect("sockets can");
        let local = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let engine = Engine::new(config, local, "h").expect("the limits are right");
        Self {
            engine,
            unix,
            tcp,
            sockets: Vec::new(),
            ring: VecDeque::new(),
            submitted: 0,
            local,
            start: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn config(&self) -> ConfigId {
        ConfigId {
            counter: 1,
            representative: self.local,
        }
    }

    fn run(mut self, stop: &AtomicBool, stall: &AtomicBool) {
        let config = Configuration {
            kind: ConfigurationKind::Regular,
            id: self.config(),
            members: vec![self.local],
            left: Vec::new(),
        };
        self.engine
            .handle_event(self.now(), Carrier::Ring, Event::Configuration(config));
        while !stop.load(Ordering::Relaxed) {
            let busy = self.turn(stall.load(Ordering::Relaxed));
            if !busy {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn turn(&mut self, stalled: bool) -> bool {
        let now = self.now();
        self.accept(now);
        let mut busy = false;
        let mut sockets = std::mem::take(&mut self.sockets);
        sockets.retain_mut(|(id, socket)| {
            let Some(space) = self.engine.space(*id) else {
                return true;
            };
            let read = match socket {
                Socket::Unix(stream) => stream.read(space),
                Socket::Tcp(stream) => stream.read(space),
            };
            match read {
                Ok(0) => {
                    self.engine.closed(now, *id);
                    false
                }
                Ok(len) => {
                    busy = true;
                    self.engine.received(now, *id, len);
                    true
                }
                Err(_) => true,
            }
        });
        self.sockets = sockets;
        self.order(now, stalled);
        self.engine.handle_timeout(now);
        self.answer();
        self.write(now);
        busy || (!stalled && !self.ring.is_empty())
    }

    fn accept(&mut self, now: Time) {
        while let Ok((stream, _)) = self.unix.accept() {
            stream.set_nonblocking(true).expect("sockets can");
            if let Some(id) = self.engine.connected(now, Transport::Unix) {
                self.sockets.push((id, Socket::Unix(stream)));
            }
        }
        while let Ok((stream, _)) = self.tcp.accept() {
            stream.set_nonblocking(true).expect("sockets can");
            if let Some(id) = self.engine.connected(now, Transport::Tcp) {
                self.sockets.push((id, Socket::Tcp(stream)));
            }
        }
    }

    fn order(&mut self, now: Time, stalled: bool) {
        let config = self.config();
        self.engine.pump(now, |_, service, payload| {
            self.submitted += 1;
            let placed = service != Service::Unreliable;
            self.ring.push_back(Delivery {
                id: MessageId {
                    sender: self.local,
                    number: self.submitted,
                },
                service,
                place: placed.then_some(OrderPlace {
                    config,
                    seq: self.submitted << 16,
                }),
                payload,
            });
            Ok(self.ring[self.ring.len() - 1].id)
        });
        while !stalled && let Some(delivery) = self.ring.pop_front() {
            self.engine
                .handle_event(now, Carrier::Ring, Event::Deliver(delivery));
        }
    }

    fn answer(&mut self) {
        while let Some((id, question)) = self.engine.poll_question() {
            let json = match question {
                Question::Status => format!("{{\"host\":\"{}\"}}", self.engine.host()),
                Question::Groups => format!("[{}]", self.engine.groups().len()),
            };
            self.engine.answer(id, question, json.into());
        }
    }

    /// Offers every socket what there is: a test needs no list of the writable ones.
    fn write(&mut self, now: Time) {
        while self.engine.poll_output().is_some() {}
        self.sockets.retain_mut(|(id, socket)| {
            let written = match socket {
                Socket::Unix(stream) => drain(&mut self.engine, now, *id, stream),
                Socket::Tcp(stream) => drain(&mut self.engine, now, *id, stream),
            };
            if written.is_err() {
                self.engine.closed(now, *id);
            }
            written.is_ok()
        });
        while let Some(closed) = self.engine.poll_close() {
            self.sockets.retain(|(id, _)| *id != closed);
        }
    }
}

/// Writes what `engine` has for `client` until the socket takes no more.
fn drain(
    engine: &mut Engine,
    now: Time,
    client: ClientId,
    socket: &mut impl Write,
) -> io::Result<()> {
    loop {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = engine.slices(client, &mut slices);
        if count == 0 {
            return Ok(());
        }
        match socket.write_vectored(&slices[..count]) {
            Ok(len) => engine.consumed(now, client, len),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn next_view(client: &mut Client) -> groupcast_client::View {
    loop {
        match client.next_event(Some(LONG)).expect("it is connected") {
            Some(ClientEvent::View(view)) => return view,
            Some(_) => {}
            None => panic!("no view came"),
        }
    }
}

#[test]
fn messages_and_views_arrive_and_publishing_is_accepted() {
    let daemon = TestDaemon::start("basic", EngineConfig::default());
    let mut al = daemon.connect("al");
    assert_eq!(al.private_name(), "al@h");
    al.join("g").unwrap();
    let view = next_view(&mut al);
    assert_eq!(
        (view.cause, &view.members[..]),
        (Cause::Join, &["al@h".into()][..])
    );
    let mut bo = Client::connect(&Address::Tcp(daemon.tcp), Options::default()).unwrap();
    assert_eq!(bo.publish(&["x", "g"], Service::Safe, b"one").unwrap(), 1);
    bo.publish(&["al@h"], Service::Unreliable, b"two").unwrap();
    assert!(bo.flush_accepted(Some(LONG)).unwrap());
    assert_eq!(bo.accepted(), 2);
    let mut got = Vec::new();
    while got.len() < 2 {
        if let Some(ClientEvent::Message(message)) = al.next_event(Some(LONG)).unwrap() {
            assert_eq!(&*message.sender, bo.private_name());
            got.push((message.group().to_string(), message.payload.to_vec()));
        }
    }
    got.sort();
    assert_eq!(
        got,
        [
            ("al@h".to_string(), b"two".to_vec()),
            ("g".to_string(), b"one".to_vec())
        ]
    );
    al.leave("g").unwrap();
    assert_eq!(next_view(&mut al).cause, Cause::Leave);
    bo.close(LONG).unwrap();
}

#[test]
fn many_messages_come_in_order_through_small_windows() {
    let config = EngineConfig {
        publish_window: 20_000,
        ..EngineConfig::default()
    };
    let daemon = TestDaemon::start("windows", config);
    let mut reader = daemon.connect_with(Options {
        delivery_window: 5_000,
        ..Options::default()
    });
    reader.join("g").unwrap();
    next_view(&mut reader);
    let mut writer = daemon.connect("writer");
    let handle = std::thread::spawn(move || {
        for number in 0..5_000u32 {
            let len = (number as usize * 37) % 3_000;
            let payload = [&number.to_be_bytes()[..], &vec![7; len]].concat();
            writer.publish(&["g"], Service::Agreed, &payload).unwrap();
        }
        assert!(writer.flush_accepted(Some(LONG)).unwrap());
        writer.close(LONG).unwrap();
    });
    for number in 0..5_000u32 {
        let message = loop {
            match reader.next_event(Some(LONG)).unwrap() {
                Some(ClientEvent::Message(message)) => break message,
                Some(_) => {}
                None => panic!("message {number} did not come"),
            }
        };
        assert_eq!(message.payload[..4], number.to_be_bytes());
        assert_eq!(message.payload.len(), 4 + (number as usize * 37) % 3_000);
    }
    handle.join().unwrap();
}

#[test]
fn a_message_larger_than_every_window_passes() {
    let daemon = TestDaemon::start("large", EngineConfig::default());
    let mut client = daemon.connect("al");
    client.join("g").unwrap();
    let payload: Vec<u8> = (0..20_000_000u32).map(|byte| (byte % 251) as u8).collect();
    client.publish(&["g"], Service::Agreed, &payload).unwrap();
    client.publish(&["g"], Service::Agreed, b"after").unwrap();
    let mut got = Vec::new();
    while got.len() < 2 {
        match client.next_event(Some(LONG)).unwrap() {
            Some(ClientEvent::Message(message)) => got.push(message.payload),
            Some(_) => {}
            None => panic!("the message did not come"),
        }
    }
    assert!(got[0] == payload);
    assert_eq!(&got[1][..], b"after");
    assert!(client.flush_accepted(Some(LONG)).unwrap());
}

#[test]
fn a_program_that_only_publishes_to_itself_is_told_to_read() {
    let config = EngineConfig {
        stop_publishers_at: 100_000,
        publish_window: 50_000,
        ..EngineConfig::default()
    };
    let daemon = TestDaemon::start("unread", config);
    let mut client = daemon.connect_with(Options {
        delivery_window: 100_000,
        ..Options::default()
    });
    client.join("g").unwrap();
    let mut published = 0u32;
    let error = loop {
        match client.publish(&["g"], Service::Agreed, &[1; 1_000]) {
            Ok(_) => published += 1,
            Err(error) => break error,
        }
        assert!(published < 10_000, "nothing holds it back");
    };
    assert!(matches!(error, ClientError::Unread { .. }), "{error}");
    let mut got = 0;
    while got < published {
        match client.next_event(Some(LONG)).unwrap() {
            Some(ClientEvent::Message(_)) => got += 1,
            Some(_) => {}
            None => panic!("only {got} of {published} came"),
        }
    }
    client.publish(&["g"], Service::Agreed, b"again").unwrap();
    assert!(client.flush_accepted(Some(LONG)).unwrap());
}

#[test]
fn nothing_is_accepted_before_it_came_back() {
    let daemon = TestDaemon::start("stall", EngineConfig::default());
    let mut client = daemon.connect("al");
    assert!(client.flush_accepted(Some(LONG)).unwrap());
    daemon.stall.store(true, Ordering::Relaxed);
    client.publish(&["g"], Service::Agreed, b"one").unwrap();
    assert!(!client.flush_accepted(Some(SECOND / 5)).unwrap());
    assert_eq!(client.undecided(), 1);
    daemon.stall.store(false, Ordering::Relaxed);
    assert!(client.flush_accepted(Some(LONG)).unwrap());
    assert_eq!(
        client.next_event(Some(LONG)).unwrap(),
        Some(ClientEvent::Accepted { up_to: 1 })
    );
    assert_eq!(client.next_event(Some(Duration::ZERO)).unwrap(), None);
}

#[test]
fn the_daemon_is_asked_while_events_wait() {
    let daemon = TestDaemon::start("ask", EngineConfig::default());
    let mut client = daemon.connect("al");
    client.join("g").unwrap();
    client.publish(&["g"], Service::Agreed, b"waits").unwrap();
    assert_eq!(&client.status(LONG).unwrap()[..], b"{\"host\":\"h\"}");
    client.ping(LONG).unwrap();
    assert!(client.flush_accepted(Some(LONG)).unwrap());
    assert_eq!(&client.groups(LONG).unwrap()[..], b"[1]");
    assert_eq!(next_view(&mut client).cause, Cause::Join);
    assert!(matches!(
        client.next_event(Some(LONG)).unwrap(),
        Some(ClientEvent::Message(_))
    ));
}

#[test]
fn what_is_not_allowed_is_said_before_it_is_sent() {
    let daemon = TestDaemon::start("invalid", EngineConfig::default());
    let mut client = daemon.connect("al");
    assert!(matches!(client.join("a@b"), Err(ClientError::Name(_))));
    let none = client.publish(&[], Service::Agreed, b"");
    assert!(matches!(
        none,
        Err(ClientError::Destinations { count: 0, .. })
    ));
    let bad = client.publish(&["ok", "not\nok"], Service::Agreed, b"");
    assert!(matches!(bad, Err(ClientError::Name(_))));
    let large = client.publish(&["g"], Service::Agreed, &vec![0; (64 << 20) + 1]);
    assert!(matches!(large, Err(ClientError::TooLarge { .. })));
    assert_eq!(client.publish(&["g"], Service::Agreed, b"ok").unwrap(), 1);
    assert!(client.flush_accepted(Some(LONG)).unwrap());
}

#[test]
fn errors_of_connecting_say_what_to_do() {
    let missing = Address::Unix(std::env::temp_dir().join("groupcast-test-none.sock"));
    let error = Client::connect(&missing, Options::default()).unwrap_err();
    assert!(matches!(error, ConnectError::NoDaemon { .. }));
    assert!(
        error
            .to_string()
            .contains("start one with `groupcast daemon`")
    );

    let daemon = TestDaemon::start("refuse", EngineConfig::default());
    let _al = daemon.connect("al");
    let options = Options {
        name: Some("al".into()),
        ..Options::default()
    };
    let error = Client::connect(&Address::Unix(daemon.path.clone()), options).unwrap_err();
    assert!(
        matches!(
            &error,
            ConnectError::Refused {
                code: Refusal::NameInUse,
                ..
            }
        ),
        "{error}"
    );

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options {
        connect_within: SECOND / 5,
        ..Options::default()
    };
    let address = Address::Tcp(silent.local_addr().unwrap());
    let error = Client::connect(&address, options).unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
}

#[test]
fn a_daemon_that_goes_is_told_once_and_then_as_an_error() {
    let daemon = TestDaemon::start("gone", EngineConfig::default());
    let mut client = daemon.connect("al");
    drop(daemon);
    assert!(matches!(
        client.next_event(Some(LONG)).unwrap(),
        Some(ClientEvent::Disconnected {
            code: Disconnect::Other,
            ..
        })
    ));
    assert!(matches!(
        client.next_event(Some(LONG)),
        Err(ClientError::Disconnected { .. })
    ));
    assert!(client.publish(&["g"], Service::Agreed, b"x").is_err());
}

/// Publishes to `group` until it is told to stop.
fn flood(daemon: &TestDaemon, group: &'static str, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let mut client = daemon.connect("flood");
    let stop = stop.clone();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            client
                .publish(&[group], Service::Agreed, &[7; 2_000])
                .expect("it reads what it is sent");
        }
        client.close(LONG).expect("nothing is wrong with it");
    })
}

/// Messages that keep coming, and credit that goes back while the daemon closes, are no reason for
/// a good-bye to fail.
#[test]
fn a_thousand_good_byes_under_load_succeed() {
    let daemon = TestDaemon::start("byes", EngineConfig::default());
    let stop = Arc::new(AtomicBool::new(false));
    let flood = flood(&daemon, "g", &stop);
    let begun = Instant::now();
    for round in 0..1_000 {
        let options = Options {
            // Little, so that credit goes back often.
            delivery_window: 10_000,
            ..Options::default()
        };
        let mut client = daemon.connect_with(options);
        client.join("g").unwrap();
        client
            .publish(&["other"], Service::Agreed, b"last")
            .unwrap();
        if round % 2 == 0 {
            client.next_event(Some(LONG)).unwrap();
        }
        let closed = client.close(LONG);
        assert!(closed.is_ok(), "round {round}: {closed:?}");
    }
    assert!(begun.elapsed() < 6 * LONG, "{:?}", begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
}

/// A client that is thrown out while it writes learns why, whatever it was doing.
#[test]
fn a_thousand_expulsions_are_explained() {
    let config = EngineConfig {
        disconnect_at: 20_000,
        stop_publishers_at: 1 << 30,
        ..EngineConfig::default()
    };
    let daemon = TestDaemon::start("expelled", config);
    let begun = Instant::now();
    for round in 0..1_000 {
        let mut client = daemon.connect_with(Options {
            delivery_window: 1_000,
            ..Options::default()
        });
        client.join("g").unwrap();
        // It publishes to itself and reads nothing.
        let len = [100, 1_000, 30_000][round % 3];
        let error = loop {
            let published = client.publish(&["g"], Service::Agreed, &vec![1; len]);
            if let Err(error) = published.and_then(|_| client.flush()) {
                break error;
            }
        };
        let ClientError::Disconnected { code, text } = error else {
            panic!("round {round}: {error}");
        };
        assert_eq!(code, Disconnect::TooSlow, "round {round}: {text}");
    }
    assert!(begun.elapsed() < 6 * LONG, "{:?}", begun.elapsed());
}
