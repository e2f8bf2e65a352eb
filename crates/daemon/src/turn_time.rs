//! A test of how long a turn of the loop is busy while the longest messages come and go. It
//! measures the processor time of the thread, so that other load on the machine does not matter.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use groupcast_core::Service;
use groupcast_session::frame::{
    BusRequest, ClientFrame, ClientKind, DaemonFrame, FEATURES, FRAME_MAX, FrameDecoder, Hello,
    MAGIC, VERSION, encode_publish_head,
};
use rustix::time::{ClockId, clock_gettime};

use crate::config::{Listen, Options};
use crate::{Config, Daemon};

/// The longest message.
const LEN: usize = 64 << 20;
/// A turn may take this long at most.
const TURN_MAX: Duration = Duration::from_millis(50);
/// The whole test may take this long.
const LIMIT: Duration = Duration::from_secs(120);

/// How long this thread has had a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("gc-turn-{}-{name}", std::process::id()))
}

/// Runs a daemon until it has left; its longest turn.
fn run(name: &'static str, multicast: SocketAddrV4) -> (crate::StopHandle, JoinHandle<Duration>) {
    let (give, take) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let options = Options {
            name: Some(name.into()),
            listen: Some(Listen {
                ip: Ipv4Addr::LOCALHOST.into(),
                port: Some(free_port()),
            }),
            multicast: Some(multicast),
            socket: Some(path(name)),
            history: Some(path(&format!("{name}.ndjson"))),
            insecure: Some(true),
            ..Options::default()
        };
        let mut daemon = Daemon::start(Config::build(None, options).unwrap()).unwrap();
        give.send(daemon.stop_handle()).unwrap();
        let mut longest = Duration::ZERO;
        loop {
            let begun = processor_time();
            let goes_on = daemon.turn().unwrap();
            longest = longest.max(processor_time() - begun);
            if !goes_on {
                return longest;
            }
        }
    });
    (take.recv().unwrap(), thread)
}

fn connect(name: &str) -> UnixStream {
    let begun = Instant::now();
    let mut stream = loop {
        match UnixStream::connect(path(name)) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
        }
    };
    let mut bytes = MAGIC.to_vec();
    ClientFrame::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        features: FEATURES,
        kind: ClientKind::Application,
        delivery_window: 1 << 40,
        name: None,
        token: None,
    })
    .encode(&mut bytes);
    stream.write_all(&bytes).unwrap();
    stream
}

/// Joins the group; the thread ends when a message of `LEN` bytes and the frames before it have
/// come.
fn subscribe(name: &str) -> JoinHandle<()> {
    let mut stream = connect(name);
    let mut bytes = Vec::new();
    ClientFrame::Join {
        group: "g".into(),
        discard_own: false,
        ring: false,
    }
    .encode(&mut bytes);
    stream.write_all(&bytes).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    std::thread::spawn(move || {
        // The reason stands in its last frame.
        let (mut bytes, mut got, mut len_before) = (vec![0; 1 << 20], 0, 0);
        while got < LEN {
            let len = stream.read(&mut bytes).unwrap();
            if len == 0 {
                let last = String::from_utf8_lossy(&bytes[..len_before]);
                panic!("the daemon has ended the connection: {last:?}");
            }
            got += len;
            len_before = len;
        }
    })
}

#[test]
fn a_message_of_64_mib_keeps_no_turn_busy_for_long() {
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 90), free_port());
    let daemons = ["one", "two"].map(|name| run(name, multicast));
    let subscribers = ["one", "two"].map(subscribe);
    let mut publisher = connect("one");
    let mut frame = Vec::new();
    // Time for the daemons to find each other.
    std::thread::sleep(Duration::from_secs(1));
    encode_publish_head(&mut frame, 1, Service::Agreed, &["g"], LEN);
    frame.resize(frame.len() + LEN, 7);
    publisher.write_all(&frame).unwrap();
    for subscriber in subscribers {
        subscriber.join().unwrap();
    }
    for (stop, thread) in daemons {
        stop.stop();
        let longest = thread.join().unwrap();
        println!("the longest turn took {longest:?}");
        assert!(longest < TURN_MAX, "a turn took {longest:?}");
    }
    for name in ["one.ndjson", "two.ndjson"] {
        std::fs::remove_file(path(name)).unwrap();
    }
}

/// A client of the crowd.
struct Member {
    stream: UnixStream,
    decoder: FrameDecoder,
    /// It gets messages to all groups of the test.
    is_in: bool,
    messages: usize,
}

