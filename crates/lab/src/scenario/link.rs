//! The keys of a link: each optional, laid over what the link is otherwise.

use std::time::Duration;

use groupcast_sim::link::{LinkSpec, Loss, QueueLimit};

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::tree::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// What a scenario says of a link.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct LinkKeys {
    pub(super) bandwidth: Option<u64>,
    pub(super) delay: Option<Duration>,
    queue: Option<QueueLimit>,
    loss: Option<Loss>,
    jitter: Option<Duration>,
    duplication: Option<f64>,
    corruption: Option<f64>,
    framing: Option<Framing>,
}

/// Bytes beyond the IP packet.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Framing {
    Ethernet,
    Bytes(u32),
}

impl LinkKeys {
    /// Reads the keys of a link in `section`, which may have others.
    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        Ok(Self {
            bandwidth: section.optional("bandwidth", Entry::bandwidth)?,
            delay: section.optional("delay", Entry::duration)?,
            queue: section.optional("queue", queue)?,
            loss: section.optional("loss", loss)?,
            jitter: section.optional("jitter", Entry::duration)?,
            duplication: section.optional("duplication", Entry::share)?,
            corruption: section.optional("corruption", Entry::share)?,
            framing: section.optional("framing", framing)?,
        })
    }

    /// A link of its own: a table in which bandwidth and delay must be.
    pub(super) fn spec(entry: &Entry<'_>) -> Result<LinkSpec> {
        let section = entry.section("a link")?;
        let keys = Self::read(&section)?;
        let bandwidth = section.required("bandwidth", Entry::bandwidth)?;
        let delay = section.required("delay", Entry::duration)?;
        section.finish(|_| None)?;
        let mut spec = match keys.framing.unwrap_or(Framing::Ethernet) {
            Framing::Ethernet => LinkSpec::ethernet(bandwidth, delay),
            Framing::Bytes(_) => LinkSpec::ideal(bandwidth, delay),
        };
        keys.apply(&mut spec);
        Ok(spec)
    }

    /// Lays them over `spec`.
    pub(super) fn apply(&self, spec: &mut LinkSpec) {
        fn set<T: Copy>(field: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *field = value;
            }
        }
        set(&mut spec.bandwidth, self.bandwidth);
        set(&mut spec.delay, self.delay);
        set(&mut spec.queue, self.queue);
        set(&mut spec.loss, self.loss);
        set(&mut spec.jitter, self.jitter);
        set(&mut spec.duplication, self.duplication);
        set(&mut spec.corruption, self.corruption);
        match self.framing {
            Some(Framing::Ethernet) => {
                let ethernet = LinkSpec::ethernet(spec.bandwidth, spec.delay);
                spec.overhead = ethernet.overhead;
                spec.payload_min = ethernet.payload_min;
            }
            Some(Framing::Bytes(bytes)) => {
                spec.overhead = bytes;
                spec.payload_min = 0;
            }
            None => {}
        }
    }

    /// Whether they say nothing.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn framing(entry: &Entry<'_>) -> Result<Framing> {
    match &entry.node.value {
        Value::String(text) if text == "ethernet" => Ok(Framing::Ethernet),
        Value::String(text) if text == "none" => Ok(Framing::Bytes(0)),
        Value::String(text) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            entry.word(&[("ethernet", Framing::Ethernet), ("none", Framing::Bytes(0))])
        }
        _ => Ok(Framing::Bytes(entry.size_in(0, 1_000)? as u32)),
    }
}

fn queue(entry: &Entry<'_>) -> Result<QueueLimit> {
    let mut limit = QueueLimit::NONE;
    let parts = match &entry.node.value {
        Value::String(text) if text == "unlimited" => return Ok(limit),
        Value::List(_) => entry.list()?,
        _ => vec![entry.clone()],
    };
    for part in &parts {
        let packets = match &part.node.value {
            Value::String(text) => text
                .strip_suffix("packets")
                .or_else(|| text.strip_suffix("packet"))
                .map(str::trim),
            _ => None,
        };
        let again = match packets {
            Some(number) => {
                let number: u32 = number.parse().map_err(|_| {
                    part.wrong(
                        format!("`{number}` is not a number of packets"),
                        "for example \"50 packets\"",
                    )
                })?;
                limit.packets.replace(number).is_some()
            }
            None => limit.bytes.replace(part.size()?).is_some(),
        };
        if again {
            return Err(part.wrong(
                "a second limit of the same kind",
                "give at most one in bytes and one in packets: [\"64 KiB\", \"50 packets\"]",
            ));
        }
    }
    Ok(limit)
}

fn loss(entry: &Entry<'_>) -> Result<Loss> {
    if !matches!(entry.node.value, Value::Table(_)) {
        return Ok(match entry.share()? {
            0.0 => Loss::None,
            rate => Loss::Rate(rate),
        });
    }
    let section =
        entry.section("bursty loss, `{ rate, burst }` or `{ to_bad, to_good, good, bad }`")?;
    let short = section.present(&["rate", "burst"]);
    let long = section.present(&["to_bad", "to_good", "good", "bad"]);
    if let ([first, ..], [second, ..]) = (&short[..], &long[..]) {
        return Err(section.wrong(
            format!("`{first}` and `{second}` contradict each other"),
            "give `rate` and `burst`, or all of `to_bad`, `to_good`, `good` and `bad`",
        ));
    }
    let loss = if long.is_empty() {
        let rate = section.required("rate", Entry::share)?;
        let burst = section.required("burst", burst)?;
        bursts(&section, rate, burst)?
    } else {
        Loss::GilbertElliott {
            to_bad: section.required("to_bad", Entry::share)?,
            to_good: section.required("to_good", Entry::share)?,
            good: section.required("good", Entry::share)?,
            bad: section.required("bad", Entry::share)?,
        }
    };
    section.finish(|_| None)?;
    Ok(loss)
}

fn burst(entry: &Entry<'_>) -> Result<f64> {
    let burst = match &entry.node.value {
        Value::Float(length) => *length,
        _ => entry.number()? as f64,
    };
    match burst.is_finite() && burst >= 1.0 {
        true => Ok(burst),
        false => Err(entry.wrong(
            format!("a burst of {burst} packets"),
            "use the mean length in packets, 1 or more",
        )),
    }
}

/// Loses all of a bad spell and nothing between: Gilbert's model.
fn bursts(section: &Section<'_>, rate: f64, burst: f64) -> Result<Loss> {
    let to_good = 1.0 / burst;
    let to_bad = match rate {
        0.0 => return Ok(Loss::None),
        rate => to_good * rate / (1.0 - rate),
    };
    if !(0.0..=1.0).contains(&to_bad) {
        return Err(section.wrong(
            format!("a loss of {rate} cannot come in bursts of {burst} packets"),
            format!("bursts of {:.1} or more can", rate / (1.0 - rate)),
        ));
    }
    Ok(Loss::GilbertElliott {
        to_bad,
        to_good,
        good: 0.0,
        bad: 1.0,
    })
}
