//! Limits of an engine.

use std::time::Duration;

use groupcast_core::settings::{self, Settings as _, Spec};

use super::bimodal::{BIMODAL_GROUPS_MAX, BIMODAL_MESSAGE_MAX};
use super::rings::RINGS_PER_DAEMON_MAX;
use super::roster::{CLIENTS_MAX, GROUPS_PER_CLIENT_MAX};
use super::wire::BINDINGS_MAX;
use crate::frame::{FRAME_MAX, MESSAGE_MAX};
use crate::guests::ROLES_PER_DAEMON_MAX;
use crate::name::check_group;
use crate::names::{DomainName, Pool};

const MIB: usize = 1 << 20;

groupcast_core::settings! {
    /// Limits of an engine: every queue, table and list has one.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct EngineConfig {
        /// The most clients at once, on all sockets together; more are refused. Eight tools
        /// (`status`, `groups`, `monitor`, `rekey`) of root and of the daemon's own user at the
        /// Unix socket come in beside them.
        pub clients_max: usize = 1_024 => Spec::count("clients", 1, CLIENTS_MAX as u32),
            "Too small: clients are turned away. Too large: each may hold its share of memory.";
        /// The most groups that one client may be in; further joins are rejected.
        pub groups_per_client_max: usize = 1_000
            => Spec::count("groups", 1, GROUPS_PER_CLIENT_MAX as u32),
            "Too small: joins are rejected. Too large: memory, and longer exchanges of state when daemons meet.";
        /// The most groups that a client leaves at one place of the order when it ends: one in more
        /// of them leaves them in parts.
        pub groups_left_at_once: usize = 256
            => Spec::count("groups", 1, GROUPS_PER_CLIENT_MAX as u32),
            "Too small: a client that ends stays in its groups for longer. Too large: nothing else is delivered while it \
             leaves them.";
        /// The most memberships of all clients of this daemon together, which its state holds. A
        /// state of more than 256 MiB costs the clients with most in it their connections.
        pub memberships_max: usize = 100_000 => Spec::count("memberships", 1, 1 << 20),
            "Too small: joins are rejected. Too large: longer exchanges of state when daemons meet.";
        /// The most handlers, locks and other roles that all clients of this daemon together
        /// have or wait for; more are refused. One client has or waits for 256 at most.
        pub roles_max: usize = 16_384 => Spec::count("roles", 1, ROLES_PER_DAEMON_MAX as u32),
            "Too small: roles are refused. Too large: memory at every daemon, and longer exchanges of state when daemons \
             meet.";
        /// The most patterns for tags that one client may have, in all its groups together; more
        /// are rejected. Those of all clients together are bounded by `memberships_max`.
        pub patterns_per_client_max: usize = 1_000 => Spec::count("patterns", 1, 65_536),
            "Too small: clients of the bus are rejected. Too large: memory, up to 32 KiB for each that differs from the \
             others, and longer exchanges of state when daemons meet.";
        /// Group names that this daemon binds to numbers in its life; later ones travel with each
        /// message. One client binds a sixteenth of them at most, and all clients of a user, or
        /// over TCP from a host, half of what others have left.
        pub bindings_max: usize = BINDINGS_MAX => Spec::count("names", 0, BINDINGS_MAX as u32),
            "Too small: messages grow by the names of their groups. Too large: memory at every daemon.";
        /// The longest payload of a message.
        pub message_max: usize = MESSAGE_MAX => Spec::size(1, MESSAGE_MAX as u64),
            "Too small: messages are rejected. Too large: a message occupies that much memory at every daemon.";
        /// Bytes that a client may have published and not handed to the ring: as much as a visit of
        /// the token takes. When many clients share `input_max`, later ones get less, 64 KiB at
        /// least.
        pub publish_window: usize = MIB / 2 => Spec::size(1, FRAME_MAX as u64),
            "Too small: a publisher waits a turn of the loop between messages. Too large: memory for each client, and \
             messages wait where they are of no use.";
        /// Bytes of unfinished frames and waiting requests of all clients together; beyond it the
        /// client with most of them is disconnected, and they are dropped. Half of it is for
        /// windows, the rest for messages that exceed them.
        pub input_max: usize = 512 * MIB => Spec::size(0, u64::MAX).rule("at least message_max"),
            "Too small: publishers are disconnected under load. Too large: memory.";
        /// The most joins and leaves of one client that may wait for the ring; a client that
        /// exceeds it is disconnected.
        pub group_requests_max: usize = 10_000 => Spec::count("requests", 1, 1 << 20),
            "Too small: clients that join many groups at once are disconnected. Too large: memory.";
        /// How many bytes of groups with `block` may wait for one client before the daemon holds
        /// back those of its publishers whose messages the client gets; it lets them go on when
        /// half of the bytes are taken. Where twice as much waits, their messages that the order
        /// has not taken wait, too. At full speed this much waits, and delays every message. With
        /// `disconnect_at` or more, publishers are never held back.
        pub stop_publishers_at: usize = MIB => Spec::size(0, u64::MAX),
            "Too small: one slow subscriber slows publishers down at once. Too large: memory for each slow subscriber.";
        /// Bytes that wait for one client before it misses unreliable messages.
        pub drop_unreliable_at: usize = 32 * MIB => Spec::size(0, u64::MAX),
            "Too small: short pauses of a subscriber cost messages. Too large: memory for each slow subscriber.";
        /// Bytes that wait for one client before it is disconnected. The default is three
        /// times the longest message, since a client is not slow because one or two messages of the
        /// greatest length wait for it.
        pub disconnect_at: usize = 192 * MIB => Spec::size(4096, u64::MAX),
            "Too small: short pauses cost the connection. Too large: memory for each slow subscriber.";
        /// Bytes that wait for one client, in memory and on a disk, before it is disconnected where
        /// its group spills. With `spill` they wait in a file of that size for each such client.
        pub spill_each_max: u64 = (1_024 * MIB) as u64 => Spec::size(MIB as u64, 1 << 44),
            "Too small: long pauses cost the connection. Too large: disk for each slow subscriber.";
        /// Bytes of all clients on a disk, together; beyond it the client that has most there is
        /// disconnected.
        pub spill_max: u64 = (4_096 * MIB) as u64 => Spec::size(MIB as u64, 1 << 44),
            "Too small: where many clients are slow, the slowest lose their connections. Too large: disk.";
        /// Memory of all that waits for clients, together; beyond it the client for which most
        /// waits is disconnected.
        pub output_max: usize = 512 * MIB => Spec::size(4096, u64::MAX),
            "Too small: a burst to many subscribers costs the slowest its connection. Too large: memory.";
        /// How long a client may take next to nothing (less than 1/64 of `stop_publishers_at`)
        /// while publishers are held back for it, before it is disconnected.
        pub stalled_within: Duration = Duration::from_secs(30) => Spec::time(),
            "Too small: short pauses of a subscriber cost its connection. Too large: one subscriber that hangs stops \
             those publishers of its daemon that publish to it for that long.";
        /// Bytes of messages, names and interrupted configurations held while daemons exchange
        /// their state; beyond it this daemon's clients are disconnected rather than lose some. As
        /// many bytes of `reliable` and `fifo` messages may wait that came before the join of their
        /// sender. What may come is bounded by the send queues of the other daemons.
        pub held_max: usize = 1_024 * MIB => Spec::size(4096, u64::MAX),
            "Too small: clients are disconnected when daemons meet under load. Too large: memory.";
        /// The name of what orders the messages of the other groups, which clients are told.
        pub order: String = String::new();
        /// The tops of further rings: the groups at and below each are ordered by a ring of their
        /// own ([`Carrier::Ring`](super::Carrier::Ring)), except those of a ring with a lower top.
        /// At most [`RINGS_PER_DAEMON_MAX`], each a name of levels.
        pub rings: Vec<String> = Vec::new();
        /// The addresses of rings that joins ask for. Without them such a join is rejected.
        pub ring_pool: Option<Pool> = None;
        /// Names of the groups that are bimodal: their messages go through a gossip instance each
        /// ([`Carrier::Bimodal`](super::Carrier::Bimodal)) instead of the ring. At most
        /// [`BIMODAL_GROUPS_MAX`], each a group's name.
        pub bimodal_groups: Vec<String> = Vec::new();
        /// The longest payload in a bimodal group: a message is one datagram.
        pub bimodal_message_max: usize = BIMODAL_MESSAGE_MAX
            => Spec::size(1, BIMODAL_MESSAGE_MAX as u64),
            "Too small: messages are rejected. Above what the interface takes in one piece: IP fragments, and the loss \
             of one loses all.";
        /// Members of other daemons that a view of a bimodal group names; more are left out.
        pub bimodal_members_max: usize = 4_096 => Spec::count("members", 0, 65_536),
            "Too small: views leave members out. Too large: memory, and long views.";
        /// How long a frame of a client, or a message of the bus of more than 64 KiB, may take from
        /// its first byte to its last, before the client is disconnected.
        pub frame_within: Duration = Duration::from_secs(60) => Spec::time(),
            "Too small: long messages over slow links are not possible. Too large: clients that never finish a message \
             hold memory for that long.";
        /// How long a new connection may take to say hello, and may then wait for a former client
        /// of its name to leave its groups.
        pub hello_within: Duration = Duration::from_secs(10) => Spec::time(),
            "Too small: slow clients are turned away. Too large: connections that say nothing take up room.";
        /// How long a client may take to read the last frame of its connection.
        pub farewell_within: Duration = Duration::from_secs(5) => Spec::time(),
            "Too small: clients do not learn why they were disconnected. Too large: the daemon ends late.";
    }
}

