//! The settings of a connection, and the syntax of its messages.

use groupcast_core::Service;
use groupcast_lmbl as lmbl;

use super::command::{MessageHead, Toggle};
use super::input::{Body, Input};
use super::words::Refusal;
use crate::frame::Syntax;

/// The settings of a connection.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) service: Service,
    pub(super) loop_back: bool,
    pub(super) views: bool,
    pub(super) from: bool,
    pub(super) id: String,
    /// The syntax that a command has chosen.
    pub(super) syntax: Option<Syntax>,
    /// The syntax of the program's first list.
    pub(super) found: Option<Syntax>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            service: Service::Agreed,
            loop_back: true,
            views: false,
            from: false,
            id: String::new(),
            syntax: None,
            found: None,
        }
    }
}

impl Settings {
    pub(super) fn set(&mut self, toggle: Toggle, on: bool) {
        match toggle {
            Toggle::LoopBack => self.loop_back = on,
            Toggle::Views => self.views = on,
            Toggle::From => self.from = on,
        }
    }

    /// The syntax of the deliveries to this connection.
    pub(super) fn own_syntax(&self) -> Syntax {
        self.syntax.or(self.found).unwrap_or(Syntax::Sexp)
    }
}

/// The syntax of a message: the one that it names, or was chosen, which is checked; else the one
/// that it looks like and is.
pub(super) fn decide(
    settings: &mut Settings,
    head: &MessageHead,
    body: &Body,
    payload: &[u8],
    input: &Input,
) -> Result<Syntax, Refusal> {
    let limits = lmbl::Limits::default();
    let refused = |error: lmbl::Error| {
        let column = input.column(body, error.at);
        Refusal::new(list_code(error.fault), column, error.fault.to_string())
    };
    let check = |syntax| match as_list(syntax) {
        Some(list) => lmbl::check(list, payload, limits),
        None => Ok(()),
    };
    if let Some(syntax) = head.syntax.or(settings.syntax) {
        check(syntax).map_err(refused)?;
        return Ok(syntax);
    }
    let guess = match lmbl::Syntax::guess(payload) {
        Some(lmbl::Syntax::Sexp) => Syntax::Sexp,
        Some(lmbl::Syntax::Cstream) => Syntax::Cstream,
        None => return Ok(Syntax::Raw),
    };
    match check(guess) {
        Ok(()) => {
            settings.found.get_or_insert(guess);
            Ok(guess)
        }
        Err(error) => match error.fault {
            lmbl::Fault::Depth | lmbl::Fault::Items => Err(refused(error)),
            _ if body.is_list() => Err(refused(error)),
            _ => Ok(Syntax::Raw),
        },
    }
}

/// The syntax of lists that `syntax` is, if it is one.
pub(super) fn as_list(syntax: Syntax) -> Option<lmbl::Syntax> {
    match syntax {
        Syntax::Raw => None,
        Syntax::Sexp => Some(lmbl::Syntax::Sexp),
        Syntax::Cstream => Some(lmbl::Syntax::Cstream),
    }
}

fn list_code(fault: lmbl::Fault) -> &'static str {
    match fault {
        lmbl::Fault::Depth => "depth",
        lmbl::Fault::Items => "atoms",
        lmbl::Fault::TooLong => "too-long",
        _ => "list",
    }
}
