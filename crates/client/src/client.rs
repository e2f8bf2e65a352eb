//! The blocking client: a [`Connection`] over a stream.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use groupcast_core::Service;
use groupcast_session::WhenSlow;
use groupcast_session::client::{Answer, ClientEvent, Connection, RequestError};
use groupcast_session::frame::{AccessToken, ClientKind, Disconnect, FrameError};
use groupcast_session::name::check_client;
use groupcast_session::names::lowest_top;

use crate::address::Address;
use crate::calls::Calls;
use crate::error::{ClientError, ConnectError};
use crate::guests::draw_guest;
use crate::stream::{Ready, Stream};

/// Messages are gathered up to this many bytes before they are written.
const WRITE_BUFFER: usize = 64 * 1024;
/// Payloads of this many bytes or more are written without being gathered.
const GATHER_MAX: usize = 16 * 1024;
/// How long to wait for credit while the whole window is unread: see [`ClientError::Unread`].
const UNREAD_PATIENCE: Duration = Duration::from_secs(1);

/// Options of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The name that this client asks for, without `@host`: at most 127 bytes. If it is `None`, the
    /// daemon makes one. Default: `None`.
    pub name: Option<String>,
    /// The kind of client. Default: an application.
    pub kind: ClientKind,
    /// How many bytes of messages and views may wait unread in this process. If it is too small,
    /// the daemon waits for this process after every few messages. Default 4 MiB.
    pub delivery_window: u64,
    /// How long connecting may take, the daemon's welcome included. Default 10 s.
    pub connect_within: Duration,
    /// The token that the daemon asks its TCP clients for. Without TLS it goes to the daemon in
    /// clear. Default: none.
    pub token: Option<AccessToken>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            kind: ClientKind::Application,
            delivery_window: 4 << 20,
            connect_within: Duration::from_secs(10),
            token: None,
        }
    }
}

/// A connection to a daemon. Dropping it ends the connection at once: messages that were gathered
/// and not written are lost.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    connection: Connection,
    address: Address,
    connect_within: Duration,
    /// The error of the system or of TLS after which the stream cannot be read any more.
    broken: Option<io::Error>,
    calls: Calls,
    /// How many pings were sent: the token of the last one.
    pings: u64,
}

impl Client {
    /// Connects to the daemon at `address`, and waits for its welcome.
    ///
    /// # Errors
    /// If no client may have the name, or the daemon cannot be reached, does not answer within
    /// [`connect_within`](Options::connect_within), or refuses this client.
    pub fn connect(address: &Address, options: Options) -> Result<Self, ConnectError> {
        // Without a name the daemon makes one.
        if let Some(name) = options.name.as_deref().filter(|name| !name.is_empty()) {
            check_client(name)?;
        }
        let deadline = Instant::now().checked_add(options.connect_within);
        let stream = Stream::connect(address, options.connect_within)?;
        let mut client = Self {
            stream,
            connection: Connection::with_token(
                options.name,
                options.kind,
                options.delivery_window,
                options.token,
            ),
            address: address.clone(),
            connect_within: options.connect_within,
            broken: None,
            calls: Calls::default(),
            pings: 0,
        };
        let guest = draw_guest().map_err(|source| ConnectError::Io {
            address: address.to_string(),
            source,
        })?;
        client.connection.set_guest(guest);
        client.greet(deadline)?;
        Ok(client)
    }

    /// Connects again after the connection has ended, with the same options: the client joins its
    /// groups again, and repeats its requests that have not ended. Messages that were sent to the
    /// groups meanwhile do not come, own messages that were not accepted may be lost, and the next
    /// message has number 1. Events that came before the end can still be taken.
    ///
    /// # Errors
    /// If the daemon cannot be reached or refuses; the connection stays ended, and another attempt
    /// may succeed.
    pub fn reconnect(&mut self) -> Result<(), ConnectError> {
        let deadline = Instant::now().checked_add(self.connect_within);
        self.stream = Stream::connect(&self.address, self.connect_within)?;
        self.connection.restart();
        self.broken = None;
        let greeted = self.greet(deadline);
        if let Err(error) = &greeted {
            self.connection.handle_closed(&error.to_string());
        }
        greeted
    }

