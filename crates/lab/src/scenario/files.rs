//! The files of results: written beside the earlier ones, put in their place when all is there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::record::Sheet;

/// What a file is called until all is there.
const PARTIAL: &str = "partial";
/// The file that is there only if all others are.
const SUMMARY: &str = "summary.json";

/// Names of what an interrupted run leaves end so.
const LEFTOVERS: [&str; 3] = [".csv.partial", ".json.partial", ".pcap.partial"];

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", .path.display())]
pub struct WriteError {
    /// The path of the file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// Results on their way into a directory.
pub(super) struct Files {
    directory: PathBuf,
    open: BTreeMap<&'static str, BufWriter<File>>,
    /// Files that a run wrote itself, by the name that they will have.
    captures: Vec<String>,
}

impl Files {
    /// Makes the directory if need be, and forgets what an interrupted run left there.
    pub(super) fn new(directory: &Path) -> Result<Self, WriteError> {
        fs::create_dir_all(directory).map_err(at(directory))?;
        for entry in fs::read_dir(directory).map_err(at(directory))? {
            let path = entry.map_err(at(directory))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if LEFTOVERS.iter().any(|ours| name.ends_with(ours)) {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            open: BTreeMap::new(),
            captures: Vec::new(),
        })
    }

    /// Adds the lines of a seed.
    pub(super) fn append(&mut self, name: &'static str, sheet: &Sheet) -> Result<(), WriteError> {
        let path = partial(&self.directory, name);
        let is_new = !self.open.contains_key(name);
        let file = match self.open.entry(name) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(BufWriter::new(File::create(&path).map_err(at(&path))?))
            }
        };
        let heading = if is_new { sheet.heading.as_str() } else { "" };
        file.write_all(heading.as_bytes())
            .and_then(|()| file.write_all(sheet.lines.as_bytes()))
            .map_err(at(&path))
    }

    /// A run wrote `name` itself, at its [`partial`] place.
    pub(super) fn captured(&mut self, name: String) {
        self.captures.push(name);
    }

    /// All is there: puts it in its place. The summary goes first and comes last, so that it never
    /// stands beside what it does not sum up.
    pub(super) fn finish(mut self, summary: &str) -> Result<(), WriteError> {
        let place = self.directory.join(SUMMARY);
        for capture in captures_of(&place) {
            remove(&self.directory.join(capture))?;
        }
        remove(&place)?;
        let mut names: Vec<String> = self.captures.clone();
        for (name, mut file) in std::mem::take(&mut self.open) {
            file.flush().map_err(at(&partial(&self.directory, name)))?;
            names.push(name.to_owned());
        }
        let path = partial(&self.directory, SUMMARY);
        fs::write(&path, summary).map_err(at(&path))?;
        names.push(SUMMARY.to_owned());
        for name in names {
            let path = self.directory.join(&name);
            fs::rename(partial(&self.directory, &name), &path).map_err(at(&path))?;
        }
        Ok(())
    }
}

/// Where something called `name` is written until all is there.
pub(super) fn partial(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.{PARTIAL}"))
}

/// The captures that an earlier summary names.
fn captures_of(summary: &Path) -> Vec<String> {
    let text = fs::read_to_string(summary).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let names = value["captures"].as_array().into_iter().flatten();
    // A name with a directory in it is none of ours.
    names
        .filter_map(|name| name.as_str())
        .filter(|name| name.ends_with(".pcap") && !name.contains(['/', '\\']))
        .map(str::to_owned)
        .collect()
}

fn remove(path: &Path) -> Result<(), WriteError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |error| WriteError { path, error }
}
