//! Test beds, measurements and the papers' experiments.
