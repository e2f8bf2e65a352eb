//! `groupcast lab`: runs, judges and draws the papers' tables and figures. Options and printing are
//! here; `groupcast_lab::papers` has the rows and does the work.

mod list;
mod run;

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use groupcast_lab::papers::kept::{self, JudgeError};

use crate::failure::Failure;

/// Regenerate the papers' tables and figures: data, plots, and a verdict on what the paper found.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List every table and figure of the papers, and how its last kept run ended
    List(list::Args),
    /// Run some of them: exit 1 if a verdict fails
    Run {
        /// Which, by id (see `lab list`)
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        options: run::Args,
    },
    /// Run all that can be run: exit 1 if a verdict fails
    All {
        #[command(flatten)]
        options: run::Args,
    },
    /// Judge and draw the kept results again without running them: after a change of a judge or of
    /// a figure
    Judge {
        #[command(flatten)]
        kept: Kept,
    },
}

/// Lists, or runs, judges, draws and writes.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::List(args) => list::run(&args),
        What::Run { ids, options } => run::run(&ids, &options),
        What::All { options } => run::all(&options),
        What::Judge { kept } => judge(&kept),
    }
}

fn judge(kept: &Kept) -> Result<ExitCode, Failure> {
    let records = kept::judge_again(&kept.folder).map_err(|error| {
        let failure = Failure::failed(&error);
        match error {
            JudgeError::Empty { .. } => failure.help(
                "--kept names the folder, which is docs/lab of the repository unless it is given",
            ),
            _ => failure,
        }
    })?;
    let good = records.iter().all(|record| record.verdict.passed());
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Where the project keeps its results.
#[derive(clap::Args)]
struct Kept {
    /// The folder of the kept results
    #[arg(long = "kept", value_name = "DIR", default_value = kept::FOLDER)]
    folder: PathBuf,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(start, end)| {
        let range: Range<u64> = start.parse().ok()?..end.parse().ok()?;
        (!range.is_empty()).then_some(range)
    });
    parsed.ok_or_else(|| "is not a range of seeds such as 1..6 (five seeds, 1 to 5)".to_owned())
}
