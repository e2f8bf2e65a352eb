//! The daemon's further rings: joining and leaving each, and the sockets, the node and the member
//! that a ring has while the daemon is in it.
//!
//! ```text
//!        clients ask for it                      unused for LINGER
//! Out ──────────────────────▶ In ─────────────────────────────────────▶ Leaving
//!  ▲                                                                       │
//!  └───────────────────────────────────────────────────────────────────────┘
//!                          it has left, or too long ago
//! ```
//!
//! A ring has sockets, a node and a member of its own. They exist only while the daemon is in the
//! ring: otherwise the host does not even listen to the ring's address. Each stay is the life of a
//! new member, because the numbers of a seal must be used only once. The ring's datagrams begin
//! with a label that follows from its top, so rings with the same address hear each other's
//! datagrams, and drop them.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use groupcast_check::ndjson::OrderedBy;
use groupcast_core::family::OrderLimits;
use groupcast_core::node::NodeCounters;
use groupcast_core::status::{GroupStatus, Hearing};
use groupcast_core::trace::{Observable, Observation, Transition};
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Node, NodeId, Ordered as _, Protocol, Rng, Service,
    SubmitError, Time, Transmit, TransmitBuf,
};
use groupcast_net::{Endpoint, EndpointConfig, Group, Spin, new_member, random_u64};
use groupcast_protocols::channel;
use mio::unix::SourceFd;
use mio::{Interest, Token};

use crate::backlog::Backlog;
use crate::config::{Config, DaemonConfigError, Order, Ring as RingConfig};
use crate::error::DaemonError;
use crate::hearing;
use crate::history::History;
use crate::instance::is_long;
use crate::keys::Keys;
use crate::label::{LABEL_LEN, Label, label};
use crate::rounds::{Rounds, Slow};

/// A daemon stays in a ring for this long after its clients stopped wanting anything of it, since
/// joining again costs a message and an exchange of states.
pub(crate) const LINGER: Duration = Duration::from_secs(10);
/// A ring that could not be joined is tried again after this long.
const RETRY: Duration = Duration::from_secs(5);
/// The endpoint is closed at the latest this long after the protocol's own time-out for leaving.
const LEAVE_MARGIN: Duration = Duration::from_secs(1);

/// A ring of the daemon.
pub(crate) struct Ring {
    pub(crate) config: RingConfig,
    endpoint_config: EndpointConfig,
    /// The file of its history.
    history: Option<PathBuf>,
    /// The token of its sockets in the daemon's poll.
    token: Token,
    /// The daemon's member in it: of this stay, or, while the daemon is out, of the next one.
    member: MemberId,
    stay: Stay,
    /// Why the last attempt to join it failed, if it did.
    trouble: Option<String>,
    /// Its sockets have woken the daemon, or a message was handed over, which may have caused
    /// events at once.
    is_ready: bool,
    backlog: Backlog,
    ready: Vec<(Token, groupcast_net::Readiness)>,
}

/// Whether the daemon is in a ring.
enum Stay {
    /// It is not in the ring, and does not join before this time.
    Out(Time),
    /// It is in the ring.
    In {
        open: Box<Open>,
        /// When its clients stopped wanting anything of it, if they have.
        unused_since: Option<Time>,
    },
    /// It is leaving the ring.
    Leaving {
        open: Box<Open>,
        /// When it is out at the latest.
        end: Time,
        /// Whether clients still get the ring's events.
        for_clients: bool,
    },
}

/// The parts of a ring that exist while the daemon is in it.
struct Open {
    endpoint: Endpoint<Labelled>,
    history: Option<History>,
    has_left: bool,
    rounds: Rounds,
}

/// The state of a ring that the daemon is in, for the status.
pub(crate) struct StayStatus {
    /// The state of its member.
    pub(crate) group: GroupStatus,
    /// Which daemons are left out.
    pub(crate) hearing: Hearing,
    /// The time of its endpoint, which `hearing` is in.
    pub(crate) now: Time,
    /// How many datagrams of other rings came.
    pub(crate) foreign: u64,
    /// The counters of its node.
    pub(crate) node: NodeCounters,
}

/// Events of a ring that are for the daemon itself.
#[derive(Debug)]
pub(crate) enum RingNews {
    /// The protocol's state changed.
    Transition(Transition),
    /// The daemon has left the ring.
    Left,
    /// Another daemon with the same name is in the ring, as this member.
    NameInUse(MemberId),
}

