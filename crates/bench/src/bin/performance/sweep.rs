//! `cargo xtask bench`: `groupcast bench ring` over its settings ([`plan`]), the results' file
//! ([`results`](crate::results)) and the table ([`table`]).

use std::path::{Path, PathBuf};

use groupcast_bench::Testbed;
use serde_json::Value;

use crate::conditions::Conditions;
use crate::plan::{self, PARTS, Rate, Row};
use crate::results::Results;
use crate::{Failure, count, exec, shown_from, table, value_of};

/// How the sweep is done.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Options {
    /// Only these parts of the plan.
    only: Vec<String>,
    /// Only three hosts, one run of each.
    quick: bool,
    /// Runs of each row.
    runs: u8,
    /// Seconds that each run counts.
    seconds: u32,
    /// Where results are kept.
    out: Option<PathBuf>,
    /// What is measured, if not the build of this workspace.
    binary: Option<PathBuf>,
    /// Print the table of what was measured before, and nothing else.
    show: bool,
}

/// `cargo xtask bench …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    sweep(&Options::parse(args)?)
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut options = Self {
            only: Vec::new(),
            quick: false,
            runs: 3,
            seconds: 2,
            out: None,
            binary: None,
            show: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || value_of(arg, &mut args);
            match arg.as_str() {
                "--only" => options.only = parts(value()?)?,
                "--quick" => (options.quick, options.runs) = (true, 1),
                "--runs" => options.runs = count(arg, value()?)?,
                "--duration" => options.seconds = u32::from(count(arg, value()?)?),
                "--out" => options.out = Some(value()?.into()),
                "--binary" => options.binary = Some(value()?.into()),
                "--show" => options.show = true,
                other => {
                    return Err(Failure::Usage(format!(
                        "`bench` has no option `{other}`; call `groupcast bench ring` for a single run"
                    )));
                }
            }
        }
        shown_from(options.show, options.out.as_deref())?;
        Ok(options)
    }

    /// Whether `row` is asked for.
    fn wants(&self, row: &Row) -> bool {
        (self.only.is_empty() || self.only.iter().any(|part| part == row.part))
            && (!self.quick || row.call.hosts <= 3)
    }

    /// What is to be measured: the rows that are asked for, and what half of the most is half of,
    /// if `results` do not have it.
    fn rows(&self, results: &Results) -> Vec<Row> {
        let mut rows = plan::all();
        let missing: Vec<String> = rows
            .iter()
            .filter(|row| self.wants(row) && row.call.rate == Rate::Half)
            .map(|row| row.call.at_most().to_string())
            .filter(|most| results.report(most).is_none())
            .collect();
        rows.retain(|row| self.wants(row) || missing.contains(&row.call.to_string()));
        rows
    }
}

/// Names of parts, separated by commas.
fn parts(list: &str) -> Result<Vec<String>, Failure> {
    let names = || PARTS.map(|(name, _)| name);
    list.split(',')
        .map(|part| {
            if names().contains(&part) {
                Ok(part.to_owned())
            } else {
                let names = names().join(", ");
                Err(Failure::Usage(format!(
                    "there is no part `{part}`: {names}"
                )))
            }
        })
        .collect()
}

fn sweep(options: &Options) -> Result<(), Failure> {
    let mut results = match &options.out {
        Some(path) => Results::load(path)?,
        None => Results::default(),
    };
    if !options.show {
        let binary = binary(options)?;
        Testbed::available()?;
        let conditions = Conditions::now();
        if let Some(warning) = conditions.warning() {
            eprintln!("warning: {warning}");
        }
        for row in &options.rows(&results) {
            let report = measure(row, options, &binary, &results)?;
            results.keep(row.call.to_string(), report, &conditions);
            // After every row: an interrupted sweep loses no more than one.
            if let Some(path) = &options.out {
                results.save(path)?;
            }
        }
    }
    print!("{}", table::table(&results));
    Ok(())
}

/// What is measured.
fn binary(options: &Options) -> Result<PathBuf, Failure> {
    match &options.binary {
        Some(binary) => Ok(std::path::absolute(binary)
            .map_err(|error| format!("cannot find {}: {error}", binary.display()))?),
        None => exec::build_groupcast(),
    }
}

/// One row: `groupcast bench ring` with its arguments.
fn measure(
    row: &Row,
    options: &Options,
    binary: &Path,
    results: &Results,
) -> Result<Value, Failure> {
    let half = match row.call.rate {
        Rate::Half => {
            let most = row.call.at_most();
            let figure = results.figure(&most.to_string(), "/mbps_slowest");
            figure.ok_or_else(|| {
                format!("half of what is carried by `{most}`, which carried nothing")
            })? / 2.0
        }
        Rate::Max | Rate::Mbps(_) => 0.0,
    };
    let mut bench = exec::command(binary, ["bench", "ring", "--json"]);
    bench
        .args(["--runs", &options.runs.to_string()])
        .args(["--duration", &options.seconds.to_string()])
        .args(row.call.arguments(half));
    let line = exec::shown(&bench);
    let text = exec::output(bench)?;
    serde_json::from_str(text.lines().last().unwrap_or_default())
        .map_err(|error| Failure::Failed(format!("`{line}` printed no JSON object: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn options_choose_rows() {
        let Ok(options) = parse("--only 1gbit,loss --runs 5 --duration 4 --out x.json") else {
            panic!("these are options");
        };
        assert_eq!((options.runs, options.seconds), (5, 4));
        assert_eq!(options.rows(&Results::default()).len(), 6 + 4);
        let Ok(quick) = parse("--quick") else {
            panic!("this is an option");
        };
        assert_eq!(quick.runs, 1);
        let rows = quick.rows(&Results::default());
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| row.call.hosts <= 3));
    }

    #[test]
    fn half_of_the_most_is_measured_after_the_most() {
        let Ok(options) = parse("--only latency") else {
            panic!("these are options");
        };
        let rows = options.rows(&Results::default());
        let half = rows.iter().position(|row| row.call.rate == Rate::Half);
        let half = half.expect("latency is measured at half of the most, too");
        let most = rows[half].call.at_most().to_string();
        let before = |row: &Row| row.call.to_string() == most;
        assert_eq!(rows.iter().filter(|row| before(row)).count(), 1);
        assert!(rows[..half].iter().any(before));

        let mut results = Results::default();
        results.keep(most.clone(), Value::Null, &Conditions::sample());
        assert!(!options.rows(&results).iter().any(before));
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        for line in [
            "--only",
            "--only fast",
            "--runs 0",
            "--runs x",
            "--hosts 3",
            "--show",
        ] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
