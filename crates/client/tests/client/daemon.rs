//! A daemon of one member for the tests: a real engine behind real sockets; the ring is a queue
//! that gives back what it takes.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use groupcast_client::{Address, Client, Options, Service};
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, Incarnation, MemberId, MessageId,
    NodeId, OrderPlace, Time,
};
use groupcast_session::groups::{Carrier, Question, Transport};
use groupcast_session::{ClientId, Engine, EngineConfig};

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A daemon of one member, in a thread.
pub(crate) struct TestDaemon {
    pub(crate) path: PathBuf,
    pub(crate) tcp: SocketAddr,
    stop: Arc<AtomicBool>,
    /// While set, the ring takes messages and gives none back.
    pub(crate) stall: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestDaemon {
    pub(crate) fn start(name: &str, config: EngineConfig) -> Self {
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

    pub(crate) fn connect(&self, name: &str) -> Client {
        self.connect_with(Options {
            name: Some(name.into()),
            ..Options::default()
        })
    }

    pub(crate) fn connect_with(&self, options: Options) -> Client {
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
            .handle_event(self.now(), Carrier::Order, Event::Configuration(config));
        while !stop.load(Ordering::Relaxed) {
            let busy = self.turn(stall);
            if !busy {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn turn(&mut self, stall: &AtomicBool) -> bool {
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
                    self.engine.received_all(now, *id, len);
                    true
                }
                Err(_) => true,
            }
        });
        self.sockets = sockets;
        // After the input: a message that is sent after the order is stalled waits.
        let stalled = stall.load(Ordering::SeqCst);
        self.order(now, stalled);
        self.engine.handle_timeout(now);
        self.answer(now);
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
                .handle_event(now, Carrier::Order, Event::Deliver(delivery));
        }
    }

    fn answer(&mut self, now: Time) {
        while let Some((id, question)) = self.engine.poll_question() {
            let json = match &question {
                Question::Status => format!("{{\"host\":\"{}\"}}", self.engine.host()),
                Question::Groups => format!("[{}]", self.engine.groups().len()),
                Question::Rekey(path) => format!("{{\"path\":{path:?}}}"),
            };
            self.engine.answer(now, id, question, json.into());
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