/// The member of a ring, with the ring's label before each body.
pub(crate) struct Labelled {
    label: Label,
    member: Box<dyn Instrumented>,
    /// How many datagrams were of other rings, or too short for a label.
    foreign: u64,
}

impl Ring {
    /// The ring with the index `index`, which the daemon is not in yet.
    pub(crate) fn new(
        config: &Config,
        ring: RingConfig,
        index: usize,
    ) -> Result<Self, DaemonError> {
        let reserved_from = Endpoint::<Labelled>::RESERVED_FROM;
        Ok(Self {
            endpoint_config: EndpointConfig {
                group: Group::Multicast(ring.multicast),
                // The daemon's own endpoint waits for all rings.
                spin: Spin::Off,
                ..config.endpoint.clone()
            },
            history: config
                .history
                .as_deref()
                .map(|path| history_path(path, &ring.top)),
            config: ring,
            token: Token(reserved_from.0 - 1 - index),
            member: new_member(&config.name)?,
            stay: Stay::Out(Time::ZERO),
            trouble: None,
            is_ready: false,
            backlog: Backlog::default(),
            ready: Vec::new(),
        })
    }

    /// The daemon's member in it, of this stay or of the next one.
    pub(crate) fn member(&self) -> MemberId {
        self.member
    }

    /// The token of its sockets in the daemon's poll.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Its sockets woke the daemon.
    pub(crate) fn wake(&mut self) {
        self.is_ready = true;
    }

    /// Whether the daemon may join it now, if clients ask for it.
    pub(crate) fn may_join(&self, now: Time) -> bool {
        self.may_join_at().is_some_and(|at| now >= at)
    }

    /// When the daemon may join it, if clients ask for it; `None` unless it is out.
    pub(crate) fn may_join_at(&self) -> Option<Time> {
        match self.stay {
            Stay::Out(not_before) => Some(not_before),
            Stay::In { .. } | Stay::Leaving { .. } => None,
        }
    }

    /// Whether the daemon is neither in it nor leaving it.
    pub(crate) fn is_out(&self) -> bool {
        matches!(self.stay, Stay::Out(_))
    }

    /// Whether the daemon is in it and not leaving.
    pub(crate) fn is_in(&self) -> bool {
        matches!(self.stay, Stay::In { .. })
    }

