//! `groupcast check`: the judge's verdict on recorded histories.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use groupcast_check::check_files;

use crate::failure::Failure;

/// Judge recorded histories: is every promise kept?
///
/// Give the histories of all daemons of one run (`groupcast daemon --history FILE`). Exit 0: no violation; 1: there are
/// violations; 2: a file cannot be read or is not a history.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The histories, one a daemon
    #[arg(value_name = "HISTORY", required = true)]
    files: Vec<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Judges the files and prints the report.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let report = check_files(&args.files).map_err(Failure::usage)?;
    let mut stdout = std::io::stdout().lock();
    let printed = if args.json {
        serde_json::to_writer(&mut stdout, &report)
            .map_err(Into::into)
            .and_then(|()| writeln!(stdout))
    } else {
        writeln!(stdout, "{report}")
    };
    // The exit code is the verdict; a reader that has gone does not change it.
    drop(printed);
    Ok(if report.clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}
