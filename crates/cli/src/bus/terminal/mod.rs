//! The bus at a terminal: the user edits a line, with history and completion, while the lines of
//! the bus appear above it.
//!
//! One thread reads the bus; a single loop does the rest, keys, signals and sending, so that
//! everything is shown in the order in which it came. `editor`, `keys` and `seen` know no terminal.
//! docs/adr/0037 says why no library does this.

mod editor;
mod keys;
mod screen;
mod seen;

use std::io::{self, BufRead, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use groupcast_core::text::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};
use rustix::stdio;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::{emulate_default_handler, pipe};

use self::editor::{Did, Editor, PROMPT};
use self::keys::Keys;
use self::screen::Screen;
use self::seen::Seen;
use super::lines::{self, Line};
use super::socket::Socket;
use super::{broken, ended};
use crate::failure::Failure;

/// The most lines of the bus that wait to be shown; each may have a message.
const LINES_WAITING: usize = 4;
/// The most lines of the bus that are shown before keys are read.
const LINES_AT_A_TIME: usize = 256;
/// The most bytes that wait to be sent; beyond, no key is read.
const UNSENT_MAX: usize = 64 << 10;
/// The most candidates that are shown.
const CANDIDATES_MAX: usize = 100;

/// Whether standard input and output are terminals that can move a cursor.
pub(super) fn is_there() -> bool {
    use std::io::IsTerminal as _;
    let moves = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    moves && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Joins the terminal with the bus, until one of them ends.
pub(super) fn talk(socket: Socket) -> Result<ExitCode, Failure> {
    let writer = socket.again()?;
    let (lines, woken) = listen(super::reader(socket)?).map_err(broken)?;
    let signals = Signals::new().map_err(terminal)?;
    let mut talk = Talk {
        screen: Screen::new().map_err(terminal)?,
        editor: Editor::default(),
        keys: Keys::default(),
        seen: Seen::default(),
        writer,
        unsent: Vec::new(),
        has_ended: false,
        lines,
        woken,
        last: Vec::new(),
    };
    let how = talk.run(&signals);
    talk.screen.leave();
    match how {
        How::Ended => ended(&talk.last),
        How::Broken(error) => Err(broken(error)),
        How::Signal(signal) => {
            let _ = emulate_default_handler(signal);
            Ok(ExitCode::FAILURE)
        }
        // The terminal has gone: nothing can be shown.
        How::NoTerminal => Ok(ExitCode::SUCCESS),
    }
}

fn terminal(error: io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}

type Heard = io::Result<Option<Line>>;

/// Starts the thread that reads the bus. Returns the channel of its lines, and a socket that
/// becomes readable when there are some.
fn listen(mut reader: impl BufRead + Send + 'static) -> io::Result<(Receiver<Heard>, UnixStream)> {
    let (sender, receiver) = mpsc::sync_channel(LINES_WAITING);
    let (woken, mut wake) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    std::thread::spawn(move || {
        loop {
            let heard = lines::read(&mut reader);
            let is_last = !matches!(heard, Ok(Some(_)));
            if sender.send(heard).is_err() {
                return;
            }
            // If the socket cannot be written, it is full and wakes the loop all the same.
            let _ = wake.write(&[0]);
            if is_last {
                return;
            }
        }
    });
    Ok((receiver, woken))
}

/// The socket by which a signal wakes the loop, and the signal that ends it.
struct Signals {
    woken: UnixStream,
    to_end: Arc<AtomicUsize>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let to_end = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&to_end), number)?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT] {
            pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self { woken, to_end })
    }
}

/// Why the loop ends.
enum How {
    /// The bus has ended the connection.
    Ended,
    Broken(io::Error),
    Signal(i32),
    NoTerminal,
}

struct Talk {
    screen: Screen,
    editor: Editor,
    keys: Keys,
    seen: Seen,
    writer: Socket,
    /// Bytes that were typed and are not sent yet.
    unsent: Vec<u8>,
    /// Whether the user types nothing more.
    has_ended: bool,
    lines: Receiver<Heard>,
    woken: UnixStream,
    /// The last line of the bus.
    last: Vec<u8>,
}

impl Talk {
    fn run(&mut self, signals: &Signals) -> How {
        let mut more = false;
        loop {
            if !self.has_ended && self.screen.draw(&self.editor).is_err() {
                return How::NoTerminal;
            }
            let (typed, can_send) = match self.wait(signals, more) {
                Ok(ready) => ready,
                Err(error) => return How::Broken(error),
            };
            drain(&signals.woken);
            drain(&self.woken);
            let signal = signals.to_end.load(Ordering::Relaxed);
            if signal != 0 {
                return How::Signal(i32::try_from(signal).unwrap_or(SIGTERM));
            }
            let turn = self.hear().and_then(|waits| {
                more = waits;
                if typed {
                    self.take_keys()?;
                }
                if can_send {
                    self.send();
                }
                Ok(())
            });
            if let Err(how) = turn {
                return how;
            }
        }
    }

