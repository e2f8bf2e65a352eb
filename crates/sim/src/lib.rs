//! Deterministic discrete-event network in which the protocols of groupcast run unchanged.
