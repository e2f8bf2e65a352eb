//! Which hosts that do not belong to the group the user was told of.

use std::net::IpAddr;
use std::time::Duration;

use groupcast_core::Time;

/// Each kind and host that the user was told of, and when.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Vec<(&'static str, IpAddr, Time)>);

impl Strangers {
    /// After this time a host is told of again.
    const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
    /// No more hosts than these are told of in that time.
    const MAX: usize = 32;

    /// Whether the user is to be told of a host of this kind now; then he was.
    pub(crate) fn is_news(&mut self, now: Time, kind: &'static str, host: IpAddr) -> bool {
        self.0
            .retain(|(.., told)| now - *told < Self::FORGOTTEN_AFTER);
        let is_known = self.0.iter().any(|(a, b, _)| (*a, *b) == (kind, host));
        let is_news = !is_known && self.0.len() < Self::MAX;
        if is_news {
            self.0.push((kind, host, now));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_host_is_told_of_once_in_ten_minutes_and_not_too_many() {
        let mut strangers = Strangers::default();
        let host = |number| IpAddr::from(Ipv4Addr::from(number));
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert!(strangers.is_news(at(0), "other_cluster", host(1)));
        assert!(!strangers.is_news(at(1), "other_cluster", host(1)));
        assert!(strangers.is_news(at(1), "other_version", host(1)));
        assert!(strangers.is_news(at(2), "other_cluster", host(2)));
        assert!(strangers.is_news(at(601), "other_cluster", host(1)));
        let many = (10..500).filter(|it| strangers.is_news(at(602), "other_cluster", host(*it)));
        assert!(many.count() < Strangers::MAX);
    }
}
