//! Limits of an engine.

use std::time::Duration;

use super::bimodal::{BIMODAL_GROUPS_MAX, BIMODAL_MESSAGE_MAX};
use super::roster::{CLIENTS_MAX, GROUPS_PER_CLIENT_MAX};
use super::wire::BINDINGS_MAX;
use crate::frame::{FRAME_MAX, MESSAGE_MAX};
use crate::name::check_group;

const MIB: usize = 1 << 20;

/// Limits of an engine: every queue, table and list has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineConfig {
    /// Clients at a time; more are refused. Default 1,024, at most 65,536.
    pub clients_max: usize,
    /// Groups that one client may be in; further joins are rejected. Default 1,000, at most 65,536.
    pub groups_per_client_max: usize,
    /// Memberships of all clients of this daemon together, which its state message must hold.
    /// Default 100,000.
    pub memberships_max: usize,
    /// Group names that this daemon binds to numbers in its life; later ones travel with each
    /// message, which costs their length. Default and maximum 65,536.
    pub bindings_max: usize,
    /// Longest payload in bytes. Default and maximum 64 MiB.
    pub message_max: usize,
    /// Bytes that a client may have published and not handed to the ring. Too small: it waits a
    /// turn of the loop between messages. Too large: messages wait where they are of no use, and
    /// for so long that the cache has lost them. Default 512 KiB, as much as a visit of the token
    /// takes; when many clients share `input_max`, later ones get less, 64 KiB at least.
    pub publish_window: usize,
    /// Bytes of unfinished frames and waiting requests of all clients together; a client that
    /// exceeds it is disconnected. Half of it is for windows, the rest for messages that exceed
    /// them. Default 512 MiB.
    pub input_max: usize,
    /// Requests to join and leave of one client that may wait for the ring; a client that exceeds
    /// it is disconnected. Default 10,000.
    pub group_requests_max: usize,
    /// Bytes that wait for one client before this daemon's publishers get no more credit, until
    /// half of them are taken. Default 1 MiB: at full speed it is this full, and every message
    /// waits behind it. With `disconnect_at` or more, publishers are never held back.
    pub stop_publishers_at: usize,
    /// Bytes that wait for one client before it misses unreliable messages. Default 32 MiB.
    pub drop_unreliable_at: usize,
    /// Bytes that wait for one client before it is disconnected. Default 192 MiB: what comes right
    /// after a message or two of the greatest length is no sign of a slow client.
    pub disconnect_at: usize,
    /// How long a client may take nothing while publishers are held back for it, before it is
    /// disconnected. Default 30 s.
    pub stalled_within: Duration,
    /// Bytes of messages that are held while daemons exchange their state; beyond it this daemon's
    /// clients are disconnected rather than lose some. What may come is bounded by the send queues
    /// of the other daemons. Default 1 GiB.
    pub held_max: usize,
    /// Names of the groups that are bimodal: their messages go through a gossip instance each
    /// ([`Carrier::Bimodal`](super::Carrier::Bimodal)) instead of the ring. At most
    /// [`BIMODAL_GROUPS_MAX`], each a group's name. Default: none.
    pub bimodal_groups: Vec<String>,
    /// Longest payload in a bimodal group. Default 63,000, the most: a message is one datagram.
    pub bimodal_message_max: usize,
    /// Members of other daemons that the view of a bimodal group names; more are left out. Default
    /// 4,096, at most 65,536.
    pub bimodal_members_max: usize,
    /// How long a new connection may take to say hello. Default 10 s.
    pub hello_within: Duration,
    /// How long a client may take to read the last frame of its connection. Default 5 s.
    pub farewell_within: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            clients_max: 1_024,
            groups_per_client_max: 1_000,
            memberships_max: 100_000,
            bindings_max: BINDINGS_MAX,
            message_max: MESSAGE_MAX,
            publish_window: MIB / 2,
            input_max: 512 * MIB,
            group_requests_max: 10_000,
            stop_publishers_at: MIB,
            drop_unreliable_at: 32 * MIB,
            disconnect_at: 192 * MIB,
            stalled_within: Duration::from_secs(30),
            held_max: 1_024 * MIB,
            bimodal_groups: Vec::new(),
            bimodal_message_max: BIMODAL_MESSAGE_MAX,
            bimodal_members_max: 4_096,
            hello_within: Duration::from_secs(10),
            farewell_within: Duration::from_secs(5),
        }
    }
}

/// A configuration that contradicts itself or a fixed limit, or a daemon's name that is not
/// allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A field is outside its range.
    #[error("{field} is {value}, it must be between {min} and {max}")]
    Range {
        /// Which.
        field: &'static str,
        /// What it says.
        value: usize,
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// A bimodal group is named twice.
    #[error("bimodal_groups names {name:?} twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// The daemon's name, or that of a group, is not allowed.
    #[error(transparent)]
    Name(#[from] crate::name::NameError),
}

impl EngineConfig {
    /// Checks every field.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |field, value, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range {
                    field,
                    value,
                    min,
                    max,
                })
            }
        };
        range("clients_max", self.clients_max, 1, CLIENTS_MAX)?;
        range(
            "groups_per_client_max",
            self.groups_per_client_max,
            1,
            GROUPS_PER_CLIENT_MAX,
        )?;
        range("memberships_max", self.memberships_max, 1, 1 << 20)?;
        range("bindings_max", self.bindings_max, 0, BINDINGS_MAX)?;
        range("message_max", self.message_max, 1, MESSAGE_MAX)?;
        range("publish_window", self.publish_window, 1, FRAME_MAX)?;
        range(
            "input_max",
            self.input_max,
            self.message_max,
            isize::MAX as usize,
        )?;
        range("group_requests_max", self.group_requests_max, 1, 1 << 20)?;
        range(
            "disconnect_at",
            self.disconnect_at,
            4096,
            isize::MAX as usize,
        )?;
        range("held_max", self.held_max, 4096, isize::MAX as usize)?;
        let groups = &self.bimodal_groups;
        range("bimodal_groups", groups.len(), 0, BIMODAL_GROUPS_MAX)?;
        for (index, name) in groups.iter().enumerate() {
            check_group(name)?;
            if groups[..index].contains(name) {
                return Err(ConfigError::Twice { name: name.clone() });
            }
        }
        let len = self.bimodal_message_max;
        range("bimodal_message_max", len, 1, BIMODAL_MESSAGE_MAX)?;
        range("bimodal_members_max", self.bimodal_members_max, 0, 65_536)
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
            "clients_max is 0, it must be between 1 and 65536"
        );
    }
}
