//! Import of a network from an edge list: one link a line, two names, and what differs from the
//! link that is given.
//!
//! ```text
//! # A B [BANDWIDTH] [DELAY]
//! ithaca  berlin   10 Mb/s  40 ms
//! ithaca  boston            3.5ms
//! berlin  roma
//! ```
//!
//! A name is anything without blanks. Vertices are numbered as they first come up and keep their
//! names. A bandwidth is in `b/s`, `kb/s`, `Mb/s` or `Gb/s`, or `unlimited`; a delay in `ns`, `us`,
//! `ms`, `s` or `min`; a blank before the unit may be left out. Several links may join the same two
//! vertices. `#` begins a comment.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use super::generate::{EDGES_MAX, VERTICES_MAX};
use super::{Kind, Topology, Vertex};
use crate::link::LinkSpec;

/// The network of an edge list; `link` is what the lines leave unsaid. It need not be
/// [connected](Topology::is_connected).
///
/// # Errors
/// The first line that makes no sense, or that there is no link at all.
pub fn parse(text: &str, link: LinkSpec) -> Result<Topology, EdgeListError> {
    let mut list = EdgeList::default();
    for (index, line) in text.lines().enumerate() {
        list.take(line, link)
            .map_err(|(word, fault)| EdgeListError {
                line: index + 1,
                column: column(line, word),
                fault,
            })?;
    }
    if list.links.is_empty() {
        return Err(EdgeListError {
            line: text.lines().count().max(1),
            column: 1,
            fault: Fault::Empty,
        });
    }
    Ok(list.build())
}

/// An error of an edge list: the line, the character, and what is wrong there.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}, column {column}: {fault}")]
pub struct EdgeListError {
    /// Which line, from 1.
    pub line: usize,
    /// At which character of it, from 1.
    pub column: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// One name only.
    #[error("a link needs two vertices: write `{0} OTHER`")]
    OneVertex(String),
    /// Twice the same name.
    #[error("`{0}` is linked to itself; name two different vertices")]
    Loop(String),
    /// Neither a bandwidth nor a delay.
    #[error("`{0}` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`")]
    NotAQuantity(String),
    /// A bandwidth behind the delay, or one of them twice.
    #[error("`{0}` is one too many: after the vertices comes one bandwidth, then one delay")]
    Surplus(String),
    /// A number without a unit.
    #[error("`{0}` has no unit: write a bandwidth like `{0} Mb/s` or a delay like `{0} ms`")]
    NoUnit(String),
    /// A bandwidth below one bit a second, or a number above 2^53 (of bits a second or
    /// nanoseconds).
    #[error(
        "`{0}` is out of range: a bandwidth is at least 1 b/s or `unlimited`, a delay at most 104 days"
    )]
    OutOfRange(String),
    /// More vertices than there may be.
    #[error("there are more than {VERTICES_MAX} vertices")]
    TooManyVertices,
    /// More links than there may be.
    #[error("there are more than {EDGES_MAX} links")]
    TooManyEdges,
    /// No link at all.
    #[error("there is no link in it; a line is `A B [BANDWIDTH] [DELAY]`")]
    Empty,
}

/// A fault, and the word where it is.
type Wrong<'a> = (&'a str, Fault);

/// The network that the lines so far describe.
#[derive(Default)]
struct EdgeList<'a> {
    names: Vec<&'a str>,
    numbers: BTreeMap<&'a str, usize>,
    links: Vec<(usize, usize, LinkSpec)>,
}

impl<'a> EdgeList<'a> {
    fn take(&mut self, line: &'a str, link: LinkSpec) -> Result<(), Wrong<'a>> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(a) = words.next() else {
            return Ok(());
        };
        let Some(b) = words.next() else {
            return Err((a, Fault::OneVertex(a.to_owned())));
        };
        if a == b {
            return Err((b, Fault::Loop(b.to_owned())));
        }
        let link = quantities(words, link)?;
        let (from, to) = (self.vertex(a)?, self.vertex(b)?);
        if self.links.len() as u64 == EDGES_MAX {
            return Err((a, Fault::TooManyEdges));
        }
        self.links.push((from, to, link));
        Ok(())
    }

