//! Values of options that several measurements take.

use std::time::Duration;

use groupcast_core::Service;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Reads a percentage with at most one decimal; returns thousandths.
pub(super) fn permille(text: &str) -> Result<u16, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok((percent * 10.0).round() as u16),
        _ => Err("must be a number of percent from 0 to 50".to_owned()),
    }
}

/// Reads a probability or a part of the whole, 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}

pub(super) fn per_second(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.1..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("must be a number of messages a second from 0.1 to 100000".to_owned()),
    }
}

/// Reads the service of an ordered message.
pub(super) fn of_a_message(text: &str) -> Result<Service, String> {
    match text.parse() {
        Ok(Service::Bimodal) => Err("no order carries it; see bench gossip".to_owned()),
        Ok(service) => Ok(service),
        Err(error) => Err(format!("{error}")),
    }
}
