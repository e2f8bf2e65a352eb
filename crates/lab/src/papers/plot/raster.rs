//! SVG to PNG, for readers that cannot show SVG: by the program `groupcast-draw`, which stands
//! beside this one.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that draws.
const PROGRAM: &str = "groupcast-draw";
/// What to do where it is missing.
pub const MISSING: &str = "figures are written as SVG only: `groupcast-draw`, which makes PNGs of \
                           them, is not beside this program; `cargo build --release --workspace` \
                           builds both";

/// Where the program that draws is, if it is beside this one.
pub fn program() -> Option<PathBuf> {
    let program = env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}

/// Draws `svg` as a PNG with the program at `program`. The error says what was wrong.
pub fn png(program: &Path, svg: &str) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot run {}: {error}", program.display());
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    // It reads all before it writes any. If it ends before that, its last words say why.
    let given = stdin.write_all(svg.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, said.trim()));
    }
    given.map_err(failed)?;
    Ok(output.stdout)
}