    fn vertex(&mut self, name: &'a str) -> Result<usize, Wrong<'a>> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if self.names.len() as u64 == VERTICES_MAX {
            return Err((name, Fault::TooManyVertices));
        }
        self.names.push(name);
        self.numbers.insert(name, self.names.len() - 1);
        Ok(self.names.len() - 1)
    }

    fn build(self) -> Topology {
        let mut topology = Topology::new();
        topology.add_many(Kind::Plain, self.names.len() as u32);
        topology.name_all(self.names);
        for (from, to, link) in self.links {
            topology.connect(Vertex(from as u32), Vertex(to as u32), link);
        }
        topology
    }
}

/// `link` with the bandwidth and the delay that `words` name.
fn quantities<'a>(
    words: impl Iterator<Item = &'a str>,
    link: LinkSpec,
) -> Result<LinkSpec, Wrong<'a>> {
    let mut words = words.peekable();
    let (mut bandwidth, mut delay) = (None, None);
    while let Some(word) = words.next() {
        let bare = word.ends_with(|last: char| last.is_ascii_digit());
        let said = match words.next_if(|next| bare && is_unit(next)) {
            Some(unit) => format!("{word} {unit}"),
            None => word.to_owned(),
        };
        match quantity(&said).map_err(|fault| (word, fault))? {
            Quantity::Bandwidth(bits) if bandwidth.or(delay).is_none() => bandwidth = Some(bits),
            Quantity::Delay(nanos) if delay.is_none() => delay = Some(nanos),
            _ => return Err((word, Fault::Surplus(said))),
        }
    }
    Ok(LinkSpec {
        bandwidth: bandwidth.unwrap_or(link.bandwidth),
        delay: delay.map_or(link.delay, Duration::from_nanos),
        ..link
    })
}

enum Quantity {
    /// Bits a second; 0 is unlimited.
    Bandwidth(u64),
    /// Nanoseconds.
    Delay(u64),
}

/// Units of bandwidth, in bits a second.
const BANDWIDTHS: [(&str, f64); 4] = [("b/s", 1.0), ("kb/s", 1e3), ("Mb/s", 1e6), ("Gb/s", 1e9)];

/// Units of delay, in nanoseconds.
const DELAYS: [(&str, f64); 5] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
];

/// The most bits a second or nanoseconds: what a number with a fraction holds exactly.
const VALUE_MAX: f64 = (1u64 << 53) as f64;

fn is_unit(word: &str) -> bool {
    let mut names = BANDWIDTHS.iter().chain(&DELAYS);
    names.any(|(name, _)| *name == word)
}

/// What a number and its unit mean, written with or without a blank between them.
fn quantity(said: &str) -> Result<Quantity, Fault> {
    if said == "unlimited" {
        return Ok(Quantity::Bandwidth(0));
    }
    let neither = || Fault::NotAQuantity(said.to_owned());
    let digits = said.find(|it: char| !it.is_ascii_digit() && it != '.');
    let (number, unit) = said.split_at(digits.unwrap_or(said.len()));
    let (number, unit) = (number.parse::<f64>().map_err(|_| neither())?, unit.trim());
    if unit.is_empty() {
        return Err(Fault::NoUnit(said.to_owned()));
    }
    let value = |units: &[(&str, f64)]| {
        let known = units.iter().find(|(name, _)| *name == unit);
        known.map(|(_, scale)| (number * scale).round())
    };
    match (value(&BANDWIDTHS), value(&DELAYS)) {
        (Some(bits), _) if (1.0..=VALUE_MAX).contains(&bits) => {
            Ok(Quantity::Bandwidth(bits as u64))
        }
        (_, Some(nanos)) if nanos <= VALUE_MAX => Ok(Quantity::Delay(nanos as u64)),
        (None, None) => Err(neither()),
        _ => Err(Fault::OutOfRange(said.to_owned())),
    }
}

/// At which character of `line` its part `word` begins, from 1.
fn column(line: &str, word: &str) -> usize {
    let offset = (word.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.get(..offset)
        .map_or(1, |before| before.chars().count() + 1)
}
