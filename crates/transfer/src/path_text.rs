//! Paths as people read them: whatever is no text or moves a terminal's cursor is shown as an escape.

use std::fmt::Write as _;

/// `path` in one line of text.
pub fn path_text(path: &[u8]) -> String {
    let mut text = String::new();
    for part in path.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter.is_control() {
                true => text.extend(letter.escape_default()),
                false => text.push(letter),
            }
        }
        for byte in part.invalid() {
            // Writing into a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_play_with_the_terminal() {
        assert_eq!(path_text("dir/größe".as_bytes()), "dir/größe");
        assert_eq!(path_text(b"a\x1b[2J\n\xff"), "a\\u{1b}[2J\\n\\xff");
    }
}
