//! A client's side of one connection to a daemon, without any I/O.
//!
//! A [`Connection`] is a plain value: bytes of the daemon go in, bytes for the daemon and events
//! come out. It owns no socket, thread or clock, so a blocking client, an asynchronous one, one in
//! another language and a simulated one can share it. It keeps the credit of both directions,
//! numbers the messages, and knows which of them are accepted.
//!
//! After [`new`](Connection::new) the hello waits to be sent. From then on, after each input or
//! command:
//!
//! 1. send the bytes of [`poll_transmit`](Connection::poll_transmit), and tell
//!    [`handle_transmitted`](Connection::handle_transmitted) how many of them the stream took.
//!    Messages may be gathered for as long as [`is_urgent`](Connection::is_urgent) is false;
//! 2. take events from [`poll_event`](Connection::poll_event), and answers from
//!    [`poll_answer`](Connection::poll_answer).
//!
//! When a connection has ended, [`restart`](Connection::restart) begins it anew over another
//! stream.
//!
//! A connection knows no time: the caller decides how long to wait for the daemon.
//!
//! # Credit
//! Both directions have a window of bytes, as [`frame`](crate::frame) says. Without credit
//! [`publish`](Connection::publish) fails with [`RequestError::NoCredit`], until the daemon gives
//! credit back. The daemon's credit is given back as events are taken, a quarter of the window at a
//! time. So the events that wait in memory are bounded by the window and one frame.

mod error;
mod event;
mod guests;
mod inbox;
mod outgoing;
mod publications;
mod requests;

use std::collections::{BTreeMap, VecDeque};

pub use self::error::RequestError;
pub use self::event::{Answer, ClientEvent};
use self::guests::GuestSide;
pub use self::guests::{Ask, Asked};
use self::inbox::Inbox;
use self::outgoing::Outgoing;
use self::publications::Publications;
use crate::frame::{
    AccessToken, BEHIND, ClientFrame, ClientKind, DaemonFrame, Disconnect, FEATURES, FRAME_MAX,
    FrameDecoder, FrameError, Hello, RINGS_MADE, RawFrame, Refusal, Request, SPILL, VERSION,
    Welcome, credit_cost,
};
use crate::when_slow::WhenSlow;

/// A connection to a daemon, from its hello to its end.
#[derive(Debug)]
pub struct Connection {
    name: Option<String>,
    kind: ClientKind,
    delivery_window: u64,
    token: Option<AccessToken>,
    /// Groups that this client asked to be in.
    groups: BTreeMap<String, Joined>,
    decoder: FrameDecoder,
    when_slow: WhenSlow,
    outgoing: Outgoing,
    /// The daemon's answer to the hello.
    welcome: Option<Welcome>,
    refusal: Option<(Refusal, String)>,
    publications: Publications,
    guest: GuestSide,
    inbox: Inbox,
    answers: VecDeque<Answer>,
    end: Option<(Disconnect, String)>,
    /// Whether the end was reported as an event.
    end_reported: bool,
}

/// The options of a join.
#[derive(Clone, Copy, Debug)]
struct Joined {
    /// The group does not deliver the client's own messages to it.
    discard_own: bool,
    /// The join asks for a ring of its own for the group.
    ring: bool,
}

impl Joined {
    fn frame(self, group: &str) -> ClientFrame {
        ClientFrame::Join {
            group: group.into(),
            discard_own: self.discard_own,
            ring: self.ring,
        }
    }
}

impl Connection {
    /// A connection whose hello waits to be sent. Without a `name` the daemon makes one.
    /// `delivery_window` bounds the bytes of messages and views that may wait here unread.
    pub fn new(name: Option<String>, kind: ClientKind, delivery_window: u64) -> Self {
        Self::with_token(name, kind, delivery_window, None)
    }

    /// The same with the token that the daemon asks for, if it asks for one.
    pub fn with_token(
        name: Option<String>,
        kind: ClientKind,
        delivery_window: u64,
        token: Option<AccessToken>,
    ) -> Self {
        let mut connection = Self {
            name,
            kind,
            delivery_window,
            token,
            groups: BTreeMap::new(),
            when_slow: WhenSlow::default(),
            decoder: FrameDecoder::new(FRAME_MAX),
            outgoing: Outgoing::new(),
            welcome: None,
            refusal: None,
            publications: Publications::default(),
            guest: GuestSide::default(),
            inbox: Inbox::new(delivery_window),
            answers: VecDeque::new(),
            end: None,
            end_reported: false,
        };
        connection.say_hello();
        connection
    }

