//! The metrics of a daemon in Prometheus' text format, from its status: figures by names of their
//! own, and every counter by its name in the status.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Figures of the status that are one number: the metric, its place in the status, its help.
const FIGURES: &[(&str, &str, &str)] = &[
    ("uptime_seconds", "/uptime", "Time since the start."),
    ("groups", "/groups", "Groups in the configuration."),
];
/// Figures of the order, in the table of its name in the status, where it has them.
const ORDER_FIGURES: &[(&str, &str, &str)] = &[
    (
        "queued_bytes",
        "queued",
        "Bytes of messages that wait to be sent.",
    ),
    (
        "datagram_body_bytes",
        "body_max",
        "The largest datagram body that all members' ways carry.",
    ),
    (
        "rotation_seconds",
        "rotation",
        "Time of one rotation of the token, smoothed.",
    ),
    (
        "token_loss_seconds",
        "token_loss",
        "Time after which the token counts as lost.",
    ),
    (
        "trip_seconds",
        "trip",
        "Time from a packet to its acknowledgement, smoothed.",
    ),
];
/// Figures of clients that are added up: the metric, the field, its help.
const CLIENT_SUMS: &[(&str, &str, &str)] = &[
    (
        "clients_input_bytes",
        "input",
        "Bytes of clients' requests that wait.",
    ),
    (
        "clients_unaccepted_messages",
        "unaccepted",
        "Messages of clients that are on their way.",
    ),
    (
        "clients_backlog_bytes",
        "backlog",
        "Bytes that wait for clients.",
    ),
    (
        "clients_on_disk_bytes",
        "on_disk",
        "Of the bytes that wait for clients, those on the disk.",
    ),
];
/// Fields of counters that are no counters.
const GAUGES: &[&str] = &["gap_longest"];
/// Figures of the gossip of a bimodal group that are no counters.
const GOSSIP_GAUGES: &[&str] = &[
    "buffered",
    "messages",
    "long_term",
    "long_term_max",
    "short_term",
    "waiting",
    "queued",
    "view",
    "senders",
];

/// The metrics of a daemon with this status.
pub(super) fn of(status: &Value) -> String {
    let mut families = Families::default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = ["name", "version", "protocol"].map(|key| (key, text(&status[key])));
    families.gauge("info", "The daemon: always 1.", &labels, &1.into());
    for (name, place, help) in FIGURES {
        families.gauge(
            name,
            help,
            &[],
            status.pointer(place).unwrap_or(&Value::Null),
        );
    }
    let state = [
        (
            "operational",
            "state",
            "operational",
            "Whether the order's state is `operational`: 1 or 0.",
        ),
        (
            "steady",
            "groups_state",
            "steady",
            "Whether the state of the groups is `steady`: 1 or 0.",
        ),
    ];
    for (name, key, word, help) in state {
        families.gauge(name, help, &[], &u8::from(status[key] == word).into());
    }
    let members = status["configuration"]["members"].as_array();
    let count = |list: Option<&Vec<Value>>| Value::from(list.map_or(0, Vec::len));
    families.gauge(
        "members",
        "Daemons in the configuration.",
        &[],
        &count(members),
    );
    majority(&mut families, "", &status["configuration"], &[]);
    clients(&mut families, items(&status["clients"]));
    for (name, key, help) in [
        (
            "strangers",
            "strangers",
            "Kinds of senders that do not belong to the cluster.",
        ),
        (
            "other_orders",
            "other_orders",
            "Daemons of the cluster with another protocol.",
        ),
        (
            "unheard",
            "unheard",
            "Members of the configuration from which nothing comes straight.",
        ),
        (
            "no_room",
            "no_room",
            "Daemons that are heard and stay apart: all together would be too many for one configuration.",
        ),
    ] {
        families.gauge(name, help, &[], &count(status[key].as_array()));
    }
    let has_trouble = u8::from(status["trouble"].is_string());
    let help = "Whether the daemon's own interface or address is not there: 1 or 0.";
    families.gauge("network_trouble", help, &[], &has_trouble.into());
    let help = "Daemons in quarantine that are heard: they live, and are left out.";
    families.gauge("left_out", help, &[], &living(&status["left_out"]));
    if let Some(written) = status["history"]["written"].as_bool() {
        let help = "Whether the history is written: 1, or 0 if it has ended.";
        families.gauge("history_written", help, &[], &u8::from(written).into());
    }
    let order = &status[status["protocol"].as_str().unwrap_or_default()];
    for (name, key, help) in ORDER_FIGURES {
        families.gauge(name, help, &[], &order[key]);
    }
    for (section, counters) in fields(&status["counters"]) {
        families.counters(section, &format!("counters.{section}"), &[], counters);
    }
    for ring in items(&status["rings"]) {
        further_ring(&mut families, ring);
    }
    for group in items(&status["bimodal"]) {
        bimodal(&mut families, group);
    }
    families.text()
}

