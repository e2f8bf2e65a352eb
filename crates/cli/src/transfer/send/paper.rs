//! `groupcast send --paper`: each protocol of 001 as that paper has it.
//!
//! The protocol's settings are [`BulkConfig::paper`]: go-back-N without parity, a reservation
//! before the data, repeated packets suppressed at the sender for 20 ms, the window and no other
//! limit of the rate, every receiver waited for. Packet, window, poll interval and height are those
//! with which each protocol was fastest in 001 ([`Best`]), unless the user sweeps them.
//!
//! Receivers run `groupcast recv` as always: the announcement has the protocol, the size of the
//! packets, go-back-N and the length; the rest of the preset is the sender's.
//!
//! # Deviations from 001
//!
//! Those of the protocols are at the head of `groupcast_protocols::bulk`. Of a command that sends
//! files:
//! - The announcement does not carry two settings that are a receiver's own: it has 8 MiB for what
//!   its disk has not taken yet (001: room for the whole message), and the sender stops when they
//!   are full; and it sends no NAK within 2 ms of the last one (001 names no such time).
//! - A reservation is room on the receiver's disk. A receiver without room refuses the announcement
//!   and is left out; in 001 every receiver has room.
//! - The message is the files, a list of them, and a hash for each 256 KiB, which receivers verify.
//! - A receiver that holds parts of a transfer that broke off, or all of it, says so when it
//!   registers, and the sender does not send what all hold. Nobody is asked to compare.
//! - The group is not fixed beforehand: receivers register with the sender, and one that is silent
//!   for 10 s is given up.

use std::path::Path;

use groupcast_protocols::bulk::{BulkConfig, Policy, RateControl};

use super::{Args, Protocol, Slow};
use crate::failure::Failure;
use crate::transfer::rates;

/// The settings with which a protocol was fastest in 001, for 2 MB to 30 receivers (Table 3).
struct Best {
    /// Bytes of a packet.
    packet: usize,
    /// Packets.
    window: u32,
}

/// Of the two heights of Table 3, the one that also serves small groups, and that of Fig. 21.
const HEIGHT: u32 = 6;

impl Best {
    fn of(protocol: Protocol) -> Option<Self> {
        let (packet, window) = match protocol {
            Protocol::Ack => (50_000, 5),
            Protocol::Nak | Protocol::Ring => (8_000, 50),
            Protocol::Tree => (8_000, 20),
            Protocol::Auto | Protocol::Xtp | Protocol::Multidriver | Protocol::List => return None,
        };
        Some(Self { packet, window })
    }
}

/// The poll interval of 001: 43 packets with a window of 50, 21 with 25 (Fig. 14), 17 with 20 (Fig.
/// 12: 80 to 90 % of the window).
fn poll(window: u32) -> u32 {
    (u64::from(window) * 43 / 50).max(1) as u32
}

