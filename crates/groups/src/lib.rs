//! Process groups inside your own program, on the ring or RMP, without a daemon.
//!
//! [`Groups`] is a [`Member`] with the daemon's engine of groups on top, and this program as the
//! engine's only client (000 ch. 1, ch. 7). It has the calls and the events of `groupcast-client`:
//! groups by name, views, messages to groups, requests to groups, handlers and locks
//! (`docs/guests.md`). On the network it is a daemon with one client, so programs with `Groups` and
//! daemons with clients are in the same groups, if they have the same address, key and protocol.
//!
//! It deliberately leaves out what only a daemon has: other clients, access rules, the bus, bimodal
//! groups, a change of the key, status and configuration files.
//!
//! **Delivered is not yet processed** (000 ch. 2): an event that [`Groups::next_event`] returns has
//! its place in the order, but only this program knows whether it has processed the event. Where
//! others must know, use requests and answers.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use groupcast_groups::{ClientEvent, Groups, Key, Member, Sealing, Service};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let key = Key::load("cluster.key".as_ref())?;
//!     let member = Member::builder("ada", "239.192.79.9:4830".parse()?, Sealing::Key(key)).join()?;
//!     let mut groups = Groups::open(member)?;
//!     groups.join("room")?;
//!     groups.publish(&["room"], Service::Agreed, b"hello, all")?;
//!     loop {
//!         match groups.next_event(Duration::from_secs(1))? {
//!             Some(ClientEvent::View(view)) => println!("{}: {:?}", view.group, view.members),
//!             Some(ClientEvent::Message(message)) => println!("{:?}", message.payload),
//!             _ => {}
//!         }
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod error;
mod groups;

pub use groupcast_member::{Key, Member, MemberBuilder, RingConfig, RmpConfig, Sealing, Service};
pub use groupcast_session::client::{Ask, Asked, ClientEvent, RequestError};
pub use groupcast_session::frame::{Disconnect, Message, Reject, Request};
pub use groupcast_session::guests::{Ending, Role, RoleNotice, RoleState};
pub use groupcast_session::view::{Cause, View, ViewId, ViewKind};

pub use self::error::{GroupsError, OpenError};
pub use self::groups::Groups;
