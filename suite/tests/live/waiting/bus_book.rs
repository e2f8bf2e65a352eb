//! The bus as docs/bus.md has it, where its hosts are apart: every session of the page typed with
//! `nc` at three daemons on three hosts, and clients of another host by TLS.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, MULTICAST};
use groupcast_suite::live::{Outcome, live, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const BOOK: &str = include_str!("../../../../docs/bus.md");
const HOSTS: [usize; 3] = [1, 2, 3];
/// Where each host's daemon has its bus, for whoever is on that host.
const BUS: &str = "127.0.0.1:4812";
const LIMIT: Duration = Duration::from_secs(30);
/// Each look takes a client's number, and the other hosts have to use up as many.
const PAUSE: Duration = Duration::from_millis(100);

/// `nc` at the bus of a host.
struct Nc {
    process: Child,
    /// None once its stream has ended.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Nc {
    fn start(cluster: &Cluster, host: usize) -> Outcome<Self> {
        let (address, port) = BUS.split_once(':').expect("it has a port");
        let mut command = cluster.bed.command(host, "nc");
        // With -N the end of what is typed ends the client's stream.
        command.args(["-N", address, port]);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().expect("it is piped");
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            process,
            input,
            lines,
        })
    }

    fn say(&mut self, line: &str) -> Outcome {
        let input = self.input.as_mut().ok_or("its stream has ended")?;
        Ok(input.write_all(format!("{line}\n").as_bytes())?)
    }

    fn line(&self) -> Outcome<String> {
        Ok(self.lines.recv_timeout(LIMIT)?)
    }
}

impl Drop for Nc {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Connects to a host's bus: the number of that client.
fn next_number(cluster: &Cluster, host: usize) -> Outcome<u64> {
    let path = cluster.path(&format!("host-{host}.bus"));
    let socket = UnixStream::connect(path)?;
    let mut greeting = String::new();
    BufReader::new(socket).read_line(&mut greeting)?;
    let number = greeting
        .strip_prefix("bus 1 c")
        .and_then(|rest| rest.split_once('@'))
        .and_then(|(number, _)| number.parse().ok());
    Ok(number.ok_or_else(|| format!("no greeting: {greeting:?}"))?)
}

/// A number that the next client of each host can have, once those before it are used up.
fn free_number(cluster: &Cluster) -> Outcome<u64> {
    let mut highest = 0;
    for host in HOSTS {
        highest = highest.max(next_number(cluster, host)?);
    }
    Ok(highest + 2)
}

/// Takes the next numbers of a host's clients, up to `last`.
fn use_up(cluster: &Cluster, host: usize, last: u64) -> Outcome {
    loop {
        match next_number(cluster, host)?.cmp(&last) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Greater => return Err(format!("{last} is used up").into()),
        }
    }
}

