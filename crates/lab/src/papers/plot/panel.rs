//! One plot as SVG: title, legend, axes with ticks and labels, guides, series with error bars.

use std::fmt::Write as _;

use super::scale::Scale;
use super::text::{escape, width, wrap};
use super::{Guide, Mark, Plot, Point, Series};

/// Okabe and Ito's palette, which the colour-blind can tell apart; yellow, too light on white, is
/// left out.
const PALETTE: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444",
];
const FONT: f64 = 12.5;
const LINE: f64 = 18.0;
/// Room left of the plot for tick labels and the axis' name, and right of it for half a tick label.
const LEFT: f64 = 74.0;
const RIGHT: f64 = 18.0;
/// Room below the plot for tick labels and the axis' name.
const BELOW: f64 = 46.0;
/// Lines with more points than this have no marks on them.
const MARKS_MAX: usize = 40;

/// Where a panel stands in the figure.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Draws `plot` into `frame`; `index` tells its parts apart from other panels' in one file.
pub(super) fn draw(svg: &mut String, plot: &Plot, frame: Frame, index: usize) {
    // Bold letters are wider than those that widths are known of.
    let title = wrap(&plot.title, (frame.width - LEFT - RIGHT) / (14.0 * 1.12));
    let legend = Legend::lay_out(plot, frame.width - LEFT - RIGHT);
    let above = title.len() as f64 * LINE + 6.0 + legend.height() + 8.0;
    let (left, right) = (frame.x + LEFT, frame.x + frame.width - RIGHT);
    let (top, bottom) = (frame.y + above, frame.y + frame.height - BELOW);
    for (number, line) in title.iter().enumerate() {
        let y = frame.y + 14.0 + number as f64 * LINE;
        text(
            svg,
            left,
            y,
            "start",
            "font-size=\"14\" font-weight=\"bold\"",
            line,
        );
    }
    legend.draw(svg, plot, left, frame.y + title.len() as f64 * LINE + 14.0);

    let x = Scale::fit(&plot.x, across(plot), (left, right));
    let y = Scale::fit(&plot.y, upwards(plot), (bottom, top));
    let area = Area {
        x,
        y,
        left,
        right,
        top,
        bottom,
    };
    area.axes(svg, plot);
    let _ = writeln!(
        svg,
        "<clipPath id=\"p{index}\"><rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/></clipPath>",
        top - 4.0,
        right - left,
        bottom - top + 8.0
    );
    let _ = writeln!(svg, "<g clip-path=\"url(#p{index})\">");
    let bars = plot
        .series
        .iter()
        .filter(|series| series.mark == Mark::Bars)
        .count();
    let mut bar = 0;
    for (number, series) in plot.series.iter().enumerate() {
        let look = Look::of(series, number);
        match series.mark {
            Mark::Bars => {
                area.bars(svg, series, &look, (bar, bars));
                bar += 1;
            }
            Mark::Line | Mark::Points => area.line(svg, series, &look),
            Mark::Steps => area.steps(svg, series, &look),
        }
    }
    svg.push_str("</g>\n");
    for guide in &plot.guides {
        area.guide(svg, guide);
    }
}

fn points(plot: &Plot) -> impl Iterator<Item = &Point> {
    plot.series.iter().flat_map(|series| &series.points)
}

fn across(plot: &Plot) -> impl Iterator<Item = f64> {
    let guides = plot
        .guides
        .iter()
        .filter(|guide| guide.upright)
        .map(|guide| guide.at);
    points(plot).map(|point| point.x).chain(guides)
}

fn upwards(plot: &Plot) -> impl Iterator<Item = f64> {
    let guides = plot
        .guides
        .iter()
        .filter(|guide| !guide.upright)
        .map(|guide| guide.at);
    let extent = |point: &Point| {
        let (low, high) = point.bar.unwrap_or((point.y, point.y));
        [point.y, low, high]
    };
    // Bars grow from zero: it belongs to what is shown.
    let zero = plot
        .series
        .iter()
        .any(|series| series.mark == Mark::Bars)
        .then_some(0.0);
    points(plot).flat_map(extent).chain(guides).chain(zero)
}

/// How a series looks.
struct Look {
    colour: &'static str,
    shape: usize,
    dashed: bool,
}

impl Look {
    fn of(series: &Series, number: usize) -> Self {
        let index = series.colour.unwrap_or(number);
        Self {
            colour: PALETTE[index % PALETTE.len()],
            shape: index,
            dashed: series.dashed,
        }
    }

