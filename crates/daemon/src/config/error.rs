//! Errors of a configuration, each with the place in the file, if the value came from one.
//!
//! The command line renders them (colours, the line with a marker under it).

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A configuration file as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path that it was read from.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// A place in a configuration file.
#[derive(Clone, Debug)]
pub struct FilePlace {
    /// The file.
    pub source: Arc<Source>,
    /// The range of the wrong bytes; empty if only the file is known.
    pub span: Range<usize>,
}

impl FilePlace {
    /// The line of the place, from 1.
    pub fn line(&self) -> usize {
        let start = self.span.start.min(self.source.text.len());
        1 + self.source.text.as_bytes()[..start]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.path.display(), self.line())
    }
}

/// Why there is no configuration. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", .path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not TOML, or holds an unknown key or a value of the wrong kind.
    #[error("{message}")]
    Syntax {
        /// What is wrong.
        message: String,
        /// The place of the mistake in the file.
        place: FilePlace,
    },
    /// A value is outside what it may be, or contradicts another.
    #[error("{key}: {message}")]
    Value {
        /// The key, dotted; an option of the command line is called the same with `-` for `_`.
        key: String,
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
        /// The place, if the value came from a file.
        place: Option<FilePlace>,
    },
    /// The configuration has neither `key` nor `insecure`.
    #[error("a daemon without a key refuses to start")]
    NoKey,
}

impl DaemonConfigError {
    /// An error that only the part that `key` configures can find.
    pub(crate) fn unchecked(key: &str, error: &dyn fmt::Display) -> Self {
        Self::Value {
            key: key.to_owned(),
            message: error.to_string(),
            help: "docs/configuration.md says what the keys do and their defaults".into(),
            place: None,
        }
    }

    /// What the user can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } => "name a file that this user can read with -c FILE".into(),
            Self::Syntax { .. } => "docs/configuration.md lists every key".into(),
            Self::Value { help, .. } => help.clone(),
            Self::NoKey => "make a key with `groupcast keygen FILE`, copy it to every host and start with \
                            `--key FILE`; to run without authentication and encryption, say so: `--insecure`"
                .into(),
        }
    }

    /// The place in the file, if the value came from one.
    pub fn place(&self) -> Option<&FilePlace> {
        match self {
            Self::Unreadable { .. } | Self::NoKey => None,
            Self::Syntax { place, .. } => Some(place),
            Self::Value { place, .. } => place.as_ref(),
        }
    }
}
