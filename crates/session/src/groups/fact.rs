//! What an engine reports to its daemon: facts for the log, and numbers for the status.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use groupcast_core::{ConfigId, MemberId};

use super::client::Transport;
use crate::frame::{ClientKind, Disconnect, Refusal};
use crate::names::RingAddress;
use crate::when_slow::WhenSlow;

/// Where a client connects from and who it is, as far as that is known: for a line of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whence {
    /// The address at the other end, over TCP.
    pub address: Option<SocketAddr>,
    /// The user at the other end of a Unix socket.
    pub user: Option<u32>,
    /// The first name of the certificate that it showed.
    pub certificate: Option<String>,
}

/// In brackets behind a space; nothing if nothing is known.
impl fmt::Display for Whence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.map(|address| format!("from {address}"));
        let user = self.user.map(|user| format!("user {user}"));
        let certificate = self.certificate.as_ref();
        let certificate = certificate.map(|name| format!("certificate {name}"));
        let known: Vec<String> = [address, user, certificate].into_iter().flatten().collect();
        match known.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", known.join(", ")),
        }
    }
}

/// Something worth a line in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fact {
    /// A client said hello and was taken.
    Connected {
        /// Its private name.
        client: Arc<str>,
        /// How it came.
        transport: Transport,
        /// Where it came from.
        whence: Whence,
    },
    /// A client is gone.
    Gone {
        /// Its private name.
        client: Arc<str>,
    },
    /// A connection was refused.
    Refused {
        /// Where it came from.
        whence: Whence,
        /// The reason of the refusal, for programs.
        code: Refusal,
        /// The text that the client was sent.
        text: String,
    },
    /// A client was disconnected by the daemon.
    Disconnected {
        /// Its private name.
        client: Arc<str>,
        /// Where it came from.
        whence: Whence,
        /// The reason, for programs.
        code: Disconnect,
        /// The text that the client was sent.
        text: String,
    },
    /// Publishers of this daemon are held back for a client that does not take its messages.
    HeldBack {
        /// Its private name.
        client: Arc<str>,
        /// Bytes that wait for it.
        backlog: usize,
    },
    /// What comes for a client that does not take its messages goes to the disk, for the first
    /// time.
    Spills {
        /// Its private name.
        client: Arc<str>,
        /// Bytes that wait for it.
        backlog: usize,
    },
    /// A client that does not take its messages misses an unreliable one, its first.
    Misses {
        /// Its private name.
        client: Arc<str>,
        /// Bytes that wait for it.
        backlog: usize,
    },
    /// All states of a configuration have come; its views are installed.
    Installed {
        /// The configuration.
        config: ConfigId,
        /// How many daemons it has.
        daemons: usize,
        /// How many groups they have.
        groups: usize,
    },
    /// A configuration ended before all its states had come.
    Interrupted {
        /// The configuration.
        config: ConfigId,
        /// States that had come.
        states: usize,
        /// Its daemons.
        daemons: usize,
    },
    /// A message of another daemon made no sense; it was skipped.
    Nonsense {
        /// The daemon.
        from: MemberId,
        /// What was wrong.
        error: String,
    },
    /// The state of this daemon was longer than daemons take of each other: the clients with most
    /// in it were disconnected.
    StateTooLarge {
        /// Its bytes.
        len: usize,
        /// The most that there may be.
        max: usize,
        /// How many clients that were.
        clients: usize,
    },
    /// The ring did not take this daemon's state, in parts neither: its clients were disconnected,
    /// and it takes no more.
    StateRefused {
        /// What the protocol that orders messages said.
        error: String,
    },
    /// A group that is bimodal here is an agreed one at other daemons: two groups of one name.
    TwoGroups {
        /// Its name.
        group: Arc<str>,
        /// The private name of a client that is in the agreed one.
        client: Arc<str>,
        /// How many are.
        clients: usize,
    },
    /// A join has made a ring.
    RingMade {
        /// Its top.
        ring: Arc<str>,
        /// Where its multicasts go.
        multicast: std::net::SocketAddrV4,
    },
    /// A ring that a join had made has ended.
    RingEnded {
        /// Its top.
        ring: Arc<str>,
    },
    /// A ring is not made.
    RingRefused {
        /// Why.
        why: String,
    },
    /// Clients of this daemon move to what carries their group now.
    Moved {
        /// How many clients' groups.
        count: usize,
    },
    /// Something in a further ring.
    InRing {
        /// Its top.
        ring: Arc<str>,
        /// What.
        fact: Box<Fact>,
    },
    /// More came while states were exchanged than may be held; all clients were disconnected.
    HeldTooMuch {
        /// Bytes that were held.
        bytes: usize,
    },
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected {
                client,
                transport,
                whence,
            } => {
                write!(f, "{client} connected over {}{whence}", transport.name())
            }
            Self::Gone { client } => write!(f, "{client} is gone"),
            Self::Refused { whence, text, .. } => {
                write!(f, "refused a connection{whence}: {text}")
            }
            Self::Disconnected {
                client,
                whence,
                text,
                ..
            } => write!(f, "disconnected {client}{whence}: {text}"),
            Self::HeldBack { client, backlog } => write!(
                f,
                "publishers are held back: {backlog} bytes wait for {client}"
            ),
            Self::Spills { client, backlog } => write!(
                f,
                "what comes for {client} waits on the disk: {backlog} bytes wait for it in memory"
            ),
            Self::Misses { client, backlog } => write!(
                f,
                "{client} misses unreliable messages: {backlog} bytes wait for it"
            ),
            Self::Installed {
                config,
                daemons,
                groups,
            } => write!(
                f,
                "installed {} of {} in configuration {config}",
                counted(*groups, "group", "groups"),
                counted(*daemons, "daemon", "daemons")
            ),
            Self::Interrupted {
                config,
                states,
                daemons,
            } => write!(
                f,
                "configuration {config} ended with {states} of {daemons} states exchanged"
            ),
            Self::Nonsense { from, error } => {
                write!(f, "skipped a message of daemon {from}: {error}")
            }
            Self::StateTooLarge { len, max, clients } => write!(
                f,
                "this daemon's group state has {len} bytes, {max} are allowed: disconnected the {clients} clients with most in it"
            ),
            Self::StateRefused { error } => {
                write!(f, "this daemon's group state could not be sent: {error}")
            }
            Self::TwoGroups {
                group,
                client,
                clients,
            } => write!(
                f,
                "two groups are called {group:?}: it is bimodal here, and {clients} clients ({client} is one) are in an \
                 agreed one, which gets none of its messages; name it in bimodal.groups of every daemon, or of none"
            ),
            Self::RingMade { ring, multicast } => write!(
                f,
                "a join has made the ring {ring}, at {multicast}: it orders the groups at and below its name"
            ),
            Self::RingEnded { ring } => write!(f, "the ring {ring} has ended: nobody is in it"),
            Self::RingRefused { why } => {
                write!(f, "a ring that a join asked for is not made: {why}")
            }
            Self::Moved { count } => write!(
                f,
                "the groups of {count} clients are on another ring now: they leave the one and join the other"
            ),
            Self::InRing { ring, fact } => write!(f, "ring {ring}: {fact}"),
            Self::HeldTooMuch { bytes } => write!(
                f,
                "disconnected all clients: {bytes} bytes were held while states were exchanged"
            ),
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Clients that were taken.
    pub clients_accepted: u64,
    /// Connections that were refused.
    pub clients_refused: u64,
    /// Clients that the daemon disconnected.
    pub clients_disconnected: u64,
    /// Frames of clients that were too large or malformed.
    pub frames_bad: u64,
    /// Frames of clients of unknown kinds.
    pub frames_unknown: u64,
    /// Messages that clients published.
    pub published: u64,
    /// Patterns that were compiled for clients of the bus.
    pub patterns_compiled: u64,
    /// Messages of clients that were rejected.
    pub rejected: u64,
    /// Messages handed to subscribers, counted once for each subscriber.
    pub delivered: u64,
    /// Unreliable messages that a slow subscriber missed, or whose sender was not known yet.
    pub unreliable_dropped: u64,
    /// Views handed to subscribers, counted once for each subscriber.
    pub views: u64,
    /// Messages of daemons that made no sense.
    pub nonsense: u64,
    /// Gaps in bimodal groups that were reported to subscribers, counted once for each subscriber.
    pub gaps: u64,
    /// Messages of bimodal groups that a slow subscriber missed.
    pub bimodal_missed: u64,
    /// Facts that were dropped because the daemon did not fetch them in time.
    pub facts_lost: u64,
}

