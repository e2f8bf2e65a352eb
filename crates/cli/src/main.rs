//! The groupcast command line.

fn main() {}
