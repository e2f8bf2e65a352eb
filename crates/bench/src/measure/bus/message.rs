//! A measured message of the bus in each syntax: its stamp where a receiver finds it without
//! reading the rest, and filling up to its size.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::super::stamp::Stamp;

/// What one side of a measurement writes, or reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Bytes that no list is made of.
    Raw,
    /// An S-expression.
    Sexp,
    /// A CSTREAM.
    Cstream,
}

/// What senders write, and what receivers read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syntaxes {
    /// What senders write.
    pub sent: Form,
    /// What receivers read; another than `sent` where messages are converted on their way.
    pub got: Form,
}

/// The shortest message: a list with a stamp and no filling takes this much in either syntax.
pub const SIZE_MIN: usize = 64;

/// Digits of the sender, the index and the time.
const DIGITS: [usize; 3] = [4, 16, 20];
/// Where they begin in an S-expression: `(m SSSS …`.
const IN_SEXP: [usize; 3] = [3, 8, 25];
/// Where they begin in a CSTREAM: `cs[y1:mi4:SSSSi16:…`.
const IN_CSTREAM: [usize; 3] = [10, 18, 38];

impl Form {
    /// The word for it, as the bus has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sexp => "sexp",
            Self::Cstream => "cstream",
        }
    }

    /// A message of `size` bytes, at least [`SIZE_MIN`], without its stamp.
    pub(super) fn blank(self, size: usize) -> Vec<u8> {
        let [sender, index, sent] = DIGITS.map(|count| "0".repeat(count));
        let list = match self {
            Self::Raw => return vec![b'.'; size],
            Self::Sexp => {
                let head = format!("(m {sender} {index} {sent} \"");
                let filling = ".".repeat(size - head.len() - 2);
                format!("{head}{filling}\")")
            }
            Self::Cstream => {
                let head = format!("cs[y1:mi4:{sender}i16:{index}i20:{sent}s");
                // The length has its own digits among the bytes; zeros before it are not allowed.
                let room = size - head.len() - 2;
                let filling = (1..=room).rev().find(|len| len + decimal_len(*len) <= room);
                let filling = ".".repeat(filling.unwrap_or_default());
                let rest = room - filling.len() - decimal_len(filling.len());
                debug_assert!(rest <= 1, "only where the digits become more");
                format!("{head}{}:{filling}]", filling.len())
            }
        };
        list.into_bytes()
    }

    /// Writes the stamp into a message that was made [`blank`](Self::blank).
    pub(super) fn stamp(self, stamp: Stamp, message: &mut [u8]) {
        let places = match self {
            Self::Raw => return stamp.write(message),
            Self::Sexp => IN_SEXP,
            Self::Cstream => IN_CSTREAM,
        };
        let values = [u64::from(stamp.sender), stamp.index, stamp.sent];
        for ((place, digits), mut value) in places.into_iter().zip(DIGITS).zip(values) {
            for byte in message[place..place + digits].iter_mut().rev() {
                *byte = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
    }

    /// The stamp of a message, if it has one.
    pub(super) fn read(self, message: &[u8]) -> Option<Stamp> {
        let places = match self {
            Self::Raw => return Stamp::read(message),
            Self::Sexp => IN_SEXP,
            Self::Cstream => IN_CSTREAM,
        };
        let number = |which: usize| {
            let digits = message.get(places[which]..places[which] + DIGITS[which])?;
            digits.iter().try_fold(0_u64, |value, byte| {
                let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
                value.checked_mul(10)?.checked_add(digit)
            })
        };
        Some(Stamp {
            sender: u32::try_from(number(0)?).ok()?,
            index: number(1)?,
            sent: number(2)?,
        })
    }
}

fn decimal_len(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

impl fmt::Display for Syntaxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sent == self.got {
            true => f.write_str(self.sent.name()),
            false => write!(f, "{}-{}", self.sent.name(), self.got.name()),
        }
    }
}

impl FromStr for Syntaxes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sent, got) = match text {
            "raw" => (Form::Raw, Form::Raw),
            "sexp" => (Form::Sexp, Form::Sexp),
            "cstream" => (Form::Cstream, Form::Cstream),
            "sexp-cstream" => (Form::Sexp, Form::Cstream),
            "cstream-sexp" => (Form::Cstream, Form::Sexp),
            _ => {
                return Err("use raw, sexp, cstream, sexp-cstream or cstream-sexp".to_owned());
            }
        };
        Ok(Self { sent, got })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        sender: 7,
        index: 123_456_789,
        sent: u64::MAX,
    };

    #[test]
    fn stamps_come_back_in_every_form_and_size() {
        for form in [Form::Raw, Form::Sexp, Form::Cstream] {
            for size in [SIZE_MIN, 65, 66, 160, 161, 162, 1_350, 10_070] {
                let mut message = form.blank(size);
                assert!(
                    (size - 1..=size).contains(&message.len()),
                    "{form:?} {size}"
                );
                form.stamp(STAMP, &mut message);
                assert_eq!(form.read(&message), Some(STAMP), "{form:?} {size}");
            }
        }
        assert_eq!(Form::Sexp.read(b"(m x"), None);
    }

    #[test]
    fn syntaxes_have_words() {
        for word in ["raw", "sexp", "cstream", "sexp-cstream", "cstream-sexp"] {
            assert_eq!(word.parse::<Syntaxes>().unwrap().to_string(), word);
        }
        assert!("raw-sexp".parse::<Syntaxes>().is_err());
    }
}
