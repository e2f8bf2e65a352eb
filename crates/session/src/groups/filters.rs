//! Finds the clients of this daemon on the bus that a message is for: by patterns for tags, domains
//! below a name, and ids.
//!
//! The patterns that clients accept are agreed and stand in the rosters. Here are those of this
//! daemon's clients, arranged for speed: to try each pattern on each message would cost more than
//! all other work as soon as there are hundreds of patterns. So a pattern that is a plain tag is
//! looked up, and the result of trying the others is remembered by group and tag, until a client
//! changes its patterns there.
//!
//! Where there are very many patterns, to try them on a new tag takes longer than a turn of the
//! host may: [`Filters::try_some`] does it in parts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::patterns::{ALL, Pattern, Patterns};

/// The beginning of a domain that stands for all domains below the rest of its name.
pub(super) const BELOW: &str = "*.";
/// Up to this many clients and patterns are tried as fast as a remembered result is looked up.
const WORTH_REMEMBERING: usize = 16;
/// The bytes that remembered results may take, about; beyond them all results are forgotten.
const REMEMBERED_MAX: usize = 1 << 20;
/// The bytes of a remembered result beside those of its tag and its clients, about.
const REMEMBERED_EACH: usize = 128;
/// To try a pattern takes as long as looking at this many members of a group,
const TRY: usize = 4;
/// and one more for so many bytes of the tag.
const BYTES_PER_MEMBER: usize = 16;

/// The patterns and ids of this daemon's clients.
#[derive(Debug, Default)]
pub(super) struct Filters {
    pub(super) compiled: Patterns,
    by_group: BTreeMap<Arc<str>, Group>,
    /// By id: the clients that have it.
    ids: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// How many groups of `by_group` begin with [`BELOW`].
    below: usize,
    /// The bytes that the remembered results of all groups take.
    remembered: usize,
    /// A tag of which not all patterns of a group were tried yet.
    trial: Option<Trial>,
    /// How often a pattern was tried.
    #[cfg(test)]
    asked: usize,
}

/// How far patterns were tried on the tag of a message to a group.
#[derive(Debug)]
struct Trial {
    group: Box<str>,
    tag: Box<str>,
    /// Of the group and the domains above it, this many are done.
    done: usize,
    /// Of the next one: the client whose patterns were tried last, if any were, and the clients up
    /// to there that get the message, ascending.
    last: Option<u64>,
    passing: Vec<u64>,
}

impl Trial {
    fn new(group: &str, tag: &str) -> Self {
        Self {
            group: group.into(),
            tag: tag.into(),
            done: 0,
            last: None,
            passing: Vec::new(),
        }
    }

    fn is_of(&self, group: &str, tag: &str) -> bool {
        (&*self.group, &*self.tag) == (group, tag)
    }
}

/// The clients with patterns for one group.
#[derive(Debug, Default)]
struct Group {
    filters: BTreeMap<u64, Filter>,
    /// Remembered results: by tag, the clients of `filters` that get a message with it, ascending.
    passing: BTreeMap<Box<str>, Arc<[u64]>>,
    remembered: usize,
}

impl Group {
    /// Whether the clients that get a message with this tag are found at once.
    fn is_quick(&self, tag: &str) -> bool {
        let are_few = |count: usize| count <= WORTH_REMEMBERING;
        let patterns = self.filters.values().map(|filter| filter.regexes.len());
        are_few(self.filters.len()) && are_few(patterns.sum()) || self.passing.contains_key(tag)
    }

    /// Forgets the remembered results: a client has changed its patterns. `all` is the sum of all
    /// groups.
    fn forget(&mut self, all: &mut usize) {
        self.passing.clear();
        *all -= std::mem::take(&mut self.remembered);
    }
}

/// A client's patterns for a group, by their texts.
#[derive(Debug, Default)]
struct Filter {
    /// Patterns that are a plain tag, and the one for all tags.
    plain: BTreeSet<Arc<str>>,
    regexes: BTreeMap<Arc<str>, Arc<Pattern>>,
}

