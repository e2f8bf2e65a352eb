//! The words between a bulk endpoint and its user: transfers, notices, outcomes.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::trace::Observable;
use groupcast_core::{MemberId, NodeId, Time};

use crate::xgm::Subgroups;

/// With this begins the reason of a transfer that its sender [cancels](Failure::Cancelled) before
/// its time, though the same content may come again: what has come of it is worth keeping.
pub const STOPPED: &str = "it was stopped";

/// A transfer: who sends it, and that member's own count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TransferId {
    /// The member that sends it.
    pub sender: MemberId,
    /// Its sender's count of transfers, from 1.
    pub number: u32,
}

/// What a sender wants to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// What it is, for the receivers to read before they accept: opaque here. At most
    /// [`ABOUT_MAX`](super::BulkConfig::ABOUT_MAX) bytes.
    pub about: Bytes,
    /// Bytes of the stream; `None`: it ends where [`finish`](super::Bulk::finish) says.
    pub length: Option<u64>,
    /// Whether the user can offer bytes again that it has offered before, as a file can. Without,
    /// no receiver is served after the others: who is late or slow is given up.
    pub rewindable: bool,
    /// Whom to wait for before the first byte.
    pub receivers: Wanted,
    /// It is for receivers in any of these subgroups (003 4.5.1); the others do not answer. Of all
    /// 64: for every receiver.
    pub subgroups: Subgroups,
    /// Whether a receiver is complete only when its user has [concluded](super::Bulk::conclude).
    pub confirm: bool,
    /// When receivers deliver what they have.
    pub deliver_to: DeliverTo,
    /// Whether the transfer ends for all if one goes that is waited for: one that is named, or so
    /// many of all that too few are left, or, if nobody is named or counted, one that was there at
    /// the start. Of those that have gone each is settled by what became of it, the others are
    /// [cancelled](Outcome::Cancelled) and told who has gone. One that comes back under its node
    /// before it is given up has stayed. With marks, until the last one is told.
    pub strict: bool,
    /// Whether receivers are to [reply](super::Bulk::reply): none is complete before its reply has
    /// ended and come. Of the policy `multidriver`.
    pub replies: bool,
}

/// When receivers deliver what they have (003 5.3.3, deliver-to). With marks, a receiver that was
/// counted in and goes before the last mark ends the transfer for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliverTo {
    /// As it comes.
    AtOnce,
    /// Whole packets below a mark; the rest is held in memory. The mark is raised when every
    /// receiver holds all below the next one. If the sender dies, what is held is
    /// [undelivered](Notice::Undelivered).
    UpTo {
        /// The first mark, in bytes.
        first: u64,
        /// Bytes from one mark to the next; `None`: the next is the end of the stream. If a
        /// receiver cannot hold this many, the transfer is refused before its first byte.
        step: Option<u64>,
    },
    /// As it comes, to users that keep it aside: they [conclude](super::Bulk::conclude) when it is
    /// complete and good, are told when [all hold](Notice::AllHold) it, and say when it is
    /// [in place](super::Bulk::in_place). Of transfers that confirm.
    Aside,
}

/// Whom a transfer waits for before it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// This many receivers, or as many as registered within `register_within`.
    Count(usize),
    /// These nodes; who is absent after `register_within` is [`Outcome::Absent`].
    Members(Vec<NodeId>),
    /// These and no others, as far as they are in the transfer's subgroups; who of them is absent
    /// after `register_within` is [`Outcome::Absent`]. Others are told
    /// ([`Failure::Excluded`]).
    Listed(Vec<Listed>),
    /// At least `min` receivers, and no more than `max` (003 5.3.2): it begins when `max` have
    /// registered or `register_within` is over. With fewer than `min` nobody is served, and all are
    /// told ([`Outcome::TooFew`]); who comes beyond `max` is told, and not counted.
    Between {
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// The receivers that register within `present_within` of the first. If none has after
    /// `register_within`, none is served.
    Open,
    /// As [`Open`](Self::Open), and besides every member that is known because anything was heard
    /// of it: an announcement that is lost costs a member that is there nothing but time. A member
    /// that does not answer within `vanish_after` is gone, and not known any more. A sender that
    /// knows no member waits for `present_within` only; one that has never heard any, for
    /// `register_within` from its first transfer on.
    Present,
}

