//! The message bus as its users meet it: every session of docs/bus.md against real daemons, and
//! `groupcast bus`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemons has failed"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::host::{Host, Running, free_port, until};

const BOOK: &str = include_str!("../../../docs/bus.md");
/// Which client of its daemon a program of a session is; on the page it is the first.
const NUMBER: u32 = 300;
/// How long a line of the bus may take.
const LINE_WITHIN: Duration = Duration::from_secs(60);

/// Where the bus of the daemon `name` is.
fn address(host: &Host, name: &str) -> String {
    format!("unix:{}", host.path(&format!("{name}.bus")))
}

/// Daemons with a bus each, and a directory for traces, in one configuration.
fn daemons(host: &Host, names: &[&str]) -> Vec<Running> {
    let traces = host.path("traces");
    std::fs::create_dir_all(&traces).unwrap();
    let pool = format!(
        "ring_pool = {{ network = \"239.192.81.0/24\", port = {} }}\n",
        free_port()
    );
    let file = host.write("pool.toml", pool);
    let start = |name: &&str| {
        let bus = address(host, name);
        let options = ["--insecure", "--bus", &bus, "--bus-trace", &traces];
        host.daemon(name, &[&["-c", &file], &options[..]].concat())
    };
    let running = names.iter().map(start).collect();
    for name in names {
        host.await_members(name, names);
    }
    running
}

