//! The client protocol: frames between a client and its daemon, over a Unix or TCP stream.
//!
//! Each side begins with [`MAGIC`]; then come frames: `u32 length | u8 kind | body`, where the
//! length counts kind and body. Integers are big-endian; a *name* is `u8 length | UTF-8`; a
//! *config* is 24 bytes (counter, node, incarnation). A frame of an unknown kind is skipped: a
//! newer peer may send it. A frame of a known kind must be exact.
//!
//! | client to daemon | body |
//! |---|---|
//! | 1 hello | versions `u16 min, u16 max`; features `u64`; kind `u8`; delivery window `u64`; name or an empty one; maybe a token: `u8 32` and 32 bytes |
//! | 2 join | flags `u8` (bit 0: not my own messages; with feature bit 8, bit 1: on a ring of its own, if there is none); group |
//! | 3 leave | group |
//! | 4 publish | number `u64`; service `u8`; count `u8` and so many destinations; payload |
//! | 5 credit | bytes consumed `u64` |
//! | 6 status, 7 groups | |
//! | 8 ping | token `u64` |
//! | 9 bye | |
//! | 10 rekey | path of the new key's file, to the end |
//! | 11 accept, 12 reject | token `u64`; group; pattern |
//! | 13 identify | token `u64`; id, or an empty one |
//! | 14 who | token `u64`; tag; group |
//! | 15 bus clients | token `u64` |
//! | 16 publish labelled | number `u64`; service `u8`; syntax `u8`; tag; count `u8` and so many destinations; payload |
//! | 17 guest | guest `u64`; floor `u64` |
//! | 18 request | number `u64`; answers `u16`; handled `u8`, and if 1: handler `u16`; within `u32` ms; group; payload |
//! | 19 answer | seq `u64` of the request; payload |
//! | 20 claim | token `u64`; wait `u8`; role: kind `u8` (0 answering, 1 handler, 2 lock), number `u16`; group |
//! | 21 release | token `u64`; role; group |
//! | 23 accept with a ring | as accept, and a ring of its own is asked for, if there is none; with feature bit 8 |
//! | 22 when slow | policy `u8` (0 block, 1 drop, 2 disconnect; with feature bit 9, 3 spill) |
//!
//! | daemon to client | body |
//! |---|---|
//! | 65 welcome | version `u16`; features `u64`; publish window `u64`; longest message `u64`; private name; with feature bit 2, the name of what orders messages |
//! | 66 refused | code `u8`; text |
//! | 67 message | index `u8` of the destination that it came by; service `u8`; placed `u8`: 1, then config, seq `u64`, or 2, then number `u64`, or 0; sender; count `u8` and destinations; payload |
//! | 68 view | kind `u8` (0 regular, 1 transitional, 2 regular and approximate); cause `u8`; config; seq `u64`; within `u8`, and if so component `u64`; group; who changed, or an empty name; count `u32` and members |
//! | 69 accepted | up to number `u64` |
//! | 70 credit | bytes granted `u64` |
//! | 71 rejected | what `u8` (0 publish, 1 join, 2 leave); publish: number `u64`, otherwise group; code `u8`; text |
//! | 72 status, 73 groups | JSON |
//! | 74 disconnected | code `u8`; text |
//! | 75 pong | token `u64` |
//! | 76 gap | first number `u64`; last `u64`; group; name of the daemon whose messages are lost |
//! | 77 rekey | JSON |
//! | 78 message labelled | as message, but after the sender: id of the sender, or an empty one; syntax `u8`; tag |
//! | 79 done | token `u64`; done `u8` (0 or 1); if 0: code `u8`; text |
//! | 80 who | token `u64`; count `u32` and so many ids |
//! | 81 bus clients | token `u64`; count `u32` and so many clients: private name; id, or an empty one; count `u32` and so many groups |
//! | 82 request | config; seq `u64`; handled `u8`, and if 1: handler `u16`; private name of the guest; group; payload |
//! | 83 taken | number `u64`; asked `u32` |
//! | 84 answer | number `u64`; private name of who answers; payload |
//! | 85 ended | number `u64`; ending `u8`; answers `u32`; code `u8`; text |
//! | 86 role | token `u64`; state `u8` (0 held, 1 waits, 2 released, 3 lost, 4 refused); role; group; holder, or an empty name; code `u8`; text |
//! | 88 carried | group; top of the ring that a join has made and that carries it, or an empty name |
//! | 87 behind | bytes that wait `u64`; bytes at which it is disconnected `u64`; unreliable messages missed `u64` |
//!
//! **Credit** works alike in both directions. The receiver grants a window of bytes. The sender
//! counts the cost of its credited frames against it: publish, labelled or not, request and answer;
//! message, labelled or not, view, gap, done, who, bus clients, carried, and 82 to 86. The receiver
//! gives credit back as it is done with them. A frame costs its bytes in the stream and
//! [`CREDIT_PER_FRAME`]. It may be sent while less than the window, or nothing, is outstanding,
//! whatever its own cost: so a message larger than the window passes, and the receiver holds at
//! most the window and one frame ([`has_credit`]).

