//! Text of foreign origin, made safe to print on a terminal.
//!
//! Names, reasons, paths and payloads come from other hosts. Printed as they are, they could move
//! the cursor, clear the screen, or show something else than what they are. Here every character
//! that a reader cannot see becomes an escape.

use alloc::string::String;
use core::fmt::Write as _;

/// `bytes` in one line of text. Characters that are not [visible](is_visible) are escaped as in
/// Rust (`\n`, `\u{1b}`), bytes that are no UTF-8 as `\xff`.
///
/// A backslash stays as it is, so the text cannot be read back: it is for people.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        for letter in part.valid().chars() {
            if is_visible(letter) {
                text.push(letter);
            } else {
                text.extend(letter.escape_default());
            }
        }
        for byte in part.invalid() {
            // Writing into a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Whether a terminal shows `letter` as itself, in its place, and does nothing else.
///
/// It does not for control characters (C0, DEL, C1), for the characters that change the direction
/// of text, and for those that have no width: two names that differ in one of them would look
/// alike. Spaces are visible.
pub fn is_visible(letter: char) -> bool {
    let is_format = matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    !letter.is_control() && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_stays_as_it_is() {
        for text in ["dir/größe", "a b", "日本語", "\\n", "😀", "עברית"] {
            assert_eq!(printable(text.as_bytes()), text);
        }
    }

    #[test]
    fn foreign_text_cannot_play_with_the_terminal() {
        for (bytes, shown) in [
            (&b"a\x1b[2J\n\xff"[..], "a\\u{1b}[2J\\n\\xff"),
            (b"\x07\r\t\x7f", "\\u{7}\\r\\t\\u{7f}"),
            ("c1 \u{9b}2J".as_bytes(), "c1 \\u{9b}2J"),
            ("\u{202e}gnp.exe".as_bytes(), "\\u{202e}gnp.exe"),
            ("a\u{200b}b\u{feff}".as_bytes(), "a\\u{200b}b\\u{feff}"),
            ("line\u{2028}end".as_bytes(), "line\\u{2028}end"),
        ] {
            assert_eq!(printable(bytes), shown);
        }
    }

    #[test]
    fn no_bytes_leave_an_invisible_character() {
        for code in 0..=0x10_ffff_u32 {
            if let Some(letter) = char::from_u32(code) {
                let shown = printable(letter.encode_utf8(&mut [0; 4]).as_bytes());
                assert!(shown.chars().all(is_visible), "{code:x}");
            }
        }
        for byte in 0x80..=0xff {
            assert!(printable(&[byte]).is_ascii());
        }
    }
}
