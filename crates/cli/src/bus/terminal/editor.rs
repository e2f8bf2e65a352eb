//! The line that is being typed, and the lines before it. It knows no terminal: keys go in, and the
//! text to show comes out.

use std::collections::VecDeque;

use groupcast_core::text::is_visible;
use unicode_width::UnicodeWidthChar as _;

use super::keys::Key;

/// The text before the line that is typed.
pub(super) const PROMPT: &str = "> ";
/// The most lines that are remembered.
const HISTORY_MAX: usize = 1000;
/// The most characters of a line; more are not taken.
const LINE_MAX: usize = 1 << 20;

/// The effect of a key that the terminal has to know.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Did {
    /// The line may look different.
    Edited,
    /// The line is complete.
    Line(String),
    /// The user wants to see what could stand at the cursor.
    Complete,
    /// The screen is to be cleared.
    Clear,
    /// The user interrupted on an empty line: the program has to end.
    Interrupt,
    /// The user types nothing more.
    End,
    Suspend,
}

/// The line that is being typed.
#[derive(Default, Debug)]
pub(super) struct Editor {
    text: Vec<char>,
    cursor: usize,
    history: VecDeque<Vec<char>>,
    /// How many lines before the typed one the shown line lies.
    back: usize,
    /// What was typed, while an earlier line is shown.
    typed: Vec<char>,
}

impl Editor {
    pub(super) fn press(&mut self, key: Key) -> Did {
        match key {
            Key::Char(letter) => self.insert(letter),
            Key::Enter => return Did::Line(self.enter()),
            Key::Tab => return Did::Complete,
            Key::Clear => return Did::Clear,
            Key::Suspend => return Did::Suspend,
            Key::Interrupt if self.text.is_empty() => return Did::Interrupt,
            Key::EndOfInput if self.text.is_empty() => return Did::End,
            Key::Interrupt => {
                self.show(Vec::new());
                self.back = 0;
            }
            Key::EndOfInput | Key::Delete => {
                if self.cursor < self.text.len() {
                    self.text.remove(self.cursor);
                }
            }
            Key::Backspace => self.kill(self.cursor.saturating_sub(1)),
            Key::KillWord => self.kill(self.word_left()),
            Key::KillLine => self.kill(0),
            Key::KillToEnd => self.text.truncate(self.cursor),
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => self.cursor = self.word_right(),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.text.len(),
            Key::Up => self.recall(self.back + 1),
            Key::Down => {
                if let Some(back) = self.back.checked_sub(1) {
                    self.recall(back);
                }
            }
        }
        Did::Edited
    }

    /// Inserts `text` at the cursor.
    pub(super) fn insert_text(&mut self, text: &str) {
        text.chars().for_each(|letter| self.insert(letter));
    }

    /// The text before the cursor.
    pub(super) fn before_cursor(&self) -> String {
        self.text[..self.cursor].iter().collect()
    }

    /// The row to show in `width` columns, and the column of the cursor. Of a longer line the row
    /// shows a part.
    pub(super) fn view(&self, width: usize) -> (String, usize) {
        // The cursor may stand behind the last character.
        let room = width.saturating_sub(PROMPT.len() + 1).max(2);
        let mut start = self.cursor;
        let mut before = 0;
        for letter in self.text[..self.cursor].iter().rev() {
            if before + cells(*letter) > room {
                break;
            }
            before += cells(*letter);
            start -= 1;
        }
        let mut end = self.cursor;
        let mut all = before;
        for letter in &self.text[self.cursor..] {
            all += cells(*letter);
            if all > room {
                break;
            }
            end += 1;
        }
        let shown = self.text[start..end].iter().map(|it| shown(*it));
        let row = PROMPT.chars().chain(shown).collect();
        (row, PROMPT.len() + before)
    }

    fn insert(&mut self, letter: char) {
        if self.text.len() < LINE_MAX {
            self.text.insert(self.cursor, letter);
            self.cursor += 1;
        }
    }

    /// Removes the characters from `from` to the cursor.
    fn kill(&mut self, from: usize) {
        self.text.drain(from..self.cursor);
        self.cursor = from;
    }

    fn enter(&mut self) -> String {
        let line = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.back = 0;
        self.typed.clear();
        let text = line.iter().collect();
        if !line.is_empty() && self.history.back() != Some(&line) {
            if self.history.len() == HISTORY_MAX {
                self.history.pop_front();
            }
            self.history.push_back(line);
        }
        text
    }