    /// The same as [`reconnect`](Self::reconnect), at `address`, also from now on: a name that the
    /// daemon is found by may have another address than before.
    ///
    /// # Errors
    /// As [`reconnect`](Self::reconnect).
    pub fn reconnect_at(&mut self, address: &Address) -> Result<(), ConnectError> {
        self.address = address.clone();
        self.reconnect()
    }

    /// Becomes a member of `group`: its first event is a view that includes this client.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is not allowed; nothing was sent then. Any
    /// other error means that the connection has ended.
    pub fn join(&mut self, group: &str) -> Result<(), ClientError> {
        self.connection.join(group, false)?;
        self.write_gathered()
    }

    /// The same, but this client's own messages to the group are not delivered to it.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_discarding_own(&mut self, group: &str) -> Result<(), ClientError> {
        self.connection.join(group, true)?;
        self.write_gathered()
    }

    /// The same as [`join`](Self::join), on a ring of its own for the group and all names below it,
    /// which no other group has to wait for. The daemons make the ring if there is none. The first
    /// event is [`ClientEvent::Carried`], or [`ClientEvent::Rejected`] with the reason: a group
    /// below has members in another order, or the daemon has no addresses for rings.
    ///
    /// The ring does not carry messages published before the group's first view.
    ///
    /// # Errors
    /// As [`join`](Self::join), and if the daemon is too old for such rings.
    pub fn join_on_ring(&mut self, group: &str) -> Result<(), ClientError> {
        self.connection.join_on_ring(group, false)?;
        self.write_gathered()
    }

    /// Leaves `group`: its last event is a view without this client.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is not allowed; nothing was sent then. Any
    /// other error means that the connection has ended.
    pub fn leave(&mut self, group: &str) -> Result<(), ClientError> {
        self.connection.leave(group)?;
        self.write_gathered()
    }

    /// Sets the daemon's policy should this client take its messages too slowly. With the default,
    /// [`WhenSlow::Block`], publishers at the same daemon wait for it, unless the daemon has
    /// another rule for a group. [`ClientEvent::Behind`] warns.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the policy has more patience than the one before, or the daemon
    /// is too old for it, or has no disk for [`WhenSlow::Spill`]; nothing was sent then. Any other
    /// error means that the connection has ended.
    pub fn set_when_slow(&mut self, policy: WhenSlow) -> Result<(), ClientError> {
        self.connection.set_when_slow(policy)?;
        self.write_gathered()
    }

    /// Publishes a message to groups or private names. A receiver gets it by the first of them that
    /// it is in. Returns the number of the message: 1, 2, … Waits for credit if there is none, and
    /// reads events meanwhile.
    ///
    /// # Errors
    /// [`ClientError::Request`] if a name, the number of names or the length is not allowed;
    /// [`ClientError::Unread`] if the daemon gives no credit while events wait to be taken. Nothing
    /// was sent then. Any other error means that the connection has ended.
    pub fn publish(
        &mut self,
        groups: &[&str],
        service: Service,
        payload: &[u8],
    ) -> Result<u64, ClientError> {
        loop {
            match self.try_publish(groups, service, payload) {
                Ok(number) if payload.len() >= GATHER_MAX => {
                    self.write_gathered()?;
                    self.write(payload)?;
                    return Ok(number);
                }
                Ok(number) => {
                    if self.connection.outgoing() >= WRITE_BUFFER {
                        self.write_gathered()?;
                    }
                    return Ok(number);
                }
                Err(RequestError::NoCredit) => self.wait_for_credit()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all gathered messages: what was published is with the system when this returns, and
    /// no longer in this process.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.write_gathered()?;
        // By TLS, records for which the socket had no room are still here.
        while self.stream.has_unsent() {
            self.wait_for_room()?;
        }
        Ok(())
    }

    /// The next event; `None` if none came within `timeout`. Without a timeout, waits until one
    /// comes.
    ///
    /// # Errors
    /// After [`ClientEvent::Disconnected`], [`ClientError::Disconnected`].
    pub fn next_event(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<ClientEvent>, ClientError> {
        // The clock is read only before waiting, not for each event that came with others.
        let mut deadline = None;
        loop {
            if let Some(event) = self.connection.poll_event() {
                if self.connection.is_urgent() {
                    // Gives credit back at once, so that the daemon goes on meanwhile. If this
                    // fails, the next call returns the error.
                    let _ = self.write_gathered();
                }
                return Ok(Some(event));
            }
            self.check_end()?;
            self.write_gathered()?;
            if deadline.is_none() {
                deadline = timeout.and_then(|it| Instant::now().checked_add(it));
            }
            if !self.turn(deadline)? {
                return Ok(self.connection.poll_event());
            }
        }
    }

    /// Waits until every published message is accepted or rejected; returns false if that takes
    /// longer than `timeout`. Events that come meanwhile wait for [`next_event`](Self::next_event).
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush_accepted(&mut self, timeout: Option<Duration>) -> Result<bool, ClientError> {
        self.wait_until(timeout, |client| {
            (client.connection.undecided() == 0).then_some(())
        })
        .map(|done| done.is_some())
    }

    /// The daemon's status, in JSON.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] if the answer has not come within `timeout`. Any other error means
    /// that the connection has ended.
    pub fn status(&mut self, timeout: Duration) -> Result<bytes::Bytes, ClientError> {
        self.drop_answers();
        self.connection.ask_status()?;
        self.wait_for_answer(timeout, |answer| match answer {
            Answer::Status(json) => Some(json),
            _ => None,
        })
    }

    /// All groups, in JSON.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn groups(&mut self, timeout: Duration) -> Result<bytes::Bytes, ClientError> {
        self.drop_answers();
        self.connection.ask_groups()?;
        self.wait_for_answer(timeout, |answer| match answer {
            Answer::Groups(json) => Some(json),
            _ => None,
        })
    }

    /// Asks the daemon to change to the key in the file at the absolute path `path` on its host.
    /// Returns the progress of the change, in JSON (docs/rekey.md).
    ///
    /// # Errors
    /// [`ClientError::Request`] if the daemon is too old to change its key; otherwise as
    /// [`status`](Self::status).
    pub fn rekey(&mut self, path: &Path, timeout: Duration) -> Result<bytes::Bytes, ClientError> {
        self.drop_answers();
        self.connection.ask_rekey(path)?;
        self.wait_for_answer(timeout, |answer| match answer {
            Answer::Rekey(json) => Some(json),
            _ => None,
        })
    }

    /// Sends a ping, and returns how long the answer took.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn ping(&mut self, timeout: Duration) -> Result<Duration, ClientError> {
        let start = Instant::now();
        self.pings += 1;
        let token = self.pings;
        self.drop_answers();
        self.connection.ping(token)?;
        self.wait_for_answer(timeout, |answer| {
            (answer == Answer::Pong(token)).then_some(())
        })?;
        Ok(start.elapsed())
    }

    /// Says good-bye, and waits until the daemon has accepted all messages and ended the
    /// connection. Events that come meanwhile are lost.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] if that takes longer than `timeout`, or how the connection ended
    /// without the daemon's good-bye.
    pub fn close(mut self, timeout: Duration) -> Result<(), ClientError> {
        self.connection.bye()?;
        let done = self.wait_until(Some(timeout), |client| {
            client.connection.discard_events();
            client.connection.end().map(|_| ())
        });
        match (self.connection.end(), done) {
            // The daemon said good-bye, even if it closed while credit was on its way to it.
            (Some((Disconnect::Bye, _)), _) => Ok(()),
            (_, Ok(None)) => Err(ClientError::TimedOut(timeout)),
            (_, Ok(Some(()))) => self.check_end(),
            (_, Err(error)) => Err(error),
        }
    }

    /// Whether [`publish`](Self::publish) would not have to wait for credit now.
    pub fn has_credit(&self) -> bool {
        self.connection.has_credit()
    }

    /// This client's name in the cluster: `client@host`.
    pub fn private_name(&self) -> &str {
        let welcome = self.connection.welcome();
        welcome.map_or("", |welcome| &welcome.private_name)
    }

    /// The name of the daemon's own order, `ring` or `rmp`; `None` from a daemon of an earlier
    /// version.
    pub fn order(&self) -> Option<&str> {
        let order = self.connection.welcome()?.order.as_str();
        (!order.is_empty()).then_some(order)
    }

    /// The top of the ring of the daemon's configuration that orders the messages of `group`;
    /// `None` if its own order does, or from a daemon of an earlier version.
    /// [`ClientEvent::Carried`] tells of rings that joins have made.
    pub fn ring_of(&self, group: &str) -> Option<&str> {
        let rings = &self.connection.welcome()?.rings;
        lowest_top(rings, group).map(|index| rings[index].as_str())
    }

    /// The tops of the rings of the daemon's configuration.
    pub fn rings(&self) -> &[String] {
        let welcome = self.connection.welcome();
        welcome.map_or(&[], |welcome| &welcome.rings)
    }

    /// The number up to which messages are accepted, except rejected ones.
    pub fn accepted(&self) -> u64 {
        self.connection.accepted()
    }

    /// How many messages were published and neither accepted nor rejected.
    pub fn undecided(&self) -> u64 {
        self.connection.undecided()
    }

    /// The system calls that this client has made.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// The longest payload that the daemon takes.
    pub fn message_max(&self) -> u64 {
        let welcome = self.connection.welcome();
        welcome.map_or(0, |welcome| welcome.message_max)
    }
}