impl Filter {
    fn insert(&mut self, text: &str, pattern: Arc<Pattern>) {
        if matches!(*pattern, Pattern::Regex(_)) {
            self.regexes.insert(text.into(), pattern);
        } else {
            self.plain.insert(text.into());
        }
    }

    fn remove(&mut self, text: &str) {
        self.plain.remove(text);
        self.regexes.remove(text);
    }

    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.regexes.is_empty()
    }

    /// Whether a message with this tag passes, and how many patterns were tried for that.
    fn matches(&self, tag: &str) -> (bool, usize) {
        if self.plain.contains(ALL) || self.plain.contains(tag) {
            return (true, 0);
        }
        let found = self.regexes.values().position(|it| it.matches(tag));
        (
            found.is_some(),
            found.map_or(self.regexes.len(), |at| at + 1),
        )
    }
}

impl Filters {
    /// Takes over from `fresh`, which has the patterns that this daemon's roster says. Returns what
    /// there was.
    pub(super) fn replace(&mut self, fresh: Self) -> Self {
        let compiled = std::mem::take(&mut self.compiled);
        std::mem::replace(self, Self { compiled, ..fresh })
    }

    /// Lets go of one client's patterns for a group; returns how many, `None` if there are none
    /// left.
    pub(super) fn let_go(&mut self) -> Option<usize> {
        let mut group = self.by_group.first_entry()?;
        let Some((_, filter)) = group.get_mut().filters.pop_first() else {
            group.remove();
            return Some(1);
        };
        Some(1 + filter.plain.len() + filter.regexes.len())
    }

    pub(super) fn accept(&mut self, client: u64, group: &Arc<str>, pattern: &str) {
        // It was compiled when the client asked for it.
        if let Ok(compiled) = self.compiled.get(pattern) {
            self.insert(client, group, pattern, compiled);
        }
    }

    /// The client accepts what matches this pattern.
    pub(super) fn insert(
        &mut self,
        client: u64,
        group: &Arc<str>,
        pattern: &str,
        compiled: Arc<Pattern>,
    ) {
        let found = self.by_group.entry(group.clone()).or_default();
        if found.filters.is_empty() && group.starts_with(BELOW) {
            self.below += 1;
        }
        found.forget(&mut self.remembered);
        let filter = found.filters.entry(client).or_default();
        filter.insert(pattern, compiled);
        self.try_again(client, group);
    }

    pub(super) fn reject(&mut self, client: u64, group: &str, pattern: &str) {
        let Some(found) = self.by_group.get_mut(group) else {
            return;
        };
        found.forget(&mut self.remembered);
        if let Some(filter) = found.filters.get_mut(&client) {
            filter.remove(pattern);
            match filter.is_empty() {
                true => self.leave(client, group),
                false => self.try_again(client, group),
            }
        }
    }

    pub(super) fn leave(&mut self, client: u64, group: &str) {
        let Some(found) = self.by_group.get_mut(group) else {
            return;
        };
        if found.filters.remove(&client).is_none() {
            return;
        }
        found.forget(&mut self.remembered);
        if found.filters.is_empty() {
            self.by_group.remove(group);
            self.below -= usize::from(group.starts_with(BELOW));
        }
        self.try_again(client, group);
    }

