//! What came in of itself: a delivery, a view, a gap, or the end of being in a domain.

use crate::error::{Code, Error};
use crate::list::List;
use crate::words::{self, Syntax, Word};

/// `gcb_event`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Event {
    /// None: what a result is where there is an error.
    #[default]
    None,
    /// A message.
    Delivery,
    /// A change of a domain.
    View,
    /// This client is out of a domain.
    Left,
    /// Messages of a bimodal domain are lost.
    Gap,
}

/// One of them. Each text has a NUL behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) event: Event,
    /// The domains of a delivery; the words of any other line.
    words: Vec<String>,
    tag: String,
    sender: Option<String>,
    syntax: Syntax,
    data: Vec<u8>,
    len: usize,
}

/// The first line of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    tag: String,
    domains: Vec<String>,
    sender: Option<String>,
    syntax: Option<Syntax>,
    pub(crate) len: usize,
}

impl Head {
    /// `TAG DOMAINS [from=ID] [SYNTAX] LENGTH`
    pub(crate) fn read(line: &str) -> Option<Self> {
        let words = words::read_head(line)?;
        let [tag, domains, options @ .., len] = &words[..] else {
            return None;
        };
        let [tag] = &tag[..] else {
            return None;
        };
        let mut head = Self {
            tag: tag.text.clone(),
            domains: domains.iter().map(|word| word.text.clone()).collect(),
            sender: None,
            syntax: None,
            len: len.first()?.text.parse().ok()?,
        };
        for option in options {
            match &option[..] {
                [Word { text, sender: true }] => head.sender = Some(text.clone()),
                [word] => head.syntax = Some(Syntax::of(&word.text)?),
                _ => return None,
            }
        }
        Some(head)
    }
}

impl Message {
    pub(crate) fn delivery(head: Head, data: &[u8]) -> Self {
        // A list that comes in the client's own syntax is not marked.
        let own = match data.starts_with(b"cs[") {
            true => Syntax::Cstream,
            false => Syntax::Sexp,
        };
        Self {
            event: Event::Delivery,
            words: head.domains.into_iter().map(with_nul).collect(),
            tag: with_nul(head.tag),
            sender: head.sender.map(with_nul),
            syntax: head.syntax.unwrap_or(own),
            data: [data, b"\0"].concat(),
            len: data.len(),
        }
    }

    /// A view, a gap or the end of being in a domain, by the words behind the first.
    pub(crate) fn line(event: Event, rest: &str) -> Option<Self> {
        let words = match event {
            // Its last part is a text for people.
            Event::Left => {
                let (domain, rest) = words::first(rest)?;
                let (code, text) = words::first(rest)?;
                vec![domain, code, text.to_owned()]
            }
            _ => words::read(rest)?,
        };
        Some(Self {
            event,
            words: words.into_iter().map(with_nul).collect(),
            tag: with_nul(String::new()),
            sender: None,
            syntax: Syntax::Raw,
            data: vec![0],
            len: 0,
        })
    }

    /// How many domains or words it has.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    /// One of them.
    pub(crate) fn word(&self, index: usize) -> Result<&[u8], Error> {
        let none = || Error::new(Code::Range, "there are not so many words");
        self.words
            .get(index)
            .map(|word| text(word))
            .ok_or_else(none)
    }

    pub(crate) fn tag(&self) -> Result<&[u8], Error> {
        self.is_delivery().map(|()| text(&self.tag))
    }

    /// The id of its sender; empty where that is not told.
    pub(crate) fn sender(&self) -> Result<&[u8], Error> {
        let sender = self.sender.as_deref().map_or(&b""[..], text);
        self.is_delivery().map(|()| sender)
    }

    pub(crate) fn syntax(&self) -> Result<Syntax, Error> {
        self.is_delivery().map(|()| self.syntax)
    }

    /// The bytes of a delivery.
    pub(crate) fn data(&self) -> Result<&[u8], Error> {
        self.is_delivery().map(|()| &self.data[..self.len])
    }

    /// The list that a delivery is.
    pub(crate) fn list(&self) -> Result<List, Error> {
        let data = self.data()?;
        match self.syntax {
            Syntax::Raw => Err(Error::kind("the message is raw, and no list")),
            syntax => List::read(data, Some(syntax)),
        }
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn size(&self) -> usize {
        const FIXED: usize = 128;
        let words = self.words.iter();
        let words: usize = words.map(|word| word.len() + size_of::<String>()).sum();
        self.data.len() + self.tag.len() + words + FIXED
    }

    fn is_delivery(&self) -> Result<(), Error> {
        match self.event {
            Event::Delivery => Ok(()),
            _ => Err(Error::kind(
                "this is a view, a gap or the end of being in a domain",
            )),
        }
    }
}

fn with_nul(mut text: String) -> String {
    text.push('\0');
    text
}

/// Without the NUL behind it.
fn text(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_deliveries_are_read() {
        let head = Head::read("draw \"a,b\",c from=\"x y\" raw 5").expect("it is well-formed");
        assert_eq!(head.domains, ["a,b", "c"]);
        assert_eq!(head.sender.as_deref(), Some("x y"));
        assert_eq!((head.syntax, head.len), (Some(Syntax::Raw), 5));
        let head = Head::read("\"\" d 21").expect("it is well-formed");
        assert_eq!((&*head.tag, head.syntax), ("", None));
        // A tag may look like a sender.
        let head = Head::read("from=me d 0").expect("it is well-formed");
        assert_eq!((&*head.tag, head.sender), ("from=me", None));
        for wrong in ["", "t d", "t d x", "t d odd 5", "t \"d 5", "t d -1"] {
            assert_eq!(Head::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn views_and_ends_are_read() {
        let view = Message::line(Event::View, "d regular join \"\" c1@h1").expect("well-formed");
        assert_eq!(view.words(), 5);
        assert_eq!(view.word(3), Ok(&b""[..]));
        assert!(view.word(5).is_err() && view.tag().is_err());
        let left = Message::line(Event::Left, "d forbidden the rules \"say\" so").expect("well");
        assert_eq!(left.word(2), Ok(&b"the rules \"say\" so"[..]));
        let left = Message::line(Event::Left, "\"a b\" forbidden so").expect("well-formed");
        assert_eq!(
            (left.word(0), left.word(2)),
            (Ok(&b"a b"[..]), Ok(&b"so"[..]))
        );
        let gap = Message::line(Event::Gap, "d h1 4 7").expect("well-formed");
        assert_eq!((gap.words(), gap.word(3)), (4, Ok(&b"7"[..])));
        let view = Message::line(Event::View, "d regular,x join from=a c").expect("well-formed");
        assert_eq!(view.words(), 5);
        assert_eq!(view.word(3), Ok(&b"from=a"[..]));
    }
}
