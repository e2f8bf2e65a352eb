//! A list that a program writes item by item.

use groupcast_lmbl::{Content, Limits, Mark, Token, cstream};

use crate::error::{Code, Error};
use crate::list::{Kind, List};
use crate::words::Syntax;

/// What was put so far, as a CSTREAM: it needs no escapes, and its reader checks that the text of
/// an atom is of its kind.
#[derive(Debug)]
pub(crate) struct Builder {
    text: Vec<u8>,
    /// Why something was not put: then there is no list.
    refused: Option<Error>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            text: b"cs".to_vec(),
            refused: None,
        }
    }

    /// One in which a list has begun.
    pub(crate) fn open() -> Result<Self, Error> {
        let mut builder = Self::new();
        builder.put(&Token::Open)?;
        Ok(builder)
    }

    /// Has `work` put something. If it cannot, nothing else comes of the builder than the first
    /// error: what was left out would be missing in the list.
    pub(crate) fn try_put(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let done = work(self);
        if let Err(error) = &done
            && self.refused.is_none()
        {
            self.refused = Some(error.clone());
        }
        done
    }

    /// Appends a token. Whether brackets, dots and marks stand where they may is checked at the
    /// end.
    pub(crate) fn put(&mut self, token: &Token<'_>) -> Result<(), Error> {
        let before = self.text.len();
        if before > Limits::default().bytes {
            let text = "the list has more bytes than a list may have";
            return Err(Error::new(Code::Range, text));
        }
        let mut alone = Vec::new();
        cstream::Writer::new(&mut alone).put(token);
        let is_structure = matches!(
            token,
            Token::Open | Token::Close | Token::Dot | Token::Mark(_)
        );
        if !is_structure && List::read(&alone, Some(Syntax::Cstream)).is_err() {
            return Err(Error::argument(
                "the text would be read as something else, or as several items",
            ));
        }
        self.text.extend_from_slice(&alone[b"cs".len()..]);
        Ok(())
    }

    /// Appends an atom of this kind.
    pub(crate) fn atom(&mut self, kind: Kind, text: &[u8]) -> Result<(), Error> {
        self.put(&match kind {
            Kind::Symbol => Token::Symbol(text),
            Kind::Integer => Token::Integer(text),
            Kind::Float => Token::Float(text),
            Kind::Character => Token::Character(text),
            Kind::String => Token::String(Content::Plain(text)),
            Kind::Bytes => Token::Bytes(Content::Plain(text)),
            Kind::None | Kind::List | Kind::Quoted => {
                return Err(Error::argument("this kind of item has no text"));
            }
        })
    }

    pub(crate) fn mark(&mut self, text: &str) -> Result<(), Error> {
        let marks = [
            Mark::Quote,
            Mark::Backquote,
            Mark::Unquote,
            Mark::Splice,
            Mark::Function,
            Mark::Vector,
        ];
        let mark = marks.into_iter().find(|mark| mark.text() == text);
        let wrong = || Error::argument("a mark is one of ' ` , ,@ #' and #");
        self.put(&Token::Mark(mark.ok_or_else(wrong)?))
    }

    /// The list that it all makes.
    ///
    /// # Errors
    /// The first of [`try_put`](Self::try_put), if there was any; otherwise what is not
    /// well-formed.
    pub(crate) fn finish(&self) -> Result<List, Error> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        // Places in the text that was built mean nothing to the program that built it.
        List::read(&self.text, Some(Syntax::Cstream)).map_err(|error| Error { column: 0, ..error })
    }
}
