//! A graceful leave from a configuration: what was accepted is delivered first, then the others are
//! told, several times. If the others cannot finish it, the member does so without them.

use core::time::Duration;

/// A graceful leave that is under way.
#[derive(Clone, Hash, Debug, Default)]
pub struct Leave {
    /// The time for it has passed: what was accepted is delivered in a configuration of one, and
    /// the others are ignored.
    alone: bool,
    /// Good-byes sent; from the first on, this member is gone for the others.
    goodbyes: u32,
}

/// What is to be done next, when the time for the last step is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveStep {
    /// The leave is complete.
    Left,
    /// Say good-bye again.
    Goodbye,
    /// Finish without the others, from now on.
    Alone,
    /// Nothing: it is finished without the others already.
    Wait,
}

impl Leave {
    /// Good-byes of a leaving member: one may be lost, three hardly.
    const GOODBYES: u32 = 3;
    /// Time between them.
    pub const GOODBYE_INTERVAL: Duration = Duration::from_millis(5);

    /// Whether a good-bye was sent.
    pub fn said_goodbye(&self) -> bool {
        self.goodbyes > 0
    }

    /// A good-bye is being sent. The next step is due after
    /// [`GOODBYE_INTERVAL`](Self::GOODBYE_INTERVAL).
    pub fn note_goodbye(&mut self) {
        self.goodbyes += 1;
    }

    /// Whether this member no longer listens to the others.
    pub fn ignores_others(&self) -> bool {
        self.alone || self.said_goodbye()
    }

    /// The time for the last step is over: what comes next.
    pub fn next_step(&mut self) -> LeaveStep {
        match self.goodbyes {
            Self::GOODBYES.. => LeaveStep::Left,
            1.. => LeaveStep::Goodbye,
            0 if self.alone => LeaveStep::Wait,
            0 => {
                self.alone = true;
                LeaveStep::Alone
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_good_byes_end_it() {
        let mut leave = Leave::default();
        assert!(!leave.ignores_others());
        for _ in 0..3 {
            leave.note_goodbye();
            assert!(leave.said_goodbye() && leave.ignores_others());
            if leave.goodbyes < 3 {
                assert_eq!(leave.next_step(), LeaveStep::Goodbye);
            }
        }
        assert_eq!(leave.next_step(), LeaveStep::Left);
    }

    #[test]
    fn who_cannot_finish_it_with_the_others_does_so_alone_once() {
        let mut leave = Leave::default();
        assert_eq!(leave.next_step(), LeaveStep::Alone);
        assert!(leave.ignores_others() && !leave.said_goodbye());
        assert_eq!(leave.next_step(), LeaveStep::Wait);
        leave.note_goodbye();
        assert_eq!(leave.next_step(), LeaveStep::Goodbye);
    }
}
