//! Measured points: how a run's data has them, and how a judge reads them.

use super::super::data::{Data, RecordRef, Table};

/// The table with a row a point and seed.
pub(super) const POINTS: &str = "points";
/// The table of points of a search for better parameters.
pub(super) const SEARCH: &str = "search";
/// The table of points over what 001 leaves open.
pub(super) const SWEEP: &str = "sweep";

/// The table of how busy this machine was with each point, where hosts share it.
pub(super) const MACHINE: &str = "machine";

/// Their columns.
const COLUMNS: [(&str, &str); 20] = [
    ("system", ""),
    ("receivers", ""),
    ("size", "B"),
    ("packet", "B"),
    ("window", ""),
    ("poll", ""),
    ("height", ""),
    ("copy", "ns/B"),
    ("send buffer", "KiB"),
    ("costs", "%"),
    ("duplex", ""),
    ("seed", ""),
    ("time", "ms"),
    ("throughput", "Mb/s"),
    ("packets", ""),
    ("acknowledgements sent", ""),
    ("acknowledgements at the sender", ""),
    ("repairs", ""),
    ("buffered", "B"),
    ("processor", ""),
];

/// What a point is of. What a system does not have is not a number.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Key {
    pub(super) system: String,
    pub(super) receivers: f64,
    pub(super) size: f64,
    pub(super) packet: f64,
    pub(super) window: f64,
    pub(super) poll: f64,
    pub(super) height: f64,
    pub(super) copy: f64,
    pub(super) send_buffer: f64,
    pub(super) costs: f64,
    pub(super) duplex: String,
}

impl Key {
    /// The same point, where not a number is the same as not a number.
    fn is(&self, other: &Self) -> bool {
        let numbers = |key: &Self| {
            [
                key.receivers,
                key.size,
                key.packet,
                key.window,
                key.poll,
                key.height,
                key.copy,
                key.send_buffer,
                key.costs,
            ]
        };
        let same = |(a, b): (f64, f64)| a == b || (a.is_nan() && b.is_nan());
        self.system == other.system
            && self.duplex == other.duplex
            && numbers(self).into_iter().zip(numbers(other)).all(same)
    }
}

/// What was measured of one message, in the mean of those of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    /// From the offer until the sender knows that all have it, in milliseconds; not a number if it
    /// never came to that.
    pub(super) time: f64,
    /// Data packets sent for the first time.
    pub(super) packets: f64,
    /// Acknowledgements that all receivers sent.
    pub(super) sent: f64,
    /// Acknowledgements that came to the sender.
    pub(super) arrived: f64,
    /// Data packets sent again.
    pub(super) repairs: f64,
    /// The most bytes that the sender kept at once.
    pub(super) buffered: f64,
    /// The share of the time in which the sender's processor worked.
    pub(super) processor: f64,
}

impl Measured {
    /// Of parameters that are refused.
    pub(super) const NONE: Self = Self {
        time: f64::NAN,
        packets: f64::NAN,
        sent: f64::NAN,
        arrived: f64::NAN,
        repairs: f64::NAN,
        buffered: f64::NAN,
        processor: f64::NAN,
    };

    /// Payload by time, in Mb/s.
    fn throughput(&self, size: f64) -> f64 {
        size * 8.0 / self.time / 1_000.0
    }
}

/// An empty table of points.
pub(super) fn table(name: &str) -> Table {
    Table::new(name, &COLUMNS)
}

/// An empty table of [`MACHINE`].
pub(super) fn machine() -> Table {
    Table::new(MACHINE, &[("point", ""), ("seed", ""), ("busy", "")])
}

/// A point in words: what it has.
pub(super) fn name(key: &Key) -> String {
    let mut name = format!("{} to {}", key.system, key.receivers);
    let parts = [
        (key.size, " B"),
        (key.packet, " B a packet"),
        (key.window, " packets"),
        (key.poll, " from poll to poll"),
        (key.height, " in a chain"),
    ];
    for (number, what) in parts {
        if number.is_finite() {
            name += &format!(", {number}{what}");
        }
    }
    name
}

/// Appends a point to `table`.
pub(super) fn push(table: &mut Table, key: &Key, seed: u64, measured: &Measured) {
    table.row([
        key.system.as_str().into(),
        key.receivers.into(),
        key.size.into(),
        key.packet.into(),
        key.window.into(),
        key.poll.into(),
        key.height.into(),
        key.copy.into(),
        key.send_buffer.into(),
        key.costs.into(),
        key.duplex.as_str().into(),
        seed.into(),
        measured.time.into(),
        measured.throughput(key.size).into(),
        measured.packets.into(),
        measured.sent.into(),
        measured.arrived.into(),
        measured.repairs.into(),
        measured.buffered.into(),
        measured.processor.into(),
    ]);
}

/// One point over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Point {
    pub(super) key: Key,
    seeds: Vec<Measured>,
}

impl Point {
    /// The mean of what `of` says.
    pub(super) fn mean(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        self.seeds.iter().map(of).sum::<f64>() / self.seeds.len() as f64
    }

    /// The mean time, in milliseconds.
    pub(super) fn time(&self) -> f64 {
        self.mean(|measured| measured.time)
    }

    /// The mean throughput, in Mb/s.
    pub(super) fn throughput(&self) -> f64 {
        self.mean(|measured| measured.throughput(self.key.size))
    }

    /// The least and the most time, in milliseconds.
    pub(super) fn range(&self) -> (f64, f64) {
        let times = || self.seeds.iter().map(|measured| measured.time);
        (
            times().fold(f64::INFINITY, f64::min),
            times().fold(0.0, f64::max),
        )
    }
}

