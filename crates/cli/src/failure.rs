//! A command's failure: the text for the user, and the exit code.

use std::fmt;
use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use groupcast_core::text::printable;

/// A command that ended without success: what was wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    help: Option<String>,
    /// The whole report, if it is more than message and help.
    rendered: Option<String>,
    exit: Exit,
    /// Whether the account that the command has printed tells the failure too.
    is_accounted: bool,
    /// Whether nobody reads what the command prints: it does not wait for a reader any more.
    is_unread: bool,
}

/// The exit codes other than success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// The command tried and failed: 1.
    Failed,
    /// The command line or a file makes no sense: 2.
    Usage,
    /// The command succeeded for some receivers only: 3.
    SomeReceivers,
}

impl Failure {
    /// A failure with exit code 1: the command tried and failed.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self {
            message: shortened(&message.to_string()),
            help: None,
            rendered: None,
            exit: Exit::Failed,
            is_accounted: false,
            is_unread: false,
        }
    }

    /// A failure with exit code 2: the command line or a file makes no sense.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::failed(message)
        }
    }

    /// A failure with exit code 3: the command succeeded for some receivers only.
    pub(crate) fn some_receivers(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::SomeReceivers,
            ..Self::failed(message)
        }
    }

    /// Adds what the user can do.
    pub(crate) fn help(self, help: impl fmt::Display) -> Self {
        Self {
            help: Some(help.to_string()),
            ..self
        }
    }

    /// Adds the text of the file `name` that caused it, with `span` underlined.
    pub(crate) fn shown_in(self, name: &str, text: &str, span: Range<usize>) -> Self {
        let snippet = Snippet::source(text)
            .path(name)
            .annotation(AnnotationKind::Primary.span(span));
        let mut report = Level::ERROR.primary_title(&self.message).element(snippet);
        if let Some(help) = &self.help {
            report = report.element(Level::HELP.message(help));
        }
        let rendered = Renderer::styled().render(&[report]);
        Self {
            rendered: Some(rendered),
            ..self
        }
    }

    /// Tells the user on stderr, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let text = self.text();
        match self.is_unread {
            true => tell_unread(text),
            false => tell(text),
        }
        self.code()
    }

    fn text(&self) -> String {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let bold = Style::new().bold();
        if let Some(rendered) = &self.rendered {
            return rendered.clone();
        }
        // A daemon's words may be in it, and names of others.
        let error = format!("{red}error{red:#}: {}", visible(&self.message));
        match &self.help {
            Some(help) => format!("{error}\n{bold}help{bold:#}: {help}"),
            None => error,
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// Notes that the account, which the command has printed as its last object, tells the failure
    /// too.
    pub(crate) fn accounted(self) -> Self {
        Self {
            is_accounted: true,
            ..self
        }
    }

    /// Notes whether everything that the command has printed was read. If not, nothing more is
    /// printed on stdout, and stderr gets little time.
    pub(crate) fn read(self, is_read: bool) -> Self {
        Self {
            is_accounted: self.is_accounted || !is_read,
            is_unread: !is_read,
            ..self
        }
    }

    /// Whether the account that the command has printed tells the failure too.
    pub(crate) fn is_accounted(&self) -> bool {
        self.is_accounted
    }

    /// The exit code as a number.
    pub(crate) fn number(&self) -> u8 {
        match self.exit {
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::SomeReceivers => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The lines of `message`, as a terminal may show them.
fn visible(message: &str) -> String {
    let lines: Vec<String> = message
        .split('\n')
        .map(|line| printable(line.as_bytes()))
        .collect();
    lines.join("\n")
}

/// The most letters of a word of a message, and how many stay of a longer one at its start and at
/// its end. A path that the system refuses for its length has thousands.
const WORD_MAX: usize = 300;
const WORD_ENDS: usize = 120;

/// `message` with its long words cut in the middle.
fn shortened(message: &str) -> String {
    let mut short = String::with_capacity(message.len().min(1 << 10));
    for part in message.split_inclusive(char::is_whitespace) {
        let letters = part.chars().count();
        if letters <= WORD_MAX {
            short.push_str(part);
            continue;
        }
        let left_out = letters - 2 * WORD_ENDS;
        short.extend(part.chars().take(WORD_ENDS));
        short.push_str(&format!("[… {left_out} more …]"));
        short.extend(part.chars().skip(letters - WORD_ENDS));
    }
    short
}

/// Prints a line for the user on stderr. A line that cannot be written, to a closed pipe or a full
/// disk, is lost without further effect.
pub(crate) fn tell(line: impl fmt::Display) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// The same where nobody has read what the command printed: nobody may read stderr either, so it
/// waits for a second only.
pub(crate) fn tell_unread(line: String) {
    const UNREAD: Duration = Duration::from_secs(1);
    let (told, waits) = mpsc::channel();
    let telling = thread::Builder::new().spawn(move || {
        tell(line);
        // Whoever waited may have gone.
        let _ = told.send(());
    });
    if telling.is_ok() {
        let _ = waits.recv_timeout(UNREAD);
    }
}

/// The result of a command from that of printing its answer: a reader that has gone is no failure,
/// a full disk is one.
pub(crate) fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_answers_does_not_control_the_terminal() {
        let failure = Failure::failed("rejected: \u{1b}[2J\u{9b}2J\u{202e}x\nsecond line");
        let text = failure.text();
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            "error: rejected: \\u{1b}[2J\\u{9b}2J\\u{202e}x\nsecond line"
        );
    }

    #[test]
    fn a_path_of_thousands_of_letters_is_cut_in_its_middle_and_nothing_else_is() {
        let path = format!("/start{}/end", "/ä".repeat(2_500));
        let failure = Failure::failed(format!("cannot read {path}: File name too long"));
        let text = failure.to_string();
        assert!(text.chars().count() < 400, "{text}");
        assert!(text.starts_with("cannot read /start/ä"), "{text}");
        assert!(text.ends_with("/ä/end: File name too long"), "{text}");
        assert!(text.contains("[… "), "{text}");
        let names: Vec<String> = (0..500).map(|it| format!("host-{it}")).collect();
        let listed = names.join(", ");
        assert_eq!(Failure::usage(&listed).to_string(), listed);
    }
}