    /// Why the daemon's last attempt to join it failed, or what keeps the daemon that is in it from
    /// its network.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match self.open() {
            Some(open) => open.endpoint.trouble(),
            None => self.trouble.as_deref(),
        }
    }

    /// Looks whether the interface of its sockets is still there, and joins the multicast group
    /// anew at one that has come back.
    pub(crate) fn watch_interface(&mut self) {
        if let Some(open) = self.open_mut() {
            open.endpoint.watch_interface();
        }
    }

    /// Whether both write the same history file.
    pub(crate) fn shares_history(&self, other: &Self) -> bool {
        self.history.is_some() && self.history == other.history
    }

    /// Its history, while the daemon is in it or leaving.
    pub(crate) fn history(&self) -> Option<&History> {
        self.open()?.history.as_ref()
    }

    /// The word for the daemon's stay.
    pub(crate) fn stay_name(&self) -> &'static str {
        match self.stay {
            Stay::Out(_) => "out",
            Stay::In { .. } => "in",
            Stay::Leaving { .. } => "leaving",
        }
    }

    fn open(&self) -> Option<&Open> {
        match &self.stay {
            Stay::Out(_) => None,
            Stay::In { open, .. } | Stay::Leaving { open, .. } => Some(open),
        }
    }

    fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.stay {
            Stay::Out(_) => None,
            Stay::In { open, .. } | Stay::Leaving { open, .. } => Some(open),
        }
    }

    /// Its state; `None` while the daemon is out.
    pub(crate) fn status(&self) -> Option<StayStatus> {
        let endpoint = &self.open()?.endpoint;
        let (now, node) = (endpoint.now(), endpoint.node());
        let labelled = node.instance(channel::RINGS)?;
        Some(StayStatus {
            group: labelled.member.status(),
            hearing: hearing::of(&*labelled.member, now),
            now,
            foreign: labelled.foreign,
            node: node.counters(),
        })
    }

    /// Whether its time-outs are too short for its rounds of the token, about once a minute.
    pub(crate) fn slow_rounds(&mut self, now: Time) -> Option<Slow> {
        let open = self.open_mut()?;
        let labelled = open.endpoint.node().instance(channel::RINGS)?;
        open.rounds.look(now, || labelled.member.status())
    }

    /// The node that seals and opens its datagrams, while the daemon is in it or leaving.
    pub(crate) fn node_mut(&mut self) -> Option<&mut Node<Labelled>> {
        Some(self.open_mut()?.endpoint.node_mut())
    }

    /// Joins the ring, if it is time for that: opens sockets, whose node seals and opens under
    /// `keys`, and the history. Returns whether it joined.
    ///
    /// # Errors
    /// If sockets or history cannot be opened. [`may_join`](Self::may_join) allows another attempt
    /// after [`RETRY`].
    pub(crate) fn join(
        &mut self,
        now: Time,
        name: &str,
        keys: &Keys,
        registry: &mio::Registry,
    ) -> Result<bool, DaemonError> {
        let Stay::Out(not_before) = self.stay else {
            return Ok(false);
        };
        if now < not_before {
            return Ok(false);
        }
        self.stay = Stay::Out(now + RETRY);
        let opened = self.opened(name, keys).and_then(|open| {
            let fd = open.endpoint.as_raw_fd();
            registry
                .register(&mut SourceFd(&fd), self.token, Interest::READABLE)
                .map_err(DaemonError::system("wait for the sockets of a ring"))?;
            Ok(open)
        });
        self.trouble = opened.as_ref().err().map(ToString::to_string);
        self.stay = Stay::In {
            open: Box::new(opened?),
            unused_since: None,
        };
        self.is_ready = true;
        self.backlog = Backlog::default();
        Ok(true)
    }

    fn opened(&self, name: &str, keys: &Keys) -> Result<Open, DaemonError> {
        let rng = Rng::new(random_u64()?);
        let builder = Endpoint::builder(
            self.endpoint_config.clone(),
            self.member,
            keys.sealing().clone(),
        );
        let mut endpoint = builder.rng(rng.clone()).free_port().open()?;
        // Takes down which interface that is.
        endpoint.watch_interface();
        let Order { family, config } = &self.config.order;
        let mut config = config.clone();
        let limits = config.limits();
        let fitting = endpoint.body_max().unwrap_or(limits.body_max);
        config.set_limits(OrderLimits {
            body_max: limits.body_max.min(fitting).saturating_sub(LABEL_LEN),
            ..limits
        });
        let members = config
            .members()
            .map_err(|error| DaemonConfigError::unchecked("rings", &error))?;
        let history = match &self.history {
            None => None,
            Some(path) => {
                let order = OrderedBy {
                    name: family.name(),
                    contract: family.family.contract,
                    ring: Some(&self.config.top),
                };
                Some(History::open(path, self.member, name, order)?)
            }
        };
        let now = endpoint.now();
        let member = members.factory(1)(self.member, rng.fork(family.name()), now);
        let node = endpoint.node_mut();
        keys.give_other(node)
            .map_err(|error| DaemonConfigError::unchecked("key", &error))?;
        if let Some(history) = &history {
            node.observe_with(Box::new(history.clone()));
        }
        let labelled = Labelled {
            label: label(&self.config.top),
            member,
            foreign: 0,
        };
        node.open(channel::RINGS, labelled);
        Ok(Open {
            endpoint,
            history,
            has_left: false,
            rounds: Rounds::default(),
        })
    }

    /// Notes whether clients want anything of the ring; returns whether they have wanted nothing
    /// for long enough to leave it.
    pub(crate) fn tend(&mut self, now: Time, is_used: bool) -> bool {
        let Stay::In { unused_since, .. } = &mut self.stay else {
            return false;
        };
        if is_used {
            *unused_since = None;
            return false;
        }
        now >= *unused_since.get_or_insert(now) + LINGER
    }

    /// Begins to leave. With `for_clients`, clients still get the ring's events until it is left.
    pub(crate) fn leave(&mut self, now: Time, for_clients: bool) {
        match std::mem::replace(&mut self.stay, Stay::Out(now)) {
            Stay::In { mut open, .. } => {
                let at = open.endpoint.now();
                if let Some(labelled) = open.endpoint.node_mut().instance_mut(channel::RINGS) {
                    labelled.member.leave(at);
                }
                self.stay = Stay::Leaving {
                    open,
                    end: now + self.leave_max(),
                    for_clients,
                };
            }
            other => self.stay = other,
        }
    }

    /// The longest time that leaving takes.
    pub(crate) fn leave_max(&self) -> Duration {
        self.config.order.config.limits().leave_timeout + LEAVE_MARGIN
    }

    /// The next stay is that of a new member, which is returned.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn renew(&mut self, name: &str) -> Result<MemberId, DaemonError> {
        self.member = new_member(name)?;
        Ok(self.member)
    }

    /// Closes the ring at once, without leaving, and does not join it again before [`RETRY`].
    pub(crate) fn abandon(&mut self, now: Time) {
        self.close();
        self.stay = Stay::Out(now + RETRY);
    }

    /// Writes and flushes its history.
    pub(crate) fn close(&mut self) {
        if let Some(open) = self.open_mut()
            && let Some(history) = &open.history
        {
            history.finish();
        }
    }

    /// Reads the sockets and runs timers, without waiting, if any are due and not too much waits: a
    /// token that has come goes on. What came is for the next [`turn`](Self::turn).
    pub(crate) fn read(&mut self) -> io::Result<()> {
        let open = match &mut self.stay {
            Stay::Out(_) => return Ok(()),
            Stay::In { open, .. } | Stay::Leaving { open, .. } => open,
        };
        let is_due = self.is_ready || open.endpoint.due_within().is_zero();
        if is_due && self.backlog.may_read() {
            self.is_ready = false;
            // The daemon's own endpoint waited for it, and counts gaps.
            open.endpoint.waited_elsewhere();
            let before = open.endpoint.bytes_read();
            open.endpoint.turn(Some(Duration::ZERO), &mut self.ready)?;
            self.backlog.read(open.endpoint.bytes_read() - before);
        }
        Ok(())
    }

    /// One turn, without waiting: [reads](Self::read), and each event for clients goes to `sink`,
    /// in order; the second argument of `sink` writes further lines into the ring's history at that
    /// place. Those for which there is no time, as `has_time` and then `sink` say, wait for a later
    /// turn, unless this stay ends. Returns the events for the daemon itself.
    pub(crate) fn turn(
        &mut self,
        now: Time,
        mut has_time: bool,
        mut sink: impl FnMut(Event, &mut dyn FnMut(&Observation)) -> bool,
    ) -> io::Result<Vec<RingNews>> {
        let mut news = Vec::new();
        self.read()?;
        let was_behind = self.backlog.is_behind();
        self.take_events(now, &mut has_time, &mut sink, &mut news);
        // Where too much waited, the sockets are read as soon as it does not.
        if was_behind && self.is_ready {
            self.read()?;
            self.take_events(now, &mut has_time, &mut sink, &mut news);
        }
        if let Some(open) = self.open_mut() {
            while let Some((_, transition)) = open.endpoint.node_mut().poll_transition() {
                news.push(RingNews::Transition(transition));
            }
            if let Some(history) = &open.history {
                history.tend(now);
            }
        }
        if let Stay::Leaving { open, end, .. } = &mut self.stay
            && (open.has_left || now >= *end)
        {
            let at = open.endpoint.now();
            open.endpoint.flush(at);
            self.close();
            self.stay = Stay::Out(now);
            news.push(RingNews::Left);
        }
        Ok(news)
    }

    /// Hands over what came, as far as there is time for it.
    fn take_events(
        &mut self,
        now: Time,
        has_time: &mut bool,
        sink: &mut impl FnMut(Event, &mut dyn FnMut(&Observation)) -> bool,
        news: &mut Vec<RingNews>,
    ) {
        let (open, for_clients, mut ends) = match &mut self.stay {
            Stay::Out(_) => return,
            Stay::In { open, .. } => (open, true, false),
            Stay::Leaving {
                open,
                end,
                for_clients,
            } => (open, *for_clients, now >= *end),
        };
        let local = open.endpoint.node().local();
        while (*has_time || ends)
            && let Some((_, RingEvent(event))) = open.endpoint.node_mut().poll_event()
        {
            self.backlog.take(local, &event);
            if let Some(history) = &open.history {
                history.observe_long(&event);
            }
            match &event {
                Event::Left => open.has_left = true,
                Event::NameInUse { holder } => {
                    news.push(RingNews::NameInUse(*holder));
                    ends = true;
                }
                _ if for_clients => {
                    let node = open.endpoint.node_mut();
                    *has_time = sink(event, &mut |observation| node.observe(observation));
                }
                _ => {}
            }
        }
        self.backlog.taken(*has_time || ends);
    }

    /// Writes an observation into its history.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        if let Some(open) = self.open_mut() {
            open.endpoint.node_mut().observe(observation);
        }
    }

    /// Accepts a message for the ring.
    pub(crate) fn submit(
        &mut self,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let Stay::In { open, .. } = &mut self.stay else {
            // The message waits for the next stay.
            return Err(SubmitError::Full { queued: 0 });
        };
        let id = open.submit(service, payload)?;
        self.is_ready = true;
        Ok(id)
    }

    /// Sends all datagrams that the ring has to send.
    pub(crate) fn flush(&mut self) {
        if let Some(open) = self.open_mut() {
            let now = open.endpoint.now();
            open.endpoint.flush(now);
        }
    }

    /// How long the loop may sleep.
    pub(crate) fn patience(&self, now: Time) -> Option<Duration> {
        let open = self.open()?;
        let history = open.history.as_ref().and_then(|history| history.tend(now));
        let end = match &self.stay {
            Stay::Leaving { end, .. } => Some(*end - now),
            Stay::Out(_) | Stay::In { .. } => None,
        };
        let due = match self.is_ready {
            true => Duration::ZERO,
            false => open.endpoint.due_within(),
        };
        [Some(due), history, end].into_iter().flatten().min()
    }
}

