//! A point on namespaces of this machine: real sockets and processes, one switch of 100 Mb/s wires.
//!
//! What the simulator varies of what 001 leaves open (costs, copy, socket buffers, duplex) is what
//! it is here. All hosts share this machine's processors: where they and not the wires set the
//! time, a row says so.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::lan::{self, Carried, Course};
use groupcast_bench::testbed::{Link, Testbed};

use super::super::{Context, Data, RunError, Table};
use super::point::{LanPoint, System};
use super::points::{self, MACHINE, Measured};

/// Messages of a run, as on the simulator.
const MESSAGES: usize = 3;

/// Measures every point of `plan` once for every seed, which is only its number here; says under
/// which conditions.
pub(super) fn run(
    context: &Context<'_>,
    plan: &[LanPoint],
    data: &mut Data,
) -> Result<Table, RunError> {
    Testbed::available().map_err(RunError::Unavailable)?;
    conditions(data);
    let mut table = points::table(points::POINTS);
    let mut machine = points::machine();
    let mut beds = BTreeMap::new();
    for setting in plan {
        // A wire more is a copy more of every frame, which would be paid for.
        let hosts = setting.receivers as usize + 1;
        let bed = match beds.entry(hosts) {
            Entry::Occupied(bed) => bed.into_mut(),
            Entry::Vacant(place) => {
                let bed = Testbed::new(hosts, Link::Mbit100);
                place.insert(bed.map_err(|error| failed(&error.into()))?)
            }
        };
        for seed in context.seeds() {
            let (measured, busy) = measure(bed, setting, context)?;
            points::push(&mut table, &setting.key(), seed, &measured);
            machine.row([
                points::name(&setting.key()).into(),
                seed.into(),
                busy.into(),
            ]);
        }
    }
    data.push(machine);
    Ok(table)
}

fn conditions(data: &mut Data) {
    data.condition(
        "machines",
        "network namespaces on one switch, a process each",
    );
    data.condition(
        "wires",
        "100 Mb/s full duplex, frames of 1500 B, larger packets in IP fragments",
    );
    data.condition(
        "processors for all hosts",
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    data.condition(
        "costs, copy, socket buffers",
        "this machine's and this implementation's; nothing is encrypted, and all know each other from the start",
    );
    data.condition(
        "reservation",
        "the announcement has the message's length, and who registers has room: one exchange before the data",
    );
    data.condition(
        "repetitions",
        "3 messages a seed, one after the other, after one of 1 B that is not counted; each seed with new processes",
    );
}

/// What came out, and the share of the time in which this machine's processors worked.
fn measure(
    bed: &Testbed,
    setting: &LanPoint,
    context: &Context<'_>,
) -> Result<(Measured, f64), RunError> {
    if setting.system == System::Udp {
        // Beside ACK with and without a copy that cannot be left out here (001 Fig. 9).
        let reason = "raw UDP is measured on the simulator only: use --host sim";
        return Err(RunError::Unavailable(reason.to_owned()));
    }
    let course = Course {
        system: setting.system,
        receivers: setting.receivers as usize,
        size: setting.size,
        packet: setting.packet as usize,
        window: setting.window,
        messages: MESSAGES,
    };
    if !lan::is_possible(&course) {
        return Ok((Measured::NONE, f64::NAN));
    }
    let executable = &context.options().executable;
    let carried = lan::carry(bed, executable, &course).map_err(|error| failed(&error))?;
    Ok((read(&carried), carried.machine.unwrap_or(f64::NAN)))
}

fn read(carried: &Carried) -> Measured {
    let count = carried.seconds.len() as f64;
    let each = |sum: u64| sum as f64 / count;
    let seconds: Option<f64> = carried.seconds.iter().copied().sum();
    Measured {
        time: seconds.map_or(f64::NAN, |sum| sum * 1_000.0 / count),
        packets: each(carried.packets),
        sent: each(carried.sent),
        arrived: each(carried.arrived),
        repairs: each(carried.repairs),
        buffered: carried.buffered as f64,
        processor: carried.processor,
    }
}

/// Whether `data` was measured here.
pub(super) fn is_of(data: &Data) -> bool {
    !data.table(MACHINE).rows.is_empty()
}

/// Says of how many points the processors were what set the time.
pub(super) fn remark(data: &Data) -> Option<String> {
    /// Ticks are coarse, and the two processors are not always of use at the same time.
    const BUSY: f64 = 0.9;
    let mut busy = BTreeMap::<&str, Vec<f64>>::new();
    for row in data.table(MACHINE).records() {
        busy.entry(row.text("point"))
            .or_default()
            .push(row.number("busy"));
    }
    let mean = |shares: &Vec<f64>| shares.iter().sum::<f64>() / shares.len() as f64;
    let measured: Vec<(&str, f64)> = busy
        .iter()
        .map(|(point, shares)| (*point, mean(shares)))
        .filter(|(_, share)| share.is_finite())
        .collect();
    let all = measured.len();
    let full = measured.iter().filter(|(_, share)| *share >= BUSY);
    let full: Vec<&str> = full.map(|(point, _)| *point).collect();
    match (all, full.len()) {
        (0, _) => None,
        (_, 0) => Some(format!(
            "fits this machine: at none of {all} points are its processors 90 % busy"
        )),
        (_, count) => Some(format!(
            "does not fit this machine at {count} of {all} points, whose time its processors set (90 % busy or more): {}",
            full.join("; ")
        )),
    }
}

fn failed(error: &BenchError) -> RunError {
    match error {
        BenchError::Unavailable(reason) => RunError::Unavailable(reason.clone()),
        error => RunError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::points::Key;
    use super::*;

    fn data(shares: &[(u32, f64)]) -> Data {
        let mut data = Data::new();
        let mut machine = points::machine();
        for (receivers, share) in shares {
            let key: Key = LanPoint::new(System::Ack, 8_000, 2).to(*receivers).key();
            machine.row([points::name(&key).into(), 1_u64.into(), (*share).into()]);
        }
        data.push(machine);
        data
    }

    #[test]
    fn points_that_keep_the_machine_busy_are_named() {
        assert_eq!(remark(&Data::new()), None);
        assert_eq!(remark(&data(&[(2, f64::NAN)])), None);
        let fits = remark(&data(&[(2, 0.3), (30, 0.89)])).unwrap();
        assert!(fits.contains("at none of 2 points"), "{fits}");
        let full = remark(&data(&[(2, 0.3), (30, 0.9), (30, 1.0)])).unwrap();
        assert!(full.contains("at 1 of 2 points"), "{full}");
        assert!(full.contains("ack to 30"), "{full}");
    }

    #[test]
    fn a_message_that_never_ended_has_no_time() {
        let carried = Carried {
            seconds: vec![Some(0.050), None, None],
            packets: 189,
            ..Carried::default()
        };
        let measured = read(&carried);
        assert!(measured.time.is_nan());
        assert_eq!(measured.packets, 63.0);
        let carried = Carried {
            seconds: vec![Some(0.050), Some(0.070)],
            ..Carried::default()
        };
        assert!((read(&carried).time - 60.0).abs() < 1e-9);
    }
}