    /// Shows the line that was entered `back` lines before, if there is one.
    fn recall(&mut self, back: usize) {
        if back > self.history.len() {
            return;
        }
        if self.back == 0 {
            self.typed = self.text.clone();
        }
        self.back = back;
        let line = match back {
            0 => std::mem::take(&mut self.typed),
            _ => self.history[self.history.len() - back].clone(),
        };
        self.show(line);
    }

    fn show(&mut self, line: Vec<char>) {
        self.cursor = line.len();
        self.text = line;
    }

    fn word_left(&self) -> usize {
        let mut at = self.cursor;
        while at > 0 && is_blank(self.text[at - 1]) {
            at -= 1;
        }
        while at > 0 && !is_blank(self.text[at - 1]) {
            at -= 1;
        }
        at
    }

    fn word_right(&self) -> usize {
        let mut at = self.cursor;
        while at < self.text.len() && is_blank(self.text[at]) {
            at += 1;
        }
        while at < self.text.len() && !is_blank(self.text[at]) {
            at += 1;
        }
        at
    }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

/// The character that is shown for a typed one.
fn shown(letter: char) -> char {
    match letter {
        '\t' => ' ',
        _ if is_visible(letter) => letter,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// The columns that a character takes.
fn cells(letter: char) -> usize {
    shown(letter).width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, text: &str) {
        editor.insert_text(text);
    }

    fn line(editor: &Editor) -> String {
        editor.text.iter().collect()
    }

    #[test]
    fn a_line_is_edited_at_its_cursor() {
        let mut editor = Editor::default();
        typed(&mut editor, "accept * one two");
        for (key, expected, cursor) in [
            (Key::WordLeft, "accept * one two", 13),
            (Key::WordLeft, "accept * one two", 9),
            (Key::Delete, "accept * ne two", 9),
            (Key::Backspace, "accept *ne two", 8),
            (Key::WordRight, "accept *ne two", 10),
            (Key::KillWord, "accept  two", 7),
            (Key::KillToEnd, "accept ", 7),
            (Key::Left, "accept ", 6),
            (Key::KillLine, " ", 0),
            (Key::EndOfInput, "", 0),
        ] {
            assert_eq!(editor.press(key), Did::Edited);
            assert_eq!((line(&editor).as_str(), editor.cursor), (expected, cursor));
        }
        assert_eq!(editor.press(Key::EndOfInput), Did::End);
        assert_eq!(editor.press(Key::Interrupt), Did::Interrupt);
        typed(&mut editor, "x");
        assert_eq!(editor.press(Key::Interrupt), Did::Edited);
        assert_eq!(line(&editor), "");
    }

    #[test]
    fn earlier_lines_come_back_and_what_was_typed_too() {
        let mut editor = Editor::default();
        for text in ["one", "two", "two", ""] {
            typed(&mut editor, text);
            assert_eq!(editor.press(Key::Enter), Did::Line(text.into()));
        }
        typed(&mut editor, "new");
        for (key, expected) in [
            (Key::Up, "two"),
            (Key::Up, "one"),
            (Key::Up, "one"),
            (Key::Down, "two"),
            (Key::Down, "new"),
            (Key::Down, "new"),
        ] {
            editor.press(key);
            assert_eq!(line(&editor), expected);
        }
        for number in 0..2 * HISTORY_MAX {
            typed(&mut editor, &number.to_string());
            editor.press(Key::Enter);
        }
        assert_eq!(editor.history.len(), HISTORY_MAX);
    }

    #[test]
    fn what_is_seen_fits_one_row_and_has_the_cursor() {
        let mut editor = Editor::default();
        typed(&mut editor, "0123456789日本語\u{1b}");
        for width in 0..30 {
            for _ in 0..15 {
                let (row, column) = editor.view(width);
                let cells: usize = row.chars().map(cells).sum();
                assert!(cells < width.max(5), "{width}: {row}");
                assert!(column <= cells, "{width}: {row}");
                editor.press(Key::Left);
            }
            editor.press(Key::End);
        }
        let (row, column) = editor.view(80);
        assert_eq!((row.as_str(), column), ("> 0123456789日本語\u{fffd}", 19));
        assert_eq!(editor.view(8).0, "> 本語\u{fffd}");
    }
}
