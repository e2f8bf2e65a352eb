//! Tasks of the groupcast workspace.

fn main() {}
