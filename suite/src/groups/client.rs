//! A client of the simulation: a connection behind two pipes, and the story of what it saw.

use std::collections::{BTreeMap, VecDeque};

use groupcast_core::id::fnv1a;
use groupcast_core::{MemberId, Service};
use groupcast_session::client::{ClientEvent, Connection};
use groupcast_session::frame::{ClientKind, Disconnect, Message, Request};
use groupcast_session::{ClientId, View};

use crate::asking::Asking;

/// Bytes that a pipe holds, as a socket's buffer: little, so that frames come in pieces.
const PIPE_MAX: usize = 8 << 10;

/// A client. It outlives connections and daemons.
pub(super) struct Client {
    pub(super) name: String,
    pub(super) host: usize,
    /// Whether it is in all groups from the beginning, and always reads.
    pub(super) witness: bool,
    connection: Connection,
    /// What it has at its daemon, while it is connected.
    pub(super) at: Option<ClientId>,
    /// What the daemon has written and the client has not read.
    pipe: VecDeque<u8>,
    /// Whether a witness has asked to join its groups.
    pub(super) joined: bool,
    /// Whether it takes what it is sent.
    pub(super) reads: bool,
    /// The daemon has closed the connection: what is in the pipe is all that comes.
    closed: bool,
    /// What it asked and was asked.
    pub(super) asking: Asking,
    /// Its connections, the last of them perhaps still there.
    pub(super) lives: Vec<Life>,
}

/// One connection of a client.
pub(super) struct Life {
    pub(super) daemon: MemberId,
    /// How many connections there were before, of all clients: messages say it.
    pub(super) number: usize,
    pub(super) seen: Vec<Seen>,
    /// What it published, from number 1 on.
    pub(super) published: Vec<Published>,
    /// Numbers up to which messages were accepted, and in how many configurations its daemon had
    /// been by then.
    pub(super) acceptances: Vec<(u64, usize)>,
    pub(super) rejected: BTreeMap<u64, String>,
    /// Unreliable messages that it missed because it was slow, as the last warning says.
    pub(super) dropped: u64,
    /// Messages without a verdict when the connection ended.
    pub(super) undecided: u64,
    pub(super) said_bye: bool,
    /// The client closed the connection itself, without a word.
    pub(super) vanished: bool,
    /// What the daemon says that its last word is.
    pub(super) told: Option<(Disconnect, String)>,
    /// What the client takes for the last word.
    pub(super) end: Option<(Disconnect, String)>,
}

/// A message that a client published.
pub(super) struct Published {
    pub(super) groups: Vec<String>,
    pub(super) service: Service,
}

/// The connection that published a message, and its number there, as its payload says.
pub(super) fn origin(message: &Message) -> Option<(usize, u64)> {
    let text = std::str::from_utf8(&message.payload).ok()?;
    let (from, number) = text.trim_end().split_once('#')?;
    Some((from.parse().ok()?, number.parse().ok()?))
}

/// Something that a subscriber saw.
pub(super) enum Seen {
    Message(Message),
    View(View),
}

impl Life {
    pub(super) fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::Message(message) => Some(message),
            Seen::View(_) => None,
        })
    }

    pub(super) fn views(&self) -> impl DoubleEndedIterator<Item = &View> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::View(view) => Some(view),
            Seen::Message(_) => None,
        })
    }

    /// Whether the daemon ended it because the client did not read.
    pub(super) fn is_expelled(&self) -> bool {
        let told = self.told.as_ref();
        told.is_some_and(|(code, _)| matches!(code, Disconnect::TooSlow | Disconnect::Overload))
    }

    /// Its own message of this number, if it came back.
    pub(super) fn own(&self, number: u64) -> Option<&Message> {
        let own = Some((self.number, number));
        self.messages().find(|message| origin(message) == own)
    }

    /// How many configurations its daemon had been in when the message was accepted; `None` if it
    /// was not.
    pub(super) fn accepted(&self, number: u64) -> Option<usize> {
        let mut later = self.acceptances.iter();
        let accepted = later.find(|(up_to, _)| *up_to >= number)?;
        (!self.rejected.contains_key(&number)).then_some(accepted.1)
    }
}

