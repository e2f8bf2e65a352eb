//! The protocols of groupcast as sans-IO state machines.
