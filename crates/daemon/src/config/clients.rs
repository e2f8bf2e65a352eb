//! The table `[clients]`: limits of the client side, by the names that the engine's limits have.

use groupcast_session::EngineConfig;
use serde::{Deserialize, Serialize};

use super::duration::Span;
use super::{set, set_time};

/// The keys of `[clients]`; those left out keep the engine's defaults.
#[derive(Clone, Default, PartialEq, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientOptions {
    /// The most clients at once.
    pub max: Option<usize>,
    /// The most groups that one client may be in.
    pub groups_per_client_max: Option<usize>,
    /// The most memberships of all clients.
    pub memberships_max: Option<usize>,
    /// The most group names that are bound to numbers.
    pub bindings_max: Option<usize>,
    /// The longest payload.
    pub message_max: Option<usize>,
    /// Bytes that a client may have published and not handed to the ring.
    pub publish_window: Option<usize>,
    /// Bytes of all clients' unfinished frames and waiting requests.
    pub input_max: Option<usize>,
    /// The most joins and leaves of a client that wait.
    pub group_requests_max: Option<usize>,
    /// Bytes that wait for a client before publishers are held back.
    pub stop_publishers_at: Option<usize>,
    /// Bytes that wait for a client before it misses unreliable messages.
    pub drop_unreliable_at: Option<usize>,
    /// Bytes that wait for a client before it is disconnected.
    pub disconnect_at: Option<usize>,
    /// How long a client may take nothing while publishers are held back for it.
    pub stalled_within: Option<Span>,
    /// Bytes held while daemons exchange their state.
    pub held_max: Option<usize>,
    /// How long a connection may take to say hello.
    pub hello_within: Option<Span>,
    /// How long a connection may take the last words.
    pub farewell_within: Option<Span>,
}

impl ClientOptions {
    /// The engine's defaults with these options laid over them, not yet checked.
    pub(super) fn settings(&self) -> EngineConfig {
        let mut engine = EngineConfig::default();
        set(&mut engine.clients_max, self.max);
        set(
            &mut engine.groups_per_client_max,
            self.groups_per_client_max,
        );
        set(&mut engine.memberships_max, self.memberships_max);
        set(&mut engine.bindings_max, self.bindings_max);
        set(&mut engine.message_max, self.message_max);
        set(&mut engine.publish_window, self.publish_window);
        set(&mut engine.input_max, self.input_max);
        set(&mut engine.group_requests_max, self.group_requests_max);
        set(&mut engine.stop_publishers_at, self.stop_publishers_at);
        set(&mut engine.drop_unreliable_at, self.drop_unreliable_at);
        set(&mut engine.disconnect_at, self.disconnect_at);
        set_time(&mut engine.stalled_within, self.stalled_within);
        set(&mut engine.held_max, self.held_max);
        set_time(&mut engine.hello_within, self.hello_within);
        set_time(&mut engine.farewell_within, self.farewell_within);
        engine
    }

    /// The key of the engine's limit called `field`.
    pub(super) fn key(field: &str) -> String {
        match field {
            "clients_max" => "clients.max".into(),
            "bimodal_groups" => "bimodal.groups".into(),
            "bimodal_message_max" => "bimodal.message_max".into(),
            "bimodal_members_max" => "bimodal.members_max".into(),
            field => format!("clients.{field}"),
        }
    }
}
