//! The message bus: lines of text in, a client's requests out, and back (000 chs. 3, 6, 7).
//!
//! A [`Bus`] is the client of a daemon that a program speaks to in lines: it stands between the
//! program's socket and the daemon's engine, and speaks the client protocol to the engine as every
//! client does. So order, credit, limits, access rules and the policy for the slow are those of
//! every client. `docs/bus.md` has the protocol to the byte.
//!
//! Sans-IO: no socket, no clock. Text of the program goes into [`Bus::take_text`] while
//! [`Bus::wants_text`], its end into [`Bus::end_text`]; bytes of the daemon go into
//! [`Bus::take_frames`]. After each of them, [`Bus::frames`] are for the daemon and [`Bus::text`]
//! is for the program. While [`Bus::is_paused`], [`Bus::resume`] goes on, when the caller has time.
//!
//! # Bounds
//! Text is not wanted while [`PENDING_MAX`] commands wait for their replies, while a message waits
//! for credit, while as much as [`TEXT_MAX`] waits to be taken by the program, or [`FRAMES_MAX`] by
//! the daemon. So a `Bus` holds what its caller reads at a time, one message that is coming in, and
//! these; and one message of the daemon with its text.

mod answer;
mod command;
mod delivery;
mod help;
mod input;
mod perform;
mod script;
mod settings;
pub mod trace;
mod words;

use std::collections::{BTreeMap, VecDeque};

use self::answer::Pending;
use self::input::{Fault, Input};
use self::settings::Settings;
use self::trace::{Told, Tracer, Tracing};
use crate::client::{ClientEvent, Connection};
use crate::frame::{AccessToken, BusRequest, ClientKind, FrameError};
use crate::groups::InputAhead;

pub use self::help::USAGES;
pub use self::script::{Script, ScriptError};
pub use self::words::write_word;

/// The version of the protocol that the greeting names.
pub const VERSION: u32 = 1;
/// The most bytes of a command's line.
pub const LINE_MAX: usize = 64 << 10;
/// Commands that may wait for their replies.
pub const PENDING_MAX: usize = 256;
/// Text that waits for the program: beyond it nothing more is taken of either side.
pub const TEXT_MAX: usize = 256 << 10;
/// Bytes that wait for the daemon: beyond them no more text is taken.
pub const FRAMES_MAX: usize = 256 << 10;
/// Messages that the daemon may send before they are turned into text.
const WINDOW: u64 = 1 << 20;
/// The token of the bus's own request, which puts the client on the bus.
const NAMING: u64 = 0;

/// A connection of the bus.
#[derive(Debug)]
pub struct Bus {
    connection: Connection,
    input: Input,
    /// Commands whose replies have not been given.
    pending: VecDeque<Pending>,
    /// Replies of the daemon to requests, by token, that wait for those before them.
    replies: BTreeMap<u64, Vec<u8>>,
    /// Messages that were rejected, by number, with the reply.
    rejected: BTreeMap<u64, Vec<u8>>,
    /// All messages up to this number are accepted, but for those that were rejected.
    accepted: u64,
    /// The token of the last request.
    token: u64,
    /// Whether the daemon has answered that it is on the bus.
    named: bool,
    /// Text for the program.
    out: Vec<u8>,
    /// How much of it was taken.
    taken: usize,
    settings: Settings,
    phase: Phase,
    /// Why the program's text cannot be understood any more.
    fault: Option<Fault>,
    tracer: Option<Box<dyn Tracer>>,
    tracing: Option<Tracing>,
    /// A trace was asked for: nothing more is carried out before [`resume`](Self::resume).
    paused: bool,
    /// How many traces were asked for that [`take_begins`](Self::take_begins) has not told of.
    begins: usize,
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The daemon has not welcomed it.
    Greeting,
    Open,
    /// It takes no more commands; what it asked for is carried out.
    Leaving,
    /// It has said its last line.
    Closed,
}

