//! A list that was read: a flat row of items, and where each ends.
//!
//! An item is a place in the row. The rest of a list is a place too, so neither costs memory or a
//! copy. Nothing recurses.

use groupcast_lmbl::{Content, Limits, Mark, Token, cstream, sexp};

use crate::error::{Code, Error};
use crate::words::Syntax;

/// A list, whole.
#[derive(Debug)]
pub(crate) struct List {
    nodes: Vec<Node>,
    /// The bytes that the atoms mean, a NUL behind each.
    bytes: Vec<u8>,
}

/// `gcb_kind`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Kind {
    /// None: what a result is where there is an error.
    #[default]
    None,
    /// A list, also a dotted one, an empty one, or the rest of one.
    List,
    /// A symbol, as it is written.
    Symbol,
    /// A string.
    String,
    /// An integer of any length.
    Integer,
    /// A float.
    Float,
    /// A character, by its name.
    Character,
    /// Bytes.
    Bytes,
    /// An item with a quote or another mark before it.
    Quoted,
}

impl Kind {
    /// The kind that a caller means by a number.
    pub(crate) fn meant(number: std::ffi::c_int) -> Self {
        match number {
            1 => Self::List,
            2 => Self::Symbol,
            3 => Self::String,
            4 => Self::Integer,
            5 => Self::Float,
            6 => Self::Character,
            7 => Self::Bytes,
            8 => Self::Quoted,
            _ => Self::None,
        }
    }
}

/// A token of the row.
#[derive(Clone, Copy, Debug)]
struct Node {
    what: What,
    /// Where its bytes are.
    at: u32,
    len: u32,
    /// The place behind the item that begins here.
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Open,
    Close,
    Dot,
    Mark(Mark),
    Atom(Kind),
}

/// A place in a list: an item, or the rest of a list from an item on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) at: u32,
    /// It is the rest of a list, whose first item or end stands at `at`.
    pub(crate) is_rest: bool,
}

impl Place {
    pub(crate) const ROOT: Self = Self::item(0);

    const fn item(at: u32) -> Self {
        Self { at, is_rest: false }
    }
}

impl List {
    /// The one item that `text` is; without a syntax, it is told by its first bytes.
    pub(crate) fn read(text: &[u8], syntax: Option<Syntax>) -> Result<Self, Error> {
        let limits = Limits::default();
        let is_cstream = match syntax {
            Some(Syntax::Raw) => return Err(Error::kind("what is raw is no list")),
            Some(syntax) => syntax == Syntax::Cstream,
            None => text.starts_with(b"cs["),
        };
        let read = match is_cstream {
            true => cstream::Reader::new(text, limits).and_then(Self::of),
            false => sexp::Reader::new(text, limits).and_then(Self::of),
        };
        read.map_err(|error| Error::list(&error))
    }

