//! The program as the laboratory calls it: SVG in, PNG out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn draw(svg: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_groupcast-draw"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = program.stdin.take().unwrap();
    stdin.write_all(svg.as_bytes()).unwrap();
    drop(stdin);
    program.wait_with_output().unwrap()
}

#[test]
fn a_drawing_becomes_a_png_of_twice_its_size() {
    let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20">
        <rect width="30" height="20" fill="#123456"/><text x="2" y="12">seq</text></svg>"##;
    let drawn = draw(svg);
    assert!(drawn.status.success(), "{drawn:?}");
    let png = drawn.stdout;
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    // IHDR: width and height follow the chunk's length and name.
    assert_eq!(png[16..24], [0, 0, 0, 60, 0, 0, 0, 40]);
}

#[test]
fn what_is_no_drawing_is_refused_with_the_reason() {
    for (svg, what) in [
        ("", "cannot read the drawing"),
        ("<html/>", "cannot read the drawing"),
    ] {
        let drawn = draw(svg);
        let said = String::from_utf8_lossy(&drawn.stderr).into_owned();
        assert_eq!(drawn.status.code(), Some(1));
        assert!(said.contains(what), "{said}");
        assert!(drawn.stdout.is_empty());
    }
}
