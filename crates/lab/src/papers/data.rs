//! What a run brings home: tables of numbers with units, and the conditions that they were taken
//! under.
//!
//! Numbers are kept to ten significant digits, which is what the mathematics of different platforms
//! agree on: equal runs write equal files.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// The result of a run, before anybody judges it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Data {
    /// What was fixed, as name and value with its unit, above all what the paper leaves open.
    pub conditions: Vec<(String, String)>,
    /// What was measured.
    pub tables: Vec<Table>,
}

/// Rows of numbers and words under named columns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its name, which is also the end of its CSV file's name.
    pub name: String,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The rows, each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A column: what it holds and in which unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// What it holds.
    pub name: String,
    /// In which unit; empty for counts, ratios and words.
    pub unit: String,
}

/// One value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number, to ten significant digits. What is not a number (nothing was measured) is `None`.
    Number(Option<f64>),
    /// A word.
    Text(String),
}

impl Data {
    /// No data yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says what was fixed.
    pub fn condition(&mut self, name: &str, value: impl ToString) {
        self.conditions.push((name.to_owned(), value.to_string()));
    }

    /// Appends a table.
    pub fn push(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// The table called `name`; an empty one if there is none, of which no claim holds.
    pub fn table(&self, name: &str) -> &Table {
        static NONE: Table = Table {
            name: String::new(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        let found = self.tables.iter().find(|table| table.name == name);
        found.unwrap_or(&NONE)
    }
}

impl Table {
    /// An empty table; a column is a name and a unit.
    pub fn new(name: &str, columns: &[(&str, &str)]) -> Self {
        let column = |(name, unit): &(&str, &str)| Column {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
        };
        Self {
            name: name.to_owned(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row, which must be as long as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "a row of `{}`", self.name);
        self.rows.push(row);
    }

    /// The rows, to be read by column name.
    pub fn records(&self) -> impl Iterator<Item = RecordRef<'_>> {
        self.rows
            .iter()
            .map(|cells| RecordRef { table: self, cells })
    }

    /// The rows whose column `name` holds the word or number `value`.
    pub fn having<'a>(
        &'a self,
        name: &'a str,
        value: impl Into<Cell>,
    ) -> impl Iterator<Item = RecordRef<'a>> {
        let value = value.into();
        self.records()
            .filter(move |row| row.cell(name) == Some(&value))
    }

    /// The different words of a column, in the order of their first appearance.
    pub fn words(&self, name: &str) -> Vec<&str> {
        let mut words = Vec::new();
        for row in self.records() {
            let word = row.text(name);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    /// Writes it as CSV: a heading of names, with units in parentheses, then the rows.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let heading = self.columns.iter().map(|column| match &*column.unit {
            "" => column.name.clone(),
            unit => format!("{} ({unit})", column.name),
        });
        write_line(out, heading)?;
        for row in &self.rows {
            write_line(out, row.iter().map(Cell::to_string))?;
        }
        Ok(())
    }
}

fn write_line(out: &mut impl Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    for (index, cell) in cells.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        if cell.contains([',', '"', '\n']) {
            write!(out, "{comma}\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            write!(out, "{comma}{cell}")?;
        }
    }
    out.write_all(b"\n")
}

/// A row of a [`Table`], read by column name.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    table: &'a Table,
    cells: &'a [Cell],
}

impl<'a> RecordRef<'a> {
    /// The value of column `name`.
    pub fn cell(&self, name: &str) -> Option<&'a Cell> {
        let mut columns = self.table.columns.iter();
        self.cells
            .get(columns.position(|column| column.name == name)?)
    }

    /// The number of column `name`; not a number if there is none, so that every comparison with it
    /// fails.
    pub fn number(&self, name: &str) -> f64 {
        match self.cell(name) {
            Some(Cell::Number(Some(number))) => *number,
            _ => f64::NAN,
        }
    }

    /// The word of column `name`; empty if there is none.
    pub fn text(&self, name: &str) -> &'a str {
        match self.cell(name) {
            Some(Cell::Text(text)) => text,
            _ => "",
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Number(None) => Ok(()),
            Cell::Number(Some(number)) if (1e-4..1e15).contains(&number.abs()) => {
                write!(f, "{number}")
            }
            Cell::Number(Some(0.0)) => f.write_str("0"),
            Cell::Number(Some(number)) => write!(f, "{number:e}"),
            Cell::Text(text) => f.write_str(text),
        }
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Cell::Number(number.is_finite().then(|| significant(number)))
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Cell::from(number as f64)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Cell::from(f64::from(number))
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Cell::from(number as f64)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

/// `number` to ten significant digits.
fn significant(number: f64) -> f64 {
    format!("{number:.9e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Table {
        let mut table = Table::new("costs", &[("place", ""), ("delay", "ms")]);
        table.row(["near, \"here\"".into(), 1.5.into()]);
        table.row(["far".into(), (1.0 / 3.0).into()]);
        table.row(["nowhere".into(), f64::NAN.into()]);
        table
    }

    #[test]
    fn csv_names_units_and_quotes_what_must_be_quoted() {
        let mut bytes = Vec::new();
        costs().write_csv(&mut bytes).unwrap();
        let expected = "place,delay (ms)\n\"near, \"\"here\"\"\",1.5\nfar,0.3333333333\nnowhere,\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn json_reads_back_what_was_written() {
        let mut data = Data::new();
        data.condition("links", "5 ms");
        data.push(costs());
        let mut small = Table::new("small", &[("p", "")]);
        small.row([Cell::from(1.234_567_890_123e-37)]);
        data.push(small);
        let text = serde_json::to_string(&data).unwrap();
        assert_eq!(serde_json::from_str::<Data>(&text).unwrap(), data);
    }

    #[test]
    fn what_is_not_there_satisfies_no_comparison() {
        let data = Data::new();
        assert_eq!(data.table("none").records().count(), 0);
        let table = costs();
        let nowhere = table.having("place", "nowhere").next().unwrap();
        assert!(nowhere.number("delay").is_nan());
        assert!(nowhere.number("height").is_nan());
        assert_eq!(table.having("delay", 1.5).count(), 1);
    }
}
