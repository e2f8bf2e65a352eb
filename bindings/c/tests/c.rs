//! The library as programs in C and C++ use it: installed by its Makefile, found by pkg-config,
//! compiled with all warnings as errors, and run, under valgrind where there is one.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot run its compiler has failed"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"];

/// Whether all `programs` are there; tells the summary of a run if a test has to do without.
fn has(test: &str, programs: &[&str]) -> bool {
    let is_absent = |program: &&&str| {
        let found = Command::new(**program).arg("--version").output();
        found.is_err()
    };
    let absent = programs.iter().find(is_absent);
    if let Some(program) = absent {
        // What `print` writes is seen of tests that fail only.
        let _ = writeln!(std::io::stdout(), "\nskipped: {test} needs {program}");
    }
    absent.is_none()
}

const TOOLS: [&str; 3] = ["make", "pkg-config", "cc"];

/// Where the library is installed, and the programs are written to.
struct Installed {
    directory: PathBuf,
}

impl Installed {
    fn new(name: &str) -> Self {
        let name = format!("groupcast-c-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let installed = Self { directory };
        // The library lies beside this test.
        let built = std::env::current_exe().unwrap();
        let mut make = Command::new("make");
        make.args(["-s", "-C", env!("CARGO_MANIFEST_DIR"), "install"])
            .arg(format!("PREFIX={}", installed.directory.display()))
            .arg(format!("BUILT={}", built.parent().unwrap().display()));
        succeeds(make);
        installed
    }

    /// Compiles a program.
    fn compile(&self, compiler: &[&str], source: &str, linked_statically: bool) -> PathBuf {
        let (compiler, options) = compiler.split_first().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self
            .directory
            .join(source.replace('/', "-") + &options[0][1..]);
        let mut command = Command::new(compiler);
        command.args(options).args(WARNINGS).arg("-o").arg(&program);
        command.arg(root.join(source));
        let library = self.directory.join("lib");
        let flags = |which: &[&str]| {
            let mut config = Command::new("pkg-config");
            config.args(which).arg("groupcast_bus");
            config.env("PKG_CONFIG_PATH", library.join("pkgconfig"));
            let flags = succeeds(config);
            flags
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        command.args(["-x", "none"]);
        if linked_statically {
            command.args(flags(&["--cflags"]));
            command.arg(library.join("libgroupcast_bus.a"));
            let libraries = flags(&["--static", "--libs-only-l"]);
            let others = libraries.iter().filter(|it| *it != "-lgroupcast_bus");
            command.args(others);
        } else {
            command.args(flags(&["--cflags", "--libs"]));
            command.arg(format!("-Wl,-rpath,{}", library.display()));
        }
        succeeds(command);
        program
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Runs a command to its end; what it printed.
fn succeeds(mut command: Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The program, watched by valgrind where there is one.
fn watched(program: &Path) -> Command {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Command::new(program);
    }
    let mut command = Command::new("valgrind");
    command
        .args(["-q", "--error-exitcode=99", "--leak-check=full"])
        .args(["--errors-for-leak-kinds=definite,indirect"])
        .arg(program);
    command
}

const C11: &[&str] = &["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-x", "c"];
const CPP17: &[&str] = &["c++", "-std=c++17", "-x", "c++"];

#[test]
fn lists_are_read_walked_and_written_in_c() {
    if !has("lists_are_read_walked_and_written_in_c", &TOOLS) {
        return;
    }
    let installed = Installed::new("lists");
    installed.compile(C11, "examples/whisper.c", false);
    for linked_statically in [false, true] {
        let program = installed.compile(C11, "tests/lists.c", linked_statically);
        assert_eq!(succeeds(watched(&program)), "lists: ok\n");
    }
}

#[test]
fn lists_are_read_walked_and_written_in_cpp() {
    let tools = [&TOOLS[..], &["c++"]].concat();
    if !has("lists_are_read_walked_and_written_in_cpp", &tools) {
        return;
    }
    let installed = Installed::new("lists-cpp");
    let program = installed.compile(CPP17, "tests/lists.c", false);
    assert_eq!(succeeds(watched(&program)), "lists: ok\n");
}

#[test]
fn a_connection_does_what_it_says_and_comes_again() {
    if !has("a_connection_does_what_it_says_and_comes_again", &TOOLS) {
        return;
    }
    let installed = Installed::new("connection");
    let program = installed.compile(C11, "tests/connection.c", false);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let bus = std::thread::spawn(move || play(&listener));
    let mut command = watched(&program);
    command.arg(&address);
    assert_eq!(succeeds(command), "connection: ok\n");
    bus.join().unwrap();
}

/// Somebody at the bus that is played.
struct Peer {
    socket: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Peer {
    fn of(listener: &TcpListener, greeting: &str) -> Self {
        let (socket, _) = listener.accept().unwrap();
        let reader = BufReader::new(socket.try_clone().unwrap());
        let mut peer = Self { socket, reader };
        peer.say(greeting);
        peer
    }

    fn say(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// Hears a line, and answers.
    fn answer(&mut self, expected: &str, reply: &str) {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{expected}\n"));
        self.say(reply);
    }
}

/// What the bus says to `connection.c`.
fn play(listener: &TcpListener) {
    drop(Peer::of(listener, "220 mail ready\n"));
    let mut peer = Peer::of(listener, "bus 1 c1@h1\n");
    peer.answer("accept \"*\" \"room\"", "ok\n");
    peer.answer("accept \"(\" \"room\"", "error pattern 8 no end\n");
    peer.answer("accept \"x\" \"other\"", "ok\n");
    peer.answer("reject \"x\" \"other\"", "ok\n");
    peer.answer("accept \"*\" \"wb.uiuc\" ring", "ok\n");
    peer.answer("id \"me \\\"too\\\"\"", "ok\n");
    peer.answer("views on", "view room regular join c2@h1 c2@h1\nok\n");
    peer.answer("clients", "ok 2\n c1@h1 me\n c2@h1 \"\" room\n");
    peer.answer("ping \"x\" \"room\"", "ok c2@h1\n");
    peer.answer("msg \"t\" \"a\",\"b,c\",\"d e\" raw 3", "");
    let mut message = [0; 4];
    peer.reader.read_exact(&mut message).unwrap();
    assert_eq!(&message, b"x\ny\n");
    peer.say("ok\n");
    let mut line = String::new();
    peer.reader.read_line(&mut line).unwrap();
    assert_eq!(line, "info\n");
    // Its answer comes after the client has given up.
    peer.answer("service safe", "ok name=c1@h1\nok\n");
    std::thread::sleep(std::time::Duration::from_millis(1000));
    peer.say("msg \"draw it\" room from=c2@h1 raw 4\na\0");
    peer.say("\nb\nmsg t room 9\n(a . (b))\n");
    peer.say("closed stopping the daemon stops\n");
    drop(peer);
    // It is there again at the second attempt, in the middle of a word.
    drop(Peer::of(listener, "bus 1 c"));
    let mut peer = Peer::of(listener, "bus 1 c7@h1\n");
    peer.answer("service safe", "ok\n");
    peer.answer("views on", "ok\n");
    peer.answer("id \"me \\\"too\\\"\"", "ok\n");
    peer.answer("accept \"*\" \"room\"", "ok\n");
    peer.answer("accept \"*\" \"wb.uiuc\" ring", "ok\n");
    peer.answer("msg \"t\" \"room\" sexp 9", "");
    peer.answer("(a . (b))", "ok\n");
    peer.answer("quit", "ok\nclosed bye good-bye\n");
}

#[test]
fn the_header_has_every_function_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |text: &str, before: &str| {
        let mut names: Vec<String> = text
            .split(before)
            .skip(1)
            .map(|rest| rest.split('(').next().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let header = fs::read_to_string(root.join("include/groupcast_bus.h")).unwrap();
    let sources = ["bus", "list", "message"]
        .map(|name| fs::read_to_string(root.join(format!("src/api_{name}.rs"))).unwrap());
    let exported = names(&sources.concat(), "pub extern \"C\" fn ");
    assert_eq!(names(&header, "\ngcb_code "), exported);
    assert!(exported.len() > 40);
}
