//! Warnings for the user: what goes on in spite of it, and a user could do something about. They
//! come from any thread, wait here for the one that tells, and stand in the log, too.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Warnings that were not told yet.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<VecDeque<String>>);

impl Warnings {
    /// The most that wait; those beyond stand in the log alone.
    const MAX: usize = 64;

    pub(crate) fn add(&self, warning: String) {
        tracing::warn!("{warning}");
        let mut waiting = self.lock();
        if waiting.len() < Self::MAX {
            waiting.push_back(warning);
        }
    }

    /// The next one.
    pub(crate) fn take(&self) -> Option<String> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
