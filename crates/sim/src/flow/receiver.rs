//! The receiving end of a flow: an acknowledgement for every second segment, or after a while; at
//! once while something is missing, and for the first segments of all.

use std::collections::{BTreeMap, VecDeque};

use groupcast_core::Time;

use super::{ACK_DELAY, Ack};

/// This many segments at the start are acknowledged one by one, as Linux does.
const QUICK: u64 = 16;

/// What has arrived.
#[derive(Default, Debug)]
pub(super) struct Receiver {
    /// All before this one are there.
    next: u64,
    /// Blocks behind a gap: first, and below which.
    blocks: BTreeMap<u64, u64>,
    /// Segments of blocks, those that came last first.
    recent: VecDeque<u64>,
    /// What was sent when of the segments that are not acknowledged, and how many there are.
    waiting: Option<(Time, u32)>,
    /// When they are, at the latest.
    due: Option<Time>,
    /// An acknowledgement is to be sent.
    ready: bool,
    arrived: u64,
}

impl Receiver {
    /// All before this one are there.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// A segment is there.
    pub(super) fn arrived(&mut self, now: Time, number: u64, sent: Time) {
        self.arrived += 1;
        let in_order = number == self.next;
        let whole = self.blocks.is_empty();
        if in_order {
            self.next += 1;
            if let Some(end) = self.blocks.remove(&self.next) {
                self.next = end;
            }
        } else if number > self.next {
            self.put(number);
        }
        let (echo, count) = self.waiting.unwrap_or((sent, 0));
        self.waiting = Some((echo, count + 1));
        if !in_order || !whole || count + 1 >= 2 || self.arrived <= QUICK {
            self.ready = true;
        } else {
            self.due = Some(now + ACK_DELAY);
        }
    }

    /// A segment behind a gap.
    fn put(&mut self, number: u64) {
        let mut first = number;
        let mut end = number + 1;
        if let Some((before, limit)) = self.blocks.range(..=number).next_back() {
            if *limit > number {
                return;
            }
            if *limit == number {
                first = *before;
            }
        }
        if let Some(limit) = self.blocks.remove(&end) {
            end = limit;
        }
        self.blocks.insert(first, end);
        self.recent.push_front(number);
        self.recent.truncate(64);
    }

    /// Runs the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.ready = true;
        }
    }

    /// The acknowledgement that is due.
    pub(super) fn poll(&mut self) -> Option<Ack> {
        if !std::mem::take(&mut self.ready) {
            return None;
        }
        self.due = None;
        let (echo, _) = self.waiting.take()?;
        self.recent.retain(|number| *number >= self.next);
        let mut blocks = [(0, 0); 3];
        let mut filled = 0;
        for number in &self.recent {
            let Some((first, end)) = self.blocks.range(..=*number).next_back() else {
                continue;
            };
            let block = (*first, *end);
            if !blocks[..filled].contains(&block) {
                blocks[filled] = block;
                filled += 1;
            }
            if filled == blocks.len() {
                break;
            }
        }
        Some(Ack {
            next: self.next,
            blocks,
            echo,
        })
    }

    /// When something is to happen without a segment.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }
}