/// A configuration that contradicts itself or a fixed limit, or a daemon's name that is not
/// allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineConfigError {
    /// A setting is outside its range.
    #[error(transparent)]
    Setting(#[from] settings::ConfigError),
    /// A bimodal group is named twice.
    #[error("bimodal_groups names {name:?} twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// Two rings have one top.
    #[error("two rings have the top {top:?}")]
    RingTwice {
        /// The top.
        top: String,
    },
    /// A bimodal group has a name of a ring.
    #[error(
        "the group {group:?} is bimodal, and the ring {top:?} carries its name: choose another name"
    )]
    BimodalInRing {
        /// The group.
        group: String,
        /// The ring's top.
        top: String,
    },
    /// A ring's top is no name of levels.
    #[error(transparent)]
    Top(#[from] crate::names::DomainError),
    /// The daemon's name, or that of a group, is not allowed.
    #[error(transparent)]
    Name(#[from] crate::name::NameError),
}

impl EngineConfig {
    /// Checks every field.
    pub fn check(&self) -> Result<(), EngineConfigError> {
        self.check_ranges()?;
        if self.input_max < self.message_max {
            let allowed = format!("at least message_max, {} bytes", self.message_max);
            return Err(self.refuse("input_max", allowed).into());
        }
        self.check_rings()?;
        let groups = &self.bimodal_groups;
        if groups.len() > BIMODAL_GROUPS_MAX {
            let [named, allowed] =
                [groups.len(), BIMODAL_GROUPS_MAX].map(|it| format!("{it} groups"));
            let error =
                settings::ConfigError::new("bimodal_groups", named, format!("at most {allowed}"));
            return Err(error.into());
        }
        for (index, name) in groups.iter().enumerate() {
            check_group(name)?;
            if groups[..index].contains(name) {
                return Err(EngineConfigError::Twice { name: name.clone() });
            }
        }
        Ok(())
    }

    fn check_rings(&self) -> Result<(), EngineConfigError> {
        let count = self.rings.len();
        if count > RINGS_PER_DAEMON_MAX {
            let allowed = format!("at most {RINGS_PER_DAEMON_MAX} rings");
            let error = settings::ConfigError::new("rings", format!("{count} rings"), allowed);
            return Err(error.into());
        }
        for (index, top) in self.rings.iter().enumerate() {
            let name: DomainName = top.parse()?;
            if self.rings[..index].contains(top) {
                return Err(EngineConfigError::RingTwice { top: top.clone() });
            }
            let is_carried = |group: &&String| {
                let group = group.parse::<DomainName>();
                group.is_ok_and(|group| name.covers(&group))
            };
            if let Some(group) = self.bimodal_groups.iter().find(is_carried) {
                let (group, top) = (group.clone(), top.clone());
                return Err(EngineConfigError::BimodalInRing { group, top });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_allowed_and_nonsense_is_named() {
        assert_eq!(EngineConfig::default().check(), Ok(()));
        let config = EngineConfig {
            clients_max: 0,
            ..EngineConfig::default()
        };
        assert_eq!(
            config.check().unwrap_err().to_string(),
            "clients_max: 0 is out of range; use 1 to 65536"
        );
    }
}
