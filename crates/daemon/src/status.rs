//! The JSON answer to `groupcast status`, described in `docs/status.md`.

use std::net::SocketAddr;
use std::sync::Arc;

use groupcast_core::node::NodeCounters;
use groupcast_core::status::{Figure, GroupStatus};
use groupcast_core::{MemberId, Node, Ordered as _};
use groupcast_net::{Counters as NetCounters, Endpoint, Group, ReceiveCounters, SendCounters};
use groupcast_session::Engine;
use groupcast_session::groups::{Counters as SessionCounters, Status};
use serde_json::{Map, Value, json};

use crate::bimodal::Bimodal;
use crate::client_calls::ClientCalls;
use crate::config::{Config, Security};
use crate::hearing;
use crate::history::History;
use crate::instance::{self, Instance};
use crate::names::Names;
use crate::narrate::{OTHERS_HINT, place};
use crate::rings::Ring;

/// The word for the groups of a ring that the daemon is not in, and that no client here asks for.
const IDLE: &str = "idle";

/// The daemons of a configuration whose names the engine knows.
type Daemons = [(MemberId, Arc<str>)];

/// The state of the daemon, without its key, its history and its further rings.
pub(crate) fn status(config: &Config, endpoint: &mut Endpoint<Instance>, engine: &Engine) -> Value {
    let net = endpoint.counters();
    let uptime = endpoint.now().as_nanos() as f64 / 1e9;
    let node = endpoint.node();
    let order = instance::order(node);
    let name = config.order.family.name();
    let group = order.map(|order| order.member.status());
    let session = engine.status();
    let mut said = json!({
        "name": config.name,
        "member": node.local().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime": uptime,
        "secured": config.security != Security::Insecure,
        "listen": config.endpoint.listen,
        "reach": reach(config, node),
        "protocol": name,
        "order": name,
        "state": group.as_ref().map(|group| group.state),
        "groups_state": session.phase.name(),
        "configuration": group.as_ref().map(|group| configuration(group, &session.daemons)),
        "groups": session.groups,
        "clients": clients(&session),
        "bimodal": bimodal(node, &session),
        "strangers": strangers(endpoint),
        "other_orders": other_orders(endpoint),
        "counters": {
            "node": node_counters(node.counters()),
            "net": net_counters(net),
            "bimodal_foreign": instance::bimodal(node).map(Bimodal::foreign),
            "session": session_counters(&session.counters),
        },
    });
    said[name] = group
        .as_ref()
        .map(|group| figures(group, &session.daemons))
        .into();
    said["counters"][name] = group.as_ref().map(counters).into();
    said
}

/// The rings beside the daemon's own order.
pub(crate) fn rings(rings: &[Option<Ring>], engine: &Engine, names: &Names) -> Value {
    let rings_of_engine = engine.ring_statuses();
    let all = rings_of_engine.iter();
    let all = all.filter_map(|it| Some((rings.get(it.index)?.as_ref()?, it)));
    all.map(|(ring, session)| {
        let made = session.made.as_ref();
        let status = ring.status();
        let group = status.as_ref().map(|status| &status.group);
        json!({
            "top": &*ring.config.top,
            "multicast": ring.config.multicast,
            "number": made.map(|made| format!("{:016x}", made.number)),
            "ends": session.is_closing,
            "protocol": ring.config.order.family.name(),
            "stay": ring.stay_name(),
            "member": group.map(|_| ring.member().to_string()),
            "state": group.map(|group| group.state),
            "groups_state": match ring.is_out() && !engine.asks_for_ring(session.index) {
                true => IDLE,
                false => session.phase.name(),
            },
            "trouble": ring.trouble(),
            "history": ring.history().map(History::status),
            "left_out": status.as_ref().map(|it| hearing::left_out(it.now, &it.hearing, names)),
            "no_room": status.as_ref().map(|it| hearing::no_room(&it.hearing, names)),
            "configuration": group.map(|group| configuration(group, &session.daemons)),
            "groups": session.groups,
            "foreign": status.as_ref().map(|status| status.foreign),
            "figures": group.map(|group| figures(group, &session.daemons)),
            "counters": group.map(counters),
            "node": status.as_ref().map(|status| node_counters(status.node)),
        })
    })
    .collect()
}

