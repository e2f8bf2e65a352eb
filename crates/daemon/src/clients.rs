//! The clients' sockets: accepts them, reads a fair share of each, and writes the engine's output
//! to them.
//!
//! Events are edge-triggered: a socket that was not read until it would block is remembered and
//! read on in the next turn.
//!
//! - No client gets more than [`READ_SHARE`] a turn, so one that floods does not keep the others
//!   waiting; all together get no more than [`READ_TOTAL`], so that they do not keep the protocols
//!   waiting. Clients that were not read go first in the next turn, and those that sent little
//!   before those that sent much.
//! - Messages are bounded by the credit of their publishers. A client that sends many other frames
//!   rests after each share, so that the daemon is idle most of the time, whatever its clients ask
//!   for ([`rests`](crate::rests)). Where several send long frames, each of them rests after a
//!   part, as long as the time that it took to read the part demands.
//! - Writing is bounded in the same way: a client that reads as fast as it is written to takes a
//!   long message in several turns.

mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use groupcast_core::Time;
use groupcast_net::Readiness;
use groupcast_session::frame::AccessToken;
use groupcast_session::groups::{
    OPERATORS_MAX, REFUSED_MAX, RINGS_PER_DAEMON_MAX, Transport, Whence,
};
use groupcast_session::{ClientId, Engine};
use groupcast_tls::{Doubt, Server};
use mio::{Interest, Registry, Token};

use crate::client_calls::ClientCalls;
use crate::error::DaemonError;
use crate::linger::{self, Lingering};
use crate::listen::{BusAcceptor, SILENCE_MAX, TcpAcceptor, UnixAcceptor};
use crate::pace::Pace;
use crate::rests::Rests;
use crate::stream::Stream;
use crate::trace::Traces;
use crate::turns::{ReadTurns, Turns};

/// The most bytes that are read from one client in one turn of the loop.
const READ_SHARE: usize = 256 << 10;
/// The most bytes that are read from all clients in one turn.
const READ_TOTAL: usize = 1 << 20;
/// The most bytes that are read from all clients before the network. A token waits for as long as
/// that takes, some 50 µs.
const READ_FIRST: usize = 64 << 10;
/// A client that was read at this cost goes behind the others the next time.
const HEAVY: usize = 32 << 10;
/// Such clients have one in this many bytes of what is read, however many others there are.
const HEAVY_SHARE: usize = 4;
/// The most bytes that are written to all clients in one turn.
const WRITE_TOTAL: usize = 4 << 20;
/// The most connections that are accepted in one turn.
const ACCEPT_SHARE: usize = 64;
/// How long to wait after an accept that failed for want of a resource.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often to look which hosts of clients are gone. For a thousand clients it takes a millisecond
/// or so.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

const UNIX_ACCEPTOR: Token = Token(1);
const TCP_ACCEPTOR: Token = Token(2);
/// The first token of a listener for the bus.
const BUS_ACCEPTORS: usize = 3;
/// The most addresses for the bus.
pub(crate) const BUS_MAX: usize = SPILL.0 - BUS_ACCEPTORS;
/// The disk for what waits for slow clients.
pub(crate) const SPILL: Token = Token(16);
/// Questions for the metrics.
pub(crate) const METRICS: Token = Token(17);
/// The first client's token; the token of the loop itself is below.
const CLIENTS_FROM: usize = METRICS.0 + 1;

