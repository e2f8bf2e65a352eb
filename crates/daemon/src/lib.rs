//! The groupcast daemon: configuration, listeners, signals, logging.