impl Member {
    fn new(name: &str, request: &ClientFrame) -> Self {
        let mut stream = connect(name);
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        stream.write_all(&bytes).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self {
            stream,
            decoder: FrameDecoder::new(FRAME_MAX),
            is_in: false,
            messages: 0,
        }
    }

    /// Reads what there is.
    fn read(&mut self) {
        while let Ok(len) = self.stream.read(self.decoder.space()) {
            assert!(
                len > 0,
                "the daemon has ended the connection without a reason"
            );
            self.decoder.filled(len);
            while let Some(raw) = self.decoder.next_frame().unwrap() {
                match DaemonFrame::decode(raw).unwrap() {
                    Some(DaemonFrame::Done { result, .. }) => {
                        result.unwrap();
                        self.is_in = true;
                    }
                    Some(DaemonFrame::View(_)) => self.is_in = true,
                    Some(DaemonFrame::Message(_)) => self.messages += 1,
                    Some(DaemonFrame::Disconnected { code, text }) => panic!("{code:?}: {text}"),
                    Some(DaemonFrame::Refused { code, text }) => panic!("{code:?}: {text}"),
                    _ => {}
                }
            }
        }
    }
}

/// This many clients that have made a request each, by their numbers, and are in groups by it.
fn crowd(name: &str, count: usize, request: impl Fn(usize) -> ClientFrame) -> Vec<Member> {
    let mut crowd: Vec<_> = (0..count)
        .map(|number| Member::new(name, &request(number)))
        .collect();
    read_until(&mut crowd, "all are in", |it| it.is_in);
    crowd
}

fn read_until(crowd: &mut [Member], what: &str, is_done: fn(&Member) -> bool) {
    let begun = Instant::now();
    while !crowd.iter().all(is_done) {
        assert!(begun.elapsed() < LIMIT, "{what}");
        crowd.iter_mut().for_each(Member::read);
    }
}

/// Each message names a hundred groups, others first than the one before it, and each client gets
/// all of them by one pattern.
#[test]
fn messages_to_a_hundred_groups_of_many_clients_keep_no_turn_busy_for_long() {
    const CLIENTS: usize = 250;
    const GROUPS: usize = 100;
    const MESSAGES: usize = 60;
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 89), free_port());
    let (stop, thread) = run("crowd", multicast);
    let mut crowd = crowd("crowd", CLIENTS, |_| {
        let request = BusRequest::Accept {
            group: "*.x".into(),
            pattern: "*".into(),
            ring: false,
        };
        ClientFrame::Bus { token: 1, request }
    });
    let mut publisher = connect("crowd");
    let names: Vec<String> = (0..GROUPS).map(|it| format!("g{it}.x")).collect();
    let mut bytes = Vec::new();
    for number in 0..MESSAGES {
        let mut names: Vec<_> = names.iter().map(String::as_str).collect();
        names.rotate_left(number);
        encode_publish_head(&mut bytes, number as u64 + 1, Service::Agreed, &names, 5);
        bytes.extend_from_slice(b"hello");
    }
    publisher.write_all(&bytes).unwrap();
    read_until(&mut crowd, "all have all messages", |it| {
        it.messages == MESSAGES
    });
    stop.stop();
    let longest = thread.join().unwrap();
    println!("the longest turn took {longest:?}");
    std::fs::remove_file(path("crowd.ndjson")).unwrap();
    assert!(longest < TURN_MAX, "a turn took {longest:?}");
}

/// They end while they are given messages: the daemon finds that of some as it reads them, and of
/// others as it writes to them.
#[test]
fn a_thousand_clients_that_end_at_once_keep_no_turn_busy_for_long() {
    const CLIENTS: usize = 1_000;
    const GROUPS: usize = 20;
    let multicast = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 88), free_port());
    let (stop, thread) = run("ends", multicast);
    let names: Vec<String> = (0..GROUPS).map(|it| format!("g{it}")).collect();
    let crowd = crowd("ends", CLIENTS, |number| ClientFrame::Join {
        group: names[number % GROUPS].clone(),
        discard_own: false,
        ring: false,
    });
    let mut publisher = connect("ends");
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut publish = |number| {
        let mut bytes = Vec::new();
        encode_publish_head(&mut bytes, number, Service::Agreed, &names, 5);
        bytes.extend_from_slice(b"hello");
        publisher.write_all(&bytes).unwrap();
    };
    for number in 1..=20 {
        publish(number);
    }
    drop(crowd);
    for number in 21..=200 {
        publish(number);
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.stop();
    let longest = thread.join().unwrap();
    println!("the longest turn took {longest:?}");
    std::fs::remove_file(path("ends.ndjson")).unwrap();
    assert!(longest < TURN_MAX, "a turn took {longest:?}");
}
