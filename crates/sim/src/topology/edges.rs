//! Import of a network from an edge list: one link a line, two names, and what differs from the link that is given.
//!
//! ```text
//! # A B [BANDWIDTH] [DELAY]
//! ithaca  berlin   10 Mb/s  40 ms
//! ithaca  boston            3.5ms
//! berlin  roma
//! ```
//!
//! A name is anything without blanks. Vertices are numbered as they first come up and keep their names. A bandwidth
//! is in `b/s`, `kb/s`, `Mb/s` or `Gb/s`, or `unlimited`; a delay in `ns`, `us`, `ms`, `s` or `min`; a blank before the
//! unit may be left out. Several links may join the same two vertices. `#` begins a comment.

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

/// A line of an edge list that makes no sense.
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
    /// Neither a bandwidth nor a delay, or in the wrong order, or twice.
    #[error("`{0}` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`")]
    NotAQuantity(String),
    /// A bandwidth behind a delay, or one of them twice.
    #[error("`{0}` is one too many: after the vertices comes one bandwidth, then one delay")]
    Surplus(String),
    /// A number without a unit.
    #[error("`{0}` has no unit: write a bandwidth like `{0} Mb/s` or a delay like `{0} ms`")]
    NoUnit(String),
    /// A bandwidth below one bit a second, or a number that is too large.
    #[error("`{0}` is out of range")]
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

/// What the lines so far say.
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
    mut link: LinkSpec,
) -> Result<LinkSpec, Wrong<'a>> {
    let mut words = words.peekable();
    let (mut bandwidth_said, mut delay_said) = (false, false);
    while let Some(word) = words.next() {
        let bare = word.ends_with(|last: char| last.is_ascii_digit());
        let unit = words.next_if(|next| bare && is_unit(next));
        let said = unit.map_or_else(|| word.to_owned(), |unit| format!("{word} {unit}"));
        match quantity(word, unit).map_err(|fault| (word, fault(said.clone())))? {
            Quantity::Bandwidth(_) if bandwidth_said || delay_said => {
                return Err((word, Fault::Surplus(said)));
            }
            Quantity::Delay(_) if delay_said => return Err((word, Fault::Surplus(said))),
            Quantity::Bandwidth(bandwidth) => {
                (link.bandwidth, bandwidth_said) = (bandwidth, true);
            }
            Quantity::Delay(delay) => (link.delay, delay_said) = (delay, true),
        }
    }
    Ok(link)
}

enum Quantity {
    /// Bits a second; 0 is unlimited.
    Bandwidth(u64),
    Delay(Duration),
}

/// The unit in bits a second or in nanoseconds, and whether it is the former.
const UNITS: [(&str, f64, bool); 9] = [
    ("b/s", 1.0, true),
    ("kb/s", 1e3, true),
    ("Mb/s", 1e6, true),
    ("Gb/s", 1e9, true),
    ("ns", 1.0, false),
    ("us", 1e3, false),
    ("ms", 1e6, false),
    ("s", 1e9, false),
    ("min", 60e9, false),
];

fn is_unit(word: &str) -> bool {
    UNITS.iter().any(|(name, ..)| *name == word)
}

/// What a word says, with the unit behind it if that stands apart.
fn quantity(word: &str, unit: Option<&str>) -> Result<Quantity, fn(String) -> Fault> {
    if word == "unlimited" {
        return Ok(Quantity::Bandwidth(0));
    }
    let digits = word
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(word.len());
    let (number, attached) = word.split_at(digits);
    let number: f64 = number
        .parse()
        .map_err(|_| Fault::NotAQuantity as fn(_) -> _)?;
    let unit = unit.unwrap_or(attached);
    if unit.is_empty() {
        return Err(Fault::NoUnit);
    }
    let (_, scale, bandwidth) = UNITS
        .into_iter()
        .find(|(name, ..)| *name == unit)
        .ok_or(Fault::NotAQuantity as fn(_) -> _)?;
    let value = (number * scale).round();
    // Beyond 2^53 nothing of it would be exact; that is 104 days.
    match value {
        _ if value > (1u64 << 53) as f64 => Err(Fault::OutOfRange),
        _ if !bandwidth => Ok(Quantity::Delay(Duration::from_nanos(value as u64))),
        _ if value < 1.0 => Err(Fault::OutOfRange),
        _ => Ok(Quantity::Bandwidth(value as u64)),
    }
}

/// At which character of `line` its part `word` begins, from 1.
fn column(line: &str, word: &str) -> usize {
    let offset = (word.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.get(..offset)
        .map_or(1, |before| before.chars().count() + 1)
}
