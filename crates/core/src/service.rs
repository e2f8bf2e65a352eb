//! The guarantees, one word each, everywhere: API, command line, wire, documents.

use core::fmt;
use core::str::FromStr;

/// What a message is promised. Each ordered service includes those before it;
/// [`Bimodal`](Self::Bimodal) stands apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Service {
    /// No promise: lost, repeated or out of order.
    Unreliable = 0,
    /// Every member that stays gets it, in any order.
    Reliable = 1,
    /// And in each sender's order.
    Fifo = 2,
    /// And respecting causality.
    Causal = 3,
    /// One total order at all members of a configuration, virtually synchronous.
    Agreed = 4,
    /// And not before every member of the configuration holds it.
    Safe = 5,
    /// Almost all members get it or almost none, in each sender's order; who misses some is told
    /// which. A promise of a whole group, not of one message in it: no protocol has it on its wire.
    Bimodal = 6,
}

impl Service {
    /// All services that are chosen message by message, weakest first.
    pub const ALL: [Self; 6] = [
        Self::Unreliable,
        Self::Reliable,
        Self::Fifo,
        Self::Causal,
        Self::Agreed,
        Self::Safe,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreliable => "unreliable",
            Self::Reliable => "reliable",
            Self::Fifo => "fifo",
            Self::Causal => "causal",
            Self::Agreed => "agreed",
            Self::Safe => "safe",
            Self::Bimodal => "bimodal",
        }
    }

    /// The service of a protocol's wire code, if it is one of a message.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|service| *service as u8 == code)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The word is not the name of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a service: use unreliable, reliable, fifo, causal, agreed, safe or bimodal")]
pub struct UnknownService;

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(word: &str) -> Result<Self, UnknownService> {
        Self::ALL
            .into_iter()
            .chain([Self::Bimodal])
            .find(|service| service.name() == word)
            .ok_or(UnknownService)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_come_back() {
        for service in Service::ALL {
            assert_eq!(service.name().parse(), Ok(service));
            assert_eq!(Service::from_code(service as u8), Some(service));
        }
        assert_eq!("bimodal".parse(), Ok(Service::Bimodal));
        assert_eq!("total".parse::<Service>(), Err(UnknownService));
        assert_eq!(Service::from_code(6), None);
    }
}