/// How this daemon reaches the others, and which addresses get unicast copies.
fn reach(config: &Config, node: &Node<Instance>) -> Value {
    let copies = node.copies().iter().map(|copy| copy.address);
    let copies: Vec<SocketAddr> = copies.collect();
    match &config.endpoint.group {
        Group::Multicast(group) => json!({"multicast": group, "copies": copies}),
        Group::Mesh(peers) => json!({"peers": peers, "copies": copies}),
    }
}

/// The regular configuration.
fn configuration(group: &GroupStatus, daemons: &Daemons) -> Value {
    json!({
        "id": group.configuration.map(|id| id.to_string()),
        "kind": "regular",
        "members": group
            .members
            .iter()
            .map(|member| named(*member, daemons))
            .collect::<Vec<_>>(),
        "majority": group.has_majority(),
        "majority_of": group.max_n,
    })
}

/// A member with its name, which is null until its state has come.
fn named(member: MemberId, daemons: &Daemons) -> Value {
    let mut daemons = daemons.iter();
    let name = daemons
        .find(|(daemon, _)| *daemon == member)
        .map(|(_, name)| name.to_string());
    json!({"name": name, "member": member.to_string()})
}

/// Senders of datagrams that do not belong to the cluster: with another key, of another release, of
/// another program.
fn strangers(endpoint: &Endpoint<Instance>) -> Value {
    let counters = endpoint.node().counters();
    endpoint
        .strangers()
        .map(|stranger| {
            let datagrams = match stranger.kind {
                "other_cluster" => counters.other_cluster,
                "old_key" => counters.old_key,
                "twin" => counters.twin,
                "forged" => counters.forged,
                "other_version" => counters.other_version,
                _ => counters.malformed,
            };
            json!({
                "kind": stranger.kind,
                "datagrams": datagrams,
                "last": stranger.last,
                "heard": stranger.age.as_secs_f64(),
                "hint": stranger.hint,
            })
        })
        .collect()
}

/// Daemons of the cluster with another order, which form another group.
fn other_orders(endpoint: &Endpoint<Instance>) -> Value {
    let (now, node) = (endpoint.now(), endpoint.node());
    let said = instance::others(node).flat_map(|others| {
        others.heard(now).map(move |(member, at)| {
            json!({
                "order": others.protocol(),
                "member": member.to_string(),
                "address": place(node, member),
                "heard": (now - at).as_secs_f64(),
                "hint": OTHERS_HINT,
            })
        })
    });
    said.collect()
}

fn clients(session: &Status) -> Value {
    session
        .clients
        .iter()
        .map(|client| {
            json!({
                "name": &*client.name,
                "kind": client.kind.name(),
                "transport": client.transport.name(),
                "groups": client.groups,
                "input": client.input,
                "unaccepted": client.unaccepted,
                "backlog": client.backlog,
                "on_disk": client.on_disk,
                "dropped": client.dropped,
                "when_slow": client.when_slow.name(),
                "holds_back": client.holds_back,
            })
        })
        .collect()
}

/// The bimodal groups, with the figures and counters of each one's gossip.
fn bimodal(node: &Node<Instance>, session: &Status) -> Value {
    let Some(groups) = instance::bimodal(node) else {
        return Value::Array(Vec::new());
    };
    let all = session.bimodal.iter().enumerate();
    all.map(|(index, group)| {
        let mut gossip = Map::new();
        groups.report_of(index, &mut |name, value| {
            gossip.insert(name.replace([' ', '-'], "_"), value.into());
        });
        json!({
            "group": &*group.name,
            "round": groups.round(index),
            "daemons": groups.daemons(index).count() + 1,
            "members": group.members,
            "subscribers": group.subscribers,
            "agreed_elsewhere": group.agreed_elsewhere,
            "waiting": group.waiting,
            "gossip": gossip,
        })
    })
    .collect()
}

/// The figures of an order, by its own names, with times in seconds; and the member that keeps its
/// datagrams small.
fn figures(group: &GroupStatus, daemons: &Daemons) -> Value {
    let figures = group.figures.iter().map(|(name, figure)| {
        let value: Value = match figure {
            Figure::Number(number) => (*number).into(),
            Figure::Time(time) => time.as_secs_f64().into(),
        };
        ((*name).to_owned(), value)
    });
    let mut figures: Map<String, Value> = figures.collect();
    let narrowest = group.narrowest.map(|member| named(member, daemons));
    figures.insert("narrowest".to_owned(), narrowest.into());
    Value::Object(figures)
}