/// How many of the daemons that are left out live.
fn living(left_out: &Value) -> Value {
    let living = items(left_out).iter().filter(|it| it["lives"] == true);
    living.count().into()
}

/// Whether the daemons of a `configuration` are a majority, and of how many.
fn majority(
    families: &mut Families,
    prefix: &str,
    configuration: &Value,
    labels: &[(&str, String)],
) {
    let is_one = configuration["majority"].as_bool().map(u8::from);
    let help = "Whether the daemons of the configuration are a majority, so that the service \
                majority works: 1 or 0.";
    families.gauge(&format!("{prefix}majority"), help, labels, &is_one.into());
    let help = "MaxN: more than half of so many daemons are a majority.";
    let of = &configuration["majority_of"];
    families.gauge(&format!("{prefix}majority_of"), help, labels, of);
}

fn clients(families: &mut Families, clients: &[Value]) {
    let mut by_transport: BTreeMap<&str, usize> = BTreeMap::from([("unix", 0), ("tcp", 0)]);
    for client in clients {
        let transport = client["transport"].as_str().unwrap_or("other");
        *by_transport.entry(transport).or_default() += 1;
    }
    for (transport, count) in by_transport {
        let labels = [("transport", transport.to_owned())];
        families.gauge("clients", "Clients of this daemon.", &labels, &count.into());
    }
    for (name, key, help) in CLIENT_SUMS {
        let sum: u64 = clients
            .iter()
            .filter_map(|client| client[key].as_u64())
            .sum();
        families.gauge(name, help, &[], &sum.into());
    }
    let most = clients
        .iter()
        .filter_map(|client| client["backlog"].as_u64())
        .max();
    let help = "Bytes that wait for the client for which most do.";
    families.gauge(
        "client_backlog_largest_bytes",
        help,
        &[],
        &most.unwrap_or(0).into(),
    );
    let holding = clients.iter().filter(|client| client["holds_back"] == true);
    let help = "Clients for which publishers wait.";
    families.gauge("clients_holding_back", help, &[], &holding.count().into());
}

/// One of the `rings` of the status, with labels for its top and its address: while one ends,
/// another may have the same top.
fn further_ring(families: &mut Families, ring: &Value) {
    let labels = [("ring", "top"), ("multicast", "multicast")]
        .map(|(label, key)| (label, ring[key].as_str().unwrap_or_default().to_owned()));
    let members = ring["configuration"]["members"]
        .as_array()
        .map_or(0, Vec::len);
    let is_in = u8::from(ring["state"] == "operational");
    let has_trouble = u8::from(ring["trouble"].is_string());
    for (name, help, value) in [
        (
            "further_ring_members",
            "Daemons in the configuration of a further ring.",
            members.into(),
        ),
        (
            "further_ring_operational",
            "Whether a further ring's state is `operational`: 1 or 0.",
            is_in.into(),
        ),
        (
            "further_ring_trouble",
            "Whether the last attempt to join a further ring failed, or its interface or address is \
             not there: 1 or 0.",
            has_trouble.into(),
        ),
        (
            "further_ring_left_out",
            "Daemons in quarantine in a further ring that are heard there: they live, and are left out.",
            living(&ring["left_out"]),
        ),
        (
            "further_ring_no_room",
            "Daemons that are heard in a further ring and stay apart: all together would be too many for one \
             configuration.",
            items(&ring["no_room"]).len().into(),
        ),
        (
            "further_ring_groups",
            "Groups of a further ring.",
            ring["groups"].clone(),
        ),
    ] {
        families.gauge(name, help, &labels, &value);
    }
    majority(families, "further_ring_", &ring["configuration"], &labels);
    families.counters(
        "further_ring_order",
        "rings[].counters",
        &labels,
        &ring["counters"],
    );
    families.counters("further_ring_node", "rings[].node", &labels, &ring["node"]);
}

