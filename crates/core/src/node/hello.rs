//! The node's own message: a challenge, an echo, or both.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | flags | 1: it challenges; 2: it echoes; 4, with 2: the echoing member has no multicast |
//! | 1..7 | challenge | a nonce to be echoed |
//! | 7..13 | echo | the nonce of the other side's challenge |
//! | 13..21 | node | who echoes; its incarnation is in the prefix |
//!
//! A field whose flag is not set is 0 and says nothing. A challenge without an echo may end after
//! its nonce: it is no longer than the body that caused it.
//!
//! A hello is addressed to one member. The one message of the node that is not is an *invitation*,
//! for a member at an address of which nothing more is known: as many zeros as the challenge that
//! answers it has bytes, so that nobody is sent more than was said in his name.

use crate::id::NodeId;
use crate::wire::{DecodeError, Reader};

/// A nonce of admission: 48 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cookie(u64);

impl Cookie {
    const LEN: usize = 6;

    /// The low 48 of `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << (8 * Self::LEN)) - 1))
    }

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.to_be_bytes()[8 - Self::LEN..]);
    }

    fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<Self, DecodeError> {
        let mut bits = [0; 8];
        bits[8 - Self::LEN..].copy_from_slice(reader.take(what, Self::LEN)?);
        Ok(Self(u64::from_be_bytes(bits)))
    }
}

/// The answer to a challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// Who answers.
    pub node: NodeId,
    /// The nonce of the challenge.
    pub cookie: Cookie,
    /// Whether multicasts reach it. If not, what goes to the group is to come to it as a copy of
    /// its own.
    pub multicast: bool,
}

/// A challenge, an echo, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// A nonce to be echoed.
    pub challenge: Option<Cookie>,
    /// The answer to the other side's challenge.
    pub echo: Option<Echo>,
}

impl Hello {
    /// Bytes of a whole hello.
    pub const LEN: usize = 1 + 2 * Cookie::LEN + 8;
    /// Bytes of the shortest challenge.
    pub const CHALLENGE_LEN: usize = 1 + Cookie::LEN;

    /// Bytes of an invitation.
    pub(super) const INVITATION_LEN: usize = Self::CHALLENGE_LEN;

    /// Neither. An invitation is its beginning.
    pub(super) const NOTHING: Self = Self {
        challenge: None,
        echo: None,
    };

    /// Whether a body that is for no member alone is an invitation.
    pub(super) fn is_invitation(body: &[u8]) -> bool {
        body == [0; Self::INVITATION_LEN]
    }

    const CHALLENGES: u8 = 1;
    const ECHOES: u8 = 2;
    const WITHOUT_MULTICAST: u8 = 4;

    /// Encodes it as it is on the wire, in full.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        if let Some(cookie) = self.challenge {
            bytes[0] |= Self::CHALLENGES;
            cookie.write(&mut bytes[1..7]);
        }
        if let Some(Echo {
            node,
            cookie,
            multicast,
        }) = self.echo
        {
            bytes[0] |= match multicast {
                true => Self::ECHOES,
                false => Self::ECHOES | Self::WITHOUT_MULTICAST,
            };
            cookie.write(&mut bytes[7..13]);
            bytes[13..21].copy_from_slice(&node.0.to_be_bytes());
        }
        bytes
    }

    /// Reads a hello. What a later version appends is skipped.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let flags = reader.u8("flags")?;
        let challenge = Cookie::read(&mut reader, "challenge")?;
        let echo = match flags & Self::ECHOES {
            0 => None,
            _ => Some(Echo {
                cookie: Cookie::read(&mut reader, "echo")?,
                node: NodeId(reader.u64("node")?),
                multicast: flags & Self::WITHOUT_MULTICAST == 0,
            }),
        };
        Ok(Self {
            challenge: (flags & Self::CHALLENGES != 0).then_some(challenge),
            echo,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Echo = Echo {
        node: NodeId(0x2122_2324_2526_2728),
        cookie: Cookie::from_bits(0x1112_1314_1516),
        multicast: true,
    };

    #[test]
    fn the_layout_is_pinned() {
        let hello = Hello {
            challenge: Some(Cookie::from_bits(0xffff_0102_0304_0506)),
            echo: Some(ECHO),
        };
        let bytes = [
            3, 1, 2, 3, 4, 5, 6, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x21, 0x22, 0x23, 0x24, 0x25,
            0x26, 0x27, 0x28,
        ];
        assert_eq!(hello.encode(), bytes);
        assert_eq!(Hello::decode(&bytes), Ok(hello));
    }

    #[test]
    fn a_member_without_multicast_says_so_in_its_echo_and_nowhere_else() {
        let without = Hello {
            challenge: Some(Cookie::from_bits(7)),
            echo: Some(Echo {
                multicast: false,
                ..ECHO
            }),
        };
        assert_eq!(without.encode()[0], 7);
        assert_eq!(Hello::decode(&without.encode()), Ok(without));
        let mut challenge = Hello {
            echo: None,
            ..without
        };
        assert_eq!(challenge.encode()[0], 1);
        challenge.challenge = None;
        let mut bytes = challenge.encode();
        bytes[0] = 4;
        assert_eq!(Hello::decode(&bytes), Ok(challenge));
    }

    #[test]
    fn a_challenge_may_be_cut_after_its_nonce_and_an_echo_may_not() {
        let challenge = Hello {
            challenge: Some(Cookie::from_bits(7)),
            echo: None,
        };
        for len in Hello::CHALLENGE_LEN..=Hello::LEN {
            assert_eq!(Hello::decode(&challenge.encode()[..len]), Ok(challenge));
        }
        assert!(Hello::decode(&challenge.encode()[..Hello::CHALLENGE_LEN - 1]).is_err());
        let echo = Hello {
            challenge: None,
            echo: Some(ECHO),
        };
        assert_eq!(Hello::decode(&echo.encode()), Ok(echo));
        assert!(Hello::decode(&echo.encode()[..Hello::LEN - 1]).is_err());
    }
}
