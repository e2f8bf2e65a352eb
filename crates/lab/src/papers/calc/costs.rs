//! `rmp-table4` and `rmp-table5`: 000 ch. 10, what a packet to eight members costs by unicast and
//! by IP multicast, in networks within a site and between sites. Costs are computed on topologies;
//! the printed ones stand in the judge only.

use std::ops::Range;

use super::super::plot::{Axis, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Table, Verdict};
use super::site::{Cost, Joined, Site, Source};

/// 000 Table 4: four topologies of Ethernets.
pub struct IntraSite;

/// 000 Table 5: three topologies of sites.
pub struct InterSite;

/// Destinations of a packet, in all topologies.
const MEMBERS: usize = 8;
/// Half the last digit of the printed factors.
const ROUNDING: f64 = 0.005;
/// So that a factor which lies half-way between two digits may be rounded either way.
const SLACK: f64 = 1e-9;

/// What the paper prints of a topology.
struct Printed {
    topology: f64,
    unicast: f64,
    multicast: f64,
    factor: f64,
}

const fn printed(topology: f64, unicast: f64, multicast: f64, factor: f64) -> Printed {
    Printed {
        topology,
        unicast,
        multicast,
        factor,
    }
}

const TABLE_4: [Printed; 4] = [
    printed(1.0, 8.0, 1.0, 8.0),
    printed(2.0, 28.0, 6.0, 4.33),
    printed(3.0, 38.0, 16.0, 2.38),
    printed(4.0, 38.0, 12.0, 3.17),
];

const TABLE_5: [Printed; 3] = [
    printed(2.0, 92.0, 27.0, 3.41),
    printed(3.0, 126.0, 61.0, 2.07),
    printed(4.0, 126.0, 45.0, 2.8),
];

/// Topologies by their number in Fig. 16: how many media, and how they are joined.
fn topologies(link: u64) -> [(usize, usize, Joined); 4] {
    [
        (1, 1, Joined::Fully(link)),
        (2, 2, Joined::Fully(link)),
        (3, 4, Joined::Fully(link)),
        (4, 4, Joined::Centrally(link / 2)),
    ]
}

impl Reproduction for IntraSite {
    fn title(&self) -> &'static str {
        "What multicast saves within a site"
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Calc]
    }

    fn seeds(&self) -> Range<u64> {
        0..1
    }

    fn run(&self, _context: &Context<'_>) -> Result<Data, RunError> {
        let mut data = Data::new();
        data.condition("price of an Ethernet", 1);
        data.condition("price of a link", "4, or 2 to the router in the middle");
        data.condition("the source", "beside members on the first Ethernet");
        let mut table = Table::new("costs", &COLUMNS);
        for (number, ethernets, joined) in topologies(4) {
            let cost = Site::of_ethernets(ethernets, MEMBERS, joined).cost();
            append(&mut table, number, ethernets, "", cost);
        }
        data.push(table);
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        judge_costs(data, "", &TABLE_4, &mut verdict);
        let table = data.table("costs");
        let enough = table
            .records()
            .filter(|row| factor(row) >= row.number("members a medium"));
        verdict.check(
            enough.count() == TABLE_4.len(),
            "multicast saves at least a factor of the members a LAN in every topology",
            factors(data, ""),
        );
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        plots(data, "", "members a LAN")
    }
}

/// Our reading of Table 5, and another that the text does not exclude.
const READINGS: [(&str, Source); 2] = [
    ("an Ethernet of its own", Source::OwnEthernet),
    ("a member's Ethernet", Source::WithMember),
];