impl Bus {
    /// A connection to the daemon whose TCP clients have `token`, if it asks for one: the operator
    /// who opens the bus vouches for who comes.
    pub fn new(token: Option<AccessToken>) -> Self {
        Self {
            connection: Connection::with_token(None, ClientKind::Application, WINDOW, token),
            input: Input::default(),
            pending: VecDeque::new(),
            replies: BTreeMap::new(),
            rejected: BTreeMap::new(),
            accepted: 0,
            token: NAMING,
            named: false,
            out: Vec::new(),
            taken: 0,
            settings: Settings::default(),
            phase: Phase::Greeting,
            fault: None,
            tracer: None,
            tracing: None,
            paused: false,
            begins: 0,
        }
    }

    /// Whether more of the program's text is taken now.
    pub fn wants_text(&self) -> bool {
        self.phase == Phase::Open
            && !self.input.is_ended()
            && !self.is_stalled()
            && !self.input.waits_for_credit()
    }

    /// What waits here of the program's text, and of frames that it became. A message has to come
    /// in time only once more than [`LINE_MAX`] bytes of it are here: people type slowly.
    pub fn input_ahead(&self) -> InputAhead {
        let left = self.input.left();
        let unfinished = self.wants_text() && left > LINE_MAX;
        InputAhead {
            bytes: left + self.connection.outgoing(),
            unfinished: unfinished.then(|| self.input.items()),
            is_silent: !self.input.has_line(),
        }
    }

    /// The program wrote `bytes`. They are kept however many they are; what
    /// [`wants_text`](Self::wants_text) says bounds them.
    pub fn take_text(&mut self, bytes: &[u8]) {
        self.input.push(bytes);
        self.carry_on();
    }

    /// The program writes no more: what it sent is carried out, then it leaves.
    pub fn end_text(&mut self) {
        self.input.end();
        self.carry_on();
    }

    /// Whether bytes of the daemon are taken now.
    pub fn wants_frames(&self) -> bool {
        self.out.len() - self.taken <= TEXT_MAX
    }

    /// The daemon sent `bytes`.
    ///
    /// # Errors
    /// They make no sense: a bug of the daemon. The connection is of no use any more.
    pub fn take_frames(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.connection.handle_bytes(bytes)?;
        self.greet();
        while let Some(event) = self.connection.poll_event() {
            self.handle_event(event);
        }
        self.carry_on();
        Ok(())
    }

    /// Bytes for the daemon.
    pub fn frames(&mut self) -> &[u8] {
        self.connection.poll_transmit().unwrap_or_default()
    }

    /// Whether there are any.
    pub fn has_frames(&self) -> bool {
        self.connection.outgoing() > 0
    }

    /// The daemon took `len` of them.
    pub fn frames_taken(&mut self, len: usize) {
        self.connection.handle_transmitted(len);
        self.carry_on();
    }

    /// Text for the program.
    pub fn text(&self) -> &[u8] {
        &self.out[self.taken..]
    }

    /// The program took `len` bytes of it.
    pub fn text_taken(&mut self, len: usize) {
        self.taken += len;
        if self.taken == self.out.len() {
            self.taken = 0;
            self.out.clear();
            // A long message is no reason to keep its memory.
            self.out.shrink_to(TEXT_MAX);
        }
        self.carry_on();
    }

    /// Whether commands wait for [`resume`](Self::resume): a trace was asked for, which opens
    /// files.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Carries out what waits, up to the next trace at most. The caller says when: traces take
    /// longer than other commands, and a block of text has hundreds of them.
    pub fn resume(&mut self) {
        self.paused = false;
        self.carry_on();
    }

    /// How many traces were asked for since the last call.
    pub fn take_begins(&mut self) -> usize {
        std::mem::take(&mut self.begins)
    }

    /// Whether something has to be done, or taken away, before the next command is carried out.
    fn is_stalled(&self) -> bool {
        // What changes deliveries does so between those of the messages before and after it.
        let changes = matches!(
            self.pending.back(),
            Some(
                Pending::Toggle(..)
                    | Pending::Syntax(_)
                    | Pending::Trace { .. }
                    | Pending::Identify { .. }
                    | Pending::Clients
            )
        );
        changes
            || self.paused
            || self.pending.len() >= PENDING_MAX
            || self.out.len() - self.taken > TEXT_MAX
            || self.connection.outgoing() > FRAMES_MAX
    }

