//! Changes the rate of a transfer while it runs: by a schedule, or when a user pauses it.

use std::time::{Duration, Instant};

use groupcast_protocols::bulk::{RateControl, TransferId};

use crate::host::{BulkHost, TransferError};
use crate::send::SendEvent;

/// Returns the rate of now; `None` pauses the transfer. Called ten times a second, so it must not
/// block.
pub type Rates = Box<dyn FnMut() -> Option<RateControl> + Send>;

/// Keeps the rate of transfers as [`Rates`] says.
pub(crate) struct Pace {
    rates: Option<Rates>,
    /// The transfer whose rate was last set, and the rate.
    set: Option<(TransferId, Option<RateControl>)>,
    asked: Option<Instant>,
}

impl Pace {
    /// How often [`Rates`] is called.
    const EVERY: Duration = Duration::from_millis(100);

    pub(crate) fn new(rates: Option<Rates>) -> Self {
        Self {
            rates,
            set: None,
            asked: None,
        }
    }

    /// Tells the user if the rate has changed while no transfer is under way; the next one has it.
    pub(crate) fn look(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) {
        let (Some(rates), Some((_, told))) = (&mut self.rates, &mut self.set) else {
            return;
        };
        let is_recent = |asked: Instant| asked.elapsed() < Self::EVERY;
        if self.asked.is_some_and(is_recent) {
            return;
        }
        self.asked = Some(Instant::now());
        let rate = rates();
        if rate != *told {
            tell(SendEvent::Rate { rate });
            *told = rate;
        }
    }

    /// Sets the rate of the transfer `id` if it has changed, and tells the user.
    pub(crate) fn follow(
        &mut self,
        host: &mut BulkHost,
        id: TransferId,
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) -> Result<(), TransferError> {
        let Some(rates) = &mut self.rates else {
            return Ok(());
        };
        let is_new = self.set.is_none_or(|(of, _)| of != id);
        let is_due = |asked: Instant| asked.elapsed() >= Self::EVERY;
        if !is_new && !self.asked.is_none_or(is_due) {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        let rate = rates();
        let settings = Some(host.bulk().config().rate);
        let told = self.set.map_or(settings, |(_, rate)| rate);
        // A transfer that begins has the rate of the settings.
        let has = if is_new { settings } else { told };
        if rate != has {
            let now = host.now();
            host.bulk().set_rate(now, id, rate)?;
        }
        if rate != told {
            tell(SendEvent::Rate { rate });
        }
        self.set = Some((id, rate));
        Ok(())
    }
}
