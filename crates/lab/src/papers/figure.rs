//! The skeleton of a figure: points, how one is measured, a judge, plots.
//!
//! A paper gives its [`Point`]; a [`Figure`] is data and functions of it. [The parent](super) says
//! which file of a paper's folder holds which part.

use std::ops::Range;

use super::{Cell, Context, Data, LabHost, Plot, Reproduction, RunError, Table, Verdict};

/// The table with a row a point and seed.
pub(super) const POINTS: &str = "points";
/// The table of points over what the paper leaves open.
pub(super) const SWEEP: &str = "sweep";

/// One point of a paper's figures: all that its measurement depends on, but for the seed.
pub trait Point: Send + Sync + Sized + 'static {
    /// What is measured of it.
    type Measured: Send;

    /// States what holds for all points of `plan`, above all what the paper leaves open.
    fn conditions(context: &Context<'_>, plan: &[Self], data: &mut Data);

    /// Measures it on the simulator.
    fn simulate(&self, context: &Context<'_>, seed: u64) -> Result<Self::Measured, RunError>;

    /// Measures on sockets those points of `plan` that exist there, each once for every seed, which
    /// is only its number.
    fn on_sockets(
        context: &Context<'_>,
        plan: &[Self],
    ) -> Result<Vec<(Self, u64, Self::Measured)>, RunError>;

    /// The columns of the table of points, with their units.
    fn columns() -> &'static [(&'static str, &'static str)];

    /// Its row there.
    fn row(&self, seed: u64, measured: &Self::Measured) -> Vec<Cell>;

    /// The columns of the table of the sweep.
    fn sweep_columns() -> &'static [(&'static str, &'static str)];

    /// Its row there. A sweep has one seed.
    fn sweep_row(&self, measured: &Self::Measured) -> Vec<Cell>;
}

/// One figure or table of a paper.
pub struct Figure<P> {
    /// A few words for a heading.
    pub title: &'static str,
    /// Where it can run; the first is the default.
    pub hosts: &'static [LabHost],
    /// The seeds of a full run.
    pub seeds: Range<u64>,
    /// What is measured with every seed. On sockets the plan is the quick one: every point takes
    /// seconds.
    pub plan: fn(quick: bool) -> Vec<P>,
    /// What is simulated besides with the first seed, over what the paper leaves open.
    pub sweep: Option<fn(quick: bool) -> Vec<P>>,
    /// What the paper concluded, as arithmetic on the data.
    pub judge: fn(&Data, &mut Verdict),
    /// What to draw.
    pub draw: fn(&Data) -> Vec<Plot>,
}

impl<P: Point> Reproduction for Figure<P> {
    fn title(&self) -> &'static str {
        self.title
    }

    fn hosts(&self) -> &'static [LabHost] {
        self.hosts
    }

    fn seeds(&self) -> Range<u64> {
        self.seeds.clone()
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let options = context.options();
        let on_sockets = options.host == LabHost::Net;
        let plan = (self.plan)(options.quick || on_sockets);
        let mut data = Data::new();
        P::conditions(context, &plan, &mut data);
        data.push(if on_sockets {
            measured(context, &plan)?
        } else {
            simulated(context, &plan)?
        });
        if let Some(sweep) = self.sweep {
            data.push(swept(context, &sweep(options.quick))?);
        }
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        (self.judge)(data, &mut verdict);
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        (self.draw)(data)
    }
}

/// Every point of `plan` on the simulator, with every seed.
fn simulated<P: Point>(context: &Context<'_>, plan: &[P]) -> Result<Table, RunError> {
    let points: Vec<(&P, u64)> = plan
        .iter()
        .flat_map(|point| context.seeds().map(move |seed| (point, seed)))
        .collect();
    let measured = context.each(&points, |(point, seed)| point.simulate(context, *seed))?;
    let mut table = Table::new(POINTS, P::columns());
    for ((point, seed), measured) in points.iter().zip(&measured) {
        table.row(point.row(*seed, measured));
    }
    Ok(table)
}

