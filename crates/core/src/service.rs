//! The guarantees, one word each, everywhere: API, command line, wire, documents.

use core::fmt;
use core::str::FromStr;

/// What a message is promised. Each ordered service includes those before it.
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
}

impl Service {
    /// All services, weakest first.
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
        }
    }

    /// The service of a wire code, if it is one.
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
#[error("not a service: use unreliable, reliable, fifo, causal, agreed or safe")]
pub struct UnknownService;

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(word: &str) -> Result<Self, UnknownService> {
        Self::ALL
            .into_iter()
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
        assert_eq!("total".parse::<Service>(), Err(UnknownService));
        assert_eq!(Service::from_code(6), None);
    }
}
