//! Limits the lines of the log that clients can cause: a client that connects and breaks the
//! protocol again and again would fill a disk.

use std::time::Duration;

use groupcast_core::Time;

/// The most lines about clients in each [`SPAN`].
const LINES: u32 = 50;
/// The time after which lines are counted anew.
const SPAN: Duration = Duration::from_secs(10);

/// Lets lines about clients into the log, up to a limit, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct ClientLog {
    since: Time,
    lines: u32,
    left_out: u64,
}

impl ClientLog {
    /// Whether another line may be written now.
    pub(crate) fn admit(&mut self, now: Time) -> bool {
        if now - self.since >= SPAN {
            self.since = now;
            self.lines = 0;
        }
        let admitted = self.lines < LINES;
        if admitted {
            self.lines += 1;
        } else {
            self.left_out += 1;
        }
        admitted
    }

    /// How many lines were left out, once their span is over.
    pub(crate) fn take_left_out(&mut self, now: Time) -> Option<u64> {
        if self.left_out == 0 || now - self.since < SPAN {
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_their_number() {
        let mut log = ClientLog::default();
        let written =
            |log: &mut ClientLog, now: Time| (0..30_000).filter(|_| log.admit(now)).count();
        assert_eq!(written(&mut log, Time::from_millis(1)), 50);
        assert_eq!(log.take_left_out(Time::from_millis(9_000)), None);
        assert_eq!(log.take_left_out(Time::from_millis(10_000)), Some(29_950));
        assert_eq!(log.take_left_out(Time::from_millis(30_000)), None);
        assert!(log.admit(Time::from_millis(30_000)));
    }
}
