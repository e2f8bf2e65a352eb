//! RMP as what orders the messages of a daemon: its presets there, and what the host decides.

use core::time::Duration;

use groupcast_core::family::{DaemonPresets, OrderFamily};
use groupcast_core::settings::{Preset, Settings as _};

use super::{FAMILY, RmpConfig};
use crate::channel;

/// RMP as an order of daemons and members.
pub const ORDER: OrderFamily = OrderFamily::of::<RmpConfig>(&FAMILY, channel::RMP);

impl RmpConfig {
    /// Settings of a daemon on a LAN: as [`lan`](Self::lan), but for
    ///
    /// - `queue_max`, 1 MiB, and `queue_measured`. What waits beyond it waits with the clients, who
    ///   have their turns there.
    /// - `silence_max`, 210 ms. With `poll_wait` it is most of a fail-over, and the time in which a
    ///   pause does no harm: as long as with the ring's settings.
    pub fn daemon() -> Self {
        Self {
            queue_max: 1 << 20,
            queue_measured: true,
            silence_max: Duration::from_millis(210),
            ..Self::lan()
        }
    }

    /// Settings of a daemon on links of up to 100 ms one way: as [`wan`](Self::wan), with a
    /// `queue_max` of 1 MiB.
    pub fn daemon_wan() -> Self {
        Self {
            queue_max: 1 << 20,
            ..Self::wan()
        }
    }
}

impl DaemonPresets for RmpConfig {
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

groupcast_core::order_config!(RmpConfig);
