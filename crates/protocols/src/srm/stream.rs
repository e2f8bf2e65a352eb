//! What a member has of one source: what is missing, what waits for its turn, what was given up.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use groupcast_core::{Delivery, Event, Gap, MemberId, MessageId, Service, Time};

/// One source's messages. All up to `floor` are delivered or reported.
#[derive(Debug)]
pub(super) struct Stream {
    source: MemberId,
    floor: u64,
    /// The highest number that is known to exist.
    high: u64,
    /// The highest that the source itself has said to exist.
    own_word: u64,
    /// Nobody had what others said to exist: that they ask for more tells nothing until the source
    /// is heard, or a message of it comes. They may go by the same false word, and each by the
    /// others' requests.
    doubted: bool,
    /// All that is missing up to here is being asked for.
    pub(super) asked: u64,
    /// Received above the floor.
    received: BTreeSet<u64>,
    /// Given up above the floor: reported when all before them are accounted for.
    given_up: BTreeSet<u64>,
    /// FIFO messages above the floor, and their bytes.
    held: BTreeMap<u64, Bytes>,
    held_bytes: usize,
    /// When the source itself was last heard.
    pub(super) heard: Time,
}

impl Stream {
    /// What a message that waits costs beside its payload.
    const HELD_COST: usize = 128;

    /// Begins after `floor`.
    pub(super) fn new(source: MemberId, floor: u64, now: Time) -> Self {
        Self {
            source,
            floor,
            high: floor,
            own_word: floor,
            doubted: false,
            asked: floor,
            received: BTreeSet::new(),
            given_up: BTreeSet::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            heard: now,
        }
    }

