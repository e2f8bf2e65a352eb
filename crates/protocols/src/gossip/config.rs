//! Settings of a gossip group, by the names of 004 5.2 where it has names.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, MessageId, NodeId};

use super::wire::DATA_HEADER;

/// How a member repairs (004 5.3). Each includes what those before it do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Variant {
    /// A repair is unicast to who asked (004 Fig. 5.2).
    Basic,
    /// A message that was asked for `threshold` times is multicast (Pbcast-ipmc, Fig. 5.4).
    Ipmc,
    /// And one that this member and another one repaired before (Pbcast-grb, Fig. 5.7).
    Grb,
    /// And who misses a message tells a neighbour, who asks for a multicast if it misses it too (Pbcast-local, Fig. 5.9).
    Local,
}

/// The first phase: how a new message is spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dissemination {
    /// One multicast (or a unicast copy each where there is none).
    Multicast,
    /// Along one of `trees` spanning trees, drawn anew for each message (004 3.6.1). All members must agree on these
    /// numbers, and nearly on the membership.
    Trees {
        /// How many trees there are. At least 1.
        trees: u16,
        /// The most children of a member in a tree. At least 1.
        arity: u16,
        /// What the trees follow from.
        seed: u64,
    },
}

/// The function H of 004 7.2.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The shuffle table that follows from this seed (see [`Shuffle`](super::Shuffle)).
    Shuffle(u64),
    /// Given, as a share of 2^32: for examples whose values are printed.
    Given(fn(MessageId, MemberId) -> u32),
}

/// Hash buffering (Pbcast-hash, 004 ch. 7): few members, others for each message, keep it for repairs.
#[derive(Clone, Debug)]
pub struct HashConfig {
    /// C: how many members of a view should keep a message. Default 6. In a group of n where all views are samples of
    /// `view_max`, about C · n / `view_max` members keep it, so that everybody knows C of them.
    pub bufferers: u32,
    /// Rounds in which everybody keeps every message (the short-term buffer, 004 7.4). Default 3. 0: none.
    pub short_term: u32,
    /// H. All members must have the same. Default: the shuffle table of seed 0.
    pub place: Place,
    /// Who misses a message asks a bufferer at once where the gossiper is none (the prose of 004 Fig. 7.1), instead of
    /// asking the gossiper, who passes it on (Fig. 7.3). Default false.
    pub ask_bufferers: bool,
    /// Gossip names what its sender misses; who misses it too asks the source for a multicast (004 7.4). Default true.
    pub gaps: bool,
}

impl Default for HashConfig {
    fn default() -> Self {
        Self {
            bufferers: 6,
            short_term: 3,
            place: Place::Shuffle(0),
            ask_bufferers: false,
            gaps: true,
        }
    }
}

/// Hierarchical gossip (004 3.7): members gossip within their zone, links with links of other zones too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// Whether this member gossips with other zones.
    pub link: bool,
    /// A link gossips with another zone every so many rounds. Default 1.
    pub remote_every: u32,
}