    fn of<'a>(
        tokens: impl Iterator<Item = Result<Token<'a>, groupcast_lmbl::Error>>,
    ) -> Result<Self, groupcast_lmbl::Error> {
        let mut list = Self {
            nodes: Vec::new(),
            bytes: Vec::new(),
        };
        // Lists and quotes that have not ended.
        let mut open = Vec::new();
        for token in tokens {
            let here = list.nodes.len();
            let mut begun = here;
            match list.push(&token?) {
                What::Open | What::Mark(_) => {
                    open.push(here);
                    continue;
                }
                What::Dot => continue,
                What::Close => begun = open.pop().expect("the reader lets no other pass"),
                What::Atom(_) => {}
            }
            let next = list.nodes.len() as u32;
            list.nodes[begun].next = next;
            // An item ends the quotes before it.
            while let Some(mark) = open.pop_if(|it| matches!(list.nodes[*it].what, What::Mark(_))) {
                list.nodes[mark].next = next;
            }
        }
        Ok(list)
    }

    fn push(&mut self, token: &Token<'_>) -> What {
        let at = self.bytes.len() as u32;
        let what = match token {
            Token::Open => What::Open,
            Token::Close => What::Close,
            Token::Dot => What::Dot,
            Token::Mark(mark) => {
                self.bytes.extend_from_slice(mark.text().as_bytes());
                What::Mark(*mark)
            }
            Token::Symbol(text) => self.text(text, Kind::Symbol),
            Token::Integer(text) => self.text(text, Kind::Integer),
            Token::Float(text) => self.text(text, Kind::Float),
            Token::Character(name) => self.text(name, Kind::Character),
            Token::String(content) => self.content(*content, Kind::String),
            Token::Bytes(content) => self.content(*content, Kind::Bytes),
        };
        let len = self.bytes.len() as u32 - at;
        if len > 0 || matches!(what, What::Atom(_)) {
            self.bytes.push(0);
        }
        self.nodes.push(Node {
            what,
            at,
            len,
            next: 0,
        });
        what
    }

    fn text(&mut self, text: &[u8], kind: Kind) -> What {
        self.bytes.extend_from_slice(text);
        What::Atom(kind)
    }

    fn content(&mut self, content: Content<'_>, kind: Kind) -> What {
        self.bytes.extend(content.bytes());
        What::Atom(kind)
    }

    pub(crate) fn kind(&self, place: Place) -> Result<Kind, Error> {
        let node = self.node(place.at)?;
        match node.what {
            What::Dot => Err(no_place()),
            // No list begins before the first place of all.
            _ if place.is_rest && place.at == 0 => Err(no_place()),
            _ if place.is_rest => Ok(Kind::List),
            What::Open => Ok(Kind::List),
            What::Close => Err(no_place()),
            What::Mark(_) => Ok(Kind::Quoted),
            What::Atom(kind) => Ok(kind),
        }
    }

    /// The first item of a list.
    pub(crate) fn first(&self, place: Place) -> Result<Place, Error> {
        let at = self.first_at(place)?;
        match self.node(at)?.what {
            What::Close => Err(Error::kind("an empty list has no first item")),
            _ => Ok(Place::item(at)),
        }
    }

    /// A list without its first item; what stands behind the dot, where only that is left.
    pub(crate) fn rest(&self, place: Place) -> Result<Place, Error> {
        let first = self.first(place)?;
        let at = self.node(first.at)?.next;
        match self.node(at)?.what {
            What::Dot => Ok(Place::item(at + 1)),
            _ => Ok(Place { at, is_rest: true }),
        }
    }

    /// How many items a list has, without the one behind a dot.
    pub(crate) fn len(&self, place: Place) -> Result<usize, Error> {
        let mut at = self.first_at(place)?;
        let mut count = 0;
        loop {
            let node = self.node(at)?;
            if matches!(node.what, What::Close | What::Dot) {
                return Ok(count);
            }
            count += 1;
            at = node.next;
        }
    }

    /// The mark of a quoted item, and the item.
    pub(crate) fn quoted(&self, place: Place) -> Result<(&[u8], Place), Error> {
        match self.kind(place)? {
            Kind::Quoted => Ok((self.bytes_at(place)?, Place::item(place.at + 1))),
            _ => Err(Error::kind("the item has no mark before it")),
        }
    }

    /// The bytes of an atom; a NUL stands behind them.
    pub(crate) fn atom(&self, place: Place) -> Result<&[u8], Error> {
        match self.kind(place)? {
            Kind::List | Kind::Quoted | Kind::None => Err(Error::kind(
                "a list, or what is quoted, has no bytes of its own",
            )),
            _ => self.bytes_at(place),
        }
    }

    pub(crate) fn integer(&self, place: Place) -> Result<i64, Error> {
        if self.kind(place)? != Kind::Integer {
            return Err(Error::kind("the item is no integer"));
        }
        let text = String::from_utf8_lossy(self.atom(place)?);
        let digits = text.strip_suffix('.').unwrap_or(&text);
        digits
            .parse()
            .map_err(|_| Error::new(Code::Range, "the integer does not fit into 64 bits"))
    }

    pub(crate) fn float(&self, place: Place) -> Result<f64, Error> {
        if !matches!(self.kind(place)?, Kind::Integer | Kind::Float) {
            return Err(Error::kind("the item is no number"));
        }
        let text = String::from_utf8_lossy(self.atom(place)?).to_ascii_lowercase();
        // Lisp's letters for exponents say which type of float is meant.
        let value: Option<f64> = text.replace(['s', 'd', 'f', 'l'], "e").parse().ok();
        value
            .filter(|value| value.is_finite())
            .ok_or_else(|| Error::new(Code::Range, "the number does not fit into a double"))
    }

    /// The item as a text of its own.
    pub(crate) fn write(&self, place: Place, syntax: Syntax) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        match syntax {
            Syntax::Sexp => {
                let mut writer = sexp::Writer::new(&mut out);
                self.tokens(place, |token| writer.put(&token))?;
            }
            Syntax::Cstream => {
                let mut writer = cstream::Writer::new(&mut out);
                self.tokens(place, |token| writer.put(&token))?;
            }
            Syntax::Raw => return Err(Error::argument("a list is written as sexp or cstream")),
        }
        Ok(out)
    }

    /// Hands the tokens of an item to `each`.
    pub(crate) fn tokens(
        &self,
        place: Place,
        mut each: impl FnMut(Token<'_>),
    ) -> Result<(), Error> {
        self.kind(place)?;
        if place.is_rest {
            each(Token::Open);
        }
        let mut depth = usize::from(place.is_rest);
        let end = match place.is_rest {
            true => self.nodes.len() as u32,
            false => self.node(place.at)?.next,
        };
        for at in place.at..end {
            let node = self.node(at)?;
            match node.what {
                What::Open => depth += 1,
                What::Close => depth -= 1,
                _ => {}
            }
            each(self.token(node));
            if place.is_rest && depth == 0 {
                break;
            }
        }
        Ok(())
    }

    fn token(&self, node: Node) -> Token<'_> {
        let bytes = &self.bytes[node.at as usize..(node.at + node.len) as usize];
        match node.what {
            What::Open => Token::Open,
            What::Close => Token::Close,
            What::Dot => Token::Dot,
            What::Mark(mark) => Token::Mark(mark),
            What::Atom(Kind::Integer) => Token::Integer(bytes),
            What::Atom(Kind::Float) => Token::Float(bytes),
            What::Atom(Kind::Character) => Token::Character(bytes),
            What::Atom(Kind::String) => Token::String(Content::Plain(bytes)),
            What::Atom(Kind::Bytes) => Token::Bytes(Content::Plain(bytes)),
            What::Atom(_) => Token::Symbol(bytes),
        }
    }

    fn first_at(&self, place: Place) -> Result<u32, Error> {
        match self.kind(place)? {
            Kind::List if place.is_rest => Ok(place.at),
            Kind::List => Ok(place.at + 1),
            _ => Err(Error::kind("the item is no list")),
        }
    }

    fn bytes_at(&self, place: Place) -> Result<&[u8], Error> {
        let node = self.node(place.at)?;
        Ok(&self.bytes[node.at as usize..(node.at + node.len) as usize])
    }

    fn node(&self, at: u32) -> Result<Node, Error> {
        self.nodes.get(at as usize).copied().ok_or_else(no_place)
    }
}

fn no_place() -> Error {
    Error::new(Code::Handle, "the item is none of its list")
}
