//! Settings of a gossip group, by the names of 004 5.2 where it has names.

mod keys;

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Preset, Settings as _, Spec};
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
    /// And who misses a message tells a neighbour, who asks for a multicast if it misses it too
    /// (Pbcast-local, Fig. 5.9).
    Local,
}

/// The first phase: how a new message is spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dissemination {
    /// One multicast (or a unicast copy each where there is none).
    Multicast,
    /// Along one of `trees` spanning trees, drawn anew for each message (004 3.6.1). All members
    /// must agree on these numbers, and nearly on the membership.
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
pub enum HashPlace {
    /// The shuffle table that follows from this seed (see [`Shuffle`](super::Shuffle)).
    Shuffle(u64),
    /// Given, as a share of 2^32: for examples whose values are printed.
    Given(fn(MessageId, MemberId) -> u32),
}

/// Hash buffering (Pbcast-hash, 004 ch. 7): few members, others for each message, keep it for
/// repairs.
#[derive(Clone, Debug)]
pub struct HashConfig {
    /// C: how many members of a view should keep a message. Default 6. In a group of n where all
    /// views are samples of `view_max`, about C · n / `view_max` members keep it, so that everybody
    /// knows C of them.
    pub bufferers: u32,
    /// Rounds in which everybody keeps every message (the short-term buffer, 004 7.4). Default 3.
    /// 0: none.
    pub short_term: u32,
    /// H. All members must have the same. Default: the shuffle table of seed 0.
    pub place: HashPlace,
    /// Whether a member that misses a message asks a bufferer at once where the gossiper is none
    /// (the prose of 004 Fig. 7.1), instead of asking the gossiper, who passes it on (Fig. 7.3).
    /// Default false.
    pub ask_bufferers: bool,
    /// Whether gossip names what its sender misses; a member that misses it too asks the source for
    /// a multicast (004 7.4). Default true.
    pub gaps: bool,
}

impl Default for HashConfig {
    fn default() -> Self {
        Self {
            bufferers: 6,
            short_term: 3,
            place: HashPlace::Shuffle(0),
            ask_bufferers: false,
            gaps: true,
        }
    }
}

/// Hierarchical gossip (004 3.7): members gossip within their zone, links with links of other zones
/// too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// Whether this member gossips with other zones.
    pub link: bool,
    /// A link gossips with another zone every so many rounds. Default 1.
    pub remote_every: u32,
}

groupcast_core::setting_words! {
    Variant { "basic" => Basic, "ipmc" => Ipmc, "grb" => Grb, "local" => Local }
}

