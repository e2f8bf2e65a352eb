//! `groupcast bus` at a terminal: a pseudo-terminal, and what a person at it would see.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemon has failed"
)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::host::{Host, Running};

/// How long a change of the screen may take: a loaded machine is no fault.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
const COLUMNS: usize = 60;

/// A terminal's screen, as long as need be, that knows what the tool uses.
#[derive(Default)]
struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    sequence: Option<String>,
    /// Bytes of a character that has not come wholly.
    part: Vec<u8>,
}

impl Screen {
    fn take(&mut self, bytes: &[u8]) {
        self.part.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.part) {
            Ok(_) => self.part.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = self.part.drain(..whole).collect();
        for letter in String::from_utf8(text).unwrap().chars() {
            self.put(letter);
        }
    }

    fn put(&mut self, letter: char) {
        if let Some(mut sequence) = self.sequence.take() {
            sequence.push(letter);
            if letter == '[' || !letter.is_ascii_alphabetic() {
                self.sequence = Some(sequence);
                return;
            }
            match (sequence.trim_start_matches('['), letter) {
                ("K", _) => self.current().truncate(0),
                ("?2004h" | "?2004l", _) => {}
                (columns, 'C') => {
                    self.column += columns[..columns.len() - 1].parse::<usize>().unwrap();
                }
                other => panic!("this terminal does not know {other:?}"),
            }
            return;
        }
        match letter {
            '\u{1b}' => self.sequence = Some(String::new()),
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            letter => {
                assert!(!letter.is_control(), "{letter:?}");
                if self.column == COLUMNS {
                    self.row += 1;
                    self.column = 0;
                }
                let column = self.column;
                let row = self.current();
                row.resize(row.len().max(column + 1), ' ');
                row[column] = letter;
                self.column += 1;
            }
        }
    }

    /// The row of the cursor. The tool clears rows at their beginnings only.
    fn current(&mut self) -> &mut Vec<char> {
        let rows = self.rows.len().max(self.row + 1);
        self.rows.resize(rows, Vec::new());
        &mut self.rows[self.row]
    }

    fn rows(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.iter().collect()).collect()
    }
}

/// A pseudo-terminal: the side of the person, and that of the tool.
pub(crate) fn open_terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: u16::try_from(COLUMNS).unwrap(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).unwrap();
    (ours, theirs)
}

fn stdio(terminal: &OwnedFd) -> Stdio {
    Stdio::from(terminal.try_clone().unwrap())
}

/// How a terminal treats what is typed.
fn modes(terminal: &OwnedFd) -> (LocalModes, InputModes) {
    let modes = tcgetattr(terminal).unwrap();
    (modes.local_modes, modes.input_modes)
}

/// Somebody with `groupcast bus` at a terminal.
struct Person {
    tool: Running,
    ours: File,
    theirs: OwnedFd,
    before: (LocalModes, InputModes),
    screen: Screen,
}

impl Person {
    fn sit_down(host: &Host, server: &str) -> Self {
        let (ours, theirs) = open_terminal();
        let before = modes(&theirs);
        let mut command = host.command(&["bus", "--server", server]);
        command
            .env("TERM", "xterm")
            .stdin(stdio(&theirs))
            .stdout(stdio(&theirs))
            .stderr(stdio(&theirs));
        let tool = Running::of(command.spawn().unwrap(), "the tool");
        let mut person = Self {
            tool,
            ours: ours.into(),
            theirs,
            before,
            screen: Screen::default(),
        };
        let end = Instant::now() + SEEN_WITHIN;
        while !matches!(&person.screen.rows()[..], [greeting, row] if greeting.starts_with("bus 1 ") && row == "> ")
        {
            assert!(Instant::now() < end, "{:#?}", person.screen.rows());
            person.look();
        }
        person
    }

