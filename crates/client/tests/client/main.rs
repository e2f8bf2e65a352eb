//! The client against a real engine behind real sockets.

mod daemon;
mod ends;
#[cfg(feature = "tls")]
mod tls;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use groupcast_client::{
    Address, Cause, Client, ClientError, ClientEvent, ConnectError, Disconnect, Options, Refusal,
    RequestError, Service, WhenSlow,
};
use groupcast_session::EngineConfig;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use self::daemon::TestDaemon;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

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

/// Nobody waits for a program that has said so; it is warned ahead of what waits, and what comes
/// when it reads again reaches it.
#[test]
fn who_rather_misses_messages_holds_no_publisher_back() {
    const COUNT: u64 = 500;
    let config = EngineConfig {
        stop_publishers_at: 50_000,
        ..EngineConfig::default()
    };
    let daemon = TestDaemon::start("slow", config);
    let mut slow = daemon.connect_with(Options {
        delivery_window: 5_000,
        ..Options::default()
    });
    slow.set_when_slow(WhenSlow::Drop).unwrap();
    slow.join("g").unwrap();
    next_view(&mut slow);
    let mut al = daemon.connect("al");
    for _ in 0..COUNT {
        al.publish(&["g"], Service::Unreliable, &[1; 1_000])
            .unwrap();
    }
    assert!(al.flush_accepted(Some(LONG)).unwrap());
    al.publish(&["g"], Service::Agreed, b"last").unwrap();
    al.flush().unwrap();
    let (mut got, mut warned_after) = (0, None);
    loop {
        match slow.next_event(Some(LONG)).unwrap() {
            Some(ClientEvent::Message(message)) if &message.payload[..] == b"last" => break,
            Some(ClientEvent::Message(_)) => got += 1,
            Some(ClientEvent::Behind { waiting, limit, .. }) => {
                // The last warning, of what was missed, comes when little waits any more.
                assert!(warned_after.is_some() || (waiting > 25_000 && waiting < limit));
                warned_after.get_or_insert(got);
            }
            Some(_) => {}
            None => panic!("only {got} came"),
        }
    }
    assert!(got > 40 && got < COUNT, "{got} of {COUNT}");
    assert!(warned_after.is_some_and(|count| count < got / 2));
}

#[test]
fn nothing_is_accepted_before_it_came_back() {
    let daemon = TestDaemon::start("stall", EngineConfig::default());
    let mut client = daemon.connect("al");
    assert!(client.flush_accepted(Some(LONG)).unwrap());
    daemon.stall.store(true, Ordering::SeqCst);
    client.publish(&["g"], Service::Agreed, b"one").unwrap();
    assert!(!client.flush_accepted(Some(SECOND / 5)).unwrap());
    assert_eq!(client.undecided(), 1);
    daemon.stall.store(false, Ordering::SeqCst);
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
    assert!(matches!(
        client.join("a@b"),
        Err(ClientError::Request(RequestError::Name(_)))
    ));
    let none = client.publish(&[], Service::Agreed, b"");
    assert!(matches!(
        none,
        Err(ClientError::Request(RequestError::Destinations {
            count: 0,
            ..
        }))
    ));
    let bad = client.publish(&["ok", "not\nok"], Service::Agreed, b"");
    assert!(matches!(
        bad,
        Err(ClientError::Request(RequestError::Name(_)))
    ));
    let large = client.publish(&["g"], Service::Agreed, &vec![0; (64 << 20) + 1]);
    assert!(matches!(
        large,
        Err(ClientError::Request(RequestError::TooLarge { .. }))
    ));
    assert!(matches!(
        client.publish(&["g"], Service::KResilient(128), b"x"),
        Err(ClientError::Request(RequestError::Resilience { .. }))
    ));
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
    let error = Client::connect(&Address::Unix(std::env::temp_dir()), Options::default());
    let error = error.expect_err("it is a directory");
    assert!(matches!(error, ConnectError::NoSocket { .. }), "{error}");

    // More than the protocol can carry, too: whatever it is, the name is at fault, not the socket.
    for name in ["al@here".to_owned(), "a".repeat(128), "a".repeat(256)] {
        let options = Options {
            name: Some(name),
            ..Options::default()
        };
        let error = Client::connect(&missing, options).unwrap_err();
        assert!(matches!(error, ConnectError::Name(_)), "{error}");
    }

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

/// A daemon that is stopped accepts nothing. The system holds a few connections for it, and makes
/// the next one wait for as long as it is stopped.
#[test]
fn connecting_to_a_daemon_that_accepts_nothing_ends_in_time() {
    let path = std::env::temp_dir().join(format!("groupcast-test-{}-full", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = SocketAddrUnix::new(&path).unwrap();
    let waiting = std::iter::repeat_with(|| {
        let flags = SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        connect(&socket, &address).map(|()| socket)
    });
    let waiting: Vec<_> = waiting.take(1_000).map_while(Result::ok).collect();
    assert!(waiting.len() < 1_000, "there is always room");
    let (told, outcome) = std::sync::mpsc::channel();
    let address = Address::Unix(path.clone());
    std::thread::spawn(move || {
        let options = Options {
            connect_within: SECOND / 5,
            ..Options::default()
        };
        let _ = told.send(Client::connect(&address, options));
    });
    let connected = outcome.recv_timeout(LONG).expect("it ends in time");
    let error = connected.expect_err("nobody accepts it");
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    std::fs::remove_file(path).unwrap();
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
