//! The guarantees, one word each, everywhere: API, command line, wire, documents.

use core::fmt;
use core::str::FromStr;

/// What a message is promised. Each ordered service includes those before it, but that a majority
/// may be fewer or more members than K + 1; [`Bimodal`](Self::Bimodal) stands apart. So services
/// are not compared by strength: ask for the property that matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Service {
    /// No promise: lost, repeated or out of order.
    Unreliable,
    /// Every member that stays gets it, in any order.
    Reliable,
    /// And in each sender's order.
    Fifo,
    /// And respecting causality.
    Causal,
    /// One total order at all members of a configuration, virtually synchronous.
    Agreed,
    /// And not before K + 1 members hold it, so that up to K may fail at that moment and the others
    /// still deliver it (000 ch. 2 and 8). K is 0 to [`RESILIENCE_MAX`](Self::RESILIENCE_MAX); from
    /// one less than the number of members on, it is safe.
    KResilient(u8),
    /// And not before a majority of the members holds it: of those of the largest configuration in
    /// which a message may not be held by all yet (MaxN; 000 ch. 2). Fewer members deliver none.
    Majority,
    /// And not before every member of the configuration holds it.
    Safe,
    /// Almost all members get it or almost none, in each sender's order; who misses some is told
    /// which. A promise of a whole group, not of one message in it: no protocol has it on its wire.
    Bimodal,
}

impl Service {
    /// The highest K of `k-resilient`.
    pub const RESILIENCE_MAX: u8 = 127;

    /// All services that are chosen message by message. `k-resilient` is there with one K for all.
    pub const ALL: [Self; 8] = [
        Self::Unreliable,
        Self::Reliable,
        Self::Fifo,
        Self::Causal,
        Self::Agreed,
        Self::KResilient(1),
        Self::Majority,
        Self::Safe,
    ];

    /// The word for it, without K.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unreliable => "unreliable",
            Self::Reliable => "reliable",
            Self::Fifo => "fifo",
            Self::Causal => "causal",
            Self::Agreed => "agreed",
            Self::KResilient(_) => "k-resilient",
            Self::Majority => "majority",
            Self::Safe => "safe",
            Self::Bimodal => "bimodal",
        }
    }

    /// Whether it has a [`code`](Self::code): K is at most
    /// [`RESILIENCE_MAX`](Self::RESILIENCE_MAX).
    pub const fn has_code(self) -> bool {
        !matches!(self, Self::KResilient(k) if k > Self::RESILIENCE_MAX)
    }

    /// Its code on every wire.
    ///
    /// # Panics
    /// If it has none: the caller's bug.
    pub const fn code(self) -> u8 {
        match self {
            Self::Unreliable => 0,
            Self::Reliable => 1,
            Self::Fifo => 2,
            Self::Causal => 3,
            Self::Agreed => 4,
            Self::Safe => 5,
            Self::Bimodal => BIMODAL,
            Self::Majority => MAJORITY,
            Self::KResilient(k) => {
                assert!(self.has_code(), "no code for this K");
                RESILIENT | k
            }
        }
    }

    /// The service of a code, if it is one of a message.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Unreliable),
            1 => Some(Self::Reliable),
            2 => Some(Self::Fifo),
            3 => Some(Self::Causal),
            4 => Some(Self::Agreed),
            5 => Some(Self::Safe),
            MAJORITY => Some(Self::Majority),
            RESILIENT.. => Some(Self::KResilient(code & !RESILIENT)),
            _ => None,
        }
    }

    /// Whether `services` has it, with whatever K. None has a service without a
    /// [`code`](Self::has_code).
    pub fn is_among(self, services: &[Self]) -> bool {
        let kind = core::mem::discriminant(&self);
        let mut kinds = services.iter().map(core::mem::discriminant);
        self.has_code() && kinds.any(|other| other == kind)
    }

    /// Whether messages of one sender are delivered in the order in which it sent them.
    pub const fn is_fifo(self) -> bool {
        !matches!(self, Self::Unreliable | Self::Reliable)
    }

    /// Whether it is delivered only when enough members are known to hold it: k-resilient, majority
    /// and safe.
    pub const fn is_resilient(self) -> bool {
        matches!(self, Self::KResilient(_) | Self::Majority | Self::Safe)
    }
}

const BIMODAL: u8 = 6;
const MAJORITY: u8 = 7;
/// The bit of the codes of `k-resilient`; the others are K.
const RESILIENT: u8 = 0x80;

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Padded as one word: a table may have a column of them.
            Self::KResilient(k) => f.pad(&alloc::format!("{}:{k}", self.word())),
            other => f.pad(other.word()),
        }
    }
}

/// The text names no service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownService {
    /// The word is none.
    #[error(
        "not a service: use unreliable, reliable, fifo, causal, agreed, k-resilient:K, majority, \
         safe or bimodal"
    )]
    Word,
    /// The number behind `k-resilient:` is none, or too high.
    #[error(
        "not a service: k-resilient needs the number of failures that a message outlives, 0 to \
         127, as in k-resilient:2"
    )]
    Resilience,
}

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(text: &str) -> Result<Self, UnknownService> {
        if let Some(rest) = text.strip_prefix(Self::KResilient(0).word()) {
            let number = rest.strip_prefix(':').ok_or(UnknownService::Resilience)?;
            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let k = number.parse().ok();
            let k = k.filter(|k| digits && *k <= Self::RESILIENCE_MAX);
            return k.map(Self::KResilient).ok_or(UnknownService::Resilience);
        }
        let all = Self::ALL.into_iter().chain([Self::Bimodal]);
        let mut named = all.filter(|service| service.word() == text);
        named.next().ok_or(UnknownService::Word)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn names_and_codes_come_back() {
        let resilient = (0..=Service::RESILIENCE_MAX).map(Service::KResilient);
        for service in Service::ALL.into_iter().chain(resilient) {
            assert_eq!(service.to_string().parse(), Ok(service));
            assert_eq!(Service::from_code(service.code()), Some(service));
        }
        assert_eq!("bimodal".parse(), Ok(Service::Bimodal));
        assert_eq!("total".parse::<Service>(), Err(UnknownService::Word));
        assert_eq!(Service::from_code(Service::Bimodal.code()), None);
        let codes = (0..=u8::MAX).filter(|code| Service::from_code(*code).is_some());
        assert_eq!(codes.count(), 7 + 128);
    }

    #[test]
    fn resilience_is_a_number_of_failures() {
        for text in [
            "k-resilient",
            "k-resilient:",
            "k-resilient:x",
            "k-resilient:128",
        ] {
            assert_eq!(text.parse::<Service>(), Err(UnknownService::Resilience));
        }
        for text in [
            "k-resilient:-1",
            "k-resilient:+1",
            "k-resilient:1 ",
            "k-resilient:999",
        ] {
            assert_eq!(text.parse::<Service>(), Err(UnknownService::Resilience));
        }
        assert_eq!("k-resilient:127".parse(), Ok(Service::KResilient(127)));
    }

    #[test]
    fn one_k_stands_for_all_in_a_list_of_services() {
        assert!(Service::KResilient(127).has_code() && !Service::KResilient(128).has_code());
        assert!(Service::KResilient(9).is_among(&Service::ALL));
        assert!(Service::KResilient(127).is_among(&Service::ALL));
        assert!(!Service::KResilient(128).is_among(&Service::ALL));
        assert!(!Service::KResilient(1).is_among(&[Service::Majority, Service::Safe]));
    }
}
