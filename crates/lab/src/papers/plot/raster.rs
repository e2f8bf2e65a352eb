//! SVG to PNG, for those who cannot show SVG. Needs a font on the machine: the SVG carries none.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels per unit of the drawing: sharp on screens of today and in print.
const ZOOM: f32 = 2.0;

/// Draws `svg` as a PNG. The error says what was wrong.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
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
