//! The statements of daemons about keys.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | 8 | the kind of the envelope (`groups::wire`) |
//! | 1 | step | 1 known, 2 used, 3 done, 4 given up |
//! | 2..18 | fingerprint | of the key |

use std::fmt;

use groupcast_core::wire::{DecodeError, Reader};

/// Tells one key from another without revealing it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How far a daemon has come with a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Step {
    /// It opens datagrams under the key, and those under the old one.
    Known = 1,
    /// It seals under the key, and opens under both.
    Used = 2,
    /// It has no other key.
    Done = 3,
    /// It knew the key, and has given it up.
    GivenUp = 4,
}

impl Step {
    /// The word for the step.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Used => "used",
            Self::Done => "done",
            Self::GivenUp => "given up",
        }
    }
}

/// A statement: how far its sender has come with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The key.
    pub key: Fingerprint,
    /// How far the sender has come.
    pub step: Step,
}

impl Statement {
    /// The kind of the envelope.
    pub(crate) const KIND: u8 = 8;

    /// The envelope of the statement.
    pub fn encode(self) -> Vec<u8> {
        [&[Self::KIND, self.step as u8][..], &self.key.0].concat()
    }

    /// The statement in an envelope; `None` if it is an envelope of another kind.
    ///
    /// # Errors
    /// If the envelope cannot be read.
    pub fn decode(envelope: &[u8]) -> Result<Option<Self>, DecodeError> {
        if envelope.first() != Some(&Self::KIND) {
            return Ok(None);
        }
        let mut reader = Reader::new(envelope);
        reader.u8("envelope")?;
        let step = match reader.u8("step")? {
            1 => Step::Known,
            2 => Step::Used,
            3 => Step::Done,
            4 => Step::GivenUp,
            other => return Err(reader.invalid("step", u64::from(other))),
        };
        let mut key = Fingerprint([0; 16]);
        key.0.copy_from_slice(reader.take("fingerprint", 16)?);
        reader.finish()?;
        Ok(Some(Self { key, step }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let statement = Statement {
            key: Fingerprint([0xab; 16]),
            step: Step::Used,
        };
        let bytes = statement.encode();
        assert_eq!(bytes[..3], [8, 2, 0xab]);
        assert_eq!(bytes.len(), 18);
        assert_eq!(Statement::decode(&bytes), Ok(Some(statement)));
        assert_eq!(Statement::decode(&[3, 1]), Ok(None));
        assert!(Statement::decode(&bytes[..17]).is_err());
        assert!(Statement::decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut odd = bytes;
        odd[1] = 5;
        assert!(Statement::decode(&odd).is_err());
    }
}
