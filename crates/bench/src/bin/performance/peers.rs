//! `cargo xtask bench --peers`: other systems that order messages, and the ring, on the same hosts
//! with the same load.
//!
//! Corosync comes from Debian's packages, JGroups by its Maven coordinates; both are installed by
//! name. The measuring is done by the program `peers` (crates/bench/examples), once for each number
//! of hosts and each link. What cannot be installed stands in the table with the reason.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use groupcast_bench::Testbed;
use serde_json::Value;

use crate::conditions::Conditions;
use crate::{Failure, count, exec, shown_from, value_of};

const JGROUPS_GROUP: &str = "org.jgroups:jgroups";
const JGROUPS_VERSION: &str = "5.5.0.Final";
const HOSTS: [&str; 3] = ["3", "5", "8"];
const LINKS: [&str; 3] = ["none", "1gbit", "100mbit"];

/// How the comparison is done.
struct Options {
    hosts: Vec<String>,
    links: Vec<String>,
    runs: u8,
    seconds: u8,
    /// Where rows are kept, one JSON object a line; those of other hosts and links stay.
    out: Option<PathBuf>,
    /// Print the table of what was measured before, and nothing else.
    show: bool,
}

/// `cargo xtask bench --peers …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    let options = Options::parse(args)?;
    let mut rows = match &options.out {
        Some(path) => load(path)?,
        None => Vec::new(),
    };
    if !options.show {
        Testbed::available()?;
        measure(&options, &mut rows)?;
    }
    print!("{}", table(&rows));
    Ok(())
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut options = Self {
            hosts: HOSTS.map(str::to_owned).into(),
            links: LINKS.map(str::to_owned).into(),
            runs: 1,
            seconds: 2,
            out: None,
            show: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || value_of(arg, &mut args);
            match arg.as_str() {
                "--hosts" => options.hosts = vec![count(arg, value()?)?.to_string()],
                "--link" => options.links = vec![link(value()?)?],
                "--runs" => options.runs = count(arg, value()?)?,
                "--duration" => options.seconds = count(arg, value()?)?,
                "--out" => options.out = Some(value()?.into()),
                "--show" => options.show = true,
                other => {
                    return Err(Failure::Usage(format!(
                        "`bench --peers` has no option `{other}`"
                    )));
                }
            }
        }
        shown_from(options.show, options.out.as_deref())?;
        Ok(options)
    }
}

fn link(word: &str) -> Result<String, Failure> {
    if LINKS.contains(&word) {
        return Ok(word.to_owned());
    }
    Err(Failure::Usage(format!(
        "`{word}` is no link: {}",
        LINKS.join(", ")
    )))
}

fn measure(options: &Options, rows: &mut Vec<Value>) -> Result<(), Failure> {
    let groupcast = exec::build_groupcast()?;
    let program = exec::build_example("peers")?;
    let jgroups = jgroups();
    if let Err(reason) = &jgroups {
        eprintln!("warning: {reason}");
    }
    let conditions = Conditions::now();
    if let Some(warning) = conditions.warning() {
        eprintln!("warning: {warning}");
    }
    for link in &options.links {
        for hosts in &options.hosts {
            let mut command =
                exec::command(&program, ["--hosts", hosts, "--link", link, "--groupcast"]);
            command
                .arg(&groupcast)
                .args(["--runs", &options.runs.to_string()])
                .args(["--duration", &options.seconds.to_string()]);
            if let Ok(jar) = &jgroups {
                command.arg("--jgroups").arg(jar);
            }
            rows.retain(|row| row["hosts"].as_u64() != hosts.parse().ok() || row["link"] != *link);
            rows.extend(lines(command, &conditions)?);
            if let Some(path) = &options.out {
                save(path, rows)?;
            }
        }
    }
    Ok(())
}

/// The rows that the program prints.
fn lines(command: std::process::Command, conditions: &Conditions) -> Result<Vec<Value>, Failure> {
    let line = exec::shown(&command);
    exec::output(command)?
        .lines()
        .map(|text| {
            let mut row: Value = serde_json::from_str(text)
                .map_err(|error| format!("`{line}` printed no JSON object: {error}"))?;
            row["conditions"] = conditions.line().into();
            Ok(row)
        })
        .collect()
}

/// JGroups' jar, got by its coordinates.
fn jgroups() -> Result<PathBuf, String> {
    let jar = env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default()
        .join(format!(
            ".m2/repository/org/jgroups/jgroups/{JGROUPS_VERSION}/jgroups-{JGROUPS_VERSION}.jar"
        ));
    if jar.is_file() {
        return Ok(jar);
    }
    let artifact = format!("-Dartifact={JGROUPS_GROUP}:{JGROUPS_VERSION}");
    let mut maven = exec::command(
        "mvn",
        [
            "--quiet",
            "--batch-mode",
            "dependency:get",
            "-Dtransitive=false",
            &artifact,
        ],
    );
    let line = exec::shown(&maven);
    eprintln!("$ {line}");
    match maven.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() && jar.is_file() => Ok(jar),
        Ok(status) if status.success() => {
            Err(format!("no JGroups: `{line}` left no {}", jar.display()))
        }
        Ok(status) => Err(format!("no JGroups: `{line}`: {status}")),
        Err(error) => Err(format!("no JGroups: cannot run `{line}`: {error}")),
    }
}

