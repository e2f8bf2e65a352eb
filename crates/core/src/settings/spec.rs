//! What a setting may be: its kind, unit and range.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::suggest::alternatives;

/// The value of a setting.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A count, bytes, or bits a second.
    Integer(u64),
    /// A length of time.
    Time(Duration),
    /// Yes or no.
    Flag(bool),
    /// One of the words that the setting knows.
    Word(&'static str),
}

/// What values a setting takes. Bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// So many of something.
    Count {
        /// Of what, in the plural; empty: a bare number.
        unit: &'static str,
        /// The least value that is allowed.
        least: u64,
        /// At most; `u32::MAX`: no bound but what fits.
        most: u64,
    },
    /// A number of bytes.
    Size {
        /// The least value that is allowed.
        least: u64,
        /// At most; `u64::MAX`: no bound.
        most: u64,
    },
    /// A length of time.
    Time {
        /// The least value that is allowed.
        least: Duration,
        /// At most; `Duration::MAX`: no bound.
        most: Duration,
    },
    /// Bits a second.
    Bandwidth {
        /// The least value that is allowed.
        least: u64,
    },
    /// Yes or no.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or a value of another kind.
    WordOr(&'static [&'static str], &'static Kind),
}

/// All that is known of what a setting may be.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// What values it takes.
    pub kind: Kind,
    /// What must hold beside the range, in words: "at most a quarter of token_loss_min"; empty:
    /// nothing.
    pub rule: &'static str,
    /// What holds where it is left open, in words; empty: it never is.
    pub unset: &'static str,
    /// Whether it is there for experiments, so that a daemon's configuration does not have it.
    pub is_experimental: bool,
}

impl Spec {
    /// A count of `unit`, from `least` to `most`; `u32::MAX`: no bound but what fits.
    pub const fn count(unit: &'static str, least: u32, most: u32) -> Self {
        Self::of(Kind::Count {
            unit,
            least: least as u64,
            most: most as u64,
        })
    }

    /// Bytes, from `least` to `most`; `u64::MAX`: no bound.
    pub const fn size(least: u64, most: u64) -> Self {
        Self::of(Kind::Size { least, most })
    }

    /// Any duration.
    pub const fn time() -> Self {
        Self::time_from(Duration::ZERO)
    }

    /// A duration of at least `least`.
    pub const fn time_from(least: Duration) -> Self {
        Self::of(Kind::Time {
            least,
            most: Duration::MAX,
        })
    }

    /// A duration above 0.
    pub const fn interval() -> Self {
        Self::time_from(Duration::from_nanos(1))
    }

    /// Yes or no.
    pub const fn flag() -> Self {
        Self::of(Kind::Flag)
    }

    /// One of `words`.
    pub const fn word(words: &'static [&'static str]) -> Self {
        Self::of(Kind::Word(words))
    }

    /// A value of `kind`, with no rule beside its range.
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            rule: "",
            unset: "",
            is_experimental: false,
        }
    }

    /// The same, with a rule beside the range, which the configuration's own check knows.
    pub const fn rule(mut self, rule: &'static str) -> Self {
        self.rule = rule;
        self
    }

    /// The same, and what holds where it is left open.
    pub const fn unset(mut self, unset: &'static str) -> Self {
        self.unset = unset;
        self
    }

    /// The same, but for experiments: a daemon's configuration does not have it.
    pub const fn experimental(mut self) -> Self {
        self.is_experimental = true;
        self
    }

    /// A value of it as a file would have it, or in words where it is left open.
    pub(super) fn shown(&self, value: Option<Value>) -> String {
        match value {
            Some(value) => format!("`{}`", self.kind.toml(value)),
            None => String::from(self.unset),
        }
    }

    /// What it may be, in words, for documents.
    pub fn describe(&self) -> String {
        match (self.kind.describe(), self.rule) {
            (kind, "") => kind,
            (kind, rule) => format!("{kind}; {rule}"),
        }
    }
}

