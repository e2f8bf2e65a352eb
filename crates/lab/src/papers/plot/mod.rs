//! What to draw: axes with units, series with error bars, guides. How it is drawn is left to the
//! modules below.
//!
//! - `scale`: from values to places on an axis, and which of them get a tick.
//! - `text`: how wide words are, where lines break.
//! - `panel`: one plot as SVG.
//! - [`figure`]: the panels of a row under a heading, with the finding and the verdict as caption.
//! - [`raster`]: the same as PNG, by a program of its own.

pub mod figure;
mod panel;
pub mod raster;
mod scale;
mod text;

/// One plot.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    guides: Vec<Guide>,
}

impl Plot {
    /// A plot without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            guides: Vec::new(),
        }
    }

    /// Adds a series. The order is the legend's; series without a colour of their own take the next
    /// of the palette.
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a labelled dashed line across the plot at `y`.
    pub fn guide(mut self, y: f64, label: impl Into<String>) -> Self {
        self.guides.push(Guide {
            at: y,
            upright: false,
            label: label.into(),
        });
        self
    }

    /// Adds a labelled dashed line up the plot at `x`.
    pub fn upright(mut self, x: f64, label: impl Into<String>) -> Self {
        self.guides.push(Guide {
            at: x,
            upright: true,
            label: label.into(),
        });
        self
    }
}

/// An axis: what it shows, in which unit, on which scale.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    unit: String,
    kind: Kind,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Clone, PartialEq, Debug)]
enum Kind {
    Linear,
    Log,
    Categories(Vec<String>),
}

impl Axis {
    fn new(label: &str, unit: &str, kind: Kind) -> Self {
        Self {
            label: label.to_owned(),
            unit: unit.to_owned(),
            kind,
            low: None,
            high: None,
        }
    }

    /// A linear axis; `unit` is empty for counts and ratios.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self::new(label, unit, Kind::Linear)
    }

    /// A logarithmic axis. Values that are not positive are left out.
    pub fn log(label: &str, unit: &str) -> Self {
        Self::new(label, unit, Kind::Log)
    }

    /// An axis of named places; a point's coordinate is the index of its name.
    pub fn categories(label: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self::new(label, "", Kind::Categories(names))
    }

    /// The same, beginning at `low` whatever the data.
    pub fn from(mut self, low: f64) -> Self {
        self.low = Some(low);
        self
    }

    /// The same, ending at `high` whatever the data.
    pub fn to(mut self, high: f64) -> Self {
        self.high = Some(high);
        self
    }

    fn caption(&self) -> String {
        match &*self.unit {
            "" => self.label.clone(),
            unit => format!("{} ({unit})", self.label),
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    mark: Mark,
    colour: Option<usize>,
    dashed: bool,
    points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Line,
    Points,
    Bars,
    Steps,
}

impl Series {
    fn new(
        name: impl Into<String>,
        mark: Mark,
        points: impl IntoIterator<Item: Into<Point>>,
    ) -> Self {
        Self {
            name: name.into(),
            mark,
            colour: None,
            dashed: false,
            points: points.into_iter().map(Into::into).collect(),
        }
    }

    /// Points joined by a line, in the order given.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Self {
        Self::new(name, Mark::Line, points)
    }

    /// Points alone.
    pub fn points(name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Self {
        Self::new(name, Mark::Points, points)
    }

    /// A bar a point; several series stand side by side.
    pub fn bars(name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Self {
        Self::new(name, Mark::Bars, points)
    }

    /// A staircase: each point's height holds until the next point's place, as histograms have it.
    pub fn steps(name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Self {
        Self::new(name, Mark::Steps, points)
    }

    /// The same in colour number `index` of the palette, so that kindred series look alike.
    pub fn colour(mut self, index: usize) -> Self {
        self.colour = Some(index);
        self
    }

    /// The same with a dashed line and hollow marks.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }
}

/// A place in a plot, with an error bar if it has one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Along.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The error bar's ends.
    pub bar: Option<(f64, f64)>,
}

impl Point {
    /// A point with an error bar from `low` to `high`.
    pub fn with_bar(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self {
            x,
            y,
            bar: Some((low, high)),
        }
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, bar: None }
    }
}

#[derive(Clone, Debug)]
struct Guide {
    at: f64,
    upright: bool,
    label: String,
}
