//! Programs in C, Python, Lisp, Node and bash at the bus: each sends a list with every kind of item
//! and gets it from each of them, in its own syntax, in a domain with an order of its own.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemons has failed"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::host::{Host, Running, free_port};

const BOOK: &str = include_str!("../../../docs/bus.md");

/// A language: the program that it takes, what runs there, and the bus that it speaks to.
struct Language {
    name: &'static str,
    needs: &'static str,
    /// The program of the test, from the root of the repository.
    source: &'static str,
    daemon: &'static str,
    over_tcp: bool,
}

const LANGUAGES: [Language; 5] = [
    Language {
        name: "c",
        needs: "cc",
        source: "bindings/c/tests/every_kind.c",
        daemon: "h1",
        over_tcp: false,
    },
    Language {
        name: "python",
        needs: "python3",
        source: "bindings/python/groupcast_bus/tests/every_kind.py",
        daemon: "h2",
        over_tcp: false,
    },
    Language {
        name: "lisp",
        needs: "sbcl",
        source: "examples/bus/lisp/every-kind.lisp",
        daemon: "h1",
        over_tcp: true,
    },
    Language {
        name: "node",
        needs: "node",
        source: "examples/bus/node/every-kind.mjs",
        daemon: "h2",
        over_tcp: false,
    },
    Language {
        name: "shell",
        needs: "bash",
        source: "examples/bus/shell/every-kind.sh",
        daemon: "h2",
        over_tcp: true,
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    command.output().is_ok_and(|it| it.status.success())
}

/// Tells the summary of a run what a test does without.
fn skipped(what: &str) {
    // What `print` writes is seen of tests that fail only.
    let _ = writeln!(std::io::stdout(), "\nskipped: {what}");
}

/// A file that gives daemons addresses for rings.
fn pool(host: &Host) -> String {
    let port = free_port();
    let text = format!("ring_pool = {{ network = \"239.192.82.0/24\", port = {port} }}\n");
    host.write("pool.toml", text)
}

/// A daemon with a bus at a Unix socket and at a port of its own, whose address is given.
fn daemon(host: &Host, name: &str, options: &[&str]) -> (Running, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    drop(port);
    let unix = unix_address(host, name);
    let buses = ["--insecure", "--bus", &unix, "--bus", &address];
    (host.daemon(name, &[&buses, options].concat()), address)
}

fn unix_address(host: &Host, name: &str) -> String {
    format!("unix:{}", host.path(&format!("{name}.bus")))
}

/// A program in C with the library, which lies beside this test.
fn compiled(host: &Host, source: &str) -> String {
    let program = host.path("program");
    let library = std::env::current_exe().unwrap();
    let library = library.with_file_name("libgroupcast_bus.so");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra"])
        .args(["-Werror", "-o", &program])
        .arg("-I")
        .arg(root().join("bindings/c/include"))
        .arg(root().join(source))
        .arg(library);
    let output = compiler.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    program
}

impl Language {
    fn start(&self, host: &Host, address: &str, count: usize) -> Child {
        let source = root().join(self.source);
        let mut command = match self.name {
            "c" => Command::new(compiled(host, self.source)),
            _ => Command::new(self.needs),
        };
        match self.name {
            "c" => &mut command,
            "lisp" => command.arg("--script").arg(&source),
            _ => command.arg(&source),
        };
        command
            .args([address, &count.to_string()])
            .env(
                "PYTHONPATH",
                root().join("bindings/python/groupcast_bus/src"),
            )
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

#[test]
fn every_language_sends_and_gets_every_kind_of_item() {
    let host = Host::new();
    let pool = pool(&host);
    let (_h1, first) = daemon(&host, "h1", &["-c", &pool]);
    let (_h2, second) = daemon(&host, "h2", &["-c", &pool]);
    for name in ["h1", "h2"] {
        host.await_members(name, &["h1", "h2"]);
    }
    let (there, absent): (Vec<_>, Vec<_>) = LANGUAGES
        .iter()
        .partition(|language| is_there(language.needs));
    if !absent.is_empty() {
        let names: Vec<_> = absent.iter().map(|it| it.needs).collect();
        skipped(&format!("the bus without {}", names.join(", ")));
    }
    let start = |language: &&Language| {
        let address = match (language.over_tcp, language.daemon) {
            (false, daemon) => unix_address(&host, daemon),
            (true, "h1") => first.clone(),
            (true, _) => second.clone(),
        };
        language.start(&host, &address, there.len())
    };
    let programs: Vec<Child> = there.iter().map(start).collect();
    let mut expected: Vec<_> = there
        .iter()
        .map(|it| format!("equal {}", it.name))
        .collect();
    expected.sort();
    for (language, program) in there.iter().zip(programs) {
        let output = program.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", language.name);
        let heard = String::from_utf8(output.stdout).unwrap();
        let mut heard: Vec<_> = heard.lines().collect();
        heard.sort_unstable();
        assert_eq!(heard, expected, "{}: {said}", language.name);
    }
    // All asked for a ring, and a ring has a history of its own.
    for name in ["h1", "h2"] {
        let history = host.read(&format!("{name}.kinds.ndjson"));
        assert!(!history.is_empty(), "{name} was in no ring");
    }
}

#[test]
fn the_examples_of_the_book_do_what_they_say() {
    let host = Host::new();
    let (_h1, address) = daemon(&host, "h1", &[]);
    let examples = root().join("examples/bus");
    let (_, book) = BOOK.split_once("\n## In other languages\n").unwrap();
    for (language, library, command, expected) in [
        (
            "lisp",
            "lisp/groupcast-bus.lisp",
            &["sbcl", "--script"][..],
            "(line 3 2.5 \"red\")\n",
        ),
        (
            "js",
            "node/groupcast-bus.mjs",
            &["node"],
            "[ Sym { name: 'line' }, 3n, 2.5, 'red' ]\n",
        ),
        (
            "sh",
            "shell/groupcast-bus.sh",
            &["bash"],
            "draw: (line 3 4)\n",
        ),
    ] {
        if !is_there(command[0]) {
            continue;
        }
        let file = library.rsplit('/').next().unwrap();
        host.write(file, fs::read(examples.join(library)).unwrap());
        let opening = format!("```{language}\n");
        let text = book.split(&opening).nth(1).unwrap();
        let text = text.split("```").next().unwrap();
        let program = host.write(
            &format!("book-{file}"),
            text.replace("127.0.0.1:4812", &address),
        );
        let mut run = Command::new(command[0]);
        run.args(&command[1..])
            .arg(program)
            .current_dir(host.path("."));
        let output = run.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{language}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{said}");
    }
}

/// A client of the client protocol may say of any bytes that they are a list; the bus passes on
/// what its receiver need not have converted.
#[test]
fn what_is_no_list_in_spite_of_its_mark_does_not_end_a_program_in_node() {
    if !is_there("node") {
        return skipped(
            "what_is_no_list_in_spite_of_its_mark_does_not_end_a_program_in_node needs node",
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bus = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"bus 1 c1@h1\n").unwrap();
        let mut lines = BufReader::new(peer.try_clone().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "syntax cstream");
        assert_eq!(lines.next().unwrap().unwrap(), "info");
        peer.write_all(
            b"ok\nok message-max=100\nmsg t d 7\ncs[y9:a\nmsg t d 1\nx\nmsg t d 8\ncs[y1:a]\n",
        )
        .unwrap();
        // Nothing more, or that the program has ended.
        assert!(!matches!(lines.next(), Some(Ok(_))));
    });
    let host = Host::new();
    let library = "groupcast-bus.mjs";
    let source = root().join("examples/bus/node").join(library);
    host.write(library, fs::read(source).unwrap());
    let program = format!(
        "import {{ Bus }} from './{library}';
         const bus = await Bus.connect('{address}');
         for (let i = 0; i < 3; i++) console.log((await bus.receive()).value);
         process.exit(0);"
    );
    let program = host.write("forged.mjs", program);
    let output = Command::new("node").arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let heard = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        heard, "undefined\nundefined\n[ Sym { name: 'a' } ]\n",
        "{said}"
    );
    bus.join().unwrap();
}

/// The bus would end the connection, and with it all that the program does there.
#[test]
fn a_message_that_is_too_long_is_an_error_of_its_call_in_node() {
    if !is_there("node") {
        return skipped("a_message_that_is_too_long_is_an_error_of_its_call_in_node needs node");
    }
    let host = Host::new();
    let (_h1, address) = daemon(&host, "h1", &[]);
    let library = "groupcast-bus.mjs";
    let source = root().join("examples/bus/node").join(library);
    host.write(library, fs::read(source).unwrap());
    let program = format!(
        "import {{ Bus }} from './{library}';
         const bus = await Bus.connect('{address}');
         await bus.send('t', 'd', Buffer.alloc((64 << 20) + 1)).catch((it) => console.log(it.code));
         await bus.send('t', 'd', 'behind it');
         console.log('goes on');
         await bus.close();"
    );
    let program = host.write("long.mjs", program);
    let output = Command::new("node").arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let heard = String::from_utf8_lossy(&output.stdout);
    assert_eq!(heard, "too-long\ngoes on\n", "{said}");
}

#[test]
fn the_example_in_c_says_what_is_typed_and_shows_what_comes() {
    if !is_there("cc") {
        return skipped("the_example_in_c_says_what_is_typed_and_shows_what_comes needs cc");
    }
    let host = Host::new();
    let (_h1, address) = daemon(&host, "h1", &[]);
    let mut program = Command::new(compiled(&host, "bindings/c/examples/whisper.c"))
        .args([&address, "room", "al"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = program.stdin.take().unwrap();
    typed.write_all(b"hello\nthe \"end\"\n").unwrap();
    drop(typed);
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"al: hello\nal: the \"end\"\n");
}

/// A tag without quotes that is empty or has blanks made another command of the message's bytes.
#[test]
fn bash_quotes_a_tag_that_needs_it_and_reads_quoted_ones() {
    if !is_there("bash") {
        return skipped("bash_quotes_a_tag_that_needs_it_and_reads_quoted_ones needs bash");
    }
    let host = Host::new();
    let (_h1, address) = daemon(&host, "h1", &[]);
    let library = root().join("examples/bus/shell/groupcast-bus.sh");
    let program = format!(
        r#". '{}'
bus_connect {address}
bus_command 'accept * room'
bus_send '' room one
bus_send 'a b' room two
bus_send '"c d"' room three
bus_send 'a\ b' room four
bus_send '"say \"e\""' room five
bus_send tag '' six || echo "$bus_line"
bus_send tag room seven
for number in 1 2 3 4 5 6; do
    bus_receive && echo "$bus_tag|$bus_domain|$bus_data"
done
bus_close
"#,
        library.display()
    );
    let program = host.write("quotes.sh", program);
    let output = Command::new("bash").arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "error domain 9 a level of a domain is empty\n|room|one\na b|room|two\n\
                    c d|room|three\na\\ b|room|four\nsay \"e\"|room|five\ntag|room|seven\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{said}");
}