/// What an engine is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhaseName {
    /// No configuration has been installed.
    Starting,
    /// States are being exchanged; deliveries are held.
    Exchanging,
    /// Groups are as agreed.
    Steady,
    /// The order was left.
    Stopped,
}

impl PhaseName {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Exchanging => "exchanging",
            Self::Steady => "steady",
            Self::Stopped => "stopped",
        }
    }
}

/// The state of an engine, for `groupcast status`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The daemon's name.
    pub host: Arc<str>,
    /// What it is doing.
    pub phase: PhaseName,
    /// The last regular configuration.
    pub config: Option<ConfigId>,
    /// Daemons whose state is known, with their names.
    pub daemons: Vec<(MemberId, Arc<str>)>,
    /// Clients of this daemon.
    pub clients: Vec<ClientStatus>,
    /// How many groups there are.
    pub groups: usize,
    /// The further rings.
    pub rings: Vec<RingStatus>,
    /// The bimodal groups.
    pub bimodal: Vec<BimodalStatus>,
    /// Bytes held while states are exchanged.
    pub held: usize,
    /// Bytes of clients' input that wait.
    pub input: usize,
    /// Bytes of clients' output that wait on the disk.
    pub on_disk: u64,
    /// Counters since the start.
    pub counters: Counters,
}