impl Wanted {
    /// How many receivers it names or counts; `None`: it depends on who is there.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::Count(count) => Some(*count),
            Self::Members(nodes) => Some(nodes.len()),
            Self::Listed(listed) => Some(listed.len()),
            Self::Between { max, .. } => Some(*max),
            Self::Open | Self::Present => None,
        }
    }
}

/// How receivers come to a connection for messages ([`open`](super::Bulk::open)).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Opening {
    /// Before the first message. A receiver that comes later is refused ([`Notice::CameLate`]).
    #[default]
    AtStart,
    /// At any time (policy `xtp`; not of strict transfers). A receiver that comes late joins from
    /// the next message on, and is told which one that is ([`Notice::Joined`]): the first of which
    /// nothing has been sent yet, or the first of all, if nothing that it misses is released.
    AtAnyTime,
    /// At any time, and nobody is asked or answers (003 5.3.2, `X_Mopen`), whatever the policy: it
    /// begins at once, nothing is repeated, and nothing is known of any receiver. A receiver gets
    /// the messages of which it hears the announcement and every packet, in their order, each once.
    /// It needs a [fixed rate](super::RateControl::Fixed), and no transfer that is strict or wants
    /// replies.
    Unanswered,
}

/// A receiver on a transfer list (003 5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its node.
    pub node: NodeId,
    /// The subgroups that it is in, as far as the list's author knows. What it says counts more.
    pub subgroups: Subgroups,
}

/// What a transfer list says of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListEntry {
    /// Its node.
    pub node: NodeId,
    /// The receiver itself; `None`: it has not come.
    pub member: Option<MemberId>,
    /// The subgroups that it is in, if it was asked.
    pub subgroups: Option<Subgroups>,
}

/// How a receiver takes a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// Ranges of the stream that are here already. What every receiver holds is not sent.
    pub held: Vec<Range<u64>>,
    /// In which order data is handed over.
    pub order: Order,
    /// What the receiver is called, for the sender's user: opaque here. At most 255 bytes; more are
    /// cut.
    pub name: Bytes,
}

impl Acceptance {
    /// All of it, in its order, for a receiver that is called `name`.
    pub const fn in_order(name: Bytes) -> Self {
        Self {
            held: Vec::new(),
            order: Order::InOrder,
            name,
        }
    }
}

/// In which order data is handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As in the stream; what comes early waits in memory.
    InOrder,
    /// As it arrives, each byte once: for users that can put it in its place.
    AsTheyCome,
}

/// For whom a transfer waits before it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// How many receivers have come.
    pub here: usize,
    /// Those that are named and have not come.
    pub named: Vec<NodeId>,
    /// How many have not come of those that are named or counted; at most so many, if fewer may do.
    pub missing: usize,
    /// When it waits no longer.
    pub until: Time,
}

