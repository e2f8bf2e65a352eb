//! The words of a line of the bus, and how one is written (`docs/bus.md`, "Lines").

use std::fmt::Write as _;

/// How a message is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Syntax {
    Sexp,
    Cstream,
    Raw,
}

impl Syntax {
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "sexp" => Some(Self::Sexp),
            "cstream" => Some(Self::Cstream),
            "raw" => Some(Self::Raw),
            _ => None,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sexp => "sexp",
            Self::Cstream => "cstream",
            Self::Raw => "raw",
        }
    }
}

/// A word of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// `from=` stood before it, in a place where it names a sender.
    pub(crate) sender: bool,
}

/// The words of a reply, a command or a view: all that stands between blanks. Of `KEY="VALUE"` the
/// quotes are taken off as well.
pub(crate) fn read(line: &str) -> Option<Vec<String>> {
    let mut rest = start(line);
    let mut words = Vec::new();
    while !rest.is_empty() {
        let value = rest.find(['=', '"', ' ', '\t']).map_or(0, |at| at + 1);
        let key = match rest[..value].ends_with('=') && rest[value..].starts_with('"') {
            true => &rest[..value],
            false => "",
        };
        let (word, behind) = first(&rest[key.len()..])?;
        words.push(format!("{key}{word}"));
        rest = behind;
    }
    Some(words)
}

/// The first word of a line, and the rest behind blanks.
pub(crate) fn first(line: &str) -> Option<(String, &str)> {
    let (first, rest) = word(start(line), false)?;
    is_end(rest).then(|| (first, start(rest)))
}

/// The words of the line of a delivery, each as the row of words between its commas: only the
/// second, the domains, may be a row, and only from the third on may `from=` stand before one.
pub(crate) fn read_head(line: &str) -> Option<Vec<Vec<Word>>> {
    let mut rest = start(line);
    let mut words = Vec::new();
    while !rest.is_empty() {
        let sender = match words.len() {
            0 | 1 => None,
            _ => rest.strip_prefix("from="),
        };
        let mut row = Vec::new();
        rest = sender.unwrap_or(rest);
        loop {
            let (text, behind) = word(rest, words.len() == 1)?;
            let sender = sender.is_some();
            row.push(Word { text, sender });
            rest = behind;
            match rest.strip_prefix(',') {
                Some(behind) if words.len() == 1 => rest = behind,
                _ => break,
            }
        }
        if !is_end(rest) {
            return None;
        }
        words.push(row);
        rest = start(rest);
    }
    Some(words)
}

/// What begins behind blanks, without the end of the line.
fn start(text: &str) -> &str {
    text.trim_end_matches('\r').trim_start_matches([' ', '\t'])
}

/// Whether a word ends before `rest`.
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t'])
}

/// The word at the beginning of `text`, and what follows it.
fn word(text: &str, in_row: bool) -> Option<(String, &str)> {
    let Some(inner) = text.strip_prefix('"') else {
        let ends = |letter| matches!(letter, ' ' | '\t') || in_row && letter == ',';
        let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
        return (!word.is_empty() && !word.contains('"')).then(|| (word.to_owned(), rest));
    };
    let mut bytes = Vec::new();
    let mut rest = inner.as_bytes();
    loop {
        let (first, behind) = rest.split_first()?;
        rest = behind;
        match first {
            b'"' => break,
            b'\\' => {
                let (escape, behind) = rest.split_first()?;
                rest = behind;
                bytes.push(match escape {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'x' => {
                        let (digits, behind) = rest.split_first_chunk::<2>()?;
                        rest = behind;
                        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
                        (high? * 16 + low?) as u8
                    }
                    b'"' | b'\\' => *escape,
                    _ => return None,
                });
            }
            byte => bytes.push(*byte),
        }
    }
    let rest = &inner[inner.len() - rest.len()..];
    Some((String::from_utf8(bytes).ok()?, rest))
}

/// A word in quotes, whatever is in it: nothing of it can end the line or the word.
pub(crate) fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            letter if letter.is_control() => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            }
            letter => text.push(letter),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_read_again() {
        for text in [
            "",
            "a b",
            "a,b",
            "\"\\",
            "line\nline\u{0}",
            "\u{fc}\u{85}",
            "from=x",
        ] {
            let line = format!("x {} {0}", quoted(text));
            let words = read_head(&line).expect("it is well-formed");
            assert_eq!(words[1].len(), 1);
            assert_eq!((&*words[1][0].text, &*words[2][0].text), (text, text));
            assert_eq!(
                read(&line),
                Some(vec!["x".into(), text.into(), text.into()])
            );
        }
    }

    #[test]
    fn a_word_of_a_reply_is_whole_whatever_it_begins_with_or_holds() {
        let line = " c1@h1 a,b from=x from=\t\"from= y\"\r";
        let words = ["c1@h1", "a,b", "from=x", "from=", "from= y"];
        assert_eq!(read(line).as_deref(), Some(&words.map(str::to_owned)[..]));
        let words = read("id=\"a b\" from=on x==y").expect("they are well-formed");
        assert_eq!(words, ["id=a b", "from=on", "x==y"]);
        assert_eq!(
            first("\"a b\" rest \"of"),
            Some(("a b".to_owned(), "rest \"of"))
        );
        assert_eq!(first("\"a\"b"), None);
    }

    #[test]
    fn what_is_no_line_of_words_is_refused() {
        for wrong in ["\"a", "\"a\"b", "a\"b", "\"\\q\"", "\"\\x0\"", "\"\\x+f\""] {
            assert_eq!((read(wrong), read_head(wrong)), (None, None), "{wrong}");
        }
        for wrong in ["x a,,b", "x a,"] {
            assert_eq!(read_head(wrong), None, "{wrong}");
        }
    }
}
