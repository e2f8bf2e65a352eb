//! How wide words are, where lines break, and how they stand in SVG.
//!
//! Whoever shows an SVG picks the font, so widths are those of a wide one (DejaVu Sans): text may
//! end early, not late.

use std::borrow::Cow;

/// The width of `text` at a font size of one.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(advance).sum()
}

fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' | '\u{a0}' | '!' | 'I' => 0.32,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '·' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' | '→' | '≤' | '≥' | '≈' | '=' | '×' => {
            0.95
        }
        c if c.is_ascii_uppercase() => 0.70,
        c if c.is_ascii_graphic() => 0.63,
        _ => 0.66,
    }
}

/// Breaks `text` into lines no wider than `limit` at a font size of one; a longer word stands
/// alone.
pub(super) fn wrap(text: &str, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(" ") + width(word) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text` as it stands between tags.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(['&', '<', '>']) {
        let text = text.replace('&', "&amp;");
        return Cow::Owned(text.replace('<', "&lt;").replace('>', "&gt;"));
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_lose_none() {
        let text = "accelerated ahead of original on both axes at once";
        let lines = wrap(text, 10.0);
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| width(line) <= 10.0));
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap("unbreakable", 1.0), ["unbreakable"]);
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("a < b & c"), "a &lt; b &amp; c");
    }
}
