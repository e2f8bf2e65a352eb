//! A group of twenty is asked, and all replies come, once and whole: a byte and 64 KiB, without
//! loss and with 5 %. The least, the most and subgroups are kept, and with a back-off the asker's
//! buffer has room for every datagram.
//!
//! Method: the real binary on a test bed of six hosts, four members on each of five; on the first
//! `request`, and a program that asks by the library.

use std::collections::BTreeSet;
use std::time::Duration;

use groupcast_bench::{Link, Process};
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::requests::ASK;
use groupcast_suite::live::{Outcome, live, until};
use serde_json::Value;

/// Asks by the library.
const PROGRAM: &str = env!("CARGO_BIN_EXE_soak");
const GROUP: &str = "239.79.1.4:4822";
const LIMIT: Duration = Duration::from_secs(20);
const HOSTS: usize = 5;
const MEMBERS: usize = 20;
/// What a member runs: its reply has as many bytes as the request says.
const REPLY: &str = "head -c $(cat) /dev/zero | tr '\\0' x";

/// `groupcast COMMAND` on a host, in the group of the test.
fn launch(
    cluster: &Cluster,
    host: usize,
    name: &str,
    command: &str,
    options: &[&str],
) -> Outcome<Process> {
    let (key, address) = (cluster.path("cluster.key"), cluster.bed.address(host));
    let mut line = cluster.command(host, &[command, "--group", GROUP, "--key", &key]);
    line.args(["--interface", &address.to_string(), "--name", name]);
    line.args(options);
    Ok(cluster.bed.launch(name, line)?)
}

/// Asks for this many bytes each by the command, with these options.
fn ask(cluster: &Cluster, name: &str, bytes: usize, options: &[&str]) -> Outcome<Process> {
    let request = cluster.path(&format!("request-{name}"));
    std::fs::write(&request, bytes.to_string())?;
    let options = [&["--json"], options, &[&request]].concat();
    launch(cluster, 1, name, "request", &options)
}

/// Asks all members for this many bytes each, by the command, with these options.
fn ask_all(cluster: &Cluster, name: &str, bytes: usize, options: &[&str]) -> Outcome {
    let most = MEMBERS.to_string();
    let options = [&["--min", &most, "--max", &most], options].concat();
    judge(ask(cluster, name, bytes, &options)?, bytes, MEMBERS)?;
    Ok(())
}

/// Asks all members for this many bytes each, by the library.
fn ask_by_library(cluster: &Cluster, round: usize, bytes: usize) -> Outcome {
    let name = format!("program-{round}");
    let interface = cluster.bed.address(1).to_string();
    let (key, most) = (cluster.path("cluster.key"), MEMBERS.to_string());
    let mut line = cluster.bed.command(1, PROGRAM);
    line.args([
        ASK,
        &name,
        &interface,
        GROUP,
        &key,
        &most,
        &bytes.to_string(),
    ]);
    judge(cluster.bed.launch(&name, line)?, bytes, MEMBERS)?;
    Ok(())
}

/// Fails unless this many members have replied, each once with this many bytes, whole; their names.
fn judge(mut requester: Process, bytes: usize, members: usize) -> Outcome<BTreeSet<String>> {
    let who = requester.label().to_owned();
    let Some(status) = requester.wait(LIMIT)? else {
        return Err(format!("{who} does not end").into());
    };
    let lines = requester.stdout()?;
    let lines = lines.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
    let replies = lines.iter().filter(|line| line["event"] == "reply");
    let is_whole = |line: &&Value| {
        let text = line["text"].as_str().unwrap_or_default();
        text.len() == bytes && text.bytes().all(|byte| byte == b'x')
    };
    let whole = replies.clone().filter(is_whole);
    let names = whole.filter_map(|line| Some(line["member"].as_str()?.to_owned()));
    let names: BTreeSet<String> = names.collect();
    let seconds = &lines.last().cloned().unwrap_or_default()["seconds"];
    println!("{who}: {bytes} bytes each: {seconds} s");
    match status.code() == Some(0) && names.len() == members && replies.count() == members {
        true => Ok(names),
        false => Err(format!("{who}: {bytes} bytes: {} replied, {status}", names.len()).into()),
    }
}

/// How many commands of members have begun.
fn begun(members: &[Process]) -> Outcome<usize> {
    let mut begun = 0;
    for member in members {
        begun += member.stdout()?.matches("\"begun\"").count();
    }
    Ok(begun)
}

/// Datagrams for which the requester's host had no room in a socket's buffer, since its start.
fn unread(cluster: &Cluster) -> Outcome<u64> {
    let output = cluster
        .bed
        .command(1, "cat")
        .arg("/proc/net/snmp")
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut rows = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (rows.next().unwrap_or(""), rows.next().unwrap_or(""));
    let mut columns = names.split(' ').zip(values.split(' '));
    let unread = columns.find(|(name, _)| *name == "RcvbufErrors");
    Ok(unread.ok_or("no count of full buffers")?.1.parse()?)
}

