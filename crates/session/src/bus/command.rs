//! A command of a line.

use groupcast_core::Service;
use groupcast_core::service::UnknownService;
use groupcast_core::settings::suggest::did_you_mean;
use groupcast_core::text::is_visible;

use super::trace::{TRACE_NAME_MAX, is_trace_name};
use super::words::{Refusal, Word, Words};
use crate::frame::{BusRequest, DESTINATIONS_MAX, Syntax};
use crate::name::{GROUP_NAME_MAX, check_group, is_private};

/// The most bytes of a tag and of a pattern.
const TAG_MAX: usize = 255;

/// A command but `msg`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Command {
    /// With the columns of tag and domain, as `Reject` and `Ping`.
    Accept {
        request: BusRequest,
        at: (usize, usize),
    },
    Reject {
        request: BusRequest,
        at: (usize, usize),
    },
    Ping {
        request: BusRequest,
        at: (usize, usize),
    },
    Id {
        id: String,
        at: usize,
    },
    Toggle(Toggle, bool),
    Service(Service),
    Syntax(Syntax),
    /// With the column of the name, or none.
    Trace {
        name: Option<String>,
        at: usize,
    },
    Info,
    Clients,
    Help(Option<&'static str>),
    Quit,
}

/// What is on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Toggle {
    LoopBack,
    Views,
    From,
}

/// What stands before the message of a `msg`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MessageHead {
    pub(super) tag: String,
    pub(super) domains: Vec<String>,
    /// What it says that the message is written in.
    pub(super) syntax: Option<Syntax>,
}

/// What follows the line of a message that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Announcement {
    Nothing,
    /// This many bytes, and an end of line.
    Bytes(usize),
    /// The rest of a list that begins at this offset of the line.
    List(usize),
    /// Bytes, and it cannot be told how many.
    Unknown,
}

/// How the message of a `msg` is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// This many bytes follow the line; `None` if more than can be counted.
    Length(Option<usize>),
    Quoted(Vec<u8>),
    /// A list begins at this offset of the line.
    List(usize),
    /// The line from this offset on.
    Rest(usize),
}

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    Command(Command),
    Message(MessageHead, Form),
    /// A message that is refused, though what follows its line belongs to it.
    Refused(Refusal, Announcement),
}

/// The names of all commands.
pub(super) const NAMES: [&str; 15] = [
    "accept",
    "reject",
    "msg",
    "id",
    "ping",
    "loop-back",
    "service",
    "syntax",
    "views",
    "from",
    "tracefile",
    "info",
    "clients",
    "help",
    "quit",
];

/// The command in `line`, which is not empty.
pub(super) fn parse(line: &[u8]) -> Result<Parsed, Refusal> {
    let words = &mut Words::new(line);
    let name = words.need("a command")?;
    let command = match name.text.as_str() {
        "msg" => return message(line, words),
        "accept" => {
            let (pattern, group, at) = tag_and_domain(words, true)?;
            let ring = asks_for_ring(words)?;
            let request = BusRequest::Accept {
                group,
                pattern,
                ring,
            };
            Command::Accept { request, at }
        }
        "reject" => {
            let (pattern, group, at) = tag_and_domain(words, true)?;
            let request = BusRequest::Reject { group, pattern };
            Command::Reject { request, at }
        }
        "ping" => {
            let (tag, group, at) = tag_and_domain(words, false)?;
            let request = BusRequest::Who { tag, group };
            Command::Ping { request, at }
        }
        "id" => {
            let word = words.need("the name")?;
            if !word.text.is_empty() {
                check_domain(&word, false, "name")?;
                check_group(&word.text)
                    .map_err(|error| Refusal::new("name", word.column, error.to_string()))?;
            }
            Command::Id {
                id: word.text,
                at: word.column,
            }
        }
        "loop-back" => Command::Toggle(Toggle::LoopBack, switch(words)?),
        "views" => Command::Toggle(Toggle::Views, switch(words)?),
        "from" => Command::Toggle(Toggle::From, switch(words)?),
        "service" => Command::Service(service(words)?),
        "syntax" => {
            let word = words.need("the syntax")?;
            let unknown = Refusal::new("usage", word.column, "use sexp, cstream or raw");
            Command::Syntax(Syntax::of(&word.text).ok_or(unknown)?)
        }
        "tracefile" => trace(words)?,
        "info" => Command::Info,
        "clients" => Command::Clients,
        "help" => Command::Help(match words.next()? {
            Some(word) => Some(known(&word)?),
            None => None,
        }),
        "quit" => Command::Quit,
        _ => {
            known(&name)?;
            return Err(unknown(&name));
        }
    };
    words.end()?;
    Ok(Parsed::Command(command))
}