fn load(path: &PathBuf) -> Result<Vec<Value>, Failure> {
    let Ok(text) = fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    text.lines()
        .map(|line| {
            serde_json::from_str(line)
                .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
        })
        .collect()
}

fn save(path: &PathBuf, rows: &[Value]) -> Result<(), Failure> {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(path, text)
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
}

/// One line a system and link; medians of the runs of each number of hosts.
fn table(rows: &[Value]) -> String {
    let mut conditions: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["conditions"].as_str())
        .collect();
    conditions.sort_unstable();
    conditions.dedup();
    let mut text: String = conditions
        .iter()
        .map(|line| format!("- {line}\n"))
        .collect();
    text += "\n| link | load | system | Mb/s at 3 / 5 / 8 hosts | by raw | mean latency, µs | 99 % | CPU, % of all cores | |\n\
             |---|---|---|--:|--:|--:|--:|--:|---|\n";
    // In the order in which they came.
    let mut order: Vec<Key> = Vec::new();
    let mut groups: BTreeMap<Key, Vec<&Value>> = BTreeMap::new();
    for row in rows {
        let key = [&row["link"], &row["rate"], &row["system"]].map(ToString::to_string);
        if !order.contains(&key) {
            order.push(key.clone());
        }
        groups.entry(key).or_default().push(row);
    }
    order.sort_by_key(|[link, rate, _]| {
        let place = LINKS.iter().position(|known| link.contains(known));
        (place, !rate.contains("max"))
    });
    for key in order {
        text += &line(&key, &groups[&key]);
    }
    text
}

/// Link, load, system, as JSON.
type Key = [String; 3];

fn line([link, rate, system]: &Key, rows: &[&Value]) -> String {
    let plain = |text: &str| text.trim_matches('"').to_owned();
    let load = if rate.contains("max") {
        "full".to_owned()
    } else {
        format!("{rate} Mb/s")
    };
    let at = |of: &dyn Fn(&Value) -> Option<f64>, digits: usize| {
        let figures: Vec<String> = HOSTS
            .iter()
            .map(|hosts| {
                let of_hosts = rows
                    .iter()
                    .filter(|row| row["hosts"].as_u64() == hosts.parse().ok());
                median(of_hosts.filter_map(|row| of(row)).collect())
                    .map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
            })
            .collect();
        figures.join(" / ")
    };
    let pointer = |name: &'static str| move |row: &Value| row.pointer(name)?.as_f64();
    let ratio = |row: &Value| Some(row["mbps_slowest"].as_f64()? / row["raw_mbps"].as_f64()?);
    let full = rate.contains("max");
    let latency = |name| {
        if full {
            // At full speed it is the length of queues.
            String::new()
        } else {
            at(&pointer(name), 0)
        }
    };
    let mut remarks: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            Some(format!(
                "{} hosts: {}",
                row["hosts"],
                row["error"].as_str()?
            ))
        })
        .collect();
    remarks.dedup();
    format!(
        "| {} | {load} | {} | {} | {} | {} | {} | {} | {} |\n",
        plain(link),
        plain(system),
        at(&pointer("/mbps_slowest"), if full { 0 } else { 1 }),
        if full { at(&ratio, 2) } else { String::new() },
        latency("/latency_us/mean"),
        latency("/latency_us/p99"),
        at(&pointer("/cpu_percent"), 0),
        remarks.join("; ").replace('|', "/"),
    )
}

/// The middle one, or the upper of the middle two.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_line_a_system_and_what_is_missing_is_said() {
        let row = |system: &str, hosts: u64, mbps: f64| {
            json!({
                "system": system, "hosts": hosts, "link": "none", "rate": "max", "raw_mbps": 1000.0,
                "mbps_slowest": mbps, "cpu_percent": 80.0, "conditions": "a machine",
            })
        };
        let rows = [
            row("A", 3, 500.0),
            row("A", 3, 700.0),
            row("A", 3, 600.0),
            row("A", 5, 300.0),
            json!({"system": "B", "hosts": 3, "link": "none", "rate": "max", "error": "not installed"}),
        ];
        let text = table(&rows);
        assert!(text.starts_with("- a machine\n"), "{text}");
        assert!(
            text.contains(
                "| none | full | A | 600 / 300 / – | 0.60 / 0.30 / – |  |  | 80 / 80 / – |  |"
            ),
            "{text}"
        );
        assert!(text.contains("| B | – / – / – |") && text.contains("3 hosts: not installed"));
    }

    #[test]
    fn wrong_options_are_usage_errors() {
        for line in [
            &["--link", "10gbit"][..],
            &["--hosts"],
            &["--show"],
            &["--fast"],
        ] {
            let args: Vec<String> = line.iter().map(|arg| (*arg).to_owned()).collect();
            assert!(matches!(task(&args), Err(Failure::Usage(_))), "{line:?}");
        }
    }
}
