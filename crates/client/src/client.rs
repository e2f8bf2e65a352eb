//! A connection to a daemon: requests out, events in, credit both ways.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use groupcast_core::Service;
use groupcast_session::frame::{
    ClientFrame, ClientKind, DESTINATIONS_MAX, DaemonFrame, Disconnect, FEATURES, FRAME_MAX,
    FrameDecoder, Hello, MAGIC, Message, RawFrame, Reject, Request, VERSION, Welcome, credit_cost,
    encode_publish_head, has_credit,
};
use groupcast_session::name::{check_destination, check_group};
use groupcast_session::view::View;

use crate::address::Address;
use crate::error::{ClientError, ConnectError};
use crate::stream::Stream;

/// Requests are gathered up to here, then written.
const WRITE_BUFFER: usize = 64 * 1024;
/// Payloads from here on are written without being gathered.
const GATHER_MAX: usize = 16 * 1024;
/// How long to wait for credit while the whole window is unread: see [`ClientError::Unread`].
const UNREAD_PATIENCE: Duration = Duration::from_secs(1);

/// How to connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The name that this client wants, without `@host`; without one the daemon makes one.
    pub name: Option<String>,
    /// What this client is.
    pub kind: ClientKind,
    /// Bytes of messages and views that may wait unread in this process. Too small: the daemon waits for this process
    /// after every few messages. Default 4 MiB.
    pub delivery_window: u64,
    /// How long the daemon may take to answer. Default 10 s.
    pub connect_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            kind: ClientKind::Application,
            delivery_window: 4 << 20,
            connect_within: Duration::from_secs(10),
        }
    }
}

/// Something that the daemon told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientEvent {
    /// A message to a group that this client is in, or to itself.
    Message(Message),
    /// A group that this client is in (or just left) has a new view.
    View(View),
    /// Messages of a bimodal group are lost to this client for good. They came between those before and after this event.
    Gap {
        /// The group.
        group: String,
        /// The name of the daemon whose clients sent them; its identity where the name was not heard.
        sender: String,
        /// The number of the first ([`Message::number`]).
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// All messages up to this number are accepted, except the rejected ones: they are ordered, and delivered at the
    /// daemon. Told when nothing else waits, and not for every number.
    Accepted {
        /// The number.
        up_to: u64,
    },
    /// A request was not carried out.
    Rejected {
        /// Which.
        request: Request,
        /// Why.
        code: Reject,
        /// Why, in words.
        text: String,
    },
    /// The connection has ended. Nothing follows.
    Disconnected {
        /// Why.
        code: Disconnect,
        /// Why, in words.
        text: String,
    },
}

/// A connection to a daemon. Dropping it ends the connection at once: what was gathered and not written is lost.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    decoder: FrameDecoder,
    /// Requests that are gathered.
    gathered: Vec<u8>,
    welcome: Welcome,
    events: VecDeque<(ClientEvent, u64)>,
    delivery_window: u64,
    /// Cost of the events that wait.
    unread: u64,
    /// Cost of the events that were taken and not given back.
    consumed: u64,
    /// Cost of published messages for which no credit came back.
    outstanding: u64,
    published: u64,
    accepted: u64,
    accepted_told: u64,
    /// Numbers above `accepted` that were rejected.
    rejected: BTreeSet<u64>,
    reports: VecDeque<Report>,
    end: Option<(Disconnect, String)>,
    end_told: bool,
}

#[derive(Debug)]
enum Report {
    Status(bytes::Bytes),
    Groups(bytes::Bytes),
    Pong(u64),
}

