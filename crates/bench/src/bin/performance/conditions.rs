//! Under which conditions something was measured: which code, which machine, and what else it was
//! doing.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::exec;

/// How long other work is looked at before a measurement begins.
const LOOK: Duration = Duration::from_millis(500);
/// More than this share of the processors makes figures doubtful.
const BUSY_MAX: f64 = 0.1;
/// More than this many processes, on average of a minute, too.
const LOAD_MAX: f64 = 0.5;

/// The conditions at one moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Conditions {
    /// The commit, with a + if files differ from it.
    pub(crate) commit: String,
    pub(crate) kernel: String,
    pub(crate) cores: usize,
    /// The load average of the last minute, which remembers what has ended since.
    pub(crate) load: f64,
    /// The share of the processors that other work took just before.
    pub(crate) busy: f64,
}

impl Conditions {
    /// Some, for tests of what is done with them.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            commit: "abc".into(),
            kernel: "6.18".into(),
            cores: 2,
            load: 0.0,
            busy: 0.0,
        }
    }

    /// Those of now. Takes half a second.
    pub(crate) fn now() -> Self {
        let git = |args: &[&str]| {
            let mut command = exec::command("git", args);
            let output = command.stderr(Stdio::null()).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success().then_some(text)
        };
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
        let changed = git(&["status", "--porcelain", "--untracked-files=no"])
            .is_some_and(|changes| !changes.is_empty());
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let before = Ticks::read();
        thread::sleep(LOOK);
        Self {
            commit: if changed { commit + "+" } else { commit },
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or(f64::NAN),
            busy: Ticks::read().busy_since(before),
        }
    }

    /// Why figures may be too low, if they may.
    pub(crate) fn warning(&self) -> Option<String> {
        if self.busy > BUSY_MAX {
            return Some(format!(
                "other work takes {:.0} % of the processors: figures will be too low",
                100.0 * self.busy
            ));
        }
        (self.load > LOAD_MAX).then(|| {
            format!(
                "the load average is {:.2}; just now other work takes {:.0} % of the processors",
                self.load,
                100.0 * self.busy
            )
        })
    }

    /// As they are kept.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "commit": self.commit,
            "kernel": self.kernel,
            "cores": self.cores,
            "load": self.load,
            "busy": self.busy,
        })
    }

    /// As they were kept; `None` if something is missing.
    pub(crate) fn of_json(value: &Value) -> Option<Self> {
        Some(Self {
            commit: value["commit"].as_str()?.to_owned(),
            kernel: value["kernel"].as_str()?.to_owned(),
            cores: usize::try_from(value["cores"].as_u64()?).ok()?,
            load: value["load"].as_f64()?,
            busy: value["busy"].as_f64()?,
        })
    }

    /// A line for the table.
    pub(crate) fn line(&self) -> String {
        format!(
            "commit {}, Linux {}, {} cores; load average {:.2}, other work {:.0} % of the processors just before",
            self.commit,
            self.kernel,
            self.cores,
            self.load,
            100.0 * self.busy
        )
    }
}

/// What all processors together have spent, in clock ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    all: u64,
    idle: u64,
}

impl Ticks {
    fn read() -> Self {
        Self::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Of the first line of /proc/stat: user, nice, system, idle, waiting for disks, interrupts,
    /// stolen.
    fn of(stat: &str) -> Self {
        let fields: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|field| field.parse().ok())
            .collect();
        Self {
            all: fields.iter().sum(),
            idle: fields.iter().skip(3).take(2).sum(),
        }
    }

    /// The busy share since `before`; 0 if no tick has passed.
    fn busy_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        if all == 0 {
            return 0.0;
        }
        1.0 - idle as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_share_is_what_is_not_idle() {
        let before = Ticks::of("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2\n");
        let after = Ticks::of("cpu  110 0 120 860 10 0 0 0 0 0\n");
        assert!((after.busy_since(before) - 0.3).abs() < 1e-9);
        assert_eq!(before.busy_since(before), 0.0);
    }

    #[test]
    fn conditions_come_back_and_a_busy_machine_is_warned_of() {
        let mut conditions = Conditions {
            commit: "abc+".into(),
            kernel: "6.18".into(),
            cores: 2,
            load: 0.25,
            busy: 0.05,
        };
        assert_eq!(
            Conditions::of_json(&conditions.to_json()).as_ref(),
            Some(&conditions)
        );
        assert_eq!(conditions.warning(), None);
        conditions.load = 3.0;
        assert!(
            conditions
                .warning()
                .is_some_and(|text| text.contains("3.00"))
        );
        conditions.busy = 0.5;
        assert!(
            conditions
                .warning()
                .is_some_and(|text| text.contains("50 %"))
        );
    }
}