impl Client {
    pub(super) fn new(name: String, host: usize, witness: bool) -> Self {
        let window = if witness { 1 << 40 } else { 64 << 10 };
        let mut connection = Connection::new(Some(name.clone()), ClientKind::Application, window);
        connection.set_guest(fnv1a(name.as_bytes()));
        Self {
            connection,
            name,
            host,
            witness,
            at: None,
            pipe: VecDeque::new(),
            joined: false,
            reads: true,
            closed: false,
            asking: Asking::default(),
            lives: Vec::new(),
        }
    }

    /// Begins a connection to `daemon`, which has the hello in what is to be written.
    pub(super) fn connected(&mut self, daemon: MemberId, at: ClientId, number: usize) {
        if !self.lives.is_empty() {
            self.connection.restart();
            self.asking.restart();
        }
        self.at = Some(at);
        self.pipe.clear();
        (self.reads, self.closed) = (true, false);
        self.lives.push(Life {
            daemon,
            number,
            seen: Vec::new(),
            published: Vec::new(),
            acceptances: Vec::new(),
            rejected: BTreeMap::new(),
            dropped: 0,
            undecided: 0,
            said_bye: false,
            vanished: false,
            told: None,
            end: None,
        });
    }

    /// Whether a connection is there whose end the client has not seen.
    pub(super) fn is_connected(&self) -> bool {
        self.lives.last().is_some_and(|life| life.end.is_none())
    }

    /// Requests of a connected client that have not ended.
    pub(super) fn open_requests(&self) -> usize {
        match self.is_connected() {
            true => self.connection.open_requests(),
            false => 0,
        }
    }

    pub(super) fn is_welcome(&self) -> bool {
        self.connection.welcome().is_some()
    }

    /// Closes the connection without a word; whether there was one.
    pub(super) fn vanish(&mut self) -> bool {
        let connected = self.is_connected();
        if let Some(life) = self.lives.last_mut().filter(|_| connected) {
            life.vanished = true;
            life.undecided = self.connection.undecided();
            life.end = Some((Disconnect::Other, "it vanished".into()));
        }
        connected
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(super) fn life(&mut self) -> Option<&mut Life> {
        self.lives.last_mut()
    }

    /// Room in its pipe for what the daemon writes.
    pub(super) fn room(&self) -> usize {
        PIPE_MAX.saturating_sub(self.pipe.len())
    }

    pub(super) fn written(&mut self, bytes: &[u8]) {
        self.pipe.extend(bytes);
    }

    /// The daemon has closed the connection, or is no more.
    pub(super) fn close(&mut self) {
        self.at = None;
        self.closed = true;
    }

    /// Takes what is in the pipe; `configs` configurations have come to its daemon. Whether there
    /// was anything.
    pub(super) fn read(&mut self, configs: usize) -> Result<bool, String> {
        if !self.is_connected() || !self.reads {
            return Ok(false);
        }
        let bytes: Vec<u8> = std::mem::take(&mut self.pipe).into();
        let any = !bytes.is_empty();
        if let Err(error) = self.connection.handle_bytes(&bytes) {
            return Err(format!(
                "{} does not understand its daemon: {error}",
                self.name
            ));
        }
        if self.closed {
            self.connection.handle_closed("the connection was closed");
        }
        self.take_events(configs)?;
        Ok(any)
    }

    fn take_events(&mut self, configs: usize) -> Result<(), String> {
        let Some(life) = self.lives.last_mut() else {
            return Ok(());
        };
        while let Some(event) = self.connection.poll_event() {
            if life.end.is_some() {
                return Err(format!("{} sees {event:?} after the last word", self.name));
            }
            self.asking.see(life.daemon, &self.name, &event);
            match event {
                ClientEvent::Message(message) => life.seen.push(Seen::Message(message)),
                ClientEvent::View(view) => life.seen.push(Seen::View(view)),
                ClientEvent::Accepted { up_to } => life.acceptances.push((up_to, configs)),
                ClientEvent::Rejected { request, text, .. } => {
                    if let Request::Publish(number) = request {
                        life.rejected.insert(number, text);
                    }
                }
                ClientEvent::Disconnected { code, text } => {
                    life.undecided = self.connection.undecided();
                    life.end = Some((code, text));
                }
                ClientEvent::Behind { dropped, .. } if dropped >= life.dropped => {
                    life.dropped = dropped;
                }
                ClientEvent::Asked(_)
                | ClientEvent::Taken { .. }
                | ClientEvent::Answer { .. }
                | ClientEvent::Ended { .. }
                | ClientEvent::Role(_) => {}
                other => return Err(format!("{} sees {other:?}", self.name)),
            }
        }
        Ok(())
    }
}
