//! `groupcast check`: the judge's verdict on recorded histories.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use groupcast_check::check_files;

use crate::failure::{Failure, printed};
use crate::json::write_line;

/// Judge recorded histories: is every promise kept?
///
/// Give the histories of all daemons of one run (`groupcast daemon --history FILE`), each once.
/// Exit 0: all was judged, and there is no violation; 1: there are violations; 2: a file cannot be
/// read, is not a history, or tells what another one tells; 3: no violation, but something could
/// not be judged: a history is missing or ends early.
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
    let report = check_files(&args.files).map_err(|error| {
        Failure::usage(error).help("histories are what `groupcast daemon --history FILE` writes")
    })?;
    let mut stdout = std::io::stdout().lock();
    let written = match args.json {
        true => write_line(&mut stdout, &report),
        false => writeln!(stdout, "{report}"),
    };
    // The exit code is the verdict, unless the report cannot be written.
    printed(written)?;
    Ok(match (report.clean, report.unjudged.is_empty()) {
        (false, _) => ExitCode::from(1),
        (true, false) => ExitCode::from(3),
        (true, true) => ExitCode::SUCCESS,
    })
}
