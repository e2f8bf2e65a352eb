//! A table of timers, one slot for each variant of a protocol's timer enum.

use core::marker::PhantomData;

use alloc::boxed::Box;
use alloc::vec;

use crate::time::Time;

/// An enum of timers.
pub trait TimerKey: Copy + 'static {
    /// All of them; the order decides which of several due ones fires first.
    const ALL: &'static [Self];

    /// Its place in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// When each timer is due.
#[derive(Clone, Hash, Debug)]
pub struct Timers<K> {
    due: Box<[Option<Time>]>,
    keys: PhantomData<K>,
}

impl<K: TimerKey> Default for Timers<K> {
    fn default() -> Self {
        Self {
            due: vec![None; K::ALL.len()].into(),
            keys: PhantomData,
        }
    }
}

impl<K: TimerKey> Timers<K> {
    /// Sets `timer`, whether or not it was set before.
    pub fn set(&mut self, timer: K, due: Time) {
        self.due[timer.index()] = Some(due);
    }

    /// Stops `timer`.
    pub fn cancel(&mut self, timer: K) {
        self.due[timer.index()] = None;
    }

    /// Stops all timers.
    pub fn cancel_all(&mut self) {
        self.due.fill(None);
    }

    /// Stops all but `kept`.
    pub fn cancel_all_but(&mut self, kept: &[K]) {
        let is_kept = |index: usize| kept.iter().any(|timer| timer.index() == index);
        for (index, due) in self.due.iter_mut().enumerate() {
            if !is_kept(index) {
                *due = None;
            }
        }
    }

    /// When `timer` is due, if it is set.
    pub fn due(&self, timer: K) -> Option<Time> {
        self.due[timer.index()]
    }

    /// When the first one is due.
    pub fn next(&self) -> Option<Time> {
        self.due.iter().flatten().min().copied()
    }

    /// Takes one that is due at `now`: it is stopped.
    pub fn pop_due(&mut self, now: Time) -> Option<K> {
        let timer = K::ALL
            .iter()
            .copied()
            .find(|timer| self.due(*timer).is_some_and(|due| due <= now))?;
        self.cancel(timer);
        Some(timer)
    }
}