/// The name of a command.
fn known(word: &Word) -> Result<&'static str, Refusal> {
    let mut names = NAMES.into_iter();
    names
        .find(|name| *name == word.text)
        .ok_or_else(|| unknown(word))
}

fn unknown(word: &Word) -> Refusal {
    let text = format!(
        "there is no command {:?}; {}",
        word.text,
        did_you_mean(&word.text, &NAMES)
    );
    Refusal::new("unknown-command", word.column, text)
}

fn switch(words: &mut Words<'_>) -> Result<bool, Refusal> {
    let word = words.need("on or off")?;
    match word.text.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Refusal::new("usage", word.column, "use on or off")),
    }
}

fn service(words: &mut Words<'_>) -> Result<Service, Refusal> {
    let word = words.need("the service")?;
    match word.text.parse() {
        Ok(service) => Ok(service),
        Err(UnknownService::Word) => {
            let text = "not a service: use unreliable, reliable, fifo, causal, agreed, \
                        k-resilient:K, majority, safe or bimodal";
            Err(Refusal::new("usage", word.column, text))
        }
        Err(error) => Err(Refusal::new("usage", word.column, error.to_string())),
    }
}

fn trace(words: &mut Words<'_>) -> Result<Command, Refusal> {
    let word = words.need("the name, or off,")?;
    let name = Some(word.text).filter(|text| text != "off");
    if name.as_ref().is_some_and(|name| !is_trace_name(name)) {
        let text = format!(
            "a trace is called by 1 to {TRACE_NAME_MAX} letters and digits of ASCII, `-` and `_`: \
             its directory is the operator's choice"
        );
        return Err(Refusal::new("name", word.column, text));
    }
    let at = word.column;
    Ok(Command::Trace { name, at })
}

/// Whether `ring` follows, the only word that may.
fn asks_for_ring(words: &mut Words<'_>) -> Result<bool, Refusal> {
    let Some(word) = words.next()? else {
        return Ok(false);
    };
    match word.text.as_str() {
        "ring" => Ok(true),
        other => {
            let text = format!(
                "{other:?} stands where the line ends or says `ring`, which asks for an order of its own for the domain"
            );
            Err(Refusal::new("usage", word.column, text))
        }
    }
}

/// A tag, a domain, and the columns of the two.
type TagAndDomain = (String, String, (usize, usize));

/// The next two words as a tag or pattern and a domain, or all `below` one, if it may be that.
fn tag_and_domain(words: &mut Words<'_>, below: bool) -> Result<TagAndDomain, Refusal> {
    let tag = tag(words)?;
    let domain = words.need("the domain")?;
    if !domain.quoted && domain.text.contains(',') {
        let text = "one domain stands here; a comma of its name needs quotes";
        return Err(Refusal::new("domain", domain.column, text));
    }
    check_domain(&domain, below, "domain")?;
    let at = (tag.column, domain.column);
    Ok((tag.text, domain.text, at))
}

fn tag(words: &mut Words<'_>) -> Result<Word, Refusal> {
    let tag = words.need("the tag")?;
    if tag.text.len() > TAG_MAX {
        let text = format!("a tag has at most {TAG_MAX} bytes");
        return Err(Refusal::new("tag", tag.column, text));
    }
    // No tag has it, so a pattern with it would match nothing.
    if let Some(letter) = tag.text.chars().find(|letter| !is_visible(*letter)) {
        let text = format!("a tag has no {letter:?}: it cannot be seen");
        return Err(Refusal::new("tag", tag.column, text));
    }
    Ok(tag)
}

/// Checks that `word` is a domain, or all `below` one, if it may be that.
fn check_domain(word: &Word, below: bool, code: &'static str) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal::new(code, word.column, text));
    let name = match word.text.strip_prefix("*.") {
        Some(_) if !below => {
            return refuse("all below a domain can be accepted, and nothing else".into());
        }
        Some(rest) => rest,
        None => &word.text,
    };
    if word.text.len() > GROUP_NAME_MAX {
        return refuse(format!("a domain has at most {GROUP_NAME_MAX} bytes"));
    }
    if name.split('.').any(str::is_empty) {
        return refuse("a level of a domain is empty".into());
    }
    if name.split('.').any(|level| level == "*") {
        return refuse("`*` stands at the beginning, before a dot, and means all below".into());
    }
    Ok(())
}

