//! A member of a group inside your own program: the ring, or RMP, on real sockets, without a
//! daemon.
//!
//! A [`Member`] submits messages, and gets the same events as every other member, in the same
//! order: messages, and the configurations between them. It belongs to one thread;
//! [`Member::next_event`] is its loop. Use it where a process must see the order itself, with
//! nothing between it and the ring. Use a daemon and `groupcast-client` where several processes of
//! a host belong to named groups, and come and go: a member that leaves or falls silent changes the
//! ring, a client does not.
//!
//! It deliberately leaves out what a daemon has: groups by name, clients, several services of
//! groups, configuration files. Daemons and members understand each other on the ring, but a
//! daemon's messages are those of its clients.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use groupcast_member::{Event, Key, Member, Sealing, Service};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let key = Key::load("cluster.key".as_ref())?;
//!     let mut member = Member::builder("ada", "239.192.79.9:4830".parse()?, Sealing::Key(key)).join()?;
//!     member.submit(Service::Agreed, "hello")?;
//!     loop {
//!         match member.next_event(Duration::from_secs(1))? {
//!             Some(Event::Deliver(message)) => println!("{:?}", message.payload),
//!             Some(Event::Configuration(group)) => println!("{} members", group.members.len()),
//!             _ => {}
//!         }
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod builder;
mod member;

pub use builder::{JoinError, MemberBuilder};
pub use groupcast_core::{
    Configuration, ConfigurationKind, Delivery, Event, MemberId, MessageId, Service, SubmitError,
};
pub use groupcast_net::{EndpointConfig, Key, Sealing};
pub use groupcast_protocols::ring::RingConfig;
pub use groupcast_protocols::rmp::RmpConfig;
pub use member::Member;
