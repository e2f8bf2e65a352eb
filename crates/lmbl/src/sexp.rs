//! S-expressions: reading one, and writing one in its canonical form.

use crate::atom::{end_of, is_blank, token};
use crate::structure::Structure;
use crate::{Content, Error, Fault, Limits, Mark, Token};

/// What a row of bytes begins with.
const BYTES: &[u8] = b"#u8(";

/// Reads one S-expression token by token. The first error is the last thing that it gives.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    structure: Structure,
    ended: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `message`, which is one item with nothing but blanks and comments around it.
    ///
    /// # Errors
    /// [`Fault::TooLong`].
    pub fn new(message: &'a [u8], limits: Limits) -> Result<Self, Error> {
        Ok(Self {
            bytes: message,
            at: 0,
            structure: Structure::new(message, limits)?,
            ended: false,
        })
    }

    fn read(&mut self) -> Result<Option<Token<'a>>, Error> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(first) = self.bytes.get(start) else {
            self.structure.finish(start)?;
            return Ok(None);
        };
        if self.structure.is_complete() {
            return Err(Error::new(Fault::Rest, start));
        }
        let token = match first {
            b'(' => {
                self.at += 1;
                self.structure.open(start)?;
                Token::Open
            }
            b')' => {
                self.at += 1;
                self.structure.close(start)?;
                Token::Close
            }
            b'"' => self.string()?,
            b'\'' => self.mark(Mark::Quote)?,
            b'`' => self.mark(Mark::Backquote)?,
            b',' if self.rest().starts_with(b",@") => self.mark(Mark::Splice)?,
            b',' => self.mark(Mark::Unquote)?,
            b'#' if self.rest().starts_with(b"#'") => self.mark(Mark::Function)?,
            b'#' if self.rest().starts_with(b"#(") => self.mark(Mark::Vector)?,
            b'#' if self.rest().starts_with(BYTES) => self.byte_row()?,
            _ => self.atom()?,
        };
        Ok(Some(token))
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn mark(&mut self, mark: Mark) -> Result<Token<'a>, Error> {
        self.structure.mark(self.at)?;
        self.at += mark.text().len();
        Ok(Token::Mark(mark))
    }

    fn atom(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        self.at = end_of(self.bytes, start)?;
        let token = token(&self.bytes[start..self.at]);
        match token {
            Token::Dot => self.structure.dot(start)?,
            _ => self.structure.atom(start)?,
        }
        Ok(token)
    }

    fn string(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        let mut here = start + 1;
        loop {
            match self.bytes.get(here) {
                Some(b'"') => break,
                Some(b'\\') => here += 2,
                Some(_) => here += 1,
                None => return Err(Error::new(Fault::Unfinished, start)),
            }
        }
        self.structure.atom(start)?;
        self.at = here + 1;
        let text = &self.bytes[start + 1..here];
        Ok(Token::String(match text.contains(&b'\\') {
            true => Content::Escaped(text),
            false => Content::Plain(text),
        }))
    }

    fn byte_row(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        let text = &self.rest()[BYTES.len()..];
        let Some(len) = text.iter().position(|byte| *byte == b')') else {
            return Err(Error::new(Fault::Unfinished, start));
        };
        let text = &text[..len];
        let is_byte = |number: &[u8]| {
            let digits = number.iter().all(u8::is_ascii_digit);
            let value = number.iter().take(4).fold(0, |sum: u32, digit| {
                sum * 10 + u32::from(digit.wrapping_sub(b'0'))
            });
            number.len() <= 3 && digits && value <= 255
        };
        if !text.split(u8::is_ascii_whitespace).all(is_byte) {
            return Err(Error::new(Fault::Bytes, start));
        }
        self.structure.atom(start)?;
        self.at += BYTES.len() + len + 1;
        Ok(Token::Bytes(Content::Decimal(text)))
    }

    fn skip_blanks(&mut self) -> Result<(), Error> {
        loop {
            match self.rest() {
                [byte, ..] if is_blank(*byte) => self.at += 1,
                [b';', ..] => {
                    let line = self.rest().iter();
                    self.at += line.take_while(|byte| **byte != b'\n').count();
                }
                [b'#', b'|', ..] => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// Comments of the form `#|…|#` may stand in each other.
    fn skip_comment(&mut self) -> Result<(), Error> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.rest() {
                [b'#', b'|', ..] => {
                    self.at += 2;
                    depth += 1;
                }
                [b'|', b'#', ..] => {
                    self.at += 2;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                [_, ..] => self.at += 1,
                [] => return Err(Error::new(Fault::Unfinished, start)),
            }
        }
    }
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

/// Writes tokens as an S-expression in its canonical form.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// A blank goes before the next item.
    gap: bool,
    /// The last token was `,`: an `@` must not stand right behind it.
    after_unquote: bool,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            gap: false,
            after_unquote: false,
        }
    }

    /// Appends a token. The tokens of one message, in their order, make one S-expression.
    pub fn put(&mut self, token: &Token<'_>) {
        let at_sign = matches!(token, Token::Symbol([b'@', ..]));
        if self.gap && *token != Token::Close || self.after_unquote && at_sign {
            self.out.push(b' ');
        }
        self.gap = !matches!(token, Token::Open | Token::Mark(_));
        self.after_unquote = *token == Token::Mark(Mark::Unquote);
        match token {
            Token::Open => self.out.push(b'('),
            Token::Close => self.out.push(b')'),
            Token::Dot => self.out.push(b'.'),
            Token::Mark(mark) => self.out.extend_from_slice(mark.text().as_bytes()),
            Token::Symbol(text) | Token::Integer(text) | Token::Float(text) => {
                self.out.extend_from_slice(text);
            }
            Token::Character(name) => {
                self.out.extend_from_slice(b"#\\");
                self.out.extend_from_slice(name);
            }
            Token::String(content) => self.string(*content),
            Token::Bytes(content) => self.byte_row(*content),
        }
    }

    fn string(&mut self, content: Content<'_>) {
        self.out.push(b'"');
        for byte in content.bytes() {
            if matches!(byte, b'"' | b'\\') {
                self.out.push(b'\\');
            }
            self.out.push(byte);
        }
        self.out.push(b'"');
    }

    fn byte_row(&mut self, content: Content<'_>) {
        self.out.extend_from_slice(BYTES);
        for (index, byte) in content.bytes().enumerate() {
            if index > 0 {
                self.out.push(b' ');
            }
            self.out.extend_from_slice(byte.to_string().as_bytes());
        }
        self.out.push(b')');
    }
}