fn message(line: &[u8], words: &mut Words<'_>) -> Result<Parsed, Refusal> {
    let from_tag = words.clone();
    let (tag, domains) = match tag_and_domains(words) {
        Ok(found) => found,
        Err(refusal) => return Ok(Parsed::Refused(refusal, announced(line, from_tag))),
    };
    let mut head = MessageHead {
        tag: tag.text,
        domains: domains.into_iter().map(|domain| domain.text).collect(),
        syntax: None,
    };
    let at = words.rest_at();
    let form = if at == line.len() {
        return Err(Refusal::new("usage", at + 1, "the message is missing"));
    } else if let Some((syntax, length)) = length(words)? {
        head.syntax = syntax;
        Form::Length(length)
    } else if let Some(bytes) = words.quoted_rest()? {
        Form::Quoted(bytes)
    } else if line[at] == b'(' {
        Form::List(at)
    } else {
        Form::Rest(at)
    };
    Ok(Parsed::Message(head, form))
}

/// The tag of a message, and where it goes to.
fn tag_and_domains(words: &mut Words<'_>) -> Result<(Word, Vec<Word>), Refusal> {
    let tag = tag(words)?;
    let domains = words.list("the domain")?;
    if domains.len() > DESTINATIONS_MAX {
        let column = domains[DESTINATIONS_MAX].column;
        let text = format!("a message goes to at most {DESTINATIONS_MAX} domains");
        return Err(Refusal::new("too-many", column, text));
    }
    for domain in &domains {
        if is_private(&domain.text) {
            crate::name::check_destination(&domain.text)
        } else {
            check_domain(domain, false, "domain")?;
            check_group(&domain.text)
        }
        .map_err(|error| Refusal::new("domain", domain.column, error.to_string()))?;
    }
    Ok((tag, domains))
}

/// What follows the line of a message whose tag or domains are refused: its bytes must not be taken
/// for commands.
fn announced(line: &[u8], mut words: Words<'_>) -> Announcement {
    let is_read = words.next().is_ok_and(|tag| tag.is_some()) && words.list("the domain").is_ok();
    if is_read {
        return match length(&words) {
            Ok(Some((_, Some(length)))) => Announcement::Bytes(length),
            Ok(Some((_, None))) => Announcement::Unknown,
            Ok(None) if line.get(words.rest_at()) == Some(&b'(') => {
                Announcement::List(words.rest_at())
            }
            Ok(None) | Err(_) => Announcement::Nothing,
        };
    }
    // Where its words end cannot be told; a length would be the last.
    let last = line
        .rsplit(|byte| matches!(byte, b' ' | b'\t'))
        .find(|it| !it.is_empty());
    match last.is_some_and(|word| word.iter().all(u8::is_ascii_digit)) {
        true => Announcement::Unknown,
        false => Announcement::Nothing,
    }
}

/// The most words of `[from=ID] [SYNTAX] LENGTH`.
const LENGTH_WORDS: usize = 3;

/// The syntax, if one is named, and the length, unless it is too large to be counted.
pub(super) type Announced = (Option<Syntax>, Option<usize>);

/// `[from=ID] [SYNTAX] LENGTH`, if the rest of the line is that.
pub(super) fn length(words: &Words<'_>) -> Result<Option<Announced>, Refusal> {
    let mut words = words.clone();
    let mut syntax = None;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    // What is no word is no length: it may be a message.
    for _ in 0..LENGTH_WORDS {
        if words.skip(b"from=") {
            let Ok(_) = words.list("the sender") else {
                return Ok(None);
            };
            continue;
        }
        let Ok(Some(word)) = words.next() else {
            return Ok(None);
        };
        if word.quoted {
            return Ok(None);
        }
        if let Some(named) = Syntax::of(&word.text).filter(|_| syntax.is_none()) {
            syntax = Some(named);
            continue;
        }
        let negative = word.text.strip_prefix('-').is_some_and(is_digits);
        if !negative && !is_digits(&word.text) || words.end().is_err() {
            return Ok(None);
        }
        if negative {
            let text = "a length is not negative; a number as text is written in quotes";
            return Err(Refusal::new("length", word.column, text));
        }
        return Ok(Some((syntax, word.text.parse().ok())));
    }
    Ok(None)
}
