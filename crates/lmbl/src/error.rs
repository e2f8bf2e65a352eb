//! What is wrong with a message, and where.

use std::fmt;

/// What is wrong with a message, and at which byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{fault} (byte {at})")]
pub struct Error {
    /// What is wrong.
    pub fault: Fault,
    /// Its offset in the message.
    pub at: usize,
}

impl Error {
    pub(crate) const fn new(fault: Fault, at: usize) -> Self {
        Self { fault, at }
    }
}

/// What can be wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It is no list in this syntax.
    NoList,
    /// It ends inside a list, or after a quote.
    Unclosed,
    /// It ends inside a string, a symbol with bars, a comment or bytes.
    Unfinished,
    /// A closing parenthesis or bracket where none may be.
    Close,
    /// A dot that does not stand before the last item of a list.
    Dot,
    /// Something follows the message.
    Rest,
    /// A byte list with something else than numbers from 0 to 255 in it.
    Bytes,
    /// In a CSTREAM: no item begins with this byte.
    Kind,
    /// In a CSTREAM: a length that is no number, has leading zeros, or goes beyond the message.
    Length,
    /// In a CSTREAM: an item whose text is not of its kind.
    Text,
    /// More levels than may be.
    Depth,
    /// More items than may be.
    Items,
    /// More bytes than may be.
    TooLong,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoList => "this is no list in this syntax",
            Self::Unclosed => "a list or a quote is not complete",
            Self::Unfinished => "a string, a symbol, a comment or a row of bytes has no end",
            Self::Close => "nothing is to be closed here",
            Self::Dot => "a dot stands only before the last item of a list, after another one",
            Self::Rest => "something follows the end of the list",
            Self::Bytes => "bytes are written as numbers from 0 to 255",
            Self::Kind => "no item of a CSTREAM begins so",
            Self::Length => "a length is digits without leading zeros, and no more than follows",
            Self::Text => "the text is not of the kind that is said of it",
            Self::Depth => "there are too many levels of lists and quotes",
            Self::Items => "there are too many items",
            Self::TooLong => "the list has too many bytes",
        })
    }
}
