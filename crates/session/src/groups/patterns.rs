//! Patterns for tags of the bus, compiled: once, however many clients have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex_automata::dfa::dense::{self, DFA};
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

/// Every tag matches it.
pub(super) const ALL: &str = "*";
/// The memory that a compiled pattern may take. It is a table with a row a state, so that a tag
/// costs a step a byte, whatever the pattern is.
const COMPILED_MAX: usize = 32 << 10;
/// The memory that compiling one may take.
const COMPILING_MAX: usize = 256 << 10;
/// Compiled patterns that are kept though nobody has them now.
const KEPT_MAX: usize = 1_024;

/// A pattern for tags.
#[derive(Debug)]
pub(super) enum Pattern {
    All,
    /// This tag and no other.
    Exactly(Box<str>),
    Regex(Box<DFA<Vec<u32>>>),
}

impl Pattern {
    /// # Errors
    /// Why it is none, for people.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text == ALL {
            return Ok(Self::All);
        }
        if !text.contains(is_special) {
            return Ok(Self::Exactly(text.into()));
        }
        let table = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(Some(COMPILED_MAX))
            .determinize_size_limit(Some(COMPILING_MAX));
        let parts = thompson::Config::new().nfa_size_limit(Some(COMPILING_MAX));
        let mut builder = dense::Builder::new();
        match builder.configure(table).thompson(parts).build(text) {
            Ok(table) => Ok(Self::Regex(Box::new(table))),
            Err(error) if is_too_large(&error) => Err(too_large()),
            Err(error) => Err(reason(&error)),
        }
    }

    pub(super) fn matches(&self, tag: &str) -> bool {
        match self {
            Self::All => true,
            Self::Exactly(text) => **text == *tag,
            Self::Regex(table) => matches_whole(table, tag),
        }
    }
}

/// Whether a character means something else than itself in a regular expression.
fn is_special(character: char) -> bool {
    "\\.+*?()|[]{}^$".contains(character)
}

/// Whether all of `tag` matches, a step a byte.
fn matches_whole(table: &DFA<Vec<u32>>, tag: &str) -> bool {
    let begin = start::Config::new().anchored(Anchored::Yes);
    let Ok(mut state) = table.start_state(&begin) else {
        return false;
    };
    for byte in tag.bytes() {
        state = table.next_state(state, byte);
        if table.is_dead_state(state) {
            return false;
        }
    }
    table.is_match_state(table.next_eoi_state(state))
}

/// Whether the expression is one, and takes more memory than it may.
fn is_too_large(error: &dense::BuildError) -> bool {
    let parts = std::error::Error::source(error);
    let parts = parts.and_then(|it| it.downcast_ref::<thompson::BuildError>());
    error.is_size_limit_exceeded() || parts.is_some_and(|it| it.size_limit().is_some())
}

fn too_large() -> String {
    let kibibytes = COMPILED_MAX >> 10;
    format!(
        "compiled it takes more than {kibibytes} KiB; smaller counts help, and `\\w`, `\\d` and `\\s` \
         are all of Unicode: write `[0-9A-Za-z_]`, `[0-9]` or ` `"
    )
}

/// The innermost reason, in one line.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

/// Compiled patterns, by their text.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<Arc<str>, Arc<Pattern>>);

impl Patterns {
    /// The compiled pattern of `text`.
    ///
    /// # Errors
    /// Why it is none, for people.
    pub(super) fn get(&mut self, text: &str) -> Result<Arc<Pattern>, String> {
        if let Some(pattern) = self.0.get(text) {
            return Ok(pattern.clone());
        }
        let pattern = Arc::new(Pattern::new(text)?);
        if self.0.len() >= KEPT_MAX {
            self.0.retain(|_, pattern| Arc::strong_count(pattern) > 1);
        }
        self.0.insert(text.into(), pattern.clone());
        Ok(pattern)
    }

    /// Whether one of `texts` matches `tag`. A text that is no pattern here, which another daemon
    /// took, matches nothing.
    pub(super) fn any_matches<'a>(
        &mut self,
        texts: impl IntoIterator<Item = &'a Arc<str>>,
        tag: &str,
    ) -> bool {
        let mut texts = texts.into_iter();
        texts.any(|text| self.get(text).is_ok_and(|pattern| pattern.matches(tag)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_tags() {
        for (pattern, tag, matches) in [
            ("*", "", true),
            ("draw", "draw", true),
            ("draw", "drawn", false),
            ("a|b", "b", true),
            ("a|b", "ab", false),
            ("dr.*", "draw", true),
            ("", "", true),
            ("", "x", false),
            (r"\d+", "12", true),
            (r"\d+", "12a", false),
            ("a|ab", "ab", true),
            ("a*?", "aa", true),
            ("^a$", "a", true),
            ("dr[aä]w", "dräw", true),
            ("a b", "a b", true),
        ] {
            let compiled = Pattern::new(pattern).unwrap();
            assert_eq!(compiled.matches(tag), matches, "{pattern} {tag}");
        }
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_refused() {
        for wrong in [
            "(",
            "a)|(b",
            "[z-a]",
            r"\w{1000}",
            "(?:a{100}){100}{100}",
            "[ab]*a[ab]{120}q",
        ] {
            let error = Pattern::new(wrong).unwrap_err();
            let counts = wrong.contains("00}") || wrong.contains("120}");
            assert_eq!(counts, error.contains("32 KiB"), "{wrong}: {error}");
            assert!(
                !error.is_empty() && !error.contains('\n'),
                "{wrong}: {error}"
            );
        }
    }
}