impl Client {
    /// Connects to the daemon at `address`, and waits for its welcome.
    pub fn connect(address: &Address, options: Options) -> Result<Self, ConnectError> {
        let deadline = Instant::now() + options.connect_within;
        let stream = Stream::connect(address, options.connect_within)?;
        let mut gathered = MAGIC.to_vec();
        ClientFrame::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            features: FEATURES,
            kind: options.kind,
            delivery_window: options.delivery_window,
            name: options.name,
        })
        .encode(&mut gathered);
        let mut client = Self {
            stream,
            decoder: FrameDecoder::new(FRAME_MAX),
            gathered,
            welcome: Welcome {
                version: 0,
                features: 0,
                publish_window: 0,
                message_max: 0,
                private_name: String::new(),
            },
            events: VecDeque::new(),
            delivery_window: options.delivery_window,
            unread: 0,
            consumed: 0,
            outstanding: 0,
            published: 0,
            accepted: 0,
            accepted_told: 0,
            rejected: BTreeSet::new(),
            reports: VecDeque::new(),
            end: None,
            end_told: false,
        };
        client.greet(address, deadline, options.connect_within)?;
        Ok(client)
    }

    /// Becomes a member of `group`: the first thing that follows from it is a view that includes this client.
    pub fn join(&mut self, group: &str) -> Result<(), ClientError> {
        check_group(group)?;
        self.request(&ClientFrame::Join {
            group: group.into(),
            discard_own: false,
        })
    }

    /// The same, but this client's own messages to the group are not delivered to it.
    pub fn join_discarding_own(&mut self, group: &str) -> Result<(), ClientError> {
        check_group(group)?;
        self.request(&ClientFrame::Join {
            group: group.into(),
            discard_own: true,
        })
    }

    /// Leaves `group`: the last thing that follows from it is a view without this client.
    pub fn leave(&mut self, group: &str) -> Result<(), ClientError> {
        check_group(group)?;
        self.request(&ClientFrame::Leave {
            group: group.into(),
        })
    }

    /// Publishes a message to groups (or private names), in the order in which receivers look for one that they are in.
    /// Returns its number: 1, 2, … Waits for credit if there is none, taking in events meanwhile.
    pub fn publish(
        &mut self,
        groups: &[&str],
        service: Service,
        payload: &[u8],
    ) -> Result<u64, ClientError> {
        if groups.is_empty() || groups.len() > DESTINATIONS_MAX {
            return Err(ClientError::Destinations {
                count: groups.len(),
                max: DESTINATIONS_MAX,
            });
        }
        for group in groups {
            check_destination(group)?;
        }
        if payload.len() as u64 > self.welcome.message_max {
            return Err(ClientError::TooLarge {
                len: payload.len(),
                max: self.welcome.message_max,
            });
        }
        self.check_end()?;
        self.wait_for_credit()?;
        let number = self.published + 1;
        let len = encode_publish_head(&mut self.gathered, number, service, groups, payload.len());
        self.published = number;
        self.outstanding += credit_cost(len) as u64;
        if payload.len() < GATHER_MAX {
            self.gathered.extend_from_slice(payload);
            if self.gathered.len() >= WRITE_BUFFER {
                self.flush()?;
            }
        } else {
            self.flush()?;
            self.write(payload)?;
        }
        Ok(number)
    }

    /// Writes what was gathered.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let result = self.write(&gathered);
        gathered.clear();
        self.gathered = gathered;
        result
    }

    /// The next event; `None` if none came within `timeout` (without one, it is waited for).
    ///
    /// # Errors
    /// After [`ClientEvent::Disconnected`], [`ClientError::Disconnected`].
    pub fn next_event(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<ClientEvent>, ClientError> {
        // The clock is read only to wait: not for each of the events that came together.
        let mut deadline = None;
        loop {
            if let Some(event) = self.take_event() {
                if self.consumed >= self.delivery_window / 4 {
                    // The daemon goes on while the rest is taken. If this fails, the next call says so.
                    self.give_credit();
                    let _ = self.flush();
                }
                return Ok(Some(event));
            }
            // What is left to give back is less than a quarter of the window: the daemon can go on, and each credit would
            // wake it.
            self.check_end()?;
            self.flush()?;
            if deadline.is_none() {
                deadline = timeout.map(|timeout| Instant::now() + timeout);
            }
            if !self.turn(deadline)? {
                return Ok(self.take_event());
            }
        }
    }

    /// Waits until every message that was published is accepted or rejected; whether so within `timeout`. Events that
    /// come meanwhile wait for [`next_event`](Self::next_event).
    pub fn flush_accepted(&mut self, timeout: Option<Duration>) -> Result<bool, ClientError> {
        self.wait_until(timeout, |client| (client.undecided() == 0).then_some(()))
            .map(|done| done.is_some())
    }

    /// The daemon's status, in JSON.
    pub fn status(&mut self, timeout: Duration) -> Result<bytes::Bytes, ClientError> {
        self.ask(&ClientFrame::Status, timeout, |report| match report {
            Report::Status(json) => Ok(json),
            other => Err(other),
        })
    }

    /// All groups, in JSON.
    pub fn groups(&mut self, timeout: Duration) -> Result<bytes::Bytes, ClientError> {
        self.ask(&ClientFrame::Groups, timeout, |report| match report {
            Report::Groups(json) => Ok(json),
            other => Err(other),
        })
    }

    /// How long the daemon takes to answer.
    pub fn ping(&mut self, timeout: Duration) -> Result<Duration, ClientError> {
        let start = Instant::now();
        let token = self.published;
        self.ask(
            &ClientFrame::Ping { token },
            timeout,
            |report| match report {
                Report::Pong(back) if back == token => Ok(()),
                other => Err(other),
            },
        )?;
        Ok(start.elapsed())
    }

    /// Says good-bye, and waits until the daemon has accepted everything and closed; events that come meanwhile are
    /// lost.
    pub fn close(mut self, timeout: Duration) -> Result<(), ClientError> {
        self.request(&ClientFrame::Bye)?;
        let done = self.wait_until(Some(timeout), |client| {
            // Nobody takes the events any more.
            client.consumed += std::mem::take(&mut client.unread);
            client.events.clear();
            client.give_credit();
            client.end.clone()
        });
        match done {
            Ok(Some((Disconnect::Bye, _))) => Ok(()),
            Ok(Some((code, text))) => Err(ClientError::Disconnected { code, text }),
            Ok(None) => Err(ClientError::TimedOut(timeout)),
            Err(error) => Err(error),
        }
    }

    /// This client's name in the cluster: `client@host`.
    pub fn private_name(&self) -> &str {
        &self.welcome.private_name
    }

    /// The number up to which messages are accepted, except rejected ones.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// How many messages were published and neither accepted nor rejected.
    pub fn undecided(&self) -> u64 {
        self.published
            .saturating_sub(self.accepted)
            .saturating_sub(self.rejected.len() as u64)
    }

    /// The longest payload that the daemon takes.
    pub fn message_max(&self) -> u64 {
        self.welcome.message_max
    }
}

