//! Numbers with their nouns, in words.

use std::str::FromStr;

use groupcast_core::settings::units;

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

/// Reads a size from `least` to `most` bytes: a number of bytes, or a number and a unit, as in
/// `64KiB`.
pub(crate) fn size<N: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<N, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = match is_number && !text.is_empty() {
        true => text.parse().unwrap_or(u64::MAX),
        false => units::size(text).map_err(|wrong| format!("{}; {}", wrong.message, wrong.help))?,
    };
    let is_allowed = (least..=most).contains(&bytes);
    let size = N::try_from(bytes).ok().filter(|_| is_allowed);
    size.ok_or_else(|| format!("use {least} to {most} bytes"))
}

/// A number of receivers, in words.
pub(crate) fn receivers(count: usize) -> String {
    number_of(count as u64, "receiver", "receivers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_of_bytes_or_has_a_unit() {
        let read = |text| size::<u32>(text, 64, 65_000);
        let bytes = ["1350", "1kB", "1 KiB", "1.5KiB", "64 B"].map(read);
        assert_eq!(bytes, [1350, 1000, 1024, 1536, 64].map(Ok));
        for text in ["63", "65001", "1 MiB", "99999999999999999999999"] {
            assert_eq!(read(text), Err("use 64 to 65000 bytes".into()), "{text}");
        }
        assert!(
            read("64 kib")
                .unwrap_err()
                .contains("did you mean \"64 KiB\"?")
        );
        for text in ["", "-1", "much", "1e3", "64 furlongs"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(size::<u64>("0", 0, u64::MAX), Ok(0));
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(number_of(1, "entry", "entries"), "1 entry");
        assert_eq!(
            [0, 1, 2].map(receivers),
            ["0 receivers", "1 receiver", "2 receivers"]
        );
    }
}
