//! Numbers with units: `"10 ms"`, `"1.5 Mb/s"`, `"64 KiB"`, `"100/s"`, `"0.1 %"`.
//!
//! Decimal points are read exactly: what a text says is a whole number of nanoseconds, bits or
//! bytes, or it is refused.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::Wrong;
use super::suggest::nearest;

/// A kind of quantity: its name, an example, and its units in terms of the smallest.
struct Quantity {
    name: &'static str,
    example: &'static str,
    smallest: &'static str,
    units: &'static [(&'static str, u64)],
    /// What people write instead.
    also: &'static [(&'static str, &'static str)],
    /// Other units, and how much one of each is.
    converted: &'static [(&'static str, &'static str)],
}

const TIME: Quantity = Quantity {
    name: "a duration",
    example: "10 ms",
    smallest: "nanoseconds",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
    ],
    also: &[
        ("µs", "us"),
        ("μs", "us"),
        ("sec", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("msec", "ms"),
        ("usec", "us"),
        ("m", "min"),
    ],
    converted: &[("h", "60 min"), ("hour", "60 min"), ("hours", "60 min")],
};

const BANDWIDTH: Quantity = Quantity {
    name: "a bandwidth",
    example: "100 Mb/s",
    smallest: "bits a second",
    units: &[
        ("b/s", 1),
        ("kb/s", 1_000),
        ("Mb/s", 1_000_000),
        ("Gb/s", 1_000_000_000),
    ],
    also: &[
        ("bps", "b/s"),
        ("kbps", "kb/s"),
        ("Mbps", "Mb/s"),
        ("Gbps", "Gb/s"),
        ("kb", "kb/s"),
        ("Mb", "Mb/s"),
        ("Gb", "Gb/s"),
        ("kbit", "kb/s"),
        ("Mbit", "Mb/s"),
        ("Gbit", "Gb/s"),
        ("Mbit/s", "Mb/s"),
        ("Gbit/s", "Gb/s"),
        ("mb/s", "Mb/s"),
        ("gb/s", "Gb/s"),
    ],
    converted: &[
        ("B/s", "8 b/s"),
        ("kB/s", "8 kb/s"),
        ("KB/s", "8 kb/s"),
        ("MB/s", "8 Mb/s"),
        ("GB/s", "8 Gb/s"),
    ],
};

const SIZE: Quantity = Quantity {
    name: "a size",
    example: "64 KiB",
    smallest: "bytes",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1_024),
        ("MiB", 1_048_576),
        ("GiB", 1_073_741_824),
    ],
    also: &[
        ("b", "B"),
        ("bytes", "B"),
        ("byte", "B"),
        ("KB", "kB"),
        ("k", "KiB"),
        ("K", "KiB"),
        ("M", "MiB"),
        ("G", "GiB"),
        ("kib", "KiB"),
        ("mib", "MiB"),
        ("gib", "GiB"),
        ("Kb", "kB"),
        ("Mb", "MB"),
        ("Gb", "GB"),
    ],
    converted: &[],
};

impl Quantity {
    fn read(&self, text: &str) -> Result<u64, Wrong> {
        let Some((number, unit)) = split(text) else {
            return Err(Wrong {
                message: format!("`{text}` is not {}", self.name),
                help: format!(
                    "write a number and a unit, for example \"{}\"",
                    self.example
                ),
            });
        };
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.unit_is_wrong(number, unit));
        };
        let total = scale(number, *factor).ok_or_else(|| Wrong {
            message: format!(
                "`{text}` is too much, or no whole number of {}",
                self.smallest
            ),
            help: format!("for example \"{}\"", self.example),
        })?;
        Ok(total)
    }

    fn unit_is_wrong(&self, number: &str, unit: &str) -> Wrong {
        let names = || self.units.iter().map(|(name, _)| *name);
        let converted = self.converted.iter().find(|(other, _)| *other == unit);
        let also = self.also.iter().find(|(other, _)| *other == unit);
        let meant = also
            .map(|(_, name)| *name)
            .or_else(|| names().find(|name| name.eq_ignore_ascii_case(unit)))
            .or_else(|| nearest(unit, names()));
        let units = names().collect::<Vec<_>>().join(", ");
        if let Some((_, one)) = converted {
            return Wrong {
                message: format!("`{unit}` is not a unit of {}", self.name),
                help: format!("1 {unit} is {one}; the units are {units}"),
            };
        }
        match (unit, meant) {
            ("", _) => Wrong {
                message: format!("`{number}` has no unit"),
                help: format!("write one of {units}, for example \"{}\"", self.example),
            },
            (_, Some(meant)) => Wrong {
                message: format!("`{unit}` is not a unit of {}", self.name),
                help: format!("did you mean \"{number} {meant}\"? The units are {units}"),
            },
            (_, None) => Wrong {
                message: format!("`{unit}` is not a unit of {}", self.name),
                help: format!("use {units}, for example \"{}\"", self.example),
            },
        }
    }
}

/// `"10 ms"`
pub fn duration(text: &str) -> Result<Duration, Wrong> {
    TIME.read(text).map(Duration::from_nanos)
}

/// `"1.5 Mb/s"`, in bits a second; 0 is unlimited.
pub fn bandwidth(text: &str) -> Result<u64, Wrong> {
    match text {
        "unlimited" => Ok(0),
        _ => match BANDWIDTH.read(text)? {
            0 => Err(Wrong {
                message: "nothing passes at 0 bits a second".into(),
                help: "use more than 0, or \"unlimited\" where that is allowed".into(),
            }),
            bandwidth => Ok(bandwidth),
        },
    }
}

/// `"64 KiB"`, in bytes.
pub fn size(text: &str) -> Result<u64, Wrong> {
    SIZE.read(text)
}