/// A program at the bus.
struct Program {
    socket: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Program {
    fn connect(host: &Host, daemon: &str) -> Self {
        let socket = UnixStream::connect(host.path(&format!("{daemon}.bus"))).unwrap();
        socket.set_read_timeout(Some(LINE_WITHIN)).unwrap();
        let reader = BufReader::new(socket.try_clone().unwrap());
        Self { socket, reader }
    }

    /// The client of this number of the daemon, and its greeting: the bus lists clients by their
    /// private names, and so in the order of their daemons where the numbers are equal. Tools that
    /// asked the daemon before were its first clients.
    fn of_number(number: u32, host: &Host, daemon: &str) -> (Self, String) {
        let greeting = format!("bus 1 c{number}@{daemon}");
        for _ in 0..number {
            let mut program = Self::connect(host, daemon);
            let line = program.line();
            if line == greeting {
                return (program, line);
            }
        }
        panic!("{daemon} has had more than {number} clients");
    }

    fn say(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        read.unwrap_or_else(|error| panic!("{error} after {line:?}"));
        line.trim_end_matches('\n').to_owned()
    }

    /// Says a command and reads its reply, which nothing comes before.
    fn ask(&mut self, command: &str) -> String {
        self.say(&format!("{command}\n"));
        self.line()
    }
}

/// Plays a session: `N> ` says a line for client N, which is of the daemon `hN`, `N< ` is the line
/// that it must get next. A client ends its stream where it has nothing more to say and the bus is
/// to say its last line.
fn play(session: &str) {
    let host = Host::new();
    let lines: Vec<(&str, &str, &str)> = session
        .lines()
        .map(|line| (&line[..1], &line[1..2], line.get(3..).unwrap_or_default()))
        .collect();
    let mut names: Vec<String> = lines.iter().map(|line| format!("h{}", line.0)).collect();
    names.sort();
    names.dedup();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _daemons = daemons(&host, &names);
    let mut programs = BTreeMap::new();
    for (index, (client, direction, text)) in lines.iter().enumerate() {
        let daemon = format!("h{client}");
        let (program, greeting) = programs.entry(*client).or_insert_with(|| {
            let (program, greeting) = Program::of_number(NUMBER, &host, &daemon);
            (program, Some(greeting))
        });
        if *direction == ">" {
            program.say(&format!("{text}\n"));
            continue;
        }
        let mut later = lines[index..].iter();
        let says_more = later.any(|line| line.0 == *client && line.1 == ">");
        if !says_more && text.starts_with("closed ") {
            program.socket.shutdown(Shutdown::Write).unwrap();
        }
        let line = greeting.take().unwrap_or_else(|| program.line());
        let line = line.replace(&format!("c{NUMBER}@"), "c1@");
        assert_eq!(line, *text, "line {} of\n{session}", index + 1);
    }
}

#[test]
fn every_session_of_the_book_is_as_it_says() {
    let mut sessions = 0;
    for block in BOOK.split("```session\n").skip(1) {
        play(block.split("```").next().unwrap());
        sessions += 1;
    }
    assert!(sessions >= 4, "{sessions}");
}

#[test]
fn a_tcp_address_serves_whoever_is_on_the_host_and_the_log_says_so() {
    let host = Host::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    drop(port);
    let token = host.path("client.token");
    assert_eq!(host.run(&["keygen", &token]).code, 0);
    let options = [
        "--insecure",
        "--bus",
        &address,
        "--client-listen",
        "127.0.0.1:0",
    ];
    let _daemon = host.daemon("h1", &[&options[..], &["--client-token", &token]].concat());
    let mut socket = TcpStream::connect(&address).unwrap();
    socket.set_read_timeout(Some(LINE_WITHIN)).unwrap();
    socket
        .write_all(b"accept * d\r\nmsg t d hello\r\nquit\r\n")
        .unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    let expected = "ok\nmsg t d raw 5\nhello\nok\nok\nclosed bye good-bye\n";
    assert!(heard.ends_with(expected), "{heard}");
    let log = host.read("h1.err");
    assert!(
        log.contains("every user of this host can be a client of the bus"),
        "{log}"
    );
}

#[test]
fn the_tool_finds_a_bus_by_its_hosts_name() {
    let host = Host::new();
    let port = free_port();
    let _daemon = host.daemon("h1", &["--insecure", "--bus", &format!("127.0.0.1:{port}")]);
    let script = host.write("script", "info\n");
    let server = format!("localhost:{port}");
    let ran = host.run(&bus_with(&server, &["--file", &script]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("ok name="), "{}", ran.stdout);
    let ran = host.run(&bus_with(&host.path("h1.bus"), &[]));
    ran.fails_with(2, &["unix:/"]);
}

#[test]
fn an_open_address_needs_certificates() {
    let host = Host::new();
    let key = host.path("cluster.key");
    assert_eq!(host.run(&["keygen", &key]).code, 0);
    let ran = host.run(&["daemon", "--check", "--key", &key, "--bus", "10.0.0.1:4812"]);
    ran.fails_with(
        2,
        &[
            "everybody who reaches 10.0.0.1:4812",
            "tls_client_ca",
            "insecure",
        ],
    );
    let ran = host.run(&["daemon", "--check", "--insecure", "--bus", "nowhere"]);
    ran.fails_with(2, &["unix:PATH"]);
}

#[test]
fn what_is_wrong_with_an_address_is_said_of_the_bus() {
    let host = Host::new();
    let socket = host.path("one.sock");
    let unix = format!("unix:{socket}");
    let check = ["daemon", "--check", "--insecure", "--socket", &socket];
    let ran = host.run(&[&check[..], &["--bus", &unix]].concat());
    ran.fails_with(2, &["bus: ", "one.sock is the socket of the other clients"]);
    let twice = ["--bus", "127.0.0.1:4812", "--bus", "127.0.0.1:4812"];
    let ran = host.run(&[&check[..], &twice].concat());
    ran.fails_with(2, &["127.0.0.1:4812 stands there twice"]);

    let file = format!("unix:{}", host.write("file", ""));
    let nowhere = format!("unix:{}", host.path("no-directory/bus"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = port.local_addr().unwrap().to_string();
    let daemon = [
        "daemon",
        "--insecure",
        "--listen",
        &taken,
        "--socket",
        &socket,
    ];
    for (address, help) in [
        (&file, "--bus unix:PATH"),
        (&nowhere, "--bus unix:PATH"),
        (&taken, "--bus IP:PORT"),
    ] {
        let ran = host.run(&[&daemon[..], &["--bus", address]].concat());
        ran.fails_with(1, &[help]);
        assert!(!ran.stderr.contains("--socket") && !ran.stderr.contains("--client-listen"));
    }
}

#[test]
fn the_tool_says_where_there_is_no_bus_and_how_a_connection_ended() {
    let host = Host::new();
    let _daemons = daemons(&host, &["h1"]);
    let socket = format!("unix:{}", host.socket("h1"));
    let file = host.write("file", "help\n");
    for options in [&[][..], &["--file", &file]] {
        let ran = host.run(&bus_with(&socket, options));
        ran.fails_with(1, &["no message bus", "listens for other clients", "--bus"]);
        assert_eq!(ran.stdout, "");
    }
    let mut talk = host.command(&bus_with(&address(&host, "h1"), &[]));
    talk.stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    let mut talk = talk.spawn().unwrap();
    let typed = b"msg t d 99999999999\n";
    talk.stdin.take().unwrap().write_all(typed).unwrap();
    let output = talk.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("split it\n") && !said.contains("\\n"),
        "{said}"
    );
}

#[test]
fn a_client_that_does_not_read_is_let_go_and_the_others_go_on() {
    let host = Host::new();
    let file = host.write(
        "h1.toml",
        "clients.stop_publishers_at = \"64 KiB\"\nclients.stalled_within = \"1 s\"\n",
    );
    let bus = address(&host, "h1");
    let _daemon = host.daemon("h1", &["--insecure", "--bus", &bus, "-c", &file]);
    let mut deaf = Program::connect(&host, "h1");
    deaf.line();
    assert_eq!(deaf.ask("accept * d"), "ok");
    // One that says nothing, and one that stops in a command.
    let _silent = Program::connect(&host, "h1");
    let mut stopped = Program::connect(&host, "h1");
    stopped.say("msg t d 100\nnot a hund");
    let mut sender = Program::connect(&host, "h1");
    sender.line();
    let message = "x".repeat(60_000);
    let mut let_go = false;
    for _ in 0..400 {
        assert_eq!(sender.ask(&format!("msg t d {message}")), "ok");
        if sender.ask("ping t d") == "ok" {
            let_go = true;
            break;
        }
    }
    assert!(let_go, "24 MB for a client that takes nothing for a second");
    assert_eq!(sender.ask("ping t d"), "ok");
}

#[test]
fn pub_and_sub_meet_the_bus() {
    let host = Host::new();
    let _daemons = daemons(&host, &["h1"]);
    let mut subscriber = host.subscribe("sub", "h1", &["--count", "2"]);
    let mut program = Program::connect(&host, "h1");
    program.line();
    assert_eq!(program.ask("accept * room"), "ok");
    let socket = host.socket("h1");
    let plain = host.write("plain", "hello\n");
    let ran = host.run(&["pub", "room", "--socket", &socket, "--file", &plain]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(program.line(), "msg \"\" room raw 5");
    assert_eq!(program.line(), "hello");
    program.say("msg draw room (a)\n");
    assert_eq!(subscriber.wait(), 0);
    let seen = host.read("sub.out");
    assert!(
        seen.contains("\"tag\":\"draw\",\"syntax\":\"sexp\","),
        "{seen}"
    );
    assert_eq!(seen.matches("\"tag\"").count(), 1, "{seen}");
}

/// The command line of a program at the bus at `server`.
fn bus_with<'a>(server: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["bus", "--server", server][..], options].concat()
}

/// The exit code of a command whose output nothing can be written to.
fn onto_a_full_disk(command: &mut Command) -> i32 {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let status = command.stdout(full.unwrap()).status().unwrap();
    status.code().unwrap()
}

#[test]
fn what_is_heard_and_cannot_be_shown_is_a_failure() {
    let host = Host::new();
    let _daemons = daemons(&host, &["h1"]);
    let server = &address(&host, "h1");
    let script = host.write("script", "accept t d\nmsg t d x\ninfo\n");
    let mut file = host.command(&bus_with(server, &["--file", &script]));
    assert_eq!(onto_a_full_disk(&mut file), 1);
    let mut talk = host.command(&bus_with(server, &[]));
    let input = std::fs::File::open(&script).unwrap();
    assert_eq!(onto_a_full_disk(talk.stdin(input)), 1);
}

#[test]
fn a_terminal_a_file_and_a_process_at_the_bus() {
    let host = Host::new();
    let _daemons = daemons(&host, &["h1"]);
    let server = &address(&host, "h1");

    let mut talk = host.command(&bus_with(server, &[]));
    talk.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut talk = talk.spawn().unwrap();
    let typed = b"accept * d\nmsg t d hello\n";
    talk.stdin.take().unwrap().write_all(typed).unwrap();
    let output = talk.wait_with_output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.ends_with("ok\nmsg t d raw 5\nhello\nok\nclosed bye good-bye\n"),
        "{printed}"
    );

    let good = host.write(
        "good",
        "accept * d\n# a comment\nmsg t d 5\na\nb c\nmsg t d (x\n y)\n",
    );
    let ran = host.run(&bus_with(server, &["--file", &good]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains("msg t d raw 5\na\nb c\nok\nmsg t d 6\n(x\n y)\nok\n"),
        "{}",
        ran.stdout
    );
    let bad = host.write(
        "bad",
        "accept * d\nmsg t d 1\nx\n\naccept ( d\nmsg t d never\n",
    );
    let ran = host.run(&bus_with(server, &["--file", &bad]));
    ran.fails_with(1, &["bad:5: error pattern 8 "]);
    assert!(!ran.stdout.contains("never"));
    let mut piped = host.command(&bus_with(server, &["--file", "-"]));
    let piped = piped
        .stdin(std::fs::File::open(&bad).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&piped.stderr);
    assert!(said.contains(" -:5: error pattern 8 "), "{said}");
    let socket = host.socket("h1");
    let mut publish = host.command(&["pub", "d", "--socket", &socket, "--file", "-"]);
    let publish = publish.stdin(std::fs::File::open(&good).unwrap()).output();
    assert!(publish.unwrap().status.success());
    let torn = host.write("torn", "accept * d\nmsg t d 10\nabc\n");
    host.run(&bus_with(server, &["--file", &torn]))
        .fails_with(1, &["torn:2: ", "was not sent"]);

    let script = "read greeting; echo 'accept * d'; read reply; echo 'msg t d from a process'; \
                  read head; read text; read reply; echo \"$greeting|$head|$text|$reply\" >&2; exit 7";
    let ran = host.run(&bus_with(server, &["--exec", "sh", "-c", script]));
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("|msg t d raw 14|from a process|ok"),
        "{}",
        ran.stderr
    );
    let killed = ["--exec", "sh", "-c", "kill -9 $$"];
    host.run(&bus_with(server, &killed))
        .fails_with(1, &["`sh` was ended by signal 9 (SIGKILL)"]);
}

/// A bus takes the rest of a long message only when its client has read what waits for it.
#[test]
fn a_file_is_sent_while_deliveries_are_read() {
    const MESSAGE: usize = 48 << 20;
    let host = Host::new();
    let script = [
        format!("msg t d raw {MESSAGE}\n").as_bytes(),
        &vec![b'x'; MESSAGE],
        b"\n",
    ]
    .concat();
    let script = host.write("script", script);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let player = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LINE_WITHIN)).unwrap();
        stream.set_write_timeout(Some(LINE_WITHIN)).unwrap();
        stream.write_all(b"bus 1 c1@h1\n").unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        reader.read_line(&mut String::new()).unwrap();
        let delivery = [b"msg t d raw 1000000\n", &vec![b'y'; 1_000_000][..], b"\n"].concat();
        for _ in 0..48 {
            stream.write_all(&delivery).unwrap();
        }
        let mut message = vec![0; MESSAGE + 1];
        reader.read_exact(&mut message).unwrap();
        stream.write_all(b"ok\n").unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "it ends its output");
        stream.write_all(b"closed bye good-bye\n").unwrap();
    });
    let mut sender = host.launch(
        "sender",
        &mut host.command(&bus_with(&server, &["--file", &script])),
    );
    assert_eq!(sender.wait(), 0, "{}", host.read("sender.err"));
    player.join().unwrap();
}

