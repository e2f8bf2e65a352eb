//! Patterns for tags of the bus. A pattern is compiled once, however many clients have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex_automata::dfa::dense::{self, DFA};
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

/// The pattern that every tag matches.
pub(super) const ALL: &str = "*";
/// The memory that a compiled pattern may take. It is a table with one row for each state, so that
/// a tag costs one step for each byte, whatever the pattern is.
const COMPILED_MAX: usize = 32 << 10;
/// The memory that the parts of one may take, from which its table is made, and the memory that
/// making it may take. Together they bound the time: a millisecond or so, where the sets of
/// parts that go with each state are large.
const PARTS_MAX: usize = 16 << 10;
const COMPILING_MAX: usize = 64 << 10;
/// Classes of Unicode that one may name: to look one up takes longer than all else.
const CLASSES_MAX: usize = 4;
/// The memory that all compiled patterns may take.
const MEMORY_MAX: usize = 64 << 20;
/// As long as they take no more, those that nobody here has are kept: others ask about them.
const UNUSED_MAX: usize = 16 << 20;
/// What keeping one takes beside its text and its table.
const KEPT_EACH: usize = 256;

/// A pattern for tags.
#[derive(Debug)]
pub(super) enum Pattern {
    All,
    /// Exactly this tag.
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
        let classes = text.matches("\\p").count() + text.matches("\\P").count();
        if classes > CLASSES_MAX {
            let text = format!("it names more than {CLASSES_MAX} classes of Unicode (`\\p`)");
            return Err(text);
        }
        let table = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(Some(COMPILED_MAX))
            .determinize_size_limit(Some(COMPILING_MAX));
        let parts = thompson::Config::new().nfa_size_limit(Some(PARTS_MAX));
        let mut builder = dense::Builder::new();
        match builder.configure(table).thompson(parts).build(text) {
            Ok(table) => Ok(Self::Regex(Box::new(table))),
            Err(error) if is_too_large(&error) => Err(too_large()),
            Err(error) => Err(reason(&error)),
        }
    }

    /// What its table takes.
    fn table(&self) -> usize {
        match self {
            Self::All | Self::Exactly(_) => 0,
            Self::Regex(table) => table.memory_usage(),
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

/// Whether a character has a special meaning in a regular expression.
fn is_special(character: char) -> bool {
    "\\.+*?()|[]{}^$".contains(character)
}

/// Whether the whole `tag` matches; one step for each byte.
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

/// Whether the expression is valid, but takes too much memory.
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
    // This text is for those who compile expressions, and not for those who write them.
    if text.contains("Unicode word boundaries") {
        return r"word boundaries need all of Unicode: write `(?-u:\b)` for `\b`, and alike".into();
    }
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

/// How many patterns a question may still have tried, and how many of those compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedRoom {
    pub(super) tried: usize,
    pub(super) compiled: usize,
}

/// Compiled patterns, by their text.
#[derive(Debug)]
pub(super) struct Patterns {
    known: BTreeMap<Arc<str>, Arc<Pattern>>,
    /// What they take, about.
    memory: usize,
    /// When they take more, those that nobody here has go.
    sweep_at: usize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            memory: 0,
            sweep_at: UNUSED_MAX,
        }
    }
}

impl Patterns {
    /// The compiled pattern of `text`, which is kept if there is room.
    ///
    /// # Errors
    /// Why it is none, for people.
    pub(super) fn get(&mut self, text: &str) -> Result<Arc<Pattern>, String> {
        if let Some(pattern) = self.known.get(text) {
            return Ok(pattern.clone());
        }
        let pattern = Arc::new(Pattern::new(text)?);
        let takes = takes(text, &pattern);
        if self.memory + takes > self.sweep_at {
            self.sweep();
        }
        if self.memory + takes <= MEMORY_MAX {
            self.memory += takes;
            self.known.insert(text.into(), pattern.clone());
        }
        Ok(pattern)
    }

    /// Compiles the pattern of `text`, which a client here wants to have; false if there is no room
    /// for one more.
    ///
    /// # Errors
    /// Why it is none, for people.
    pub(super) fn admit(&mut self, text: &str) -> Result<bool, String> {
        self.get(text)?;
        Ok(self.known.contains_key(text))
    }