    /// The client has changed its patterns for a group: a trial that is past it tries them again,
    /// and no others, so that nobody can keep it from coming to its end. In a group that it is done
    /// with it begins anew: there patterns do not change meanwhile, since they are agreed.
    fn try_again(&mut self, client: u64, group: &str) {
        let Some(trial) = &mut self.trial else {
            return;
        };
        let at = match *trial.group == *group {
            true => Some(0),
            false => wildcards(&trial.group)
                .position(|name| name == group)
                .map(|at| at + 1),
        };
        match at {
            Some(at) if at < trial.done => self.trial = None,
            Some(at) if at == trial.done && trial.last.is_some_and(|last| client <= last) => {
                let found = self.by_group.get(group);
                let filter = found.and_then(|it| it.filters.get(&client));
                let matches = filter.is_some_and(|it| it.matches(&trial.tag).0);
                match trial.passing.binary_search(&client) {
                    Ok(place) if !matches => _ = trial.passing.remove(place),
                    Err(place) if matches => trial.passing.insert(place, client),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The id of the client is `new` now, and was `old`.
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

    /// Tries the patterns for `group`, and for the domains above it, on the tag of a message,
    /// unless the results are found at once. Tells `spend` how many members of a group could be
    /// looked at meanwhile, and stops when that says there is no time for more. Returns whether all
    /// are tried; if not, call it again with the same, before anything else: each call tries the
    /// patterns of a client at least.
    pub(super) fn try_some(
        &mut self,
        group: &str,
        tag: &str,
        mut spend: impl FnMut(usize) -> bool,
    ) -> bool {
        let begun = self.trial.take().filter(|it| it.is_of(group, tag));
        if begun.is_none() && self.is_quick(group, tag) {
            return true;
        }
        let mut trial = begun.unwrap_or_else(|| Trial::new(group, tag));
        let names = std::iter::once(group.to_owned()).chain(wildcards(group));
        for name in names.skip(trial.done) {
            let has_time = self.go_on(&mut trial, &name, &mut spend);
            if !has_time {
                self.trial = Some(trial);
                return false;
            }
        }
        true
    }

    /// Whether the clients that get a message are found at once.
    fn is_quick(&self, group: &str, tag: &str) -> bool {
        let is_quick = |name: &str| {
            let found = self.by_group.get(name);
            found.is_none_or(|found| found.is_quick(tag))
        };
        is_quick(group) && (self.below == 0 || wildcards(group).all(|name| is_quick(&name)))
    }

    /// Goes on with a trial at `name`, the next of its domains. Returns whether there is time for
    /// more: `name` is done then.
    fn go_on(
        &mut self,
        trial: &mut Trial,
        name: &str,
        spend: &mut impl FnMut(usize) -> bool,
    ) -> bool {
        let found = self.by_group.get(name);
        let Some(found) = found.filter(|it| !it.is_quick(&trial.tag)) else {
            *trial = Trial {
                done: trial.done + 1,
                ..Trial::new(&trial.group, &trial.tag)
            };
            return true;
        };
        let from = trial.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut has_time = true;
        let mut left = found.filters.range((from, Bound::Unbounded));
        while has_time && let Some((client, filter)) = left.next() {
            let (matches, count) = filter.matches(&trial.tag);
            trial.last = Some(*client);
            trial.passing.extend(matches.then_some(*client));
            has_time = spend(1 + count * (TRY + trial.tag.len() / BYTES_PER_MEMBER));
        }
        if left.next().is_some() {
            return false;
        }
        let passing = std::mem::take(&mut trial.passing).into();
        trial.last = None;
        trial.done += 1;
        let tag = trial.tag.clone();
        self.remember(name, &tag, &passing);
        has_time
    }

    /// The clients among `members` of `group` (ascending) that get a message with this tag: those
    /// without patterns for the group, and those with a pattern that matches.
    pub(super) fn passes<'a>(
        &mut self,
        members: impl Iterator<Item = &'a u64>,
        group: &str,
        tag: &str,
    ) -> impl Iterator<Item = &'a u64> {
        let passing = self.passing(group, tag);
        let filters = self.by_group.get(group).map(|it| &it.filters);
        members.filter(move |client| {
            let is_asked = filters.is_some_and(|filters| filters.contains_key(client));
            !is_asked || passing.binary_search(client).is_ok()
        })
    }

    /// The clients that get a message to `group` by a domain above it or by their id, each perhaps
    /// more than once.
    pub(super) fn without_membership(&mut self, group: &str, tag: &str) -> Vec<u64> {
        let mut clients = Vec::new();
        if self.below > 0 {
            for name in wildcards(group) {
                clients.extend_from_slice(&self.passing(&name, tag));
            }
        }
        clients.extend(self.ids.get(group).into_iter().flatten());
        clients
    }

    /// Whether any client could get a message without being a member of its group.
    #[cfg(test)]
    fn has_others(&self) -> bool {
        self.below > 0 || !self.ids.is_empty()
    }

    /// The clients with a pattern for `group` that matches, ascending. Looked up, or found at a
    /// cost of one step for each byte of the tag and each regular expression.
    fn passing(&mut self, group: &str, tag: &str) -> Arc<[u64]> {
        let Some(found) = self.by_group.get_mut(group) else {
            return Arc::default();
        };
        if let Some(passing) = found.passing.get(tag) {
            return passing.clone();
        }
        let mut asked = 0;
        let passing = found.filters.iter().filter(|(_, filter)| {
            let (matches, count) = filter.matches(tag);
            asked += count;
            matches
        });
        let passing: Arc<[u64]> = passing.map(|(client, _)| *client).collect();
        #[cfg(test)]
        {
            self.asked += asked;
        }
        if found.filters.len() + asked > WORTH_REMEMBERING {
            self.remember(group, tag, &passing);
        }
        passing
    }

    fn remember(&mut self, group: &str, tag: &str, passing: &Arc<[u64]>) {
        let cost = tag.len() + size_of_val(&**passing) + REMEMBERED_EACH;
        if self.remembered + cost > REMEMBERED_MAX {
            for group in self.by_group.values_mut() {
                group.forget(&mut self.remembered);
            }
        }
        if let Some(found) = self.by_group.get_mut(group) {
            found.passing.insert(tag.into(), passing.clone());
            found.remembered += cost;
            self.remembered += cost;
        }
    }
}

/// The names with [`BELOW`] that cover `group`: `*.b.c` and `*.c` for `a.b.c`. There are none for a
/// group with an empty level, which is no domain.
pub(super) fn wildcards(group: &str) -> impl Iterator<Item = String> {
    let is_domain = group.split('.').all(|level| !level.is_empty());
    let dots = group.match_indices('.').filter(move |_| is_domain);
    dots.map(|(at, _)| format!("*{}", &group[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let passes = |filters: &mut Filters, tag: &str| {
            let members = [1, 9];
            let passing = filters.passes(members.iter(), "a.b", tag);
            passing.copied().collect::<Vec<_>>()
        };
        assert_eq!(passes(&mut filters, "x"), [1, 9]);
        assert_eq!(passes(&mut filters, "y"), [9], "a member without patterns");
        assert_eq!(filters.without_membership("a.b", "y"), [2, 3]);
        assert_eq!(filters.without_membership("a.b", "x"), [3]);
        filters.reject(2, "*.b", "y|z");
        filters.identify(3, Some(&group), None);
        assert!(!filters.has_others() && filters.without_membership("a.b", "y").is_empty());
        filters.reject(1, "a.b", "x");
        assert!(filters.by_group.is_empty());
    }

    /// Which of the clients 0 to 9, all members of the group `g`, get a message.
    fn who(filters: &mut Filters, tag: &str) -> Vec<u64> {
        let members: Vec<u64> = (0..10).collect();
        let passing = filters.passes(members.iter(), "g", tag);
        passing.copied().collect()
    }

    #[test]
    fn a_thousand_patterns_are_asked_once_for_a_tag_until_one_changes() {
        let mut filters = Filters::default();
        let group: Arc<str> = "g".into();
        for number in 0..1_000 {
            filters.accept(number % 5, &group, &format!("t{number}(-.*)?"));
        }
        for _ in 0..100 {
            assert_eq!(who(&mut filters, "t999-x"), [4, 5, 6, 7, 8, 9]);
        }
        assert!(filters.asked <= 1_000, "{}", filters.asked);
        filters.reject(4, "g", "t999(-.*)?");
        assert_eq!(who(&mut filters, "t999-x"), [5, 6, 7, 8, 9]);
        filters.accept(3, &group, "t999-[xy]");
        assert_eq!(who(&mut filters, "t999-x"), [3, 5, 6, 7, 8, 9]);
        filters.leave(3, "g");
        assert_eq!(
            who(&mut filters, "t999-x"),
            [3, 5, 6, 7, 8, 9],
            "no pattern"
        );
        assert!(filters.asked <= 4_000, "{}", filters.asked);
    }

    #[test]
    fn a_pattern_that_is_a_tag_is_found_without_asking_the_others() {
        let mut filters = Filters::default();
        let group: Arc<str> = "g".into();
        for number in 0..1_000 {
            filters.accept(number % 5, &group, &format!("t{number}"));
        }
        filters.accept(6, &group, "t7|t8");
        filters.accept(7, &group, ALL);
        assert_eq!(who(&mut filters, "t7"), [2, 5, 6, 7, 8, 9]);
        assert_eq!(who(&mut filters, "t7|t8"), [5, 7, 8, 9]);
        assert_eq!(filters.asked, 2);
    }

    #[test]
    fn in_parts_the_same_clients_are_found_and_each_part_has_its_time() {
        const PATTERNS: usize = 200;
        let mut filters = Filters::default();
        let groups = ["a.b", "*.b"].map(Arc::<str>::from);
        for client in 0..10 {
            for number in 0..PATTERNS {
                let group = &groups[client as usize % 2];
                filters.accept(client, group, &format!("x*{number}(1|2)"));
            }
        }
        let tags: [&str; 2] = ["xxx71", &"x".repeat(255)];
        let one = |tag: &str| 1 + PATTERNS * (TRY + tag.len() / BYTES_PER_MEMBER);
        let (of_group, of_above) = (vec![0, 2, 4, 6, 8], vec![1, 3, 5, 7, 9]);
        for (tag, matches) in [(tags[0], true), (tags[1], false)] {
            let mut parts = 0;
            loop {
                let mut spent = 0;
                let is_done = filters.try_some("a.b", tag, |work| {
                    spent += work;
                    false
                });
                parts += 1;
                assert!(spent <= one(tag), "{spent} in part {parts}");
                if is_done {
                    break;
                }
                assert!(parts < 100, "it goes on");
            }
            assert!(parts > 10, "{parts} parts");
            let asked = filters.asked;
            let passing = filters.passes(of_group.iter(), "a.b", tag);
            let passing: Vec<u64> = passing.copied().collect();
            let above = filters.without_membership("a.b", tag);
            match matches {
                true => assert_eq!((&passing, &above), (&of_group, &of_above)),
                false => assert!(passing.is_empty() && above.is_empty()),
            }
            assert_eq!(filters.asked, asked, "no pattern is tried again");
        }
        // What changes between two parts counts.
        assert!(!filters.try_some("a.b", "xx8", |_| false));
        filters.accept(0, &groups[0], "x+8");
        while !filters.try_some("a.b", "xx8", |_| false) {}
        assert_eq!(filters.passes(of_group.iter(), "a.b", "xx8").count(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_with_its_group() {
        let mut filters = Filters::default();
        let group: Arc<str> = "g".into();
        for number in 0..WORTH_REMEMBERING {
            filters.accept(1, &group, &format!("x{number}.*"));
        }
        for number in 0..30_000 {
            assert_eq!(who(&mut filters, &format!("t{number}")).len(), 9);
            assert!(filters.remembered <= REMEMBERED_MAX);
        }
        let found = &filters.by_group["g"];
        assert_eq!(found.remembered, filters.remembered);
        assert!(found.passing.len() > 1_000);
        filters.leave(1, "g");
        assert_eq!(filters.remembered, 0);
    }
}
