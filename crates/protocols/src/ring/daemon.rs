//! The ring as what orders the messages of a daemon: its presets there, and what the host decides.

use core::time::Duration;

use groupcast_core::family::{DaemonPresets, OrderFamily};
use groupcast_core::settings::{Preset, Settings as _};

use super::{FAMILY, RingConfig};
use crate::channel;

/// The ring as an order of daemons and members.
pub const ORDER: OrderFamily = OrderFamily::of::<RingConfig>(&FAMILY, channel::RING);

impl RingConfig {
    /// Settings of a daemon on a LAN: as [`lan`](Self::lan), but for
    ///
    /// - `queue_max`, 1 MiB: what the two largest visits of the token take, and `queue_measured`.
    ///   What waits beyond it waits with the clients, who have their turns there.
    /// - `idle_after`, 100 µs. At a few messages a millisecond and less, the token then rests
    ///   between them: to wake it takes one datagram more, but a token that went round all the time
    ///   would have to be waited for as long, and it occupies processors that clients need.
    /// - `doze_max`, 400 µs: while the token goes round with messages, a daemon and its host wake
    ///   for it, not for each datagram and each client.
    pub fn daemon() -> Self {
        Self {
            queue_max: 1 << 20,
            queue_measured: true,
            idle_after: Duration::from_micros(100),
            doze_max: Duration::from_micros(400),
            ..Self::lan()
        }
    }

    /// Settings of a daemon on links of up to 100 ms one way: what [`wan`](Self::wan) is to
    /// [`lan`](Self::lan), this is to [`daemon`](Self::daemon), but without `queue_measured`: a
    /// visit of the token is rare there, and a burst should go with the first one.
    pub fn daemon_wan() -> Self {
        Self {
            queue_measured: false,
            ..Self::daemon().over_distance()
        }
    }
}

impl DaemonPresets for RingConfig {
    const DAEMON_PRESETS: &'static [Preset<Self>] = &[
        Preset {
            make: Self::daemon,
            ..Self::PRESETS[0]
        },
        Preset {
            make: Self::daemon_wan,
            ..Self::PRESETS[1]
        },
    ];
}

groupcast_core::order_config!(RingConfig);
