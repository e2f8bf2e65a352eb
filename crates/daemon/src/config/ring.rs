//! The table `[ring]`: windows, limits and time-outs of the ring, by the names that the ring's settings have.

use std::time::Duration;

use groupcast_protocols::ring::{RingConfig, TokenPriority};
use groupcast_session::frame::FRAME_MAX;
use serde::{Deserialize, Serialize};

use super::duration::Span;
use super::{set, set_time};

/// Bytes that may wait for the token unless the file says otherwise: what its two largest visits take.
pub(super) const QUEUE_MAX: usize = 1 << 20;

/// How long the ring is quiet before the token rests unless the file says otherwise. At a few messages a millisecond and
/// less, the token then rests between them: to wake it takes one datagram more, but a token that went round all the time
/// would have to be waited for as long, and it occupies processors that clients need.
pub(super) const IDLE_AFTER: Duration = Duration::from_micros(100);

/// The keys of `[ring]`; those left out keep the preset's.
#[derive(Clone, Default, PartialEq, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RingOptions {
    /// Which settings to begin with.
    pub preset: Option<Preset>,
    /// The most bytes of a datagram body.
    pub body_max: Option<usize>,
    /// The most bytes that wait for the token.
    pub queue_max: Option<usize>,
    /// The most members.
    pub members_max: Option<usize>,
    /// The most new packets a visit of the token.
    pub personal_window: Option<u32>,
    /// The most packets of all members a rotation.
    pub global_window: Option<u32>,
    /// The most new packets sent after the token.
    pub accelerated_window: Option<u32>,
    /// The most packets between what everybody holds and the newest.
    pub seq_gap_max: Option<u32>,
    /// When the token gets its high priority back.
    pub priority: Option<Priority>,
    /// The least token-loss time-out.
    pub token_loss_min: Option<Span>,
    /// The greatest token-loss time-out.
    pub token_loss_max: Option<Span>,
    /// The least time after which a token is sent again.
    pub token_retransmit_min: Option<Span>,
    /// How long the ring is quiet before the token rests.
    pub idle_after: Option<Span>,
    /// How long the token rests.
    pub idle_hold: Option<Span>,
    /// What was sent from rest is confirmed by a rotation after this.
    pub confirm_after: Option<Span>,
    /// How often joins are repeated.
    pub join_interval: Option<Span>,
    /// How long a silent member is waited for while a ring forms.
    pub consensus_timeout: Option<Span>,
    /// How long a member that hears nobody waits before it forms a ring of its own.
    pub alone_after: Option<Span>,
    /// How often a ring announces itself.
    pub announce_interval: Option<Span>,
    /// How long a member may fail to receive.
    pub fail_to_receive: Option<Span>,
    /// The shortest exclusion.
    pub quarantine_min: Option<Span>,
    /// The longest exclusion.
    pub quarantine_max: Option<Span>,
    /// How long a graceful leave may take.
    pub leave_timeout: Option<Span>,
}

/// Settings to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// A local network.
    #[default]
    Lan,
    /// Links of tens of milliseconds.
    Wan,
}

/// When the token gets its high priority back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// On any data of the predecessor's next round.
    First,
    /// On data that the predecessor sent after its token.
    Second,
}

impl RingOptions {
    /// The preset with these options laid over it, not yet validated.
    pub(super) fn settings(&self) -> RingConfig {
        let mut ring = match self.preset.unwrap_or_default() {
            Preset::Lan => RingConfig::lan(),
            Preset::Wan => RingConfig::wan(),
        };
        set(&mut ring.body_max, self.body_max);
        // What clients may send is limited by the engine, whose own messages must pass too.
        ring.message_max = FRAME_MAX;
        ring.queue_max = self.queue_max.unwrap_or(QUEUE_MAX);
        set(&mut ring.members_max, self.members_max);
        ring.personal_window = self.personal_window.or(ring.personal_window);
        ring.global_window = self.global_window.or(ring.global_window);
        ring.accelerated_window = self.accelerated_window.or(ring.accelerated_window);
        set(&mut ring.seq_gap_max, self.seq_gap_max);
        set(&mut ring.priority, self.priority.map(TokenPriority::from));
        set_time(&mut ring.token_loss_min, self.token_loss_min);
        set_time(&mut ring.token_loss_max, self.token_loss_max);
        set_time(&mut ring.token_retransmit_min, self.token_retransmit_min);
        ring.idle_after = self.idle_after.map_or(IDLE_AFTER, |span| span.0);
        set_time(&mut ring.idle_hold, self.idle_hold);
        set_time(&mut ring.confirm_after, self.confirm_after);
        set_time(&mut ring.join_interval, self.join_interval);
        set_time(&mut ring.consensus_timeout, self.consensus_timeout);
        set_time(&mut ring.alone_after, self.alone_after);
        set_time(&mut ring.announce_interval, self.announce_interval);
        set_time(&mut ring.fail_to_receive, self.fail_to_receive);
        set_time(&mut ring.quarantine_min, self.quarantine_min);
        set_time(&mut ring.quarantine_max, self.quarantine_max);
        set_time(&mut ring.leave_timeout, self.leave_timeout);
        ring
    }
}

impl From<Priority> for TokenPriority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::First => Self::FirstMethod,
            Priority::Second => Self::SecondMethod,
        }
    }
}
