//! Messages on a connection that stays (003 5.5.2): one sender, the receivers that were there when
//! it began or have joined it, and for each message the sender's knowledge that all have it, a
//! round trip later.
//!
//! A request ([`request`](fn@crate::request)) opens a transfer of its own each time; a program that
//! has something to say again and again opens a connection once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId};
use groupcast_net::Stranger;
use groupcast_protocols::bulk::{
    Acceptance, BulkConfig, DeliverTo, Failure, Notice, OfferError, Opening, Outcome, STOPPED,
    Transfer, TransferId,
};
use groupcast_protocols::xgm::Subgroups;

use crate::about::AboutConnection;
use crate::host::{BulkHost, PATIENCE, TransferError, TransferLink};
use crate::request::Requesting;
use crate::send::Audience;

/// A connection to be opened.
#[derive(Clone, Debug)]
pub struct Connecting {
    /// Which receivers it begins with.
    pub audience: Audience,
    /// Whether receivers that come later are refused, or join from the next message on. Joining
    /// needs the policy `xtp`.
    pub opening: Opening,
    /// Only receivers in one of these subgroups take part. Of all 64: everybody.
    pub subgroups: Subgroups,
    /// Over which network, by which settings: see [`settings`](Self::settings). A message has at
    /// most two windows of packets.
    pub link: TransferLink,
}

impl Connecting {
    /// Settings of a connection, those of a [request](Requesting::settings): the policy
    /// `multidriver`, under which all reply to each message; 2 s for receivers to come; no parity.
    pub fn settings() -> BulkConfig {
        Requesting::settings()
    }
}

/// What the sender's user does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// It sends this.
    Message(Bytes),
    /// It is asked again when something has happened, or after a tenth of a second.
    Wait,
    /// That was all.
    Close,
}

/// Something that the sender's user may want to see.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionEvent<'a> {
    /// A receiver takes part.
    Registered {
        /// The name of the receiver.
        receiver: &'a str,
        /// Where it was heard.
        address: Option<SocketAddr>,
    },
    /// Messages may be sent.
    Started {
        /// Receivers that it begins with.
        receivers: usize,
    },
    /// A receiver came too late for a connection that begins with all its receivers. It gets
    /// nothing, and is none of the connection's receivers.
    CameLate {
        /// The name of the receiver.
        receiver: &'a str,
        /// Where it was heard.
        address: Option<SocketAddr>,
    },
    /// A receiver that came late has joined.
    Joined {
        /// The name of the receiver.
        receiver: &'a str,
        /// The number of its first message.
        number: u64,
    },
    /// All receivers that are left have the message with this number, from 1, and those before it.
    AllHave {
        /// Its number.
        number: u64,
    },
    /// It is known what became of a receiver. One that is complete has every message, and its user
    /// has taken them; one that has joined all from its first on.
    Settled {
        /// The name of the receiver.
        receiver: &'a str,
        /// What became of it.
        outcome: &'a Outcome,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each host, and again after ten minutes.
    Stranger(Stranger),
}

/// How a connection ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connected {
    /// Every receiver that registered, refused or was required, and what became of it.
    pub receivers: Vec<(String, Outcome)>,
    /// Messages that were sent.
    pub sent: u64,
    /// The number of the last message that all receivers that were left had.
    pub all_have: u64,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Opens a connection, and sends what `next` gives until it closes it, or `stop` is set. `next` is