/// One of the `bimodal` groups of the status, with its name as a label.
fn bimodal(families: &mut Families, group: &Value) {
    let labels = [(
        "group",
        group["group"].as_str().unwrap_or_default().to_owned(),
    )];
    for key in ["daemons", "members", "subscribers", "waiting"] {
        let help = format!("bimodal[].{key} of `groupcast status --json`.");
        families.gauge(&format!("bimodal_{key}"), &help, &labels, &group[key]);
    }
    for (key, value) in fields(&group["gossip"]) {
        let help = format!("bimodal[].gossip.{key} of `groupcast status --json`.");
        let name = format!("bimodal_gossip_{key}");
        match GOSSIP_GAUGES.contains(&key.as_str()) {
            true => families.gauge(&name, &help, &labels, value),
            false => families.add(&format!("{name}_total"), "counter", &help, &labels, value),
        }
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Metrics by name: what belongs to one name stands together.
#[derive(Default)]
struct Families(BTreeMap<String, Family>);

struct Family {
    kind: &'static str,
    help: String,
    samples: String,
}

impl Families {
    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, String)], value: &Value) {
        self.add(name, "gauge", help, labels, value);
    }

    /// The counters in `value`, at the place `path` of the status, whatever their depth.
    fn counters(&mut self, prefix: &str, path: &str, labels: &[(&str, String)], value: &Value) {
        let help = format!("{path} of `groupcast status --json`.");
        match value {
            Value::Object(inner) => {
                for (key, value) in inner {
                    let (prefix, path) = (format!("{prefix}_{key}"), format!("{path}.{key}"));
                    match GAUGES.contains(&key.as_str()) {
                        true => self.gauge(&format!("{prefix}_seconds"), &help, labels, value),
                        false => self.counters(&prefix, &path, labels, value),
                    }
                }
            }
            value => self.add(&format!("{prefix}_total"), "counter", &help, labels, value),
        }
    }

    /// A sample, if `value` is a number.
    fn add(
        &mut self,
        name: &str,
        kind: &'static str,
        help: &str,
        labels: &[(&str, String)],
        value: &Value,
    ) {
        let Value::Number(value) = value else {
            return;
        };
        let name = format!("groupcast_{name}");
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let sample = format!("{name}{labels} {value}\n");
        let family = self.0.entry(name).or_insert_with(|| Family {
            kind,
            help: help.to_owned(),
            samples: String::new(),
        });
        family.samples.push_str(&sample);
    }

    fn text(self) -> String {
        let mut text = String::new();
        for (name, family) in self.0 {
            let Family {
                kind,
                help,
                samples,
            } = family;
            // Writing into a string does not fail.
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}"
            );
        }
        text
    }
}