/// Whether these are the first bytes of a daemon's message bus: of its greeting, or of why it lets
/// nobody in.
fn is_bus(begin: [u8; 4]) -> bool {
    matches!(&begin, b"bus " | b"clos")
}

/// Whether these are the first bytes with which TLS refuses what is no TLS: an alert, of whatever
/// version.
fn is_tls(begin: [u8; 4]) -> bool {
    matches!(begin, [0x15, 0x03, ..])
}

impl Client {
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Waits for the welcome.
    fn greet(&mut self, deadline: Option<Instant>) -> Result<(), ConnectError> {
        let (address, waited) = (self.address.clone(), self.connect_within);
        let failed = |source| ConnectError::Io {
            address: address.to_string(),
            source,
        };
        // A daemon that refuses may have closed its side already: its answer is read before this
        // error counts.
        let written = self.write_hello(deadline);
        loop {
            if self.connection.welcome().is_some() {
                return Ok(());
            }
            if let Some((code, text)) = self.connection.refusal() {
                let text = text.to_owned();
                return Err(ConnectError::Refused { code, text });
            }
            if self.connection.end().is_some() {
                let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
                let source = self.broken.take().or(written.err()).unwrap_or(closed);
                return Err(match source.kind() {
                    io::ErrorKind::InvalidData => ConnectError::Untrusted {
                        address: address.to_string(),
                        why: source.to_string(),
                    },
                    _ => failed(source),
                });
            }
            let ready = self.wait(false, deadline).map_err(failed)?;
            if !ready.read {
                return Err(ConnectError::TimedOut {
                    address: address.to_string(),
                    waited,
                });
            }
            self.read().map_err(|error| match error {
                ClientError::Protocol(FrameError::Magic { found }) if is_bus(found) => {
                    let address = address.to_string();
                    ConnectError::Bus { address }
                }
                ClientError::Protocol(FrameError::Magic { found }) if is_tls(found) => {
                    let address = address.to_string();
                    ConnectError::NeedsTls { address }
                }
                ClientError::Protocol(error) => ConnectError::Protocol {
                    address: address.to_string(),
                    error,
                },
                ClientError::Io(source) => failed(source),
                other => failed(io::Error::other(other.to_string())),
            })?;
        }
    }

