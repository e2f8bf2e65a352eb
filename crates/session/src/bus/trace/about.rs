//! What an item of a trace is about: its word, tag, domains and message.

use std::borrow::Cow;

use crate::bus::command;
use crate::bus::words::Words;
use crate::frame::Syntax;

/// What an item is about, as far as it says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct About<'a> {
    /// Its first word: the command, or what the bus says. Empty if it is none.
    pub word: String,
    /// The tag of a message, or what `accept`, `reject` and `ping` have for one.
    pub tag: Option<String>,
    /// The domains that it names.
    pub domains: Vec<String>,
    /// What a message is marked as.
    pub syntax: Option<Syntax>,
    /// The bytes of a message, or as many of them as are there.
    pub message: Option<Cow<'a, [u8]>>,
}

impl<'a> About<'a> {
    /// What `item` is about: a command of a program, or what the bus says, with the ends of its
    /// lines.
    pub fn of(item: &'a [u8]) -> Self {
        let end = item.iter().position(|byte| *byte == b'\n');
        let line = &item[..end.unwrap_or(item.len())];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let rest = end.map_or(&[][..], |end| &item[end + 1..]);
        let mut words = Words::new(line);
        let mut about = Self {
            word: word(&mut words).unwrap_or_default(),
            ..Self::default()
        };
        match about.word.as_str() {
            "msg" => about.read_message(item, line, rest, &mut words),
            "accept" | "reject" | "ping" => {
                about.tag = word(&mut words);
                about.domains.extend(word(&mut words));
            }
            "view" | "left" | "gap" => about.domains.extend(word(&mut words)),
            _ => {}
        }
        about
    }

    fn read_message(
        &mut self,
        item: &'a [u8],
        line: &'a [u8],
        rest: &'a [u8],
        words: &mut Words<'a>,
    ) {
        let Some(tag) = word(words) else {
            return;
        };
        self.tag = Some(tag);
        let Ok(domains) = words.list("the domain") else {
            return;
        };
        self.domains = domains.into_iter().map(|domain| domain.text).collect();
        let at = words.rest_at();
        self.message = match command::length(words) {
            Ok(Some((syntax, Some(length)))) => {
                self.syntax = syntax;
                Some(Cow::Borrowed(&rest[..rest.len().min(length)]))
            }
            _ if at == line.len() => None,
            _ => match words.quoted_rest() {
                Ok(Some(bytes)) => Some(Cow::Owned(bytes)),
                // A list may go on over several lines.
                _ if line[at] == b'(' => Some(Cow::Borrowed(item[at..].trim_ascii_end())),
                _ => Some(Cow::Borrowed(&line[at..])),
            },
        };
    }

    /// Whether it names `domain`, or one below it where `domain` is `*.` and a name.
    pub fn names(&self, domain: &str) -> bool {
        self.domains
            .iter()
            .any(|named| match domain.strip_prefix('*') {
                Some(below) if below.starts_with('.') => named.ends_with(below) || named == domain,
                _ => named == domain,
            })
    }
}

fn word(words: &mut Words<'_>) -> Option<String> {
    words.next().ok().flatten().map(|word| word.text)
}
