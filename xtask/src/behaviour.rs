//! `cargo xtask behaviour`: what the protocols do, beside what they did when it was last recorded.
//!
//! Three kinds of entries: trace hashes of the swarm, captures of bulk transfers, data of the
//! laboratory's rows. A change that is meant to change nothing leaves all of them; a change that is
//! meant to, records its entries anew in a commit that says why.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::exec::{self, cargo};
use crate::{Failure, families, swarm};

/// The recorded entries.
const RECORDED: &str = "suite/behaviour/recorded.json";
/// The scenario of the captures.
const SCENARIO: &str = "suite/behaviour/bulk.toml";
/// Seeds of each family.
const SEEDS: &str = "0..200";
/// A row that takes longer is not recorded.
const ROW_TIME_MAX: Duration = Duration::from_secs(60);
/// A capture with fewer packets has no transfer in it.
const PACKETS_MIN: usize = 100;
/// The policies of the captures, each under every one of [`CONDITIONS`].
const POLICIES: [(&str, &[&str]); 4] = [
    ("ack", &["protocol.policy=ack"]),
    ("nak", &["protocol.policy=nak"]),
    ("ring", &["protocol.policy=ring"]),
    ("tree", &["protocol.policy=tree", "protocol.height=2"]),
];
/// The settings under which each policy is captured.
const CONDITIONS: [(&str, &[&str]); 5] = [
    ("clean", &["protocol.rate=max"]),
    ("loss", &["protocol.rate=max", "network.link.loss=2 %"]),
    (
        "paper",
        &[
            "protocol.preset=paper",
            "protocol.window=20",
            "network.link.loss=1 %",
        ],
    ),
    (
        "parity",
        &[
            "protocol.rate=max",
            "protocol.block=16",
            "network.link.loss=8 %",
        ],
    ),
    (
        "auto",
        &[
            "protocol.rate=auto",
            "protocol.slow=wait",
            "network.link.loss=0.5 %",
        ],
    ),
];

/// What a run of `cargo xtask behaviour` was asked for.
#[derive(Default)]
struct Options {
    /// Write the entries instead of comparing them.
    record: bool,
    /// Only entries whose name begins so.
    only: Option<String>,
    /// A swarm that is built already.
    swarm: Option<PathBuf>,
    /// A `groupcast` that is built already.
    groupcast: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                let value = args.next().cloned();
                value.ok_or_else(|| Failure::Usage(format!("`{arg}` needs a value")))
            };
            match arg.as_str() {
                "--record" => options.record = true,
                "--only" => options.only = Some(value()?),
                "--swarm" => options.swarm = Some(value()?.into()),
                "--groupcast" => options.groupcast = Some(value()?.into()),
                other => {
                    let problem = format!("`behaviour` has no option `{other}`");
                    return Err(Failure::Usage(problem));
                }
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|start| name.starts_with(start))
    }
}

/// `cargo xtask behaviour …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    let options = Options::parse(args)?;
    let programs = Programs::of(&options)?;
    let recorded = read()?;
    let names = names(&programs, &recorded, &options)?;
    if names.is_empty() {
        return Err(Failure::Usage("--only matches no entry".into()));
    }
    let mut entries = recorded.clone();
    let mut changed = Vec::new();
    for name in &names {
        let Some(now) = programs.observe(name, options.record)? else {
            continue;
        };
        let before = recorded.get(name);
        let verdict = match before {
            Some(before) if *before == now => "as recorded",
            Some(_) => "CHANGED",
            None => "new",
        };
        println!("{now}  {verdict:<11}  {name}");
        if before != Some(&now) {
            changed.push(name.clone());
        }
        entries.insert(name.clone(), now);
    }
    if options.record {
        let text = serde_json::to_string_pretty(&json!(entries)).expect("strings are JSON");
        let path = exec::root().join(RECORDED);
        fs::write(&path, text + "\n")
            .map_err(|error| format!("cannot write {RECORDED}: {error}"))?;
        println!("{} of {} entries recorded anew", changed.len(), names.len());
        return Ok(());
    }
    println!("{} entries, {} changed", names.len(), changed.len());
    match changed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "not as recorded: {}; if that is meant, `cargo xtask behaviour --record` in a commit of its own",
            changed.join(", ")
        ))),
    }
}