impl Client {
    /// Waits for the welcome.
    fn greet(
        &mut self,
        address: &Address,
        deadline: Instant,
        waited: Duration,
    ) -> Result<(), ConnectError> {
        let failed = |error| match error {
            ClientError::Protocol(error) => ConnectError::Protocol {
                address: address.to_string(),
                error,
            },
            ClientError::Io(source) => ConnectError::Io {
                address: address.to_string(),
                source,
            },
            other => ConnectError::Io {
                address: address.to_string(),
                source: std::io::Error::other(other.to_string()),
            },
        };
        // A daemon that refuses may have closed its side already: what it said is read before this failure counts.
        let written = self.write_hello();
        loop {
            while let Some(raw) = self
                .decoder
                .next_frame()
                .map_err(|error| failed(error.into()))?
            {
                match DaemonFrame::decode(raw).map_err(|error| failed(error.into()))? {
                    Some(DaemonFrame::Welcome(welcome)) => {
                        self.welcome = welcome;
                        return self.take_frames().map_err(failed);
                    }
                    Some(DaemonFrame::Refused { code, text }) => {
                        return Err(ConnectError::Refused { code, text });
                    }
                    _ => {}
                }
            }
            if self.end.is_some() {
                let closed = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                let source = written.err().unwrap_or(closed);
                return Err(failed(source.into()));
            }
            let ready = self.stream.wait(false, Some(deadline));
            if !ready.map_err(|error| failed(error.into()))?.read {
                return Err(ConnectError::TimedOut {
                    address: address.to_string(),
                    waited,
                });
            }
            self.read().map_err(failed)?;
        }
    }

    fn write_hello(&mut self) -> std::io::Result<()> {
        let hello = std::mem::take(&mut self.gathered);
        let mut rest = &hello[..];
        while !rest.is_empty() {
            match self.stream.try_write(rest)? {
                Some(len) => rest = &rest[len..],
                None => {
                    self.stream.wait(true, None)?;
                }
            }
        }
        Ok(())
    }

    fn request(&mut self, frame: &ClientFrame) -> Result<(), ClientError> {
        self.check_end()?;
        frame.encode(&mut self.gathered);
        self.flush()
    }

    fn ask<T>(
        &mut self,
        question: &ClientFrame,
        timeout: Duration,
        mut take: impl FnMut(Report) -> Result<T, Report>,
    ) -> Result<T, ClientError> {
        self.reports.clear();
        self.request(question)?;
        let answer = self.wait_until(Some(timeout), |client| {
            // Late answers to questions that were given up are dropped.
            std::iter::from_fn(|| client.reports.pop_front()).find_map(|report| take(report).ok())
        });
        answer?.ok_or(ClientError::TimedOut(timeout))
    }