impl Open {
    fn submit(&mut self, service: Service, payload: Bytes) -> Result<MessageId, SubmitError> {
        let now = self.endpoint.now();
        let node = self.endpoint.node_mut();
        let labelled = node.instance_mut(channel::RINGS);
        let member = &mut labelled.ok_or(SubmitError::Leaving)?.member;
        let Some(history) = &self.history else {
            return member.submit(now, service, payload);
        };
        let id = member.submit(now, service, payload.clone())?;
        history.observe_submission(node, id, service, &payload);
        Ok(id)
    }
}

/// The file of the history of the ring with this top, beside the daemon's own at `path`: `h.ndjson`
/// becomes `h.wb.cb.uiuc.ndjson`. A top with letters that a file's name should not have is replaced
/// by its hash.
pub(crate) fn history_path(path: &Path, top: &str) -> PathBuf {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let top = match top.chars().all(is_plain) {
        true => top.to_owned(),
        // The hash of the whole name keeps two names apart that differ only in such letters.
        false => format!("{:016x}", NodeId::from_name(top).0),
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{top}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{top}"),
    };
    path.with_file_name(name)
}

/// An event of a ring's member.
#[derive(Debug)]
pub(crate) struct RingEvent(Event);

impl Observable for RingEvent {
    /// Lines of long messages are left out here: they wait for their digests, and the ring's turn
    /// writes them.
    fn observation(&self) -> Option<Observation> {
        match &self.0 {
            Event::Deliver(delivery) if is_long(&delivery.payload) => None,
            event => event.observation(),
        }
    }
}

