//! A local user against `recv` as root, in a directory that both can write to: nothing outside of
//! it may change.
//!
//! Each race is one transfer, with a `racer` beside it who does what once worked. He is worth
//! something only if he wins against a receiver that follows links: another binary can be named to
//! see that.

mod racer;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use serde_json::{Value, json};

use self::racer::{RACER, Way};
use super::bars::{Bar, Bars, load_average};
use super::files::Site;
use super::{Outcome, Role, until};

/// Directories of the tree that is sent, and files of each.
const DIRECTORIES: usize = 8;
const FILES: usize = 100;
/// Bytes of a file, and megabits a second of a transfer that is to be broken off: it takes seconds.
const SIZE: usize = 5_000;
const SLOW: &str = "8";
/// How long a transfer may take, won or lost.
const LIMIT: Duration = Duration::from_secs(20);
/// What the victim's files hold.
const PRECIOUS: &str = "precious";

/// The role that the soak program plays in a process of its own, by its hidden word.
pub const ROLE: Role = (RACER, racer::main);

/// Runs `rounds` races, each way in turn, against the binary under test, or against `binary`.
/// Prints what it finds; an error if the racer won against the binary under test, or never against
/// another.
pub fn run(rounds: u64, binary: Option<&Path>) -> Outcome<Value> {
    let mut site = Site::with_binary(2, Link::Unlimited, binary)?;
    let directory = site.cluster.bed.directory().to_owned();
    // Where he may run it.
    let program = directory.join("racer-program");
    fs::copy(std::env::current_exe()?, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let names: Vec<String> = (0..DIRECTORIES).map(|n| format!("tree/d{n}")).collect();
    let source = directory.join("source");
    for name in &names {
        fs::create_dir_all(source.join(name))?;
        for file in 0..FILES {
            fs::write(source.join(name).join(format!("f{file}")), [7; SIZE])?;
        }
    }
    let (mut wins, mut complete) = (Vec::new(), 0);
    for round in 0..rounds {
        let way = Way::ALL[round as usize % Way::ALL.len()];
        let race = Race {
            way,
            shared: directory.join(format!("shared-{round}")),
            victim: directory.join(format!("victim-{round}")),
        };
        complete += u64::from(race.run(&mut site, &program, &source.join("tree"), &names)?);
        if let Some(change) = race.change()? {
            println!("race {round}, {}: {change}", way.name());
            wins.push(json!({"race": round, "way": way.name(), "change": change}));
        }
        race.clear()?;
    }
    println!(
        "{rounds} races, {} won by the local user, {complete} transfers complete; load average {}",
        wins.len(),
        load_average()
    );
    let mut bars = Bars::default();
    let won = wins.len() as f64;
    bars.hold(match binary {
        None => Bar::at_most("races that changed something outside", won, 0, "races"),
        Some(_) => Bar::at_least("races won against the other binary", won, 1, "races"),
    });
    bars.verdict()?;
    site.cluster.pass();
    Ok(json!({"races": rounds, "complete": complete, "won": wins, "bars": bars.json()}))
}

struct Race {
    way: Way,
    /// Where both can write.
    shared: PathBuf,
    /// Whose files root alone can read.
    victim: PathBuf,
}

impl Race {
    /// Whether the transfer was complete; either way is fine.
    fn run(
        &self,
        site: &mut Site,
        program: &Path,
        source: &Path,
        names: &[String],
    ) -> Outcome<bool> {
        fs::create_dir(&self.shared)?;
        fs::set_permissions(&self.shared, fs::Permissions::from_mode(0o777))?;
        fs::create_dir(&self.victim)?;
        for file in 0..FILES {
            let path = self.victim.join(format!("f{file}"));
            fs::write(&path, PRECIOUS)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
        let (way, shared, victim) = (self.way, &self.shared, &self.victim);
        let racer = racer::start(&site.cluster, program, way, shared, victim, names)?;
        until(LIMIT, "the local user is ready", || {
            Ok(racer.stdout()?.contains("ready").then_some(()))
        })?;
        if way == Way::Folder {
            self.break_off(site, source)?;
        }
        let out = shared.display().to_string();
        let mut receiver = site.launch(2, "recv", &["--out", &out, "--once"])?;
        if !listens(&mut receiver)? {
            // It refuses what he has made: that is an answer.
            return Ok(false);
        }
        let options = [&source.display().to_string(), "--receivers", "1"];
        let mut sender = site.launch(1, "send", &options)?;
        sender.wait(LIMIT)?;
        let ended = receiver.wait(LIMIT)?;
        Ok(ended.is_some_and(|status| status.success()))
    }

    /// A transfer that is slow, and whose receiver is killed on the way.
    fn break_off(&self, site: &mut Site, source: &Path) -> Outcome {
        let out = self.shared.display().to_string();
        let mut receiver = site.launch(2, "recv", &["--out", &out, "--once"])?;
        if !listens(&mut receiver)? {
            return Ok(());
        }
        let slow = [
            &source.display().to_string(),
            "--receivers",
            "1",
            "--rate",
            SLOW,
        ];
        let _sender = site.launch(1, "send", &slow)?;
        // If he cannot even plant, the next transfer is complete.
        let planted = Instant::now() + Duration::from_secs(2);
        while Instant::now() < planted {
            let begun = fs::read_dir(self.shared.join(".groupcast"))?
                .flatten()
                .any(|entry| entry.path().join("journal").exists());
            if begun {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        Ok(receiver.kill()?)
    }

    /// What has changed of what is the victim's.
    fn change(&self) -> Outcome<Option<String>> {
        let own = fs::metadata(&self.victim)?;
        if own.uid() != 0 || own.mode() & 0o777 != 0o755 {
            return Ok(Some(format!("the directory has mode {:o}", own.mode())));
        }
        let mut count = 0;
        for entry in fs::read_dir(&self.victim)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let same = metadata.is_file()
                && metadata.uid() == 0
                && metadata.mode() & 0o7777 == 0o600
                && fs::read(&path)? == PRECIOUS.as_bytes();
            if !same {
                let (mode, len) = (metadata.mode(), metadata.len());
                return Ok(Some(format!(
                    "{}: mode {mode:o}, {len} bytes",
                    path.display()
                )));
            }
            count += 1;
        }
        Ok((count != FILES).then(|| format!("{count} files where there were {FILES}")))
    }

    fn clear(&self) -> Outcome {
        fs::remove_dir_all(&self.shared)?;
        Ok(fs::remove_dir_all(&self.victim)?)
    }
}

/// Whether a receiver comes to listen; it may refuse to.
fn listens(receiver: &mut Process) -> Outcome<bool> {
    until(LIMIT, "the receiver listens or refuses", || {
        let listening = receiver.stdout()?.contains("\"event\":\"listening\"");
        Ok((listening || !receiver.is_running()).then_some(listening))
    })
}