    pub(super) fn high(&self) -> u64 {
        self.high
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Whether the message is neither here nor given up.
    pub(super) fn lacks(&self, number: u64) -> bool {
        number > self.floor && !self.received.contains(&number) && !self.given_up.contains(&number)
    }

    /// Up to here messages exist: the source itself said so, or a later one was here.
    pub(super) fn proved(&self) -> u64 {
        let received = self.received.last().copied().unwrap_or_default();
        self.own_word.max(self.floor).max(received)
    }

    /// The source itself says that it has sent messages up to `high`.
    pub(super) fn note_own_word(&mut self, high: u64) {
        self.own_word = self.own_word.max(high);
        self.doubted = false;
        self.extend(high);
    }

    /// The last word of the source, if `high` is not an older one.
    pub(super) fn is_newest(&self, high: u64) -> bool {
        high >= self.own_word
    }

    /// Somebody else says that messages up to `high` exist.
    pub(super) fn note_hearsay(&mut self, high: u64, window: u64) {
        // Only the source itself can make a member give up what is old.
        self.extend(high.min(self.floor.saturating_add(window)));
    }

    /// Whether nobody had what others said to exist.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Nobody has what others said to exist.
    pub(super) fn doubt(&mut self) {
        self.doubted = true;
        self.retract();
    }

    /// What only others have said to exist is not wanted any more. Up to the number that is
    /// returned, all is.
    pub(super) fn retract(&mut self) -> u64 {
        self.high = self.proved();
        self.asked = self.asked.min(self.high);
        self.high
    }

    /// Messages up to `high` are wanted.
    fn extend(&mut self, high: u64) {
        self.high = self.high.max(high);
    }

    /// Takes a message; whether it is new. A message that was given up comes too late.
    pub(super) fn receive(
        &mut self,
        number: u64,
        service: Service,
        payload: Bytes,
        events: &mut VecDeque<Event>,
    ) -> bool {
        if !self.lacks(number) {
            return false;
        }
        self.extend(number);
        self.doubted = false;
        self.received.insert(number);
        if service == Service::Fifo {
            self.held_bytes += payload.len() + Self::HELD_COST;
            self.held.insert(number, payload);
        } else {
            events.push_back(self.delivery(number, service, payload));
        }
        self.advance(events);
        true
    }

    /// Bytes of FIFO messages that wait for others, with what each costs besides.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Gives up what the first FIFO message that waits is waiting for.
    pub(super) fn give_up_first(&mut self, events: &mut VecDeque<Event>) {
        if let Some((first, _)) = self.held.first_key_value() {
            self.give_up_to(*first - 1, events);
        }
    }

    /// Nobody answers for the message.
    pub(super) fn give_up(&mut self, number: u64, events: &mut VecDeque<Event>) {
        if self.lacks(number) {
            self.given_up.insert(number);
            self.advance(events);
        }
    }

    /// Gives up all that is missing up to `number`.
    pub(super) fn give_up_to(&mut self, number: u64, events: &mut VecDeque<Event>) {
        while self.floor < number {
            let next = self.received.first().copied();
            let end = next.map_or(number, |next| number.min(next - 1));
            if end > self.floor {
                self.given_up.retain(|given_up| *given_up > end);
                events.push_back(self.gap(self.floor + 1, end));
                self.floor = end;
            }
            self.advance(events);
        }
        self.extend(self.floor);
        self.asked = self.asked.max(self.floor);
    }

    /// Moves the floor over what is accounted for.
    fn advance(&mut self, events: &mut VecDeque<Event>) {
        loop {
            let next = self.floor + 1;
            if self.received.remove(&next) {
                if let Some(payload) = self.held.remove(&next) {
                    self.held_bytes -= payload.len() + Self::HELD_COST;
                    events.push_back(self.delivery(next, Service::Fifo, payload));
                }
                self.floor = next;
            } else if self.given_up.contains(&next) {
                while self.given_up.remove(&(self.floor + 1)) {
                    self.floor += 1;
                }
                events.push_back(self.gap(next, self.floor));
            } else {
                return;
            }
        }
    }

    fn delivery(&self, number: u64, service: Service, payload: Bytes) -> Event {
        Event::Deliver(Delivery {
            id: MessageId {
                sender: self.source,
                number,
            },
            service,
            place: None,
            payload,
        })
    }

    fn gap(&self, first: u64, last: u64) -> Event {
        Event::Gap(Gap {
            sender: self.source,
            first,
            last,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::fmt::Write as _;

    use groupcast_core::{Incarnation, NodeId, Rng};

    use super::*;

    fn stream(floor: u64) -> Stream {
        let source = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        Stream::new(source, floor, Time::ZERO)
    }

    fn told(events: &mut VecDeque<Event>) -> String {
        let mut text = String::new();
        for event in events.drain(..) {
            let _ = match event {
                Event::Deliver(delivery) => write!(text, "{} ", delivery.id.number),
                Event::Gap(gap) => write!(text, "{}-{} ", gap.first, gap.last),
                other => panic!("{other:?}"),
            };
        }
        text
    }

    #[test]
    fn fifo_messages_wait_for_all_before_them_and_others_do_not() {
        let (mut stream, mut events) = (stream(4), VecDeque::new());
        stream.receive(7, Service::Fifo, Bytes::new(), &mut events);
        stream.receive(8, Service::Reliable, Bytes::new(), &mut events);
        assert_eq!(told(&mut events), "8 ");
        stream.receive(5, Service::Fifo, Bytes::new(), &mut events);
        assert_eq!(told(&mut events), "5 ");
        assert!(stream.lacks(6) && !stream.lacks(7) && !stream.lacks(4));
        stream.receive(6, Service::Reliable, Bytes::new(), &mut events);
        assert_eq!(told(&mut events), "6 7 ");
        assert_eq!((stream.floor(), stream.high()), (8, 8));
    }

    #[test]
    fn what_is_given_up_is_reported_in_its_turn_once_and_not_delivered_any_more() {
        let (mut stream, mut events) = (stream(0), VecDeque::new());
        stream.receive(5, Service::Fifo, Bytes::new(), &mut events);
        for number in [3, 2, 4, 2] {
            stream.give_up(number, &mut events);
        }
        assert_eq!(told(&mut events), "");
        assert!(!stream.receive(3, Service::Fifo, Bytes::new(), &mut events));
        stream.receive(1, Service::Fifo, Bytes::new(), &mut events);
        assert_eq!(told(&mut events), "1 2-4 5 ");
        stream.receive(9, Service::Fifo, Bytes::new(), &mut events);
        stream.receive(7, Service::Reliable, Bytes::new(), &mut events);
        stream.give_up(8, &mut events);
        stream.give_up_to(20, &mut events);
        assert_eq!(told(&mut events), "7 6-6 8-8 9 10-20 ");
        assert_eq!((stream.floor(), stream.high(), stream.asked), (20, 20, 20));
    }

    #[test]
    fn what_only_others_have_said_to_exist_can_be_taken_back() {
        let (mut stream, mut events) = (stream(0), VecDeque::new());
        stream.note_own_word(2);
        stream.receive(3, Service::Fifo, Bytes::new(), &mut events);
        stream.note_hearsay(50, 20);
        assert_eq!((stream.high(), stream.proved()), (20, 3));
        assert!(stream.is_newest(2) && !stream.is_newest(1));
        assert_eq!(stream.retract(), 3);
        stream.note_hearsay(9, 20);
        stream.doubt();
        assert_eq!((stream.high(), stream.is_doubted()), (3, true));
        stream.note_own_word(4);
        stream.note_hearsay(9, 20);
        assert_eq!((stream.high(), stream.proved()), (9, 4));
        assert!(!stream.is_doubted());
        assert_eq!(told(&mut events), "");
    }

    #[test]
    fn whatever_comes_in_whatever_order_each_number_is_accounted_for_once() {
        let mut rng = Rng::new(3);
        for _ in 0..300 {
            let (mut stream, mut events) = (stream(0), VecDeque::new());
            for _ in 0..60 {
                let number = 1 + rng.below(30);
                let service = match rng.chance(0.5) {
                    true => Service::Fifo,
                    false => Service::Reliable,
                };
                match rng.below(20) {
                    0 => stream.give_up_to(number, &mut events),
                    1..5 => stream.give_up(number, &mut events),
                    _ => {
                        stream.receive(number, service, Bytes::new(), &mut events);
                    }
                }
            }
            stream.give_up_to(40, &mut events);
            let numbers = events.iter().flat_map(|event| match event {
                Event::Deliver(delivery) => delivery.id.number..=delivery.id.number,
                Event::Gap(gap) => gap.first..=gap.last,
                other => panic!("{other:?}"),
            });
            let mut numbers: Vec<u64> = numbers.collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
        }
    }
}