impl Reproduction for InterSite {
    fn title(&self) -> &'static str {
        "What multicast saves between sites"
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Calc]
    }

    fn seeds(&self) -> Range<u64> {
        0..1
    }

    fn run(&self, _context: &Context<'_>) -> Result<Data, RunError> {
        let mut data = Data::new();
        data.condition("price of an Ethernet and of an FDDI ring", 1);
        data.condition("price of the WAN", "16, or 8 to the router in the middle");
        data.condition("a site", "an FDDI ring with one Ethernet a member");
        data.condition("the source", "on a ninth Ethernet, in the first site");
        let mut table = Table::new("costs", &COLUMNS);
        for (name, source) in READINGS {
            for (number, sites, joined) in topologies(16).into_iter().skip(1) {
                let cost = Site::of_sites(sites, MEMBERS, joined, source).cost();
                append(&mut table, number, sites, name, cost);
            }
        }
        data.push(table);
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        let own = READINGS[0].0;
        judge_costs(data, own, &TABLE_5, &mut verdict);
        let rows = || data.table("costs").having("source", own);
        let shares: Vec<(f64, f64)> = rows()
            .map(|row| {
                (
                    row.number("topology"),
                    factor(&row) / row.number("members a medium"),
                )
            })
            .collect();
        let outside: Vec<String> = shares
            .iter()
            .filter(|(_, share)| !(1.0..=1.7).contains(share))
            .map(|(topology, share)| format!("topology {topology} with {share:.2}·H/S"))
            .collect();
        let shown: Vec<String> = shares
            .iter()
            .map(|(_, share)| format!("{share:.2}·H/S"))
            .collect();
        verdict.check(
            shares.len() == 3 && (shares[0].1 < 1.0) && outside.len() == 1,
            "the text's rule, between H/S and 1.7·H/S, holds for topologies 3 and 4 and fails for 2",
            shown.join(", "),
        );
        if !outside.is_empty() {
            verdict.note(format!(
                "A slip of the paper: its rule, efficiency between H/S and 1.7·H/S in the three topologies studied, does \
                 not hold for {}.",
                outside.join(" and ")
            ));
        }
        let other = READINGS[1].0;
        verdict.note(format!(
            "The text does not say where the source is. On {other} the costs would be {}: not the printed ones in {} of 3 \
             topologies; on {own}, our reading, in {}.",
            costs(data, other),
            mismatches(data, other, &TABLE_5),
            mismatches(data, own, &TABLE_5),
        ));
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        plots(data, READINGS[0].0, "H/S, members a site")
    }
}

const COLUMNS: [(&str, &str); 6] = [
    ("source", ""),
    ("topology", ""),
    ("media", ""),
    ("members a medium", ""),
    ("unicast", "cost"),
    ("multicast", "cost"),
];

fn append(table: &mut Table, number: usize, media: usize, source: &str, cost: Cost) {
    table.row([
        source.into(),
        number.into(),
        media.into(),
        (MEMBERS / media).into(),
        cost.unicast.into(),
        cost.multicast.into(),
    ]);
}

type Row<'a> = super::super::data::RecordRef<'a>;

fn factor(row: &Row<'_>) -> f64 {
    row.number("unicast") / row.number("multicast")
}

fn costs(data: &Data, source: &str) -> String {
    let rows = data.table("costs").having("source", source);
    let shown: Vec<String> = rows
        .map(|row| format!("{}/{}", row.number("unicast"), row.number("multicast")))
        .collect();
    shown.join(", ")
}

fn factors(data: &Data, source: &str) -> String {
    let rows = data.table("costs").having("source", source);
    let shown: Vec<String> = rows.map(|row| format!("{:.2}", factor(&row))).collect();
    shown.join(", ")
}

/// Topologies whose computed costs are not the printed ones.
fn mismatches(data: &Data, source: &str, printed: &[Printed]) -> usize {
    let matches = |print: &&Printed| {
        let mut rows = data.table("costs").having("source", source);
        rows.any(|row| {
            row.number("topology") == print.topology
                && row.number("unicast") == print.unicast
                && row.number("multicast") == print.multicast
        })
    };
    printed.len() - printed.iter().filter(matches).count()
}

