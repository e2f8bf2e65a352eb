//! `groupcast-draw`: reads an SVG from its standard input and writes it as PNG to its standard
//! output.
//!
//! `groupcast lab run` calls it, and finds it beside itself. It is a program of its own because a
//! renderer of pictures is a third of all libraries: whoever builds the daemon need not build it,
//! and the daemon does not carry it. It takes no arguments and knows nothing of the laboratory.
#![forbid(unsafe_code)]

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels per unit of the drawing: sharp on screens of today and in print.
const ZOOM: f32 = 2.0;

fn main() -> ExitCode {
    match convert() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Without a standard error there is nobody left to tell.
            let _ = writeln!(io::stderr(), "groupcast-draw: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn convert() -> Result<(), String> {
    let mut svg = String::new();
    io::stdin()
        .read_to_string(&mut svg)
        .map_err(|error| format!("cannot read the drawing: {error}"))?;
    let png = png(&svg)?;
    io::stdout()
        .write_all(&png)
        .map_err(|error| format!("cannot write the PNG: {error}"))
}

/// Draws `svg` as a PNG with a font of this machine: an SVG carries none. The error says what was
/// wrong.
fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    if fonts.is_empty() {
        return Err(
            "no font is installed (on Debian: apt-get install fonts-dejavu-core)".to_owned(),
        );
    }
    let tree = Tree::from_str(svg, &options)
        .map_err(|error| format!("cannot read the drawing: {error}"))?;
    let size = tree.size().to_int_size();
    let pixels = |length: u32| (length as f32 * ZOOM) as u32;
    let mut pixmap = Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| "the drawing is empty".to_owned())?;
    resvg::render(
        &tree,
        Transform::from_scale(ZOOM, ZOOM),
        &mut pixmap.as_mut(),
    );
    pixmap
        .encode_png()
        .map_err(|error| format!("cannot write the PNG: {error}"))
}