/// Settings of a gossip group. All members should have the same, but for `zone`, `hierarchy` and `partners`.
#[derive(Clone, Debug)]
pub struct GossipConfig {
    /// Members to gossip to in a round (004: sub-gsize). Default 1. Fan-out is this times `stable_threshold`.
    pub sub_gsize: u32,
    /// Length of a round (004: step-interval). Default 100 ms. Below a round trip, requests come too late to be served.
    pub step_interval: Duration,
    /// When the first round begins, from the start. Default: at random within one round.
    pub first_round: Option<Duration>,
    /// The most repairs that a member sends in a round (004: limit-retrans). Default 100.
    pub limit_retrans: u32,
    /// The most bytes of repairs that a member sends in a round. Default 1 MiB. With `limit_retrans` it bounds what
    /// forged requests can make a member send, whatever they are.
    pub limit_retrans_bytes: usize,
    /// The most requests that a member sends in a round (004: limit-requests). Default 100.
    pub limit_requests: u32,
    /// Rounds for which a message is gossiped about and kept (004: stable-threshold). Default 10. One round later what
    /// is still missing is a gap. Too small: gaps that another round would have repaired.
    pub stable_threshold: u32,
    /// How repairs are sent. Default: [`Variant::Grb`].
    pub variant: Variant,
    /// How often a message is asked for before it is multicast (004 5.3.1). Default 2.
    pub threshold: u32,
    /// Larger groups multicast repairs later (ours): each member counts for itself, so the more members, the likelier
    /// some are asked twice for a message that few have lost, and each of those would send it to all. In a group of more
    /// than 100 members `threshold` is one higher, of more than 1,000 two, and so on, and as many more others must have
    /// repaired the message (for [`Variant::Grb`]); where the view is full, so that nobody knows how large the group
    /// is, repairs are not multicast. Default true.
    pub threshold_grows: bool,
    /// Multicast repairs are sent whatever `limit_retrans` says, as 004 Fig. 5.4 has it. Default false.
    pub multicast_exempt: bool,
    /// What was sent to the same member or multicast in this round or the last one is not sent again (004 3.7, cyclic
    /// retransmissions). Default true.
    pub cyclic: bool,
    /// A duplicate sets a message's gossip count to 0 again, as 004 Fig. 5.3 has it. Default false: buffers then grow
    /// with the loss.
    pub duplicate_resets: bool,
    /// Hash buffering. Default: none, every member keeps every message until it is stable.
    pub hash: Option<HashConfig>,
    /// The first phase. Default: multicast.
    pub dissemination: Dissemination,
    /// The members to gossip to in rounds 1, 2 and so on, for exchanges that follow a script; later rounds draw them at
    /// random. Default: none.
    pub partners: Vec<Vec<NodeId>>,
    /// The member's zone: its LAN. Neighbours (for [`Variant::Local`]) are members of the same zone. Default 0.
    pub zone: u32,
    /// Hierarchical gossip. Default: none, everybody gossips with everybody.
    pub hierarchy: Option<Hierarchy>,
    /// The most members that this one knows. Default 1024. In a larger group it is a random sample that changes; some
    /// members are then gossiped to more rarely, so take a `sub_gsize` of 2.
    pub view_max: usize,
    /// Members whose signs of life a gossip message carries. Default 8.
    pub members_per_gossip: u32,
    /// Who has given no sign of life for so many rounds has failed. Default 100; more where the view is so large that
    /// signs come rarely.
    pub fail_rounds: u32,
    /// The group announces itself to strangers about once in so many rounds, its members taking turns at random, so
    /// that parts that had lost each other meet again. Default 20. `None`: never. A member whose view is full does not
    /// know how large the group is and stays silent.
    pub announce_every: Option<u32>,
    /// The most bytes of the digest in a gossip message. Default 1,200. What does not fit waits for another round.
    pub digest_max: usize,
    /// The most bytes of a message. Default 64,000: a message is one datagram.
    pub message_max: usize,
    /// Bytes that may wait to be sent, of messages, and as many again of everything else. Default 4 MiB.
    pub queue_max: usize,
    /// Bytes that the messages held may take, with their book-keeping. Default 16 MiB. The oldest make room; where all
    /// wait for one that is missing, new ones are dropped, as if lost on the way. One message of the member's own may
    /// exceed it.
    pub buffer_max: usize,
    /// The most senders that a member follows. Default 256. Messages of more are dropped.
    pub senders_max: usize,
    /// The most numbers between a sender's oldest message that may still come and its newest. Default 8,192. Older
    /// ones are given up.
    pub window_max: u32,
    /// Whether [`Event::Stable`](groupcast_core::Event::Stable) is wanted. Default false.
    pub stability_notices: bool,
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

impl GossipConfig {
    /// Settings for a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self {
            sub_gsize: 1,
            step_interval: Duration::from_millis(100),
            first_round: None,
            limit_retrans: 100,
            limit_retrans_bytes: 1 << 20,
            limit_requests: 100,
            stable_threshold: 10,
            variant: Variant::Grb,
            threshold: 2,
            threshold_grows: true,
            multicast_exempt: false,
            cyclic: true,
            duplicate_resets: false,
            hash: None,
            dissemination: Dissemination::Multicast,
            partners: Vec::new(),
            zone: 0,
            hierarchy: None,
            view_max: 1024,
            members_per_gossip: 8,
            fail_rounds: 100,
            announce_every: Some(20),
            digest_max: 1200,
            message_max: 64_000,
            queue_max: 4 << 20,
            buffer_max: 16 << 20,
            senders_max: 256,
            window_max: 8192,
            stability_notices: false,
        }
    }

    /// Settings of 004 chapters 5 to 7, where they differ from [`lan`](Self::lan): basic Pbcast, no cyclic rule,
    /// one threshold whatever the size of the group, multicast repairs exempt from the limit, duplicates reset the gossip
    /// count, gossip carries no signs of life and nobody announces anything.
    pub fn paper() -> Self {
        Self {
            variant: Variant::Basic,
            threshold_grows: false,
            multicast_exempt: true,
            cyclic: false,
            duplicate_resets: true,
            members_per_gossip: 0,
            announce_every: None,
            fail_rounds: u32::MAX,
            ..Self::lan()
        }
    }

    /// Checks that the settings fit each other. Nothing is corrected silently.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem| Err(ConfigError { field, problem });
        if self.step_interval.is_zero() {
            return refuse("step_interval", "must be above 0");
        }
        if self.sub_gsize > 1000 {
            return refuse("sub_gsize", "must be at most 1000 members");
        }
        if self.stable_threshold < 1 || self.stable_threshold > 10_000 {
            return refuse("stable_threshold", "must be between 1 and 10000 rounds");
        }
        if self.threshold < 1 {
            return refuse("threshold", "must be at least 1: 1 multicasts every repair");
        }
        if self.message_max < 1 || self.message_max + DATA_HEADER > 65_000 {
            return refuse("message_max", "must be between 1 and 64973 bytes");
        }
        if self.queue_max < self.message_max || self.buffer_max < self.message_max {
            return refuse(
                "queue_max",
                "queue_max and buffer_max must take a message of message_max",
            );
        }
        if self.digest_max < 64 || self.digest_max > 60_000 {
            return refuse("digest_max", "must be between 64 and 60000 bytes");
        }
        if self.members_per_gossip > 200 {
            return refuse("members_per_gossip", "must be at most 200");
        }
        if self.view_max < 1 || self.view_max > 65_536 {
            return refuse("view_max", "must be between 1 and 65536 members");
        }
        if self.senders_max < 1 || self.window_max < 64 || self.window_max > 1 << 20 {
            return refuse(
                "window_max",
                "must be between 64 and 1048576 numbers, and senders_max at least 1",
            );
        }
        if self.fail_rounds < 2 || self.announce_every == Some(0) {
            return refuse(
                "fail_rounds",
                "must be at least 2 rounds, and announce_every at least 1",
            );
        }
        if let Dissemination::Trees { trees, arity, .. } = self.dissemination
            && (!(1..=256).contains(&trees) || arity < 1)
        {
            return refuse(
                "dissemination",
                "between 1 and 256 trees of an arity of at least 1",
            );
        }
        if self.hierarchy.is_some_and(|level| level.remote_every < 1) {
            return refuse("hierarchy", "remote_every must be at least 1 round");
        }
        if self.hash.as_ref().is_some_and(|hash| hash.bufferers < 1) {
            return refuse("hash", "bufferers must be at least 1");
        }
        Ok(())
    }

    /// Whether repairs may be multicast.
    pub(super) fn multicasts(&self) -> bool {
        self.variant >= Variant::Ipmc
    }

    /// Whether digests say what their sender has repaired.
    pub(super) fn flags(&self) -> bool {
        self.variant >= Variant::Grb
    }
}

impl Default for GossipConfig {
    fn default() -> Self {
        Self::lan()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_valid() {
        assert_eq!(GossipConfig::lan().validate(), Ok(()));
        assert_eq!(GossipConfig::paper().validate(), Ok(()));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        let wrong = [
            GossipConfig {
                message_max: 65_000,
                ..GossipConfig::lan()
            },
            GossipConfig {
                step_interval: Duration::ZERO,
                ..GossipConfig::lan()
            },
            GossipConfig {
                hash: Some(HashConfig {
                    bufferers: 0,
                    ..HashConfig::default()
                }),
                ..GossipConfig::lan()
            },
        ];
        let fields = wrong.map(|config| config.validate().map_err(|error| error.field));
        assert_eq!(
            fields,
            [Err("message_max"), Err("step_interval"), Err("hash")]
        );
    }
}
