//! What the master has decided of the last twelve messages. Every packet says it (000 ch. 4).

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// Its sender is at it, or the master has not seen all of it.
    Pending,
    /// It is delivered, in its place.
    Accepted,
    /// Its sender failed before it was whole: nobody delivers it.
    Rejected,
}

/// The statuses of the twelve messages up to the newest that has a token.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Statuses {
    /// 0: no token was granted yet.
    newest: u64,
    /// Two bits each, the newest lowest: 0 pending, 1 accepted, 2 rejected.
    bits: u32,
}

impl Statuses {
    /// This many messages.
    pub(super) const COUNT: u64 = 12;
    const MASK: u32 = (1 << (2 * Self::COUNT)) - 1;

    /// As they travel.
    pub(super) fn of(newest: u64, bits: u32) -> Option<Self> {
        let both = bits & (bits >> 1) & 0x5555_5555;
        (bits <= Self::MASK && both == 0 && newest < u64::MAX / 2).then_some(Self { newest, bits })
    }

    /// The newest message that has a token.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// As they travel.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The oldest message that they tell of.
    pub(super) fn oldest(&self) -> u64 {
        (self.newest + 1).saturating_sub(Self::COUNT).max(1)
    }

    /// Of a message, if they tell of it.
    pub(super) fn get(&self, message: u64) -> Option<Status> {
        if message < self.oldest() || message > self.newest {
            return None;
        }
        Some(match self.bits >> (2 * (self.newest - message)) & 3 {
            0 => Status::Pending,
            1 => Status::Accepted,
            _ => Status::Rejected,
        })
    }

    /// The master decides.
    pub(super) fn set(&mut self, message: u64, status: Status) {
        if self.get(message).is_some() {
            let shift = 2 * (self.newest - message);
            let code = match status {
                Status::Pending => 0,
                Status::Accepted => 1,
                Status::Rejected => 2,
            };
            self.bits = self.bits & !(3 << shift) | code << shift;
        }
    }

    /// A token for the next message is granted.
    pub(super) fn grant(&mut self) -> u64 {
        self.newest += 1;
        self.bits = self.bits << 2 & Self::MASK;
        self.newest
    }

    /// Whether one more would push one out that is not decided.
    pub(super) fn is_full(&self) -> bool {
        self.newest >= Self::COUNT && self.get(self.oldest()) == Some(Status::Pending)
    }

    /// Learns what another packet of the master says: decisions are never taken back.
    pub(super) fn merge(&mut self, other: &Self) {
        let (mut newer, older) = match other.newest > self.newest {
            true => (*other, *self),
            false => (*self, *other),
        };
        for message in newer.oldest()..=older.newest {
            if newer.get(message) == Some(Status::Pending)
                && let Some(status) = older.get(message)
            {
                newer.set(message, status);
            }
        }
        *self = newer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_are_told_of_and_the_oldest_must_be_decided_before_another_begins() {
        let mut statuses = Statuses::default();
        for message in 1..=12 {
            assert!(!statuses.is_full());
            assert_eq!(statuses.grant(), message);
        }
        assert!(statuses.is_full());
        statuses.set(1, Status::Rejected);
        assert!(!statuses.is_full());
        assert_eq!(statuses.get(1), Some(Status::Rejected));
        assert_eq!(statuses.grant(), 13);
        assert_eq!((statuses.oldest(), statuses.get(1)), (2, None));
        assert!(statuses.is_full());
    }

    #[test]
    fn what_is_decided_stays_whichever_packet_comes_later() {
        let mut old = Statuses::default();
        old.grant();
        old.grant();
        old.set(1, Status::Accepted);
        let mut new = old;
        new.grant();
        new.set(2, Status::Rejected);
        let mut undecided = Statuses::default();
        for _ in 0..3 {
            undecided.grant();
        }
        for order in [
            [old, new, undecided],
            [undecided, old, new],
            [new, undecided, old],
        ] {
            let mut merged = Statuses::default();
            order.iter().for_each(|it| merged.merge(it));
            assert_eq!(merged, new);
        }
    }
}
