//! The table `[bimodal]`: which groups are bimodal, and the settings of their gossip, by the names that those have.

use groupcast_protocols::gossip::{GossipConfig, HashConfig, Variant};
use groupcast_session::EngineConfig;
use serde::{Deserialize, Serialize};

use super::duration::Span;
use super::{set, set_time};

/// The keys of `[bimodal]`; those left out keep the defaults of gossip on a LAN.
#[derive(Clone, Default, PartialEq, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BimodalOptions {
    /// The groups that are bimodal.
    pub groups: Option<Vec<String>>,
    /// The longest payload.
    pub message_max: Option<usize>,
    /// Members of other daemons that a view names.
    pub members_max: Option<usize>,
    /// Daemons to gossip to in a round.
    pub sub_gsize: Option<u32>,
    /// Length of a round.
    pub step_interval: Option<Span>,
    /// Rounds for which a message is gossiped about.
    pub stable_threshold: Option<u32>,
    /// When repairs are multicast.
    pub variant: Option<VariantOption>,
    /// How many daemons keep a message; 0: all.
    pub bufferers: Option<u32>,
    /// The most repairs that a daemon sends in a round.
    pub limit_retrans: Option<u32>,
    /// The most bytes of them.
    pub limit_retrans_bytes: Option<usize>,
    /// The most requests that a daemon sends in a round.
    pub limit_requests: Option<u32>,
    /// Bytes of messages held.
    pub buffer_max: Option<usize>,
    /// Bytes that wait to be sent.
    pub queue_max: Option<usize>,
    /// The most daemons whose messages are followed.
    pub senders_max: Option<usize>,
    /// The most numbers between a sender's oldest message that may still come and its newest.
    pub window_max: Option<u32>,
    /// The most daemons that one knows of.
    pub view_max: Option<usize>,
    /// Rounds without a sign of life after which a daemon has failed.
    pub fail_rounds: Option<u32>,
}

/// When repairs are multicast; see [`Variant`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VariantOption {
    /// Never.
    Basic,
    /// When a message was asked for twice.
    Ipmc,
    /// And when another daemon has repaired it too.
    Grb,
    /// And when a neighbour misses it too.
    Local,
}

impl BimodalOptions {
    /// The defaults with these options laid over them, not yet validated.
    pub(super) fn settings(&self) -> GossipConfig {
        let mut gossip = GossipConfig::lan();
        set(&mut gossip.sub_gsize, self.sub_gsize);
        set_time(&mut gossip.step_interval, self.step_interval);
        set(&mut gossip.stable_threshold, self.stable_threshold);
        set(&mut gossip.variant, self.variant.map(Variant::from));
        gossip.hash = self
            .bufferers
            .filter(|bufferers| *bufferers > 0)
            .map(|bufferers| HashConfig {
                bufferers,
                ..HashConfig::default()
            });
        set(&mut gossip.limit_retrans, self.limit_retrans);
        set(&mut gossip.limit_retrans_bytes, self.limit_retrans_bytes);
        set(&mut gossip.limit_requests, self.limit_requests);
        set(&mut gossip.buffer_max, self.buffer_max);
        set(&mut gossip.queue_max, self.queue_max);
        set(&mut gossip.senders_max, self.senders_max);
        set(&mut gossip.window_max, self.window_max);
        set(&mut gossip.view_max, self.view_max);
        set(&mut gossip.fail_rounds, self.fail_rounds);
        gossip
    }

    /// Lays these options over the engine's settings.
    pub(super) fn apply(&self, engine: &mut EngineConfig) {
        set(&mut engine.bimodal_groups, self.groups.clone());
        set(&mut engine.bimodal_message_max, self.message_max);
        set(&mut engine.bimodal_members_max, self.members_max);
    }

    /// The key of gossip's setting called `field`.
    pub(super) fn key(field: &str) -> String {
        match field {
            "hash" => "bimodal.bufferers".into(),
            field => format!("bimodal.{field}"),
        }
    }
}

impl From<VariantOption> for Variant {
    fn from(variant: VariantOption) -> Self {
        match variant {
            VariantOption::Basic => Self::Basic,
            VariantOption::Ipmc => Self::Ipmc,
            VariantOption::Grb => Self::Grb,
            VariantOption::Local => Self::Local,
        }
    }
}