/// The counters of an order.
fn counters(group: &GroupStatus) -> Value {
    let counters = group.counters.iter();
    let counters = counters.map(|(name, count)| ((*name).to_owned(), (*count).into()));
    Value::Object(counters.collect())
}

fn node_counters(counters: NodeCounters) -> Value {
    let NodeCounters {
        accepted,
        sealed,
        malformed,
        other_version,
        other_cluster,
        old_key,
        own,
        forged,
        replayed,
        unadmitted,
        twin,
        unexamined,
        unknown_channel,
        unroutable,
        admitted,
        copies_refused,
    } = counters;
    json!({
        "accepted": accepted,
        "sealed": sealed,
        "malformed": malformed,
        "other_version": other_version,
        "other_cluster": other_cluster,
        "old_key": old_key,
        "own": own,
        "forged": forged,
        "replayed": replayed,
        "unadmitted": unadmitted,
        "twin": twin,
        "unexamined": unexamined,
        "unknown_channel": unknown_channel,
        "unroutable": unroutable,
        "admitted": admitted,
        "copies_refused": copies_refused,
    })
}

fn net_counters(counters: NetCounters) -> Value {
    let NetCounters {
        control,
        data,
        sent,
        waits,
        timers,
        gaps,
        gap_longest,
    } = counters;
    json!({
        "control": receive_counters(control),
        "data": receive_counters(data),
        "sent": send_counters(sent),
        "waits": waits,
        "timers": timers,
        "gaps": gaps,
        "gap_longest": gap_longest.as_secs_f64(),
    })
}

fn receive_counters(counters: ReceiveCounters) -> Value {
    let ReceiveCounters {
        datagrams,
        bytes,
        calls,
        empty,
        coalesced,
        filtered,
        errors,
        kernel_drops,
    } = counters;
    json!({
        "datagrams": datagrams,
        "bytes": bytes,
        "calls": calls,
        "empty": empty,
        "coalesced": coalesced,
        "filtered": filtered,
        "errors": errors,
        "kernel_drops": kernel_drops,
    })
}

fn send_counters(counters: SendCounters) -> Value {
    let SendCounters {
        datagrams,
        bytes,
        copies,
        calls,
        segmented,
        offload_refused,
        blocked,
        dropped_blocked,
        no_buffers,
        unreachable,
        refused,
        too_large,
        other_errors,
        unroutable,
    } = counters;
    json!({
        "datagrams": datagrams,
        "bytes": bytes,
        "copies": copies,
        "calls": calls,
        "segmented": segmented,
        "offload_refused": offload_refused,
        "blocked": blocked,
        "dropped_blocked": dropped_blocked,
        "no_buffers": no_buffers,
        "unreachable": unreachable,
        "refused": refused,
        "too_large": too_large,
        "other_errors": other_errors,
        "unroutable": unroutable,
    })
}

/// The system calls on the clients' sockets.
pub(crate) fn client_calls(calls: ClientCalls) -> Value {
    let ClientCalls {
        reads,
        reads_empty,
        writes,
        writes_blocked,
    } = calls;
    json!({
        "reads": reads,
        "reads_empty": reads_empty,
        "writes": writes,
        "writes_blocked": writes_blocked,
    })
}

fn session_counters(counters: &SessionCounters) -> Value {
    json!({
        "clients_accepted": counters.clients_accepted,
        "clients_refused": counters.clients_refused,
        "clients_disconnected": counters.clients_disconnected,
        "frames_bad": counters.frames_bad,
        "frames_unknown": counters.frames_unknown,
        "published": counters.published,
        "patterns_compiled": counters.patterns_compiled,
        "rejected": counters.rejected,
        "delivered": counters.delivered,
        "unreliable_dropped": counters.unreliable_dropped,
        "views": counters.views,
        "nonsense": counters.nonsense,
        "gaps": counters.gaps,
        "bimodal_missed": counters.bimodal_missed,
        "facts_lost": counters.facts_lost,
    })
}
