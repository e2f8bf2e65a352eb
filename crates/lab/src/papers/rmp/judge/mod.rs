//! What 000's figures concluded, as arithmetic on the data.

mod latency;
mod messages;
mod throughput;

pub(super) use self::latency::{fig14, fig14k, growth, law};
pub(super) use self::messages::{datagrams, msgs, positive_acks};
pub(super) use self::throughput::{TABLE2, WIRE, fig12, fig13, fig15, table2};

/// Whether `value` is within `share` of `wanted`.
fn is_near(value: f64, wanted: f64, share: f64) -> bool {
    (value / wanted - 1.0).abs() <= share
}

/// Some numbers, as a list.
fn list(values: impl IntoIterator<Item = f64>) -> String {
    let words = values.into_iter().map(|value| format!("{value:.2}"));
    words.collect::<Vec<_>>().join(", ")
}
