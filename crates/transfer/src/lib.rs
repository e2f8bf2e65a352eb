//! Files and directory trees to many receivers at once: the distributor above the bulk protocols
//! (001).
//!
//! [`send`] and [`receive`] are the two ends; both run their loop on the calling thread until they
//! are done, with one more thread for the disk. `groupcast_protocols::bulk` makes the stream
//! reliable; this crate makes the stream from files, and files from the stream:
//!
//! - [`manifest`]: the list of files. Its hash is the identity of a transfer, and its rules make it
//!   safe to put in place.
//! - `about.rs`: the announcement, and the layout of the stream: manifest, chunks, hashes.
//!   `frames.rs`: the layout of a pipe.
//! - `content.rs`, `read_ahead.rs`: reading; a file that changes meanwhile ends the transfer.
//! - `list.rs`, `compare.rs`: asks receivers before sending what they hold already.
//! - `incoming.rs`, `assemble.rs`, `disk.rs`, `received.rs`: from bytes in any order to verified
//!   chunks.
//! - `spool.rs`, `stage.rs`, `publish.rs`, `beneath.rs`: what is kept for resuming, the staging
//!   tree, the moves into place, paths that lead nowhere else.
//! - `arrival.rs`: the command that a receiver runs then.
//! - `receive.rs`, `receive/`: the loop of a receiver; `receive/ending.rs`: how transfers end
//!   there; `receive/followers.rs`: several senders of one content.
//! - `host.rs`, `instance.rs`: the endpoint on real sockets, which carries group management, too.
//! - [`relay`](fn@relay): from one group into another, with every receiver in the sender's account.
//! - [`census`](fn@census): who is there to receive.
//! - [`request`](fn@request) and [`answer`](fn@answer): a request to a group, and what each member
//!   replies (003 5.3.2).
//! - [`connect`] and [`listen`]: messages on a connection that stays.
//!
//! A program that distributes files needs nothing else: the settings of the protocol
//! ([`bulk::BulkConfig`]), outcomes and keys are re-exported. `examples/distribute.rs` is one.
//!
//! It deliberately leaves options, key files and terminals to the command line. `docs/files.md` is
//! for users.

mod about;
mod answer;
mod arrival;
mod assemble;
mod audience;
mod beneath;
mod census;
mod compare;
mod connection;
mod content;
mod disk;
mod frames;
mod host;
mod in_place;
mod incoming;
mod instance;
mod list;
pub mod manifest;
mod moved;
mod pace;
#[cfg(test)]
mod power_loss;
mod publish;
mod read_ahead;
mod receive;
mod received;
mod relay;
mod replies;
mod request;
#[cfg(test)]
mod scratch;
mod send;
#[cfg(test)]
mod slow_disk;
mod spool;
mod stage;
mod strangers;
mod warnings;

pub use groupcast_net::{Key, KeyError, Stranger};
pub use groupcast_protocols::{bulk, xgm};

pub use self::answer::{AnswerEvent, Answered, Answering, Asked, answer};
pub use self::arrival::OnArrival;
pub use self::census::{Counted, CountedHost, census};
pub use self::connection::{
    Connected, Connecting, ConnectionEvent, ListenEvent, Listening, Next, connect, listen,
};
pub use self::content::ReadError;
pub use self::host::{HostAddress, LinkReach, TransferError, TransferLink};
pub use self::manifest::{Exclude, Limits, Manifest, PatternError, Scan, ScanError};
pub use self::pace::Rates;
pub use self::receive::{
    Described, Output, ReceiveEvent, Received, Receiving, STOPPED_HERE, receive,
};
pub use self::relay::{RelayEvent, Relayed, Relaying, Side, relay};
pub use self::request::{Became, RequestEvent, RequestReport, Requesting, request};
pub use self::send::{Audience, Cargo, Life, SendEvent, SendReport, Sending, send};
pub use self::spool::SpoolError;
