//! The results that the project keeps: the last full run of every row, as JSON and SVG in docs/lab,
//! and their index.
//!
//! The index is written twice: `README.md` for readers of the book, `index.json` for this program,
//! which carries it so that `lab list` knows the state of things outside a checkout too.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{LabHost, Record, Row, reproduction, rows};

/// Where the results are kept, from the root of a checkout.
pub const FOLDER: &str = "docs/lab";

/// One kept result, in short.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The row.
    pub id: String,
    /// `pass` or `fail`.
    pub status: String,
    /// The commit of the code that ran.
    pub commit: String,
    /// Where it ran.
    pub host: LabHost,
    /// With which seeds.
    pub seeds: Range<u64>,
}

impl From<&Record> for Entry {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            status: record.status.clone(),
            commit: record.commit.clone(),
            host: record.host,
            seeds: record.seeds.clone(),
        }
    }
}

/// The results kept in `folder`, in the rows' order; a row that was run on two hosts is there
/// twice.
///
/// # Errors
/// There is no such folder, or a result in it cannot be read.
pub fn load(folder: &Path) -> io::Result<Vec<Record>> {
    fs::read_dir(folder)?;
    let mut records = Vec::new();
    for row in rows() {
        for host in [LabHost::Calc, LabHost::Sim, LabHost::Net] {
            records
                .extend(Record::load(folder, row.id, host)?.filter(|record| record.host == host));
        }
    }
    Ok(records)
}

/// The index as this program was built with it.
pub fn built_in() -> Vec<Entry> {
    let index = include_str!("../../../../docs/lab/index.json");
    serde_json::from_str(index).unwrap_or_default()
}

/// Why kept results were not judged again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// The folder has none. Nothing was written.
    #[error("no results are kept in {}", .folder.display())]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
    /// They cannot be read, or what follows from them cannot be written.
    #[error("cannot judge what is kept in {}: {source}", .folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Judges and draws everything kept in `folder` again, without running it, and writes the index.
pub fn judge_again(folder: &Path) -> Result<Vec<Record>, JudgeError> {
    let cannot = |source| JudgeError::Io {
        folder: folder.into(),
        source,
    };
    let mut records = load(folder).map_err(cannot)?;
    if records.is_empty() {
        return Err(JudgeError::Empty {
            folder: folder.into(),
        });
    }
    for record in &mut records {
        let row = rows().find(|row| row.id == record.id);
        if let (Some(row), Some(reproduction)) = (row, reproduction(&record.id)) {
            *record = record.again(row, reproduction);
            record.keep(reproduction, folder).map_err(cannot)?;
        }
    }
    write_index(folder, &records).map_err(cannot)?;
    Ok(records)
}

/// Writes the index of `records`, all those kept in `folder`, beside them.
pub fn write_index(folder: &Path, records: &[Record]) -> io::Result<()> {
    fs::write(folder.join("index.json"), index_json(records)?)?;
    fs::write(folder.join("README.md"), index_page(records))
}

fn index_json(records: &[Record]) -> io::Result<String> {
    let entries: Result<Vec<String>, _> = records
        .iter()
        .map(|record| serde_json::to_string(&Entry::from(record)))
        .collect();
    Ok(format!("[\n{}\n]\n", entries?.join(",\n")))
}

/// The chapter of the book: every row with its state, then every figure with what the verdict rests
/// on.
fn index_page(records: &[Record]) -> String {
    let mut page = String::from(HEAD);
    for row in rows() {
        let run: Vec<&Record> = records
            .iter()
            .filter(|record| record.id == row.id)
            .collect();
        let (name, state) = match run.first() {
            Some(record) => (format!("[{0}](#{1})", row.id, anchor(row)), state(record)),
            None if reproduction(row.id).is_some() => (row.id.to_owned(), "not run |".to_owned()),
            None => (row.id.to_owned(), "missing |".to_owned()),
        };
        let _ = writeln!(page, "| {name} | {} {} | {state} |", row.paper, row.place);
    }
    for record in records {
        section(&mut page, record);
    }
    page
}

fn state(record: &Record) -> String {
    let status = match &*record.status {
        "pass" => "pass",
        _ => "**fail**",
    };
    format!("{status} | {}", record.provenance())
}

/// The anchor of a row's heading, as Markdown viewers make it: dots are dropped.
fn anchor(row: &Row) -> String {
    row.id.replace('.', "")
}

fn section(page: &mut String, record: &Record) {
    let Record {
        paper,
        place,
        title,
        finding,
        ..
    } = record;
    let stem = record.stem();
    let _ = write!(
        page,
        "\n## {stem}\n\n{paper} {place}: {title}. **{}**, [data]({stem}.json).\n\n![{title}]({stem}.svg)\n\nThe paper's finding: {finding}.\n\n",
        record.status.to_uppercase()
    );
    for check in &record.verdict.checks {
        let held = if check.held {
            "holds"
        } else {
            "**does not hold**"
        };
        let _ = writeln!(page, "- {} → {}: {held}.", check.claim, check.measured);
    }
    for note in &record.verdict.notes {
        let _ = writeln!(page, "- Note: {note}");
    }
}

const HEAD: &str = "# The papers' figures, regenerated

Written by `groupcast lab run ... --keep`: every table and figure of the five papers, whether it could be regenerated, and
what came out. A verdict is the judgement of a program that sees the data of the run and nothing else: not the finding, not
an earlier verdict. Absolute numbers of the papers' hardware are not the target: the shape, the order and the ratio are. A
`fail` stands until it is explained or mended; no verdict is loosened to pass. `missing` rows wait for their protocol.

How to run them, and what the files hold: [lab.md](../lab.md).

| row | in the papers | verdict | run |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(FOLDER)
    }

    #[test]
    fn the_index_says_what_is_kept() {
        let records = load(&folder()).unwrap();
        let read = |name: &str| fs::read_to_string(folder().join(name)).unwrap();
        assert_eq!(read("README.md"), index_page(&records), "run `lab judge`");
        assert_eq!(read("index.json"), index_json(&records).unwrap());
        let entries: Vec<Entry> = records.iter().map(Entry::from).collect();
        assert_eq!(built_in(), entries);
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_results() {
        let missing = folder().join("nowhere");
        assert_eq!(load(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = folder().join("index.json");
        assert!(load(&file).is_err());
    }

    #[test]
    fn of_a_folder_without_results_no_index_is_written() {
        let empty = std::env::temp_dir().join(format!("gc-lab-empty-{}", std::process::id()));
        fs::create_dir_all(&empty).unwrap();
        let judged = judge_again(&empty);
        let written = fs::read_dir(&empty).unwrap().count();
        fs::remove_dir_all(&empty).unwrap();
        assert!(
            matches!(judged, Err(JudgeError::Empty { .. })),
            "{judged:?}"
        );
        assert_eq!(written, 0);
    }

    #[test]
    fn kept_verdicts_and_figures_follow_from_the_kept_data() {
        for record in load(&folder()).unwrap() {
            let reproduction = reproduction(&record.id).unwrap();
            let again = record.again(row(&record.id).unwrap(), reproduction);
            assert!(again == record, "{}: run `lab judge`", record.id);
            let svg = fs::read_to_string(folder().join(format!("{}.svg", record.stem())));
            assert!(svg.unwrap() == record.figure(reproduction), "{}", record.id);
            assert!(!record.quick, "{}: only full runs are kept", record.id);
        }
    }
}
