//! Daemons on the hosts of a test bed, with subscribers and publishers: all of them the real
//! binary.
//!
//! Host `h` runs the daemon `host-h`. Outputs, sockets and histories are files in the bed's
//! directory, kept if a test fails. This file only knows how to start, ask and stop them; what to
//! wait for is left to the tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use groupcast_bench::{Link, Process, Testbed};
use serde_json::Value;

use super::judge::{self, Subscriber};
use super::stream::Stream;
use super::{BrokenPromise, Outcome, promised, until, verdict};

/// Where the daemons' multicasts go.
pub const MULTICAST: &str = "239.79.1.1:4809";
/// The configuration of daemons that run before all else on a busy machine.
pub const REAL_TIME: &str = "process.real_time_priority = 10\n";
/// Where their other datagrams go.
pub const PORT: u16 = 4810;
/// What orders the daemons' messages by default.
pub const RING: &str = "ring";
/// The other protocol that can.
pub const RMP: &str = "rmp";
/// The group that the tests publish to unless they need several.
pub const GROUP: &str = "text";

/// How long a daemon may take to answer a command of a client.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// How long daemons may take to find each other.
const FORMING_LIMIT: Duration = Duration::from_secs(20);

/// A bed with daemons.
pub struct Cluster {
    /// The test bed: hosts and the network between them.
    pub bed: Testbed,
    binary: PathBuf,
    hosts: Vec<Host>,
    histories: Vec<PathBuf>,
    commands: usize,
    /// What orders the daemons' messages, where it is not the default.
    protocol: Option<String>,
}

#[derive(Default)]
struct Host {
    daemon: Option<Process>,
    lives: u32,
    /// What is set in the environment of its daemons.
    environment: Vec<(String, String)>,
}

impl Cluster {
    /// A bed of `hosts` hosts with a key, and no daemon yet.
    pub fn new(hosts: usize, link: Link) -> Outcome<Self> {
        Self::with_binary(hosts, link, None)
    }

    /// The same with another binary than the one under test, if one is named.
    pub fn with_binary(hosts: usize, link: Link, binary: Option<&Path>) -> Outcome<Self> {
        let mut bed = Testbed::new(hosts, link)?;
        bed.keep_outputs(true);
        let cluster = Self {
            bed,
            binary: binary.map_or_else(binary_under_test, |path| Ok(path.into()))?,
            hosts: (0..hosts).map(|_| Host::default()).collect(),
            histories: Vec::new(),
            commands: 0,
            protocol: None,
        };
        let keygen = cluster.command(1, &["keygen", &cluster.path("cluster.key")]);
        cluster.finish(cluster.bed.launch("keygen", keygen)?, ANSWER_LIMIT)?;
        Ok(cluster)
    }

    /// The same with a daemon on every host, all in one configuration.
    pub fn running(hosts: usize, link: Link) -> Outcome<Self> {
        Self::running_with(hosts, link, RING)
    }

    /// The same with daemons whose messages `protocol` orders.
    pub fn running_with(hosts: usize, link: Link, protocol: &str) -> Outcome<Self> {
        let mut cluster = Self::new(hosts, link)?;
        cluster.set_protocol(protocol);
        for host in 1..=hosts {
            cluster.start(host)?;
        }
        cluster.await_members(&(1..=hosts).collect::<Vec<_>>())?;
        Ok(cluster)
    }

