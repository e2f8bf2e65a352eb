//! What a client of the bus is sent unasked: messages, gaps and views.

use std::borrow::Cow;

use groupcast_lmbl as lmbl;

use super::settings::{Settings, as_list};
use super::{quoted, write_word};
use crate::frame::{Message, Syntax};
use crate::view::View;

/// Appends a delivery: a `msg` that, sent back, sends the same.
pub(super) fn write(out: &mut Vec<u8>, message: &Message, settings: &Settings) {
    let (mark, payload) = converted(message, settings.own_syntax());
    let mut line = String::from("msg ");
    write_word(&mut line, &message.tag, false);
    for (index, domain) in message.destinations.iter().enumerate() {
        line.push(if index == 0 { ' ' } else { ',' });
        write_word(&mut line, domain, true);
    }
    if settings.from {
        let id = match message.sender_id.is_empty() {
            true => &message.sender,
            false => &message.sender_id,
        };
        line.push_str(" from=");
        write_word(&mut line, id, true);
    }
    if let Some(mark) = mark {
        line.push(' ');
        line.push_str(mark.name());
    }
    line.push_str(&format!(" {}\n", payload.len()));
    out.reserve(line.len() + payload.len() + 1);
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(&payload);
    out.push(b'\n');
}

/// The payload for a client whose own syntax is `own`, and the syntax that it is marked with, if
/// that is another one.
fn converted(message: &Message, own: Syntax) -> (Option<Syntax>, Cow<'_, [u8]>) {
    let payload = Cow::Borrowed(&message.payload[..]);
    if message.syntax == own {
        return (None, payload);
    }
    let (Some(from), Some(_)) = (as_list(message.syntax), as_list(own)) else {
        return (Some(message.syntax), payload);
    };
    match lmbl::convert(from, &message.payload, lmbl::Limits::default()) {
        Ok(list) => (None, Cow::Owned(list)),
        // Its sender, which was no client of the bus, said what is not so.
        Err(_) => (Some(Syntax::Raw), payload),
    }
}

/// Appends a gap: messages of a bimodal domain that are lost to this client.
pub(super) fn write_gap(out: &mut Vec<u8>, domain: &str, daemon: &str, first: u64, last: u64) {
    let line = format!("gap {} {} {first} {last}\n", quoted(domain), quoted(daemon));
    out.extend_from_slice(line.as_bytes());
}

/// Appends a view.
pub(super) fn write_view(out: &mut Vec<u8>, view: &View) {
    let changed = view.changed.as_deref().unwrap_or_default();
    let mut line = format!(
        "view {} {} {} {}",
        quoted(&view.group),
        match view.approximate {
            true => "approximate",
            false => view.kind.name(),
        },
        view.cause.name(),
        quoted(changed)
    );
    for member in &view.members {
        line.push(' ');
        write_word(&mut line, member, false);
    }
    line.push('\n');
    out.extend_from_slice(line.as_bytes());
}
