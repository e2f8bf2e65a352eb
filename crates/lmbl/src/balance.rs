//! Where a list ends that arrives in pieces.

use crate::atom::{is_blank, is_delimiter};

/// Finds the end of an S-expression that is a list, however it is cut, looking at each byte once.
///
/// It follows parentheses, strings, bars, characters and comments as [`sexp::Reader`] does, and
/// judges nothing else: what it says is the end is the end for the reader, if the reader finds
/// nothing wrong before.
///
/// [`sexp::Reader`]: crate::sexp::Reader
#[derive(Debug, Default)]
pub struct Balance {
    depth: usize,
    state: State,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// No atom.
    #[default]
    Between,
    /// An atom.
    Atom,
    /// An atom, after a `\`.
    Escape,
    /// An atom, between bars; whether after a `\`.
    Bars(bool),
    /// After a `,`: an `@` is of the same mark.
    Unquote,
    /// After a `#` that begins an item.
    Hash,
    /// A character's first byte.
    Character,
    /// The rest of a character's name.
    Name,
    /// A string; whether after a `\`.
    String(bool),
    /// A comment up to the end of the line.
    Line,
    /// A comment between `#|` and `|#`, of which this many are open; and the byte before, if it may
    /// be the first of two.
    Comment(usize, u8),
}

impl Balance {
    /// Before the list.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next bytes are `bytes`: the offset behind the parenthesis that closes the list, if it is
    /// among them. Nothing is to be fed after it.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            self.state = self.step(*byte);
            if *byte == b')' && self.state == State::Between && self.depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    fn step(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (State::Unquote, b'@') => State::Between,
            (State::Between | State::Unquote, byte) => self.between(byte),
            (State::Escape, _) => State::Atom,
            (State::Atom, byte) => self.atom(byte),
            (State::Bars(false), b'|') => State::Atom,
            (State::Bars(escaped), byte) => State::Bars(!escaped && byte == b'\\'),
            (State::Hash, b'|') => State::Comment(1, 0),
            (State::Hash, b'\\') => State::Character,
            (State::Hash, byte) => self.atom(byte),
            (State::Character, _) => State::Name,
            (State::Name, byte) if is_delimiter(byte) => self.between(byte),
            (State::Name, _) => State::Name,
            (State::String(false), b'"') => State::Between,
            (State::String(escaped), byte) => State::String(!escaped && byte == b'\\'),
            (State::Line, b'\n') => State::Between,
            (State::Line, _) => State::Line,
            (State::Comment(open, b'#'), b'|') => State::Comment(open + 1, 0),
            (State::Comment(1, b'|'), b'#') => State::Between,
            (State::Comment(open, b'|'), b'#') => State::Comment(open - 1, 0),
            (State::Comment(open, _), byte) => State::Comment(open, byte),
        }
    }

    fn between(&mut self, byte: u8) -> State {
        match byte {
            b'(' => {
                self.depth += 1;
                State::Between
            }
            b')' => {
                self.depth = self.depth.saturating_sub(1);
                State::Between
            }
            b'"' => State::String(false),
            b';' => State::Line,
            b'#' => State::Hash,
            b',' => State::Unquote,
            b'\'' | b'`' => State::Between,
            byte if is_blank(byte) => State::Between,
            byte => self.atom(byte),
        }
    }

    fn atom(&mut self, byte: u8) -> State {
        match byte {
            b'\\' => State::Escape,
            b'|' => State::Bars(false),
            byte if is_delimiter(byte) => self.between(byte),
            _ => State::Atom,
        }
    }
}
