//! The outputs of a connection to its user: events in the daemon's order, and answers to questions.

use bytes::Bytes;

use super::Asked;
use crate::frame::{BusClient, Disconnect, Message, Reject, Request};
use crate::guests::{Ending, RoleNotice};
use crate::view::View;

/// An event from the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientEvent {
    /// A message to a group that this client is in, or to itself.
    Message(Message),
    /// A group that this client is in (or just left) has a new view.
    View(View),
    /// Messages of a bimodal group are lost to this client for good. They came between those before
    /// and after this event.
    Gap {
        /// The name of the group.
        group: String,
        /// The name of the daemon whose clients sent them; its identity if its name is unknown.
        sender: String,
        /// The number of the first ([`Message::number`]).
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// From here on, this ring, which a join has made, carries the messages and views of a group
    /// that this client is in.
    Carried {
        /// The name of the group.
        group: String,
        /// The ring's top; `None` if the order that the welcome names carries the group again.
        ring: Option<String>,
    },
    /// A warning that this client takes its messages more slowly than they come: once a second at
    /// most, ahead of the messages that wait in the daemon.
    Behind {
        /// Bytes that wait in the daemon.
        waiting: u64,
        /// At this many waiting bytes the daemon disconnects this client.
        limit: u64,
        /// Unreliable messages that this client has missed since it connected.
        dropped: u64,
    },
    /// All messages up to this number are accepted, except the rejected ones: they are ordered, and
    /// delivered at the daemon. Reported when no other event waits, and not for every number.
    Accepted {
        /// The number of the last message that is accepted.
        up_to: u64,
    },
    /// A request of the bus was carried out, in its place among messages and views, or rejected.
    Done {
        /// The number of the request.
        token: u64,
        /// Why it was rejected.
        result: Result<(), (Reject, String)>,
    },
    /// The clients that would get a message, at this place among messages and views.
    Who {
        /// The number of the question.
        token: u64,
        /// Their ids; the private names of those without one.
        ids: Vec<String>,
    },
    /// The clients on the bus.
    BusClients {
        /// The number of the question.
        token: u64,
        /// The clients, in the order of their private names.
        clients: Vec<BusClient>,
    },
    /// This client is asked, as a member of a group, in its place among messages and views.
    Asked(Asked),
    /// A request of this client has come to its place in the order: its acknowledgement.
    Taken {
        /// The number of the request.
        number: u64,
        /// How many members are asked.
        asked: u32,
    },
    /// A member answers a request of this client.
    Answer {
        /// The number of the request.
        number: u64,
        /// The private name of the member that answers.
        from: String,
        /// The answer's bytes.
        payload: Bytes,
    },
    /// A request of this client has ended. No answer to it follows.
    Ended {
        /// The number of the request.
        number: u64,
        /// How.
        ending: Ending,
        /// How many answered, in all connections.
        answers: u32,
        /// The reason, for programs, if it was refused.
        code: Reject,
        /// Why, in words, if it was refused.
        text: String,
    },
    /// A notice about a role that this client asked for, has, or gives back.
    Role(RoleNotice),
    /// A request was not carried out.
    Rejected {
        /// The request that was rejected.
        request: Request,
        /// The reason, for programs.
        code: Reject,
        /// Why, in words.
        text: String,
    },
    /// The connection has ended. Nothing follows.
    Disconnected {
        /// The reason, for programs.
        code: Disconnect,
        /// Why, in words.
        text: String,
    },
}

/// The daemon's answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The daemon's status, in JSON.
    Status(Bytes),
    /// All groups, in JSON.
    Groups(Bytes),
    /// The progress of a change of the key, or why it does not begin, in JSON.
    Rekey(Bytes),
    /// The token of a ping.
    Pong(u64),
}
