//! Cuts the program's text into commands and messages.

use std::ops::Range;

use groupcast_lmbl::{Balance, Limits};

use super::command::{Announcement, Command, Form, MessageHead, Parsed, parse};
use super::words::Refusal;
use super::{LINE_MAX, TEXT_MAX};

/// A complete item of the program's text.
#[derive(Debug)]
pub(super) enum Item {
    Command(Command),
    Message(MessageHead, Body),
    /// A command that is refused.
    Refused(Refusal),
}

impl Item {
    fn of(head: Head, body: Body) -> Self {
        match head {
            Ok(head) => Self::Message(head, body),
            Err(refusal) => Self::Refused(refusal),
        }
    }
}

/// A message's bytes.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// They stand in the text.
    InText {
        place: Range<usize>,
        /// Whether they are a list that was found by its parentheses.
        is_list: bool,
    },
    /// The bytes that a quoted string stands for.
    Unquoted(Vec<u8>),
}

impl Body {
    /// Whether the message was written as a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::InText { is_list: true, .. })
    }
}

/// The text cannot be cut any further: the start of the next command is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    LineTooLong,
    LengthTooLong(u64),
    NoLineEnd,
    ListTooLong,
    LengthUnknown,
    EndInMessage,
    Http,
}

impl Fault {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::LineTooLong => "line-too-long",
            Self::LengthTooLong(_) => "length-too-long",
            Self::NoLineEnd => "no-line-end",
            Self::ListTooLong => "list-too-long",
            Self::LengthUnknown => "length-unknown",
            Self::EndInMessage => "end-in-message",
            Self::Http => "http",
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::LineTooLong => format!("a line has more than {LINE_MAX} bytes"),
            Self::LengthTooLong(max) => format!("a message has at most {max} bytes: split it"),
            Self::NoLineEnd => "the bytes of a message are followed by an end of line".into(),
            Self::ListTooLong => {
                let max = Limits::default().bytes;
                format!("a list is not closed within {max} bytes")
            }
            Self::LengthUnknown => {
                "the line of a message cannot be read, so it is unknown how many bytes follow it"
                    .into()
            }
            Self::EndInMessage => "the stream ended inside a message, which was not sent".into(),
            Self::Http => {
                "this is the message bus, and no server for HTTP: what a web page sends here is not \
                 carried out"
                    .into()
            }
        }
    }
}

/// The program's text that has come and is not carried out yet.
///
/// Offsets are counted from the start of the next item.
#[derive(Debug, Default)]
pub(super) struct Input {
    text: Vec<u8>,
    start: usize,
    state: State,
    /// The length of the item that was given out, with the ends of its lines.
    item: usize,
    /// How many items were carried out.
    items: u64,
    /// The message that was given back: there was no credit for it.
    waiting: Option<(MessageHead, Body)>,
    message_max: u64,
    ended: bool,
}

/// The head of a message, or why the message is refused when it has come whole.
type Head = Result<MessageHead, Refusal>;

/// The part of the next item that has come.
#[derive(Debug)]
enum State {
    /// A part of its line; this much was searched for the line's end.
    Line(usize),
    /// The line of a message, whose bytes follow.
    Bytes {
        head: Head,
        /// The offset of the message's bytes.
        at: usize,
        /// How many they are.
        len: usize,
    },
    /// The line of a message that is a list.
    List { head: Head, list: OpenList },
}

/// A list whose end, or the end of whose last line, has not come.
#[derive(Debug)]
struct OpenList {
    /// The offset of its first parenthesis.
    at: usize,
    balance: Balance,
    /// The offset up to which the parentheses are counted.
    known: usize,
    /// The offset behind its last parenthesis, if that has come.
    end: Option<usize>,
}

impl OpenList {
    fn begin(at: usize) -> Self {
        Self {
            at,
            balance: Balance::new(),
            known: at,
            end: None,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Line(0)
    }
}

impl Input {
    pub(super) fn set_message_max(&mut self, max: u64) {
        self.message_max = max;
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.text.drain(..self.start);
        self.start = 0;
        self.text.extend_from_slice(bytes);
    }

