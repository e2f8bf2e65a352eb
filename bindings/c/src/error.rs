//! What a function of the library can say of how it went.

use groupcast_lmbl as lmbl;

/// `gcb_code`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// It was done.
    Ok,
    /// Not in the time that was given.
    Timeout,
    /// An argument is null, or no text, or has no such value.
    Argument,
    /// A handle is null, was freed, or is of another kind.
    Handle,
    /// The item or the message is of another kind.
    Type,
    /// A number does not fit, a place does not exist, or the memory is too small.
    Range,
    /// The address is none of the bus.
    Address,
    /// The connection cannot be made, or is broken.
    Connection,
    /// The bus has ended the connection.
    Closed,
    /// The bus did not carry out the command.
    Refused,
    /// The text is no list.
    List,
    /// Too much waits to be received.
    Full,
}

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Error {
    pub(crate) code: Code,
    /// The place that is at fault, from 1; 0 where none is.
    pub(crate) column: usize,
    /// The bus's own word for it.
    pub(crate) word: String,
    pub(crate) text: String,
}

impl Error {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            column: 0,
            word: String::new(),
            text: text.into(),
        }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Code::Argument, text)
    }

    pub(crate) fn kind(text: &str) -> Self {
        Self::new(Code::Type, text)
    }

    /// That a text is no list, and where: `column` counts its bytes from 1.
    pub(crate) fn list(error: &lmbl::Error) -> Self {
        let word = match error.fault {
            lmbl::Fault::Depth => "depth",
            lmbl::Fault::Items => "atoms",
            lmbl::Fault::TooLong => "too-long",
            _ => "list",
        };
        Self {
            code: Code::List,
            column: error.at + 1,
            word: word.into(),
            text: error.fault.to_string(),
        }
    }
}