    fn stroke(&self) -> String {
        let dash = if self.dashed {
            " stroke-dasharray=\"6 4\""
        } else {
            ""
        };
        format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dash}",
            self.colour
        )
    }

    /// A mark, hollow if the line is dashed: it can be told apart in black and white.
    fn mark(&self, svg: &mut String, x: f64, y: f64) {
        let fill = if self.dashed { "#fff" } else { self.colour };
        let paint = format!(
            "fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.5\"",
            self.colour
        );
        let polygon = |corners: &[(f64, f64)]| {
            let place = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + dx, y + dy);
            let places: Vec<String> = corners.iter().map(place).collect();
            format!("<polygon points=\"{}\" {paint}/>", places.join(" "))
        };
        let shape = match self.shape % 5 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" {paint}/>"),
            1 => polygon(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
            2 => polygon(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]),
            3 => polygon(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
            _ => polygon(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)]),
        };
        svg.push_str(&shape);
        svg.push('\n');
    }
}

/// The part of a panel that the axes enclose.
struct Area {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn place(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x.place(x)?, self.y.place(y)?))
    }

    fn axes(&self, svg: &mut String, plot: &Plot) {
        let Area {
            left,
            right,
            top,
            bottom,
            ..
        } = *self;
        for tick in self.y.ticks() {
            let Some(y) = self.y.place(tick.at) else {
                continue;
            };
            let grid = if tick.label.is_empty() {
                "#f3f3f3"
            } else {
                "#e0e0e0"
            };
            line(svg, (left, y), (right, y), &format!("stroke=\"{grid}\""));
            text(svg, left - 7.0, y + 4.3, "end", "", &tick.label);
        }
        for tick in self.x.ticks() {
            let Some(x) = self.x.place(tick.at) else {
                continue;
            };
            let length = if tick.label.is_empty() { 3.0 } else { 5.0 };
            line(svg, (x, bottom), (x, bottom + length), "stroke=\"#333\"");
            text(svg, x, bottom + 18.0, "middle", "", &tick.label);
        }
        line(svg, (left, top), (left, bottom), "stroke=\"#333\"");
        line(svg, (left, bottom), (right, bottom), "stroke=\"#333\"");
        text(
            svg,
            (left + right) / 2.0,
            bottom + 38.0,
            "middle",
            "",
            &plot.x.caption(),
        );
        let (x, y) = (left - LEFT + 15.0, (top + bottom) / 2.0);
        let turned = format!("transform=\"rotate(-90 {x:.1} {y:.1})\"");
        text(svg, x, y, "middle", &turned, &plot.y.caption());
    }

    fn line(&self, svg: &mut String, series: &Series, look: &Look) {
        let places: Vec<(f64, f64)> = series
            .points
            .iter()
            .filter_map(|point| self.place(point.x, point.y))
            .collect();
        if series.mark == Mark::Line {
            polyline(svg, &places, look);
        }
        self.error_bars(svg, &series.points, look, 0.0);
        if series.mark == Mark::Points || places.len() <= MARKS_MAX {
            for (x, y) in places {
                look.mark(svg, x, y);
            }
        }
    }

    fn steps(&self, svg: &mut String, series: &Series, look: &Look) {
        let mut places: Vec<(f64, f64)> = Vec::new();
        for (x, y) in series
            .points
            .iter()
            .filter_map(|point| self.place(point.x, point.y))
        {
            if let Some(&(_, before)) = places.last() {
                places.push((x, before));
            }
            places.push((x, y));
        }
        polyline(svg, &places, look);
    }

    fn bars(&self, svg: &mut String, series: &Series, look: &Look, (number, of): (usize, usize)) {
        // A group of bars takes 78 % of the distance between two places.
        let unit = match (self.x.place(0.0), self.x.place(1.0)) {
            (Some(zero), Some(one)) => one - zero,
            _ => return,
        };
        let width = unit * 0.78 / of as f64;
        let shift = (number as f64 - (of as f64 - 1.0) / 2.0) * width;
        let foot = self.y.foot();
        for point in &series.points {
            let Some((x, y)) = self.place(point.x, point.y) else {
                continue;
            };
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"{}/>",
                x + shift - width / 2.0,
                y.min(foot),
                (width - 1.0).max(0.6),
                (y - foot).abs(),
                look.colour,
                if look.dashed {
                    " fill-opacity=\"0.45\""
                } else {
                    ""
                },
            );
        }
        self.error_bars(
            svg,
            &series.points,
            &Look {
                colour: "#222222",
                ..*look
            },
            shift,
        );
    }

    fn error_bars(&self, svg: &mut String, points: &[Point], look: &Look, shift: f64) {
        for point in points {
            let Some((low, high)) = point.bar else {
                continue;
            };
            let (Some(x), Some(high)) = (self.x.place(point.x), self.y.place(high)) else {
                continue;
            };
            // A bar that reaches down to zero has no foot on a logarithmic axis: it runs off the
            // plot.
            let low = self.y.place(low).unwrap_or(self.bottom + 10.0);
            let (x, paint) = (
                x + shift,
                format!("stroke=\"{}\" stroke-width=\"1.3\"", look.colour),
            );
            line(svg, (x, low), (x, high), &paint);
            for y in [low, high] {
                line(svg, (x - 3.5, y), (x + 3.5, y), &paint);
            }
        }
    }

    fn guide(&self, svg: &mut String, guide: &Guide) {
        let paint = "stroke=\"#777\" stroke-width=\"1.2\" stroke-dasharray=\"2 3\"";
        let quiet = "font-size=\"11.5\" fill=\"#555\" paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"4\"";
        if guide.upright {
            let Some(x) = self.x.place(guide.at) else {
                return;
            };
            line(svg, (x, self.top), (x, self.bottom), paint);
            let late = x + 6.0 + 11.5 * width(&guide.label) > self.right;
            let (x, anchor) = if late {
                (x - 5.0, "end")
            } else {
                (x + 5.0, "start")
            };
            text(svg, x, self.top + 12.0, anchor, quiet, &guide.label);
        } else {
            let Some(y) = self.y.place(guide.at) else {
                return;
            };
            line(svg, (self.left, y), (self.right, y), paint);
            text(svg, self.right - 3.0, y - 5.0, "end", quiet, &guide.label);
        }
    }
}

