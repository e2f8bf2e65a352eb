//! Running commands: cargo for what is to be measured, and the programs that measure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Failure;

/// A command of `program`, run in the root of the workspace.
pub(crate) fn command<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies two folders below the root of the workspace")
}

/// A line that shows `command` as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or_default().to_os_string();
    for arg in command.get_args() {
        line.push(" ");
        line.push(arg);
    }
    line.to_string_lossy().into_owned()
}

/// Runs `command` and returns what it prints; its standard error passes through.
pub(crate) fn output(mut command: Command) -> Result<String, Failure> {
    let line = shown(&command);
    eprintln!("$ {line}");
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(Failure::Failed(format!("`{line}`: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds the program `groupcast`; where it is.
pub(crate) fn build_groupcast() -> Result<PathBuf, Failure> {
    build("groupcast", &["--package", "groupcast"])
}

/// Builds a measuring program of crates/bench/examples; where it is.
pub(crate) fn build_example(name: &str) -> Result<PathBuf, Failure> {
    build(name, &["--package", "groupcast-bench", "--example", name])
}

fn build(name: &str, what: &[&str]) -> Result<PathBuf, Failure> {
    // Under `cargo xtask` this is the very cargo that runs the task.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(cargo, ["build", "--release"]);
    command.args(what);
    command.args(["--message-format", "json-render-diagnostics"]);
    let line = shown(&command);
    output(command)?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .ok_or_else(|| Failure::Failed(format!("`{line}` named no program")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_where_the_workspace_is() {
        assert!(root().join("Cargo.lock").is_file());
    }

    #[test]
    fn a_failing_command_and_a_missing_program_are_named() {
        let failed = |command| match output(command) {
            Err(Failure::Failed(message)) => message,
            _ => panic!("it fails"),
        };
        assert!(failed(command("sh", ["-c", "exit 3"])).contains('3'));
        let none: [&str; 0] = [];
        assert!(failed(command("no-such-program-here", none)).contains("no-such-program-here"));
    }
}
