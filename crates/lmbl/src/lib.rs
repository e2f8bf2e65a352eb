//! The two syntaxes of structured messages on the bus: S-expressions and CSTREAM.
//!
//! What paper 000 (chs. 6 and 7) calls the Lisp Message Bus Library: one syntax is written by Lisp
//! programs and by people, the other by programs that would rather read lengths than parse;
//! `docs/bus.md` has both to the byte. Here messages are read, checked and converted, and nothing
//! else: who speaks which syntax is for the bus to know.
//!
//! A message is read as a flat row of [`Token`]s, which point into its bytes. Nothing is built of
//! them: no tree, so nothing recurses, whether it is read, converted or dropped; memory is a byte
//! for each level of lists, bounded by [`Limits`], and the output. Work is linear in the bytes.
//!
//! - [`sexp::Reader`] and [`cstream::Reader`] read, [`sexp::Writer`] and [`cstream::Writer`] write;
//! - [`Balance`] finds the end of a list that arrives in pieces;
//! - [`check`] and [`convert`] do what a bus needs: see whether bytes are a list, and turn one
//!   syntax into the other.
//!
//! ```
//! use groupcast_lmbl::{Limits, Syntax, check, convert};
//!
//! let limits = Limits::default();
//! let text = b"(move \"a \\\"b\\\"\" 3 . rest) ; a comment";
//! assert!(check(Syntax::Sexp, text, limits).is_ok());
//! let stream = convert(Syntax::Sexp, text, limits)?;
//! assert_eq!(stream, b"cs[y4:moves5:a \"b\"i1:3.y4:rest]");
//! assert_eq!(
//!     convert(Syntax::Cstream, &stream, limits)?,
//!     b"(move \"a \\\"b\\\"\" 3 . rest)"
//! );
//! # Ok::<(), groupcast_lmbl::Error>(())
//! ```
#![forbid(unsafe_code)]

mod atom;
mod balance;
pub mod cstream;
mod error;
pub mod sexp;
mod structure;
mod token;

pub use self::balance::Balance;
pub use self::error::{Error, Fault};
pub use self::token::{Content, Mark, Token};

/// Bounds of one message. Beyond them it is refused, however well it is formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most levels of lists and quotes. Default: 1,000, as programs that read lists by
    /// recursion must bear it.
    pub depth: usize,
    /// The most items: atoms, lists and quotes. Default: 1,000,000.
    pub items: usize,
    /// The most bytes. Default: 16 MiB.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 1_000,
            items: 1_000_000,
            bytes: 16 << 20,
        }
    }
}

/// How a structured message is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syntax {
    /// An S-expression.
    Sexp,
    /// A CSTREAM.
    Cstream,
}

impl Syntax {
    /// The syntax in which `message` would have to be written to be a list, by its first bytes.
    pub fn guess(message: &[u8]) -> Option<Self> {
        if message.starts_with(b"(") {
            Some(Self::Sexp)
        } else if message.starts_with(cstream::BEGIN_LIST) {
            Some(Self::Cstream)
        } else {
            None
        }
    }
}

/// Whether `message` is one list, well-formed in `syntax` and within `limits`.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check(syntax: Syntax, message: &[u8], limits: Limits) -> Result<(), Error> {
    begins_as(syntax, message)?;
    match syntax {
        Syntax::Sexp => drain(sexp::Reader::new(message, limits)?, |_| {}),
        Syntax::Cstream => drain(cstream::Reader::new(message, limits)?, |_| {}),
    }
}

/// A list in `syntax`, written in the other syntax: as an S-expression in its canonical form.
///
/// # Errors
/// What is wrong with `message`, and where.
pub fn convert(syntax: Syntax, message: &[u8], limits: Limits) -> Result<Vec<u8>, Error> {
    begins_as(syntax, message)?;
    let mut written = Vec::with_capacity(message.len() + message.len() / 4);
    match syntax {
        Syntax::Sexp => {
            let mut writer = cstream::Writer::new(&mut written);
            drain(sexp::Reader::new(message, limits)?, |token| {
                writer.put(token);
            })?;
        }
        Syntax::Cstream => {
            let mut writer = sexp::Writer::new(&mut written);
            drain(cstream::Reader::new(message, limits)?, |token| {
                writer.put(token);
            })?;
        }
    }
    Ok(written)
}

/// Whether `message` begins as a list in `syntax` does, and not as another item.
fn begins_as(syntax: Syntax, message: &[u8]) -> Result<(), Error> {
    match Syntax::guess(message) == Some(syntax) {
        true => Ok(()),
        false => Err(Error::new(Fault::NoList, 0)),
    }
}

/// Hands all tokens of a reader to `each`.
fn drain<'a>(
    tokens: impl Iterator<Item = Result<Token<'a>, Error>>,
    mut each: impl FnMut(&Token<'a>),
) -> Result<(), Error> {
    for token in tokens {
        each(&token?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