impl Protocol for Labelled {
    type Event = RingEvent;

    fn handle_datagram(&mut self, now: Time, from: MemberId, mut body: Bytes) {
        if body.first_chunk::<LABEL_LEN>() == Some(&self.label) {
            body.advance(LABEL_LEN);
            self.member.handle_datagram(now, from, body);
        } else {
            self.foreign += 1;
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.member.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        buf.set_label(&self.label);
        let transmit = self.member.poll_transmit(now, buf);
        // The buffer belongs to the node, which sends datagrams without a label, too.
        buf.set_label(&[]);
        transmit
    }

    fn poll_event(&mut self) -> Option<RingEvent> {
        self.member.poll_event().map(RingEvent)
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.member.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.member.poll_timeout()
    }

    fn read_first(&self) -> groupcast_core::SocketClass {
        self.member.read_first()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
    use std::time::Instant;

    use groupcast_core::status::Figure;

    use super::*;
    use crate::config::{Listen, Options, RingOptions};

    /// The configuration of a daemon with one ring, at addresses that end so.
    fn config_of(name: &str, last: u8) -> Config {
        let port = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap().port()
        };
        let address = |last| SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, last), port());
        let options = Options {
            name: Some(name.into()),
            listen: Some(Listen {
                ip: Ipv4Addr::LOCALHOST.into(),
                port: Some(port()),
            }),
            multicast: Some(address(last)),
            socket: Some(std::env::temp_dir().join(format!("gc-{name}"))),
            insecure: Some(true),
            rings: Some(vec![RingOptions {
                top: "wb.cb".into(),
                multicast: address(last + 1),
                settings: std::collections::BTreeMap::new(),
            }]),
            ..Options::default()
        };
        Config::build(None, options).unwrap()
    }

    /// A ring that has just been joined, and what wakes it.
    fn joined(name: &str, last: u8) -> (Ring, mio::Poll) {
        let config = config_of(name, last);
        let keys = Keys::load(&config).unwrap();
        let poll = mio::Poll::new().unwrap();
        let mut ring = Ring::new(&config, config.rings[0].clone(), 0).unwrap();
        let joined = ring.join(Time::ZERO, name, &keys, poll.registry());
        assert!(joined.unwrap());
        (ring, poll)
    }

    /// The clients have no time for what waits; it is handed over when the stay ends, and would
    /// never be otherwise.
    #[test]
    fn of_a_ring_that_is_not_left_in_time_clients_get_all_that_waits() {
        const MESSAGES: usize = 20;
        let (mut ring, _poll) = joined("in-time", 98);
        let deliveries = |event: &Event| usize::from(matches!(event, Event::Deliver(_)));
        let begun = Instant::now();
        let mut submitted = 0;
        // Those of the first are taken: then the ring is there.
        let mut taken = 0;
        while taken == 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "no message comes"
            );
            if submitted == 0 {
                let payload = Bytes::from_static(b"first");
                submitted = usize::from(ring.submit(Service::Agreed, payload).is_ok());
            }
            ring.turn(Time::ZERO, true, |event, _| {
                taken += deliveries(&event);
                true
            })
            .unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..MESSAGES {
            let payload = Bytes::from_static(b"waits");
            ring.submit(Service::Agreed, payload).unwrap();
        }
        let nobody = |_: Event, _: &mut dyn FnMut(&Observation)| panic!("there is no time");
        let figure = |ring: &Ring, name: &str| {
            let figures = ring.status().unwrap().group.figures;
            let found = figures.iter().find(|(it, _)| *it == name);
            found.expect("the ring has it").1
        };
        let all_came = |ring: &Ring| {
            figure(ring, "queued") == Figure::Number(0)
                && figure(ring, "held") == figure(ring, "high")
        };
        while !all_came(&ring) {
            assert!(begun.elapsed() < Duration::from_secs(30), "not all come");
            ring.turn(Time::ZERO, false, nobody).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        ring.leave(Time::ZERO, true);
        let max = ring.leave_max();
        let before = Time::ZERO + (max - Duration::from_millis(1));
        ring.turn(before, false, nobody).unwrap();
        assert!(!ring.is_out(), "it may still be left");
        let mut got = 0;
        let news = ring.turn(Time::ZERO + max, false, |event, _| {
            got += deliveries(&event);
            false
        });
        assert!(matches!(news.unwrap()[..], [.., RingNews::Left]));
        assert!(ring.is_out());
        assert_eq!(got, MESSAGES);
    }

    /// A ring has turns only when it is due, which may be seldom.
    #[test]
    fn the_time_between_the_turns_of_a_ring_is_no_scheduling_gap() {
        let (mut ring, _poll) = joined("gaps", 93);
        for _ in 0..2 {
            ring.wake();
            ring.turn(Time::ZERO, true, |_, _| true).unwrap();
            std::thread::sleep(Endpoint::<Labelled>::GAP + Duration::from_millis(50));
        }
        ring.wake();
        ring.turn(Time::ZERO, true, |_, _| true).unwrap();
        let counters = ring.open_mut().unwrap().endpoint.counters();
        assert_eq!(counters.gaps, 0, "{:?}", counters.gap_longest);
    }

    #[test]
    fn each_ring_has_a_history_of_its_own() {
        let of = |path: &str, top: &str| {
            let path = history_path(Path::new(path), top);
            path.display().to_string()
        };
        assert_eq!(of("/h/a.ndjson", "wb.cb"), "/h/a.wb.cb.ndjson");
        assert_eq!(of("a", "wb.cb"), "a.wb.cb");
        let slashed = of("a.ndjson", "../x");
        assert!(
            !slashed.contains("..") && slashed.ends_with(".ndjson"),
            "{slashed}"
        );
        assert_ne!(slashed, of("a.ndjson", "__/x"));
    }
}