    fn types(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the last rows are these.
    fn sees(&mut self, last: &[&str]) {
        let end = Instant::now() + SEEN_WITHIN;
        loop {
            let rows = self.screen.rows();
            if rows.len() >= last.len() && rows[rows.len() - last.len()..] == *last {
                return;
            }
            assert!(Instant::now() < end, "{rows:#?} instead of {last:#?}");
            self.look();
        }
    }

    /// Takes what has come to the screen, and waits a little for it; whether something had.
    fn look(&mut self) -> bool {
        let wait = Timespec::try_from(Duration::from_millis(50)).unwrap();
        let mut fds = [PollFd::new(&self.ours, PollFlags::IN)];
        if poll(&mut fds, Some(&wait)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let len = self.ours.read(&mut bytes).unwrap();
        self.screen.take(&bytes[..len]);
        true
    }

    /// Waits until the tool ends, which leaves the terminal as it was; its code, and the last row
    /// that is not empty.
    fn leaves(mut self) -> (i32, String) {
        while self.tool.is_running() {
            self.look();
        }
        while self.look() {}
        assert_eq!(modes(&self.theirs), self.before);
        let mut rows = self.screen.rows();
        rows.retain(|row| !row.is_empty());
        (self.tool.wait(), rows.pop().unwrap())
    }
}

fn with_daemon() -> (Host, Running, String) {
    let host = Host::new();
    let bus = format!("unix:{}", host.path("h1.bus"));
    let daemon = host.daemon("h1", &["--insecure", "--bus", &bus]);
    (host, daemon, bus)
}

#[test]
fn deliveries_do_not_tear_the_line_that_is_typed() {
    let (host, _daemon, bus) = with_daemon();
    let mut al = Person::sit_down(&host, &bus);
    let mut bo = Person::sit_down(&host, &bus);
    al.types("accept * room\r");
    al.sees(&["> accept * room", "ok", "> "]);
    al.types("msg t room what I am ty");
    al.sees(&["> msg t room what I am ty"]);
    bo.types("msg t room first\rmsg t room \"two\\nlines\"\r");
    al.sees(&[
        "ok",
        "msg t room raw 5",
        "first",
        "msg t room raw 9",
        "two",
        "lines",
        "> msg t room what I am ty",
    ]);
    // Edited on both sides of the cursor, and sent whole.
    al.types("pang\x17typing\x01\x1b[3~\x1b[3~\x1b[3~msg\x05!\r");
    al.sees(&[
        "> msg t room what I am typing!",
        "msg t room raw 17",
        "what I am typing!",
        "ok",
        "> ",
    ]);
    al.types("\x04");
    bo.types("unfinished");
    bo.sees(&["> unfinished"]);
    bo.types("\x03quit\r");
    for person in [al, bo] {
        assert_eq!(person.leaves(), (0, "closed bye good-bye".into()));
    }
}

#[test]
fn earlier_lines_come_back_and_words_are_completed() {
    let (host, _daemon, bus) = with_daemon();
    let mut al = Person::sit_down(&host, &bus);
    al.types("acc\t");
    al.sees(&["> accept "]);
    al.types("* page1.whiteboard\r");
    al.sees(&["> accept * page1.whiteboard", "ok", "> "]);
    al.types("id al.uiuc\r");
    al.sees(&["> id al.uiuc", "ok", "> "]);
    al.types("ping draw pa\t\r");
    al.sees(&["> ping draw page1.whiteboard ", "ok al.uiuc", "> "]);
    al.types("msg hello al\tto myself\r");
    al.sees(&[
        "> msg hello al.uiuc to myself",
        "msg hello al.uiuc raw 9",
        "to myself",
        "ok",
        "> ",
    ]);
    al.types("loop-back o\t");
    al.sees(&["off  on", "> loop-back o"]);
    al.types("\x1b[A\x1b[A");
    al.sees(&["> ping draw page1.whiteboard "]);
    al.types("\x1b[B\x1b[B");
    al.sees(&["> loop-back o"]);
    al.types("\x15\x1b[A\x1b[A\x1b[A\x1b[A\r");
    al.sees(&["> accept * page1.whiteboard", "ok", "> "]);
    al.types("\x04");
    assert_eq!(al.leaves(), (0, "closed bye good-bye".into()));
}

#[test]
fn what_is_pasted_is_sent_line_by_line_and_a_long_line_has_one_row() {
    let (host, _daemon, bus) = with_daemon();
    let mut al = Person::sit_down(&host, &bus);
    al.types("\x1b[200~accept * d\rmsg t d 3\ra\tb\rhelp quit\r\x1b[201~");
    al.sees(&["msg t d raw 3", "a\\tb", "ok", "ok 1", " quit: leave", "> "]);
    al.types("\x1b[200~loop-back o\x1b[201~\t");
    al.sees(&["off  on", "> loop-back o"]);
    al.types("\x15");
    al.sees(&["> "]);
    let before = al.screen.rows().len();
    al.types(&"0123456789".repeat(20));
    let shown = "0123456789".repeat(6);
    let row = format!("> {}", &shown[shown.len() - (COLUMNS - 3)..]);
    al.sees(&[&row]);
    assert_eq!(al.screen.rows().len(), before);
    al.types("\x01msg t d : \r");
    al.sees(&["ok", "> "]);
    let rows = al.screen.rows().concat();
    assert!(
        rows.contains(&format!("> msg t d : {}", "0123456789".repeat(20))),
        "{rows}"
    );
    al.types("\x03");
    let (code, _) = al.leaves();
    assert_eq!(code, -1, "a signal has ended it");
}

#[test]
fn the_terminal_is_left_as_it_was_whoever_ends_it() {
    let (host, mut daemon, bus) = with_daemon();
    let mut al = Person::sit_down(&host, &bus);
    al.types("unfin");
    al.sees(&["> unfin"]);
    assert_ne!(modes(&al.theirs), al.before);
    al.types("\x1a");
    let stat = format!("/proc/{}/stat", al.tool.child.id());
    let end = Instant::now() + SEEN_WITHIN;
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(Instant::now() < end, "it does not stop");
        al.look();
    }
    assert_eq!(modes(&al.theirs), al.before);
    al.tool.signal("CONT");
    al.types("ished");
    al.sees(&["> unfinished"]);
    al.tool.signal("TERM");
    let (code, _) = al.leaves();
    assert_eq!(code, -1, "a signal has ended it");
    let bo = Person::sit_down(&host, &bus);
    daemon.terminate();
    let (code, last) = bo.leaves();
    assert_eq!(code, 1, "{last}");
}

#[test]
fn without_a_terminal_on_both_sides_nothing_is_edited() {
    let (host, _daemon, bus) = with_daemon();
    let (ours, theirs) = open_terminal();
    let mut command = host.command(&["bus", "--server", &bus]);
    command.env("TERM", "xterm").stdin(stdio(&theirs));
    let tool = command.stdout(Stdio::piped()).spawn().unwrap();
    File::from(ours.try_clone().unwrap())
        .write_all(b"accept * d\nmsg t d tab\there\n\x04")
        .unwrap();
    let output = tool.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (greeting, rest) = said.split_once('\n').unwrap();
    assert!(greeting.starts_with("bus 1 c"), "{said}");
    assert_eq!(
        rest,
        "ok\nmsg t d raw 8\ntab\there\nok\nclosed bye good-bye\n"
    );
}