/// The state of a further ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingStatus {
    /// Which of the daemon's rings it is.
    pub index: usize,
    /// What all daemons know of it, if a join has made it.
    pub made: Option<RingAddress>,
    /// It carries no names any more: what is left there comes to its end.
    pub is_closing: bool,
    /// Its top.
    pub top: Arc<str>,
    /// What the engine is doing there: starting, too, while the daemon is not in it.
    pub phase: PhaseName,
    /// The last regular configuration.
    pub config: Option<ConfigId>,
    /// Daemons whose state is known, with their names.
    pub daemons: Vec<(MemberId, Arc<str>)>,
    /// How many groups there are, as far as the daemon is in it.
    pub groups: usize,
    /// Bytes held while states are exchanged.
    pub held: usize,
}

/// The state of one client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientStatus {
    /// Its private name; empty before it said hello.
    pub name: Arc<str>,
    /// What it is.
    pub kind: ClientKind,
    /// How it came.
    pub transport: Transport,
    /// Groups that it asked to be in.
    pub groups: usize,
    /// Bytes of its requests that wait for the order.
    pub input: usize,
    /// Messages that were published and are not accepted yet.
    pub unaccepted: usize,
    /// Bytes that wait to be sent to it.
    pub backlog: usize,
    /// Those of them that are on the disk.
    pub on_disk: u64,
    /// Unreliable messages that it missed.
    pub dropped: u64,
    /// What it asked the daemon to do when it is slow.
    pub when_slow: WhenSlow,
    /// Publishers are held back for it.
    pub holds_back: bool,
}

/// The state of a bimodal group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BimodalStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Clients of this daemon that are in it.
    pub subscribers: usize,
    /// Members that this daemon knows of, its own included.
    pub members: usize,
    /// Clients in an agreed group of the same name, at daemons that do not take it for bimodal:
    /// they get none of its messages.
    pub agreed_elsewhere: usize,
    /// Messages of clients that wait for the gossip.
    pub waiting: usize,
}

/// A group as the daemon sees it, for `groupcast groups`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStatus {
    /// Its name.
    pub name: Arc<str>,
    /// The top of the ring that carries it, if it is not the daemon's own order.
    pub ring: Option<Arc<str>>,
    /// Of a bimodal group: the clients that this daemon has heard of; other daemons may have heard
    /// of others.
    pub approximate: bool,
    /// Private names of its members.
    pub members: Vec<Arc<str>>,
}
