//! Client of the groupcast daemon.
