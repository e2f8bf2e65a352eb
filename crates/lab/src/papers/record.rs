//! A run as it is kept: its data and verdict, and the commit, host and seeds that they came from.
//!
//! `ID.json`, `ID.svg`, `ID.png` and one CSV a table in a folder of the user's; JSON and SVG of the
//! last full runs in docs/lab. A run on another host than the row's first is kept beside it, as
//! `ID-net.json`.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::plot::{figure, raster};
use super::{Data, LabHost, Options, Reproduction, Row, Verdict};

/// A run of a row, judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The row.
    pub id: String,
    /// A few words for a heading.
    pub title: String,
    /// The paper's number.
    pub paper: String,
    /// Where in the paper.
    pub place: String,
    /// What it is measured on.
    pub setup: String,
    /// What the paper concluded.
    pub finding: String,
    /// `pass` or `fail`: the verdict's word.
    pub status: String,
    /// The commit of the code that ran, with `+` if it had been changed since; empty outside a
    /// checkout.
    pub commit: String,
    /// Where it ran.
    pub host: LabHost,
    /// With which seeds.
    pub seeds: Range<u64>,
    /// Whether it was a quick run.
    pub quick: bool,
    /// What the judge said of the data.
    pub verdict: Verdict,
    /// What came out.
    pub data: Data,
}

impl Record {
    /// Judges `data`, the outcome of a run of `row` with `options`.
    pub fn new(
        row: &Row,
        reproduction: &dyn Reproduction,
        options: &Options,
        commit: String,
        data: Data,
    ) -> Self {
        let verdict = reproduction.judge(&data);
        Self {
            id: row.id.to_owned(),
            title: reproduction.title().to_owned(),
            paper: row.paper.to_string(),
            place: row.place.to_owned(),
            setup: setup(row),
            finding: row.finding.to_owned(),
            status: verdict.word().to_owned(),
            commit,
            host: options.host,
            seeds: options.seeds.clone(),
            quick: options.quick,
            verdict,
            data,
        }
    }

    /// The same run judged and described as the program does now.
    pub fn again(&self, row: &Row, reproduction: &dyn Reproduction) -> Self {
        let verdict = reproduction.judge(&self.data);
        Self {
            title: reproduction.title().to_owned(),
            setup: setup(row),
            finding: row.finding.to_owned(),
            status: verdict.word().to_owned(),
            verdict,
            ..self.clone()
        }
    }

    /// The name of its files, without an ending.
    pub fn stem(&self) -> String {
        stem(&self.id, self.host)
    }

    /// Where the data came from, in a line.
    pub fn provenance(&self) -> String {
        let Range { start, end } = self.seeds;
        let mut line = format!("host {}, seeds {start}..{end}", self.host);
        if self.quick {
            line.push_str(", quick");
        }
        if !self.commit.is_empty() {
            let _ = write!(line, ", commit {}", self.commit);
        }
        line
    }

    /// The figure, as SVG.
    pub fn figure(&self, reproduction: &dyn Reproduction) -> String {
        figure::draw(self, &reproduction.plots(&self.data))
    }

    /// Writes JSON and SVG into `folder`, which is made if need be: what is kept of a run for good.
    pub fn keep(&self, reproduction: &dyn Reproduction, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::create_dir_all(folder)?;
        let path = |ending: &str| folder.join(format!("{}.{ending}", self.stem()));
        let (json, svg) = (path("json"), path("svg"));
        fs::write(&json, self.to_json()?)?;
        fs::write(&svg, self.figure(reproduction))?;
        Ok(vec![json, svg])
    }

    /// Writes everything into `folder`: JSON, SVG, a CSV file a table, and a PNG where
    /// `groupcast-draw` is there to draw it.
    pub fn write(
        &self,
        reproduction: &dyn Reproduction,
        folder: &Path,
    ) -> io::Result<Vec<PathBuf>> {
        let mut written = self.keep(reproduction, folder)?;
        for table in &self.data.tables {
            let path = folder.join(format!("{}-{}.csv", self.stem(), table.name));
            let mut bytes = Vec::new();
            table.write_csv(&mut bytes)?;
            fs::write(&path, bytes)?;
            written.push(path);
        }
        if let Some(program) = raster::program() {
            let figure = self.figure(reproduction);
            let png = raster::png(&program, &figure).map_err(io::Error::other)?;
            let path = folder.join(format!("{}.png", self.stem()));
            fs::write(&path, png)?;
            written.push(path);
        }
        Ok(written)
    }

