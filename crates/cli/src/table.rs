//! Tables for people: columns as wide as their widest cell.

use std::io::{self, Write};

use anstyle::Style;

/// Rows under a heading.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()],
        }
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes the table, with the heading in bold.
    pub(crate) fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let style = match index {
                0 => Style::new().bold(),
                _ => Style::new(),
            };
            for (column, cell) in row.iter().enumerate() {
                let last = column + 1 == row.len();
                let width = if last { 0 } else { widths[column] };
                write!(out, "{style}{cell:width$}{style:#}")?;
                out.write_all(if last { b"\n" } else { b"  " })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_is_not_padded() {
        let mut table = Table::new(&["group", "members"]);
        table.row(["a-long-name".into(), "al@h".into()]);
        table.row(["g".into(), "al@h, bo@h".into()]);
        let mut bytes = Vec::new();
        table
            .write(&mut anstream::StripStream::new(&mut bytes))
            .unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "group        members\na-long-name  al@h\ng            al@h, bo@h\n"
        );
    }
}