/// The settings of `send --paper`, with what the user gave in their place.
///
/// # Errors
/// An option asks for something that 001 does not have.
pub(super) fn settings(args: &Args) -> Result<BulkConfig, Failure> {
    let Some(best) = Best::of(args.protocol) else {
        return Err(Failure::usage(
            "--paper is for --protocol ack, nak, ring or tree: paper 001 compares these four",
        ));
    };
    if let Some(rate) = args.rate.filter(|rate| *rate != RateControl::Window) {
        let rate = rates::name(Some(rate));
        return Err(Failure::usage(format!(
            "--paper excludes --rate {rate}: in paper 001 the window alone limits the rate (--rate window)"
        )));
    }
    if !args.rate_at.is_empty() {
        return Err(Failure::usage(
            "--paper excludes --rate-at: in paper 001 the window alone limits the rate",
        ));
    }
    if args.slow.is_some_and(|slow| slow != Slow::Wait) {
        return Err(Failure::usage(
            "--paper excludes --slow demote and drop: in paper 001 all wait for the slowest receiver (--slow wait)",
        ));
    }
    if args.paths.iter().any(|path| path == Path::new("-")) {
        return Err(Failure::usage(
            "--paper is for files: in paper 001 receivers learn the length beforehand, and a pipe has none",
        ));
    }
    let window = args.window.unwrap_or(best.window);
    let policy = match args.protocol {
        Protocol::Ack => Policy::Ack,
        Protocol::Ring => Policy::Ring,
        Protocol::Tree => Policy::Tree {
            height: args.height.unwrap_or(HEIGHT),
        },
        _ => Policy::Nak {
            poll: args.poll.unwrap_or(poll(window)),
        },
    };
    let packet = args.packet.unwrap_or(best.packet);
    Ok(BulkConfig {
        register_within: args.register_within(),
        ..BulkConfig::paper(policy, packet, window)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use groupcast_protocols::bulk::{Repair, SlowPolicy};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// What `send a --paper` with `options` means.
    fn of(options: &str) -> Result<BulkConfig, String> {
        let start = "send --group 239.192.79.2:4820 --insecure --paper";
        let words = start.split(' ').chain(options.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let settings = line
            .args
            .settings()
            .map_err(|failure| failure.to_string())?;
        settings.validate().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn each_protocol_has_the_parameters_of_table_3_and_the_rules_of_section_4() {
        for (protocol, policy, packet, window) in [
            ("ack", Policy::Ack, 50_000, 5),
            ("nak", Policy::Nak { poll: 43 }, 8_000, 50),
            ("ring", Policy::Ring, 8_000, 50),
            ("tree", Policy::Tree { height: 6 }, 8_000, 20),
        ] {
            let settings = of(&format!("a --protocol {protocol}")).unwrap();
            assert_eq!(settings, BulkConfig::paper(policy, packet, window));
            assert_eq!((settings.repair, settings.block), (Repair::GoBackN, None));
            assert!(settings.reserve);
            assert_eq!(settings.suppression, Some(Duration::from_millis(20)));
            assert_eq!(settings.rate, RateControl::Window);
            assert_eq!(settings.slow, SlowPolicy::Wait);
        }
    }

    #[test]
    fn what_the_figures_sweep_can_be_given() {
        let nak = of("a --protocol nak --window 20 --packet 1300").unwrap();
        assert_eq!((nak.packet, nak.window), (1300, 20));
        assert_eq!(nak.policy, Policy::Nak { poll: 17 });
        let of_figure_14 = of("a --protocol nak --window 25").unwrap();
        assert_eq!(of_figure_14.policy, Policy::Nak { poll: 21 });
        let polled = of("a --protocol nak --window 1 --poll 1").unwrap();
        assert_eq!(polled.policy, Policy::Nak { poll: 1 });
        assert_eq!(poll(1), 1);
        let tree = of("a --protocol tree --height 15 --wait 5").unwrap();
        assert_eq!(tree.policy, Policy::Tree { height: 15 });
        assert_eq!(tree.register_within, Duration::from_secs(5));
        // These say what holds anyhow.
        assert!(of("a --protocol ack --rate window --slow wait --no-compare").is_ok());
    }

    #[test]
    fn what_001_does_not_have_is_refused_by_name() {
        for (options, problem) in [
            ("a", "--protocol ack, nak, ring or tree"),
            ("a --protocol auto", "--protocol ack, nak, ring or tree"),
            ("a --protocol xtp", "--protocol ack, nak, ring or tree"),
            ("a --protocol multidriver", "--protocol ack"),
            ("a --protocol list", "--protocol ack"),
            ("a --protocol nak --rate auto", "--rate auto"),
            ("a --protocol nak --rate 20", "--rate 20"),
            ("a --protocol nak --rate max:50", "--rate max:50"),
            ("a --protocol nak --rate-at 8:00=window", "--rate-at"),
            ("a --protocol nak --slow demote", "--slow wait"),
            ("a --protocol nak --slow drop", "--slow wait"),
            ("- --protocol nak", "for files"),
            ("a --protocol nak --window 20 --poll 21", "poll"),
            ("a --protocol ack --packet 65001", "packet"),
        ] {
            let refused = of(options).unwrap_err();
            assert!(refused.contains(problem), "{options}: {refused}");
        }
    }
}
