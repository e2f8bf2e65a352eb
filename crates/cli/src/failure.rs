//! A command's failure: the text for the user, and the exit code.

use std::fmt;
use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};

/// A command that ended without success: what was wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    help: Option<String>,
    /// The whole report, where it is more than message and help.
    rendered: Option<String>,
    exit: Exit,
    /// The account that the command has printed says as much.
    is_accounted: bool,
}

/// The exit codes but success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It was tried and failed: 1.
    Failed,
    /// What was asked for makes no sense: 2.
    Usage,
    /// It was done, but not for everybody: 3.
    SomeReceivers,
}

impl Failure {
    /// It was tried and failed.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            help: None,
            rendered: None,
            exit: Exit::Failed,
            is_accounted: false,
        }
    }

    /// What was asked for makes no sense.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::failed(message)
        }
    }

    /// It was done, but not for everybody.
    pub(crate) fn some_receivers(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::SomeReceivers,
            ..Self::failed(message)
        }
    }

    /// The same, with what the user can do.
    pub(crate) fn help(self, help: impl fmt::Display) -> Self {
        Self {
            help: Some(help.to_string()),
            ..self
        }
    }

    /// The same, shown with the text that caused it: that of the file `name`, with `span`
    /// underlined.
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

    /// Tells the user on stderr; the exit code is returned.
    pub(crate) fn report(&self) -> ExitCode {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let bold = Style::new().bold();
        let mut stderr = anstream::stderr().lock();
        // If stderr is closed too, the error cannot be shown anywhere.
        if let Some(rendered) = &self.rendered {
            let _ = writeln!(stderr, "{rendered}");
            return self.code();
        }
        let _ = writeln!(stderr, "{red}error{red:#}: {}", self.message);
        if let Some(help) = &self.help {
            let _ = writeln!(stderr, "{bold}help{bold:#}: {help}");
        }
        self.code()
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// The same, which follows from the account that the command has printed as its last object.
    pub(crate) fn accounted(self) -> Self {
        Self {
            is_accounted: true,
            ..self
        }
    }

    /// Whether the account that the command has printed says as much.
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

/// A line for the user on stderr. One that cannot be written, to a closed pipe or a full disk, is
/// lost, and nothing else.
pub(crate) fn tell(line: impl fmt::Display) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// What becomes of a command whose answer was printed: a reader that has gone is no failure, and a
/// full disk is one.
pub(crate) fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}
