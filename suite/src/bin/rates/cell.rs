//! A cell of the matrix: a shared link, who else uses it, how many receivers are behind it.

use std::fmt;
use std::time::Duration;

use groupcast_core::Rng;
use groupcast_sim::flow::Congestion;

/// Who uses the link, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rivals {
    Nobody,
    /// So many flows.
    Flows(Congestion, usize),
    /// A transfer of the same kind, to one receiver.
    Transfer,
}

/// Which receivers lose packets on links of their own, 1 % of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lossy {
    None,
    One,
    Tenth,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    /// Megabits a second of the shared link, and what may wait for it.
    pub(crate) link: u64,
    pub(crate) buffer_kib: u64,
    pub(crate) rivals: Rivals,
    /// Whether rivals come after a quarter of the time and go after three quarters.
    pub(crate) they_go: bool,
    pub(crate) receivers: usize,
    /// Whether all of them are behind the shared link, or one.
    pub(crate) all_behind: bool,
    pub(crate) lossy: Lossy,
    /// Whether receivers sleep 4 ms now and then, and have only so much processor as the link needs
    /// four fifths of.
    pub(crate) busy: bool,
    /// Whether the sender's clock is too fast by 100 parts in a million, and every second
    /// receiver's too slow by as much.
    pub(crate) clocks_off: bool,
}

impl Cell {
    /// Cell number `number` of those that `seed` draws.
    pub(crate) fn draw(seed: u64, number: u64) -> Self {
        let mut rng = Rng::new(seed).fork("cells").fork_index(number);
        let mut pick = |of: &[u64]| *rng.pick(of).expect("there are some");
        let link = pick(&[10, 100, 100, 1_000]);
        let receivers = match link {
            10 => pick(&[1, 2, 8, 8, 200]),
            100 => pick(&[1, 2, 8, 8]),
            _ => pick(&[1, 2, 8]),
        };
        let rivals = match pick(&[0, 1, 2, 2, 3, 4, 5]) {
            0 => Rivals::Nobody,
            1 => Rivals::Flows(Congestion::Reno, 1),
            2 => Rivals::Flows(Congestion::Cubic, 1),
            3 => Rivals::Flows(Congestion::Bbr, 1),
            4 => Rivals::Flows(Congestion::Cubic, 2),
            _ => Rivals::Transfer,
        };
        let mut cell = Self {
            link,
            buffer_kib: pick(&[8, 64, 256, 1_024, 4_096]),
            rivals,
            they_go: pick(&[0, 0, 1]) == 1 && matches!(rivals, Rivals::Flows(..)),
            receivers: receivers as usize,
            all_behind: receivers == 1 || pick(&[0, 1]) == 1,
            lossy: match pick(&[0, 0, 1, 2]) {
                0 => Lossy::None,
                1 => Lossy::One,
                _ => Lossy::Tenth,
            },
            busy: pick(&[0, 0, 1]) == 1,
            clocks_off: false,
        };
        // Drawn apart, so that what was measured of the other cells stays comparable.
        let mut apart = Rng::new(seed).fork("ten gigabits").fork_index(number);
        if receivers <= 8 && apart.chance(1.0 / 6.0) {
            cell.link = 10_000;
        }
        cell.clocks_off = apart.chance(1.0 / 3.0);
        cell
    }

    /// Bits a second of the shared link.
    pub(crate) fn bandwidth(&self) -> u64 {
        self.link * 1_000_000
    }

    /// How long the world runs: long enough for some dozens of losses of a flow where the buffer is
    /// not very deep.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(match (self.link, self.receivers) {
            (_, 200) => 10,
            (10, _) => 30,
            (100, _) => 12,
            (1_000, _) => 4,
            _ => 1,
        })
    }

    /// Whether this receiver (from 0) loses packets. Number 0 is behind the shared link always.
    pub(crate) fn loses(&self, receiver: usize) -> bool {
        match self.lossy {
            Lossy::None => false,
            Lossy::One => receiver + 1 == self.receivers,
            Lossy::Tenth => receiver % 10 == 9 || receiver + 1 == self.receivers.min(9),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rivals = match self.rivals {
            Rivals::Nobody => "nobody".to_owned(),
            Rivals::Flows(kind, count) => format!("{count} {kind:?}"),
            Rivals::Transfer => "a transfer".to_owned(),
        };
        let goes = if self.they_go { ", goes" } else { "" };
        let behind = if self.all_behind { "all" } else { "one" };
        let lossy = match self.lossy {
            Lossy::None => "",
            Lossy::One => ", one lossy",
            Lossy::Tenth => ", a tenth lossy",
        };
        let busy = if self.busy { ", busy" } else { "" };
        let clocks = if self.clocks_off { ", clocks off" } else { "" };
        write!(
            f,
            "{} Mb/s, {} KiB, {rivals}{goes}; {} receivers, {behind} behind{lossy}{busy}{clocks}",
            self.link, self.buffer_kib, self.receivers
        )
    }
}
