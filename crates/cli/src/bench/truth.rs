//! `groupcast bench truth`.

use std::path::Path;
use std::time::Duration;

use groupcast_bench::calibrate::validation::{self, ValidationOptions, ValidationReport};
use groupcast_bench::measure::BenchError;

use super::values::seconds;

#[derive(clap::Args)]
pub(super) struct Truth {
    /// Measurements of each load; their median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: u8,
    /// How long each counts, in seconds, after a second of warm-up
    #[arg(long, value_name = "S", default_value = "1.5", value_parser = seconds)]
    duration: Duration,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl Truth {
    pub(super) fn compare(&self, executable: &Path) -> Result<ValidationReport, BenchError> {
        let options = ValidationOptions {
            runs: usize::from(self.runs),
            duration: self.duration,
            ..ValidationOptions::default()
        };
        validation::run(&options, executable)
    }
}
