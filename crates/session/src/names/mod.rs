//! Names of groups as a forest, and which ring carries which part of it (000 ch. 8).
//! `docs/names.md` is the specification.
//!
//! [`DomainName`] is a name of levels with dots between, the root rightmost. A [`NameService`]
//! knows the rings that joins have made, which the paper keeps across all name servers, and makes
//! rings; [`Implicit`] is ours.

mod configured;
mod implicit;
mod service;

use std::fmt;
use std::str::FromStr;

pub use self::configured::{ConfiguredRings, RingDifference};
pub use self::implicit::{Implicit, QUESTIONS_MAX};
pub use self::service::{
    InUse, NameEvent, NameService, Pool, RINGS_MADE_MAX, Refusal, RingAddress,
};
use crate::name::{NameError, check_group, is_private};

/// The name of a group or of the top of a ring: levels with dots between, the root rightmost, as in
/// `wb.cb.uiuc`.
///
/// Ordered so that all names below a name follow it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName {
    /// The levels from the root on, each behind a dot.
    path: String,
}

/// Why a text is no [`DomainName`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// It is no name of a group.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A level is empty: nothing stands before, between or behind dots.
    #[error(
        "the name {name:?} has an empty level in column {column}: between two dots stands a level"
    )]
    EmptyLevel {
        /// The name.
        name: String,
        /// The column of the empty level, in characters from 1.
        column: usize,
    },
}

/// A rule of names that is broken on purpose, to prove that the swarm sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A ring is made at once, without asking the others.
    NobodyAsked,
    /// A ring is made above groups that have members elsewhere.
    Fragments,
    /// A ring stays when its last site has removed itself.
    RingStays,
    /// Of two rings of one name, each daemon keeps its own.
    OwnStands,
    /// A new ring may take the address of another one.
    AddressTwice,
    /// After a change of the configuration, rings stay whose sites have all gone.
    TableStays,
    /// Clients stay where they are when another ring carries their group.
    NobodyMoves,
    /// The first answer settles a question, without waiting for the others.
    FirstAnswers,
    /// A daemon that adds itself to a ring is a site of it in its own table alone.
    NotAdded,
    /// After a change of the configuration a daemon forgets the rings that it alone is a site of.
    OwnForgotten,
}

impl Planted {
    /// All planted bugs.
    pub const ALL: [Self; 10] = [
        Self::NobodyAsked,
        Self::Fragments,
        Self::RingStays,
        Self::OwnStands,
        Self::AddressTwice,
        Self::TableStays,
        Self::NobodyMoves,
        Self::FirstAnswers,
        Self::NotAdded,
        Self::OwnForgotten,
    ];
}

impl DomainName {
    /// Whether `other` is this name or below it: `cb.uiuc` covers `wb.cb.uiuc`.
    pub fn covers(&self, other: &Self) -> bool {
        other.path.starts_with(&self.path)
    }

    /// The name without its leftmost level; `None` if it has one level.
    pub fn parent(&self) -> Option<Self> {
        let path = &self.path[..self.path.len() - 1];
        let at = path.rfind('.')?;
        Some(Self {
            path: path[..=at].to_owned(),
        })
    }
}

impl FromStr for DomainName {
    type Err = DomainError;

    fn from_str(name: &str) -> Result<Self, DomainError> {
        check_group(name)?;
        let mut column = 1;
        for level in name.split('.') {
            if level.is_empty() {
                let name = name.to_owned();
                return Err(DomainError::EmptyLevel { name, column });
            }
            column += level.chars().count() + 1;
        }
        // A dot behind each level, so that no level begins another.
        let mut path = String::with_capacity(name.len() + 1);
        for level in name.rsplit('.') {
            path.push_str(level);
            path.push('.');
        }
        Ok(Self { path })
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.path[..self.path.len() - 1].rsplit('.');
        for (index, level) in levels.enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            f.write_str(level)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The index of the top that carries the group `name`: of those in `tops` that cover it, the
/// lowest. `None` for private names.
pub fn lowest_top<T: AsRef<str>>(tops: &[T], name: &str) -> Option<usize> {
    if tops.is_empty() || is_private(name) {
        return None;
    }
    let all = tops.iter().enumerate();
    let covering = all.filter(|(_, top)| is_at_or_below(name, top.as_ref()));
    let lowest = covering.max_by_key(|(_, top)| top.as_ref().len());
    lowest.map(|(index, _)| index)
}

/// Whether a name is `top` or below it. Levels are compared, not letters.
pub(crate) fn is_at_or_below(name: &str, top: &str) -> bool {
    let above = name.strip_suffix(top);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_written_with_its_root_rightmost() {
        let name: DomainName = "wb.cb.uiuc".parse().unwrap();
        assert_eq!(name.to_string(), "wb.cb.uiuc");
        let parent = name.parent().unwrap();
        assert_eq!(parent, "cb.uiuc".parse().unwrap());
        assert!(parent.covers(&name) && parent.covers(&parent) && !name.covers(&parent));
        let other: DomainName = "xcb.uiuc".parse().unwrap();
        assert!(!parent.covers(&other), "levels are compared, not letters");
        assert_eq!("uiuc".parse::<DomainName>().unwrap().parent(), None);
    }

    #[test]
    fn an_empty_level_is_refused_with_its_column() {
        for (name, at) in [(".a", 1), ("a.", 3), ("ä..b", 3), ("a.b..c", 5)] {
            let Err(DomainError::EmptyLevel { column, .. }) = name.parse::<DomainName>() else {
                panic!("{name} is read");
            };
            assert_eq!(column, at, "{name}");
        }
        let long = vec!["level"; 43].join(".");
        let error = long.parse::<DomainName>().unwrap_err().to_string();
        assert!(error.contains("at most 255"), "{error}");
    }
}
