//! `groupcast status`: the state of a daemon.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::Style;
use groupcast_client::Client;
use serde_json::Value;

use crate::failure::Failure;
use crate::number::number_of;
use crate::table::Table;
use crate::target::{Target, print};

/// Show the state of a daemon: its configuration, its clients, its counters.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print the daemon's answer as one JSON object (docs/status.md)
    #[arg(long)]
    json: bool,
}

/// Asks the daemon and prints its answer.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let answer = args.target.ask(Client::status)?;
    print(&answer, args.json, write)
}

/// The progress of a change of the key, if one is under way.
fn key_change(change: &Value) -> Option<String> {
    let key = change["fingerprint"].as_str()?;
    let hosts: Vec<String> = items(&change["waits_for"]).iter().map(text).collect();
    let step = match change["step"].as_str() {
        None => "not known here: run `groupcast rekey NEWFILE`".into(),
        Some(step) => format!("{step} here"),
    };
    let waits = match hosts.is_empty() {
        true => String::new(),
        false => format!(", waits for {}", hosts.join(", ")),
    };
    Some(format!("{key}, {step}{waits}"))
}

/// Writes the status for people.
pub(crate) fn write(out: &mut dyn Write, status: &Value) -> io::Result<()> {
    let bold = Style::new().bold();
    let mut line = |name: &str, value: String| writeln!(out, "{bold}{name:<14}{bold:#}{value}");
    line("daemon", text(&status["name"]))?;
    line(
        "version",
        format!(
            "{}, up {}",
            text(&status["version"]),
            uptime(&status["uptime"])
        ),
    )?;
    line(
        "state",
        format!(
            "{} {}, groups {}",
            text(&status["protocol"]),
            text(&status["state"]),
            text(&status["groups_state"])
        ),
    )?;
    line("network", network(status))?;
    if let Some(trouble) = status["trouble"].as_str() {
        line("trouble", trouble.to_owned())?;
    }
    if let Some(key) = status["key"]["fingerprint"].as_str() {
        line("key", format!("fingerprint {key}"))?;
    }
    if status["history"]["written"] == false {
        let path = text(&status["history"]["path"]);
        line(
            "history",
            format!("{path} has ended: it could not be written"),
        )?;
    }
    let configuration = &status["configuration"];
    line("configuration", text(&configuration["id"]))?;
    if let Some(majority) = majority(configuration) {
        line("majority", majority)?;
    }
    line("groups", text(&status["groups"]))?;
    if let Some(change) = key_change(&status["key"]["change"]) {
        line("new key", change)?;
    }
    if let Some(narrowest) = narrowest(status) {
        line("datagrams", narrowest)?;
    }
    for stranger in items(&status["strangers"]) {
        line("stranger", stranger_line(stranger))?;
    }
    for other in items(&status["other_orders"]) {
        line("other order", other_order_line(other))?;
    }
    for (what, told) in not_heard(status) {
        line(what, told)?;
    }

    let mut members = Table::new(&["member", "id"]);
    let mut sorted: Vec<&Value> = items(&configuration["members"]).iter().collect();
    // The names, and behind them those that were not heard yet.
    sorted.sort_by_key(|member| (member["name"].is_null(), text(&member["name"])));
    for member in sorted {
        let name = match &member["name"] {
            Value::String(name) => name.clone(),
            _ => "(not heard yet)".to_owned(),
        };
        members.row([name, text(&member["member"])]);
    }
    writeln!(out)?;
    members.write(out)?;

    write_rings(out, items(&status["rings"]))?;
    write_bimodal(out, items(&status["bimodal"]))?;
    write_clients(out, items(&status["clients"]))
}

/// The daemons that are left out of an order, those from which nothing comes, and those for which
/// there is no room: a word for it, and what is said of the daemon.
pub(crate) fn not_heard(order: &Value) -> impl Iterator<Item = (&'static str, String)> {
    let all = [
        ("left out", "left_out"),
        ("not heard", "unheard"),
        ("no room", "no_room"),
    ];
    all.into_iter().flat_map(move |(what, key)| {
        let members = items(&order[key]).iter();
        members.map(move |it| (what, format!("{}: {}", name_of(it), text(&it["hint"]))))
    })
}

/// The further rings, if there are any: a table, and below it what is wrong.
fn write_rings(out: &mut dyn Write, rings: &[Value]) -> io::Result<()> {
    if rings.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["ring", "stay", "state", "groups", "members"]);
    for ring in rings {
        let members = items(&ring["configuration"]["members"]);
        let names = members.iter().map(|member| text(&member["name"]));
        table.row([
            text(&ring["top"]),
            text(&ring["stay"]),
            text(&ring["groups_state"]),
            text(&ring["groups"]),
            names.collect::<Vec<_>>().join(", "),
        ]);
    }
    writeln!(out)?;
    table.write(out)?;
    for ring in rings {
        let top = text(&ring["top"]);
        if let Some(trouble) = ring["trouble"].as_str() {
            let what = match ring["stay"] == "out" {
                true => "cannot be joined",
                false => "trouble",
            };
            writeln!(out, "ring {top} {what}: {trouble}")?;
        }
        for (what, told) in not_heard(ring) {
            writeln!(out, "ring {top} {what}: {told}")?;
        }
    }
    Ok(())
}

