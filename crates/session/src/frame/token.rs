//! The access token of a client: a secret that it shares with its daemon, and that lets it connect.

use std::fmt;
use std::hint::black_box;

use zeroize::Zeroize as _;

/// 256 bits that a daemon's clients know and others do not; overwritten when dropped, never shown.
#[derive(Clone)]
pub struct AccessToken([u8; AccessToken::LEN]);

impl AccessToken {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// The token with these bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl PartialEq for AccessToken {
    /// Takes the same time wherever the first difference is.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let difference = pairs.fold(0, |difference, (one, other)| {
            black_box(difference | (one ^ other))
        });
        difference == 0
    }
}

impl Eq for AccessToken {}

impl Drop for AccessToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_equal_in_all_bits_or_not_at_all_and_are_not_shown() {
        let token = AccessToken::from_bytes([7; 32]);
        assert_eq!(token, AccessToken::from_bytes([7; 32]));
        for bit in 0..256 {
            let mut bytes = [7; 32];
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(token, AccessToken::from_bytes(bytes));
        }
        assert_eq!(format!("{token:?}"), "AccessToken(secret)");
    }
}
