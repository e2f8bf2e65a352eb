//! The matrix of rates: what a transfer leaves to others on a shared link, and what it gets.
//!
//! Cells are drawn by a seed. Half of them (odd numbers) are for tuning, the other half only for
//! judging what was tuned. Of each cell and each rate it prints
//!
//! - `others`: what the rivals have, as a part of what they have beside one more of their kind in
//!   place of the transfer;
//! - `own`: what the transfer has, as a part of what that one more has;
//! - `alone`: where there are no rivals, what the transfer has as a part of what the best fixed
//!   rate has.

mod cell;
mod stream;
mod world;

use std::process::ExitCode;

use groupcast_protocols::bulk::RateControl;

use self::cell::{Cell, Rivals};
use self::world::{Got, Party, run};

const HELP: &str = "\
What a transfer leaves to others on a shared link, and what it gets, in drawn cells

Usage: rates [OPTIONS]

  --cells A..B         numbers of cells (default: 0..20)
  --half HALF          of those `tuning` (odd), `judging` (even), or `both` (default: tuning)
  --rates A,B          auto, background, max, window, or megabits a second (default: max,auto)
  --seed N             draws the cells (default: 1)
  --link N             cells with a shared link of so many megabits a second only
  --list               print the cells, run nothing

`others`, `own` and `alone` are parts of a fair share: 1 is as much as one more flow of the rivals' kind leaves, and
gets; alone, as the best fixed rate. docs/bulk.md says more.
Exit codes: 0 done, 2 usage.
";