mod bus;
mod client;
mod daemon;
mod decoder;
mod guests;
mod message;
mod reason;
pub(crate) mod text;
mod token;

pub use bus::{BusClient, BusRequest};
pub use client::{
    ClientFrame, ClientKind, Hello, Publish, encode_labelled_head, encode_publish_head,
};
pub(crate) use daemon::encode_report_head;
pub use daemon::{DaemonFrame, Request, Welcome};
pub use decoder::{FrameDecoder, FrameError, RawFrame};
pub(crate) use guests::encode_guest_reply;
pub use guests::{GuestFrame, GuestReply};
pub(crate) use message::SERVICE_AT;
pub use message::{Label, Message, MessageHead, Syntax, encode_message_head, update_message_head};
pub use reason::{Disconnect, Refusal, Reject};
pub use text::{Names, Text};
pub use token::AccessToken;

use groupcast_core::Service;
use groupcast_core::wire::{DecodeError, Reader, Writer};

/// The first bytes of each side's stream.
pub const MAGIC: [u8; 4] = *b"gcst";
/// The version that this crate speaks; there is no older one.
pub const VERSION: u16 = 1;
/// Feature bit: the client knows bimodal groups: gaps, approximate views, numbered messages.
pub const BIMODAL: u64 = 1;
/// Feature bit: the client knows the services `k-resilient` and `majority`. To another client such
/// messages are shown as agreed ones, which they are, too.
pub const RESILIENT: u64 = 2;
/// Feature bit: the welcome has the name of the daemon's own order.
pub const ORDER_NAME: u64 = 4;
/// Feature bit: the daemon can be given a new key of the cluster.
pub const REKEY: u64 = 8;
/// Feature bit: the client knows labelled messages; the daemon knows all requests of the bus.
pub const BUS: u64 = 16;
/// Feature bit: requests to groups, handlers and locks.
pub const GUESTS: u64 = 32;
/// Feature bit: the daemon warns a slow client, and the client may choose a policy.
pub const BEHIND: u64 = 64;
/// Feature bit: the welcome ends with the tops of the rings that carry groups beside the daemon's
/// own order.
pub const RINGS: u64 = 128;
/// Feature bit: a join may ask for a ring, and the client is told which ring carries its group.
pub const RINGS_MADE: u64 = 256;
/// Feature bit: the daemon has a disk for what waits for slow clients, and one may ask for it.
pub const SPILL: u64 = 512;
/// Feature bits that this crate knows.
pub const FEATURES: u64 =
    BIMODAL | RESILIENT | ORDER_NAME | REKEY | BUS | GUESTS | BEHIND | RINGS | RINGS_MADE | SPILL;
/// The longest path of a file that a client may name.
pub const PATH_MAX: usize = 4096;
/// The longest payload of a message.
pub const MESSAGE_MAX: usize = 64 << 20;
/// The most destinations of one message.
pub const DESTINATIONS_MAX: usize = 100;
/// The longest frame, kind and body: the longest message, and room for its names.
pub const FRAME_MAX: usize = MESSAGE_MAX + (64 << 10);
/// The most bytes of kind and body of a client's frame before it is welcomed: a hello with a name
/// and a token fits.
pub const HELLO_MAX: usize = 4 << 10;
/// The bytes of a frame before its body: length and kind.
pub const HEADER_LEN: usize = 5;
/// The cost of a credited frame beside its bytes: it stands for the receiver's bookkeeping, so that
/// a window bounds memory.
pub const CREDIT_PER_FRAME: usize = 64;

/// The cost in credit of a frame of `stream_len` bytes, header included.
pub const fn credit_cost(stream_len: usize) -> usize {
    stream_len + CREDIT_PER_FRAME
}

/// Whether another frame may be sent while credit of `outstanding` has not come back.
pub const fn has_credit(outstanding: u64, window: u64) -> bool {
    outstanding == 0 || outstanding < window
}