    /// A path in the bed's directory, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.bed.directory().join(name).display().to_string()
    }

    /// The socket of a host's daemon.
    pub fn socket(&self, host: usize) -> String {
        self.path(&format!("host-{host}.sock"))
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// `groupcast ARGUMENTS` on a host.
    pub fn command(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = self.bed.command(host, &self.binary);
        command.args(arguments).env("GROUPCAST_LOG", "info");
        command
    }

    /// Starts the daemon of a host.
    pub fn start(&mut self, host: usize) -> Outcome {
        self.start_with(host, &["--multicast", MULTICAST])
    }

    /// The same with other options than those that say who it is and what its key is.
    pub fn start_with(&mut self, host: usize, options: &[&str]) -> Outcome {
        let key = self.path("cluster.key");
        let mut all = vec!["--key", &key];
        all.extend(options);
        self.start_as(host, &format!("host-{host}"), &all)
    }

    /// The same without a history, for runs whose history would fill the disk.
    pub fn start_without_history(&mut self, host: usize, options: &[&str]) -> Outcome {
        let key = self.path("cluster.key");
        let mut all = vec!["--key", &key];
        all.extend(options);
        self.launch_daemon(host, &format!("host-{host}"), &all)
    }

    /// Starts a daemon that calls itself `name`, with `options`.
    pub fn start_as(&mut self, host: usize, name: &str, options: &[&str]) -> Outcome {
        let count = self.histories.len() + 1;
        let history = self.path(&format!("history-{count}-host-{host}.ndjson"));
        self.histories.push(history.clone().into());
        let mut all = vec!["--history", &history];
        all.extend(options);
        self.launch_daemon(host, name, &all)
    }

    fn launch_daemon(&mut self, host: usize, name: &str, options: &[&str]) -> Outcome {
        self.hosts[host - 1].lives += 1;
        let life = self.hosts[host - 1].lives;
        let listen = format!("{}:{PORT}", self.bed.address(host));
        let socket = self.socket(host);
        let mut command = self.command(host, &["daemon", "--name", name, "--listen", &listen]);
        command.args(["--socket", &socket]).args(options);
        if let Some(protocol) = &self.protocol {
            command.args(["--protocol", protocol]);
        }
        command.envs(self.hosts[host - 1].environment.iter().cloned());
        let daemon = self.bed.launch(&format!("daemon-{host}-{life}"), command)?;
        self.hosts[host - 1].daemon = Some(daemon);
        Ok(())
    }

    /// From now on `protocol` orders the messages of daemons that are started.
    pub fn set_protocol(&mut self, protocol: &str) {
        self.protocol = Some(protocol.to_owned());
    }

    /// From now on daemons of a host have `variable` in their environment.
    pub fn set_environment(&mut self, host: usize, variable: &str, value: &str) {
        let environment = &mut self.hosts[host - 1].environment;
        environment.push((variable.to_owned(), value.to_owned()));
    }

    /// The daemon of a host, running or ended.
    pub fn daemon(&mut self, host: usize) -> Outcome<&mut Process> {
        self.hosts[host - 1]
            .daemon
            .as_mut()
            .ok_or_else(|| format!("no daemon was started on host {host}").into())
    }

    /// Waits until the daemon of a host answers its clients.
    pub fn await_answer(&self, host: usize) -> Outcome {
        until(ANSWER_LIMIT, format!("host-{host} answers"), || {
            Ok(self.status(host)?.map(|_| ()))
        })
    }

    /// Waits until the daemons of `hosts`, and no others, are together in one configuration.
    pub fn await_members(&self, hosts: &[usize]) -> Outcome {
        self.await_members_within(FORMING_LIMIT, hosts)
    }

    /// The same within `limit`.
    pub fn await_members_within(&self, limit: Duration, hosts: &[usize]) -> Outcome {
        let expected: Vec<String> = hosts.iter().map(|host| format!("host-{host}")).collect();
        for host in hosts {
            until(
                limit,
                format!("host-{host} in one configuration with exactly {expected:?}"),
                || Ok((self.members(*host)? == expected).then_some(())),
            )?;
        }
        Ok(())
    }

    /// Names of the daemons in a host's configuration, sorted; none while it does not answer or has
    /// none.
    pub fn members(&self, host: usize) -> Outcome<Vec<String>> {
        let Some(status) = self.status(host)? else {
            return Ok(Vec::new());
        };
        let mut members: Vec<String> = status["configuration"]["members"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|member| member["name"].as_str().map(str::to_owned))
            .collect();
        members.sort();
        Ok(members)
    }

    /// What `groupcast status --json` says at a host; `None` if it cannot reach the daemon.
    pub fn status(&self, host: usize) -> Outcome<Option<Value>> {
        let output = self
            .command(host, &["status", "--json", "--socket", &self.socket(host)])
            .stderr(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Ok(None);
        }
        let line = String::from_utf8(output.stdout)?;
        serde_json::from_str(&line)
            .map(Some)
            .map_err(|error| format!("`status --json` printed {line:?}: {error}").into())
    }

    /// Starts `groupcast sub` on a host and waits until it is a member of `group`. It is called
    /// `name`.
    pub fn subscribe(&mut self, host: usize, name: &str, group: &str) -> Outcome<Subscription> {
        self.subscribe_with(host, name, group, &["--once"])
    }

    /// The same with other options; without `--once` it connects again when its daemon ends.
    pub fn subscribe_with(
        &mut self,
        host: usize,
        name: &str,
        group: &str,
        options: &[&str],
    ) -> Outcome<Subscription> {
        let label = self.label(name, host);
        let socket = self.socket(host);
        let arguments = ["sub", group, "--socket", &socket, "--name", name, "--json"];
        let mut command = self.command(host, &arguments);
        command.args(options);
        let process = self.bed.launch(&label, command)?;
        let mut subscription = Subscription {
            name: format!("{name}@host-{host}"),
            process,
        };
        until(ANSWER_LIMIT, format!("{label} joins"), || {
            subscription.check_running()?;
            Ok(subscription
                .stream()?
                .views()
                .next()
                .is_some()
                .then_some(()))
        })?;
        Ok(subscription)
    }

    /// One JSON subscriber on every host of `hosts`.
    pub fn subscribe_all(&mut self, hosts: &[usize]) -> Outcome<Vec<Subscription>> {
        hosts
            .iter()
            .map(|host| self.subscribe(*host, "sub", GROUP))
            .collect()
    }

    /// Starts `groupcast pub`, called `pub`, on a host with the lines of the file `text` (see
    /// [`write_text`](Self::write_text)).
    pub fn publish(&mut self, host: usize, text: &str, options: &[&str]) -> Outcome<Process> {
        let file = self.path(text);
        let mut all = vec!["--file", &file];
        all.extend(options);
        self.publish_as(host, "pub", &all)
    }

    /// Publishes the lines of the file `text`, which are `published`, at the first of two hosts and
    /// 500 safe messages at the second, until all are accepted. Fails unless subscribers on
    /// `hosts`, which are returned, have all of both, each within `limit`, and in one order.
    pub fn carry_two(
        &mut self,
        hosts: &[usize],
        [first, second]: [usize; 2],
        published: &[&[u8]],
        limit: Duration,
    ) -> Outcome<Vec<Subscription>> {
        let mut subscriptions = self.subscribe_all(hosts)?;
        let others = ["--service", "safe", "--size", "300", "--count", "500"];
        let beside = self.publish_as(second, "other", &others)?;
        let publisher = self.publish(first, "text", &[])?;
        self.finish(publisher, limit)?;
        self.finish(beside, limit)?;
        for subscription in &mut subscriptions {
            subscription.await_messages("pub", published.len(), limit)?;
            subscription.await_messages("other", 500, limit)?;
        }
        let names: Vec<String> = subscriptions.iter().map(|it| it.name.clone()).collect();
        let stayed: Vec<&str> = names.iter().map(String::as_str).collect();
        judge_streams(&subscriptions, &stayed, published)?;
        Ok(subscriptions)
    }

    /// Starts `groupcast pub` under another name and with other options.
    pub fn publish_as(&mut self, host: usize, name: &str, options: &[&str]) -> Outcome<Process> {
        let label = self.label(name, host);
        let socket = self.socket(host);
        let mut command = self.command(host, &["pub", GROUP, "--socket", &socket]);
        command.args(["--name", name]).args(options);
        Ok(self.bed.launch(&label, command)?)
    }

    /// Starts the adversary (see `src/bin/adversary.rs`, whose path `program` is) on a host.
    pub fn attack(&mut self, host: usize, program: &str, arguments: &[&str]) -> Outcome<Process> {
        let label = self.label("adversary", host);
        let mut command = self.bed.command(host, program);
        command.args(arguments);
        Ok(self.bed.launch(&label, command)?)
    }

    /// A counter of a host's daemon, by its path in `groupcast status --json`.
    pub fn counter(&self, host: usize, path: &[&str]) -> Outcome<u64> {
        let status = self
            .status(host)?
            .ok_or_else(|| format!("host-{host} does not answer"))?;
        path.iter()
            .try_fold(&status, |value, key| value.get(key))
            .and_then(Value::as_u64)
            .ok_or_else(|| format!("`status --json` has no number at {path:?}: {status}").into())
    }

    /// Writes `text` to a file of that name in the bed's directory.
    pub fn write_text(&self, name: &str, text: &str) -> Outcome {
        Ok(fs::write(self.bed.directory().join(name), text)?)
    }

    /// Runs a plain `groupcast sub` on a host: its standard output is to be the text itself.
    pub fn subscribe_plain(&mut self, host: usize, name: &str, group: &str) -> Outcome<Process> {
        let label = self.label(name, host);
        let socket = self.socket(host);
        let arguments = ["sub", group, "--once", "--socket", &socket, "--name", name];
        let mut process = self.bed.launch(&label, self.command(host, &arguments))?;
        until(ANSWER_LIMIT, format!("{label} joins"), || {
            if !process.is_running() {
                return Err(format!("{label} ended: {}", process.stderr()?).into());
            }
            // Views go to standard error.
            Ok((!process.stderr()?.is_empty()).then_some(()))
        })?;
        Ok(process)
    }

    /// Waits until `process` ends with success.
    pub fn finish(&self, mut process: Process, limit: Duration) -> Outcome<String> {
        let label = process.label().to_owned();
        match process.wait(limit)? {
            Some(status) if status.success() => Ok(process.stdout()?),
            Some(status) => Err(format!("{label}: {status}: {}", process.stderr()?).into()),
            None => Err(format!("{label} runs after {limit:?}: {}", process.stderr()?).into()),
        }
    }

    /// The run was as it should be: its outputs need not be kept.
    pub fn pass(&mut self) {
        self.bed.keep_outputs(false);
    }

    /// The last step of a run: ends all daemons gracefully and lets `groupcast check` judge their
    /// histories together.
    pub fn check_histories(&mut self) -> Outcome {
        let verdict = self.judge_histories(CHECK_LIMIT)?;
        match verdict.code {
            Some(0) => {
                self.pass();
                Ok(())
            }
            _ => Err(BrokenPromise(verdict.text).into()),
        }
    }

    /// Ends all daemons gracefully; what `groupcast check` says of their histories together.
    pub fn judge_histories(&mut self, limit: Duration) -> Outcome<Verdict> {
        for host in &mut self.hosts {
            if let Some(daemon) = &mut host.daemon {
                daemon.terminate()?;
                if daemon.wait(ANSWER_LIMIT)?.is_none() {
                    return Err(format!("{} ignores SIGTERM", daemon.label()).into());
                }
            }
        }
        let histories = self.all_histories()?;
        let mut command = self.command(1, &["check"]);
        command.args(&histories);
        let mut check = self.bed.launch("check", command)?;
        let Some(status) = check.wait(limit)? else {
            return Err(format!("`groupcast check` runs after {limit:?}").into());
        };
        Ok(Verdict {
            code: status.code(),
            text: format!(
                "`groupcast check` of {} histories: {status}: {}{}",
                histories.len(),
                check.stdout()?,
                check.stderr()?
            ),
        })
    }

    /// The histories of all daemons that were started, those of their rings among them.
    fn all_histories(&self) -> Outcome<Vec<PathBuf>> {
        let mut all: Vec<PathBuf> = Vec::new();
        let own = self.histories.iter().filter(|path| path.exists());
        all.extend(own.cloned());
        let stems: Vec<String> = self
            .histories
            .iter()
            .filter_map(|path| Some(format!("{}.", path.file_stem()?.display())))
            .collect();
        for entry in fs::read_dir(self.bed.directory())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let of_ring = |stem: &String| {
                let rest = name.strip_prefix(stem.as_str());
                rest.is_some_and(|rest| rest.ends_with(".ndjson"))
            };
            if stems.iter().any(of_ring) {
                all.push(path);
            }
        }
        Ok(all)
    }

    /// How often all histories together have `text`.
    pub fn count_in_histories(&self, text: &str) -> Outcome<usize> {
        let mut count = 0;
        for path in self.all_histories()? {
            count += fs::read_to_string(path)?.matches(text).count();
        }
        Ok(count)
    }

    fn label(&mut self, what: &str, host: usize) -> String {
        self.commands += 1;
        format!("{what}-{host}-{}", self.commands)
    }
}

