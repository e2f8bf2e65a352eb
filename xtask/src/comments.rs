//! Lines of comments are as long as lines of code: rustfmt leaves them as they are.

use std::fs;
use std::path::Path;

use crate::exec;

/// The longest line: the default of rustfmt.
const COLUMNS: usize = 100;
/// Folders with sources.
const ROOTS: &[&str] = &["bindings", "crates", "examples", "fuzz", "suite", "xtask"];

/// The comments that are too long, one a line; empty if there are none.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let mut breaches = Vec::new();
    for root in ROOTS {
        let path = exec::root().join(root);
        if path.is_dir() {
            walk(&path, &mut breaches)?;
        }
    }
    Ok(breaches)
}

fn walk(folder: &Path, breaches: &mut Vec<String>) -> Result<(), String> {
    let trouble = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, breaches)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).map_err(trouble)?;
            let path = path.strip_prefix(exec::root()).unwrap_or(&path);
            breaches.extend(too_long(&text).map(|number| {
                format!(
                    "{}:{number}: a comment beyond column {COLUMNS}: break the line",
                    path.display()
                )
            }));
        }
    }
    Ok(())
}

/// The numbers of the lines that are comments, could be broken and are too long. Examples,
/// drawings, tables and addresses stay as they are.
fn too_long(text: &str) -> impl Iterator<Item = usize> {
    let mut is_fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let comment = line.trim_start().strip_prefix("//")?;
        let words = comment.trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= words.starts_with("```");
        let stays = is_fenced || words.starts_with('|') || words.contains("://");
        (!stays && line.chars().count() > COLUMNS).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_where_code_does() {
        let words = "word ".repeat(20);
        let micros = "\u{b5}".repeat(90);
        let text = format!(
            "//! {words}\n    /// {words}\n// short\nlet text = \"{words}\";\n\
             /// | {words} |\n//! ```text\n//! {words}\n//! ```\n// {micros}\n// {words}\n"
        );
        assert_eq!(too_long(&text).collect::<Vec<_>>(), [1, 2, 10]);
    }
}
