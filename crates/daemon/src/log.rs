//! Where log lines go: stderr, filtered by `GROUPCAST_LOG`.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The environment variable that says what is logged, for example `debug` or `warn,groupcast_net=debug`.
pub const LOG_VARIABLE: &str = "GROUPCAST_LOG";

/// The log cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
#[error("{LOG_VARIABLE} is not a filter: {reason}; use error, warn, info, debug or trace")]
pub struct LogError {
    reason: String,
}

/// From now on logs to stderr; `info` and above unless `GROUPCAST_LOG` says otherwise. A logger that is set up already
/// stays.
pub fn log_to_stderr() -> Result<(), LogError> {
    let directives = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let directives = match directives.trim() {
        "" => "info",
        directives => directives,
    };
    let filter = EnvFilter::try_new(directives).map_err(|error| LogError {
        reason: error.to_string(),
    })?;
    // An embedding program may have its own logger: it stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    Ok(())
}