/// The names of the series in rows above the plot, where they hide nothing.
struct Legend {
    /// For each series with a name, the row and the place in it.
    entries: Vec<(usize, usize, f64)>,
    rows: usize,
}

impl Legend {
    fn lay_out(plot: &Plot, room: f64) -> Self {
        let (mut row, mut x) = (0, 0.0);
        let mut entries = Vec::new();
        for (index, series) in plot.series.iter().enumerate() {
            if series.name.is_empty() {
                continue;
            }
            let wide = 34.0 + FONT * width(&series.name) + 16.0;
            if x > 0.0 && x + wide > room {
                (row, x) = (row + 1, 0.0);
            }
            entries.push((index, row, x));
            x += wide;
        }
        let rows = if entries.is_empty() { 0 } else { row + 1 };
        Self { entries, rows }
    }

    fn height(&self) -> f64 {
        self.rows as f64 * LINE
    }

    fn draw(&self, svg: &mut String, plot: &Plot, left: f64, top: f64) {
        for &(index, row, x) in &self.entries {
            let series = &plot.series[index];
            let look = Look::of(series, index);
            let (x, y) = (left + x, top + row as f64 * LINE);
            match series.mark {
                Mark::Bars => {
                    let opacity = if look.dashed {
                        " fill-opacity=\"0.45\""
                    } else {
                        ""
                    };
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"11\" fill=\"{}\"{opacity}/>",
                        x + 8.0,
                        y - 5.5,
                        look.colour
                    );
                }
                Mark::Points => look.mark(svg, x + 14.0, y),
                Mark::Line | Mark::Steps => {
                    polyline(svg, &[(x, y), (x + 28.0, y)], &look);
                    if series.mark == Mark::Line && series.points.len() <= MARKS_MAX {
                        look.mark(svg, x + 14.0, y);
                    }
                }
            }
            text(svg, x + 34.0, y + 4.3, "start", "", &series.name);
        }
    }
}

fn polyline(svg: &mut String, places: &[(f64, f64)], look: &Look) {
    let places: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" {}/>",
        places.join(" "),
        look.stroke()
    );
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), paint: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {paint}/>",
        from.0, from.1, to.0, to.1
    );
}

/// Writes `words` at a place; `look` holds further attributes.
pub(super) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, look: &str, words: &str) {
    if words.is_empty() {
        return;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {look}>{}</text>",
        escape(words)
    );
}
