//! UFTP, udpcast and NORM in the same network, with settings that suit it. None of them encrypts
//! here.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::attempt::{Attempt, Course, Outcome};
use crate::measure::BenchError;
use crate::process::Process;
use crate::testbed::Link;

/// Receivers that do not say when they are ready have this long.
const SETTLE: Duration = Duration::from_millis(500);
/// How long receivers may take to end after the sender.
const PATIENCE: Duration = Duration::from_secs(5);
/// UFTP's control group and its data group.
const UFTP: [&str; 2] = ["239.79.1.4", "239.79.1.5"];
/// udpcast's options at both ends. Without a group of its own it meets at 224.0.0.1, which does not
/// get through here.
const UDPCAST: [&str; 5] = [
    "--nokbd",
    "--interface",
    "eth0",
    "--mcast-rdv-address",
    "239.79.1.7",
];
/// NORM's group and port.
const NORM: [&str; 2] = ["239.79.1.6", "7940"];
/// The program that sends and receives a file with NORM's library.
const NORM_SOURCE: &str = include_str!("norm.cpp");

/// UFTP: a closed group of all receivers, round trips of a LAN, as fast as the link's rate allows.
pub(super) fn uftp(course: &Course<'_>) -> Result<Attempt, BenchError> {
    if !Course::is_installed("uftp") || !Course::is_installed("uftpd") {
        return Ok(Outcome::Missing("uftp").into());
    }
    let _receivers = course
        .receivers()
        .map(|host| {
            let directory = course.files.clear(host)?.display().to_string();
            let uid = format!("0x{host:08x}");
            let fixed = ["-d", "-I", "eth0", "-M", UFTP[0], "-B", "8388608"];
            let own = ["-U", &uid, "-D", &directory];
            let command = course.command(host, "uftpd", fixed.into_iter().chain(own));
            Ok(course.bed.launch(&format!("uftpd-{host}"), command)?)
        })
        .collect::<Result<Vec<Process>, BenchError>>()?;
    thread::sleep(SETTLE);
    let hosts: Vec<String> = course
        .receivers()
        .map(|host| format!("0x{host:08x}"))
        .collect();
    let hosts = hosts.join(",");
    let source = course.files.source().display().to_string();
    let rate = kilobits(course.bed.link());
    let fixed = ["-I", "eth0", "-M", UFTP[0], "-P", UFTP[1], "-B", "8388608"];
    let pace = ["-R", &rate, "-r", "0.05:0.005:1.0"];
    let rest = ["-b", "1448", "-H", &hosts, &source];
    let args = fixed.into_iter().chain(pace).chain(rest);
    let command = course.command(1, "uftp", args);
    let (outcome, _) = course.race("uftp", command, course.files.name())?;
    Ok(outcome.into())
}

/// UFTP's rate: as fast as it can, or 95 % of the link.
fn kilobits(link: Link) -> String {
    match link.bits_per_second() {
        None => "-1".to_owned(),
        Some(bits) => (bits * 95 / 100 / 1000).to_string(),
    }
}

/// udpcast: full duplex, starting with the last receiver.
pub(super) fn udpcast(course: &Course<'_>) -> Result<Attempt, BenchError> {
    if !Course::is_installed("udp-sender") || !Course::is_installed("udp-receiver") {
        return Ok(Outcome::Missing("udpcast").into());
    }
    let name = course.files.name();
    let mut receivers = course
        .receivers()
        .map(|host| {
            let file = course.files.clear(host)?.join(name).display().to_string();
            let args = UDPCAST.into_iter().chain(["--nosync", "--file", &file]);
            let command = course.command(host, "udp-receiver", args);
            Ok(course
                .bed
                .launch(&format!("udp-receiver-{host}"), command)?)
        })
        .collect::<Result<Vec<Process>, BenchError>>()?;
    thread::sleep(SETTLE);
    let source = course.files.source().display().to_string();
    let count = receivers.len().to_string();
    let own = [
        "--full-duplex",
        "--min-receivers",
        &count,
        "--file",
        &source,
    ];
    let command = course.command(1, "udp-sender", UDPCAST.into_iter().chain(own));
    let (outcome, _) = course.race("udp-sender", command, name)?;
    for receiver in &mut receivers {
        // One that did not end by itself is ended when it is dropped.
        let _ = receiver.wait(PATIENCE);
    }
    Ok(outcome.into())
}

/// NORM: its library's file transfer with congestion control, acknowledged by every receiver.
pub(super) fn norm(course: &Course<'_>) -> Result<Attempt, BenchError> {
    let Some(program) = build_norm(course)? else {
        return Ok(Outcome::Missing("libnorm-dev g++").into());
    };
    let [group, port] = NORM;
    let name = course.files.name();
    let mut receivers = course
        .receivers()
        .map(|host| {
            let directory = course.files.clear(host)?.display().to_string();
            let id = host.to_string();
            let args = ["recv", group, port, "eth0", &id, &directory, name];
            let command = course.command(host, &program, args);
            Ok(course.bed.launch(&format!("norm-{host}"), command)?)
        })
        .collect::<Result<Vec<Process>, BenchError>>()?;
    thread::sleep(SETTLE);
    let source = course.files.source().display().to_string();
    let last = course.bed.hosts().to_string();
    let args = ["send", group, port, "eth0", "1", &source, "2", &last];
    let command = course.command(1, &program, args);
    let (outcome, _) = course.race("norm", command, name)?;
    for receiver in &mut receivers {
        let _ = receiver.terminate();
        let _ = receiver.wait(PATIENCE);
    }
    Ok(outcome.into())
}

/// The program, built from its source; `None` if the library or the compiler is not there.
fn build_norm(course: &Course<'_>) -> Result<Option<String>, BenchError> {
    let (source, program) = (
        course.bed.directory().join("norm.cpp"),
        course.bed.directory().join("norm-file"),
    );
    let built = program.display().to_string();
    if program.exists() {
        return Ok(Some(built));
    }
    if !Course::is_installed("c++") {
        return Ok(None);
    }
    fs::write(&source, NORM_SOURCE).map_err(BenchError::io("write a program"))?;
    let compiled = Command::new("c++")
        .args(["-O2", "-o", &built])
        .arg(&source)
        .arg("-lnorm")
        .output()
        .map_err(BenchError::io("run the C++ compiler"))?;
    Ok(compiled.status.success().then_some(built))
}