struct Options {
    cells: std::ops::Range<u64>,
    half: Option<u64>,
    rates: Vec<(String, RateControl)>,
    seed: u64,
    link: Option<u64>,
    list: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match parse(&args) {
        Ok(options) => {
            report(&options);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("rates: {problem}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let rates = |text: &str| text.split(',').map(rate).collect::<Result<Vec<_>, _>>();
    let mut options = Options {
        cells: 0..20,
        half: Some(1),
        rates: rates("max,auto")?,
        seed: 1,
        link: None,
        list: false,
    };
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let mut value = || args.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--list" => options.list = true,
            "--seed" => options.seed = number(value()?)?,
            "--link" => options.link = Some(number(value()?)?),
            "--rates" => options.rates = rates(value()?)?,
            "--cells" => {
                let text = value()?;
                let (from, to) = text
                    .split_once("..")
                    .ok_or(format!("`{text}` is no range"))?;
                options.cells = number(from)?..number(to)?;
            }
            "--half" => {
                options.half = match value()?.as_str() {
                    "tuning" => Some(1),
                    "judging" => Some(0),
                    "both" => None,
                    other => return Err(format!("there is no half `{other}`")),
                }
            }
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    Ok(options)
}

fn rate(word: &str) -> Result<(String, RateControl), String> {
    let control = match word {
        "auto" => RateControl::FAIR,
        "background" => RateControl::BACKGROUND,
        "max" => RateControl::ALL,
        "window" => RateControl::Window,
        other => match other.parse::<u64>() {
            Ok(megabits) if megabits > 0 => fixed(megabits as f64),
            _ => return Err(format!("there is no rate `{other}`")),
        },
    };
    Ok((word.to_owned(), control))
}

/// A fixed rate in megabits a second.
fn fixed(megabits: f64) -> RateControl {
    RateControl::Fixed {
        bytes_per_second: (megabits * 125_000.0) as u64,
    }
}

/// What is found of a rate, in all its cells.
#[derive(Default)]
struct Found {
    others: Vec<f64>,
    own: Vec<f64>,
    alone: Vec<f64>,
}

fn report(options: &Options) {
    let mut found: Vec<Found> = options.rates.iter().map(|_| Found::default()).collect();
    for number in options.cells.clone() {
        let cell = Cell::draw(options.seed, number);
        let is_wanted = options.half.is_none_or(|half| number % 2 == half)
            && options.link.is_none_or(|link| link == cell.link);
        if !is_wanted {
            continue;
        }
        println!("{number}: {cell}");
        if options.list {
            continue;
        }
        let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let best = match cell.rivals {
            Rivals::Nobody => best_fixed(&cell, seed),
            Rivals::Flows(..) => run(&cell, Party::OneMore, seed),
            Rivals::Transfer => Got::default(),
        };
        for ((word, control), found) in options.rates.iter().zip(&mut found) {
            let got = run(&cell, Party::Transfer(*control), seed);
            let Got {
                rivals,
                transfer,
                queue,
            } = got;
            print!(
                "    {word:8} {transfer:7.1} Mb/s, others {rivals:7.1} Mb/s, queue {queue:6.1} ms"
            );
            match cell.rivals {
                Rivals::Nobody => {
                    let alone = transfer / best.transfer;
                    found.alone.push(alone);
                    println!("; alone {alone:.2} of {:.1}", best.transfer);
                }
                Rivals::Flows(..) => {
                    let (others, own) = (rivals / best.rivals, transfer / best.transfer);
                    found.others.push(others);
                    found.own.push(own);
                    println!("; others {others:.2}, own {own:.2}");
                }
                Rivals::Transfer => {
                    // Each is to the other as one more of its kind.
                    let half = (rivals + transfer) / 2.0;
                    found.own.push(transfer / half);
                    found.own.push(rivals / half);
                    println!("; own {:.2}", transfer / half);
                }
            }
        }
    }
    for ((word, _), found) in options.rates.iter().zip(found) {
        println!("\n{word}");
        tell("others have 1/2 or more", found.others.clone(), 0.5);
        tell("others have 1/3 or more", found.others, 1.0 / 3.0);
        tell("own 1/4 or more", found.own, 0.25);
        tell("alone 0.85 or more", found.alone, 0.85);
    }
}

/// In how many cells a part is at least `least`, and what it is at the worst and in the middle.
fn tell(what: &str, mut parts: Vec<f64>, least: f64) {
    parts.sort_by(f64::total_cmp);
    let enough = parts.iter().filter(|part| **part >= least).count();
    if let (Some(worst), Some(middle)) = (parts.first(), parts.get(parts.len() / 2)) {
        let of = parts.len();
        println!("  {what}: {enough} of {of}; least {worst:.2}, median {middle:.2}");
    }
}

/// What the best fixed rate gets of a cell.
fn best_fixed(cell: &Cell, seed: u64) -> Got {
    let parts = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9];
    let rates = parts.map(|part| fixed(cell.link as f64 * part));
    let got = rates.map(|rate| run(cell, Party::Transfer(rate), seed));
    let best = got
        .into_iter()
        .max_by(|a, b| a.transfer.total_cmp(&b.transfer));
    best.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use groupcast_sim::flow::Congestion;

    use super::cell::Lossy;
    use super::*;

    fn cell(rivals: Rivals) -> Cell {
        Cell {
            link: 10,
            buffer_kib: 64,
            rivals,
            they_go: false,
            receivers: 2,
            all_behind: false,
            lossy: Lossy::None,
            busy: false,
            clocks_off: false,
        }
    }

    #[test]
    fn cells_follow_from_the_seed_and_differ() {
        let drawn = |seed| -> Vec<String> {
            let cells = (0..40).map(|number| Cell::draw(seed, number));
            cells.map(|cell| cell.to_string()).collect()
        };
        assert_eq!(drawn(1), drawn(1));
        let different: BTreeSet<String> = drawn(1).into_iter().chain(drawn(2)).collect();
        assert!(different.len() > 70, "{}", different.len());
    }

    #[test]
    fn a_fixed_rate_leaves_the_rest() {
        let reno = cell(Rivals::Flows(Congestion::Reno, 1));
        let got = run(&reno, Party::Transfer(fixed(4.0)), 1);
        assert!((3.5..4.1).contains(&got.transfer), "{got:?}");
        assert!((4.0..5.8).contains(&got.rivals), "{got:?}");
        let more = run(&reno, Party::OneMore, 1);
        let share = more.transfer / (more.transfer + more.rivals);
        assert!((0.35..0.65).contains(&share), "{more:?}");
        assert!(
            (8.5..9.7).contains(&(more.transfer + more.rivals)),
            "{more:?}"
        );
    }

    #[test]
    fn two_transfers_at_fixed_rates_do_not_hear_each_other() {
        let got = run(&cell(Rivals::Transfer), Party::Transfer(fixed(3.0)), 1);
        for rate in [got.transfer, got.rivals] {
            assert!((2.6..3.1).contains(&rate), "{got:?}");
        }
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        let asked = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            parse(&args).map(|options| options.rates.len())
        };
        assert_eq!(asked(&["--rates", "auto,window,20"]), Ok(3));
        for wrong in [["--rates", "fast"], ["--half", "third"], ["--cells", "7"]] {
            assert!(asked(&wrong).is_err(), "{wrong:?}");
        }
    }
}
