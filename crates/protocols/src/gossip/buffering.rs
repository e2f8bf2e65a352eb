//! Who keeps what: hash buffering (004 ch. 7).
//!
//! Everybody keeps every message for a few rounds (the short-term buffer, 004 7.4); after that only
//! its bufferers do, until it is stable. A member that is asked for what it does not keep knows by
//! the same hash who should have it.

use alloc::vec::Vec;

use groupcast_core::{MemberId, MessageId};

use super::config::{HashConfig, HashPlace};
use super::members::View;
use super::shuffle::{Shuffle, is_bufferer};

/// The rule of who keeps what.
#[derive(Debug)]
pub(super) struct Buffering {
    pub(super) config: HashConfig,
    shuffle: Option<Shuffle>,
}

impl Buffering {
    pub(super) fn new(config: HashConfig) -> Self {
        let shuffle = match config.place {
            HashPlace::Shuffle(seed) => Some(Shuffle::new(seed)),
            HashPlace::Given(_) => None,
        };
        Self { config, shuffle }
    }

    fn place(&self, id: MessageId, member: MemberId) -> u32 {
        match (&self.shuffle, self.config.place) {
            (Some(shuffle), _) => shuffle.place(id, member),
            (None, HashPlace::Given(place)) => place(id, member),
            (None, HashPlace::Shuffle(_)) => 0,
        }
    }

    /// Whether `member` should keep `id`, by `view` and `local`, whose view it is: H · n < C.
    pub(super) fn is_bufferer(&self, id: MessageId, member: MemberId, view: &View) -> bool {
        let members = u32::try_from(view.len() + 1).unwrap_or(u32::MAX);
        is_bufferer(self.place(id, member), members, self.config.bufferers)
    }

    /// The bufferers of `id` among the members of `view`, but for `except`.
    pub(super) fn bufferers(&self, id: MessageId, view: &View, except: MemberId) -> Vec<MemberId> {
        let others = view.members().filter(|member| *member != except);
        others
            .filter(|member| self.is_bufferer(id, *member, view))
            .collect()
    }
}