/// What the user of an endpoint is told: [`Bulk`](super::Bulk)'s events.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// Sender: a receiver takes part.
    Registered {
        /// In which transfer.
        id: TransferId,
        /// The receiver.
        receiver: MemberId,
        /// What it calls itself.
        name: Bytes,
        /// The subgroups that it is in, as it says; `None` if the transfer is for all.
        subgroups: Option<Subgroups>,
    },
    /// Sender: the data phase begins, and with it the reservation.
    Started {
        /// The transfer that it concerns.
        id: TransferId,
        /// Receivers that it begins with.
        receivers: usize,
    },
    /// Sender: what became of a receiver. Told once for each that registered or was required.
    Settled {
        /// Of which transfer.
        id: TransferId,
        /// Who; of one that never came the incarnation is 0.
        receiver: MemberId,
        /// What became of it.
        outcome: Outcome,
        /// What a receiver that refused calls itself: it did not register. Empty of all others.
        name: Bytes,
    },
    /// A receiver misses what its sender has released (policy `xtp`). If what is sent can be read
    /// again, a later pass serves it; else it is given up.
    Outrun {
        /// In which transfer.
        id: TransferId,
        /// Sender: which one. `None`: this one.
        receiver: Option<MemberId>,
    },
    /// A receiver that came late has joined a connection, and gets the messages from this one on.
    /// At the receiver it comes before the first of them.
    Joined {
        /// In which transfer.
        id: TransferId,
        /// Sender: which one. `None`: this one.
        receiver: Option<MemberId>,
        /// The number of its first message; 2 or more.
        number: u64,
    },
    /// Sender: the next bytes that a receiver's user replies. Say
    /// [`reply_consumed`](super::Bulk::reply_consumed) when they are done with.
    Reply {
        /// To which transfer.
        id: TransferId,
        /// Whose.
        receiver: MemberId,
        /// Their place in the reply.
        offset: u64,
        /// The bytes that begin at the offset.
        bytes: Bytes,
    },
    /// Sender: a reply is here whole.
    ReplyEnded {
        /// To which transfer.
        id: TransferId,
        /// Whose.
        receiver: MemberId,
        /// What its user said of the end.
        code: u32,
        /// Bytes of the reply.
        length: u64,
    },
    /// Sender: the last mark is raised. All of these hold everything, and are told that they may
    /// deliver it.
    AllMayDeliver {
        /// The transfer that it concerns.
        id: TransferId,
        /// The receivers.
        holders: Vec<MemberId>,
    },
    /// Sender: every receiver that is not settled has this message and all before it; under `xtp`,
    /// every receiver that answers (see [`open`](super::Bulk::open)).
    AllHave {
        /// In which transfer.
        id: TransferId,
        /// The message's number.
        number: u64,
    },
    /// Sender: every receiver is settled, and the transfer forgotten.
    Sent {
        /// The transfer that it concerns.
        id: TransferId,
    },
    /// Receiver: a member has something to send. Answer with [`accept`](super::Bulk::accept) or
    /// [`refuse`](super::Bulk::refuse).
    Announced {
        /// The transfer that it concerns.
        id: TransferId,
        /// The sender's description.
        about: Bytes,
        /// Bytes of the stream, if the sender knows.
        length: Option<u64>,
    },
    /// Receiver: data of a transfer goes by that was not announced while this endpoint was there: a
    /// stream that cannot be read again, and began before. Nothing of it comes here. Told once for
    /// each. [`say_missed`](super::Bulk::say_missed) tells its sender.
    Missed {
        /// The transfer that it concerns.
        id: TransferId,
    },
    /// Sender: a receiver came too late for this stream: it says so, or registers after the start.
    /// It gets nothing of it, and is none of its receivers. Told once for each; not if its word is
    /// lost.
    CameLate {
        /// For which transfer.
        id: TransferId,
        /// Which one.
        receiver: MemberId,
        /// What it calls itself.
        name: Bytes,
    },
    /// Receiver: the sender counts this receiver in, and will settle what becomes of it. Bytes may
    /// have come before.
    Enrolled {
        /// In which transfer.
        id: TransferId,
    },
    /// Receiver: when it is served, as far as its sender has said, and where that has changed. It
    /// may come late, or not at all: it is for people.
    Served {
        /// Of which transfer.
        id: TransferId,
        /// When.
        served: Served,
    },
    /// Receiver: bytes of the stream. Say [`consumed`](super::Bulk::consumed) when they are done
    /// with.
    Data {
        /// Of which transfer.
        id: TransferId,
        /// Their place in the stream. Of messages each begins at a multiple of the packet's length,
        /// so that there are places without bytes.
        offset: u64,
        /// The bytes that begin at the offset.
        bytes: Bytes,
    },
    /// Receiver: with the bytes that were handed over last a message ends. An empty message has
    /// been handed over too, as no bytes. On a connection that nobody answers numbers are left out.
    MessageEnded {
        /// In which transfer.
        id: TransferId,
        /// The message's number, from 1.
        number: u64,
    },
    /// Receiver: every byte was handed over, or was held before.
    Received {
        /// The transfer that it concerns.
        id: TransferId,
        /// Bytes of the stream.
        length: u64,
    },
    /// Receiver: there is room for more of a [reply](super::Bulk::reply) that was not taken whole.
    ReplyRoom {
        /// To which transfer.
        id: TransferId,
    },
    /// Receiver: everything is here, and lies beyond the mark in part: it is handed over when all
    /// receivers hold it.
    Held {
        /// The transfer that it concerns.
        id: TransferId,
    },
    /// Receiver: every receiver holds everything, and has said that it is good: it may be put in
    /// place. Say [`in_place`](super::Bulk::in_place) then.
    AllHold {
        /// The transfer that it concerns.
        id: TransferId,
    },
    /// Receiver: so many bytes have come and are not delivered, because the sender did not say
    /// that all hold them. The transfer fails.
    Undelivered {
        /// The transfer that it concerns.
        id: TransferId,
        /// Bytes beyond the mark.
        bytes: u64,
    },
    /// Receiver: the transfer ends without completing, and is forgotten.
    Failed {
        /// The transfer that it concerns.
        id: TransferId,
        /// What went wrong.
        failure: Failure,
    },
    /// Receiver: the sender knows that all is well, or has gone since; the transfer is forgotten.
    /// On a connection that nobody answers its sender has closed it, whatever has come.
    Ended {
        /// The transfer that it concerns.
        id: TransferId,
    },
}

