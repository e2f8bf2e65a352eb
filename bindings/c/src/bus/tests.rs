//! A connection against a bus that the test plays: what ends it, what it keeps, who ends its
//! waiting.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::*;

const LONG: Option<Duration> = Some(Duration::from_secs(20));

/// A bus that says to its n-th connection what `play` does.
fn bus(
    connections: usize,
    mut play: impl FnMut(usize, TcpStream) + Send + 'static,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let player = thread::spawn(move || {
        for number in 0..connections {
            play(number, listener.accept().unwrap().0);
        }
    });
    (address, player)
}

fn say(mut stream: &TcpStream, text: &str) {
    // The library may be gone.
    let _ = stream.write_all(text.as_bytes());
}

/// Waits for the next command.
fn hear(stream: &TcpStream) {
    BufReader::new(stream)
        .read_line(&mut String::new())
        .unwrap();
}

/// Says nothing until the other side has gone.
fn hear_end(stream: &TcpStream) {
    let _ = io::copy(&mut &*stream, &mut io::sink());
}

/// Replies `ok` to all commands; what they were.
fn obey(stream: &TcpStream) -> Vec<String> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let lines = lines.inspect(|line| {
        say(stream, "ok\n");
        if line == "quit" {
            say(stream, "closed bye bye\n");
        }
    });
    lines.collect()
}

#[test]
fn connecting_again_goes_on_while_the_daemon_stops() {
    let (said, heard) = std::sync::mpsc::channel();
    let (address, player) = bus(4, move |number, stream| match number {
        0 => {
            say(&stream, "bus 1 c1@h1\n");
            hear(&stream);
            say(&stream, "ok\nclosed stopping soon\n");
        }
        1 => say(&stream, "closed stopping soon\n"),
        2 => say(&stream, "bus 1 c2@h1\nclosed stopping soon\n"),
        _ => {
            say(&stream, "bus 1 c3@h1\n");
            said.send(obey(&stream)).unwrap();
        }
    });
    let mut bus = Bus::connect(&address, LONG).unwrap();
    bus.say("accept t from=d").unwrap();
    assert_eq!(bus.receive(LONG).unwrap_err().word, "stopping");
    bus.reconnect(LONG).unwrap();
    assert_eq!(bus.name(), b"c3@h1");
    bus.quit(LONG).unwrap();
    drop(bus);
    player.join().unwrap();
    assert_eq!(heard.recv().unwrap(), ["accept t from=d", "quit"]);
}

#[test]
fn an_attempt_that_nobody_greets_is_given_up_for_another() {
    let (address, player) = bus(4, |number, stream| match number {
        0 => say(&stream, "bus 1 c1@h1\n"),
        // As a stopped daemon: it takes the connection, or the first command, and says nothing.
        1 => hear_end(&stream),
        2 => {
            say(&stream, "bus 1 c2@h1\n");
            hear_end(&stream);
        }
        _ => {
            say(&stream, "bus 1 c3@h1\n");
            obey(&stream);
        }
    });
    let mut bus = Bus::connect(&address, LONG).unwrap();
    bus.said.note("views", "views on");
    bus.greeting_within = Duration::from_millis(300);
    bus.reply_within = Some(Duration::from_millis(300));
    bus.reconnect(LONG).unwrap();
    assert_eq!(bus.name(), b"c3@h1");
    bus.quit(LONG).unwrap();
    drop(bus);
    player.join().unwrap();
}

#[test]
fn who_begins_as_no_bus_does_is_not_waited_for() {
    for (begin, said) in [("gcst", "other clients"), ("SSH-", "no bus of version 1")] {
        let (address, player) = bus(1, move |_, stream| {
            say(&stream, begin);
            hear_end(&stream);
        });
        let error = Bus::connect(&address, LONG).unwrap_err();
        assert_eq!(error.code, Code::Address);
        assert!(error.text.contains(said), "{error:?}");
        player.join().unwrap();
    }
    let nobody = "unix:/nowhere/bus";
    let error = Bus::connect(nobody, LONG).unwrap_err();
    assert_eq!(error.code, Code::Connection);
    assert!(error.text.contains(nobody), "{error:?}");
}

#[test]
fn an_end_for_good_ends_connecting_again() {
    let (address, player) = bus(2, |number, stream| match number {
        0 => say(&stream, "bus 1 c1@h1\n"),
        _ => say(&stream, "closed refused no\n"),
    });
    let mut bus = Bus::connect(&address, LONG).unwrap();
    assert_eq!(bus.reconnect(LONG).unwrap_err().word, "refused");
    player.join().unwrap();
}

#[test]
fn what_comes_before_a_reply_is_bounded_by_its_bytes() {
    const LEN: usize = 8 << 20;
    let (address, player) = bus(1, |_, stream| {
        say(&stream, "bus 1 c1@h1\n");
        hear(&stream);
        let delivery = format!("msg t d raw {LEN}\n{}\n", "x".repeat(LEN));
        for _ in 0..KEPT_MAX / LEN + 1 {
            say(&stream, &delivery);
        }
        say(&stream, "ok late\n");
        obey(&stream);
    });
    let mut bus = Bus::connect(&address, LONG).unwrap();
    assert_eq!(bus.say("info").unwrap_err().code, Code::Full);
    assert!(bus.kept <= KEPT_MAX + 2 * LEN, "{} bytes", bus.kept);
    while bus.kept > 0 {
        bus.receive(LONG).unwrap();
    }
    // What is late is not taken for the next one's.
    assert_eq!(bus.say("service safe").unwrap(), [""]);
    bus.quit(LONG).unwrap();
    drop(bus);
    player.join().unwrap();
}

#[test]
fn a_delivery_that_comes_in_parts_is_read_when_it_is_whole() {
    let (address, player) = bus(1, |_, stream| say(&stream, "bus 1 c1@h1\n"));
    let mut bus = Bus::connect(&address, LONG).unwrap();
    player.join().unwrap();
    let text = b"view d regular join c1 c1\nmsg t d raw 5\nhel";
    bus.input.extend_from_slice(text);
    bus.take().unwrap();
    assert_eq!((bus.events.len(), bus.input.len()), (1, 17));
    assert_eq!(bus.needed, 20);
    // Until then its line is not looked at.
    bus.input[0] = b'x';
    bus.input.extend_from_slice(b"lo");
    bus.take().unwrap();
    assert_eq!(bus.input.len(), 19);
    bus.input[0] = b'm';
    bus.input.extend_from_slice(b"\nok");
    bus.take().unwrap();
    assert_eq!(
        (bus.events.len(), &*bus.input, bus.searched),
        (2, &b"ok"[..], 2)
    );
}

#[test]
fn closing_does_not_wait_for_who_receives() {
    let (address, player) = bus(1, |_, stream| {
        say(&stream, "bus 1 c1@h1\n");
        obey(&stream);
    });
    let bus = Bus::connect(&address, LONG).unwrap();
    let stop = bus.stop();
    let bus = Arc::new(Mutex::new(bus));
    let (began, begins) = std::sync::mpsc::channel();
    let receiver = thread::spawn({
        let bus = bus.clone();
        move || {
            let mut bus = bus.lock().unwrap();
            began.send(()).unwrap();
            bus.receive(None)
        }
    });
    begins.recv().unwrap();
    stop.set();
    bus.lock().unwrap().quit(LONG).unwrap();
    assert_eq!(receiver.join().unwrap().unwrap_err().code, Code::Closed);
    drop(bus);
    player.join().unwrap();
}
