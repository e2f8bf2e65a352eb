//! The quantities of a point: what tells it apart from others, and what was measured of it.

use groupcast_core::trace::Role;

use super::super::data::{Cell, Data, Table};
use super::buffers::FULLEST;
use super::point::{GossipPoint, Open};
use super::sim::Run;
use super::{MEMBERS, Measured};

/// A quantity that is measured of a point.
#[derive(Clone, Copy)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    unit: &'static str,
    of: fn(&Run) -> f64,
}

/// What tells the points of a run apart, in front of what was measured.
const KEYS: [(&str, &str); 9] = [
    ("scheme", ""),
    ("network", ""),
    ("size", ""),
    ("noise", ""),
    ("noise apart", ""),
    ("rate", "1/s"),
    ("link", "kb/s"),
    ("perturbed", ""),
    ("perturb rate", ""),
];

macro_rules! metrics {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $unit:literal, $of:expr;)*) => {
        $($(#[$doc])* pub(super) const $id: Metric = Metric { name: $name, unit: $unit, of: $of };)*
    };
}

metrics! {
    /// Requests that a member receives a second, duplicates too.
    REQUESTS = "requests", "1/s", |run| run.received(Role::Request);
    /// Repairs that a member receives a second, duplicates too.
    REPAIRS = "repairs", "1/s", |run| run.received(Role::Repair);
    /// Digests or session messages that all members receive a second.
    RECEIPTS = "receipts", "1/s", |run| run.kinds_received(&["gossip", "session"]);
    /// What the sender sent.
    SENT = "sent", "", Run::sent;
    /// Use of the link that is looked at, away from the sender.
    LINK_OUT = "link out", "%", |run| run.link_use(false) * 100.0;
    /// Use of that link, towards the sender.
    LINK_IN = "link in", "%", |run| run.link_use(true) * 100.0;
    /// What goes over the link between two clusters, both ways together.
    BETWEEN = "between the clusters", "kb/s", |run| run.between() / 1e3;
    /// Packets dropped at full queues.
    DROPPED = "dropped", "", Run::dropped;
    /// At the receiver that is looked at, before ordering.
    ARRIVAL_50 = "median arrival", "ms", |run| milliseconds(run.receiver().arrival.quantile(0.5));
    /// Likewise, 99 of 100.
    ARRIVAL_99 = "99 % arrival", "ms", |run| milliseconds(run.receiver().arrival.quantile(0.99));
    /// Likewise, the latest.
    ARRIVAL_MAX = "latest arrival", "ms", |run| milliseconds(run.receiver().arrival.max());
    /// At the receiver that is looked at, after ordering.
    DELIVERY_MEAN = "mean delivery", "ms", |run| milliseconds(run.receiver().latency.mean());
    /// Likewise, 99 of 100.
    DELIVERY_99 = "99 % delivery", "ms", |run| milliseconds(run.receiver().latency.quantile(0.99));
    /// Messages that the receiver which is looked at did not deliver.
    MISSING = "missing", "", |run| run.missing(run.receivers.first().copied());
    /// Messages that any receiver did not deliver.
    MISSING_ALL = "missing at all", "", |run| run.missing(None);
    /// Its messages that came later than rate and path explain (004 6.10).
    INTERFERENCE = "interference", "%", |run| run.receiver().interference.unwrap_or(f64::NAN) * 100.0;
    /// Messages that members reported as lost, all together.
    GAPS = "gaps", "", |run| run.counters("gaps").sum();
    /// Deliveries a second at a healthy member, mean over windows and members.
    HEALTHY_RATE = "throughput", "msg/s", |run| run.healthy_windows().0;
    /// Their variance over windows, mean over members.
    HEALTHY_VARIANCE = "variance", "(msg/s)²", |run| run.healthy_windows().1;
    /// Messages that healthy members did not deliver, all together.
    HEALTHY_LOST = "lost by healthy members", "", Run::healthy_lost;
    /// Messages that a healthy member sends again, by those that the sender sends.
    RESENT = "sent again", "%", |run| run.resent().0 * 100.0;
    /// Likewise in the worst window of any.
    RESENT_MOST = "sent again in the worst window", "%", |run| run.resent().1 * 100.0;
    /// Views installed while it is measured, all members.
    CONFIGURATIONS = "view changes", "", Run::configurations;
    /// Messages in a member's long-term buffer at its fullest, mean over members.
    BUFFER = "buffered", "", |run| run.mean_of(run.counters(FULLEST));
    /// Likewise at the member with the fewest.
    BUFFER_LEAST = "buffered at least", "", |run| run.counters(FULLEST).fold(f64::NAN, f64::min);
    /// Likewise at the member with the most.
    BUFFER_MOST = "buffered at most", "", |run| run.counters(FULLEST).fold(f64::NAN, f64::max);
}

/// The row of a point.
pub(super) fn row(run: &Run, seed: u64, metrics: &[Metric]) -> Vec<Cell> {
    let mut row = key(&run.setting);
    row.push(seed.into());
    row.extend(metrics.iter().map(|metric| Cell::from((metric.of)(run))));
    row
}

fn key(setting: &GossipPoint) -> Vec<Cell> {
    let GossipPoint {
        shape,
        scheme,
        noise,
        noise_apart,
        rate,
        bandwidth,
        perturbed,
        perturb_rate,
        ..
    } = *setting;
    let mut key: Vec<Cell> = vec![
        scheme.name().into(),
        shape.name().into(),
        shape.size().into(),
        noise.into(),
        noise_apart.into(),
        rate.into(),
        (bandwidth as f64 / 1e3).into(),
        perturbed.into(),
        perturb_rate.into(),
    ];
    key.extend(setting.open.keys());
    key
}

/// A table of such rows.
pub(super) fn table(name: &str, metrics: &[Metric], rows: &[Vec<Cell>]) -> Table {
    let measured = metrics.iter().map(|metric| (metric.name, metric.unit));
    let columns: Vec<_> = keys().chain(measured).collect();
    let mut table = Table::new(name, &columns);
    rows.iter().for_each(|row| table.row(row.iter().cloned()));
    table
}

/// What each member counts under `name`, a row a member and point.
pub(super) fn members(measured: &[Measured], name: &'static str) -> Table {
    let columns: Vec<_> = keys().chain([("member", ""), (name, "")]).collect();
    let mut table = Table::new(MEMBERS, &columns);
    for point in measured {
        let key = &point.row[..columns.len() - 2];
        for (member, value) in point.members.iter().flatten().enumerate() {
            let row = key.iter().cloned();
            table.row(row.chain([member.into(), (*value).into()]));
        }
    }
    table
}

fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.into_iter().chain(Open::COLUMNS).chain([("seed", "")])
}

/// Says what the points have in common, above all what 004 leaves open.
pub(super) fn conditions(plan: &[GossipPoint], data: &mut Data) {
    let Some(first) = plan.first() else { return };
    let Open {
        queue,
        sub_gsize,
        limit,
        ..
    } = first.open;
    data.condition(
        "message",
        format!("{} B on the link, all headers included", first.size),
    );
    data.condition("sender sends for", format!("{} s", first.seconds));
    data.condition("links", format!("{} kb/s", first.bandwidth / 1_000));
    data.condition("queue before a link (ours)", format!("{queue} packets"));
    data.condition("sub-gsize (ours)", sub_gsize);
    data.condition(
        "requests and repairs a round, each (ours)",
        format!("{limit} at most"),
    );
    data.condition("core of the multicast tree (ours)", "at the sender's end");
    data.condition(
        "control packets (ours)",
        "as our formats have them, with 69 B of IP, UDP, prefix, channel and tag",
    );
}

fn milliseconds(seconds: Option<f64>) -> f64 {
    seconds.unwrap_or(f64::NAN) * 1e3
}
