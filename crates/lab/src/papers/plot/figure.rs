//! The figure of a row: a heading, its plots side by side, and below them the paper's finding, the
//! verdict claim by claim, and where the data came from. A reader needs nothing beside it.

use super::super::Record;
use super::Plot;
use super::panel::{self, Frame, text};
use super::text::wrap;

/// The width of a figure with one plot, and with several, two in a row.
const WIDTH_ONE: f64 = 820.0;
const WIDTH_MORE: f64 = 1180.0;
const PANEL_HEIGHT: f64 = 400.0;
const MARGIN: f64 = 22.0;
const LINE: f64 = 18.0;
const PASS: &str = "#1a7f37";
const FAIL: &str = "#c4320a";

/// Draws `plots` with what `record` says about them, as one SVG document.
pub fn draw(record: &Record, plots: &[Plot]) -> String {
    let (width, columns) = match plots.len() {
        0 | 1 => (WIDTH_ONE, 1),
        _ => (WIDTH_MORE, 2),
    };
    let mut body = String::new();
    let heading = format!("{} — {}", record.id, record.title);
    let bold = "font-size=\"18\" font-weight=\"bold\"";
    text(&mut body, MARGIN, 34.0, "start", bold, &heading);
    let source = format!("{} {}", record.paper, record.place);
    text(
        &mut body,
        width - MARGIN,
        34.0,
        "end",
        "fill=\"#555\"",
        &source,
    );

    let top = 56.0;
    let wide = (width - MARGIN) / columns as f64;
    for (index, plot) in plots.iter().enumerate() {
        let frame = Frame {
            x: (index % columns) as f64 * wide + MARGIN / 2.0,
            y: top + (index / columns) as f64 * (PANEL_HEIGHT + MARGIN),
            width: wide,
            height: PANEL_HEIGHT,
        };
        panel::draw(&mut body, plot, frame, index);
    }
    let rows = plots.len().div_ceil(columns) as f64;
    let mut caption = Caption {
        y: top + rows * (PANEL_HEIGHT + MARGIN) + 8.0,
        width,
        svg: &mut body,
    };
    caption.write(record);
    let height = caption.y + 8.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width} {height:.0}\" font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\" \
         font-size=\"12.5\" fill=\"#1c1c1c\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Lines of words below the plots.
struct Caption<'a> {
    svg: &'a mut String,
    y: f64,
    width: f64,
}

impl Caption<'_> {
    fn write(&mut self, record: &Record) {
        self.paragraph("Finding", "", &record.finding);
        let (colour, word) = match record.verdict.passed() {
            true => (PASS, "pass"),
            false => (FAIL, "fail"),
        };
        let look = format!("font-weight=\"bold\" fill=\"{colour}\"");
        self.paragraph("Verdict", &look, word);
        for check in &record.verdict.checks {
            let (colour, sign) = if check.held {
                (PASS, "✓")
            } else {
                (FAIL, "✗")
            };
            let sign_look = format!("font-weight=\"bold\" fill=\"{colour}\"");
            text(self.svg, INDENT - 18.0, self.y, "start", &sign_look, sign);
            self.lines("", &format!("{} → {}", check.claim, check.measured));
        }
        for note in &record.verdict.notes {
            self.paragraph("Note", "", note);
        }
        self.y += 4.0;
        let quiet = "fill=\"#555\"";
        let conditions: Vec<String> = record
            .data
            .conditions
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        if !conditions.is_empty() {
            self.paragraph("Conditions", quiet, &conditions.join("; "));
        }
        self.paragraph("Run", quiet, &record.provenance());
    }

    fn paragraph(&mut self, name: &str, look: &str, words: &str) {
        text(self.svg, MARGIN, self.y, "start", "fill=\"#555\"", name);
        self.lines(look, words);
    }

    fn lines(&mut self, look: &str, words: &str) {
        for line in wrap(words, (self.width - INDENT - MARGIN) / 12.5) {
            text(self.svg, INDENT, self.y, "start", look, &line);
            self.y += LINE;
        }
    }
}

/// Where the words of the caption begin, right of their names.
const INDENT: f64 = 128.0;

#[cfg(test)]
mod tests {
    use resvg::usvg::{Options, Tree};

    use super::super::super::{Data, LabHost, Verdict};
    use super::super::{Axis, Point, Series};
    use super::*;

    fn record() -> Record {
        let mut verdict = Verdict::new();
        verdict.check(true, "a < b & c", "1 < 2");
        verdict.check(
            false,
            "so long a claim that it does not fit into one line ".repeat(4),
            "no",
        );
        verdict.note("a note");
        let mut data = Data::new();
        data.condition("links", "5 ms");
        Record {
            id: "row".to_owned(),
            title: "Title <1>".to_owned(),
            paper: "000".to_owned(),
            place: "Fig. 1".to_owned(),
            setup: String::new(),
            finding: "it grows & grows".to_owned(),
            status: "fail".to_owned(),
            commit: "abc".to_owned(),
            host: LabHost::Calc,
            seeds: 1..3,
            quick: false,
            verdict,
            data,
        }
    }

    fn plots() -> Vec<Plot> {
        let nasty = [
            (0.0, 0.0),
            (1.0, f64::NAN),
            (2.0, 5.0),
            (1e9, f64::INFINITY),
        ];
        let barred = || {
            [
                Point::with_bar(1.0, 2.0, 0.0, 3.0),
                Point::with_bar(2.0, 4.0, 3.5, 4.5),
            ]
        };
        let log = Plot::new("Log", Axis::log("x", "ms"), Axis::log("y", "Mb/s"));
        let names = Axis::categories("", ["one", "two", "three"]);
        vec![
            log.with(Series::line("nasty", nasty))
                .with(Series::points("barred", barred())),
            Plot::new("Bars", names, Axis::linear("y", ""))
                .with(Series::bars("a", barred()))
                .with(Series::bars("b & c", nasty).dashed())
                .guide(3.0, "limit"),
            Plot::new("Nothing", Axis::linear("x", ""), Axis::linear("y", ""))
                .with(Series::steps("", Vec::<(f64, f64)>::new()))
                .upright(1.0, "here"),
        ]
    }

    #[test]
    fn whatever_the_data_the_figure_can_be_read_and_says_what_was_found() {
        let svg = draw(&record(), &plots());
        let tree = Tree::from_str(&svg, &Options::default()).unwrap();
        // Two panels in a row, so three take two rows.
        assert!(tree.size().width() == WIDTH_MORE as f32 && tree.size().height() > 800.0);
        for words in [
            "it grows &amp; grows",
            "a &lt; b &amp; c → 1 &lt; 2",
            "✗",
            "a note",
            "links 5 ms",
            "commit abc",
        ] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