/// When a receiver is served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Served {
    /// With the others, as long as nothing else was said.
    #[default]
    Now,
    /// After the others: it has held them back, or came late; or the relay that it is served by
    /// has.
    Later,
    /// Not before the sender goes on: its user has [paused](super::Bulk::set_rate) the transfer.
    Paused,
}

/// What became of a receiver, as the sender knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It has every byte (and its user said so, if the transfer asks for that).
    Complete,
    /// It has joined a connection that was running, and has every message from this one on.
    Joined {
        /// The number of its first message; 2 or more.
        number: u64,
    },
    /// It did not want the transfer.
    Refused(String),
    /// Its user gave up, or it did not say within twice `vanish_after` what it needs, though it was
    /// heard: the reason.
    Failed(String),
    /// It was not heard any more.
    Vanished,
    /// It was slower than the policy allows.
    Slow,
    /// It came back too late for a transfer that cannot be repeated: it was started again, or has
    /// lost what it had; or it has not joined before the end.
    Late,
    /// What it missed had been released (policy `xtp`), and cannot be sent again.
    Outrun,
    /// The list or the subgroups of the transfer have changed, or its own have, and the transfer is
    /// not for it any more.
    Excluded,
    /// Fewer came than the transfer needs, and none was served.
    TooFew,
    /// It never came.
    Absent,
    /// Another receiver that is there has its name.
    SameName,
    /// The sender's user gave up.
    Cancelled,
}

impl Outcome {
    /// Whether the receiver has everything that it was to have.
    pub(super) fn has_all(&self) -> bool {
        matches!(self, Self::Complete | Self::Joined { .. })
    }
}

/// Why a transfer ended at a receiver without completing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The sender's user gave up: the reason.
    Cancelled(String),
    /// The sender was not heard any more, or does not know this receiver any more.
    Lost,
    /// This receiver was too slow, too late, or not heard for a while.
    Dropped,
    /// What this receiver missed had been released, and cannot be sent again.
    Outrun,
    /// Another receiver has the same name.
    SameName,
    /// There were as many receivers as the sender takes, without this one.
    Full,
    /// It is for other receivers, or has become so.
    Excluded,
    /// Two of its packets do not fit into this receiver's buffer, so it has refused the transfer.
    LargePackets {
        /// Bytes of a packet.
        packet: u32,
        /// Bytes of the buffer: its `buffer_max`.
        buffer_max: usize,
    },
    /// This receiver's user gave up.
    GivenUp,
}

/// What a transfer is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhaseKind {
    /// It waits for receivers.
    Announcing,
    /// The receivers of a pass are told of it, and say what they need.
    Starting,
    /// Data goes out.
    Sending,
    /// Every receiver has everything; not all of their users have said so.
    Concluding,
}

/// How far a transfer is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// What it is at.
    pub phase: PhaseKind,
    /// Which pass over the stream, from 1; 0 before the first.
    pub pass: u16,
    /// Bytes that were offered in this pass or skipped because no receiver needs them: a position
    /// in the stream.
    pub position: u64,
    /// Bytes from the start of the stream that every receiver that is not settled has.
    pub acknowledged: u64,
    /// Bytes of the stream, if they are known.
    pub length: Option<u64>,
    /// Packets sent, repeated ones included.
    pub packets: u64,
    /// Packets sent again.
    pub repeated: u64,
    /// Bytes a second that the rate control allows; `None` if only the window does.
    pub rate: Option<u64>,
    /// The smoothed round trip; zero before the first.
    pub round_trip: Duration,
    /// Each receiver that is not settled.
    pub receivers: Vec<ReceiverProgress>,
}

