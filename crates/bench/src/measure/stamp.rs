//! What the payload of a measured message begins with: who sent it, which one it is, and when.

use super::clock::Instant;

/// The beginning of a measured payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    /// The sending host, from 1.
    pub(super) sender: u32,
    /// Which of its messages, from 0.
    pub(super) index: u64,
    /// When it was handed to the client, or should have been if it is sent at a rate: a sender that
    /// is held up does not hide the wait.
    pub(super) sent: Instant,
}

impl Stamp {
    /// Its length in bytes: the shortest payload that can be measured.
    pub(super) const LEN: usize = 20;

    /// Writes it to the beginning of `payload`.
    pub(super) fn write(&self, payload: &mut [u8]) {
        payload[0..4].copy_from_slice(&self.sender.to_be_bytes());
        payload[4..12].copy_from_slice(&self.index.to_be_bytes());
        payload[12..20].copy_from_slice(&self.sent.to_be_bytes());
    }

    /// Reads it; `None` if the payload is too short.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        Some(Self {
            sender: u32::from_be_bytes(payload.get(0..4)?.try_into().ok()?),
            index: u64::from_be_bytes(payload.get(4..12)?.try_into().ok()?),
            sent: u64::from_be_bytes(payload.get(12..20)?.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_and_a_short_payload_has_none() {
        let stamp = Stamp {
            sender: 3,
            index: 1 << 40,
            sent: 77,
        };
        let mut payload = [9; Stamp::LEN + 1];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(Stamp::read(&payload[..Stamp::LEN - 1]), None);
    }
}