    /// Begins anew over another stream: the hello waits to be sent. After the welcome the client
    /// asks to join its groups again, answers their requests again if it did, and repeats its
    /// requests that have not ended. Messages are numbered from 1 again; the fate of those that
    /// were not accepted is unknown. Waiting events stay, and cost no credit any more.
    pub fn restart(&mut self) {
        self.decoder = FrameDecoder::new(FRAME_MAX);
        self.outgoing = Outgoing::new();
        self.welcome = None;
        self.refusal = None;
        self.publications = Publications::default();
        self.guest.restart();
        self.inbox.forget_credit();
        self.answers.clear();
        self.end = None;
        self.end_reported = false;
        self.say_hello();
    }

    /// The buffer for the next bytes of the stream; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.decoder.space()
    }

    /// The stream gave `len` bytes into [`space`](Self::space).
    ///
    /// # Errors
    /// If the daemon broke the protocol. The connection is of no use any more.
    ///
    /// # Panics
    /// If `len` is more than there was room for.
    pub fn handle_received(&mut self, len: usize) -> Result<(), FrameError> {
        self.decoder.filled(len);
        while let Some(raw) = self.decoder.next_frame()? {
            self.handle_frame(raw)?;
        }
        Ok(())
    }

    /// The same for bytes that are in memory already.
    ///
    /// # Errors
    /// Those of [`handle_received`](Self::handle_received).
    pub fn handle_bytes(&mut self, mut bytes: &[u8]) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            let space = self.space();
            let len = space.len().min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            self.handle_received(len)?;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// The stream took `len` of the bytes that [`poll_transmit`](Self::poll_transmit) gave.
    ///
    /// # Panics
    /// If it gave fewer than `len`.
    pub fn handle_transmitted(&mut self, len: usize) {
        self.outgoing.transmitted(len);
    }

    /// The stream has ended, for the reason `text`. A reason that the daemon gave before takes
    /// precedence.
    pub fn handle_closed(&mut self, text: &str) {
        self.ended(Disconnect::Other, text);
    }

    /// Gives credit back for all events that were taken, even if it is little.
    pub fn give_credit(&mut self) {
        if let Some(bytes) = self.inbox.take_consumed() {
            self.outgoing.put(&ClientFrame::Credit { bytes });
        }
    }

    /// Drops the waiting events, and gives their credit back.
    pub fn discard_events(&mut self) {
        self.inbox.discard();
        self.give_credit();
    }

    /// The next bytes for the daemon, if there are any.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        let rest = self.outgoing.rest();
        (!rest.is_empty()).then_some(rest)
    }

    /// The next event. Acceptance is reported when no other event waits, and the end of the
    /// connection last.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        if let Some(event) = self.inbox.take() {
            if self.inbox.is_credit_due() {
                self.give_credit();
            }
            return Some(event);
        }
        if let Some(up_to) = self.publications.take_accepted() {
            return Some(ClientEvent::Accepted { up_to });
        }
        let (code, text) = self.end.clone()?;
        if std::mem::replace(&mut self.end_reported, true) {
            return None;
        }
        Some(ClientEvent::Disconnected { code, text })
    }

    /// The next answer to a question.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Whether a frame waits to be sent that should go at once: any frame but messages.
    pub fn is_urgent(&self) -> bool {
        self.outgoing.is_urgent()
    }

    /// Bytes that wait to be sent.
    pub fn outgoing(&self) -> usize {
        self.outgoing.rest().len()
    }

    /// The daemon's welcome, once it has come.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// Why the daemon refused this client, if it did.
    pub fn refusal(&self) -> Option<(Refusal, &str)> {
        let refusal = self.refusal.as_ref();
        refusal.map(|(code, text)| (*code, text.as_str()))
    }

    /// Why the connection has ended, if it has.
    pub fn end(&self) -> Option<(Disconnect, &str)> {
        self.end.as_ref().map(|(code, text)| (*code, text.as_str()))
    }

    /// Whether a message may be published now, whatever its length.
    pub fn has_credit(&self) -> bool {
        let window = self.welcome.as_ref().map(|welcome| welcome.publish_window);
        window.is_some_and(|window| self.publications.has_credit(window))
    }

    /// The number up to which messages are accepted, except rejected ones.
    pub fn accepted(&self) -> u64 {
        self.publications.accepted()
    }

    /// How many messages were published and neither accepted nor rejected.
    pub fn undecided(&self) -> u64 {
        self.publications.undecided()
    }

    /// The number of the last message that was published; 0 before the first.
    pub fn published(&self) -> u64 {
        self.publications.last()
    }

    /// The credit cost of the waiting events.
    pub fn unread(&self) -> u64 {
        self.inbox.unread()
    }

    /// Whether the waiting events fill the window: the daemon sends no more until some are taken.
    pub fn is_full(&self) -> bool {
        self.inbox.is_full()
    }

    fn say_hello(&mut self) {
        self.outgoing.put(&ClientFrame::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            features: FEATURES,
            kind: self.kind,
            delivery_window: self.delivery_window,
            name: self.name.clone(),
            token: self.token.clone(),
        }));
    }

    fn request(&mut self, frame: &ClientFrame) -> Result<(), RequestError> {
        self.check_end()?;
        if self.welcome.is_none() {
            return Err(RequestError::NotWelcome);
        }
        self.outgoing.put(frame);
        Ok(())
    }

    fn check_end(&self) -> Result<(), RequestError> {
        match &self.end {
            Some((code, text)) => Err(RequestError::Ended {
                code: *code,
                text: text.clone(),
            }),
            None => Ok(()),
        }
    }

    fn handle_frame(&mut self, raw: RawFrame) -> Result<(), FrameError> {
        let cost = credit_cost(raw.stream_len()) as u64;
        let Some(frame) = DaemonFrame::decode(raw)? else {
            return Ok(());
        };
        if self.welcome.is_none() {
            self.handle_greeting(frame);
            return Ok(());
        }
        match frame {
            DaemonFrame::Message(message) => {
                self.inbox.put(ClientEvent::Message(message), cost);
            }
            DaemonFrame::View(view) => self.inbox.put(ClientEvent::View(view), cost),
            DaemonFrame::Done { token, result } => {
                self.inbox.put(ClientEvent::Done { token, result }, cost);
            }
            DaemonFrame::WhoReport { token, ids } => {
                self.inbox.put(ClientEvent::Who { token, ids }, cost);
            }
            DaemonFrame::BusClientsReport { token, clients } => {
                self.inbox
                    .put(ClientEvent::BusClients { token, clients }, cost);
            }
            DaemonFrame::Guest(reply, payload) => {
                let event = self.take_guest(reply, payload);
                self.inbox.put(event, cost);
            }
            DaemonFrame::Gap {
                group,
                sender,
                first,
                last,
            } => {
                let gap = ClientEvent::Gap {
                    group,
                    sender,
                    first,
                    last,
                };
                self.inbox.put(gap, cost);
            }
            DaemonFrame::Carried { group, ring } => {
                let ring = Some(ring).filter(|ring| !ring.is_empty());
                self.inbox.put(ClientEvent::Carried { group, ring }, cost);
            }
            DaemonFrame::Behind {
                waiting,
                limit,
                dropped,
            } => {
                let event = ClientEvent::Behind {
                    waiting,
                    limit,
                    dropped,
                };
                self.inbox.put(event, 0);
            }
            DaemonFrame::Rejected {
                request,
                code,
                text,
            } => {
                self.publications.handle_rejected(&request);
                if let Request::Join(group) = &request {
                    self.groups.remove(group);
                    self.guest.left(group);
                }
                let event = ClientEvent::Rejected {
                    request,
                    code,
                    text,
                };
                self.inbox.put(event, 0);
            }
            DaemonFrame::Accepted { up_to } => self.publications.handle_accepted(up_to),
            DaemonFrame::Credit { bytes } => {
                self.publications.handle_credit(bytes);
                self.repeat();
            }
            DaemonFrame::StatusReport(json) => self.answers.push_back(Answer::Status(json)),
            DaemonFrame::GroupsReport(json) => self.answers.push_back(Answer::Groups(json)),
            DaemonFrame::RekeyReport(json) => self.answers.push_back(Answer::Rekey(json)),
            DaemonFrame::Pong { token } => self.answers.push_back(Answer::Pong(token)),
            DaemonFrame::Disconnected { code, text } => self.ended(code, &text),
            DaemonFrame::Refused { text, .. } => self.ended(Disconnect::Other, &text),
            // A second welcome, or a frame of a newer daemon.
            _ => {}
        }
        Ok(())
    }

    /// Handles a frame before the welcome: only the answer to the hello counts.
    fn handle_greeting(&mut self, frame: DaemonFrame) {
        match frame {
            DaemonFrame::Welcome(welcome) => {
                let warns = welcome.features & BEHIND != 0;
                let spills = welcome.features & SPILL != 0;
                let makes_rings = welcome.features & RINGS_MADE != 0;
                self.welcome = Some(welcome);
                let possible = spills || self.when_slow != WhenSlow::Spill;
                if warns && possible && self.when_slow != WhenSlow::default() {
                    self.outgoing.put(&ClientFrame::WhenSlow(self.when_slow));
                }
                for (group, joined) in &self.groups {
                    let ring = joined.ring && makes_rings;
                    let joined = Joined { ring, ..*joined };
                    self.outgoing.put(&joined.frame(group));
                }
                self.answer_again();
            }
            DaemonFrame::Refused { code, text } => {
                self.refusal.get_or_insert((code, text));
            }
            _ => {}
        }
    }

    /// The connection has ended; the first reason counts.
    fn ended(&mut self, code: Disconnect, text: &str) {
        self.end.get_or_insert_with(|| (code, text.into()));
    }
}

#[cfg(test)]
mod tests;