/// How far a receiver is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverProgress {
    /// The receiver that it concerns.
    pub receiver: MemberId,
    /// Bytes that it has from the start of the stream without a gap.
    pub held: u64,
    /// Whether the others wait for it.
    pub waited_for: bool,
    /// Transmissions that it lost of late, in thousandths.
    pub loss_permille: u16,
}

/// Why a transfer was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The description is too long.
    #[error("a description of {len} bytes exceeds the limit of {max} bytes")]
    About {
        /// Its length in bytes.
        len: usize,
        /// The most bytes.
        max: usize,
    },
    /// As many transfers as the endpoint carries are under way.
    #[error("{max} transfers are under way, and there is room for no more")]
    Full {
        /// The most that is allowed.
        max: usize,
    },
    /// More receivers are wanted than a transfer can have, or none.
    #[error("a transfer has between 1 and {max} receivers, not {count}")]
    Receivers {
        /// How many are wanted.
        count: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// Marks without steps need a stream whose length is known; what is kept aside, one that
    /// confirms.
    #[error("marks need a length or a step, and what is kept aside a transfer that confirms")]
    DeliverTo,
    /// Replies are wanted under another policy than `multidriver`.
    #[error("replies need the policy multidriver")]
    Replies,
    /// A transfer of messages has a length, may be offered again, or has marks.
    #[error("messages have no length beforehand, are not offered again, and are delivered at once")]
    Messages,
    /// A connection that may be joined while it runs has another policy than `xtp`, or is strict.
    #[error("joining at any time needs the policy xtp, and a transfer that is not strict")]
    Opening,
    /// A connection that nobody answers has no fixed rate, is strict, or wants replies.
    #[error(
        "without answers no rate can be found, nobody is missed, and nobody replies: set a rate in bits a second, and \
         neither strict nor replies"
    )]
    Unanswered,
    /// It is for no subgroup.
    #[error("a transfer is for one subgroup at least")]
    Subgroups,
    /// The fewest receivers that are wanted are more than the most.
    #[error("at least {min} receivers are wanted, and at most {max}")]
    Between {
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// A ring's window must be larger than its number of receivers (001 section 3).
    #[error(
        "the window ({window}) is too small for the policy `ring`: it must have more packets than there are \
         receivers ({receivers})"
    )]
    Window {
        /// Receivers wanted.
        receivers: usize,
        /// The window.
        window: u32,
    },
}

/// Why the list of a transfer, or the subgroups that it is for, cannot be changed. Nothing changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// There is no such transfer (any more).
    #[error("there is no such transfer")]
    Unknown,
    /// It has no list: that needs the policy `list`.
    #[error("a list that changes needs the policy list")]
    NoList,
    /// It would be for no subgroup.
    #[error("a transfer is for one subgroup at least")]
    Nobody,
}

/// Why bytes were not taken. Nothing changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// There is no such transfer (any more).
    #[error("there is no such transfer")]
    Unknown,
    /// More bytes than are wanted now.
    #[error("{len} bytes were offered where {wanted} are wanted")]
    Unwanted {
        /// Bytes offered.
        len: usize,
        /// Bytes wanted.
        wanted: u64,
    },
    /// It carries messages, not bytes.
    #[error("the transfer carries messages: bytes alone cannot be offered")]
    Messages,
    /// It carries bytes, not messages.
    #[error("the transfer carries bytes: no message can be offered")]
    NoMessages,
    /// The message would never find room.
    #[error("a message of {len} bytes exceeds the limit of {max} bytes, two windows")]
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// The most bytes.
        max: u64,
    },
}

/// There is no such transfer (any more), or it was accepted before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no such transfer, or it was answered before")]
pub struct UnknownTransfer;

/// A history is about messages, and a transfer is none.
impl Observable for Notice {}
