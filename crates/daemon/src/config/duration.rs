//! Durations as they are written in a configuration file: a number and a unit, `"150 ms"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration in text: a whole number followed by `us`, `ms` or `s`, with or without a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

/// The text is no duration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not a duration: write a whole number and us, ms or s, for example \"150 ms\"")]
pub struct NoDuration {
    text: String,
}

impl FromStr for Span {
    type Err = NoDuration;

    fn from_str(text: &str) -> Result<Self, NoDuration> {
        let wrong = || NoDuration { text: text.into() };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let micros = match unit.trim_start() {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            _ => return Err(wrong()),
        };
        number
            .checked_mul(micros)
            .map(|micros| Self(Duration::from_micros(micros)))
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match (micros % 1_000_000, micros % 1_000) {
            (0, _) => write!(f, "{} s", micros / 1_000_000),
            (_, 0) => write!(f, "{} ms", micros / 1_000),
            _ => write!(f, "{micros} us"),
        }
    }
}

impl TryFrom<String> for Span {
    type Error = NoDuration;

    fn try_from(text: String) -> Result<Self, NoDuration> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit() {
        for (text, micros, again) in [
            ("150 ms", 150_000, "150 ms"),
            ("150ms", 150_000, "150 ms"),
            ("2 s", 2_000_000, "2 s"),
            ("50us", 50, "50 us"),
            ("1500 ms", 1_500_000, "1500 ms"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_micros(micros));
            assert_eq!(span.to_string(), again);
        }
        for text in [
            "",
            "150",
            "ms",
            "-1 ms",
            "1.5 s",
            "1 h",
            "99999999999999999999 s",
            "18446744073709551615 s",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