/// All connections of clients, and their listeners.
pub(crate) struct Clients {
    registry: Registry,
    unix: UnixAcceptor,
    tcp: Option<TcpAcceptor>,
    bus: Vec<BusAcceptor>,
    /// The token that TCP clients must have. Clients of the bus need not know it: their connections
    /// show it.
    token: Option<AccessToken>,
    /// The traces of clients of the bus, if they may have any.
    traces: Option<Traces>,
    streams: BTreeMap<ClientId, Stream>,
    /// Clients that may have something to read, in the order of their turns.
    readable: ReadTurns,
    /// Clients that made much work, and are not read for a time.
    rests: Rests,
    /// Clients of which frames were read that are not handled yet.
    held: BTreeSet<ClientId>,
    /// Clients of which the beginning of a long frame was read, and not its end; and those in a TLS
    /// handshake, a step of which takes as long.
    long: BTreeSet<ClientId>,
    /// Clients with output that may be written, in the order of their turns.
    writable: Turns,
    /// Clients whose sockets are full: written to again when there is room.
    blocked: BTreeSet<ClientId>,
    /// Clients that have ended their side: their end stands behind the bytes that they have sent.
    ended: BTreeSet<ClientId>,
    /// Clients over TCP.
    over_tcp: BTreeSet<ClientId>,
    /// When to look which of their hosts are gone.
    look_at: Time,
    /// Connections that this side has ended and the other side has not yet.
    lingering: Lingering,
    /// When to accept next, if connections may be waiting.
    accept_at: Option<Time>,
    /// The pace of accepting.
    pace: Pace,
    /// The listener that is asked first next time, so that none keeps the others waiting.
    accept_from: usize,
    /// How many bytes may still be read in this turn.
    left: usize,
    /// Why no client could be accepted, for the log.
    trouble: Option<io::Error>,
    calls: ClientCalls,
}

impl Clients {
    /// Opens the sockets that clients connect to.
    pub(crate) fn open(
        registry: &Registry,
        socket: &Path,
        mut tcp: Option<TcpAcceptor>,
    ) -> Result<Self, DaemonError> {
        let mut unix = UnixAcceptor::open(socket)?;
        let failed = DaemonError::system("wait for clients");
        let registered = registry
            .register(&mut unix.listener, UNIX_ACCEPTOR, Interest::READABLE)
            .and_then(|()| match &mut tcp {
                Some(tcp) => registry.register(&mut tcp.listener, TCP_ACCEPTOR, Interest::READABLE),
                None => Ok(()),
            });
        let registry = registered
            .and_then(|()| registry.try_clone())
            .map_err(failed)?;
        Ok(Self {
            registry,
            unix,
            tcp,
            bus: Vec::new(),
            token: None,
            traces: None,
            streams: BTreeMap::new(),
            readable: ReadTurns::default(),
            rests: Rests::default(),
            held: BTreeSet::new(),
            long: BTreeSet::new(),
            writable: Turns::default(),
            blocked: BTreeSet::new(),
            ended: BTreeSet::new(),
            over_tcp: BTreeSet::new(),
            look_at: Time::ZERO,
            lingering: Lingering::default(),
            accept_at: None,
            pace: Pace::default(),
            accept_from: 0,
            left: READ_TOTAL,
            trouble: None,
            calls: ClientCalls::default(),
        })
    }

    /// Lets clients of the bus connect, too, at `bus`, which are [`BUS_MAX`] listeners at most.
    /// `token` is the one that the daemon asks other TCP clients for; traces go to `traces`.
    pub(crate) fn listen_for_bus(
        &mut self,
        mut bus: Vec<BusAcceptor>,
        token: Option<AccessToken>,
        traces: Option<Traces>,
    ) -> Result<(), DaemonError> {
        for (index, acceptor) in bus.iter_mut().enumerate() {
            acceptor
                .register(&self.registry, Token(BUS_ACCEPTORS + index))
                .map_err(DaemonError::system("wait for clients of the bus"))?;
        }
        self.bus = bus;
        self.token = token;
        self.traces = traces;
        Ok(())
    }