    /// No more text comes. The last line may lack its line end.
    pub(super) fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.push(b"\n");
        }
    }

    /// Forgets the text that is not carried out yet.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.start = 0;
        self.state = State::default();
    }

    /// How many bytes are not carried out yet.
    pub(super) fn left(&self) -> usize {
        self.text.len() - self.start
    }

    /// The number of the next item.
    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Whether a line has come.
    pub(super) fn has_line(&self) -> bool {
        self.items > 0 || self.waiting.is_some() || !matches!(self.state, State::Line(_))
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether no more items will come.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.text.len() == self.start && self.waiting.is_none()
    }

    /// Whether the next item is a message that was given back: it waits for credit.
    pub(super) fn waits_for_credit(&self) -> bool {
        self.waiting.is_some()
    }

    /// The next item, if it has come whole. Say [`done`](Self::done) when it is carried out, or
    /// [`put_back`](Self::put_back) if it cannot be now.
    pub(super) fn next(&mut self) -> Result<Option<Item>, Fault> {
        if let Some((head, body)) = self.waiting.take() {
            return Ok(Some(Item::Message(head, body)));
        }
        loop {
            match std::mem::take(&mut self.state) {
                State::Line(searched) => match self.line(searched)? {
                    Some(item) => return Ok(Some(item)),
                    None if matches!(self.state, State::Line(_)) => return self.nothing(),
                    None => {}
                },
                State::Bytes { head, at, len } => return self.bytes(head, at, len),
                State::List { head, list } => return self.list(head, list),
            }
        }
    }

    /// The text of the item that was given out, with the ends of its lines.
    pub(super) fn item(&self) -> &[u8] {
        &self.rest()[..self.item]
    }

    /// The item that was given out is carried out.
    pub(super) fn done(&mut self) {
        self.items += 1;
        self.start += std::mem::take(&mut self.item);
        if self.start == self.text.len() {
            self.start = 0;
            self.text.clear();
            // The memory of a long message is not kept.
            self.text.shrink_to(TEXT_MAX);
        }
    }

    /// The message that was given out is the next item again.
    pub(super) fn put_back(&mut self, head: MessageHead, body: Body) {
        self.waiting = Some((head, body));
    }

    /// The bytes of a message that was given out.
    pub(super) fn payload<'a>(&'a self, body: &'a Body) -> &'a [u8] {
        match body {
            Body::InText { place, .. } => &self.rest()[place.clone()],
            Body::Unquoted(bytes) => bytes,
        }
    }

    /// The column, in the line in which it stands and from 1, of the byte at `at` of a message; 0
    /// in a quoted string, whose bytes have no columns of their own.
    pub(super) fn column(&self, body: &Body, at: usize) -> usize {
        let Body::InText { place, .. } = body else {
            return 0;
        };
        let at = (place.start + at).min(self.rest().len());
        let before = &self.rest()[..at];
        let line = before.iter().rposition(|byte| *byte == b'\n');
        at - line.map_or(0, |end| end + 1) + 1
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.start..]
    }

    /// No item has come whole: none will inside a message if the text has ended.
    fn nothing(&self) -> Result<Option<Item>, Fault> {
        match self.ended && !matches!(self.state, State::Line(_)) {
            true => Err(Fault::EndInMessage),
            false => Ok(None),
        }
    }

    /// The item of a line; `None` if it has not come, or if more than a line belongs to it.
    fn line(&mut self, mut searched: usize) -> Result<Option<Item>, Fault> {
        loop {
            let rest = &self.text[self.start..];
            let found = rest[searched..].iter().position(|byte| *byte == b'\n');
            let len = found.map_or(rest.len(), |at| searched + at);
            if len > LINE_MAX {
                return Err(Fault::LineTooLong);
            }
            if found.is_none() {
                self.state = State::Line(len);
                return Ok(None);
            }
            let line = &rest[..len];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.first() == Some(&b'#') || line.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
                self.item = len + 1;
                self.done();
                searched = 0;
                continue;
            }
            let line_len = line.len();
            let (head, form) = match parse(line) {
                Ok(Parsed::Message(head, form)) => (head, form),
                Ok(Parsed::Command(command)) => return Ok(self.give(len, Item::Command(command))),
                Ok(Parsed::Refused(refusal, announcement)) => {
                    return self.refuse(len, refusal, announcement);
                }
                Err(_) if is_http(line) => return Err(Fault::Http),
                Err(refusal) => return Ok(self.give(len, Item::Refused(refusal))),
            };
            let body = match form {
                Form::Quoted(bytes) => Body::Unquoted(bytes),
                Form::Rest(at) => Body::InText {
                    place: at..line_len,
                    is_list: false,
                },
                Form::List(at) => {
                    self.state = State::List {
                        head: Ok(head),
                        list: OpenList::begin(at),
                    };
                    return Ok(None);
                }
                Form::Length(Some(length)) if length as u64 <= self.message_max => {
                    self.state = State::Bytes {
                        head: Ok(head),
                        at: len + 1,
                        len: length,
                    };
                    return Ok(None);
                }
                Form::Length(_) => return Err(Fault::LengthTooLong(self.message_max)),
            };
            return Ok(self.give(len, Item::Message(head, body)));
        }
    }

    /// The message whose line ends at `len` is refused, once all that belongs to it has come.
    fn refuse(
        &mut self,
        len: usize,
        refusal: Refusal,
        announcement: Announcement,
    ) -> Result<Option<Item>, Fault> {
        self.state = match announcement {
            Announcement::Nothing => return Ok(self.give(len, Item::Refused(refusal))),
            Announcement::Bytes(length) if length as u64 <= self.message_max => State::Bytes {
                head: Err(refusal),
                at: len + 1,
                len: length,
            },
            Announcement::Bytes(_) => return Err(Fault::LengthTooLong(self.message_max)),
            Announcement::List(at) => State::List {
                head: Err(refusal),
                list: OpenList::begin(at),
            },
            Announcement::Unknown => return Err(Fault::LengthUnknown),
        };
        Ok(None)
    }

    /// Gives out an item that ends with the line at `end`.
    fn give(&mut self, end: usize, item: Item) -> Option<Item> {
        self.item = end + 1;
        Some(item)
    }

    /// The message of `len` bytes from `at` on, once they and the end of their line have come.
    fn bytes(&mut self, head: Head, at: usize, len: usize) -> Result<Option<Item>, Fault> {
        let end = match self.rest().get(at + len..).unwrap_or_default() {
            [b'\n', ..] => at + len,
            [b'\r', b'\n', ..] => at + len + 1,
            [] | [b'\r'] => {
                self.state = State::Bytes { head, at, len };
                return self.nothing();
            }
            _ => return Err(Fault::NoLineEnd),
        };
        let body = Body::InText {
            place: at..at + len,
            is_list: false,
        };
        Ok(self.give(end, Item::of(head, body)))
    }

    /// The message that is `list`, once that and the end of its last line have come.
    fn list(&mut self, head: Head, mut list: OpenList) -> Result<Option<Item>, Fault> {
        let rest = &self.text[self.start..];
        if list.end.is_none() {
            let len = list.balance.feed(&rest[list.known..]);
            list.end = len.map(|len| list.known + len);
        }
        let Some(end) = list.end else {
            if rest.len() - list.at > Limits::default().bytes {
                return Err(Fault::ListTooLong);
            }
            list.known = rest.len();
            self.state = State::List { head, list };
            return self.nothing();
        };
        let Some(line) = rest[end..].iter().position(|byte| *byte == b'\n') else {
            if rest.len() - end > LINE_MAX {
                return Err(Fault::LineTooLong);
            }
            self.state = State::List { head, list };
            return self.nothing();
        };
        let after = &rest[end..end + line];
        let blanks = after
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
            .count();
        let body = Body::InText {
            place: list.at..end,
            is_list: true,
        };
        let item = match after.get(blanks) {
            None | Some(b';') => Item::of(head, body),
            Some(_) => {
                let column = self.column(&body, end + blanks - list.at);
                let text = "nothing but blanks and a comment follows the end of the list";
                Item::Refused(Refusal::new("list", column, text))
            }
        };
        Ok(self.give(end + line, item))
    }
}

/// Whether `line` begins a request of HTTP. Every web page can have a browser send one to this
/// host, with commands of the bus as its body; who wrote the page is no client.
fn is_http(line: &[u8]) -> bool {
    let version = line.rsplit(|byte| *byte == b' ').next();
    version.is_some_and(|word| word.starts_with(b"HTTP/"))
}
