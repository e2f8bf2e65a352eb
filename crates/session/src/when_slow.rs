//! What becomes of a client that takes its messages more slowly than they come.

use std::fmt;

/// What a daemon does when a client takes the messages of a group too slowly. The order is that of
/// patience: where two say something, the later one holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(u8)]
pub enum WhenSlow {
    /// Publishers at the same daemon wait for it.
    #[default]
    Block = 0,
    /// Nobody waits for it: it misses unreliable messages as soon as publishers would have waited.
    Drop = 1,
    /// Nobody waits for it: it is disconnected where it would have missed unreliable messages.
    Disconnect = 2,
}

impl WhenSlow {
    /// All, in their order.
    pub const ALL: [Self; 3] = [Self::Block, Self::Drop, Self::Disconnect];

    /// The word for it in configurations and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Drop => "drop",
            Self::Disconnect => "disconnect",
        }
    }

    /// What a name or a code stands for; `None` if it stands for nothing.
    pub fn find(is: impl Fn(Self) -> bool) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| is(*policy))
    }
}

impl fmt::Display for WhenSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