    /// Waits until there is something to do; does not wait if there is `more` of the bus. Returns
    /// whether something was typed, and whether something can be sent.
    fn wait(&self, signals: &Signals, more: bool) -> io::Result<(bool, bool)> {
        let takes_keys = !self.has_ended && self.unsent.len() < UNSENT_MAX;
        // A descriptor without flags would report a closed connection and so end the wait.
        let mut fds = vec![
            PollFd::new(&signals.woken, PollFlags::IN),
            PollFd::new(&self.woken, PollFlags::IN),
        ];
        let stdin = stdio::stdin();
        if takes_keys {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        if !self.unsent.is_empty() {
            fds.push(PollFd::new(&self.writer, PollFlags::OUT));
        }
        let now = Timespec::default();
        match poll(&mut fds, more.then_some(&now)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, false)),
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| !fds[index].revents().is_empty();
        let typed = takes_keys && ready(2);
        let can_send = !self.unsent.is_empty() && ready(fds.len() - 1);
        Ok((typed, can_send))
    }

    /// Shows the lines of the bus; returns whether there may be more.
    fn hear(&mut self) -> Result<bool, How> {
        let mut text = Vec::new();
        let mut how = None;
        let mut count = 0;
        while count < LINES_AT_A_TIME {
            let line = match self.lines.try_recv() {
                Ok(Ok(Some(line))) => line,
                Ok(Err(error)) => {
                    how = Some(How::Broken(error));
                    break;
                }
                Err(TryRecvError::Empty) => break,
                Ok(Ok(None)) | Err(TryRecvError::Disconnected) => {
                    how = Some(How::Ended);
                    break;
                }
            };
            count += 1;
            text.extend(line.shown(printable));
            match line {
                Line::Plain(line) => {
                    self.seen.hear(&line);
                    self.last = line;
                }
                Line::Delivery(head, _) => self.seen.hear(&head),
            }
        }
        if !text.is_empty() {
            self.print(&text)?;
        }
        match how {
            Some(how) => Err(how),
            None => Ok(count == LINES_AT_A_TIME),
        }
    }

    fn take_keys(&mut self) -> Result<(), How> {
        let mut bytes = [0; 4096];
        let len = match rustix::io::read(stdio::stdin(), &mut bytes) {
            Ok(len) => len,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(()),
            // The other side of the terminal has gone.
            Err(_) => 0,
        };
        if len == 0 {
            self.end();
        }
        for byte in &bytes[..len] {
            let Some(key) = self.keys.take(*byte) else {
                continue;
            };
            match self.editor.press(key) {
                Did::Edited => {}
                Did::Line(line) => self.enter(&line)?,
                Did::Complete => self.complete()?,
                Did::Clear => self.screen.clear().map_err(|_| How::NoTerminal)?,
                Did::Interrupt => return Err(How::Signal(SIGINT)),
                Did::End => {
                    self.end();
                    self.print(b"")?;
                    break;
                }
                Did::Suspend => {
                    self.screen.leave();
                    let _ = emulate_default_handler(SIGTSTP);
                    self.screen.enter().map_err(|_| How::NoTerminal)?;
                }
            }
        }
        Ok(())
    }

    /// Sends a line that was typed.
    fn enter(&mut self, line: &str) -> Result<(), How> {
        self.print(format!("{PROMPT}{}\n", printable(line.as_bytes())).as_bytes())?;
        self.seen.say(line);
        self.unsent.extend_from_slice(line.as_bytes());
        self.unsent.push(b'\n');
        self.send();
        Ok(())
    }

    /// Completes the word at the cursor, or shows how it may go on.
    fn complete(&mut self) -> Result<(), How> {
        let found = self.seen.complete(&self.editor.before_cursor());
        self.editor.insert_text(&found.more);
        if !found.more.is_empty() || found.candidates.is_empty() {
            return Ok(());
        }
        let shown = &found.candidates[..found.candidates.len().min(CANDIDATES_MAX)];
        let mut text = shown.join("  ");
        if found.candidates.len() > shown.len() {
            text.push_str("  …");
        }
        text.push('\n');
        self.print(text.as_bytes())
    }

    /// The user types nothing more: sends what was typed, and tells the bus.
    fn end(&mut self) {
        self.has_ended = true;
        self.send();
    }

    /// Sends as much as it can without waiting. If the connection has ended, the reading thread
    /// finds out.
    fn send(&mut self) {
        while !self.unsent.is_empty() {
            match send(
                &self.writer,
                &self.unsent,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => self.unsent.clear(),
            }
        }
        if self.has_ended {
            self.writer.end();
        }
    }

    fn print(&self, text: &[u8]) -> Result<(), How> {
        self.screen.print(text).map_err(|_| How::NoTerminal)
    }
}

/// Empties the socket that woke the loop.
fn drain(mut woken: &UnixStream) {
    let mut bytes = [0; 64];
    loop {
        match woken.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