    /// Whether to get it is work that a turn has room for once: it is not known.
    pub(super) fn is_work(&self, text: &str) -> bool {
        !self.known.contains_key(text) && text != ALL && text.contains(is_special)
    }

    /// Whether one of `texts` matches `tag`. A text that another daemon took for a pattern, and
    /// that is none here, matches nothing. `None` if there is no room for that: more of them than
    /// there may be are tried, or are not known; of the latter as many as may be are known then.
    pub(super) fn any_matches<'a>(
        &mut self,
        texts: impl IntoIterator<Item = &'a Arc<str>>,
        tag: &str,
        room: &mut AskedRoom,
    ) -> Option<bool> {
        for text in texts {
            room.tried = room.tried.checked_sub(1)?;
            if self.is_work(text) {
                room.compiled = room.compiled.checked_sub(1)?;
            }
            if self.get(text).is_ok_and(|pattern| pattern.matches(tag)) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Lets those go that nobody here has.
    fn sweep(&mut self) {
        let memory = &mut self.memory;
        self.known.retain(|text, pattern| {
            let is_used = Arc::strong_count(pattern) > 1;
            if !is_used {
                *memory -= takes(text, pattern);
            }
            is_used
        });
        // So that it is worth the work the next time, too.
        self.sweep_at = (2 * self.memory).clamp(UNUSED_MAX, MEMORY_MAX);
    }
}

/// What keeping a pattern takes, about.
fn takes(text: &str, pattern: &Pattern) -> usize {
    KEPT_EACH + 2 * text.len() + pattern.table()
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
        let boundary = Pattern::new(r"\bdraw\b").unwrap_err();
        assert!(boundary.contains(r"`(?-u:\b)` for `\b`"), "{boundary}");
        for wrong in [
            "(",
            "a)|(b",
            "[z-a]",
            r"\w{1000}",
            "(?:a{100}){100}{100}",
            "[ab]*a[ab]{120}q",
            // To compile these took 30 ms and more.
            "(a|b|c|d|e|f|g|h|){200}",
            "(a*b*c*){100}",
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
    #[test]
    fn classes_of_unicode_are_few() {
        assert!(Pattern::new(r"\p{Greek}\p{Greek}").is_ok());
        let many = Pattern::new(&r"(?i)\pL".repeat(5)).unwrap_err();
        assert!(many.contains("more than 4 classes"), "{many}");
    }

    /// A pattern whose table is large, and another for each number.
    fn large(number: usize) -> String {
        format!("{number}.{{0,18}}")
    }

    #[test]
    fn what_nobody_has_goes_and_what_somebody_has_is_bounded() {
        let mut patterns = Patterns::default();
        for number in 0..2_000 {
            assert_eq!(patterns.admit(&large(number)), Ok(true));
            assert!(patterns.memory <= UNUSED_MAX, "{}", patterns.memory);
        }
        let mut had = Vec::new();
        let refused = (0..10_000).find(|number| {
            let text = large(10_000 + number);
            let has_room = patterns.admit(&text).unwrap();
            had.extend(has_room.then(|| patterns.get(&text).unwrap()));
            !has_room
        });
        let table = patterns.known.values().map(|it| it.table()).max();
        let most = MEMORY_MAX / table.unwrap();
        assert!((most / 2..=most).contains(&refused.unwrap()), "{refused:?}");
        assert!(patterns.memory <= MEMORY_MAX);
        had.truncate(100);
        assert_eq!(patterns.admit(&large(1)), Ok(true), "there is room again");
        assert!(patterns.known.len() <= 101 && patterns.memory < UNUSED_MAX);
    }

    #[test]
    fn asking_compiles_so_many_at_a_time() {
        let mut patterns = Patterns::default();
        let texts: Vec<Arc<str>> = (0..10).map(|it| format!("{it}.*").into()).collect();
        let mut ask = |tag, tried, compiled| {
            let mut room = AskedRoom { tried, compiled };
            patterns.any_matches(&texts, tag, &mut room)
        };
        assert_eq!(ask("9x", 10, 4), None);
        assert_eq!(ask("9x", 10, 6), Some(true));
        assert_eq!(ask("x", 10, 0), Some(false));
        assert_eq!(ask("x", 9, 0), None);
    }
}
