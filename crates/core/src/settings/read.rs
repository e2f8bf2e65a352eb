//! From what a file has to the value of a setting: kinds, units and words are checked, and the
//! range.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::time::Duration;

use super::suggest::did_you_mean;
use super::{Kind, Value, units};

/// What is written in a file, of whatever format.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Written<'a> {
    /// A string.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Flag(bool),
    /// What no setting takes, by what to call it: "a list".
    Other(&'static str),
}

/// What is written is not what it should be: what is wrong, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Written<'_> {
    /// What to call it in a message.
    pub fn describe(self) -> String {
        match self {
            Self::Text(text) => format!("the string `{text}`"),
            Self::Integer(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number}"),
            Self::Flag(flag) => flag.to_string(),
            Self::Other(what) => String::from(what),
        }
    }

    /// The error that says that something else belongs here.
    pub fn mistyped<T>(self, wanted: &str, example: &str) -> Result<T, Wrong> {
        Err(Wrong {
            message: format!("{} where {wanted} belongs", self.describe()),
            help: format!("for example {example}"),
        })
    }
}

/// A whole number from 0.
pub fn number(written: Written<'_>) -> Result<u64, Wrong> {
    match written {
        Written::Integer(number) => u64::try_from(number).map_err(|_| Wrong {
            message: format!("{number} is below 0"),
            help: String::from("use 0 or more"),
        }),
        _ => written.mistyped("a whole number", "8"),
    }
}

/// A length of time, from a text with a unit.
pub fn duration(written: Written<'_>) -> Result<Duration, Wrong> {
    match written {
        Written::Text(text) => units::duration(text),
        Written::Integer(number) => written.mistyped("a duration", &format!("\"{number} ms\"")),
        _ => written.mistyped("a duration", "\"10 ms\""),
    }
}

/// Bits a second.
pub fn bandwidth(written: Written<'_>) -> Result<u64, Wrong> {
    match written {
        Written::Text(text) => units::bandwidth(text),
        _ => written.mistyped("a bandwidth", "\"100 Mb/s\""),
    }
}

/// A number of bytes, from a number or a text with a unit.
pub fn size(written: Written<'_>) -> Result<u64, Wrong> {
    match written {
        Written::Text(text) => units::size(text),
        Written::Integer(_) => number(written),
        _ => written.mistyped("a size", "1350 or \"64 KiB\""),
    }
}

/// Yes or no.
pub fn flag(written: Written<'_>) -> Result<bool, Wrong> {
    match written {
        Written::Flag(flag) => Ok(flag),
        _ => written.mistyped("`true` or `false`", "true"),
    }
}

/// One of `words`.
pub fn word<'w>(written: Written<'_>, words: &[&'w str]) -> Result<&'w str, Wrong> {
    let Written::Text(text) = written else {
        let first = words.first().copied().unwrap_or_default();
        return written.mistyped("a word", &format!("\"{first}\""));
    };
    let known = words.iter().find(|word| **word == text);
    known.copied().ok_or_else(|| Wrong {
        message: format!("there is no `{text}`"),
        help: did_you_mean(text, words),
    })
}

impl Kind {
    /// The value that is written, if it is of this kind and range.
    pub fn read(&self, written: Written<'_>) -> Result<Value, Wrong> {
        let value = match self {
            Self::Count { .. } => Value::Integer(number(written)?),
            Self::Size { .. } => Value::Integer(size(written)?),
            Self::Time { .. } => Value::Time(duration(written)?),
            Self::Bandwidth { .. } => Value::Integer(bandwidth(written)?),
            Self::Flag => Value::Flag(flag(written)?),
            Self::Word(words) => Value::Word(word(written, words)?),
            Self::WordOr(words, other) => match word(written, words) {
                Ok(word) => Value::Word(word),
                Err(no_word) => other.read(written).map_err(|wrong| match written {
                    Written::Text(text) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
                        let or = if no_word.help.ends_with('?') {
                            " Or"
                        } else {
                            ", or"
                        };
                        Wrong {
                            help: format!("{}{or} write {}", no_word.help, other.example()),
                            ..no_word
                        }
                    }
                    _ => wrong,
                })?,
            },
        };
        if self.allows(value) {
            return Ok(value);
        }
        Err(Wrong {
            message: format!("{} is out of range", self.text(value)),
            help: format!("use {}", self.range()),
        })
    }

    fn example(&self) -> &'static str {
        match self {
            Self::Time { .. } => "a duration such as \"50 us\"",
            Self::Bandwidth { .. } => "a bandwidth such as \"100 Mb/s\"",
            _ => "a number",
        }
    }
}