/// The value of a label, as it stands between quotes.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use groupcast_protocols::gossip::GossipStatus;
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_and_counters_have_names_types_and_helps() {
        let status = json!({
            "name": "h\"1\\", "version": "0.1.0", "protocol": "ring", "uptime": 2.5, "groups": 3,
            "state": "operational", "groups_state": "exchanging",
            "configuration": {"members": [{}, {}], "majority": false, "majority_of": 5},
            "clients": [
                {"transport": "unix", "backlog": 5, "unaccepted": 1, "holds_back": true},
                {"transport": "tcp", "backlog": 7, "unaccepted": 0, "holds_back": false},
            ],
            "history": {"path": "x", "written": false},
            "strangers": [{}], "other_orders": [], "unheard": [{}, {}], "no_room": [{}], "trouble": "down",
            "left_out": [{"lives": true}, {"lives": false}],
            "ring": {"queued": 10, "rotation": 0.000025, "narrowest": null},
            "counters": {
                "node": {"forged": 4},
                "net": {"data": {"kernel_drops": 9}, "gap_longest": 0.5},
                "ring": {"tokens": 100},
            },
            "rings": [{"top": "wb", "multicast": "239.0.0.1:5", "state": "operational", "trouble": null, "groups": 1,
                "configuration": {"members": [{}], "majority": true, "majority_of": 1}, "counters": {"tokens": 2}, "node": null,
                "left_out": [{"lives": false}, {"lives": true}]}],
            "bimodal": [{"group": "ticks", "daemons": 2, "members": 4, "subscribers": 1, "waiting": 0,
                "gossip": {"buffered": 100, "gaps": 6}}],
        });
        let text = of(&status);
        for line in [
            "# HELP groupcast_info The daemon: always 1.",
            "# TYPE groupcast_info gauge",
            r#"groupcast_info{name="h\"1\\",version="0.1.0",protocol="ring"} 1"#,
            "groupcast_uptime_seconds 2.5",
            "groupcast_groups 3",
            "groupcast_operational 1",
            "groupcast_steady 0",
            "groupcast_members 2",
            "groupcast_majority 0",
            "groupcast_majority_of 5",
            "groupcast_further_ring_majority{ring=\"wb\",multicast=\"239.0.0.1:5\"} 1",
            "groupcast_clients{transport=\"tcp\"} 1",
            "groupcast_clients_backlog_bytes 12",
            "groupcast_client_backlog_largest_bytes 7",
            "groupcast_clients_unaccepted_messages 1",
            "groupcast_clients_holding_back 1",
            "groupcast_history_written 0",
            "groupcast_strangers 1",
            "groupcast_other_orders 0",
            "groupcast_unheard 2",
            "groupcast_no_room 1",
            "groupcast_left_out 1",
            "groupcast_network_trouble 1",
            "groupcast_queued_bytes 10",
            "groupcast_rotation_seconds 0.000025",
            "groupcast_node_forged_total 4",
            "# HELP groupcast_net_data_kernel_drops_total counters.net.data.kernel_drops of `groupcast status --json`.",
            "# TYPE groupcast_net_data_kernel_drops_total counter",
            "groupcast_net_data_kernel_drops_total 9",
            "groupcast_net_gap_longest_seconds 0.5",
            "groupcast_ring_tokens_total 100",
            "groupcast_further_ring_members{ring=\"wb\",multicast=\"239.0.0.1:5\"} 1",
            "groupcast_further_ring_trouble{ring=\"wb\",multicast=\"239.0.0.1:5\"} 0",
            "groupcast_further_ring_left_out{ring=\"wb\",multicast=\"239.0.0.1:5\"} 1",
            "groupcast_further_ring_order_tokens_total{ring=\"wb\",multicast=\"239.0.0.1:5\"} 2",
            "groupcast_bimodal_subscribers{group=\"ticks\"} 1",
            "groupcast_bimodal_gossip_buffered{group=\"ticks\"} 100",
            "groupcast_bimodal_gossip_gaps_total{group=\"ticks\"} 6",
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("trip_seconds"), "RMP's alone");
    }

    #[test]
    fn what_the_gossip_holds_is_no_counter() {
        let mut gossip = Map::new();
        let mut kinds = Vec::new();
        let mut is_counter = false;
        GossipStatus::default().list(&mut |name, value| {
            let name = name.replace([' ', '-'], "_");
            is_counter |= name == "requests";
            kinds.push(match is_counter || name == "dropped" {
                true => format!("# TYPE groupcast_bimodal_gossip_{name}_total counter\n"),
                false => format!("# TYPE groupcast_bimodal_gossip_{name} gauge\n"),
            });
            gossip.insert(name, value.into());
        });
        let text = of(&json!({"bimodal": [{"group": "ticks", "gossip": gossip}]}));
        for kind in kinds {
            assert!(text.contains(&kind), "no {kind} in\n{text}");
        }
    }

    #[test]
    fn every_name_is_one_that_prometheus_takes_and_stands_in_one_place() {
        let rings: Vec<Value> = [("a", "239.0.0.1:5"), ("a", "239.0.0.2:5"), ("b", "239.0.0.3:5")]
            .map(|(top, multicast)| {
                json!({"top": top, "multicast": multicast, "groups": 0, "counters": {"tokens": 1}})
            })
            .into();
        let text = of(&json!({"rings": rings, "counters": {"node": {"own": 1}}}));
        let mut names = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                names.push(rest.split(' ').next().unwrap().to_owned());
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(names.last().map(String::as_str), Some(name), "{line}");
                let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '_';
                assert!(name.chars().all(is_plain), "{name}");
            }
        }
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted, names);
    }
}
