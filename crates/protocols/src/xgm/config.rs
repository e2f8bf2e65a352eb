//! Settings of a group management entity: the cost of a census, the answers that one host gives,
//! and the watch over connections.

use core::time::Duration;

#[cfg(any(test, feature = "planted-bugs"))]
use super::planted::Planted;

/// Settings of an entity. A census follows those of its asker: a poll says whom it asks and how
/// long answers may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XgmConfig {
    /// The shortest time from one poll to the next; it grows with the round trip. Default 10 ms.
    /// Too small: answers to many polls are on their way together. Too large: a census of many
    /// hosts takes long.
    pub interval: Duration,
    /// How many hosts should answer a poll. Default 16: more than twice as many answer about once
    /// in ten thousand polls. Too small: more polls. Too large: the asker's socket drops answers.
    pub answers_wanted: u32,
    /// A census ends by itself when no new host has answered for this long, and in the last
    /// [`silent_passes`](Self::silent_passes). Default 500 ms. Too small: it misses hosts with a
    /// longer round trip, and hosts that were not admitted at once because all came together.
    pub quiet: Duration,
    /// A census ends by itself after this many passes in a row in which no new host answered; each
    /// pass asks all hosts that have not answered yet. Default 2, at least 1. Too small: it misses
    /// a host when its poll or answer is lost.
    pub silent_passes: u32,
    /// The most hosts that a census counts; if there are more, it is not
    /// [complete](super::Census::complete). Default 4,096. Also the most members that a source
    /// watches in a connection.
    pub hosts_max: usize,
    /// The most answers that this host gives a second, to all askers together, and at once after a
    /// pause; as many again to askers that have had none for a second. Default 20. Too small:
    /// several censuses at once hinder each other. Too large: a member that polls without end makes
    /// this host send as much. Besides, the host gives the source of each connection as many.
    pub answers_max: u32,
    /// The time after which a source asks all members of a connection that it monitors again; it
    /// asks silent members five times as often. Default 1 s. Too small: each member answers as
    /// often. Too large: the source finds out late that a member has gone, after two and a half
    /// intervals.
    pub watch_interval: Duration,
    /// A member that has not answered this many asks in a row is gone. Default 6: if 2 % of the
    /// datagrams to and from the members are lost, one in 10^10 is given up wrongly. At least 1.
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