groupcast_core::settings! {
    /// Settings of a gossip group. All members should have the same, but for `zone`, `hierarchy`
    /// and `partners`.
    #[derive(Clone, Debug)]
    pub struct GossipConfig {
        /// How many members each gossips to in a round (004: sub-gsize). Fan-out is this times
        /// `stable_threshold`.
        pub sub_gsize: u32 = 1 => Spec::count("members", 0, 1000),
            "Too small: losses are found later, or not at all. Too large: more digests, and more repairs from healthy \
             members.";
        /// Length of a round (004: step-interval).
        pub step_interval: Duration = Duration::from_millis(100) => Spec::interval(),
            "Below a round trip: requests come too late to be served. Too large: repairs come late.";
        /// When the first round begins, from the start. `None`: at random within one round.
        pub first_round: Option<Duration> = None;
        /// The most repairs that a member sends in a round, whatever is asked for (004:
        /// limit-retrans).
        pub limit_retrans: u32 = 100 => Spec::count("repairs", 0, u32::MAX),
            "Too small: losses stay. Too large: a member that asks for much, or a holder of the key that forges \
             requests, slows the others.";
        /// The most bytes of repairs that a member sends in a round, whatever is asked for.
        pub limit_retrans_bytes: usize = 1 << 20 => Spec::size(0, u64::MAX),
            "As with limit_retrans. Below the length of a message: it is never repaired.";
        /// The most requests that a member sends in a round, whatever digests claim (004:
        /// limit-requests).
        pub limit_requests: u32 = 100 => Spec::count("requests", 0, u32::MAX),
            "Too small: losses stay. Too large: requests that no member has the time to answer.";
        /// Rounds for which a message is kept and gossiped about (004: stable-threshold); a round
        /// later, what is missing is reported as lost.
        pub stable_threshold: u32 = 10 => Spec::count("rounds", 1, 10_000),
            "Too small: losses that another round would have repaired. Too large: memory, and messages behind a loss \
             wait longer.";
        /// When a repair is multicast: `basic` never, `ipmc` when a message was asked for twice,
        /// `grb` also when another member has repaired it too, `local` also when a neighbour misses
        /// it too.
        pub variant: Variant = Variant::Grb => Spec::word(Variant::WORDS),
            "`basic` where many lose the same: as many repairs. The others where there is no multicast: a copy to each \
             member.";
        /// How often a message is asked for before it is multicast (004 5.3.1).
        pub threshold: u32 = 2 => Spec::count("requests", 1, u32::MAX).experimental(),
            "1: every repair is multicast. Too large: as many repairs as members that miss the message.";
        /// Whether larger groups multicast repairs later (ours): each member counts for itself, so
        /// the more members, the likelier some are asked twice for a message that few have lost,
        /// and each of those would send it to all. In a group of more than 100 members `threshold`
        /// is one higher, of more than 1,000 two, and so on, and as many more others must have
        /// repaired the message (for `grb`); where the view is full, so that no member knows how
        /// large the group is, repairs are not multicast.
        pub threshold_grows: bool = true => Spec::flag().experimental(),
            "False in large groups: needless multicasts.";
        /// Whether multicast repairs are sent whatever `limit_retrans` says, as 004 Fig. 5.4 has
        /// it.
        pub multicast_exempt: bool = false => Spec::flag().experimental(),
            "True: the limit does not bound what a member sends.";
        /// Whether what was sent to the same member, or multicast, in this round or the last one is
        /// not sent again (004 3.7, cyclic retransmissions).
        pub cyclic: bool = true => Spec::flag().experimental(),
            "False: the same repair is sent twice while the first is on its way.";
        /// Whether a duplicate sets a message's gossip count to 0 again, as 004 Fig. 5.3 has it.
        pub duplicate_resets: bool = false => Spec::flag().experimental(),
            "True: buffers grow with the loss.";
        /// Hash buffering. `None`: every member keeps every message until it is stable.
        pub hash: Option<HashConfig> = None, keys [keys::BUFFERERS, keys::SHORT_TERM, keys::GAPS];
        /// The first phase.
        pub dissemination: Dissemination = Dissemination::Multicast, keys [keys::TREES, keys::ARITY];
        /// The members to gossip to in rounds 1, 2 and so on, for exchanges that follow a script;
        /// later rounds draw them at random.
        pub partners: Vec<Vec<NodeId>> = Vec::new();
        /// The member's zone: its LAN. Neighbours (for [`Variant::Local`]) are members of the same
        /// zone.
        pub zone: u32 = 0;
        /// Hierarchical gossip. `None`: every member gossips with every other.
        pub hierarchy: Option<Hierarchy> = None;
        /// The most members that one knows of. In a larger group it is a random sample that
        /// changes; some members are then gossiped to more rarely, so take a `sub_gsize` of 2.
        pub view_max: usize = 1024 => Spec::count("members", 1, 65_536),
            "Too small: some are gossiped to rarely. Too large: memory, for addresses and keys too.";
        /// Members whose signs of life a gossip message carries.
        pub members_per_gossip: u32 = 8 => Spec::count("members", 0, 200).experimental(),
            "Too small: members that live are taken for failed. Too large: longer gossip messages.";
        /// Rounds without a sign of life after which a member is taken for failed; more where the
        /// view is so large that signs come rarely.
        pub fail_rounds: u32 = 100 => Spec::count("rounds", 2, u32::MAX),
            "Too small: slow members are forgotten again and again. Too large: views name members that are gone.";
        /// The group announces itself to strangers about once in so many rounds, its members taking
        /// turns at random, so that parts that had lost each other meet again. `None`: never. A
        /// member whose view is full does not know how large the group is and stays silent.
        pub announce_every: Option<u32> = Some(20), keys [keys::ANNOUNCE_EVERY];
        /// The most bytes of the digest in a gossip message. What does not fit waits for another
        /// round.
        pub digest_max: usize = 1200 => Spec::size(64, 60_000).experimental(),
            "Too small: losses are found late. Above one frame: the loss of a fragment loses the digest.";
        /// The most bytes of a message: a message is one datagram.
        pub message_max: usize = 64_000 => Spec::size(1, 65_000 - DATA_HEADER as u64).experimental(),
            "Too small: messages are refused. Above one frame: the loss of a fragment loses the message.";
        /// Bytes that may wait to be sent, of new messages and as many again of all else.
        pub queue_max: usize = 4 << 20 => Spec::size(0, u64::MAX).rule("at least the longest message"),
            "Too small: senders wait. Too large: a burst of messages is lost in the receivers' buffers.";
        /// Bytes that the messages held may take, with their book-keeping. The oldest make room;
        /// where all wait for one that is missing, new ones are dropped, as if lost on the way. One
        /// message of the member's own may exceed it.
        pub buffer_max: usize = 16 << 20 => Spec::size(0, u64::MAX).rule("at least the longest message"),
            "Too small: messages are forgotten before they are stable, and losses stay. Too large: memory, for each \
             group.";
        /// The most members whose messages are followed.
        pub senders_max: usize = 256 => Spec::count("members", 1, u32::MAX),
            "Too small: messages of others are dropped. Too large: memory.";
        /// The most numbers between a sender's oldest message that may still come and its newest.
        /// Older ones are given up.
        pub window_max: u32 = 8192 => Spec::count("messages", 64, 1 << 20),
            "Too small: bursts are reported as lost. Too large: memory under forged digests.";
        /// Whether [`Event::Stable`](groupcast_core::Event::Stable) is wanted.
        pub stability_notices: bool = false;
    }
    presets [
        Preset {
            name: "lan",
            meaning: "a local network",
            make: GossipConfig::lan,
        },
        Preset {
            name: "paper",
            meaning: "004 chapters 5 to 7: `basic`, no cyclic rule, one threshold for all groups, multicast repairs \
                      exempt from the limit, duplicates reset the gossip count, no signs of life",
            make: GossipConfig::paper,
        },
    ]
}

