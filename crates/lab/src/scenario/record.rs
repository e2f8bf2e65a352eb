//! Lines of results: named values, as CSV and as JSON.

use std::fmt::Write as _;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value of a line.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// There is none: no message, no latency.
    None,
    /// A count.
    Integer(u64),
    /// A measure.
    Number(f64),
    /// A name.
    Text(String),
}

impl Cell {
    /// As a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::None | Self::Text(_) => None,
        }
    }

    fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::None => Ok(()),
            Self::Integer(number) => write!(out, "{number}"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => write!(out, "{text}"),
        };
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Integer(number as u64)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        // What is no number does not exist.
        match number.is_finite() {
            true => Self::Number(number),
            false => Self::None,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Integer(number) => serializer.serialize_u64(*number),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// A line: its columns in order.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Record {
    columns: Vec<(&'static str, Cell)>,
}

impl Record {
    /// Adds a column.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Cell>) -> Self {
        self.columns.push((name, value.into()));
        self
    }

    /// Its columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, &Cell)> {
        self.columns.iter().map(|(name, cell)| (*name, cell))
    }

    /// The value of a column, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<&Cell> {
        let named = |(column, _): &&(&str, Cell)| *column == name;
        self.columns.iter().find(named).map(|(_, cell)| cell)
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (name, cell) in &self.columns {
            map.serialize_entry(name, cell)?;
        }
        map.end()
    }
}

/// Lines with the same columns, as CSV without its heading.
#[derive(Clone, Default, Debug)]
pub(super) struct Sheet {
    pub(super) heading: String,
    pub(super) lines: String,
}

impl Sheet {
    /// One that may stay without a line.
    pub(super) fn with_columns(names: &[&str]) -> Self {
        Self {
            heading: names.join(",") + "\n",
            lines: String::new(),
        }
    }

    /// Adds a line. All have the same columns, those of the heading.
    pub(super) fn push(&mut self, record: &Record) {
        let names = || {
            record
                .columns()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
                .join(",")
                + "\n"
        };
        if self.heading.is_empty() {
            self.heading = names();
        }
        debug_assert_eq!(self.heading, names(), "a line with other columns");
        for (index, (_, cell)) in record.columns().enumerate() {
            if index > 0 {
                self.lines.push(',');
            }
            cell.write(&mut self.lines);
        }
        self.lines.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_csv_and_json() {
        let record = Record::default()
            .with("seed", 7_u64)
            .with("share", 0.1)
            .with("latency", None::<f64>)
            .with("nothing", f64::NAN)
            .with("name", "a \"b\", c");
        let mut sheet = Sheet::default();
        sheet.push(&record);
        sheet.push(&record);
        assert_eq!(sheet.heading, "seed,share,latency,nothing,name\n");
        let line = "7,0.1,,,\"a \"\"b\"\", c\"\n";
        assert_eq!(sheet.lines, line.repeat(2));
        assert_eq!(
            serde_json::to_string(&record).unwrap(),
            r#"{"seed":7,"share":0.1,"latency":null,"nothing":null,"name":"a \"b\", c"}"#
        );
    }
}
