//! A process on a host of a test bed: its outputs, its end, and what it costs.
//!
//! Outputs go to files, never to pipes, so that nothing a process prints can block it. It is killed
//! by its own id when the value is dropped.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};

/// How often a process is asked whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What a process has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Processor time, user and system.
    pub cpu: Duration,
    /// The same of its children that have ended, and of theirs.
    pub children: Duration,
    /// Memory resident now, in bytes.
    pub resident: u64,
}

/// How often a process has given its processor up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Switches {
    /// To sleep until something wakes it.
    pub voluntary: u64,
    /// Because another one was to run.
    pub involuntary: u64,
}

/// A running or ended process.
#[derive(Debug)]
pub struct Process {
    label: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    /// Starts `command`, its outputs in `directory`.
    pub(crate) fn spawn(label: &str, directory: &Path, mut command: Command) -> io::Result<Self> {
        let out = directory.join(format!("{label}.out"));
        let err = directory.join(format!("{label}.err"));
        let child = command
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()?;
        Ok(Self {
            label: label.to_owned(),
            child,
            out,
            err,
        })
    }

    /// What the caller called it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that its standard output goes to.
    pub fn stdout_path(&self) -> &Path {
        &self.out
    }

    /// What it has printed on standard output so far.
    pub fn stdout(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.out)?).into_owned())
    }

    /// What it has printed on standard error so far.
    pub fn stderr(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.err)?).into_owned())
    }

    /// The writing end of its standard input, if the command was given a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends a signal; an ended process is left alone.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Between `try_wait` and `kill_process` nobody else reaps the child, so the id is still its
        // own.
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// SIGKILL: ends it without a chance to say a word, and waits for that.
    pub fn kill(&mut self) -> io::Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait().map(|_| ())
    }

    /// SIGTERM: asks it to end.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGSTOP: freezes it.
    pub fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: lets it go on.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Its exit status, if it ends within `limit`.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has used so far; also of one that has just ended by itself.
    pub fn usage(&self) -> io::Result<Usage> {
        usage(self.pid())
    }

    /// How often its threads have given their processors up so far; those that have ended are not
    /// counted, but for the first one.
    pub fn switches(&self) -> io::Result<Switches> {
        let mut sum = Switches::default();
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            // A thread that ends meanwhile is one that has ended.
            if let Ok(status) = fs::read_to_string(thread?.path().join("status")) {
                let switches = switches(&status)?;
                sum.voluntary += switches.voluntary;
                sum.involuntary += switches.involuntary;
            }
        }
        Ok(sum)
    }

    /// The most memory that it had resident at a time, in bytes; only while it runs.
    pub fn resident_peak(&self) -> io::Result<u64> {
        high_water(&fs::read_to_string(format!("/proc/{}/status", self.pid()))?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What process `pid` has used so far.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // proc(5): utime and stime are fields 14 and 15, those of children 16 and 17, rss is 24.
    let ticks = clock_ticks_per_second();
    let time = |user: usize, system: usize| -> io::Result<Duration> {
        let sum = field(&stat, user)? + field(&stat, system)?;
        Ok(Duration::from_micros(sum * 1_000_000 / ticks))
    };
    Ok(Usage {
        cpu: time(14, 15)?,
        children: time(16, 17)?,
        resident: field(&stat, 24)? * rustix::param::page_size() as u64,
    })
}

/// The lines of /proc/PID/task/TID/status that count switches.
fn switches(status: &str) -> io::Result<Switches> {
    let line = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let count = value.and_then(|value| value.trim().parse().ok());
        count.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no counts of switches"))
    };
    Ok(Switches {
        voluntary: line("voluntary_ctxt_switches:")?,
        involuntary: line("nonvoluntary_ctxt_switches:")?,
    })
}

/// The line `VmHWM` of /proc/PID/status, in bytes.
fn high_water(status: &str) -> io::Result<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no VmHWM in /proc/PID/status"))
}

/// When process `pid` started, in clock ticks since the machine did.
pub(crate) fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    field(&stat, 22)
}

/// Field `number` (from 1) of a line of /proc/PID/stat. The second is a name in brackets and may
/// hold anything.
fn field(stat: &str, number: usize) -> io::Result<u64> {
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(number - 3))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a line of /proc/PID/stat"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_with_brackets_and_blanks() {
        let stat = "12 (a ) b) S 1 2 3";
        assert_eq!(field(stat, 4).unwrap(), 1);
        assert_eq!(field(stat, 6).unwrap(), 3);
        assert!(field(stat, 7).is_err());
        assert!(field("", 3).is_err());
    }

    #[test]
    fn the_peak_is_read_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t    12 kB\nVmRSS:\t 3 kB\n";
        assert_eq!(high_water(status).unwrap(), 12 * 1024);
        assert!(high_water("Name:\tx\n").is_err());
    }

    #[test]
    fn switches_of_both_kinds_are_told_apart() {
        let status = "Threads:\t1\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let expected = Switches {
            voluntary: 12,
            involuntary: 3,
        };
        assert_eq!(switches(status).unwrap(), expected);
        assert!(switches("Threads:\t1\n").is_err());
    }

    #[test]
    fn this_process_uses_memory_and_started_once() {
        let pid = std::process::id();
        assert!(usage(pid).unwrap().resident > 100_000);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(high_water(&status).unwrap() > 100_000);
        assert_eq!(start_time(pid).unwrap(), start_time(pid).unwrap());
    }
}
