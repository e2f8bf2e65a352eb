//! A text to publish: made, not stored, the same every time.

use groupcast_core::Rng;

const WORDS: [&str; 24] = [
    "group",
    "order",
    "token",
    "ring",
    "member",
    "view",
    "message",
    "every",
    "host",
    "the",
    "of",
    "and",
    "a",
    "sends",
    "receives",
    "safe",
    "agreed",
    "before",
    "after",
    "while",
    "näher",
    "größer",
    "\u{2192}",
    "\"quoted\"",
];

/// At least `bytes` bytes of text in lines of many lengths: empty ones, short ones, some longer
/// than a datagram. Every line but the empty ones is unlike any other. Ends with a newline.
pub fn text(bytes: usize, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = String::with_capacity(bytes + 8192);
    let mut number = 0_u64;
    while text.len() < bytes {
        number += 1;
        let words = match rng.below(100) {
            0 => 0,
            1..=69 => 1 + rng.below(16),
            70..=98 => 16 + rng.below(60),
            _ => 300 + rng.below(900),
        };
        if words > 0 {
            text.push_str(&number.to_string());
        }
        for _ in 0..words {
            text.push(' ');
            text.push_str(WORDS[rng.below(WORDS.len() as u64) as usize]);
        }
        text.push('\n');
    }
    text
}

/// The messages that `pub` makes of `text`: one a line, newline stripped.
pub fn messages(text: &str) -> Vec<&[u8]> {
    text.lines().map(str::as_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_long_varied_and_the_same_every_time() {
        let one = text(1_000_000, 7);
        assert!(one.len() >= 1_000_000);
        assert_eq!(one, text(1_000_000, 7));
        assert_ne!(one, text(1_000_000, 8));
        assert!(one.lines().any(str::is_empty));
        assert!(one.lines().any(|line| line.len() > 1500));
        assert_eq!(messages("a\n\nb\n"), [&b"a"[..], b"", b"b"]);
    }
}