/// The bimodal groups, if there are any.
fn write_bimodal(out: &mut dyn Write, bimodal: &[Value]) -> io::Result<()> {
    if bimodal.is_empty() {
        return Ok(());
    }
    let mut groups = Table::new(&[
        "bimodal group",
        "daemons",
        "subscribers",
        "held",
        "repairs",
        "gaps",
    ]);
    for group in bimodal {
        let gossip = &group["gossip"];
        groups.row([
            text(&group["group"]),
            text(&group["daemons"]),
            text(&group["subscribers"]),
            text(&gossip["buffered"]),
            text(&gossip["repairs"]),
            text(&gossip["gaps"]),
        ]);
    }
    writeln!(out)?;
    groups.write(out)
}

fn write_clients(out: &mut dyn Write, clients: &[Value]) -> io::Result<()> {
    let columns = [
        "name",
        "kind",
        "transport",
        "groups",
        "unaccepted",
        "backlog",
        "dropped",
    ];
    let mut table = Table::new(&[
        "client",
        "kind",
        "by",
        "groups",
        "unaccepted",
        "backlog",
        "dropped",
    ]);
    for client in clients {
        table.row(columns.map(|column| text(&client[column])));
    }
    writeln!(out)?;
    table.write(out)
}

/// Whether the daemons of a configuration are a majority, so that the service `majority` works, and
/// of how many; `None` where the daemon does not say it.
pub(crate) fn majority(configuration: &Value) -> Option<String> {
    let is_one = configuration["majority"].as_bool()?;
    let of = configuration["majority_of"].as_u64()?;
    let here = items(&configuration["members"]).len();
    let of = number_of(of, "daemon", "daemons");
    Some(match is_one {
        true => format!("yes, {here} of {of}"),
        false => format!("NO, {here} of {of}: what is published with service majority is refused"),
    })
}

/// The line of a sender whose datagrams do not belong to the cluster: how many came, and what that
/// means.
fn stranger_line(stranger: &Value) -> String {
    let words = match stranger["kind"].as_str() {
        Some("other_cluster") => "of another key",
        Some("old_key") => "of the key from before its change",
        Some("twin") => "of a copy of this daemon",
        Some("forged") => "that do not open with the key",
        Some("other_version") => "of another release",
        _ => "of another program",
    };
    format!(
        "{} datagrams {words}, last from {} {} s ago: {}",
        text(&stranger["datagrams"]),
        text(&stranger["last"]),
        stranger["heard"].as_f64().unwrap_or(0.0) as u64,
        text(&stranger["hint"])
    )
}

/// The line of a daemon that speaks another protocol: which one, and what to do.
fn other_order_line(other: &Value) -> String {
    format!(
        "{} speaks {}, heard {} s ago: {}",
        text(&other["address"]),
        text(&other["order"]),
        other["heard"].as_f64().unwrap_or(0.0) as u64,
        text(&other["hint"])
    )
}

/// The line of the member because of which this daemon's datagrams are smaller than its own network
/// allows.
fn narrowest(status: &Value) -> Option<String> {
    let order = &status[status["protocol"].as_str()?];
    order["narrowest"].as_object()?;
    let name = name_of(&order["narrowest"]);
    let size = text(&order["body_max"]);
    Some(format!(
        "{size} bytes at most, as many as the way to {name} carries"
    ))
}

/// The name of a member, or its number if its name is not known.
fn name_of(member: &Value) -> String {
    match &member["name"] {
        Value::String(name) => name.clone(),
        _ => text(&member["member"]),
    }
}

fn network(status: &Value) -> String {
    let reach = &status["reach"];
    let reach = match &reach["multicast"] {
        Value::String(group) => match items(&reach["copies"]).len() {
            0 => format!("multicast {group}"),
            count => {
                let daemons = number_of(count as u64, "daemon", "daemons");
                format!("multicast {group} with copies to {daemons} without")
            }
        },
        _ => {
            let peers = items(&reach["peers"]).len() as u64;
            format!("unicast to {}", number_of(peers, "peer", "peers"))
        }
    };
    let secured = match status["secured"].as_bool() {
        Some(true) => "encrypted",
        _ => "NOT PROTECTED (insecure)",
    };
    format!("{}, {reach}, {secured}", text(&status["listen"]))
}