/// The printed costs, and the printed factors as far as they follow from them; one that does not is
/// named.
fn judge_costs(data: &Data, source: &str, printed: &[Printed], verdict: &mut Verdict) {
    let listed: Vec<String> = printed
        .iter()
        .map(|print| format!("{}/{}", print.unicast, print.multicast))
        .collect();
    verdict.check(
        mismatches(data, source, printed) == 0,
        format!(
            "unicast and multicast cost {} on the topologies",
            listed.join(", ")
        ),
        costs(data, source),
    );
    let slips: Vec<&Printed> = printed
        .iter()
        .filter(|print| (print.unicast / print.multicast - print.factor).abs() > ROUNDING + SLACK)
        .collect();
    let follow = printed
        .iter()
        .filter(|print| !slips.iter().any(|slip| slip.topology == print.topology));
    let (mut held, mut sound, mut computed) = (true, Vec::new(), Vec::new());
    for print in follow {
        sound.push(format!("{}", print.factor));
        let mut rows = data.table("costs").having("source", source);
        let row = rows.find(|row| row.number("topology") == print.topology);
        computed.push(row.map_or("none".to_owned(), |row| format!("{:.3}", factor(&row))));
        held &= row.is_some_and(|row| (factor(&row) - print.factor).abs() <= ROUNDING + SLACK);
    }
    verdict.check(
        held,
        format!(
            "the factors that follow from the printed costs come out: {}",
            sound.join(", ")
        ),
        computed.join(", "),
    );
    for slip in slips {
        verdict.note(format!(
            "A slip of the paper: for topology {} it prints a factor of {}, but {}/{} is {:.2}.",
            slip.topology,
            slip.factor,
            slip.unicast,
            slip.multicast,
            slip.unicast / slip.multicast
        ));
    }
}

fn plots(data: &Data, source: &str, bound: &str) -> Vec<Plot> {
    let rows: Vec<Row<'_>> = data.table("costs").having("source", source).collect();
    let names = || {
        rows.iter()
            .map(|row| format!("topology {}", row.number("topology")))
    };
    let series = |value: &dyn Fn(&Row<'_>) -> f64| -> Vec<(f64, f64)> {
        rows.iter()
            .enumerate()
            .map(|(index, row)| (index as f64, value(row)))
            .collect()
    };
    let price = Plot::new(
        "Cost of a packet to eight members",
        Axis::categories("", names()),
        Axis::linear("cost", ""),
    )
    .with(Series::bars(
        "unicast",
        series(&|row| row.number("unicast")),
    ))
    .with(Series::bars(
        "multicast",
        series(&|row| row.number("multicast")),
    ));
    let gain = Plot::new(
        "What multicast saves",
        Axis::categories("", names()),
        Axis::linear("unicast / multicast", ""),
    )
    .with(Series::bars("computed", series(&factor)).colour(2))
    .with(
        Series::bars(bound, series(&|row| row.number("members a medium")))
            .colour(6)
            .dashed(),
    );
    vec![price, gain]
}

#[cfg(test)]
mod tests {
    use super::super::super::context::options;
    use super::*;

    fn run(reproduction: &dyn Reproduction) -> Data {
        let options = options(0..1, false, 1);
        reproduction
            .run(&Context::new(&options, &|_, _| {}))
            .unwrap()
    }

    #[test]
    fn a_cost_that_differs_does_not_pass() {
        for reproduction in [&IntraSite as &dyn Reproduction, &InterSite] {
            let data = run(reproduction);
            assert!(reproduction.judge(&data).passed());
            for column in [4, 5] {
                let mut data = data.clone();
                data.tables[0].rows[2][column] = 60.0.into();
                assert!(!reproduction.judge(&data).passed());
            }
            assert!(!reproduction.judge(&Data::new()).passed());
        }
    }

    #[test]
    fn the_slips_are_named() {
        let notes = |reproduction: &dyn Reproduction| {
            reproduction.judge(&run(reproduction)).notes.join("\n")
        };
        let intra = notes(&IntraSite);
        assert!(
            intra.contains("4.33") && intra.contains("28/6 is 4.67"),
            "{intra}"
        );
        assert_eq!(intra.lines().count(), 1, "{intra}");
        let inter = notes(&InterSite);
        assert!(
            inter.contains("does not hold for topology 2 with 0.85·H/S"),
            "{inter}"
        );
    }
}