/// The codes of the frame kinds.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const JOIN: u8 = 2;
    pub(crate) const LEAVE: u8 = 3;
    pub(crate) const PUBLISH: u8 = 4;
    pub(crate) const CREDIT: u8 = 5;
    pub(crate) const STATUS: u8 = 6;
    pub(crate) const GROUPS: u8 = 7;
    pub(crate) const PING: u8 = 8;
    pub(crate) const BYE: u8 = 9;
    pub(crate) const REKEY: u8 = 10;
    pub(crate) const ACCEPT: u8 = 11;
    pub(crate) const REJECT: u8 = 12;
    pub(crate) const IDENTIFY: u8 = 13;
    pub(crate) const WHO: u8 = 14;
    pub(crate) const BUS_CLIENTS: u8 = 15;
    pub(crate) const PUBLISH_LABELLED: u8 = 16;
    pub(crate) const GUEST: u8 = 17;
    pub(crate) const REQUEST: u8 = 18;
    pub(crate) const ANSWER: u8 = 19;
    pub(crate) const CLAIM: u8 = 20;
    pub(crate) const RELEASE: u8 = 21;
    pub(crate) const WHEN_SLOW: u8 = 22;
    pub(crate) const ACCEPT_RING: u8 = 23;

    pub(crate) const WELCOME: u8 = 65;
    pub(crate) const REFUSED: u8 = 66;
    pub(crate) const MESSAGE: u8 = 67;
    pub(crate) const VIEW: u8 = 68;
    pub(crate) const ACCEPTED: u8 = 69;
    pub(crate) const GRANT: u8 = 70;
    pub(crate) const REJECTED: u8 = 71;
    pub(crate) const STATUS_REPORT: u8 = 72;
    pub(crate) const GROUPS_REPORT: u8 = 73;
    pub(crate) const DISCONNECTED: u8 = 74;
    pub(crate) const PONG: u8 = 75;
    pub(crate) const GAP: u8 = 76;
    pub(crate) const REKEY_REPORT: u8 = 77;
    pub(crate) const MESSAGE_LABELLED: u8 = 78;
    pub(crate) const DONE: u8 = 79;
    pub(crate) const WHO_REPORT: u8 = 80;
    pub(crate) const BUS_CLIENTS_REPORT: u8 = 81;
    pub(crate) const ASKED: u8 = 82;
    pub(crate) const TAKEN: u8 = 83;
    pub(crate) const ANSWERED: u8 = 84;
    pub(crate) const ENDED: u8 = 85;
    pub(crate) const ROLE: u8 = 86;
    pub(crate) const BEHIND: u8 = 87;
    pub(crate) const CARRIED: u8 = 88;
}

/// The word for a kind of frame, for errors and logs.
pub fn frame_name(code: u8) -> &'static str {
    match code {
        kind::HELLO => "hello",
        kind::JOIN => "join",
        kind::LEAVE => "leave",
        kind::PUBLISH | kind::PUBLISH_LABELLED => "publish",
        kind::CREDIT | kind::GRANT => "credit",
        kind::STATUS | kind::STATUS_REPORT => "status",
        kind::GROUPS | kind::GROUPS_REPORT => "groups",
        kind::PING => "ping",
        kind::BYE => "bye",
        kind::REKEY | kind::REKEY_REPORT => "rekey",
        kind::WELCOME => "welcome",
        kind::REFUSED => "refused",
        kind::MESSAGE | kind::MESSAGE_LABELLED => "message",
        kind::ACCEPT | kind::ACCEPT_RING => "accept",
        kind::REJECT => "reject",
        kind::IDENTIFY => "identify",
        kind::WHO | kind::WHO_REPORT => "who",
        kind::BUS_CLIENTS | kind::BUS_CLIENTS_REPORT => "bus clients",
        kind::DONE => "done",
        kind::VIEW => "view",
        kind::ACCEPTED => "accepted",
        kind::REJECTED => "rejected",
        kind::DISCONNECTED => "disconnected",
        kind::PONG => "pong",
        kind::GAP => "gap",
        kind::GUEST => "guest",
        kind::REQUEST | kind::ASKED => "request",
        kind::ANSWER | kind::ANSWERED => "answer",
        kind::CLAIM => "claim",
        kind::RELEASE => "release",
        kind::TAKEN => "taken",
        kind::ENDED => "ended",
        kind::ROLE => "role",
        kind::WHEN_SLOW => "when slow",
        kind::BEHIND => "behind",
        kind::CARRIED => "carried",
        _ => "unknown",
    }
}

/// Reads the code of a service, [`Service::Bimodal`] included.
fn take_service(reader: &mut Reader<'_>) -> Result<Service, DecodeError> {
    let code = reader.u8("service")?;
    let bimodal = (code == Service::Bimodal.code()).then_some(Service::Bimodal);
    Service::from_code(code)
        .or(bimodal)
        .ok_or_else(|| reader.invalid("service", u64::from(code)))
}

/// Appends a frame: its header, and the bytes that `body` writes. Its length includes `tail` bytes
/// that the caller sends after it.
fn frame(bytes: &mut Vec<u8>, kind: u8, tail: usize, body: impl FnOnce(&mut Writer<'_>)) {
    let start = bytes.len();
    let mut writer = Writer::new(bytes);
    writer.u32(0).u8(kind);
    body(&mut writer);
    let len = bytes.len() - start - HEADER_LEN + 1 + tail;
    let len = u32::try_from(len).expect("callers bound a frame by FRAME_MAX");
    bytes[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_for_errors() {
        for code in (kind::HELLO..=kind::ACCEPT_RING).chain(kind::WELCOME..=kind::CARRIED) {
            assert_ne!(frame_name(code), "unknown", "{code}");
        }
        assert_eq!(frame_name(0), "unknown");
    }
}
