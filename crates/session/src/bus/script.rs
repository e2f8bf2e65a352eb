//! Cuts a text of commands and messages as the bus cuts it.

use std::ops::Range;

use super::input::Input;

/// Cuts a text into commands, each with the bytes that belong to it, for a program that sends them
/// one by one.
#[derive(Debug)]
pub struct Script {
    input: Input,
    len: usize,
}

/// A place at which a text cannot be cut any further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// The offset of the command that has no end.
    pub at: usize,
    /// Why, for people.
    pub text: String,
}

impl Script {
    /// Cuts `text`, whose last line may do without its end.
    pub fn new(text: &[u8]) -> Self {
        let mut input = Input::default();
        // The daemon enforces its limit itself.
        input.set_message_max(u64::MAX);
        input.push(text);
        input.end();
        Self {
            input,
            // The end of the last line was added.
            len: text.len() + 1,
        }
    }

    /// The range of the next command with its message; `None` after the last. Empty lines and
    /// comments are passed over. The last line of the text may lack its line end.
    ///
    /// # Errors
    /// If a line or a list is too long, or the text ends inside a message.
    pub fn next_command(&mut self) -> Result<Option<Range<usize>>, ScriptError> {
        let next = self.input.next();
        let at = self.len - self.input.left();
        match next {
            Ok(Some(_)) => {
                self.input.done();
                let end = self.len - self.input.left();
                Ok(Some(at..end.min(self.len - 1)))
            }
            Ok(None) => Ok(None),
            Err(fault) => Err(ScriptError {
                at,
                text: fault.text(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_the_bus_cuts_it() {
        let text = b"accept * d\n\n# comment\nmsg t d 5\nab\ncd\nmsg t d (a\n b) ; x\nwrong\nquit";
        let mut script = Script::new(text);
        let mut commands = Vec::new();
        while let Some(place) = script.next_command().unwrap() {
            commands.push(std::str::from_utf8(&text[place]).unwrap());
        }
        assert_eq!(
            commands,
            [
                "accept * d\n",
                "msg t d 5\nab\ncd\n",
                "msg t d (a\n b) ; x\n",
                "wrong\n",
                "quit"
            ]
        );
        let mut script = Script::new(b"quit\nmsg t d 9\nabc");
        assert_eq!(script.next_command(), Ok(Some(0..5)));
        assert_eq!(script.next_command().unwrap_err().at, 5);
    }
}
