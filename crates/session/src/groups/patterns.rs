//! Which of this daemon's clients of the bus a message is for: patterns for tags, domains below a
//! name, and ids.
//!
//! What clients accept is agreed and stands in the rosters; this is the same for the clients of
//! this daemon alone, arranged for the way of a message. A pattern is compiled once, however many
//! clients have it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex_automata::dfa::dense::{self, DFA};
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

use super::roster::Roster;

/// Every tag matches it.
pub(super) const ALL: &str = "*";
/// What a domain begins with that stands for all below the rest.
pub(super) const BELOW: &str = "*.";
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

/// What the clients of this daemon accept.
#[derive(Debug, Default)]
pub(super) struct Filters {
    pub(super) compiled: Patterns,
    /// By group and client: its patterns, with their texts.
    by_group: BTreeMap<Arc<str>, BTreeMap<u64, Filter>>,
    /// By id: the clients that are called so.
    ids: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// How many groups of `by_group` stand for all below a name.
    below: usize,
}

type Filter = BTreeMap<Arc<str>, Arc<Pattern>>;

impl Filters {
    /// Arranges what the roster of this daemon says.
    pub(super) fn install(&mut self, roster: Option<&Roster>) {
        self.by_group.clear();
        self.ids.clear();
        self.below = 0;
        for (number, client) in roster.into_iter().flat_map(|it| &it.clients) {
            let Some(bus) = &client.bus else {
                continue;
            };
            self.identify(*number, None, bus.id.as_ref());
            for (group, patterns) in &bus.patterns {
                for pattern in patterns {
                    self.accept(*number, group, pattern);
                }
            }
        }
    }

    pub(super) fn accept(&mut self, client: u64, group: &Arc<str>, pattern: &str) {
        // It was compiled when the client asked for it.
        let Ok(compiled) = self.compiled.get(pattern) else {
            return;
        };
        let by_client = self.by_group.entry(group.clone()).or_default();
        if by_client.is_empty() && group.starts_with(BELOW) {
            self.below += 1;
        }
        let filter = by_client.entry(client).or_default();
        filter.insert(pattern.into(), compiled);
    }

    pub(super) fn reject(&mut self, client: u64, group: &str, pattern: &str) {
        let by_client = self.by_group.get_mut(group);
        let filter = by_client.and_then(|by_client| by_client.get_mut(&client));
        if let Some(filter) = filter {
            filter.remove(pattern);
            if filter.is_empty() {
                self.leave(client, group);
            }
        }
    }

    pub(super) fn leave(&mut self, client: u64, group: &str) {
        let Some(by_client) = self.by_group.get_mut(group) else {
            return;
        };
        by_client.remove(&client);
        if by_client.is_empty() {
            self.by_group.remove(group);
            self.below -= usize::from(group.starts_with(BELOW));
        }
    }

    /// The client is called `new`, and no more `old`.
    pub(super) fn identify(&mut self, client: u64, old: Option<&Arc<str>>, new: Option<&Arc<str>>) {
        if let Some(old) = old
            && let Some(holders) = self.ids.get_mut(old)
        {
            holders.remove(&client);
            if holders.is_empty() {
                self.ids.remove(old);
            }
        }
        if let Some(new) = new {
            self.ids.entry(new.clone()).or_default().insert(client);
        }
    }

    /// Whether the member `client` of `group` gets a message with this tag: it has no patterns, or
    /// one matches.
    pub(super) fn passes(&self, client: u64, group: &str, tag: &str) -> bool {
        if self.by_group.is_empty() {
            return true;
        }
        let filter = self.by_group.get(group).and_then(|it| it.get(&client));
        filter.is_none_or(|filter| matches(filter, tag))
    }

    /// The clients that get a message to `group` though they are no members of it, each perhaps
    /// more than once.
    ///
    /// `below` remembers, for the groups of one message, who gets it by a name that stands for all
    /// below it: many of them are below the same.
    pub(super) fn beside(
        &self,
        group: &str,
        tag: &str,
        below: &mut BTreeMap<String, Vec<u64>>,
        mut each: impl FnMut(u64),
    ) {
        if self.below > 0 {
            for name in wildcards(group) {
                let by_client = self.by_group.get(&*name);
                let passing = below.entry(name).or_insert_with(|| {
                    let by_client = by_client.into_iter().flatten();
                    let passing = by_client.filter(|(_, filter)| matches(filter, tag));
                    passing.map(|(client, _)| *client).collect()
                });
                passing.iter().copied().for_each(&mut each);
            }
        }
        if let Some(holders) = self.ids.get(group) {
            holders.iter().copied().for_each(each);
        }
    }

    /// Whether somebody could get a message though he is no member of its group.
    pub(super) fn has_others(&self) -> bool {
        self.below > 0 || !self.ids.is_empty()
    }
}

fn matches(filter: &Filter, tag: &str) -> bool {
    filter.values().any(|pattern| pattern.matches(tag))
}

/// The names that stand for all below a name, of those that `group` is below: `*.b.c` and `*.c` for
/// `a.b.c`. A group that is no domain, as one of its levels is empty, is below none.
pub(super) fn wildcards(group: &str) -> impl Iterator<Item = String> {
    let is_domain = group.split('.').all(|level| !level.is_empty());
    let dots = group.match_indices('.').filter(move |_| is_domain);
    dots.map(|(at, _)| format!("*{}", &group[at..]))
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
            assert!(
                !error.is_empty() && !error.contains('\n'),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn a_name_is_below_all_that_it_ends_in() {
        let names: Vec<_> = wildcards("page1.white.cb").collect();
        assert_eq!(names, ["*.white.cb", "*.cb"]);
        assert_eq!(wildcards("cb").count(), 0);
        assert_eq!(wildcards("a..b").count(), 0);
    }

    #[test]
    fn filters_follow_what_is_accepted_and_taken_back() {
        let mut filters = Filters::default();
        let (group, below): (Arc<str>, Arc<str>) = ("a.b".into(), "*.b".into());
        filters.accept(1, &group, "x");
        filters.accept(2, &below, "y|z");
        filters.identify(3, None, Some(&group));
        let beside = |filters: &Filters, tag: &str| {
            let mut clients = Vec::new();
            filters.beside("a.b", tag, &mut BTreeMap::new(), |client| {
                clients.push(client);
            });
            clients
        };
        assert!(filters.passes(1, "a.b", "x") && !filters.passes(1, "a.b", "y"));
        assert!(filters.passes(9, "a.b", "y"), "a member without patterns");
        assert_eq!(beside(&filters, "y"), [2, 3]);
        assert_eq!(beside(&filters, "x"), [3]);
        filters.reject(2, "*.b", "y|z");
        filters.identify(3, Some(&group), None);
        assert!(!filters.has_others() && beside(&filters, "y").is_empty());
        filters.reject(1, "a.b", "x");
        assert!(filters.by_group.is_empty());
    }
}
