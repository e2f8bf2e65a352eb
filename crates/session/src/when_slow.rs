//! Policies for a client that takes its messages more slowly than they come.

use std::fmt;

/// The daemon's policy for a client that takes the messages of a group too slowly. Variants are
/// ordered by falling patience: of two policies the greater one holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum WhenSlow {
    /// Publishers at the same daemon wait for it.
    #[default]
    Block,
    /// Nobody waits for it: what comes waits on the daemon's disk, up to a bound.
    Spill,
    /// Nobody waits for the client: it misses unreliable messages as soon as publishers would have
    /// waited.
    Drop,
    /// Nobody waits for the client: it is disconnected as soon as it would have missed unreliable
    /// messages.
    Disconnect,
}

impl WhenSlow {
    /// All, in their order.
    pub const ALL: [Self; 4] = [Self::Block, Self::Spill, Self::Drop, Self::Disconnect];

    /// The word for it in configurations and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Spill => "spill",
            Self::Drop => "drop",
            Self::Disconnect => "disconnect",
        }
    }

    /// The code for it in frames, in the order in which they came to be.
    pub const fn code(self) -> u8 {
        match self {
            Self::Block => 0,
            Self::Drop => 1,
            Self::Disconnect => 2,
            Self::Spill => 3,
        }
    }

    /// The first policy for which `is` holds, if there is one.
    pub fn find(is: impl Fn(Self) -> bool) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| is(*policy))
    }
}

impl fmt::Display for WhenSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stay_and_patience_has_an_order_of_its_own() {
        let codes = WhenSlow::ALL.map(|policy| (policy.name(), policy.code()));
        let expected = [("block", 0), ("spill", 3), ("drop", 1), ("disconnect", 2)];
        assert_eq!(codes, expected);
        assert!(WhenSlow::ALL.is_sorted());
        for policy in WhenSlow::ALL {
            let found = WhenSlow::find(|it| it.code() == policy.code());
            assert_eq!(found, Some(policy));
        }
    }
}
