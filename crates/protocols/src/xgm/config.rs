//! What a census costs, and what one host may be asked.

use core::time::Duration;

#[cfg(any(test, feature = "planted-bugs"))]
use super::planted::Planted;

/// Settings of an entity. Those of the asker rule a census: a poll says whom it asks and how long
/// answers may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XgmConfig {
    /// The shortest time from one poll to the next; it grows with the round trip. Default 10 ms.
    /// Too small: answers to many polls are on their way together. Too large: a census of many
    /// hosts takes long.
    pub interval: Duration,
    /// How many hosts a poll should have answer. Default 16: that more than twice as many answer
    /// happens about once in ten thousand polls. Too small: more polls. Too large: the answers
    /// find no room at the asker.
    pub answers_wanted: u32,
    /// A census ends by itself when nothing new has come for so long, and in
    /// [`silent_passes`](Self::silent_passes). Default 500 ms. Too small: hosts with a longer round
    /// trip are missed, and those that could not be admitted at once, because all came together.
    pub quiet: Duration,
    /// So many times everybody who was not heard yet is asked without a new answer. Default 2,
    /// at least 1. Too small: a host of which poll and answer were lost is missed.
    pub silent_passes: u32,
    /// The most hosts that a census counts; it says so if there are more. Default 4,096.
    pub hosts_max: usize,
    /// Answers that this host gives a second, to all askers together, and at once after a pause.
    /// Default 20. Too small: several censuses at once hinder each other. Too large: a member that
    /// polls without end has this host send as much.
    /// In a connection it gives so many to the source of each, too.
    pub answers_max: u32,
    /// A source asks the members of a connection that it monitors so often, and those that are
    /// silent five times as often. Default 1 s. Too small: an answer of each member as often. Too
    /// large: who has gone is found late, after two and a half of it.
    pub watch_interval: Duration,
    /// A member that has not answered so many asks in a row is gone. Default 6: of members that
    /// lose 2 % of what goes there and back, one in 10^10 is given up wrongly for each that is
    /// asked. At least 1.
    pub watch_asks: u32,
    /// A rule that is broken on purpose, so that tests and the swarm can show that they find it.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub planted: Option<Planted>,
}

impl Default for XgmConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(10),
            answers_wanted: 16,
            quiet: Duration::from_millis(500),
            silent_passes: 2,
            hosts_max: 4_096,
            answers_max: 20,
            watch_interval: Duration::from_secs(1),
            watch_asks: 6,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted: None,
        }
    }
}
