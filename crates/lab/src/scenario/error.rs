//! What can be wrong with a scenario, each with the place where it is written and what to do about
//! it.
//!
//! Rendering (colours, the line with a marker under it) is the command line's.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A text that values were read from: the file, or a value laid over it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// What it is called: the file's path, or the option.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Where in such a text an error is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorSpan {
    /// The text.
    pub source: Arc<Source>,
    /// The bytes of it that are wrong; empty if only the text is known.
    pub span: Range<usize>,
}

impl ErrorSpan {
    /// The line of its beginning, from 1.
    pub fn line(&self) -> usize {
        1 + self.before().bytes().filter(|byte| *byte == b'\n').count()
    }

    /// The column of its beginning in characters, from 1.
    pub fn column(&self) -> usize {
        let before = self.before();
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        1 + before[line..].chars().count()
    }

    fn before(&self) -> &str {
        let text = &self.source.text;
        text.get(..self.span.start).unwrap_or(text)
    }
}

impl fmt::Display for ErrorSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = (self.line(), self.column());
        write!(f, "{}:{line}:{column}", self.source.name)
    }
}

/// Why a scenario cannot be run. Nothing was run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// Why.
        error: io::Error,
        /// Where the scenario names it, if it is not the scenario itself.
        place: Option<ErrorSpan>,
    },
    /// The text is not TOML.
    #[error("{message}")]
    Syntax {
        /// What is wrong.
        message: String,
        /// Where.
        place: ErrorSpan,
    },
    /// A key or value makes no sense.
    #[error("{}{message}", .key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    Value {
        /// The key, dotted; none for what concerns the scenario as a whole.
        key: Option<String>,
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
        /// Where.
        place: ErrorSpan,
    },
}

impl ScenarioError {
    /// What the user can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } => {
                "name a text file that this user can read; paths in a scenario are relative to it"
                    .into()
            }
            Self::Syntax { .. } => "a scenario is TOML: docs/scenarios.md describes it".into(),
            Self::Value { help, .. } => help.clone(),
        }
    }

    /// Where it is written.
    pub fn place(&self) -> Option<&ErrorSpan> {
        match self {
            Self::Unreadable { place, .. } => place.as_ref(),
            Self::Syntax { place, .. } | Self::Value { place, .. } => Some(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_column_of_characters() {
        let source = Arc::new(Source {
            name: "s.toml".into(),
            text: "a = 1\n# ü\n[b]\nö = 2".into(),
        });
        let at = |part: &str| {
            let start = source.text.find(part).unwrap();
            let span = start..start + part.len();
            let source = source.clone();
            ErrorSpan { source, span }.to_string()
        };
        assert_eq!(at("a = 1"), "s.toml:1:1");
        assert_eq!(at("ö"), "s.toml:4:1");
        assert_eq!(at("2"), "s.toml:4:5");
    }
}