/// The records of the file that docs/bus.md shows, without their times.
fn without_times(trace: &str) -> String {
    let lines = trace.lines().map(|line| {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (first.contains('.'), line.strip_prefix("trace 1 ")) {
            (_, Some(head)) => head.rsplit_once(' ').unwrap().0,
            (true, _) => rest,
            (false, _) => line,
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_trace_is_what_the_book_says_and_is_shown_by_domain_tag_and_client() {
    let host = Host::new();
    let _daemons = daemons(&host, &["h1", "h2"]);
    let (mut one, _) = Program::of_number(NUMBER, &host, "h1");
    for (command, lines) in [
        ("tracefile mine", 1),
        ("accept * d", 1),
        ("msg t d hello", 3),
    ] {
        one.say(&format!("{command}\n"));
        (0..lines).for_each(|_| drop(one.line()));
    }
    assert_eq!(one.ask("tracefile off"), "ok");
    let file = host.path("traces/mine.trace");
    let shown = BOOK.split("```trace\n").nth(1).unwrap();
    let shown = shown.split("```").next().unwrap();
    let written = host.read("traces/mine.trace");
    let written = written.replace(&format!("c{NUMBER}@"), "c1@");
    assert_eq!(without_times(&written), without_times(shown));
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    assert_eq!(one.ask("tracefile mine"), "ok");
    let (mut two, _) = Program::of_number(NUMBER, &host, "h2");
    let refused = two.ask("tracefile ../x");
    assert!(refused.starts_with("error name 11 "), "{refused}");
    two.say("msg from-two d.e,d (a\n b)\n");
    assert_eq!(two.line(), "ok");
    for _ in 0..3 {
        one.line();
    }
    assert!(one.ask("reject x y").starts_with("error not-accepted"));
    assert_eq!(one.ask("quit"), "ok");
    assert!(one.line().starts_with("closed bye"));
    let show = |options: &[&str]| {
        let ran = host.run(&[&["bus", "trace", &file][..], options].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    // It is written beside the bus, a moment later.
    until("the last line is in the trace", || {
        show(&[]).contains("closed bye")
    });
    let all = show(&[]);
    assert!(
        all.starts_with("trace mine of c300@h1, file 1, begun "),
        "{all}"
    );
    assert!(all.contains("< [c300@h2] msg from-two d.e,d 6\n"), "{all}");
    assert!(all.contains("< [c300@h1] closed bye good-bye\n"), "{all}");
    for (options, part, count) in [
        (&["--domain", "d"][..], "msg from-two", 1),
        (&["--domain", "*.e"], "msg from-two", 1),
        (&["--tag", "x"], "error not-accepted", 2),
        (&["--tag", "x", "--domain", "d"], "", 0),
        (
            &["--client", "c300@h2", "--client", "nobody"],
            "msg from-two",
            1,
        ),
    ] {
        let shown = show(&[&["--json"], options].concat());
        let records: Vec<_> = shown.lines().skip(1).collect();
        assert_eq!(records.len(), count, "{options:?}: {shown}");
        assert!(shown.contains(part), "{options:?}: {shown}");
    }
    let json = show(&["--json", "--domain", "d"]);
    let record: serde_json::Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
    assert_eq!(record["event"], "got");
    assert_eq!(record["message"]["text"], "(a\n b)");
    assert_eq!(record["domains"], serde_json::json!(["d.e", "d"]));

    for command in [
        &["bus", "trace", &file][..],
        &["bus", "trace", "--json", &file],
    ] {
        assert_eq!(onto_a_full_disk(&mut host.command(command)), 1);
    }
    host.run(&["bus", "trace", &host.path("h1.err")])
        .fails_with(1, &["byte 0", "no trace"]);
    host.run(&["bus", "--server", "unix:x", "trace", &file])
        .fails_with(2, &["--server"]);
    host.run(&["bus"]).fails_with(2, &["--server"]);
}

#[test]
fn an_address_without_its_option_is_answered_by_what_was_meant() {
    let host = Host::new();
    for address in ["unix:b1", "127.0.0.1:4812", "host-1:4812"] {
        let help = format!("groupcast bus --server {address}");
        host.run(&["bus", address])
            .fails_with(2, &["without its option", &help]);
    }
    let file = host.write("commands", "help\n");
    host.run(&["bus", &file])
        .fails_with(2, &["--file", "unix:", "groupcast bus trace"]);
    host.run(&["bus", "trac", &file])
        .fails_with(2, &["did you mean `groupcast bus trace`?"]);
    host.run(&["bus", "talk"])
        .fails_with(2, &["no `talk`", "--server IP:PORT"]);
}

#[test]
fn other_commands_say_that_they_have_met_a_bus() {
    let host = Host::new();
    let port = free_port();
    let server = format!("127.0.0.1:{port}");
    let unix = address(&host, "h1");
    let options = ["--insecure", "--bus", &server, "--bus", &unix];
    let _daemon = host.daemon("h1", &options);
    let path = host.path("h1.bus");
    for (option, place, shown) in [("--server", &server, &server), ("--socket", &path, &unix)] {
        let help = format!("`groupcast bus --server {shown}`");
        host.run(&["pub", "g", option, place])
            .fails_with(1, &["is the message bus of a daemon", &help, "--socket"]);
    }
    host.run(&["sub", "g", "--server", &unix])
        .fails_with(2, &[&format!("--socket {path}")]);
    host.run(&["status", "--socket", &unix])
        .fails_with(2, &["without `unix:`"]);
}

#[test]
fn traces_need_a_directory_and_a_bus() {
    let host = Host::new();
    let bus = address(&host, "h1");
    let traces = host.path("nowhere");
    let options = ["daemon", "--insecure", "--bus-trace", &traces];
    host.run(&options)
        .fails_with(2, &["bus_trace", "only connections of the bus are traced"]);
    let socket = host.socket("h1");
    let all = [&options[..], &["--bus", &bus, "--socket", &socket]].concat();
    host.run(&all)
        .fails_with(1, &["cannot keep traces", "--bus-trace"]);
    let _daemon = host.daemon("h1", &["--insecure", "--bus", &bus]);
    let mut program = Program::connect(&host, "h1");
    program.line();
    let refused = program.ask("tracefile t");
    assert!(
        refused.starts_with("error unsupported 0 no traces here"),
        "{refused}"
    );
}

/// The module in a program of its own; without an interpreter there is nothing to run it.
#[test]
fn the_python_module_sends_and_gets_every_kind_of_item() {
    let host = Host::new();
    let _daemons = daemons(&host, &["h1", "h2"]);
    let module = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../bindings/python/groupcast_bus"
    );
    let mut command = Command::new("python3");
    command
        .arg(format!("{module}/tests/two.py"))
        .args([address(&host, "h1"), address(&host, "h2")])
        .env("PYTHONPATH", format!("{module}/src"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let Ok(output) = command.output() else {
        eprintln!("skipped: the_python_module_sends_and_gets_every_kind_of_item needs python3");
        return;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn what_says_nothing_is_not_waited_for_without_end() {
    let host = Host::new();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    host.write("script", "help\n");
    host.run(&["bus", "--server", &address, "--file", "script"])
        .fails_with(1, &["says nothing", "--bus"]);
}
