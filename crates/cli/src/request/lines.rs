//! The lines of `groupcast request`: one a reply, and with `--json` the account as the last. Field
//! names are a contract with scripts (docs/requests.md).

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use groupcast_core::text::printable;
use groupcast_transfer::{Became, RequestReport};
use serde_json::{Value, json};

use super::account;
use crate::json::write_line;

/// Prints a reply.
pub(super) fn reply(json: bool, member: &str, code: u32, bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match json {
        true => write_line(&mut out, &in_json(member, code, bytes))?,
        false => writeln!(out, "{}", in_words(member, code, bytes))?,
    }
    out.flush()
}

fn in_json(member: &str, code: u32, bytes: &[u8]) -> Value {
    let mut line = json!({
        "event": "reply",
        "member": member,
        "exit_code": code,
        "bytes": bytes.len(),
    });
    match std::str::from_utf8(bytes) {
        Ok(text) => line["text"] = text.into(),
        Err(_) => line["base64"] = BASE64.encode(bytes).into(),
    }
    line
}

/// A reply on one line: without a newline at its end, and with other newlines escaped.
fn in_words(member: &str, code: u32, bytes: &[u8]) -> String {
    let text = printable(bytes.strip_suffix(b"\n").unwrap_or(bytes));
    match code {
        0 => format!("{member}: {text}"),
        code => format!("{member} (exit code {code}): {text}"),
    }
}

/// Prints the account.
pub(super) fn account(report: &RequestReport) -> io::Result<()> {
    let has_replied = |became: &Became| matches!(became, Became::Replied { .. });
    let members = report.members.iter();
    let replies = members.filter(|(_, became)| has_replied(became)).count();
    let others = report.members.iter();
    let failed: Vec<Value> = others
        .filter(|(_, became)| !has_replied(became))
        .map(|(member, became)| json!({"member": member, "problem": account::in_words(became)}))
        .collect();
    let members = report.members.iter();
    let nonzero: Vec<Value> = members
        .filter_map(|(member, became)| match became {
            Became::Replied { code, .. } if *code != 0 => {
                Some(json!({"member": member, "exit_code": code}))
            }
            _ => None,
        })
        .collect();
    let line = json!({
        "event": "done",
        "replies": replies,
        "failed": failed,
        "nonzero": nonzero,
        "seconds": report.took.as_secs_f64(),
        "timed_out": report.timed_out,
        "stopped": report.stopped,
    });
    write_line(&mut io::stdout().lock(), &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_one_line_whatever_is_in_it() {
        assert_eq!(in_words("a", 0, b"up 3 days\n"), "a: up 3 days");
        assert_eq!(
            in_words("a", 7, b"x\n\x1b[2J\n"),
            "a (exit code 7): x\\n\\u{1b}[2J"
        );
        let line = in_json("a", 0, &[0xff, 0]);
        assert_eq!(line["base64"], "/wA=");
        assert_eq!(in_json("a", 0, b"yes\n")["text"], "yes\n");
    }
}
