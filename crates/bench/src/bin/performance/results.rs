//! Results of a sweep, and the file that keeps them: a sweep can be done in pieces, each row under
//! its own conditions.
//!
//! The file is one JSON object: `rows` by the row's name, each with `conditions` and the `report`
//! of `groupcast bench ring --json`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Failure;
use crate::conditions::Conditions;

/// What was measured, by row.
#[derive(Default, Debug)]
pub(crate) struct Results {
    rows: Map<String, Value>,
}

impl Results {
    /// Those in `path`; none if there is no such file.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
        };
        let wrong = |what: String| Failure::Failed(format!("{}: {what}", path.display()));
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match value.get("rows") {
            Some(Value::Object(rows)) => Ok(Self { rows: rows.clone() }),
            _ => Err(wrong("no object `rows`: not a file of results".into())),
        }
    }

    /// Writes them to `path`.
    pub(crate) fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = format!("{:#}\n", json!({ "rows": self.rows }));
        fs::write(path, text)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
    }

    /// Keeps a row's report; a former one of the same row is forgotten.
    pub(crate) fn keep(&mut self, row: String, report: Value, conditions: &Conditions) {
        let value = json!({ "conditions": conditions.to_json(), "report": report });
        self.rows.insert(row, value);
    }

    /// A row's report.
    pub(crate) fn report(&self, row: &str) -> Option<&Value> {
        self.rows.get(row).map(|value| &value["report"])
    }

    /// A figure of a row's report.
    pub(crate) fn figure(&self, row: &str, pointer: &str) -> Option<f64> {
        self.report(row)?.pointer(pointer)?.as_f64()
    }

    /// Under which conditions a row was measured.
    pub(crate) fn conditions(&self, row: &str) -> Option<Conditions> {
        Conditions::of_json(&self.rows.get(row)?["conditions"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_from_their_file() {
        let path = std::env::temp_dir().join(format!("groupcast-results-{}", std::process::id()));
        let conditions = Conditions::sample();
        let mut results = match Results::load(&path) {
            Ok(results) => results,
            Err(_) => panic!("a file that is not there yet holds nothing"),
        };
        results.keep("a".into(), json!({"x": 1.0}), &conditions);
        results.keep("a".into(), json!({"x": 2.0}), &conditions);
        assert!(results.save(&path).is_ok());
        let Ok(back) = Results::load(&path) else {
            panic!("it was just written");
        };
        assert_eq!(back.figure("a", "/x"), Some(2.0));
        assert_eq!(back.conditions("a"), Some(conditions));
        assert_eq!(back.report("b"), None);
        fs::write(&path, "[]").expect("the directory is writable");
        assert!(Results::load(&path).is_err());
        fs::remove_file(&path).expect("it was just written");
    }
}
