//! Numbers with their nouns, in words.

use std::str::FromStr;

/// A number with its noun: `1 reply`, `2 replies`.
pub(crate) fn number_of(count: u64, one: &str, more: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {more}"),
    }
}

/// Reads a number that must be at least 1.
pub(crate) fn above_0<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "not a whole number above 0".to_owned())
}

/// A number of receivers, in words.
pub(crate) fn receivers(count: usize) -> String {
    number_of(count as u64, "receiver", "receivers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(number_of(1, "entry", "entries"), "1 entry");
        assert_eq!(
            [0, 1, 2].map(receivers),
            ["0 receivers", "1 receiver", "2 receivers"]
        );
    }
}