    /// Writes all gathered messages. By TLS, some may wait in this process for room in the socket:
    /// every wait for the daemon sends them meanwhile.
    pub(crate) fn write_gathered(&mut self) -> Result<(), ClientError> {
        while let Some(bytes) = self.connection.poll_transmit() {
            let written = self.stream.try_write(bytes);
            self.calls.count_write(&written);
            match written {
                Ok(Some(len)) => self.connection.handle_transmitted(len),
                Ok(None) => self.wait_for_room()?,
                Err(error) => return Err(self.write_failed(error)),
            }
        }
        Ok(())
    }

    /// Writes the hello; stops when there is something to read, or at `deadline`.
    fn write_hello(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        while let Some(bytes) = self.connection.poll_transmit() {
            let written = self.stream.try_write(bytes);
            self.calls.count_write(&written);
            match written? {
                Some(len) => self.connection.handle_transmitted(len),
                None if self.wait(true, deadline)?.write => {}
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Publishes if there is credit. The caller has to write the payload if it is long.
    fn try_publish(
        &mut self,
        groups: &[&str],
        service: Service,
        payload: &[u8],
    ) -> Result<u64, RequestError> {
        if payload.len() < GATHER_MAX {
            self.connection.publish(groups, service, payload)
        } else {
            self.connection.publish_head(groups, service, payload.len())
        }
    }

    /// Drops answers to questions that were given up. One that comes even later may be taken for
    /// the next answer of its kind.
    fn drop_answers(&mut self) {
        while self.connection.poll_answer().is_some() {}
    }

    /// Sends the question, and waits for the answer that `take` accepts; drops others.
    fn wait_for_answer<T>(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(Answer) -> Option<T>,
    ) -> Result<T, ClientError> {
        self.write_gathered()?;
        let answer = self.wait_until(Some(timeout), |client| {
            std::iter::from_fn(|| client.connection.poll_answer()).find_map(&mut take)
        });
        answer?.ok_or(ClientError::TimedOut(timeout))
    }

    /// Waits until `done` returns a value; `None` if it does not within `timeout`.
    fn wait_until<T>(
        &mut self,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Option<T>, ClientError> {
        let deadline = timeout.and_then(|it| Instant::now().checked_add(it));
        loop {
            if let Some(done) = done(self) {
                return Ok(Some(done));
            }
            self.check_end()?;
            self.write_gathered()?;
            if !self.turn(deadline)? {
                return Ok(done(self));
            }
        }
    }

    /// Waits for credit. If this client's unread events fill its window, the daemon may hold credit
    /// back because of this very client: then only the program can help, by taking events.
    pub(crate) fn wait_for_credit(&mut self) -> Result<(), ClientError> {
        while !self.connection.has_credit() {
            self.check_end()?;
            self.connection.give_credit();
            self.write_gathered()?;
            let full = self.connection.is_full();
            let deadline = full.then(|| Instant::now() + UNREAD_PATIENCE);
            if !self.turn(deadline)? {
                return Err(ClientError::Unread {
                    bytes: self.connection.unread(),
                });
            }
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), ClientError> {
        match self.connection.end() {
            Some((code, text)) => Err(ClientError::Disconnected {
                code,
                text: text.into(),
            }),
            None => Ok(()),
        }
    }

    /// Writes all of `bytes`.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            let written = self.stream.try_write(bytes);
            self.calls.count_write(&written);
            match written {
                Ok(Some(len)) => bytes = &bytes[len..],
                Ok(None) => self.wait_for_room()?,
                Err(error) => return Err(self.write_failed(error)),
            }
        }
        Ok(())
    }

    /// Waits for room to write. Reads meanwhile, so that the two sides do not wait for each other.
    fn wait_for_room(&mut self) -> Result<(), ClientError> {
        let ready = match self.wait(true, None) {
            Ok(ready) => ready,
            Err(error) => return Err(self.write_failed(error)),
        };
        if ready.read && !ready.write {
            self.read()?;
            self.check_end()?;
        }
        Ok(())
    }

    /// The error to report after a failed write: the daemon may have said why it closed.
    fn write_failed(&mut self, error: io::Error) -> ClientError {
        loop {
            let more = self.read();
            if let Err(error) = self.check_end() {
                return error;
            }
            match more {
                Ok(true) => {}
                Ok(false) => return error.into(),
                Err(error) => return error,
            }
        }
    }

    fn wait(&mut self, writes: bool, deadline: Option<Instant>) -> io::Result<Ready> {
        self.calls.waits += 1;
        self.stream.wait(writes, deadline)
    }

    /// Waits for something to read, and reads it; returns false if nothing came before `deadline`.
    fn turn(&mut self, deadline: Option<Instant>) -> Result<bool, ClientError> {
        if !self.wait(false, deadline)?.read {
            return Ok(false);
        }
        self.read()?;
        Ok(true)
    }

    /// Reads once; returns whether bytes came.
    fn read(&mut self) -> Result<bool, ClientError> {
        let read = self.stream.try_read(self.connection.space());
        self.calls.count_read(&read);
        match read {
            Ok(Some(0)) => {
                let text = "the daemon closed it without a word";
                self.connection.handle_closed(text);
                Ok(false)
            }
            Ok(Some(len)) => {
                self.connection.handle_received(len)?;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.connection.handle_closed(&error.to_string());
                self.broken = Some(error);
                Ok(false)
            }
        }
    }
}
