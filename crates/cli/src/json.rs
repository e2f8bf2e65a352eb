//! JSON that may be printed on a terminal.

use std::io::{self, Write};
use std::process::ExitCode;

use groupcast_core::text::{is_visible, printable};
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Serializer, Value, json};

use crate::failure::Failure;

/// Writes `value` as one line of JSON. Characters that a terminal does not show are escaped in
/// strings (`\u202e`), so that text of foreign origin cannot control the terminal. Programs read
/// the same value.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Visible))?;
    out.write_all(b"\n")
}

/// `value` with all its strings as a terminal may show them: text of foreign origin cannot control
/// it.
pub(crate) fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) => printable(text.as_bytes()).into(),
        Value::Array(items) => items.iter().map(shown).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (key.clone(), shown(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// Returns `result`, and with `json` prints an object for a failure as the last line, so that a
/// program need not read stderr. If the command ended with an account, the account tells the
/// failure.
pub(crate) fn told(json: bool, result: Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
    if let Err(failure) = &result
        && json
        && !failure.is_accounted()
    {
        let line = json!({"event": "error", "message": failure.to_string()});
        // A caller that does not read these lines has the exit code.
        let _ = write_line(&mut io::stdout().lock(), &line);
    }
    result
}

/// A formatter: compact, with invisible characters escaped.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut written = 0;
        for (at, letter) in fragment.char_indices() {
            if is_visible(letter) {
                continue;
            }
            writer.write_all(&fragment.as_bytes()[written..at])?;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            written = at + letter.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "writing into memory does not fail")]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_mean_the_same() {
        let text = "é \u{9b}2J\u{7f}\u{202e}x\u{e0041}\n\"";
        let mut line = Vec::new();
        write_line(&mut line, &text).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(
            line,
            "\"é \\u009b2J\\u007f\\u202ex\\udb40\\udc41\\n\\\"\"\n"
        );
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