impl Kind {
    /// Whether `value` is of this kind and range.
    pub fn allows(&self, value: Value) -> bool {
        match (self, value) {
            (Self::Count { least, most, .. } | Self::Size { least, most }, Value::Integer(it)) => {
                (*least..=*most).contains(&it)
            }
            (Self::Bandwidth { least }, Value::Integer(it)) => it >= *least,
            (Self::Time { least, most }, Value::Time(it)) => (*least..=*most).contains(&it),
            (Self::Flag, Value::Flag(_)) => true,
            (Self::Word(words) | Self::WordOr(words, _), Value::Word(it)) => words.contains(&it),
            (Self::WordOr(_, other), value) => other.allows(value),
            _ => false,
        }
    }

    /// The range, for "use …".
    pub fn range(&self) -> String {
        let between = |least: String, most: Option<String>| match most {
            Some(most) => format!("{least} to {most}"),
            None => format!("{least} or more"),
        };
        match self {
            Self::Count { least, most, .. } => {
                let most = (*most < u64::from(u32::MAX)).then(|| most.to_string());
                between(least.to_string(), most)
            }
            Self::Size { least, most } => match *most < i64::MAX as u64 {
                true => format!("{least} to {most} bytes"),
                false => format!("{least} bytes or more"),
            },
            Self::Bandwidth { least } => between(format!("{least} b/s"), None),
            Self::Time { least, .. } if *least == Duration::from_nanos(1) => {
                String::from("a duration above 0")
            }
            Self::Time { least, most } => {
                let bound = (*most < Duration::MAX).then(|| Span(*most).to_string());
                between(Span(*least).to_string(), bound)
            }
            Self::Flag => String::from("`true` or `false`"),
            Self::Word(words) => alternatives(words),
            Self::WordOr(words, other) => format!("{} or {}", alternatives(words), other.range()),
        }
    }

    /// What it may be, in words.
    fn describe(&self) -> String {
        match self {
            Self::Count { unit: "", .. } => self.range(),
            Self::Count { unit, .. } => format!("{} {unit}", self.range()),
            Self::Size { least: 0, most } if *most >= i64::MAX as u64 => String::from("bytes"),
            Self::Time { least, most } if least.is_zero() && *most == Duration::MAX => {
                String::from("duration such as `\"150 ms\"`")
            }
            Self::Bandwidth { .. } => String::from("bandwidth such as `\"10 Mb/s\"`"),
            Self::Word(words) => quoted(words),
            Self::WordOr(words, other) => {
                let words = words.iter().map(|word| format!("`\"{word}\"`"));
                let words: Vec<String> = words.collect();
                format!("{} or a {}", words.join(", "), other.describe())
            }
            _ => self.range(),
        }
    }

    /// `value` as TOML has it.
    pub fn toml(&self, value: Value) -> String {
        match value {
            Value::Integer(_) | Value::Flag(_) if !self.takes_bandwidth() => self.text(value),
            _ => format!("\"{}\"", self.text(value)),
        }
    }

    /// `value` in words.
    pub fn text(&self, value: Value) -> String {
        match value {
            Value::Integer(bits) if self.takes_bandwidth() => format!("{bits} b/s"),
            Value::Integer(number) => number.to_string(),
            Value::Time(time) => Span(time).to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Word(word) => String::from(word),
        }
    }

    fn takes_bandwidth(&self) -> bool {
        match self {
            Self::Bandwidth { .. } => true,
            Self::WordOr(_, other) => other.takes_bandwidth(),
            _ => false,
        }
    }
}

/// `` `"a"`, `"b"` or `"c"` ``
fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    alternatives(&words)
}

/// A duration in the largest unit that makes it a whole number: `150 ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        let unit = units.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
        let (name, unit) = unit.copied().unwrap_or(("ns", 1));
        write!(f, "{} {name}", nanos / unit)
    }
}