/// Messages a second: one a nanosecond, the resolution of time.
const RATE_MAX: f64 = 1e9;

/// `"100/s"`, a second.
pub fn rate(text: &str) -> Result<f64, Wrong> {
    let number = text.strip_suffix("/s").map(str::trim);
    match number.and_then(|number| number.parse::<f64>().ok()) {
        Some(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(rate),
        Some(rate) if rate > RATE_MAX => Err(Wrong {
            message: format!("`{text}` is above the resolution of time"),
            help: format!("use at most \"{RATE_MAX}/s\""),
        }),
        Some(_) => Err(Wrong {
            message: format!("`{text}` is not a rate above 0"),
            help: "leave the source out, or give it a `count` or a `stop`".into(),
        }),
        None => Err(Wrong {
            message: format!("`{text}` is not a rate"),
            help: "write messages a second, for example \"100/s\"".into(),
        }),
    }
}

/// `"0.1 %"`, as a fraction.
pub fn share(text: &str) -> Result<f64, Wrong> {
    let number = text.strip_suffix('%').map(str::trim);
    match number.and_then(|number| number.parse::<f64>().ok()) {
        Some(percent) => checked_share(percent / 100.0).map_err(|_| Wrong {
            message: format!("`{text}` is not between 0 % and 100 %"),
            help: "use \"0 %\" to \"100 %\"".into(),
        }),
        None => Err(Wrong {
            message: format!("`{text}` is not a share"),
            help: "write \"1 %\" or 0.01".into(),
        }),
    }
}

/// A fraction, if it is one.
pub fn checked_share(fraction: f64) -> Result<f64, Wrong> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    Err(Wrong {
        message: format!("{fraction} is not between 0 and 1"),
        help: match fraction > 1.0 && fraction <= 100.0 {
            true => format!("did you mean \"{fraction} %\"?"),
            false => "use 0 to 1, or \"0 %\" to \"100 %\"".into(),
        },
    })
}

/// The number and the unit of a text.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number
        .contains(|c: char| c.is_ascii_digit())
        .then_some((number, unit.trim()))
}

/// `number` (decimal) times `factor`, if that is whole.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = u32::try_from(fraction.len())
        .ok()
        .filter(|len| *len <= 18)?;
    let part = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u128>().ok(),
    };
    let ten = 10u128.pow(digits);
    let total = part(whole)?
        .checked_mul(ten)?
        .checked_add(part(fraction)?)?
        .checked_mul(u128::from(factor))?;
    (total % ten == 0)
        .then(|| u64::try_from(total / ten).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_exactly() {
        let nanos = |text| duration(text).ok().map(|it| it.as_nanos());
        assert_eq!(nanos("10 ms"), Some(10_000_000));
        assert_eq!(nanos("1.5us"), Some(1_500));
        assert_eq!(nanos("0.000000001 s"), Some(1));
        assert_eq!(nanos("2 min"), Some(120_000_000_000));
        assert_eq!(bandwidth("1.5 Mb/s").ok(), Some(1_500_000));
        assert_eq!(bandwidth("unlimited").ok(), Some(0));
        assert_eq!(size("64 KiB").ok(), Some(65_536));
        assert_eq!(size("0.5 KiB").ok(), Some(512));
        assert_eq!(size("1.5 GiB").ok(), Some(3 << 29));
        assert_eq!(size("2 GB").ok(), Some(2_000_000_000));
        assert_eq!(rate("100/s").ok(), Some(100.0));
        assert_eq!(rate("0.5 /s").ok(), Some(0.5));
        assert_eq!(share("0.1 %").ok(), Some(0.001));
    }

    #[test]
    fn what_is_wrong_says_what_would_be_right() {
        let wrong = |result: Result<u64, Wrong>| {
            let wrong = result.err().unwrap();
            format!("{} | {}", wrong.message, wrong.help)
        };
        let time = |text| wrong(duration(text).map(|it| it.as_secs()));
        assert!(time("10 msec").contains("did you mean \"10 ms\"?"));
        assert!(time("10 MS").contains("did you mean \"10 ms\"?"));
        assert!(time("10").contains("`10` has no unit"));
        assert!(time("soon").contains("not a duration"));
        assert!(time("-1 s").contains("not a duration"));
        assert!(time("0.1 ns").contains("no whole number"));
        assert!(time("99999999999 min").contains("too much"));
        assert!(time("1.2.3 s").contains("no whole number"));
        assert!(wrong(bandwidth("10 Mbps")).contains("did you mean \"10 Mb/s\"?"));
        assert!(wrong(bandwidth("10 Mb")).contains("did you mean \"10 Mb/s\"?"));
        assert!(wrong(bandwidth("0 b/s")).contains("unlimited"));
        assert!(wrong(bandwidth("100 MB/s")).contains("1 MB/s is 8 Mb/s"));
        assert!(time("2 h").contains("1 h is 60 min"));
        assert!(wrong(size("64 kib")).contains("did you mean \"64 KiB\"?"));
        assert!(wrong(size("1 gib")).contains("did you mean \"1 GiB\"?"));
        assert!(wrong(size("64 furlongs")).contains("use B, kB"));
        assert!(wrong(rate("100").map(|_| 0)).contains("100/s"));
        assert!(wrong(rate("0/s").map(|_| 0)).contains("above 0"));
        assert!(wrong(share("one").map(|_| 0)).contains("not a share"));
        assert!(wrong(checked_share(5.0).map(|_| 0)).contains("did you mean \"5 %\"?"));
        assert!(wrong(share("101 %").map(|_| 0)).contains("between 0 % and 100 %"));
    }
}
