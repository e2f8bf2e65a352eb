//! `groupcast lab run` and `lab all`: run rows, judge them, write data and figures, or compare with
//! what is kept.

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use groupcast_lab::papers::{
    self, Context, LabHost, Options, Record, Reproduction, Row, kept, raster, record, rows,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::Kept;
use crate::failure::{Failure, printed};
use crate::number;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Where the data, the figures and the verdicts go
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    out: PathBuf,
    /// What stands in for the paper's hosts: calc, sim, or net (namespaces of this machine, as
    /// root) [default: the row's first]
    #[arg(long, value_name = "HOST")]
    host: Option<LabHost>,
    /// The seeds to run, A to B−1 [default: the row's]
    #[arg(long, value_name = "A..B", allow_hyphen_values = true, value_parser = super::seeds, conflicts_with = "verify")]
    seeds: Option<Range<u64>>,
    /// Runs at the same time [default: one a processor]
    #[arg(long, value_name = "N", value_parser = number::above_0::<NonZeroUsize>)]
    jobs: Option<NonZeroUsize>,
    /// Fewer points and shorter runs: the shape in seconds
    #[arg(long, conflicts_with_all = ["verify", "keep"])]
    quick: bool,
    /// Run as the kept result was run and compare: exit 1 if it differs
    #[arg(long)]
    verify: bool,
    /// Keep the result, for the book and for --verify
    #[arg(long, conflicts_with = "verify")]
    keep: bool,
    #[command(flatten)]
    kept: Kept,
    /// Print one JSON object a row
    #[arg(long)]
    json: bool,
}

/// Runs the rows called `ids`.
pub(super) fn run(ids: &[String], args: &Args) -> Result<ExitCode, Failure> {
    let mut jobs = Vec::new();
    for id in ids {
        let row = papers::row(id).ok_or_else(|| unknown(id))?;
        let reproduction = papers::reproduction(id).ok_or_else(|| {
            Failure::usage(format!(
                "`{id}` cannot be run yet: its protocol is not built"
            ))
            .help("`groupcast lab list` shows what was run")
        })?;
        let host = args.host.unwrap_or(reproduction.hosts()[0]);
        if !reproduction.hosts().contains(&host) {
            let hosts: Vec<String> = reproduction
                .hosts()
                .iter()
                .map(LabHost::to_string)
                .collect();
            let problem = format!("`{id}` does not run on {host}");
            return Err(Failure::usage(problem).help(format!("it runs on {}", hosts.join(" and "))));
        }
        jobs.push(Job {
            row,
            reproduction,
            host,
        });
    }
    run_jobs(&jobs, args)
}

/// Runs every row that can be run. A row that does not have the chosen host runs on its first.
pub(super) fn all(args: &Args) -> Result<ExitCode, Failure> {
    let jobs: Vec<Job> = rows()
        .filter_map(|row| {
            let reproduction = papers::reproduction(row.id)?;
            let wanted = args.host.filter(|host| reproduction.hosts().contains(host));
            let host = wanted.unwrap_or(reproduction.hosts()[0]);
            Some(Job {
                row,
                reproduction,
                host,
            })
        })
        .collect();
    run_jobs(&jobs, args)
}

fn unknown(id: &str) -> Failure {
    let failure = Failure::usage(format!("there is no row `{id}` in the papers"));
    let family = id.split('-').next().unwrap_or(id);
    let kin: Vec<&str> = rows()
        .map(|row| row.id)
        .filter(|other| other.starts_with(family))
        .collect();
    match kin.is_empty() {
        true => failure.help("`groupcast lab list` shows all"),
        false => failure.help(format!("one of: {}", kin.join(", "))),
    }
}

/// A row to run, and its host.
struct Job {
    row: &'static Row,
    reproduction: &'static dyn Reproduction,
    host: LabHost,
}

/// The result of a row.
struct Outcome {
    record: Record,
    files: Vec<PathBuf>,
    /// The differences from the kept run; `None` without `--verify`.
    differences: Option<Vec<String>>,
}

impl Outcome {
    fn is_good(&self) -> bool {
        match &self.differences {
            Some(differences) => differences.is_empty(),
            None => self.record.verdict.passed(),
        }
    }
}