/// The recorded entries: a name, and a hash of what was observed.
fn read() -> Result<BTreeMap<String, String>, String> {
    let path = exec::root().join(RECORDED);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text =
        fs::read_to_string(&path).map_err(|error| format!("cannot read {RECORDED}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{RECORDED} is no map of strings: {error}"))
}

/// The entries to look at. Families and rows are those that are recorded, or, to record the first
/// time, all that can be run.
fn names(
    programs: &Programs,
    recorded: &BTreeMap<String, String>,
    options: &Options,
) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for (policy, _) in POLICIES {
        for (condition, _) in CONDITIONS {
            names.push(format!("capture {policy} {condition}"));
        }
    }
    let listed = ["swarm ", "lab "];
    let is_listed = |name: &&String| listed.iter().any(|kind| name.starts_with(kind));
    names.extend(recorded.keys().filter(is_listed).cloned());
    if recorded.is_empty() {
        let families = families::names()?;
        names.extend(families.iter().map(|family| format!("swarm {family}")));
        names.extend(programs.rows()?.iter().map(|row| format!("lab {row}")));
    }
    names.retain(|name| options.wants(name));
    Ok(names)
}

/// The programs that are observed.
struct Programs {
    swarm: PathBuf,
    groupcast: PathBuf,
}

impl Programs {
    /// Those that were named, the others built.
    fn of(options: &Options) -> Result<Self, Failure> {
        let swarm = match &options.swarm {
            Some(path) => path.clone(),
            None => swarm::built()?,
        };
        let groupcast = match &options.groupcast {
            Some(path) => path.clone(),
            None => {
                exec::hand_over(cargo(["build", "--release", "--bin", "groupcast"]))?;
                exec::built("release", "groupcast")
            }
        };
        Ok(Self { swarm, groupcast })
    }

    /// Names of the laboratory's rows.
    fn rows(&self) -> Result<Vec<String>, Failure> {
        let list = exec::output(exec::command(&self.groupcast, ["lab", "list", "--json"]))?;
        let rows = list.lines().filter_map(|line| {
            let row: Value = serde_json::from_str(line).ok()?;
            row["id"].as_str().map(str::to_owned)
        });
        Ok(rows.collect())
    }

    /// A hash of what the entry `name` stands for. `None`: a row that cannot be run, or takes too
    /// long to be recorded.
    fn observe(&self, name: &str, record: bool) -> Result<Option<String>, Failure> {
        let words: Vec<&str> = name.split(' ').collect();
        match words[..] {
            ["swarm", family] => self.swarm(family).map(Some),
            ["capture", policy, condition] => self.capture(policy, condition).map(Some),
            ["lab", row] => match self.row(row)? {
                None if !record => Err(Failure::Failed(format!(
                    "`{row}` does not end within {ROW_TIME_MAX:?}, or cannot be run"
                ))),
                hash => Ok(hash),
            },
            _ => Err(Failure::Failed(format!(
                "{RECORDED} names an unknown entry: {name}"
            ))),
        }
    }

    /// The combined trace hash of [`SEEDS`].
    fn swarm(&self, family: &str) -> Result<String, Failure> {
        let args = ["--protocol", family, "--seeds", SEEDS, "--json"];
        let printed = exec::output(exec::command(&self.swarm, args))?;
        let last = printed.lines().last().unwrap_or_default();
        let total: Value = serde_json::from_str(last)
            .map_err(|error| format!("the swarm ends with no JSON object: {error}"))?;
        let hash = total["trace_hash"].as_str();
        hash.map(str::to_owned)
            .ok_or_else(|| Failure::Failed("the swarm tells no trace_hash".into()))
    }

