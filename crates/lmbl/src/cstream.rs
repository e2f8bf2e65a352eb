//! CSTREAM: the syntax that needs no parsing but of lengths.

use crate::atom::{end_of, token};
use crate::structure::Structure;
use crate::{Content, Error, Fault, Limits, Mark, Token};

/// What a CSTREAM message begins with.
const BEGIN: &[u8] = b"cs";
/// The same where it is a list.
pub(crate) const BEGIN_LIST: &[u8] = b"cs[";

/// Reads one CSTREAM message token by token. The first error is the last thing that it gives.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    structure: Structure,
    ended: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `message`.
    ///
    /// # Errors
    /// [`Fault::TooLong`], and [`Fault::NoList`] if it does not begin as a CSTREAM does.
    pub fn new(message: &'a [u8], limits: Limits) -> Result<Self, Error> {
        if !message.starts_with(BEGIN) {
            return Err(Error::new(Fault::NoList, 0));
        }
        Ok(Self {
            bytes: message,
            at: BEGIN.len(),
            structure: Structure::new(message, limits)?,
            ended: false,
        })
    }

    fn read(&mut self) -> Result<Option<Token<'a>>, Error> {
        let start = self.at;
        let Some(first) = self.bytes.get(start) else {
            self.structure.finish(start)?;
            return Ok(None);
        };
        if self.structure.is_complete() {
            return Err(Error::new(Fault::Rest, start));
        }
        self.at += 1;
        let token = match first {
            b'[' => {
                self.structure.open(start)?;
                Token::Open
            }
            b']' => {
                self.structure.close(start)?;
                Token::Close
            }
            b'.' => {
                self.structure.dot(start)?;
                Token::Dot
            }
            kind => {
                let text = self.text()?;
                self.item(*kind, text, start)?
            }
        };
        Ok(Some(token))
    }

    /// The item of this kind and text.
    fn item(&mut self, kind: u8, text: &'a [u8], start: usize) -> Result<Token<'a>, Error> {
        let wrong = Error::new(Fault::Text, start);
        let token = match kind {
            b'q' => {
                let mark = Mark::of(text).ok_or(wrong)?;
                if mark == Mark::Vector && self.bytes.get(self.at) != Some(&b'[') {
                    return Err(wrong);
                }
                self.structure.mark(start)?;
                return Ok(Token::Mark(mark));
            }
            b's' => Token::String(Content::Plain(text)),
            b'b' => Token::Bytes(Content::Plain(text)),
            b'c' if is_character(text) => Token::Character(text),
            b'y' | b'i' | b'f' => {
                let token = self.atom(text).ok_or(wrong)?;
                match (kind, token) {
                    (b'y', Token::Symbol(_)) => token,
                    (b'i', Token::Integer(_)) | (b'f', Token::Float(_)) => token,
                    _ => return Err(wrong),
                }
            }
            b'c' => return Err(wrong),
            _ => return Err(Error::new(Fault::Kind, start)),
        };
        self.structure.atom(start)?;
        Ok(token)
    }

    /// The atom of an S-expression that `text` is, if it is one and nothing else.
    fn atom(&self, text: &'a [u8]) -> Option<Token<'a>> {
        let is_other = [&b"#'"[..], b"#(", b"#|", b"#\\"];
        if text.is_empty() || is_other.iter().any(|other| text.starts_with(other)) {
            return None;
        }
        (end_of(text, 0) == Ok(text.len())).then(|| token(text))
    }

    /// `LENGTH:` and as many bytes.
    fn text(&mut self) -> Result<&'a [u8], Error> {
        let wrong = Error::new(Fault::Length, self.at);
        let rest = &self.bytes[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at(count);
        if digits.starts_with(b"0") && count > 1 {
            return Err(wrong);
        }
        let len: usize = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or(wrong)?;
        let text = rest
            .strip_prefix(b":")
            .and_then(|rest| rest.get(..len))
            .ok_or(wrong)?;
        self.at += count + 1 + len;
        Ok(text)
    }
}

/// Whether an S-expression can have a character of this name.
fn is_character(name: &[u8]) -> bool {
    let text = [b"#\\", name].concat();
    !name.is_empty() && end_of(&text, 0) == Ok(text.len())
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Token<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        read
    }
}

/// Writes tokens as a CSTREAM message.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// A writer that appends a message to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(BEGIN);
        Self { out }
    }

    /// Appends a token. The tokens of one message, in their order, make one CSTREAM.
    pub fn put(&mut self, token: &Token<'_>) {
        match token {
            Token::Open => self.out.push(b'['),
            Token::Close => self.out.push(b']'),
            Token::Dot => self.out.push(b'.'),
            Token::Mark(mark) => self.text(b'q', mark.text().as_bytes()),
            Token::Symbol(text) => self.text(b'y', text),
            Token::Integer(text) => self.text(b'i', text),
            Token::Float(text) => self.text(b'f', text),
            Token::Character(name) => self.text(b'c', name),
            Token::String(content) => self.content(b's', *content),
            Token::Bytes(content) => self.content(b'b', *content),
        }
    }

    fn text(&mut self, kind: u8, text: &[u8]) {
        self.head(kind, text.len());
        self.out.extend_from_slice(text);
    }

    fn content(&mut self, kind: u8, content: Content<'_>) {
        if let Content::Plain(text) = content {
            return self.text(kind, text);
        }
        self.head(kind, content.len());
        self.out.extend(content.bytes());
    }

    fn head(&mut self, kind: u8, len: usize) {
        self.out.push(kind);
        self.out.extend_from_slice(len.to_string().as_bytes());
        self.out.push(b':');
    }
}
