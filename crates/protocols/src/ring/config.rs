//! Settings of a ring. The defaults are right for a LAN; windows tune themselves unless they are pinned.

use core::time::Duration;

use super::indices::Indices;
#[cfg(feature = "planted-bugs")]
use super::planted::Planted;
use super::wire::{DATA_HEADER, RECOVERED_HEADER};

/// When the token gets its high priority back (002 III-C).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenPriority {
    /// On any data of the predecessor's next round: fastest rotation, sensitive to tuning (the paper's prototypes).
    FirstMethod,
    /// On data that the predecessor sent after its token: steadier (Spread; our default).
    SecondMethod,
}

/// Settings of a ring. All members should have the same.
#[derive(Clone, PartialEq, Debug)]
pub struct RingConfig {
    /// The most bytes of a datagram body, headers of the ring included. Default 1431: with the node's framing a UDP
    /// payload of 1472, one Ethernet frame. Up to 65,000; above one frame the loss of a fragment loses all of it.
    pub body_max: usize,
    /// The most bytes of a message. Default 64 MiB.
    pub message_max: usize,
    /// Bytes of messages that may wait for the token; a single longer one is taken when nothing waits. Default 4 MiB.
    pub queue_max: usize,
    /// The most members. Default 128, which is also the limit. More are ignored.
    pub members_max: usize,
    /// Most new packets a visit of the token (Personal_window). Default: tuned between 16 and 376.
    pub personal_window: Option<u32>,
    /// Most packets of all members a rotation (Global_window). Default: 1024. Too large for the
    /// receivers' socket buffers: bursts are lost and sent again.
    pub global_window: Option<u32>,
    /// Most new packets sent after the token (Accelerated_window). Default: three quarters of the personal window, and
    /// none if a visit sends a single packet. 0 with the second method is the original ring.
    pub accelerated_window: Option<u32>,
    /// Most packets between what everybody holds and the newest (Max_seq_gap). Default 4096. Bounds the memory of the
    /// receive window: twice this many packets.
    pub seq_gap_max: u32,
    /// When the token gets its high priority back. Default: the second method.
    pub priority: TokenPriority,
    /// No token for this long: the ring is broken. The time-out adapts upwards from here, to 8 rotations (mean and
    /// four deviations) but never above `token_loss_max`. Default 150 ms. Too small: pauses of the scheduler break the ring.
    pub token_loss_min: Duration,
    /// The most that the token-loss time-out adapts to. Default 250 ms.
    pub token_loss_max: Duration,
    /// A token is sent again if there is no sign that it arrived, after two undisturbed rotations, but not sooner than
    /// this. Default 3 ms.
    pub token_retransmit_min: Duration,
    /// The ring is quiet for this long: the token begins to rest at the representative. Default 2 ms.
    pub idle_after: Duration,
    /// How long the token rests there when nobody wakes it. Default 35 ms; at most a quarter of `token_loss_min`.
    pub idle_hold: Duration,
    /// What was sent by members that called for the resting token: after this the token goes round, to find out whether
    /// all hold it. Default 3 ms. Too small: every lone message is followed by a rotation. Too large: a lone message that
    /// was lost on the way to a member is missed there for that long, unless another follows.
    pub confirm_after: Duration,
    /// Joins are repeated this often while a ring forms. Default 15 ms.
    pub join_interval: Duration,
    /// Who has not answered joins for this long is not part of the next ring. Default 160 ms. With `token_loss_min`
    /// it is the time in which a pause does no harm, and the larger part of a fail-over.
    pub consensus_timeout: Duration,
    /// A member that hears nobody forms a ring of its own after this long. Default 100 ms.
    pub alone_after: Duration,
    /// A ring announces itself this often, its members taking turns, so that rings that can reach each other merge.
    /// Default 200 ms.
    pub announce_interval: Duration,
    /// A member whose all-received-up-to mark has not moved for this long while others retransmit to it is excluded.
    /// Default 400 ms.
    pub fail_to_receive: Duration,
    /// Who was excluded is not let in again for this long; doubled each time that it happens again soon, up to
    /// `quarantine_max`. Default 300 ms. It keeps one-way links from breaking the ring over and over.
    pub quarantine_min: Duration,
    /// The longest quarantine. Default 5 s.
    pub quarantine_max: Duration,
    /// A graceful leave that cannot finish with the others is finished without them after this long. Default 1 s.
    pub leave_timeout: Duration,
    /// A rule of the ring that is broken on purpose, so that the checker and the swarm can show that they find it.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<Planted>,
}

/// A setting that cannot work, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the setting.
    pub field: &'static str,
    /// What is wrong with it and what to do.
    pub problem: &'static str,
}