impl Drop for Cluster {
    /// Notes whether the machine kept any daemon from running: see [`super::live`].
    fn drop(&mut self) {
        let starved = |host: &Host| {
            let log = host.daemon.as_ref().and_then(|daemon| daemon.stderr().ok());
            log.is_some_and(|log| log.contains("scheduling gap of"))
        };
        if self.hosts.iter().any(starved) {
            super::STARVED.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// How long judging histories may take.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// What `groupcast check` said.
pub struct Verdict {
    /// Its exit code: 0, 1 with violations, 3 if something could not be judged.
    pub code: Option<i32>,
    /// Its words.
    pub text: String,
}

/// A running `groupcast sub --json`.
pub struct Subscription {
    /// Its private name, `CLIENT@HOST`.
    pub name: String,
    /// The running program.
    pub process: Process,
}

impl Subscription {
    /// What it has printed so far.
    pub fn stream(&self) -> Outcome<Stream> {
        Stream::parse(&self.process.stdout()?)
            .map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// How many bytes it has printed so far: a cheap measure of progress.
    pub fn printed(&self) -> Outcome<u64> {
        Ok(fs::metadata(self.process.stdout_path())?.len())
    }

    /// Waits until it has `count` messages of `publisher`.
    pub fn await_messages(&mut self, publisher: &str, count: usize, limit: Duration) -> Outcome {
        let sender = format!("\"sender\":\"{publisher}@");
        let what = format!("{} has {count} messages of {publisher}", self.name);
        until(limit, what, || {
            self.check_running()?;
            std::thread::sleep(Duration::from_millis(20));
            // Reading all lines each time would cost what is being measured; counting is cheap.
            let output = self.process.stdout()?;
            Ok((output.matches(&sender).count() >= count).then_some(()))
        })
        .map_err(|error| {
            let have = self
                .process
                .stdout()
                .map_or(0, |output| output.matches(&sender).count());
            format!("{error} ({have} so far)").into()
        })
    }

    fn check_running(&mut self) -> Outcome {
        if self.process.is_running() {
            Ok(())
        } else {
            Err(format!("{} ended: {}", self.name, self.process.stderr()?).into())
        }
    }
}

/// Fails with what the first of `processes` said that has ended.
pub(super) fn check_running(processes: &mut [Process]) -> Outcome {
    for process in processes {
        if !process.is_running() {
            let said = process.stderr()?;
            return Err(format!("{} ended: {said}", process.label()).into());
        }
    }
    Ok(())
}

/// Judges the subscribers: those named in `stayed` have all of `published` (by `pub`), and all
/// agree.
pub fn judge_streams(
    subscriptions: &[Subscription],
    stayed: &[&str],
    published: &[&[u8]],
) -> Outcome {
    let streams = subscriptions
        .iter()
        .map(|subscription| Ok((subscription.name.as_str(), subscription.stream()?)))
        .collect::<Outcome<Vec<_>>>()?;
    let subscribers: Vec<Subscriber<'_>> = streams
        .iter()
        .map(|(name, stream)| (*name, stream))
        .collect();
    promised(&judge::agree(&subscribers))?;
    let mut faults = Vec::new();
    for name in stayed {
        let subscriber = subscribers
            .iter()
            .find(|(other, _)| other == name)
            .ok_or_else(|| format!("no subscriber {name}"))?;
        faults.extend(judge::complete(*subscriber, "pub", published));
    }
    verdict(&faults)
}

/// Waits for the end of the text at hosts 1 to 3, then judges their subscribers: the first two have
/// all of `published` (by `pub`); the third was away for a part of it and has its last message.
pub fn judge_rejoined(
    subscriptions: &mut [Subscription],
    published: &[&[u8]],
    limit: Duration,
) -> Outcome {
    let [first, second, rejoined] = subscriptions else {
        return Err("one subscriber on each of three hosts is judged".into());
    };
    for stayed in [first, second] {
        stayed.await_messages("pub", published.len(), limit)?;
    }
    let last = published.last().copied().unwrap_or_default();
    until(limit, "host 3 has the end of the text", || {
        let stream = rejoined.stream()?;
        let has_last = stream.messages().any(|message| message.payload == last);
        Ok(has_last.then_some(()))
    })?;
    judge_streams(subscriptions, &["sub@host-1", "sub@host-2"], published)
}

/// The binary under test: `GROUPCAST_BIN`, or the release build beside this executable, built if it
/// is missing.
fn binary_under_test() -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os("GROUPCAST_BIN") {
        return Ok(path.into());
    }
    // target/PROFILE/deps/TEST or target/PROFILE/PROGRAM
    let executable = std::env::current_exe()?;
    let target = executable
        .ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").exists())
        .ok_or("cannot find the target directory: set GROUPCAST_BIN")?;
    let path = target.join("release/groupcast");
    if !path.exists() {
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "--package", "groupcast"])
            .status()?;
        if !status.success() {
            return Err(format!("cannot build the binary under test: {status}").into());
        }
    }
    File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
