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

/// At least `bytes` bytes of text in lines of 1 byte to 1 MiB, as many short ones as long ones: the
/// logarithm of the length is uniform. Ends with a newline, and has the longest line once at least.
pub fn text_of_all_sizes(bytes: usize, seed: u64) -> String {
    const LONGEST: u32 = 20;
    let mut rng = Rng::new(seed);
    let mut text = String::with_capacity(bytes + (2 << LONGEST));
    let mut line = |text: &mut String, len: usize| {
        for _ in 0..len {
            text.push(char::from(b'0' + rng.below(75) as u8));
        }
        text.push('\n');
    };
    line(&mut text, 1 << LONGEST);
    let mut lengths = Rng::new(seed).fork("lengths");
    while text.len() < bytes {
        let power = lengths.below(u64::from(LONGEST));
        let len = (1 << power) + lengths.below(1 << power);
        line(&mut text, len as usize);
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
        let sizes = text_of_all_sizes(3_000_000, 7);
        let lengths: Vec<usize> = sizes.lines().map(str::len).collect();
        assert_eq!(lengths.iter().max(), Some(&(1 << 20)));
        assert!(lengths.iter().filter(|len| **len < 100).count() > 5);
        assert_eq!(messages("a\n\nb\n"), [&b"a"[..], b"", b"b"]);
    }
}
