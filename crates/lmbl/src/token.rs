//! The items of a message, whichever syntax they are written in.

/// An item of a message, or the beginning or end of a list. It points into the message's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// A list begins.
    Open,
    /// The list ends.
    Close,
    /// The last item of a dotted list follows.
    Dot,
    /// A quote or the like: it belongs to the item that follows.
    Mark(Mark),
    /// A symbol, as it is written as an S-expression: bars, escapes and packages included.
    Symbol(&'a [u8]),
    /// An integer, as written.
    Integer(&'a [u8]),
    /// A float, as written.
    Float(&'a [u8]),
    /// A character: what follows `#\`.
    Character(&'a [u8]),
    /// A string.
    String(Content<'a>),
    /// Bytes.
    Bytes(Content<'a>),
}

/// What stands before an item and belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// `'`
    Quote,
    /// `` ` ``
    Backquote,
    /// `,`
    Unquote,
    /// `,@`
    Splice,
    /// `#'`
    Function,
    /// `#`, before a list: it is a vector.
    Vector,
}

impl Mark {
    const ALL: [Self; 6] = [
        Self::Quote,
        Self::Backquote,
        Self::Unquote,
        Self::Splice,
        Self::Function,
        Self::Vector,
    ];

    /// How it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Quote => "'",
            Self::Backquote => "`",
            Self::Unquote => ",",
            Self::Splice => ",@",
            Self::Function => "#'",
            Self::Vector => "#",
        }
    }

    /// The mark that is written so.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|mark| mark.text().as_bytes() == text)
    }
}

/// The bytes of a string or of a row of bytes, as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// The bytes themselves.
    Plain(&'a [u8]),
    /// Between the quotes of an S-expression: `\` before a byte means that byte.
    Escaped(&'a [u8]),
    /// Between the parentheses of `#u8(…)`: decimal numbers with blanks between, checked.
    Decimal(&'a [u8]),
}

impl<'a> Content<'a> {
    /// The bytes that are meant.
    pub fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let (mut plain, mut numbers) = (&b""[..], None);
        let mut escapes = false;
        match self {
            Self::Plain(bytes) => plain = bytes,
            Self::Escaped(bytes) => (plain, escapes) = (bytes, true),
            Self::Decimal(text) => numbers = Some(text.split(u8::is_ascii_whitespace)),
        }
        std::iter::from_fn(move || {
            if let Some(numbers) = &mut numbers {
                let number = numbers.find(|number| !number.is_empty())?;
                return Some(decimal(number));
            }
            if escapes && plain.first() == Some(&b'\\') {
                plain = &plain[1..];
            }
            let (first, rest) = plain.split_first()?;
            plain = rest;
            Some(*first)
        })
    }

    /// How many bytes are meant.
    pub fn len(self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Escaped(_) | Self::Decimal(_) => self.bytes().count(),
        }
    }

    /// Whether no byte is meant.
    pub fn is_empty(self) -> bool {
        self.bytes().next().is_none()
    }
}

/// The value of a number that was checked.
fn decimal(digits: &[u8]) -> u8 {
    let value = |sum: u8, digit: &u8| sum.wrapping_mul(10).wrapping_add(digit - b'0');
    digits.iter().fold(0, value)
}