impl GossipConfig {
    /// Settings for a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self::default()
    }

    /// Settings of 004 chapters 5 to 7, where they differ from [`lan`](Self::lan): basic Pbcast, no
    /// cyclic rule, one threshold whatever the size of the group, multicast repairs exempt from the
    /// limit, duplicates reset the gossip count, gossip carries no signs of life and nobody
    /// announces anything.
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

    /// Checks the ranges of the settings, and that they fit each other. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        for (field, bytes) in [
            ("queue_max", self.queue_max),
            ("buffer_max", self.buffer_max),
        ] {
            if bytes < self.message_max {
                let allowed = format!("at least the longest message, {} bytes", self.message_max);
                return Err(self.refuse(field, allowed));
            }
        }
        if self.hash.as_ref().is_some_and(|hash| hash.bufferers < 1) {
            let remedy = "use at least 1, or no hash buffering";
            return Err(self.refuse("bufferers", "at least 1").with_remedy(remedy));
        }
        if self.announce_every == Some(0) {
            let remedy = "use at least 1, or none";
            return Err(self
                .refuse("announce_every", "at least 1")
                .with_remedy(remedy));
        }
        if self.hierarchy.is_some_and(|level| level.remote_every < 1) {
            return Err(ConfigError::new("remote_every", "0", "at least 1 round"));
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
            [Err("message_max"), Err("step_interval"), Err("bufferers")]
        );
    }
}
