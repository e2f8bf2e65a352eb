//! Receivers are counted, with their subgroups; one that was killed is not counted any more.
//!
//! Method: the real binary on a test bed of four hosts, `recv` on three, `census` on the first.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::files::{Site, await_event};
use groupcast_suite::live::{Outcome, live};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// What a census prints with these options, and its exit code.
fn census(site: &mut Site, options: &[&str]) -> Outcome<(Vec<Value>, Option<i32>)> {
    let mut process = site.launch(1, "census", options)?;
    let Some(status) = process.wait(LIMIT)? else {
        return Err("the census does not end".into());
    };
    let lines = process.stdout()?;
    let lines = lines.lines().map(serde_json::from_str);
    Ok((lines.collect::<Result<_, _>>()?, status.code()))
}

/// Fails unless all receivers of the census are these: names with subgroups.
fn expect(site: &mut Site, options: &[&str], hosts: &[(&str, &[u8])]) -> Outcome {
    let all = [&["--list"], options].concat();
    let (lines, code) = census(site, &all)?;
    let found: Vec<Value> = lines
        .iter()
        .filter(|line| line["event"] == "host")
        .map(|line| serde_json::json!([line["name"], line["subgroups"]]))
        .collect();
    let wanted: Vec<Value> = hosts
        .iter()
        .map(|(name, subgroups)| serde_json::json!([name, subgroups]))
        .collect();
    let last = lines.last().cloned().unwrap_or_default();
    let is_right = found == wanted
        && last["event"] == "census"
        && last["hosts"] == hosts.len()
        && last["complete"] == true
        && code == Some(i32::from(hosts.is_empty()));
    match is_right {
        true => Ok(()),
        false => Err(format!("{options:?}: {lines:?}, exit code {code:?}").into()),
    }
}

fn counted() -> Outcome {
    let mut site = Site::new(4, Link::Gbit1)?;
    let mut receivers = Vec::new();
    for (host, subgroups) in [(2, "0,3"), (3, "1"), (4, "1-2")] {
        let out = site.out(host).display().to_string();
        let receiver = site.launch(host, "recv", &["--out", &out, "--subgroup", subgroups])?;
        await_event(&receiver, "listening")?;
        receivers.push(receiver);
    }
    let (two, three, four): (_, _, (_, &[u8])) = (
        ("host-2", &[0u8, 3] as &[u8]),
        ("host-3", &[1u8] as &[u8]),
        ("host-4", &[1, 2]),
    );
    expect(&mut site, &[], &[two, three, four])?;
    expect(&mut site, &["--subgroup", "1"], &[three, four])?;
    expect(&mut site, &["--subgroup", "4-63"], &[])?;
    receivers[2].kill()?;
    expect(&mut site, &[], &[two, three])?;
    receivers[0].kill()?;
    receivers[1].kill()?;
    expect(&mut site, &[], &[])?;
    site.cluster.pass();
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn receivers_are_counted_and_a_killed_one_is_not() -> Outcome {
    live(counted)
}