    /// As JSON: one line a field, and one a row of the tables, so that two runs can be compared
    /// line by line.
    pub fn to_json(&self) -> io::Result<String> {
        let fields: [(&str, &dyn Json); 12] = [
            ("id", &self.id),
            ("title", &self.title),
            ("paper", &self.paper),
            ("place", &self.place),
            ("setup", &self.setup),
            ("finding", &self.finding),
            ("status", &self.status),
            ("commit", &self.commit),
            ("host", &self.host),
            ("seeds", &self.seeds),
            ("quick", &self.quick),
            ("verdict", &self.verdict),
        ];
        let mut text = String::from("{\n");
        for (name, value) in fields {
            let _ = writeln!(text, "\"{name}\": {},", value.json()?);
        }
        let conditions = serde_json::to_string(&self.data.conditions)?;
        let _ = write!(
            text,
            "\"data\": {{\"conditions\": {conditions},\n\"tables\": ["
        );
        for (index, table) in self.data.tables.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let name = serde_json::to_string(&table.name)?;
            let columns = serde_json::to_string(&table.columns)?;
            let rows: Result<Vec<String>, _> =
                table.rows.iter().map(serde_json::to_string).collect();
            let rows = rows?.join(",\n");
            let _ = write!(
                text,
                "{comma}\n{{\"name\": {name}, \"columns\": {columns}, \"rows\": [\n{rows}]}}"
            );
        }
        text.push_str("]}}\n");
        Ok(text)
    }

    /// Reads what [`to_json`](Record::to_json) wrote.
    pub fn from_json(text: &str) -> io::Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// The run of row `id` on `host` kept in `folder`; `None` if there is none.
    pub fn load(folder: &Path, id: &str, host: LabHost) -> io::Result<Option<Self>> {
        match fs::read_to_string(folder.join(format!("{}.json", stem(id, host)))) {
            Ok(text) => Self::from_json(&text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What another run of the same row changed, in words; empty if nothing that must be equal.
    ///
    /// Deterministic hosts give equal data, other hosts an equal verdict.
    pub fn differences(&self, again: &Record) -> Vec<String> {
        let mut differences = Vec::new();
        if self.status != again.status {
            differences.push(format!(
                "the verdict was {}, is {}",
                self.status, again.status
            ));
        }
        if !self.host.is_deterministic() {
            return differences;
        }
        if self.data.conditions != again.data.conditions {
            differences.push("the conditions differ".to_owned());
        }
        for (before, after) in self.data.tables.iter().zip(&again.data.tables) {
            let pairs = before.rows.iter().zip(&after.rows);
            let unequal = pairs.filter(|(before, after)| before != after).count();
            let missing = before.rows.len().abs_diff(after.rows.len());
            if unequal + missing > 0 || before.columns != after.columns {
                let rows = unequal + missing;
                differences.push(format!("table `{}`: {rows} rows differ", before.name));
            }
        }
        if self.data.tables.len() != again.data.tables.len() {
            differences.push("the number of tables differs".to_owned());
        }
        if self.verdict != again.verdict && differences.is_empty() {
            differences.push("the same data is judged in other words".to_owned());
        }
        differences
    }
}

fn setup(row: &Row) -> String {
    match row.common_setup() {
        "" => row.setup.to_owned(),
        common => format!("{}. {common}", row.setup),
    }
}

/// Anything that can be written as JSON, whatever its type.
trait Json {
    fn json(&self) -> serde_json::Result<String>;
}

impl<T: Serialize> Json for T {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// The name of the files of row `id` run on `host`.
fn stem(id: &str, host: LabHost) -> String {
    let first = super::reproduction(id).and_then(|row| row.hosts().first().copied());
    match first {
        Some(first) if first != host => format!("{id}-{host}"),
        _ => id.to_owned(),
    }
}

/// The commit of the checkout of groupcast around the current folder, with `+` if its code
/// differs; empty if there is none.
pub fn commit() -> String {
    commit_around(Path::new("."))
}

fn commit_around(folder: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = git.arg("-C").arg(folder).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // Another repository, such as that of the user's paper, says nothing of this program.
    let is_ours = git(&["rev-parse", "--show-toplevel"])
        .is_some_and(|top| Path::new(&top).join("crates/lab/src/papers").is_dir());
    let commit = is_ours
        .then(|| git(&["rev-parse", "--short=12", "HEAD"]))
        .flatten();
    let Some(commit) = commit else {
        return String::new();
    };
    // Kept results are part of the checkout: only a change of the code makes the commit untrue.
    match git(&["status", "--porcelain", "--", ":/crates", ":/Cargo.lock"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_of_another_repository_is_not_that_of_this_program() {
        let name = format!("groupcast-commit-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&folder);
            git.args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "commit.gpgsign=false",
            ]);
            git.args(arguments).status()
        };
        let made = git(&["init", "-q"])
            .and_then(|_| git(&["commit", "-q", "--allow-empty", "-m", "a paper"]));
        let commit = commit_around(&folder);
        fs::remove_dir_all(&folder).unwrap();
        // Without git there is no commit to mistake for ours.
        assert!(made.is_err() || made.is_ok_and(|status| status.success()));
        assert_eq!(commit, "");
    }
}
