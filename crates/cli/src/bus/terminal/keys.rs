//! Reads keys from the bytes that a terminal sends.

/// A key, or the editor's command that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Up,
    Down,
    KillToEnd,
    KillLine,
    KillWord,
    Clear,
    Interrupt,
    EndOfInput,
    Suspend,
}

/// The most bytes of a control sequence; no key has more.
const SEQUENCE_MAX: usize = 16;

/// A reader of keys, which may have read a part of one.
#[derive(Default, Debug)]
pub(super) struct Keys {
    part: Part,
    /// Whether the bytes come between the marks that terminals put around pasted text: these are no
    /// commands to the editor.
    pasting: bool,
    /// Whether the last pasted byte is a carriage return.
    after_return: bool,
}

/// The part of a key that has been read.
#[derive(Default, Debug)]
enum Part {
    #[default]
    Nothing,
    Character(Vec<u8>),
    Escape,
    Sequence(Vec<u8>),
    /// After `ESC O`.
    Single,
}

impl Keys {
    /// Takes a byte; returns a key if the byte completes one.
    pub(super) fn take(&mut self, byte: u8) -> Option<Key> {
        match std::mem::take(&mut self.part) {
            Part::Nothing => self.begin(byte),
            Part::Character(bytes) => self.character(bytes, byte),
            Part::Escape => {
                match byte {
                    b'[' => self.part = Part::Sequence(Vec::new()),
                    b'O' => self.part = Part::Single,
                    b'b' => return Some(Key::WordLeft),
                    b'f' => return Some(Key::WordRight),
                    // The key Escape means nothing; the byte after it begins a key.
                    _ => return self.begin(byte),
                }
                None
            }
            Part::Single => arrow(byte, false),
            Part::Sequence(mut bytes) => {
                if matches!(byte, 0x40..=0x7e) {
                    return self.sequence(&bytes, byte);
                }
                if bytes.len() < SEQUENCE_MAX {
                    bytes.push(byte);
                }
                self.part = Part::Sequence(bytes);
                None
            }
        }
    }

    fn begin(&mut self, byte: u8) -> Option<Key> {
        let after_return = std::mem::replace(&mut self.after_return, false);
        if self.pasting {
            return match byte {
                b'\n' if after_return => None,
                b'\r' => {
                    self.after_return = true;
                    Some(Key::Enter)
                }
                b'\n' => Some(Key::Enter),
                b'\t' => Some(Key::Char('\t')),
                0x1b => {
                    self.part = Part::Escape;
                    None
                }
                0x00..=0x1f | 0x7f => None,
                _ => self.character(Vec::new(), byte),
            };
        }
        let key = match byte {
            b'\r' | b'\n' => Key::Enter,
            b'\t' => Key::Tab,
            0x08 | 0x7f => Key::Backspace,
            0x01 => Key::Home,
            0x02 => Key::Left,
            0x03 => Key::Interrupt,
            0x04 => Key::EndOfInput,
            0x05 => Key::End,
            0x06 => Key::Right,
            0x0b => Key::KillToEnd,
            0x0c => Key::Clear,
            0x0e => Key::Down,
            0x10 => Key::Up,
            0x15 => Key::KillLine,
            0x17 => Key::KillWord,
            0x1a => Key::Suspend,
            0x1b => {
                self.part = Part::Escape;
                return None;
            }
            0x00..=0x1f => return None,
            _ => return self.character(Vec::new(), byte),
        };
        Some(key)
    }

    /// Takes a byte of a character. Bytes that are no UTF-8 are lost.
    fn character(&mut self, mut bytes: Vec<u8>, byte: u8) -> Option<Key> {
        let continues = byte & 0xc0 == 0x80;
        if !bytes.is_empty() && !continues {
            return self.begin(byte);
        }
        bytes.push(byte);
        match std::str::from_utf8(&bytes) {
            Ok(text) => text.chars().next().map(Key::Char),
            Err(error) => {
                if error.error_len().is_none() {
                    self.part = Part::Character(bytes);
                }
                None
            }
        }
    }

    /// The key of the control sequence `ESC [ bytes last`.
    fn sequence(&mut self, bytes: &[u8], last: u8) -> Option<Key> {
        let mut numbers = bytes.split(|byte| *byte == b';');
        let first = numbers.next().unwrap_or_default();
        if last != b'~' {
            return arrow(last, numbers.next().is_some());
        }
        match first {
            b"1" | b"7" => Some(Key::Home),
            b"4" | b"8" => Some(Key::End),
            b"3" => Some(Key::Delete),
            b"200" | b"201" => {
                self.pasting = first == b"200";
                None
            }
            _ => None,
        }
    }
}

/// The key whose sequence ends with `letter`; `modified`: with Control, Alt or Shift.
fn arrow(letter: u8, modified: bool) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if modified => Key::WordRight,
        b'D' if modified => Key::WordLeft,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        bytes.iter().filter_map(|byte| keys.take(*byte)).collect()
    }

    #[test]
    fn keys_are_told_apart() {
        assert_eq!(
            keys(b"a\x1b[A\x1bOB\x1b[1;5D\x1b[3~\x1b[H\x1b[8~\x1bf\r"),
            [
                Key::Char('a'),
                Key::Up,
                Key::Down,
                Key::WordLeft,
                Key::Delete,
                Key::Home,
                Key::End,
                Key::WordRight,
                Key::Enter
            ]
        );
        let letters = "ü日😀".as_bytes();
        assert_eq!(keys(letters), ['ü', '日', '😀'].map(Key::Char));
    }

    #[test]
    fn what_is_no_key_is_lost_and_what_follows_is_not() {
        assert_eq!(keys(b"\xc3a"), [Key::Char('a')]);
        assert_eq!(keys(b"\xff\x80b\x00"), [Key::Char('b')]);
        let long = [b"\x1b[", &[b'1'; 1000][..], b"zc"].concat();
        assert_eq!(keys(&long), [Key::Char('c')]);
        assert_eq!(keys(b"\x1bx"), [Key::Char('x')]);
    }

    #[test]
    fn what_is_pasted_is_text_and_ends_of_lines() {
        assert_eq!(
            keys(b"\x1b[200~a\tb\x03\r\nc\n\x1b[201~\t"),
            [
                Key::Char('a'),
                Key::Char('\t'),
                Key::Char('b'),
                Key::Enter,
                Key::Char('c'),
                Key::Enter,
                Key::Tab
            ]
        );
    }
}