/// asked whenever there is room for another message, with the number of the last that all have;
/// `tell` hears what happens. Runs on the calling thread.
///
/// ```no_run
/// # use std::error::Error;
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use std::sync::atomic::AtomicBool;
///
/// use groupcast_transfer::xgm::Subgroups;
/// use groupcast_transfer::bulk::Opening;
/// use groupcast_transfer::{Audience, Connecting, Key, LinkReach, Next, TransferLink, connect};
///
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let connecting = Connecting {
///     audience: Audience::Count(3),
///     opening: Opening::AtStart,
///     subgroups: Subgroups::ALL,
///     link: TransferLink {
///         name: "console".into(),
///         interface: Ipv4Addr::LOCALHOST,
///         group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 6), 4824),
///         key: Some(Key::load("cluster.key".as_ref())?),
///         bulk: Connecting::settings(),
///         fit_packet: true,
///         ttl: 1,
///         dscp: 0,
///         reach: LinkReach::default(),
///     },
/// };
/// let mut steps = ["close the valve", "open the hatch"].into_iter();
/// let mut sent = 0;
/// let mut next = |all_have: u64| {
///     if all_have < sent {
///         // Each step when all have the one before.
///         return Next::Wait;
///     }
///     sent += 1;
///     steps.next().map_or(Next::Close, |step| Next::Message(step.into()))
/// };
/// let connected = connect(connecting, &AtomicBool::new(false), &mut next, &mut |_| ())?;
/// println!("{:?}", connected.receivers);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the network cannot be used, or the settings or the audience make no sense. If a message is
/// longer than two windows: the receivers are told then that the sender gave up.
pub fn connect(
    connecting: Connecting,
    stop: &AtomicBool,
    next: &mut dyn FnMut(u64) -> Next,
    tell: &mut dyn FnMut(ConnectionEvent<'_>),
) -> Result<Connected, TransferError> {
    let mut host = BulkHost::open(&connecting.link)?;
    host.count_group(&connecting.audience, stop)?;
    let mut connector = Connector::begin(host, connecting)?;
    loop {
        connector.take_notices(tell);
        if connector.is_over {
            // The last word to the receivers is on its way with the next turn.
            connector.host.turn(Duration::ZERO)?;
            return match connector.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(connector.connected),
            };
        }
        if stop.load(Ordering::Relaxed) && !connector.connected.stopped {
            connector.connected.stopped = true;
            let now = connector.host.now();
            connector.host.bulk().cancel(now, connector.id, STOPPED);
            continue;
        }
        if let Err(failure) = connector.send(next) {
            connector.is_closed = true;
            let (now, id) = (connector.host.now(), connector.id);
            let reason = failure.to_string();
            connector.host.bulk().cancel(now, id, &reason);
            connector.failure = Some(failure);
            continue;
        }
        connector.host.turn(PATIENCE)?;
        while let Some(stranger) = connector.host.poll_stranger() {
            tell(ConnectionEvent::Stranger(stranger));
        }
    }
}

struct Connector {
    host: BulkHost,
    id: TransferId,
    names: BTreeMap<MemberId, String>,
    required: BTreeMap<NodeId, String>,
    /// A message for which there was no room.
    waiting: Option<Bytes>,
    /// Why nothing more can be sent.
    failure: Option<TransferError>,
    is_closed: bool,
    is_over: bool,
    connected: Connected,
}

impl Connector {
    fn begin(mut host: BulkHost, connecting: Connecting) -> Result<Self, TransferError> {
        let (receivers, required) = connecting.audience.wanted();
        let about = AboutConnection {
            host: connecting.link.name,
        };
        let transfer = Transfer {
            about: about.encode(),
            length: None,
            rewindable: false,
            receivers,
            subgroups: connecting.subgroups,
            // A receiver has the last message before its user finds that it is too long.
            confirm: true,
            deliver_to: DeliverTo::AtOnce,
            replies: false,
            strict: false,
        };
        let now = host.now();
        let id = host.bulk().open(now, transfer, connecting.opening)?;
        Ok(Self {
            host,
            id,
            names: BTreeMap::new(),
            required,
            waiting: None,
            failure: None,
            is_closed: false,
            is_over: false,
            connected: Connected {
                receivers: Vec::new(),
                sent: 0,
                all_have: 0,
                stopped: false,
            },
        })
    }

    /// Sends what the user gives while there is room.
    fn send(&mut self, next: &mut dyn FnMut(u64) -> Next) -> Result<(), TransferError> {
        while !self.is_closed && !self.connected.stopped {
            let now = self.host.now();
            let (id, bulk) = (self.id, self.host.bulk());
            if bulk.wanted(id).is_none() {
                break;
            }
            let message = match self.waiting.take() {
                Some(message) => message,
                None => match next(self.connected.all_have) {
                    Next::Message(message) => message,
                    Next::Wait => break,
                    Next::Close => {
                        self.is_closed = true;
                        self.host.bulk().finish(now, id);
                        break;
                    }
                },
            };
            match self.host.bulk().offer_message(now, id, message.clone()) {
                Ok(number) => self.connected.sent = number,
                Err(OfferError::Unwanted { .. }) => {
                    self.waiting = Some(message);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn take_notices(&mut self, tell: &mut dyn FnMut(ConnectionEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Registered { receiver, name, .. } => {
                    let address = self.host.address(receiver);
                    let name = self.name_of(receiver, &name);
                    let receiver_name = &name;
                    tell(ConnectionEvent::Registered {
                        receiver: receiver_name,
                        address,
                    });
                    self.names.insert(receiver, name);
                }
                Notice::Started { receivers, .. } => tell(ConnectionEvent::Started { receivers }),
                Notice::Joined {
                    id,
                    receiver: Some(receiver),
                    number,
                } if id == self.id => {
                    let receiver = &self.name_of(receiver, b"");
                    tell(ConnectionEvent::Joined { receiver, number });
                }
                Notice::AllHave { id, number } if id == self.id => {
                    self.connected.all_have = number;
                    tell(ConnectionEvent::AllHave { number });
                }
                Notice::Settled {
                    id,
                    receiver,
                    outcome,
                    name,
                } if id == self.id => {
                    let name = self.name_of(receiver, &name);
                    tell(ConnectionEvent::Settled {
                        receiver: &name,
                        outcome: &outcome,
                    });
                    self.connected.receivers.push((name, outcome));
                }
                Notice::CameLate { id, receiver, name } if id == self.id => {
                    tell(ConnectionEvent::CameLate {
                        receiver: &self.name_of(receiver, &name),
                        address: self.host.address(receiver),
                    });
                }
                Notice::Sent { id } if id == self.id => self.is_over = true,
                // Other senders' transfers are no business of this one.
                _ => {}
            }
        }
    }

    /// What a receiver is called: as it registered, as it was required, or as it says now.
    fn name_of(&self, receiver: MemberId, name: &[u8]) -> String {
        let known = self.names.get(&receiver);
        let known = known.or_else(|| self.required.get(&receiver.node)).cloned();
        known.unwrap_or_else(|| match name {
            [] => receiver.to_string(),
            name => printable(name),
        })
    }
}

/// A receiver of messages.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Over which network. Of its settings the sender's rule, but for the buffers.
    pub link: TransferLink,
    /// The most bytes of a message. A connection with a longer one is given up.
    pub message_max: usize,
    /// The subgroups that this receiver is in: default one at random.
    pub subgroups: Option<Subgroups>,
}

/// Something that happens to a receiver of messages.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenEvent<'a> {
    /// It is ready for connections.
    Listening,
    /// A sender counts it among the receivers of its connection.
    Opened {
        /// What the sender is called. It is what it says, so it may be anybody.
        sender: &'a str,
    },
    /// The connection ran already: its first message here is the one with this number, and those
    /// before it do not come.
    Joined {
        /// What the sender is called.
        sender: &'a str,
        /// The number of the first message.
        number: u64,
    },
    /// A message: all of each connection from the first on, in their order, each once.
    Message {
        /// What the sender is called.
        sender: &'a str,
        /// The message's number on its connection, from 1.
        number: u64,
        /// The message.
        bytes: &'a [u8],
    },
    /// A connection was closed, and every message has come from the first on.
    Closed {
        /// What the sender is called.
        sender: &'a str,
    },
    /// A connection broke off.
    Broken {
        /// What the sender is called.
        sender: &'a str,
        /// Why, in words.
        reason: &'a str,
    },
    /// A program with another key, or of another release, sends to the group; reported once for
    /// each host, and again after ten minutes.
    Stranger(Stranger),
}

/// Takes part in the connections of a group until `stop` is set; `tell` hears what happens, on the
/// calling thread.
///
/// # Errors
/// If the network cannot be used.
pub fn listen(
    listening: Listening,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(ListenEvent<'_>),
) -> Result<(), TransferError> {
    let mut host = BulkHost::open(&listening.link)?;
    host.join(listening.subgroups);
    let mut listener = Listener {
        host,
        listening,
        open: BTreeMap::new(),
    };
    tell(ListenEvent::Listening);
    while !stop.load(Ordering::Relaxed) {
        listener.host.turn(PATIENCE)?;
        while let Some(stranger) = listener.host.poll_stranger() {
            tell(ListenEvent::Stranger(stranger));
        }
        listener.take_notices(tell);
    }
    listener.leave();
    listener.host.turn(Duration::ZERO)
}

/// A connection at a receiver.
struct Open {
    sender: String,
    /// What has come of the next message. `None`: one was too long, and nothing more is taken; of
    /// what follows it the protocol may have told already.
    part: Option<Vec<u8>>,
}

struct Listener {
    host: BulkHost,
    listening: Listening,
    open: BTreeMap<TransferId, Open>,
}

impl Listener {
    fn take_notices(&mut self, tell: &mut dyn FnMut(ListenEvent<'_>)) {
        while let Some(notice) = self.host.poll_event() {
            match notice {
                Notice::Announced { id, about, .. } => self.announced(id, &about),
                Notice::Enrolled { id } => {
                    if let Some(Open { sender, .. }) = self.open.get(&id) {
                        tell(ListenEvent::Opened { sender });
                    }
                }
                Notice::Joined {
                    id,
                    receiver: None,
                    number,
                } => {
                    if let Some(Open { sender, .. }) = self.open.get(&id) {
                        tell(ListenEvent::Joined { sender, number });
                    }
                }
                Notice::Data { id, bytes, .. } => self.take(id, &bytes),
                Notice::MessageEnded { id, number } => {
                    if let Some(Open {
                        sender,
                        part: Some(part),
                    }) = self.open.get_mut(&id)
                    {
                        let bytes = &std::mem::take(part);
                        tell(ListenEvent::Message {
                            sender,
                            number,
                            bytes,
                        });
                    }
                }
                Notice::Received { id, .. } => {
                    // Unless one was too long: then it has concluded otherwise.
                    let now = self.host.now();
                    self.host.bulk().conclude(now, id, Ok(()));
                }
                Notice::Ended { id } => self.over(id, None, tell),
                Notice::Failed { id, failure } => self.over(id, Some(failure), tell),
                _ => {}
            }
        }
    }

    /// A connection is over: it was closed, or has failed.
    fn over(
        &mut self,
        id: TransferId,
        failure: Option<Failure>,
        tell: &mut dyn FnMut(ListenEvent<'_>),
    ) {
        let Some(Open { sender, part }) = self.open.remove(&id) else {
            return;
        };
        // Where nobody answers, the end may have come together with the message that was too long.
        let failure = match part {
            None => Some(Failure::GivenUp),
            Some(_) => failure,
        };
        let (sender, reason) = (&sender, failure.as_ref().map(broken_by));
        tell(match &reason {
            None => ListenEvent::Closed { sender },
            Some(reason) => ListenEvent::Broken { sender, reason },
        });
    }

    fn announced(&mut self, id: TransferId, about: &[u8]) {
        if !AboutConnection::is_announced(about) || !self.host.bulk().carries_messages(id) {
            // It is for those that receive files, or answer requests.
            return;
        }
        let (now, name) = (self.host.now(), self.listening.link.name.clone());
        let Ok(about) = AboutConnection::decode(about) else {
            let bulk = self.host.bulk();
            bulk.refuse(now, id, "not understood", name.as_bytes());
            return;
        };
        let acceptance = Acceptance::in_order(name.into_bytes().into());
        if self.host.bulk().accept(now, id, &acceptance).is_ok() {
            let open = Open {
                sender: printable(about.host.as_bytes()),
                part: Some(Vec::new()),
            };
            self.open.insert(id, open);
        }
    }

    /// The next bytes of a message.
    fn take(&mut self, id: TransferId, bytes: &[u8]) {
        let now = self.host.now();
        self.host.bulk().consumed(now, id, bytes.len() as u64);
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let Some(part) = &mut open.part else {
            return;
        };
        let most = self.listening.message_max;
        if part.len() + bytes.len() > most {
            open.part = None;
            let reason = format!("a message has at most {most} bytes here");
            self.host.bulk().conclude(now, id, Err(&reason));
            return;
        }
        part.extend_from_slice(bytes);
    }

    /// Stops: the senders are told.
    fn leave(&mut self) {
        let now = self.host.now();
        for id in std::mem::take(&mut self.open).into_keys() {
            let reason = "the receiver was stopped";
            self.host.bulk().conclude(now, id, Err(reason));
        }
    }
}

/// Why a connection broke off, for the receiver's user.
fn broken_by(failure: &Failure) -> String {
    match failure {
        Failure::Cancelled(reason) => {
            format!("the sender gave up: {}", printable(reason.as_bytes()))
        }
        Failure::Lost => "the sender is not heard any more".into(),
        Failure::Dropped => {
            "the sender gave this receiver up: too slow, too late, or not heard".into()
        }
        Failure::Outrun => "what this receiver missed is not kept any more".into(),
        Failure::SameName => "another receiver has the same name".into(),
        Failure::Full => "there are as many receivers as the sender takes".into(),
        Failure::Excluded => "it is for other subgroups".into(),
        Failure::LargePackets { packet, buffer_max } => format!(
            "two of the sender's packets, of {packet} bytes, do not fit into this receiver's buffer_max of {buffer_max} bytes"
        ),
        Failure::GivenUp => "a message was too long for this receiver".into(),
        _ => "it came to nothing".into(),
    }
}
