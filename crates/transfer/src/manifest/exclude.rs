//! Patterns of what is left out of a transfer.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of entries that are left out.
///
/// `*` and `?` stand for characters of one name, `**` for any number of directories, `[a-z]` and
/// `[!a-z]` for one character, `{a,b}` for either; `\` takes the next character as it is. A pattern
/// without `/` matches a name, wherever it is; a pattern with `/` matches a whole path as receivers
/// see it, from its first name on. A pattern that ends in `/` leaves out directories only. With a
/// directory everything below is left out.
#[derive(Clone, Default, Debug)]
pub struct Exclude {
    names: GlobSet,
    paths: GlobSet,
    directory_names: GlobSet,
    directory_paths: GlobSet,
}

/// A pattern that is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the pattern `{pattern}` is not understood: {problem}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Exclude {
    /// Leaves out the entries that any of `patterns` matches.
    ///
    /// # Errors
    /// With the first pattern that is not understood.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        let mut sets: [GlobSetBuilder; 4] = [(); 4].map(|()| GlobSetBuilder::new());
        for pattern in patterns {
            let failed = |problem: String| PatternError {
                pattern: pattern.into(),
                problem,
            };
            let rest = pattern.strip_suffix('/').unwrap_or(pattern);
            let is_path = rest.contains('/');
            let text = rest.strip_prefix('/').unwrap_or(rest);
            if text.is_empty() {
                return Err(failed("it names nothing".into()));
            }
            let glob = GlobBuilder::new(text)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| failed(error.kind().to_string()))?;
            let directories = usize::from(rest.len() < pattern.len());
            sets[2 * directories + usize::from(is_path)].add(glob);
        }
        let build = |set: &GlobSetBuilder| {
            set.build().map_err(|error| PatternError {
                pattern: error.glob().unwrap_or_default().into(),
                problem: error.kind().to_string(),
            })
        };
        let [names, paths, directory_names, directory_paths] = &sets;
        Ok(Self {
            names: build(names)?,
            paths: build(paths)?,
            directory_names: build(directory_names)?,
            directory_paths: build(directory_paths)?,
        })
    }

    /// Whether the entry at `path` is left out. Does not look at the directories above it.
    pub(crate) fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        let whole = std::ffi::OsStr::from_bytes(path);
        let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let name = std::ffi::OsStr::from_bytes(last);
        let directory =
            || self.directory_names.is_match(name) || self.directory_paths.is_match(whole);
        self.names.is_match(name) || self.paths.is_match(whole) || (is_directory && directory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_anywhere_paths_from_the_top_and_a_slash_at_the_end_directories_only() {
        for (pattern, path, is_directory, expected) in [
            ("*.o", "t/a/b.o", false, true),
            ("*.o", "t/b.o/c", false, false),
            ("t/*.o", "t/b.o", false, true),
            ("t/*.o", "t/a/b.o", false, false),
            ("/t", "t", true, true),
            ("/t", "a/t", true, false),
            ("t/**/b.o", "t/a/c/b.o", false, true),
            ("**/b.o", "t/b.o", false, true),
            ("cache/", "t/cache", true, true),
            ("cache/", "t/cache", false, false),
            ("t/cache/", "t/cache", true, true),
            ("{a,b}?", "t/b1", false, true),
            ("[!a]x", "t/ax", false, false),
            ("\\*", "t/*", false, true),
            ("\\*", "t/a", false, false),
            ("é*", "t/é\u{301}", false, true),
        ] {
            let exclude = Exclude::new([pattern]).unwrap();
            let found = exclude.matches(path.as_bytes(), is_directory);
            assert_eq!(found, expected, "{pattern} {path}");
        }
        assert!(
            Exclude::new(["a", "*"])
                .unwrap()
                .matches(b"\xff\xfe", false)
        );
        assert!(!Exclude::default().matches(b"a", true));
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        for pattern in ["[a", "{a", "/", ""] {
            let error = Exclude::new(["*.o", pattern]).unwrap_err();
            assert_eq!(error.pattern, pattern);
        }
    }
}