    /// The TCP addresses for clients of the bus.
    pub(crate) fn bus_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.bus.iter().filter_map(BusAcceptor::address)
    }

    /// A socket is ready.
    pub(crate) fn handle_ready(&mut self, now: Time, token: Token, readiness: Readiness) {
        if (UNIX_ACCEPTOR.0..CLIENTS_FROM).contains(&token.0) {
            self.accept_at = Some(self.accept_at.unwrap_or(now));
            return;
        }
        let Some(number) = token.0.checked_sub(CLIENTS_FROM) else {
            return;
        };
        let id = ClientId(number as u64);
        if self.lingering.handle_ready(id) {
            return;
        }
        if readiness.closed && self.streams.contains_key(&id) {
            self.ended.insert(id);
        }
        if (readiness.readable || readiness.closed) && !self.rests.contains(id) {
            self.readable.push(id);
        }
        if (readiness.writable || readiness.closed) && self.blocked.contains(&id) {
            self.writable.push(id);
        }
    }

    /// Reads clients up to [`READ_FIRST`], before the network is read.
    pub(crate) fn take_first_input(&mut self, now: Time, engine: &mut Engine) {
        let left = self.read_in_turn(now, engine, READ_FIRST);
        self.left = READ_TOTAL - (READ_FIRST - left);
    }

    /// Accepts connections, and reads clients up to the rest of [`READ_TOTAL`]. Ends the turn.
    pub(crate) fn take_input(&mut self, now: Time, engine: &mut Engine) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = self.accept(now, engine);
        }
        while let Some(id) = self.rests.take_rested(now) {
            self.readable.push(id);
        }
        let left = std::mem::replace(&mut self.left, READ_TOTAL);
        self.read_in_turn(now, engine, left);
        if now >= self.look_at {
            self.look_at = now + LOOK_INTERVAL;
            self.end_silent(now, engine, SILENCE_MAX);
        }
    }

    /// Ends the connections of clients whose hosts have owed an answer for so long. The system
    /// would wait for one for a quarter of an hour.
    fn end_silent(&mut self, now: Time, engine: &mut Engine, longest: Duration) {
        let silent = self.over_tcp.iter().copied().filter(|id| {
            let silence = self.streams.get(id).and_then(Stream::silence);
            silence.is_some_and(|silence| silence >= longest)
        });
        for id in silent.collect::<Vec<_>>() {
            self.end(now, id, engine);
        }
    }

    /// Reads clients in turn until each was read once or `left` is used up; returns the rest of
    /// `left`.
    fn read_in_turn(&mut self, now: Time, engine: &mut Engine, mut left: usize) -> usize {
        let reserved = match self.readable.len_heavy() {
            0 => 0,
            _ => left / HEAVY_SHARE,
        };
        // Each client has one turn at most: a client with more to read goes behind the others.
        for _ in 0..self.readable.len() {
            if left == 0 {
                break;
            }
            let Some(id) = self.readable.pop(left > reserved) else {
                break;
            };
            if self.rests.contains(id) {
                continue;
            }
            let share = self.read(now, id, engine, left.min(READ_SHARE));
            left = left.saturating_sub(share.taken);
            if !self.streams.contains_key(&id) {
                continue;
            }
            let rest = share.rest();
            self.readable
                .note(id, share.taken >= HEAVY || !rest.is_zero());
            if !rest.is_zero() {
                self.rests.rest(now, id, rest);
            } else if share.more {
                self.readable.push(id);
            }
        }
        left
    }

    /// Writes the engine's output to its clients, to each its share, and closes the connections
    /// that the engine ends.
    pub(crate) fn give_output(&mut self, now: Time, engine: &mut Engine) {
        while let Some(id) = engine.poll_output() {
            if !self.blocked.contains(&id) {
                self.writable.push(id);
            }
        }
        let mut left = WRITE_TOTAL;
        for _ in 0..self.writable.len() {
            if left == 0 {
                break;
            }
            let Some(id) = self.writable.pop() else {
                break;
            };
            left = left.saturating_sub(self.write(now, id, engine));
        }
        while let Some(id) = engine.poll_close() {
            let Some(mut stream) = self.forget(now, id) else {
                continue;
            };
            if stream.has_unsent()
                && let Err(error) = stream.watch_room(&self.registry, token_of(id), true)
            {
                tracing::warn!("cannot wait for a client: {error}");
            }
            self.lingering.add(now, id, stream);
        }
        self.lingering.handle_turn(now);
    }

    /// Flushes the traces that are due, and tells clients whose trace has failed by that.
    pub(crate) fn tend_traces(&mut self, now: Time) {
        let failed = self.traces.as_ref().is_some_and(|traces| traces.tend(now));
        if !failed {
            return;
        }
        for (id, stream) in &mut self.streams {
            if stream.tend_trace() && !self.blocked.contains(id) {
                self.writable.push(*id);
            }
        }
    }

    /// Why no client could be accepted, if that was so since the last call.
    pub(crate) fn take_trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    /// Whether some client has output that may be written now.
    pub(crate) fn has_output(&self) -> bool {
        self.writable.len() > 0
    }

    /// How long the loop may sleep, for the clients; `None` if without limit.
    pub(crate) fn patience(&self, now: Time, engine: &mut Engine) -> Option<Duration> {
        let readable = self.readable.iter().any(|id| engine.space(id).is_some());
        if readable || self.has_output() || engine.has_output() {
            return Some(Duration::ZERO);
        }
        let rested = self.rests.due();
        let traces = self.traces.as_ref().and_then(Traces::due);
        let lingering = self.lingering.poll_timeout();
        let look = (!self.over_tcp.is_empty()).then_some(self.look_at);
        let all = [rested, self.accept_at, lingering, traces, look];
        let first = all.into_iter().flatten().min();
        first.map(|at| at - now)
    }

    /// The TCP address for clients, if there is one.
    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(TcpAcceptor::address)
    }

    /// Clients that connect by TLS from now on, those of the bus too, are shown the certificate of
    /// `tls`, and held to its authorities.
    pub(crate) fn set_tls(&mut self, tls: &Server) {
        if let Some(tcp) = &mut self.tcp {
            tcp.set_tls(tls.clone());
        }
        let bus = self.bus.iter_mut().filter_map(BusAcceptor::tls_mut);
        bus.for_each(|tcp| tcp.set_tls(tls.clone()));
    }

    /// The reasons for which clients over TCP, those of the bus too, will refuse the daemon's
    /// certificate now.
    pub(crate) fn doubts(&self) -> Vec<Doubt> {
        let bus = self.bus.iter().filter_map(BusAcceptor::tcp);
        let by_tls = self.tcp.iter().chain(bus);
        let mut by_tls = by_tls.filter(|it| it.tls().is_some()).peekable();
        // All of them show the same certificate.
        let Some(tls) = by_tls.peek().and_then(|it| it.tls()) else {
            return Vec::new();
        };
        let addresses = by_tls.filter_map(TcpAcceptor::address);
        let addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
        tls.doubts(SystemTime::now(), &addresses)
    }

    /// The counters since the start.
    pub(crate) fn calls(&self) -> ClientCalls {
        self.calls
    }

    /// Whether there are connections that this side has ended and the other side has not.
    pub(crate) fn are_lingering(&self) -> bool {
        self.lingering.count() > 0
    }

    /// Goes on with those connections, whatever woke the caller.
    pub(crate) fn go_on_lingering(&mut self, now: Time) {
        self.lingering.go_on(now);
    }

    /// How many connections there are, lingering ones included.
    pub(crate) fn count(&self) -> usize {
        self.streams.len() + self.lingering.count()
    }

    /// Accepts connections. Returns when to go on; `None` if no connection waits.
    fn accept(&mut self, now: Time, engine: &mut Engine) -> Option<Time> {
        for _ in 0..ACCEPT_SHARE {
            if let Some(at) = self.pace.due(now) {
                return Some(at);
            }
            match self.accept_one()? {
                Ok(stream) => {
                    self.pace.count(now);
                    self.admit(now, stream, engine);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return None,
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => {
                        self.trouble = Some(error);
                        return Some(now + ACCEPT_PAUSE);
                    }
                },
            }
        }
        Some(now)
    }

    /// Accepts a connection from the next listener with one; `None` if none waits.
    fn accept_one(&mut self) -> Option<io::Result<Stream>> {
        let tcp = usize::from(self.tcp.is_some());
        let count = 1 + tcp + self.bus.len();
        let first = self.accept_from;
        for index in (first..first + count).map(|index| index % count) {
            let accepted = match (index.checked_sub(1 + tcp), &self.tcp) {
                (Some(bus), _) => self.bus[bus].accept(self.token.clone(), self.traces.clone()),
                (None, Some(tcp)) if index > 0 => tcp.accept(),
                _ => self.unix.accept(),
            };
            let error = accepted.as_ref().err();
            if error.is_none_or(|error| error.kind() != ErrorKind::WouldBlock) {
                self.accept_from = index + 1;
                return Some(accepted);
            }
        }
        None
    }

    fn admit(&mut self, now: Time, mut stream: Stream, engine: &mut Engine) {
        let whence = Whence {
            address: stream.address(),
            user: stream.user(),
            certificate: None,
        };
        let Some(id) = engine.connected_from(now, stream.transport(), whence) else {
            // Nothing is kept for it: a socket that is new has room for a few bytes.
            let _ = stream.write(&engine.answer_if_full());
            stream.end_output();
            return;
        };
        if let Err(error) = stream.register(&self.registry, token_of(id)) {
            // Its last word is written without waiting for it.
            let text = format!("the system cannot wait for this client: {error}");
            engine.give_up(now, id, text);
        } else if stream.has_unread() {
            self.readable.push(id);
        }
        self.rests.connected(id);
        if stream.transport() == Transport::Tcp {
            self.over_tcp.insert(id);
        }
        self.streams.insert(id, stream);
    }

    /// The other side has ended the connection, or it has failed.
    fn end(&mut self, now: Time, id: ClientId, engine: &mut Engine) {
        self.forget(now, id);
        engine.closed(now, id);
    }

    /// Forgets a client's connection. Closing its socket takes it out of the poll.
    fn forget(&mut self, now: Time, id: ClientId) -> Option<Stream> {
        // Its place in the queues is skipped when its turn comes.
        self.blocked.remove(&id);
        self.ended.remove(&id);
        self.held.remove(&id);
        self.long.remove(&id);
        self.over_tcp.remove(&id);
        self.readable.forget(id);
        self.rests.forget(now, id);
        self.streams.remove(&id)
    }
}