/// Plays a session, in which client N is the first one of the daemon `hN`: here it is the
/// `number`th of `host-N`.
fn play(cluster: &Cluster, session: &str, number: u64) -> Outcome {
    let lines: Vec<(usize, &str, &str)> = session
        .lines()
        .map(|line| {
            let client = line[..1].parse().expect("a client has a number");
            (client, &line[1..2], line.get(3..).unwrap_or_default())
        })
        .collect();
    let mut clients: BTreeMap<usize, Nc> = BTreeMap::new();
    for (index, (host, direction, text)) in lines.iter().enumerate() {
        if !clients.contains_key(host) {
            use_up(cluster, *host, number - 1)?;
            clients.insert(*host, Nc::start(cluster, *host)?);
        }
        let client = clients.get_mut(host).expect("it has begun");
        if *direction == ">" {
            client.say(text)?;
            continue;
        }
        let mut later = lines[index..].iter();
        let says_more = later.any(|line| line.0 == *host && line.1 == ">");
        if !says_more && text.starts_with("closed ") {
            client.input = None;
        }
        let line = client.line()?;
        let line = line.replace(&format!("c{number}@host-"), "c1@h");
        if line != *text {
            return Err(format!("{line:?} at line {} of\n{session}", index + 1).into());
        }
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn every_session_of_the_book_is_typed_with_nc_at_three_hosts() -> Outcome {
    if Command::new("nc").arg("-h").output().is_err() {
        eprintln!("skipped: needs nc (netcat-openbsd)");
        return Ok(());
    }
    live(|| {
        let mut cluster = Cluster::new(3, Link::Unlimited)?;
        let pool = "ring_pool = { network = \"239.79.81.0/24\", port = 4815 }\n";
        cluster.write_text("bus.toml", pool)?;
        for host in HOSTS {
            let traces = cluster.path(&format!("traces-{host}"));
            fs::create_dir(&traces)?;
            let unix = format!("unix:{}", cluster.path(&format!("host-{host}.bus")));
            let file = cluster.path("bus.toml");
            let options = ["-c", &file, "--multicast", MULTICAST, "--bus", BUS];
            let more = ["--bus", &unix, "--bus-trace", &traces];
            cluster.start_with(host, &[&options[..], &more].concat())?;
        }
        cluster.await_members(&HOSTS)?;
        let sessions = BOOK.split("```session\n").skip(1);
        for block in sessions {
            let session = block.split("```").next().unwrap_or_default();
            // Every command of a tool that asks a daemon is one of its clients too.
            play(&cluster, session, free_number(&cluster)?)?;
            let nobody = "the clients of the session before are gone";
            until(LIMIT, nobody, || {
                std::thread::sleep(PAUSE);
                let status = cluster.status(1)?.unwrap_or_default();
                Ok((status["rings"].as_array().is_none_or(Vec::is_empty)
                    && audience(&cluster)? == "ok 1")
                    .then_some(()))
            })?;
        }
        cluster.check_histories()
    })
}

/// How many clients of the bus there are, the one that asks included.
fn audience(cluster: &Cluster) -> Outcome<String> {
    let mut socket = UnixStream::connect(cluster.path("host-1.bus"))?;
    socket.write_all(b"clients\nquit\n")?;
    let mut said = String::new();
    socket.read_to_string(&mut said)?;
    Ok(said.lines().nth(1).unwrap_or_default().to_owned())
}

/// Writes the authority `NAME.pem`, and certificates that it signed: `OF.pem` and `OF.key`, each
/// for one name.
fn authority(cluster: &Cluster, name: &str, signed: &[(&str, &str)]) -> Outcome {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    cluster.write_text(&format!("{name}.pem"), &issuer.pem())?;
    for (of, subject) in signed {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![(*subject).to_owned()])?;
        let certificate = params.signed_by(&key, &issuer)?;
        cluster.write_text(&format!("{of}.pem"), &certificate.pem())?;
        cluster.write_text(&format!("{of}.key"), &key.serialize_pem())?;
        let path = cluster.path(&format!("{of}.key"));
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn clients_of_another_host_reach_the_bus_by_tls_and_rules_know_them() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(2, Link::Unlimited)?;
        let address = cluster.bed.address(1).to_string();
        let signed = [
            ("daemon", &*address),
            ("web", "web.example"),
            ("job", "job"),
        ];
        authority(&cluster, "ca", &signed)?;
        authority(&cluster, "other", &[("stranger", "web.example")])?;
        let bus = format!("{address}:4813");
        let rules = format!(
            "bus = [\"{bus}\"]\ntls_certificate = \"daemon.pem\"\ntls_key = \"daemon.key\"\n\
             tls_client_ca = \"ca.pem\"\n\
             [[access]]\ngroups = [\"room\"]\ncertificates = [\"web.example\"]\n\
             rights = [\"join\", \"send\"]\n"
        );
        cluster.write_text("tls.toml", &rules)?;
        let file = cluster.path("tls.toml");
        cluster.start_with(1, &["-c", &file, "--multicast", MULTICAST])?;
        cluster.await_members(&[1])?;
        let script = "accept * room\nmsg t room (a list)\nclients\n";
        cluster.write_text("script", script)?;
        let run = |ca: Option<&str>, identity: Option<&str>| -> Outcome<Output> {
            let script = cluster.path("script");
            let mut command = cluster.command(2, &["bus", "--server", &bus, "--file", &script]);
            if let Some(ca) = ca {
                command.args(["--tls-ca", &cluster.path(&format!("{ca}.pem"))]);
            }
            if let Some(identity) = identity {
                let [pem, key] =
                    ["pem", "key"].map(|end| cluster.path(&format!("{identity}.{end}")));
                command.args(["--tls-certificate", &pem, "--tls-key", &key]);
            }
            Ok(command.stdin(Stdio::null()).output()?)
        };
        let ran = run(Some("ca"), Some("web"))?;
        let said = String::from_utf8_lossy(&ran.stdout);
        if !ran.status.success() || !said.contains("msg t room 8\n(a list)\nok\nok 1\n") {
            return Err(format!("{ran:?}").into());
        }
        // Whom the rules do not name is told so; who is not believed has no connection.
        for (ca, identity, code, part) in [
            (Some("ca"), Some("job"), 1, "error forbidden"),
            (Some("ca"), None, 1, "cannot connect"),
            (Some("ca"), Some("stranger"), 1, "cannot connect"),
            (Some("other"), Some("web"), 1, "cannot connect"),
            (None, None, 1, "--tls-ca"),
        ] {
            let ran = run(ca, identity)?;
            let said = String::from_utf8_lossy(&ran.stderr);
            if ran.status.code() != Some(code) || !said.contains(part) {
                return Err(format!("{ca:?} {identity:?}: {ran:?}").into());
            }
        }
        Ok(())
    })
}