/// Twenty members that listen, four on each host, each of the four in another subgroup.
fn answering(cluster: &Cluster) -> Outcome<Vec<Process>> {
    let mut members = Vec::new();
    for member in 0..MEMBERS {
        let (host, name) = (2 + member % HOSTS, format!("member-{member:02}"));
        let subgroup = (member / HOSTS).to_string();
        let options = ["--json", "--subgroup", &subgroup];
        let options = [&options[..], &["--exec", "sh", "-c", REPLY]].concat();
        members.push(launch(cluster, host, &name, "answer", &options)?);
    }
    all_listen(&members)?;
    Ok(members)
}

fn all_listen(members: &[Process]) -> Outcome {
    until(LIMIT, "all members listen", || {
        let mut all = true;
        for member in members {
            all &= member.stdout()?.contains("listening");
        }
        Ok(all.then_some(()))
    })
}

fn all_reply() -> Outcome {
    let mut cluster = Cluster::new(HOSTS + 1, Link::Gbit1)?;
    let _members = answering(&cluster)?;
    for (round, (permille, bytes)) in [(0, 1), (0, 65_536), (50, 1), (50, 65_536)]
        .into_iter()
        .enumerate()
    {
        for host in 1..=HOSTS + 1 {
            cluster.bed.lose(host, permille)?;
        }
        ask_all(&cluster, &format!("console-{round}"), bytes, &[])?;
        ask_by_library(&cluster, round, bytes)?;
    }
    cluster.pass();
    Ok(())
}

/// Two of five hosts have no multicast: one request reaches all five.
fn with_and_without_multicast() -> Outcome {
    let mut cluster = Cluster::new(HOSTS + 1, Link::Gbit1)?;
    let key = cluster.path("cluster.key");
    let without = [5, 6];
    let mut members = Vec::new();
    for host in 2..=HOSTS + 1 {
        let (name, at) = (format!("member-{host}"), cluster.bed.address(host));
        let place = match without.contains(&host) {
            true => "--listen",
            false => "--interface",
        };
        if without.contains(&host) {
            cluster.bed.without_multicast(host)?;
        }
        let mut line = cluster.command(host, &["answer", "--group", GROUP, "--key", &key]);
        line.args([place, &at.to_string(), "--name", &name, "--json"]);
        line.args(["--exec", "sh", "-c", REPLY]);
        members.push(cluster.bed.launch(&name, line)?);
    }
    all_listen(&members)?;
    let peers = without.map(|host| cluster.bed.address(host).to_string());
    let peers = peers.join(",");
    for (round, (permille, bytes)) in [(0, 1), (0, 65_536), (50, 65_536)].into_iter().enumerate() {
        for host in 1..=HOSTS + 1 {
            cluster.bed.lose(host, permille)?;
        }
        let options = ["--peer", &peers, "--min", "5", "--max", "5"];
        let asked = ask(&cluster, &format!("copies-{round}"), bytes, &options)?;
        judge(asked, bytes, HOSTS)?;
    }
    // Without their names there are three.
    for host in 1..=HOSTS + 1 {
        cluster.bed.lose(host, 0)?;
    }
    judge(
        ask(&cluster, "no-copies", 1, &[])?,
        1,
        HOSTS - without.len(),
    )?;
    let mut census = launch(
        &cluster,
        1,
        "asker",
        "census",
        &["--json", "--peer", &peers],
    )?;
    let status = census.wait(LIMIT)?.ok_or("the census does not end")?;
    let counted = census.stdout()?;
    if !status.success() || !counted.contains("\"hosts\":5") {
        return Err(format!("{status}: {counted}").into());
    }
    cluster.pass();
    Ok(())
}

fn bounds_are_kept() -> Outcome {
    let mut cluster = Cluster::new(HOSTS + 1, Link::Gbit1)?;
    let members = answering(&cluster)?;
    let most = (MEMBERS + 1).to_string();
    let mut too_few = ask(&cluster, "too-few", 1, &["--min", &most, "--wait", "1"])?;
    let status = too_few
        .wait(LIMIT)?
        .ok_or("a request for too many does not end")?;
    assert_eq!(
        (status.code(), begun(&members)?),
        (Some(1), 0),
        "nobody is asked"
    );
    judge(ask(&cluster, "seven", 1, &["--max", "7"])?, 1, 7)?;
    assert_eq!(begun(&members)?, 7);
    let some = ask(&cluster, "some", 1, &["--subgroup", "1,3", "--max", "10"])?;
    let expected = (5..10)
        .chain(15..20)
        .map(|member| format!("member-{member:02}"));
    assert_eq!(judge(some, 1, 10)?, expected.collect());
    assert_eq!(begun(&members)?, 17);
    let before = unread(&cluster)?;
    ask_all(&cluster, "backs-off", 65_536, &["--backoff", "2"])?;
    assert_eq!(unread(&cluster)? - before, 0, "datagrams without room");
    cluster.pass();
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn twenty_members_reply_once_and_whole() -> Outcome {
    live(all_reply)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn members_with_and_without_multicast_reply_to_one_request_and_are_in_one_census() -> Outcome {
    live(with_and_without_multicast)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_least_the_most_and_subgroups_are_kept_and_no_buffer_is_full() -> Outcome {
    live(bounds_are_kept)
}