    /// The daemon has welcomed or refused this client.
    fn greet(&mut self) {
        if self.phase != Phase::Greeting {
            return;
        }
        if let Some(welcome) = self.connection.welcome() {
            self.input.set_message_max(welcome.message_max);
            let name = welcome.private_name.clone();
            self.phase = Phase::Open;
            self.say(&[&format!("bus {VERSION}"), &quoted(&name)]);
            // From now on the others see it on the bus.
            let identify = BusRequest::Identify { id: String::new() };
            let _ = self.connection.ask_bus(NAMING, identify);
        } else if let Some((_, text)) = self.connection.refusal() {
            let text = text.to_owned();
            self.close("refused", &text);
        }
    }

    /// Carries out what the program has asked for, as far as may be now.
    fn carry_on(&mut self) {
        while self.phase == Phase::Open && !self.is_stalled() {
            if self.input.waits_for_credit() && !self.connection.has_credit() {
                break;
            }
            match self.input.next() {
                Ok(Some(item)) => self.carry_out(item),
                Ok(None) => break,
                // What was said before is carried out and answered first.
                Err(fault) => {
                    self.fault = Some(fault);
                    self.leave();
                }
            }
        }
        self.answer();
        let asks_more = matches!(self.pending.back(), Some(Pending::Clients));
        if self.phase == Phase::Open && self.input.is_over() && !asks_more {
            self.leave();
        }
    }

    fn handle_event(&mut self, event: ClientEvent) {
        if self.phase == Phase::Closed {
            return;
        }
        match event {
            ClientEvent::Message(message) => {
                let own = self.connection.welcome().map(|it| &*it.private_name);
                if self.settings.loop_back || own != Some(&*message.sender) {
                    let at = self.out.len();
                    delivery::write(&mut self.out, &message, &self.settings);
                    self.note_got(Told::Unasked(&message.sender), at);
                }
            }
            ClientEvent::View(view) if self.settings.views => {
                let at = self.out.len();
                delivery::write_view(&mut self.out, &view);
                self.note_got(
                    Told::Unasked(view.changed.as_deref().unwrap_or_default()),
                    at,
                );
            }
            ClientEvent::Gap {
                group,
                sender,
                first,
                last,
            } => {
                let at = self.out.len();
                delivery::write_gap(&mut self.out, &group, &sender, first, last);
                self.note_got(Told::OfItself, at);
            }
            ClientEvent::Accepted { up_to } => self.accepted = up_to,
            ClientEvent::Disconnected { code, text } => {
                self.answer();
                self.flush_pending();
                match self.fault {
                    Some(fault) => self.close(fault.code(), &fault.text()),
                    None => self.close(answer::end_word(code), &text),
                }
            }
            event => self.note(event),
        }
        // A reply comes before what follows it in the order.
        self.answer();
    }

    /// What was sent is carried out, then the connection ends.
    fn leave(&mut self) {
        self.phase = Phase::Leaving;
        if self.connection.bye().is_err() {
            self.close("other", "the connection to the daemon has ended");
        }
    }

    /// Says the last line.
    fn close(&mut self, code: &str, text: &str) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.input.clear();
        self.say(&["closed", code, &one_line(text)]);
    }

    /// Says a line that nobody asked for.
    fn say(&mut self, words: &[&str]) {
        let at = self.out.len();
        self.out.extend_from_slice(words.join(" ").as_bytes());
        self.out.push(b'\n');
        self.note_got(Told::OfItself, at);
    }
}

/// A word as it is written in a line.
fn quoted(word: &str) -> String {
    let mut text = String::new();
    write_word(&mut text, word, false);
    text
}

/// A text for people in one line.
fn one_line(text: &str) -> String {
    groupcast_core::text::printable(text.as_bytes())
}

#[cfg(test)]
mod tests;
