//! The terminal itself, in a mode in which keys come as they are pressed. Its last row shows the
//! line that is typed.

use std::io::{self, Write as _};

use rustix::stdio;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize,
    tcsetattr,
};

use super::editor::Editor;

/// The sequences that switch marks around pasted text on and off.
const PASTE_MARKS: (&str, &str) = ("\x1b[?2004h", "\x1b[?2004l");
/// The sequence that moves to the row's beginning and clears the row.
const ERASE: &str = "\r\x1b[K";
const CLEAR_ALL: &str = "\x1b[H\x1b[2J";
/// The columns assumed for a terminal that does not tell.
const COLUMNS: u16 = 80;

/// The terminal of standard input and output. Dropping this restores its mode.
pub(super) struct Screen {
    before: Termios,
    is_raw: bool,
}

impl Screen {
    pub(super) fn new() -> io::Result<Self> {
        let mut screen = Self {
            before: tcgetattr(stdio::stdin())?,
            is_raw: false,
        };
        screen.enter()?;
        Ok(screen)
    }

    /// Switches to the mode in which keys come as they are pressed.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::ICRNL | InputModes::IXON | InputModes::ISTRIP;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdio::stdin(), OptionalActions::Now, &raw)?;
        self.is_raw = true;
        write(PASTE_MARKS.0.as_bytes())
    }

    /// Restores the terminal's mode.
    pub(super) fn leave(&mut self) {
        if std::mem::replace(&mut self.is_raw, false) {
            // If the terminal has gone, nothing is left to restore.
            let _ = write(format!("{ERASE}{}", PASTE_MARKS.1).as_bytes());
            let _ = tcsetattr(stdio::stdin(), OptionalActions::Drain, &self.before);
        }
    }

    /// Shows the line that is typed.
    pub(super) fn draw(&self, editor: &Editor) -> io::Result<()> {
        let columns = tcgetwinsize(stdio::stdout()).map_or(0, |size| size.ws_col);
        let columns = if columns == 0 { COLUMNS } else { columns };
        let (row, column) = editor.view(columns.into());
        write(format!("{ERASE}{row}\r\x1b[{column}C").as_bytes())
    }

    /// Shows `text`, which ends with a line's end, in place of the line that is typed.
    pub(super) fn print(&self, text: &[u8]) -> io::Result<()> {
        write(&[ERASE.as_bytes(), text].concat())
    }

    pub(super) fn clear(&self) -> io::Result<()> {
        write(CLEAR_ALL.as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