/// The token of a client's socket in the poll.
fn token_of(id: ClientId) -> Token {
    Token(CLIENTS_FROM + id.0 as usize)
}

/// How many files a further ring may have open: its sockets and those that replace them where the
/// address of the interface has changed, what waits for them, and a history.
const FILES_PER_RING: usize = 6;

/// How many files a daemon with this many clients may have open: theirs, those of operators' tools
/// and of connections that are refused or linger, those of further rings, which joins may make, and
/// others: sockets between daemons, listeners, histories, traces, standard streams.
fn files_wanted(clients: usize) -> u64 {
    const OTHERS: usize = 192;
    let rings = RINGS_PER_DAEMON_MAX * FILES_PER_RING;
    (clients + OPERATORS_MAX + REFUSED_MAX + linger::COUNT_MAX + rings + OTHERS) as u64
}

/// Raises the limit of open files to what `clients` connections need, as far as the hard limit
/// allows.
pub(crate) fn raise_file_limit(clients: usize) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let wanted = files_wanted(clients);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let granted = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(granted),
            maximum: limit.maximum,
        },
    )?;
    if granted < wanted {
        tracing::warn!(
            "this process may open {granted} files, {wanted} are needed for {clients} clients and \
             {RINGS_PER_DAEMON_MAX} further rings: raise its limit (ulimit -n), or set clients.max lower"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
