//! `--file`: commands and messages of a file, one after the other.

use std::io::{self, BufRead, Read as _, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use groupcast_core::text::printable;
use groupcast_session::bus::Script;

use super::lines::{self, Line};
use super::socket::Socket;
use super::{broken, ended};
use crate::failure::{Failure, printed};

/// Sends the commands of the file at `path`, each after the reply to the one before it. Deliveries
/// and replies go to standard output.
pub(super) fn send(socket: Socket, path: &Path) -> Result<ExitCode, Failure> {
    let text = match path == Path::new("-") {
        true => {
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map(|_| text)
        }
        false => std::fs::read(path),
    };
    let text =
        text.map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
    let text: Arc<[u8]> = text.into();
    let place = |at: usize| {
        let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", path.display())
    };
    let writer = writer(socket.again()?, Arc::clone(&text));
    let mut reader = super::reader(socket)?;
    let mut script = Script::new(&text);
    let mut out = Out::default();
    loop {
        let command = match script.next_command() {
            Ok(Some(command)) => command,
            Ok(None) => break,
            Err(error) => {
                return Err(Failure::failed(format!(
                    "{}: {}",
                    place(error.at),
                    error.text
                )));
            }
        };
        let at = command.start;
        // If nothing can be written any more, the reader hears the end.
        let _ = writer.send(command);
        match reply(&mut reader, &mut out)? {
            Some(line) if line.starts_with(b"error ") => {
                let text = printable(line.trim_ascii_end());
                return Err(Failure::failed(format!("{}: {text}", place(at))));
            }
            Some(_) => {}
            None => {
                return Err(Failure::failed(format!(
                    "{}: the bus gave no reply",
                    place(at)
                )));
            }
        }
    }
    drop(writer);
    let mut last = Vec::new();
    while let Some(line) = lines::read(&mut reader).map_err(broken)? {
        out.show(&line);
        if let Line::Plain(text) = line {
            last = text;
        }
    }
    let code = ended(&last)?;
    printed(out.0)?;
    Ok(code)
}

/// A thread that writes the commands at these places of `text`, and then ends the output: the bus
/// may take the rest of a long message only when its deliveries are read.
fn writer(mut socket: Socket, text: Arc<[u8]>) -> Sender<Range<usize>> {
    let (sender, commands) = channel::<Range<usize>>();
    std::thread::spawn(move || {
        for command in commands {
            let bytes = &text[command];
            let written = socket.write_all(bytes).and_then(|()| {
                let is_line = bytes.ends_with(b"\n");
                if is_line {
                    Ok(())
                } else {
                    socket.write_all(b"\n")
                }
            });
            if written.is_err() {
                socket.end_both();
                return;
            }
        }
        socket.end();
    });
    sender
}

/// Reads up to the reply to a command; `None` if the bus ends the connection before.
fn reply(reader: &mut impl BufRead, out: &mut Out) -> Result<Option<Vec<u8>>, Failure> {
    while let Some(line) = lines::read(reader).map_err(broken)? {
        out.show(&line);
        match line {
            Line::Plain(text) if text.starts_with(b"closed ") => {
                return ended(&text).map(|_| None);
            }
            line if line.is_reply() => return Ok(Some(line.bytes())),
            _ => {}
        }
    }
    Ok(None)
}

/// What is shown of the bus, and how that went: what cannot be shown is no reason to send less.
struct Out(io::Result<()>);

impl Default for Out {
    fn default() -> Self {
        Self(Ok(()))
    }
}

impl Out {
    /// Shows a line, unless an earlier one could not be shown.
    fn show(&mut self, line: &Line) {
        if self.0.is_ok() {
            let mut out = io::stdout().lock();
            self.0 = out.write_all(&line.bytes()).and_then(|()| out.flush());
        }
    }
}