fn run_jobs(jobs: &[Job], args: &Args) -> Result<ExitCode, Failure> {
    if raster::program().is_none() {
        anstream::eprintln!("note: {}", raster::MISSING);
    }
    // Rows may run for hours: what cannot be written to is told before.
    let kept = args.keep.then_some(&args.kept.folder);
    for folder in std::iter::once(&args.out).chain(kept) {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let mut good = true;
    for job in jobs {
        let outcome = job.run(args)?;
        good &= outcome.is_good();
        printed(match args.json {
            true => print_json(&outcome),
            false => print(&outcome),
        })?;
    }
    if args.keep {
        let folder = &args.kept.folder;
        kept::load(folder)
            .and_then(|records| kept::write_index(folder, &records))
            .map_err(|error| cannot_write(folder, &error))?;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

impl Job {
    fn run(&self, args: &Args) -> Result<Outcome, Failure> {
        let before = if args.verify {
            Some(self.kept(args)?)
        } else {
            None
        };
        let options = self.options(args, before.as_ref())?;
        let bar = progress(self.row.id);
        let watch = |done: usize, of: usize| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        };
        let data = self.reproduction.run(&Context::new(&options, &watch));
        bar.finish_and_clear();
        let data = data.map_err(|error| Failure::failed(format!("{}: {error}", self.row.id)))?;
        let record = Record::new(
            self.row,
            self.reproduction,
            &options,
            record::commit(),
            data,
        );
        let mut files = record
            .write(self.reproduction, &args.out)
            .map_err(|error| cannot_write(&args.out, &error))?;
        if args.keep {
            let folder = &args.kept.folder;
            let kept = record.keep(self.reproduction, folder);
            files.extend(kept.map_err(|error| cannot_write(folder, &error))?);
        }
        let differences = before.map(|before| before.differences(&record));
        Ok(Outcome {
            record,
            files,
            differences,
        })
    }

    /// The kept run of this row.
    fn kept(&self, args: &Args) -> Result<Record, Failure> {
        let folder = &args.kept.folder;
        let record = Record::load(folder, self.row.id, self.host).map_err(|error| {
            Failure::failed(format!("cannot read {}: {error}", folder.display()))
        })?;
        record.ok_or_else(|| {
            let (id, folder) = (self.row.id, folder.display());
            Failure::failed(format!(
                "no run of `{id}` on {} is kept in {folder}",
                self.host
            ))
            .help("run in a checkout, or say where it is with --kept DIR")
        })
    }

    fn options(&self, args: &Args, before: Option<&Record>) -> Result<Options, Failure> {
        let seeds = match before {
            Some(before) => before.seeds.clone(),
            None => args.seeds.clone().unwrap_or(self.reproduction.seeds()),
        };
        let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let executable = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this executable: {error}")))?;
        Ok(Options {
            host: self.host,
            seeds,
            quick: args.quick,
            jobs: args.jobs.unwrap_or(processors).get(),
            executable,
            out: Some(args.out.clone()),
        })
    }
}

fn cannot_write(folder: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write into {}: {error}", folder.display()))
}

/// A bar on stderr, if that is a terminal.
fn progress(id: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} {elapsed}");
    let bar = ProgressBar::new(0).with_prefix(id.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn print_json(outcome: &Outcome) -> io::Result<()> {
    let record = &outcome.record;
    let line = json!({
        "id": record.id,
        "paper": record.paper,
        "where": record.place,
        "status": record.status,
        "host": record.host,
        "seeds": format!("{}..{}", record.seeds.start, record.seeds.end),
        "quick": record.quick,
        "commit": record.commit,
        "verdict": record.verdict,
        "files": outcome.files,
        "differences": outcome.differences,
    });
    writeln!(io::stdout().lock(), "{line}")
}

fn print(outcome: &Outcome) -> io::Result<()> {
    let colour = |colour: AnsiColor| Style::new().bold().fg_color(Some(colour.into()));
    let (green, red, bold) = (
        colour(AnsiColor::Green),
        colour(AnsiColor::Red),
        Style::new().bold(),
    );
    let record = &outcome.record;
    let mut out = anstream::stdout().lock();
    writeln!(
        out,
        "{bold}{}{bold:#}  {} {}  {}",
        record.id, record.paper, record.place, record.title
    )?;
    writeln!(out, "  finding   {}", record.finding)?;
    for check in &record.verdict.checks {
        let (style, sign) = if check.held {
            (green, "holds")
        } else {
            (red, "fails")
        };
        writeln!(out, "  {style}{sign}{style:#}     {}", check.claim)?;
        writeln!(out, "            {}", check.measured)?;
    }
    for note in &record.verdict.notes {
        writeln!(out, "  note      {note}")?;
    }
    let style = if record.verdict.passed() { green } else { red };
    writeln!(
        out,
        "  verdict   {style}{}{style:#} ({})",
        record.status,
        record.provenance()
    )?;
    match &outcome.differences {
        None => {}
        Some(differences) if differences.is_empty() => writeln!(out, "  verified  as kept")?,
        Some(differences) => writeln!(out, "  {red}differs{red:#}   {}", differences.join("; "))?,
    }
    let names: Vec<String> = outcome
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    writeln!(out, "  files     {}", names.join(" "))
}
