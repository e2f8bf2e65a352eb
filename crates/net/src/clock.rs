//! The monotonic clock: what turns the system's time into the protocols' [`Time`].

use std::time::Instant;

use groupcast_core::Time;

/// A monotonic clock that counts nanoseconds from its start. It does not stop for a debugger or a
/// stopped process, and never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that begins at [`Time::ZERO`] now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The time since the start. About 25 ns.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_advances_with_the_system() {
        let clock = Clock::start();
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now() - first >= Duration::from_millis(2));
    }
}
