//! Settings of a ring. The defaults are right for a LAN; windows tune themselves unless they are
//! pinned.

use alloc::format;
use core::time::Duration;

use groupcast_core::mech::delays::Lengths;
use groupcast_core::mech::indices::Indices;
pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Preset, Settings as _, Span, Spec};

#[cfg(feature = "planted-bugs")]
use super::planted::Planted;

/// The least that [`RingConfig::body_max`] may be.
pub(super) const BODY_LEAST: usize = 256;
/// The most that it may be.
pub(super) const BODY_MOST: usize = 65_000;
/// The most that [`RingConfig::seq_gap_max`] may be.
pub(super) const SEQ_GAP_MOST: u32 = 1 << 15;
/// Sequence numbers that may be in use above what is safe: twice the largest gap that settings
/// allow, as what is safe may be known here a round later than to the one that claims. Where
/// members have different gaps, this member's own says nothing of what others claim. Of an old ring
/// that is recovered so many may be missing here, and there is room for them.
pub(super) const CLAIMED_MOST: u64 = 2 * SEQ_GAP_MOST as u64;

/// When the token gets its high priority back (002 III-C).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenPriority {
    /// On any data of the predecessor's next round: fastest rotation, sensitive to tuning (the
    /// paper's prototypes).
    FirstMethod,
    /// On data that the predecessor sent after its token: steadier (Spread; our default).
    SecondMethod,
}

groupcast_core::setting_words! {
    TokenPriority { "first" => FirstMethod, "second" => SecondMethod }
}

