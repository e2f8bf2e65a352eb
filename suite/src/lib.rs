//! Conformance and live tests of groupcast.