/// The points of a table.
#[derive(Clone, Default, Debug)]
pub(super) struct Points(Vec<Point>);

impl Points {
    /// Those of the table `name` of a run's data.
    pub(super) fn read(data: &Data, name: &str) -> Self {
        let mut points: Vec<Point> = Vec::new();
        for row in data.table(name).records() {
            let (key, measured) = (key(&row), measured(&row));
            match points.iter_mut().find(|point| point.key.is(&key)) {
                Some(point) => point.seeds.push(measured),
                None => points.push(Point {
                    key,
                    seeds: vec![measured],
                }),
            }
        }
        Self(points)
    }

    /// All, as they were measured.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Point> {
        self.0.iter()
    }

    /// Those for which `is` holds.
    pub(super) fn of(&self, is: impl Fn(&Key) -> bool) -> Self {
        Self(
            self.iter()
                .filter(|point| is(&point.key))
                .cloned()
                .collect(),
        )
    }

    /// Those of a system.
    pub(super) fn system(&self, name: &str) -> Self {
        self.of(|key| key.system == name)
    }

    /// The different values of `of`, ascending.
    pub(super) fn values(&self, of: impl Fn(&Key) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.iter().map(|point| of(&point.key)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// The time of the only point, in milliseconds; not a number if there is none.
    pub(super) fn time(&self) -> f64 {
        self.0.first().map_or(f64::NAN, Point::time)
    }

    /// The point with the least time; one that never came to its end is none.
    pub(super) fn best(&self) -> Option<&Point> {
        let ended = self.iter().filter(|point| point.time().is_finite());
        ended.min_by(|a, b| a.time().total_cmp(&b.time()))
    }

    /// The least time, in milliseconds; not a number if there is none.
    pub(super) fn best_time(&self) -> f64 {
        self.best().map_or(f64::NAN, Point::time)
    }

    /// The time over `of`, by `of`.
    pub(super) fn curve(&self, of: impl Fn(&Key) -> f64) -> Vec<(f64, f64)> {
        let mut curve: Vec<(f64, f64)> = self
            .iter()
            .map(|point| (of(&point.key), point.time()))
            .collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        curve
    }
}

fn key(row: &RecordRef<'_>) -> Key {
    Key {
        system: row.text("system").to_owned(),
        receivers: row.number("receivers"),
        size: row.number("size"),
        packet: row.number("packet"),
        window: row.number("window"),
        poll: row.number("poll"),
        height: row.number("height"),
        copy: row.number("copy"),
        send_buffer: row.number("send buffer"),
        costs: row.number("costs"),
        duplex: row.text("duplex").to_owned(),
    }
}

fn measured(row: &RecordRef<'_>) -> Measured {
    Measured {
        time: row.number("time"),
        packets: row.number("packets"),
        sent: row.number("acknowledgements sent"),
        arrived: row.number("acknowledgements at the sender"),
        repairs: row.number("repairs"),
        buffered: row.number("buffered"),
        processor: row.number("processor"),
    }
}

/// The straight line through points that errs least: its height at 0, its slope, and the share of
/// the variance that it explains.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|it| of(it.0 - x, it.1 - y)).sum();
    let (xx, xy, yy): (f64, f64, f64) = (
        sum(&|dx, _| dx * dx),
        sum(&|dx, dy| dx * dy),
        sum(&|_, dy| dy * dy),
    );
    let slope = xy / xx;
    (y - slope * x, slope, xy * xy / (xx * yy))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::point::{LanPoint, System};
    use super::*;

    /// Points from settings and times in milliseconds.
    pub(in super::super) fn points(times: &[(LanPoint, f64)]) -> Points {
        let mut data = Data::new();
        let mut table = table(POINTS);
        for (setting, time) in times {
            let measured = Measured {
                time: *time,
                packets: 0.0,
                sent: 0.0,
                arrived: 0.0,
                repairs: 0.0,
                buffered: 0.0,
                processor: 0.0,
            };
            push(&mut table, &setting.key(), 1, &measured);
        }
        data.push(table);
        Points::read(&data, POINTS)
    }

    #[test]
    fn what_was_pushed_is_read_point_by_point() {
        let ack = LanPoint::new(System::Ack, 8_000, 2);
        let nak = LanPoint::new(System::Nak { poll: 17 }, 8_000, 20);
        let read = points(&[(ack, 60.0), (nak, 50.0), (ack, 62.0)]);
        assert_eq!(read.iter().count(), 2);
        assert_eq!(read.system("ack").time(), 61.0);
        assert_eq!(
            read.system("ack").iter().next().unwrap().range(),
            (60.0, 62.0)
        );
        assert_eq!(read.best().unwrap().key.poll, 17.0);
        assert!(read.system("tree").time().is_nan());
        assert_eq!(read.values(|key| key.window), [2.0, 20.0]);
    }

    #[test]
    fn a_transfer_that_never_ended_is_never_the_best() {
        let ack = LanPoint::new(System::Ack, 8_000, 2);
        let read = points(&[(ack, f64::NAN), (ack.to(1), 50.0)]);
        assert_eq!(read.best_time(), 50.0);
        assert!(points(&[(ack, f64::NAN)]).best_time().is_nan());
    }

    #[test]
    fn a_straight_line_is_found_and_said_to_be_straight() {
        let (height, slope, explained) = line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]);
        assert!((height - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
        assert!((explained - 1.0).abs() < 1e-9);
        assert!(line(&[(1.0, 1.0), (2.0, 8.0), (3.0, 1.0)]).2 < 0.1);
    }
}
