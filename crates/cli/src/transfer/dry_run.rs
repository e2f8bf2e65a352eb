//! `groupcast send --dry-run`: what would be sent.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use groupcast_core::text::printable;
use groupcast_transfer::Manifest;
use groupcast_transfer::manifest::{Entry, Kind};
use serde_json::{Value, json};

use super::amount;
use crate::json::write_line;
use crate::number::number_of;

/// Lists the entries of `manifest` and what they come to.
pub(super) fn list(manifest: &Manifest, json: bool) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for entry in manifest.entries() {
        match json {
            true => write_line(&mut out, &line(entry))?,
            false => writeln!(out, "{:>15}  {}", size(entry), printable(&entry.path))?,
        }
    }
    let (entries, bytes) = (manifest.entries().len(), manifest.content_len());
    match json {
        true => {
            let total = json!({"event": "total", "entries": entries, "bytes": bytes});
            write_line(&mut out, &total)?;
        }
        false => writeln!(
            out,
            "{bytes:>15}  bytes ({}) in {}; nothing was sent",
            amount(bytes),
            number_of(entries as u64, "entry", "entries")
        )?,
    }
    out.flush()
}

fn size(entry: &Entry) -> String {
    match &entry.kind {
        Kind::File { size, .. } => size.to_string(),
        Kind::Directory => "directory".into(),
        Kind::Link { .. } => "link".into(),
    }
}

fn line(entry: &Entry) -> Value {
    let (kind, bytes) = match &entry.kind {
        Kind::File { size, .. } => ("file", Some(*size)),
        Kind::Directory => ("directory", None),
        Kind::Link { .. } => ("link", None),
    };
    match std::str::from_utf8(&entry.path) {
        Ok(path) => json!({"event": "entry", "path": path, "kind": kind, "bytes": bytes}),
        // JSON has no other strings.
        Err(_) => json!({
            "event": "entry",
            "path": printable(&entry.path),
            "path_base64": STANDARD.encode(&entry.path),
            "kind": kind,
            "bytes": bytes,
        }),
    }
}
