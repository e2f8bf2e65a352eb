//! `groupcast lab list`: every row, and how its last kept run ended.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use groupcast_lab::papers::kept::{self, Entry};
use groupcast_lab::papers::{Row, reproduction, rows};
use serde_json::{Value, json};

use super::Kept;
use crate::failure::{Failure, printed};
use crate::table::Table;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    kept: Kept,
    /// Print one JSON object a row
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let entries = entries(&args.kept)?;
    printed(match args.json {
        true => print_json(&entries),
        false => print(&entries),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The kept results: those in the folder. Outside a checkout the usual folder does not exist: then
/// those that were built into this program.
fn entries(kept: &Kept) -> Result<Vec<Entry>, Failure> {
    if kept.folder == Path::new(kept::FOLDER) && !kept.folder.is_dir() {
        return Ok(kept::built_in());
    }
    let records = kept::load(&kept.folder).map_err(|error| {
        Failure::failed(format!("cannot read {}: {error}", kept.folder.display()))
    })?;
    Ok(records.iter().map(Entry::from).collect())
}

fn print_json(entries: &[Entry]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for row in rows() {
        let entry = entry_of(row, entries);
        let line = json!({
            "id": row.id,
            "paper": row.paper.number(),
            "where": row.place,
            "status": entry.map_or("missing", |entry| &entry.status),
            "commit": entry.map(|entry| &entry.commit),
            "host": entry.map(|entry| entry.host),
            "seeds": entry.map(|entry| format!("{}..{}", entry.seeds.start, entry.seeds.end)),
            "runs_on": runs_on(row),
            "setup": row.setup,
            "finding": row.finding,
        });
        writeln!(stdout, "{line}")?;
    }
    Ok(())
}

/// The hosts that the row can run on; empty until its protocol is built.
fn runs_on(row: &Row) -> Vec<Value> {
    let hosts = reproduction(row.id).map_or(&[][..], |reproduction| reproduction.hosts());
    hosts.iter().map(|host| json!(host)).collect()
}

fn print(entries: &[Entry]) -> io::Result<()> {
    let mut table = Table::new(&["id", "paper", "where", "status", "host", "seeds", "commit"]);
    let (mut passed, mut failed, mut count) = (0, 0, 0);
    for row in rows() {
        let entry = entry_of(row, entries);
        count += 1;
        let mut cells = vec![
            row.id.to_owned(),
            row.paper.to_string(),
            row.place.to_owned(),
        ];
        match entry {
            Some(entry) => {
                match &*entry.status {
                    "pass" => passed += 1,
                    _ => failed += 1,
                }
                let seeds = format!("{}..{}", entry.seeds.start, entry.seeds.end);
                let host = entry.host.to_string();
                cells.extend([entry.status.clone(), host, seeds, entry.commit.clone()]);
            }
            None => cells.push("missing".to_owned()),
        }
        table.row(cells);
    }
    let mut stdout = anstream::stdout().lock();
    table.write(&mut stdout)?;
    let missing = count - passed - failed;
    writeln!(
        stdout,
        "{count} rows: {passed} pass, {failed} fail, {missing} missing"
    )
}

/// The kept run of `row`, on its first host if it was run on several.
fn entry_of<'a>(row: &Row, entries: &'a [Entry]) -> Option<&'a Entry> {
    let first = reproduction(row.id).and_then(|reproduction| reproduction.hosts().first());
    let mut of_row = entries.iter().filter(|entry| entry.id == row.id);
    of_row
        .clone()
        .find(|entry| Some(&entry.host) == first)
        .or_else(|| of_row.next())
}