groupcast_core::settings! {
    /// Settings of a ring. All members should have the same.
    #[derive(Clone, PartialEq, Debug)]
    pub struct RingConfig {
        /// The most bytes of a datagram's body, the ring's headers included. 1431 makes one
        /// Ethernet frame (a UDP payload of 1472) with all headers.
        pub body_max: usize = 1431 => Spec::size(BODY_LEAST as u64, BODY_MOST as u64),
            "Above one frame (MTU less 69): the loss of one fragment loses the whole datagram, and offload is not \
             possible. Too small: more packets for the same bytes.";
        /// The most bytes of a message.
        pub message_max: usize = 64 << 20 => Spec::size(1, 1 << 30).experimental(),
            "Too small: messages are refused. Too large: a message occupies that much memory at every member.";
        /// Bytes of messages that may wait for the token. A single longer message is taken when
        /// nothing waits.
        pub queue_max: usize = 4 << 20 => Spec::size(0, u64::MAX),
            "Too small: senders wait although the ring has room (below twice what a visit of the token takes: 0.5 MB \
             by default). Too large: memory, and messages wait longer.";
        /// Whether the queue is as short as the ring allows: no more may wait than twice what the
        /// token takes at a visit, 8 KiB at least and `queue_max` at most.
        pub queue_measured: bool = false => Spec::flag(),
            "False: where tokens are slow, messages wait behind all that `queue_max` allows. True: a burst that the \
             ring would take in several visits has to be submitted in as many parts.";
        /// The most members of a ring; more are ignored.
        pub members_max: usize = 128 => Spec::count("members", 1, Indices::MAX as u32),
            "Too small: members stay outside.";
        /// The most new packets a visit of the token (Personal_window).
        pub personal_window: Option<u32> = None
            => Spec::count("packets", 1, u32::MAX).unset("tuned between 16 and 376"),
            "Too small: throughput. Too large: bursts overflow receive buffers and are sent again. Pinned, it no \
             longer adapts.";
        /// The most packets of all members a rotation of the token (Global_window).
        pub global_window: Option<u32> = None
            => Spec::count("packets", 1, u32::MAX).unset("1024, the same at all members"),
            "Too small: throughput. Too large: bursts overflow receive buffers and are sent again.";
        /// The most new packets sent after the token (Accelerated_window). 0 with the second method
        /// is the original ring.
        pub accelerated_window: Option<u32> = None
            => Spec::count("packets", 0, u32::MAX)
                .rule("at most personal_window where both are given")
                .unset("three quarters of the personal window, and none if a visit sends a single packet"),
            "Too small: the token waits for data. Too large: more requests for packets that are on their way.";
        /// The most packets between what every member holds and the newest (Max_seq_gap). Bounds
        /// the memory of the receive window: twice this many packets.
        pub seq_gap_max: u32 = 4096 => Spec::count("packets", 64, SEQ_GAP_MOST),
            "Too small: one slow member stops the others early. Too large: memory.";
        /// When the token is read before data again: `first` method, on any data of the
        /// predecessor's next round, or `second`, on data that it sent after its token.
        pub priority: TokenPriority = TokenPriority::SecondMethod => Spec::word(TokenPriority::WORDS),
            "`first` rotates faster and is more sensitive to the windows.";
        /// No token for this long: the ring is broken. The time-out adapts upwards from here, to
        /// eight rotations (mean and four deviations), but never above `token_loss_max`.
        pub token_loss_min: Duration = Duration::from_millis(150) => Spec::time(),
            "Too small: a pause of the scheduler breaks the ring. Too large: crashes are noticed late.";
        /// The most that the token-loss time-out adapts to.
        pub token_loss_max: Duration = Duration::from_millis(250)
            => Spec::time().rule("not below token_loss_min"),
            "Too small: slow rotations under load break the ring. Too large: crashes under load are noticed late.";
        /// A token is sent again if there is no sign that it arrived, after two undisturbed
        /// rotations, but not sooner than this.
        pub token_retransmit_min: Duration = Duration::from_millis(3)
            => Spec::time().rule("at most a quarter of token_loss_min"),
            "Too small: needless copies of the token. Too large: a lost token stops the ring for that long.";
        /// The ring is quiet for this long: the token begins to rest at one member.
        pub idle_after: Duration = Duration::from_millis(2) => Spec::time(),
            "0: the token rests while messages are under way. Too large: processor time while nothing happens.";
        /// How long the token rests there when no member calls for it.
        pub idle_hold: Duration = Duration::from_millis(35)
            => Spec::time().rule("at most a quarter of token_loss_min"),
            "Too small: processor time while nothing happens. Too large: rest is taken for loss.";
        /// How long after the last message for which the resting token was called the token goes
        /// round, to find out whether all hold it; up to eight times as long while no packet is
        /// missing. Above `idle_hold` it has no effect.
        pub confirm_after: Duration = Duration::from_millis(3) => Spec::time(),
            "Too small: each lone message costs a rotation. Too large: a lone message that one member did not get is \
             missing there for that long, unless another follows.";
        /// How long, after a visit of the token, a member may sleep for everything but control. It
        /// does while a rotation has 1 to 64 packets and misses none, for a mean rotation at most.
        pub doze_max: Duration = Duration::ZERO => Spec::time(),
            "0: a member wakes for everything. Too large: where no token comes, messages wait for that long.";
        /// How often joins are repeated while a ring forms.
        pub join_interval: Duration = Duration::from_millis(15)
            => Spec::interval().rule("at most a quarter of consensus_timeout"),
            "Too small: traffic. Too large: a lost join delays the ring.";
        /// A member that has not answered joins for this long is not part of the next ring. With
        /// `token_loss_min` it is the time in which a pause does no harm, and the larger part of a
        /// fail-over.
        pub consensus_timeout: Duration = Duration::from_millis(160) => Spec::time(),
            "Too small: members that pause are left out. Too large: a crash stops the group for longer.";
        /// A member that hears no other forms a ring of its own after this long.
        pub alone_after: Duration = Duration::from_millis(100) => Spec::time(),
            "Too small: it forms a ring that soon merges. Too large: a single member starts late.";
        /// How often a ring announces itself, its members taking turns, so that rings that can
        /// reach each other merge.
        pub announce_interval: Duration = Duration::from_millis(200) => Spec::interval(),
            "Too small: traffic. Too large: healed partitions merge late.";
        /// A member whose all-received-up-to mark has not moved for this long while others
        /// retransmit to it is excluded.
        pub fail_to_receive: Duration = Duration::from_millis(400) => Spec::time(),
            "Too small: members in trouble for a moment are excluded. Too large: one that cannot receive stops all for \
             that long.";
        /// A member that was excluded is not let in again for this long; four times as long each
        /// time that it happens again soon, up to `quarantine_max`.
        pub quarantine_min: Duration = Duration::from_millis(300) => Spec::time(),
            "Too small: a one-way link breaks the ring over and over. Too large: a member that recovered waits.";
        /// The longest quarantine.
        pub quarantine_max: Duration = Duration::from_secs(60)
            => Spec::time().rule("not below quarantine_min"),
            "As with quarantine_min.";
        /// A graceful leave that cannot finish with the others is finished without them after this
        /// long.
        pub leave_timeout: Duration = Duration::from_secs(1) => Spec::time(),
            "Too small: messages that were accepted last may be lost to the others. Too large: a member ends late.";
        /// A rule of the ring that is broken on purpose, so that the checker and the swarm can show
        /// that they find it.
        #[cfg(feature = "planted-bugs")]
        pub planted: Option<Planted> = None;
    }
    presets [
        Preset {
            name: "lan",
            meaning: "a local network, up to 5 ms one way",
            make: RingConfig::lan,
        },
        Preset {
            name: "wan",
            meaning: "links of up to 100 ms one way: time-outs six times as long, the longest for a lost token sixteen \
                      times, the token sent again after 50 ms at the earliest",
            make: RingConfig::wan,
        },
    ]
}