    /// What passed the sender's link in both directions.
    fn capture(&self, policy: &str, condition: &str) -> Result<String, Failure> {
        let settings = |list: &[(&str, &'static [&'static str])], wanted: &str| {
            let found = list.iter().find(|(name, _)| *name == wanted);
            found.map_or(&[][..], |(_, settings)| *settings)
        };
        let out = folder(&format!("{policy}-{condition}"))?;
        let out_text = out.display().to_string();
        let mut args = vec![
            "sim", SCENARIO, "--seeds", "1..2", "--jobs", "1", "--out", &out_text,
        ];
        let all = [
            settings(&POLICIES, policy),
            settings(&CONDITIONS, condition),
        ]
        .concat();
        all.iter()
            .for_each(|setting| args.extend(["--set", setting]));
        exec::output(exec::command(&self.groupcast, args))?;
        let mut hash = Hash::new();
        let mut packets = 0;
        for file in files(&out, "pcap")? {
            let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            packets += each_packet(&bytes, |packet| hash.add(packet));
        }
        if packets < PACKETS_MIN {
            let problem = format!("{policy} {condition}: {packets} packets are no transfer");
            return Err(Failure::Failed(problem));
        }
        Ok(hash.text())
    }

    /// The data of a quick run with one seed.
    fn row(&self, row: &str) -> Result<Option<String>, Failure> {
        let out = folder(row)?;
        let out_text = out.display().to_string();
        let args = [
            "lab", "run", row, "--quick", "--seeds", "0..1", "--out", &out_text,
        ];
        let mut command = exec::command(&self.groupcast, args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if !ends_within(command, ROW_TIME_MAX)? {
            return Ok(None);
        }
        let file = out.join(format!("{row}.json"));
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(None);
        };
        let record: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no JSON: {error}", file.display()))?;
        let mut hash = Hash::new();
        hash.add(record["data"].to_string().as_bytes());
        Ok(Some(hash.text()))
    }
}

/// An empty folder of that name, for results.
fn folder(name: &str) -> Result<PathBuf, String> {
    let path = exec::built("behaviour", name);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The files of `folder` with that ending, by name.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    Ok(files)
}

/// Runs `command`; whether it ended by itself within `time_max`. A verdict that fails is an end,
/// too.
fn ends_within(mut command: Command, time_max: Duration) -> Result<bool, String> {
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot run `{}`: {error}", exec::shown(&command)))?;
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(true),
            Ok(None) if begun.elapsed() < time_max => {
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => {
                // It may have ended meanwhile: both are as well.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(false);
            }
        }
    }
}

/// Calls `each` with the time and the protocol's bytes of every packet of a capture: without
/// headers, the node's prefix, the channel's number and the seal's tag. How many there were.
fn each_packet(capture: &[u8], mut each: impl FnMut(&[u8])) -> usize {
    /// Of the file, of a packet in it; of Ethernet, IPv4 and UDP; prefix and channel; tag.
    const FILE: usize = 24;
    const RECORD: usize = 16;
    const HEADERS: usize = 14 + 20 + 8;
    const PREFIX: usize = 24 + 1;
    const TAG: usize = 16;
    let mut rest = capture.get(FILE..).unwrap_or_default();
    let mut packets = 0;
    while let Some((record, after)) = rest.split_at_checked(RECORD) {
        let len = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        let Some((frame, next)) = after.split_at_checked(len) else {
            break;
        };
        each(&record[..12]);
        each(
            frame
                .get(HEADERS + PREFIX..len.saturating_sub(TAG))
                .unwrap_or_default(),
        );
        packets += 1;
        rest = next;
    }
    packets
}

/// FNV-1a with 64 bits: the same on every machine and in every release.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv() {
        let mut hash = Hash::new();
        hash.add(b"foobar");
        assert_eq!(hash.text(), "85944171f73967e8");
    }

    #[test]
    fn only_the_protocols_bytes_and_the_time_are_looked_at() {
        let capture = |prefix: u8, body: u8| {
            let mut file = vec![0; 24];
            file.extend([7; 8]);
            file.extend(90u32.to_le_bytes());
            file.extend(90u32.to_le_bytes());
            file.extend([prefix; 67]);
            file.extend([body; 7]);
            file.extend([prefix; 16]);
            let mut hash = Hash::new();
            assert_eq!(each_packet(&file, |bytes| hash.add(bytes)), 1);
            hash.text()
        };
        assert_eq!(capture(1, 5), capture(2, 5));
        assert_ne!(capture(1, 5), capture(1, 6));
    }

    #[test]
    fn wrong_calls_are_usage_errors() {
        for args in [&["--recrod"][..], &["--only"], &["--swarm"]] {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert!(matches!(Options::parse(&args), Err(Failure::Usage(_))));
        }
    }
}
