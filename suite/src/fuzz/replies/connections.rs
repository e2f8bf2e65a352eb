//! The first byte of a script chooses what the script is about: a request, or a connection with a
//! policy and an opening.

use groupcast_protocols::bulk::{BulkConfig, Multidriver, Opening, Policy, RateControl, Xtp};

use super::BUDGET;

/// A script that begins with this bit is about a connection.
pub(super) const CONNECTION: u8 = 128;
/// Packets of a window.
const WINDOW: u32 = 16;

/// The connections that a script can be about. The first is also the policy of requests.
pub(super) const CONNECTIONS: [Connection; 7] = [
    Connection {
        policy: |use_backoff| {
            Policy::Multidriver(Multidriver {
                use_backoff,
                ..Multidriver::for_window(WINDOW)
            })
        },
        opening: Opening::AtStart,
        replies: true,
    },
    Connection {
        policy: |use_backoff| {
            Policy::List(Multidriver {
                use_backoff,
                ..Multidriver::for_window(WINDOW)
            })
        },
        opening: Opening::AtStart,
        replies: false,
    },
    Connection {
        policy: |_| Policy::Nak { poll: 4 },
        opening: Opening::AtStart,
        replies: false,
    },
    Connection {
        policy: |_| Policy::Ack,
        opening: Opening::AtStart,
        replies: false,
    },
    Connection {
        policy: |_| Policy::Xtp(Xtp::for_window(WINDOW)),
        opening: Opening::AtStart,
        replies: false,
    },
    Connection {
        policy: |_| Policy::Xtp(Xtp::for_window(WINDOW)),
        opening: Opening::AtAnyTime,
        replies: false,
    },
    Connection {
        policy: |_| Policy::Nak { poll: 4 },
        opening: Opening::Unanswered,
        replies: false,
    },
];

/// How a connection is opened.
pub(super) struct Connection {
    /// Its policy, with back-off where that can be had.
    policy: fn(bool) -> Policy,
    pub(super) opening: Opening,
    pub(super) replies: bool,
}

impl Connection {
    /// The one that a script's first byte chooses.
    pub(super) fn of(choice: u8) -> &'static Self {
        let index = match choice & CONNECTION != 0 {
            true => usize::from((choice % CONNECTION) >> 2) % CONNECTIONS.len(),
            false => 0,
        };
        &CONNECTIONS[index]
    }

    pub(super) fn is_unanswered(&self) -> bool {
        self.opening == Opening::Unanswered
    }

    pub(super) fn settings(&self, choice: u8) -> BulkConfig {
        BulkConfig {
            policy: (self.policy)(choice & 1 != 0),
            block: None,
            window: WINDOW,
            packet: 100,
            rate: match self.is_unanswered() {
                true => RateControl::Fixed {
                    bytes_per_second: 1_000_000,
                },
                false => RateControl::Window,
            },
            replies_buffer: BUDGET,
            reply_buffer: 2_000,
            ..BulkConfig::lan()
        }
    }
}