impl RingConfig {
    /// Settings for a LAN, up to 5 ms one way: the documented defaults.
    pub fn lan() -> Self {
        Self::default()
    }

    /// Settings for links of up to 100 ms one way: as [`lan`](Self::lan), all time-outs but
    /// `idle_after` six times as long, the longest for a lost token sixteen times, the longest
    /// quarantine twice, the retransmission of the token after 50 ms.
    pub fn wan() -> Self {
        Self::lan().over_distance()
    }

    /// These settings with time-outs for links of up to 100 ms one way.
    pub(super) fn over_distance(self) -> Self {
        Self {
            token_loss_min: self.token_loss_min * 6,
            token_loss_max: self.token_loss_max * 16,
            token_retransmit_min: Duration::from_millis(50),
            idle_hold: self.idle_hold * 6,
            confirm_after: self.confirm_after * 6,
            join_interval: self.join_interval * 6,
            consensus_timeout: self.consensus_timeout * 6,
            alone_after: self.alone_after * 6,
            announce_interval: self.announce_interval * 6,
            fail_to_receive: self.fail_to_receive * 6,
            quarantine_min: self.quarantine_min * 6,
            quarantine_max: self.quarantine_max * 2,
            leave_timeout: self.leave_timeout * 6,
            ..self
        }
    }

    /// How long a member that was excluded is not let in: the longest time is reached within the
    /// first half minute of a fault.
    pub(super) fn quarantines(&self) -> Lengths {
        Lengths {
            min: self.quarantine_min,
            max: self.quarantine_max,
            growth: 4,
        }
    }

    /// The token-loss time-out while no rotation was seen: half of the longest, but not below the
    /// shortest.
    pub(super) fn forming_loss(&self) -> Duration {
        (self.token_loss_max / 2).max(self.token_loss_min)
    }

    /// Checks the ranges of the settings, and that they fit each other. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if let (Some(accelerated), Some(personal)) = (self.accelerated_window, self.personal_window)
            && accelerated > personal
        {
            let allowed = format!("at most personal_window, {personal}");
            return Err(self.refuse("accelerated_window", allowed));
        }
        let quarter = |longer: &str, time: Duration| {
            format!("at most a quarter of {longer}, {}", Span(time / 4))
        };
        if self.idle_hold > self.token_loss_min / 4 {
            let allowed = quarter("token_loss_min", self.token_loss_min);
            let error = self.refuse("idle_hold", allowed);
            let remedy = format!("{}, or rest looks like loss", error.remedy);
            return Err(error.with_remedy(remedy));
        }
        if self.token_retransmit_min > self.token_loss_min / 4 {
            let allowed = quarter("token_loss_min", self.token_loss_min);
            return Err(self.refuse("token_retransmit_min", allowed));
        }
        if self.join_interval > self.consensus_timeout / 4 {
            let allowed = quarter("consensus_timeout", self.consensus_timeout);
            return Err(self.refuse("join_interval", allowed));
        }
        if self.token_loss_max < self.token_loss_min {
            let allowed = format!("at least token_loss_min, {}", Span(self.token_loss_min));
            return Err(self.refuse("token_loss_max", allowed));
        }
        if self.quarantine_max < self.quarantine_min {
            let allowed = format!("at least quarantine_min, {}", Span(self.quarantine_min));
            return Err(self.refuse("quarantine_max", allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_valid() {
        assert_eq!(RingConfig::lan().validate(), Ok(()));
        assert_eq!(RingConfig::wan().validate(), Ok(()));
        assert_eq!(RingConfig::daemon().validate(), Ok(()));
        assert_eq!(RingConfig::daemon_wan().validate(), Ok(()));
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