/// Those points of `plan` that exist on sockets.
fn measured<P: Point>(context: &Context<'_>, plan: &[P]) -> Result<Table, RunError> {
    let mut table = Table::new(POINTS, P::columns());
    for (point, seed, measured) in P::on_sockets(context, plan)? {
        table.row(point.row(seed, &measured));
    }
    Ok(table)
}

/// Every point of `plan` on the simulator, with the first seed.
fn swept<P: Point>(context: &Context<'_>, plan: &[P]) -> Result<Table, RunError> {
    let seed = context.seeds().start;
    let measured = context.each(plan, |point| point.simulate(context, seed))?;
    let mut table = Table::new(SWEEP, P::sweep_columns());
    for (point, measured) in plan.iter().zip(&measured) {
        table.row(point.sweep_row(measured));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::super::context::options;
    use super::*;

    /// A number, of which twice as much is measured, and the seed added.
    struct Number(u64);

    impl Point for Number {
        type Measured = u64;

        fn conditions(_: &Context<'_>, plan: &[Self], data: &mut Data) {
            data.condition("numbers", plan.len());
        }

        fn simulate(&self, _: &Context<'_>, seed: u64) -> Result<u64, RunError> {
            Ok(2 * self.0 + seed)
        }

        fn on_sockets(
            context: &Context<'_>,
            plan: &[Self],
        ) -> Result<Vec<(Self, u64, u64)>, RunError> {
            let odd = plan.iter().filter(|point| point.0 % 2 == 1);
            Ok(odd
                .map(|point| (Self(point.0), context.seeds().start, 100))
                .collect())
        }

        fn columns() -> &'static [(&'static str, &'static str)] {
            &[("number", ""), ("seed", ""), ("measured", "")]
        }

        fn row(&self, seed: u64, measured: &u64) -> Vec<Cell> {
            vec![self.0.into(), seed.into(), (*measured).into()]
        }

        fn sweep_columns() -> &'static [(&'static str, &'static str)] {
            &[("number", ""), ("measured", "")]
        }

        fn sweep_row(&self, measured: &u64) -> Vec<Cell> {
            vec![self.0.into(), (*measured).into()]
        }
    }

    const FIGURE: Figure<Number> = Figure {
        title: "Numbers",
        hosts: &[LabHost::Sim, LabHost::Net],
        seeds: 1..3,
        plan: |quick| {
            let most = if quick { 2 } else { 4 };
            (1..=most).map(Number).collect()
        },
        sweep: Some(|_| vec![Number(9)]),
        judge: |data, verdict| {
            let rows = data.table(POINTS).rows.len();
            verdict.check(rows == 8, "four points, two seeds", rows.to_string());
        },
        draw: |_| Vec::new(),
    };

    fn run(host: LabHost) -> Data {
        let options = crate::papers::Options {
            host,
            ..options(1..3, false, 2)
        };
        let context = Context::new(&options, &|_, _| {});
        FIGURE.run(&context).expect("numbers can be measured")
    }

    fn numbers(data: &Data, table: &str) -> Vec<Vec<f64>> {
        let table = data.table(table);
        let names: Vec<&str> = table.columns.iter().map(|it| it.name.as_str()).collect();
        let row = |row: super::super::data::RecordRef<'_>| {
            names.iter().map(|name| row.number(name)).collect()
        };
        table.records().map(row).collect()
    }

    #[test]
    fn every_point_is_simulated_with_every_seed_and_the_sweep_with_the_first() {
        let data = run(LabHost::Sim);
        assert_eq!(data.conditions, [("numbers".to_owned(), "4".to_owned())]);
        let points = numbers(&data, POINTS);
        assert_eq!(points[..2], [vec![1.0, 1.0, 3.0], vec![1.0, 2.0, 4.0]]);
        assert_eq!(numbers(&data, SWEEP), [[9.0, 19.0]]);
        assert!(FIGURE.judge(&data).passed());
    }

    #[test]
    fn on_sockets_the_quick_plan_is_measured_as_far_as_it_exists_there() {
        let data = run(LabHost::Net);
        assert_eq!(numbers(&data, POINTS), [[1.0, 1.0, 100.0]]);
        assert!(!FIGURE.judge(&data).passed());
    }
}
