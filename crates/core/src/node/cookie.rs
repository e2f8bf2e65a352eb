//! Nonces that need no memory: what a node asks a stranger to echo is computed, not remembered.
//!
//! A cookie follows from a secret of this life, the span of time in which it was given, and whom it
//! was given to: incarnation and address. So an echo proves that its sender was alive within the
//! last two spans, and however many strangers there are, nothing is kept for them.
//!
//! Cookies are mixed by the generator that everything random here comes from, which is no
//! cryptographic function. It need not be one: an echo counts only under the seal of the sender
//! that it admits, so whoever could use a guessed cookie has the key. What matters is that no
//! recording holds a cookie of a later span.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::hello::Cookie;
use crate::id::{Incarnation, fnv1a};
use crate::rng::Rng;
use crate::time::Time;

/// Gives cookies and knows its own again.
pub(super) struct Cookies {
    secret: Rng,
    /// How long a span is: a cookie holds for one at least, for two at most.
    lifetime: Duration,
    /// The number of this span.
    span: u64,
    since: Time,
    /// Whether those of the span before still hold.
    last_holds: bool,
}

impl Cookies {
    pub(super) fn new(secret: Rng, lifetime: Duration) -> Self {
        Self {
            secret,
            lifetime,
            span: 0,
            since: Time::ZERO,
            last_holds: false,
        }
    }

    /// The number of the span that `now` is in.
    pub(super) fn span(&mut self, now: Time) -> u64 {
        let age = now.since(self.since);
        if age >= self.lifetime {
            self.span += 1;
            self.since = now;
            // Those of a span are given within one lifetime.
            self.last_holds = age < 2 * self.lifetime;
        }
        self.span
    }

    /// What `sender` at `address` shall echo.
    pub(super) fn give(&mut self, now: Time, sender: Incarnation, address: SocketAddr) -> Cookie {
        let span = self.span(now);
        self.compute(span, sender, address)
    }

    /// Whether `cookie` was given to `sender` at `address` a short time ago.
    pub(super) fn holds(
        &mut self,
        now: Time,
        sender: Incarnation,
        address: SocketAddr,
        cookie: Cookie,
    ) -> bool {
        let span = self.span(now);
        let given = |span| self.compute(span, sender, address) == cookie;
        given(span) || (self.last_holds && given(span - 1))
    }

    /// From now on no cookie holds that was given so far.
    pub(super) fn renew(&mut self, now: Time) {
        self.span += 1;
        self.since = now;
        self.last_holds = false;
    }

    fn compute(&self, span: u64, sender: Incarnation, address: SocketAddr) -> Cookie {
        let mut bytes = [0; 18];
        match address.ip() {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes[..16].copy_from_slice(&ip.octets()),
        }
        bytes[16..].copy_from_slice(&address.port().to_be_bytes());
        let of_span = self.secret.fork_index(span);
        let mut of_sender = of_span.fork_index(sender.0).fork_index(fnv1a(&bytes));
        Cookie::from_bits(of_sender.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1);
    const ALICE: Incarnation = Incarnation(1);
    const BOB: Incarnation = Incarnation(2);

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn cookies() -> Cookies {
        Cookies::new(Rng::new(7), LIFETIME)
    }

    #[test]
    fn a_cookie_is_for_one_sender_at_one_address_of_one_life_of_ours() {
        let mut cookies = cookies();
        let cookie = cookies.give(Time::ZERO, ALICE, at(1));
        assert!(cookies.holds(Time::ZERO, ALICE, at(1), cookie));
        assert!(!cookies.holds(Time::ZERO, BOB, at(1), cookie));
        assert!(!cookies.holds(Time::ZERO, ALICE, at(2), cookie));
        let mut next_life = Cookies::new(Rng::new(8), LIFETIME);
        assert!(!next_life.holds(Time::ZERO, ALICE, at(1), cookie));
    }

    #[test]
    fn a_cookie_holds_for_one_lifetime_at_least_and_two_at_most() {
        for given in (0..3_000).step_by(50) {
            let mut cookies = cookies();
            for now in (0..given).step_by(100) {
                cookies.span(Time::from_millis(now));
            }
            let cookie = cookies.give(Time::from_millis(given), ALICE, at(1));
            let mut age = 0;
            while cookies.holds(Time::from_millis(given + age), ALICE, at(1), cookie) {
                age += 10;
            }
            assert!((1_000..=2_000).contains(&age), "given at {given}: {age} ms");
        }
    }

    #[test]
    fn a_cookie_does_not_outlive_a_silence() {
        let mut cookies = cookies();
        let cookie = cookies.give(Time::ZERO, ALICE, at(1));
        assert!(!cookies.holds(Time::from_millis(2_000), ALICE, at(1), cookie));
    }

    #[test]
    fn none_holds_after_a_renewal() {
        let mut cookies = cookies();
        let cookie = cookies.give(Time::ZERO, ALICE, at(1));
        cookies.renew(Time::ZERO);
        assert!(!cookies.holds(Time::ZERO, ALICE, at(1), cookie));
        let cookie = cookies.give(Time::ZERO, ALICE, at(1));
        assert!(cookies.holds(Time::ZERO, ALICE, at(1), cookie));
    }
}