fn uptime(seconds: &Value) -> String {
    let seconds = seconds.as_f64().unwrap_or(0.0) as u64;
    match (
        seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, _, _) => format!("{days} d {hours} h"),
    }
}

/// A value as people write it; `-` where there is none.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_is_readable() {
        let status = json!({
            "name": "host-1", "version": "0.1.0", "uptime": 3_700.5, "secured": true,
            "listen": "10.0.0.1:4810", "reach": {"multicast": "239.192.79.1:4809"},
            "protocol": "ring", "state": "operational", "groups_state": "steady", "groups": 2,
            "key": {"fingerprint": "0a1b", "change": null},
            "configuration": {"id": "3-aa.bb", "kind": "regular", "members": [
                {"name": null, "member": "cc.dd"}, {"name": "host-1", "member": "aa.bb"}],
                "majority": false, "majority_of": 5},
            "clients": [{"name": "al@host-1", "kind": "application", "transport": "unix", "groups": 1,
                "input": 0, "unaccepted": 2, "backlog": 30, "dropped": 0}],
        });
        let mut bytes = Vec::new();
        write(&mut anstream::StripStream::new(&mut bytes), &status).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "daemon        host-1\n\
             version       0.1.0, up 1 h 1 min\n\
             state         ring operational, groups steady\n\
             network       10.0.0.1:4810, multicast 239.192.79.1:4809, encrypted\n\
             key           fingerprint 0a1b\n\
             configuration 3-aa.bb\n\
             majority      NO, 2 of 5 daemons: what is published with service majority is refused\n\
             groups        2\n\
             \n\
             member           id\n\
             host-1           aa.bb\n\
             (not heard yet)  cc.dd\n\
             \n\
             client     kind         by    groups  unaccepted  backlog  dropped\n\
             al@host-1  application  unix  1       2           30       0\n"
        );
    }

    #[test]
    fn daemons_that_get_copies_are_counted() {
        let mut status = json!({"listen": "10.0.0.1:4810", "secured": true, "reach": {
            "multicast": "239.192.79.1:4809", "copies": ["10.0.0.4:4810", "10.0.0.5:4810"]}});
        let said = "10.0.0.1:4810, multicast 239.192.79.1:4809 with copies to 2 daemons without, \
                    encrypted";
        assert_eq!(network(&status), said);
        status["reach"] = json!({"peers": ["10.0.0.4:4810"], "copies": ["10.0.0.4:4810"]});
        assert_eq!(
            network(&status),
            "10.0.0.1:4810, unicast to 1 peer, encrypted"
        );
    }

    #[test]
    fn the_member_whose_way_carries_less_is_named() {
        let mut status = json!({"protocol": "ring", "ring": {"body_max": 1351,
            "narrowest": {"name": "host-3", "member": "aa.bb"}}});
        let said = "1351 bytes at most, as many as the way to host-3 carries";
        assert_eq!(narrowest(&status).as_deref(), Some(said));
        status["ring"]["narrowest"] = Value::Null;
        assert_eq!(narrowest(&status), None);
    }

    #[test]
    fn daemons_that_speak_another_protocol_have_a_line() {
        let status = json!({"other_orders": [{"order": "rmp", "member": "aa.bb",
            "address": "10.0.0.3:4810", "heard": 1.7, "hint": "do this"}]});
        let mut bytes = Vec::new();
        write(&mut anstream::StripStream::new(&mut bytes), &status).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let line = "other order   10.0.0.3:4810 speaks rmp, heard 1 s ago: do this\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn below_the_table_of_rings_is_what_is_wrong_with_each() {
        let status = json!({"rings": [
            {"top": "wb", "stay": "out", "trouble": "no room"},
            {"top": "ops", "stay": "in", "trouble": "it is down",
                "left_out": [{"name": "h4", "member": "aa.bb", "hint": "given up"}]},
        ]});
        let mut bytes = Vec::new();
        write(&mut anstream::StripStream::new(&mut bytes), &status).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines = "ring wb cannot be joined: no room\n\
                     ring ops trouble: it is down\n\
                     ring ops left out: h4: given up\n";
        assert!(text.contains(lines), "{text}");
    }

    #[test]
    fn bimodal_groups_have_a_table_where_there_are_some() {
        let status = json!({
            "bimodal": [{"group": "ticks", "daemons": 3, "subscribers": 1,
                "gossip": {"buffered": 2_048, "repairs": 5, "gaps": 0}}],
        });
        let mut bytes = Vec::new();
        write(&mut anstream::StripStream::new(&mut bytes), &status).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let table = "bimodal group  daemons  subscribers  held  repairs  gaps\n\
                     ticks          3        1            2048  5        0\n";
        assert!(text.contains(table), "{text}");
    }
}