impl RingConfig {
    /// Settings for a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self {
            body_max: 1431,
            message_max: 64 << 20,
            queue_max: 4 << 20,
            members_max: 128,
            personal_window: None,
            global_window: None,
            accelerated_window: None,
            seq_gap_max: 4096,
            priority: TokenPriority::SecondMethod,
            token_loss_min: Duration::from_millis(150),
            token_loss_max: Duration::from_millis(250),
            token_retransmit_min: Duration::from_millis(3),
            idle_after: Duration::from_millis(2),
            idle_hold: Duration::from_millis(35),
            confirm_after: Duration::from_millis(3),
            join_interval: Duration::from_millis(15),
            consensus_timeout: Duration::from_millis(160),
            alone_after: Duration::from_millis(100),
            announce_interval: Duration::from_millis(200),
            fail_to_receive: Duration::from_millis(400),
            quarantine_min: Duration::from_millis(300),
            quarantine_max: Duration::from_secs(5),
            leave_timeout: Duration::from_secs(1),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }

    /// Settings for links of tens of milliseconds: as [`lan`](Self::lan), all time-outs six times as long, the
    /// retransmission of the token after 50 ms.
    pub fn wan() -> Self {
        let lan = Self::lan();
        Self {
            token_loss_min: lan.token_loss_min * 6,
            token_loss_max: lan.token_loss_max * 6,
            token_retransmit_min: Duration::from_millis(50),
            idle_hold: lan.idle_hold * 6,
            confirm_after: lan.confirm_after * 6,
            join_interval: lan.join_interval * 6,
            consensus_timeout: lan.consensus_timeout * 6,
            alone_after: lan.alone_after * 6,
            announce_interval: lan.announce_interval * 6,
            fail_to_receive: lan.fail_to_receive * 6,
            quarantine_min: lan.quarantine_min * 6,
            quarantine_max: lan.quarantine_max * 6,
            leave_timeout: lan.leave_timeout * 6,
            ..lan
        }
    }

    /// Checks that the settings fit each other. Nothing is corrected silently.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem| Err(ConfigError { field, problem });
        if self.body_max < 256 || self.body_max > 65_000 {
            return refuse("body_max", "must be between 256 and 65000 bytes");
        }
        if self.members_max < 1 || self.members_max > Indices::MAX {
            return refuse("members_max", "must be between 1 and 128");
        }
        if self.message_max < 1 || self.message_max > 1 << 30 {
            return refuse("message_max", "must be between 1 byte and 1 GiB");
        }
        if self.personal_window == Some(0) || self.global_window == Some(0) {
            return refuse(
                "personal_window",
                "a window of 0 lets nothing be sent: leave it out to have it tuned",
            );
        }
        if let (Some(accelerated), Some(personal)) = (self.accelerated_window, self.personal_window)
            && accelerated > personal
        {
            return refuse("accelerated_window", "must not exceed personal_window");
        }
        if self.seq_gap_max < 64 || self.seq_gap_max > 1 << 20 {
            return refuse("seq_gap_max", "must be between 64 and 1048576 packets");
        }
        if self.idle_hold * 4 > self.token_loss_min {
            return refuse(
                "idle_hold",
                "must be at most a quarter of token_loss_min, or rest looks like loss",
            );
        }
        if self.token_loss_max < self.token_loss_min {
            return refuse("token_loss_max", "must not be below token_loss_min");
        }
        if self.token_retransmit_min * 4 > self.token_loss_min {
            return refuse(
                "token_retransmit_min",
                "must be at most a quarter of token_loss_min",
            );
        }
        if self.join_interval.is_zero() || self.join_interval * 4 > self.consensus_timeout {
            return refuse(
                "join_interval",
                "must be above 0 and at most a quarter of consensus_timeout",
            );
        }
        if self.announce_interval.is_zero() || self.quarantine_max < self.quarantine_min {
            return refuse(
                "announce_interval",
                "intervals must be above 0, and quarantine_max not below quarantine_min",
            );
        }
        Ok(())
    }

    /// The most bytes of packed records in a packet: what a recovered packet's larger header leaves.
    pub(super) fn records_max(&self) -> usize {
        self.body_max - DATA_HEADER - RECOVERED_HEADER
    }
}

impl Default for RingConfig {
    fn default() -> Self {
        Self::lan()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_valid() {
        assert_eq!(RingConfig::lan().validate(), Ok(()));
        assert_eq!(RingConfig::wan().validate(), Ok(()));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_by_name() {
        let slow = RingConfig {
            idle_hold: Duration::from_millis(100),
            ..RingConfig::lan()
        };
        assert_eq!(
            slow.validate().map_err(|error| error.field),
            Err("idle_hold")
        );
        let early = RingConfig {
            accelerated_window: Some(30),
            personal_window: Some(20),
            ..RingConfig::lan()
        };
        assert_eq!(
            early.validate().map_err(|error| error.field),
            Err("accelerated_window")
        );
    }
}