    /// Waits until `done` says something.
    fn wait_until<T>(
        &mut self,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Option<T>, ClientError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(done) = done(self) {
                return Ok(Some(done));
            }
            self.check_end()?;
            self.flush()?;
            if !self.turn(deadline)? {
                return Ok(done(self));
            }
        }
    }

    /// Waits for credit. Once this client's unread events fill its window, the daemon may be holding back credit because
    /// of this very client: then only its program can help.
    fn wait_for_credit(&mut self) -> Result<(), ClientError> {
        while !has_credit(self.outstanding, self.welcome.publish_window) {
            self.check_end()?;
            self.give_credit();
            self.flush()?;
            let full = self.unread > 0 && self.unread >= self.delivery_window;
            let deadline = full.then(|| Instant::now() + UNREAD_PATIENCE);
            if !self.turn(deadline)? {
                return Err(ClientError::Unread { bytes: self.unread });
            }
        }
        Ok(())
    }

    /// Gives back credit for what was consumed.
    fn give_credit(&mut self) {
        if self.consumed > 0 {
            let bytes = std::mem::take(&mut self.consumed);
            ClientFrame::Credit { bytes }.encode(&mut self.gathered);
        }
    }

    fn take_event(&mut self) -> Option<ClientEvent> {
        if let Some((event, cost)) = self.events.pop_front() {
            self.unread -= cost;
            self.consumed += cost;
            return Some(event);
        }
        if self.accepted > self.accepted_told {
            self.accepted_told = self.accepted;
            return Some(ClientEvent::Accepted {
                up_to: self.accepted,
            });
        }
        let (code, text) = self.end.clone()?;
        if std::mem::replace(&mut self.end_told, true) {
            return None;
        }
        Some(ClientEvent::Disconnected { code, text })
    }

    fn check_end(&self) -> Result<(), ClientError> {
        match &self.end {
            Some((code, text)) => Err(ClientError::Disconnected {
                code: *code,
                text: text.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Writes all of `bytes`, taking in what comes meanwhile so that neither side waits for the other.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(Some(len)) => bytes = &bytes[len..],
                Ok(None) => {
                    let ready = self.stream.wait(true, None)?;
                    if ready.read && !ready.write {
                        self.read_frames()?;
                        self.check_end()?;
                    }
                }
                Err(error) => {
                    // The daemon may have said why it closed.
                    while self.end.is_none() && self.read().is_ok_and(|more| more) {}
                    self.take_frames()?;
                    self.check_end()?;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Waits for something to read and takes it in; `false` if nothing came before `deadline`.
    fn turn(&mut self, deadline: Option<Instant>) -> Result<bool, ClientError> {
        if !self.stream.wait(false, deadline)?.read {
            return Ok(false);
        }
        self.read_frames()?;
        Ok(true)
    }

    fn read_frames(&mut self) -> Result<(), ClientError> {
        self.read()?;
        self.take_frames()
    }

    /// Reads once; whether anything came.
    fn read(&mut self) -> Result<bool, ClientError> {
        match self.stream.try_read(self.decoder.space()) {
            Ok(Some(0)) => {
                self.ended(Disconnect::Other, "the daemon closed it without a word");
                Ok(false)
            }
            Ok(Some(len)) => {
                self.decoder.filled(len);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.ended(Disconnect::Other, &error.to_string());
                Ok(false)
            }
        }
    }

    fn take_frames(&mut self) -> Result<(), ClientError> {
        while let Some(raw) = self.decoder.next_frame()? {
            self.take_frame(raw)?;
        }
        Ok(())
    }

    fn take_frame(&mut self, raw: RawFrame) -> Result<(), ClientError> {
        let cost = credit_cost(raw.stream_len()) as u64;
        let Some(frame) = DaemonFrame::decode(raw)? else {
            return Ok(());
        };
        match frame {
            DaemonFrame::Message(message) => self.deliver(ClientEvent::Message(message), cost),
            DaemonFrame::View(view) => self.deliver(ClientEvent::View(view), cost),
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
                self.deliver(gap, cost);
            }
            DaemonFrame::Accepted { up_to } => {
                self.accepted = self.accepted.max(up_to);
                self.rejected = self.rejected.split_off(&(self.accepted + 1));
            }
            DaemonFrame::Credit { bytes } => {
                self.outstanding = self.outstanding.saturating_sub(bytes);
            }
            DaemonFrame::Rejected {
                request,
                code,
                text,
            } => {
                if let Request::Publish(number) = request {
                    self.rejected.insert(number);
                }
                let event = ClientEvent::Rejected {
                    request,
                    code,
                    text,
                };
                self.events.push_back((event, 0));
            }
            DaemonFrame::StatusReport(json) => self.reports.push_back(Report::Status(json)),
            DaemonFrame::GroupsReport(json) => self.reports.push_back(Report::Groups(json)),
            DaemonFrame::Pong { token } => self.reports.push_back(Report::Pong(token)),
            DaemonFrame::Disconnected { code, text } => self.ended(code, &text),
            DaemonFrame::Refused { text, .. } => self.ended(Disconnect::Other, &text),
            // A second welcome, or what a newer daemon says.
            _ => {}
        }
        Ok(())
    }

    fn deliver(&mut self, event: ClientEvent, cost: u64) {
        self.unread += cost;
        self.events.push_back((event, cost));
    }

    /// The connection has ended; the first reason counts.
    fn ended(&mut self, code: Disconnect, text: &str) {
        self.end.get_or_insert_with(|| (code, text.into()));
    }
}
