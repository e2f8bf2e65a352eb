//! Flow and congestion control (000 ch. 8): the window, and the size of packets.
//!
//! The window is counted in frames. Slow start doubles it in a round trip up to the *threshold*,
//! where it was halved last; behind that all members together add a few frames in a round trip. A
//! packet that was lost halves it (000). What keeps that rare is ours: once [`STANDING`] packets
//! wait in queues, all members together add a frame in [`CREEP`] round trips only; where packets
//! wait for long, the window shrinks; and a member that has more than an equal share gives some of
//! it back.

use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::seq::Seq;

use super::config::RmpConfig;
use super::numbers::Number;

/// Timers halve the window at most once in this time, however short a round trip is, or if none was
/// measured.
const TRIP_LEAST: Duration = Duration::from_micros(300);
/// The window is counted in parts of a frame, of which a frame has this many.
const FRAME: u32 = 1024;
/// Up to here, in parts of a frame, the window grows although it is not used up.
const UNFILLED: u32 = 8 * FRAME;
/// The network counts as full when this many packets of all members wait in its queues.
const STANDING: u128 = 8;
/// Frames that all members together add in a round trip before the network is full; no member adds
/// more than one.
const GROWTH: u32 = 4;
/// Round trips in which all members together add a frame once the network is full.
const CREEP: u32 = 64;
/// A window above an equal share loses one part in this many of the difference in a round trip.
const EQUALIZE: u32 = 16;
/// Packets may wait as long as the shortest timer, or this many of the shortest trips, if that is
/// longer.
const WAITS: u32 = 2;
/// Where packets wait longer, the window loses one part in this many of itself in a round trip.
const SHRINK: u32 = 8;
/// The shortest trip is that of this time at least, and of twice as long at most: routes change.
const MEMORY: Duration = Duration::from_secs(10);

/// A sender's window, and what it follows from.
#[derive(Clone, Hash, Debug)]
pub(super) struct Flow {
    /// What may be without an ACK, in parts of a frame.
    window: u32,
    window_max: u32,
    /// Up to here the window grows as fast as ACKs come, in parts of a frame.
    threshold: u32,
    shortest: Shortest,
    round: Round,
    /// How long packets may wait in queues at least before the window shrinks.
    wait_max: Duration,
    /// One packet at a time, of any size.
    stop_and_wait: bool,
    /// When the window was last halved.
    halved: Option<Time>,
    /// The last own packet that was sent then.
    halved_at: Number,
    /// How many times the window was halved.
    pub(super) halvings: u64,
}

/// Own packets that got their positions, all with one ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    /// The last of them.
    pub(super) number: Number,
    /// How many frames they are.
    pub(super) frames: u32,
    /// How long the ACK took for the last one that was sent once, if another member made it.
    pub(super) trip: Option<Duration>,
    /// The window was full.
    pub(super) full: bool,
}

/// A round trip: until a packet is acknowledged that was sent when it began.
#[derive(Clone, Copy, Hash, Default, Debug)]
struct Round {
    /// The last packet that was sent when it began.
    last: Number,
    began: Time,
    /// The last position that was given out then.
    position: Seq,
    /// Own frames that were acknowledged since.
    acknowledged: u32,
    /// Its shortest trip, and its latest.
    shortest: Option<Duration>,
    latest: Option<Duration>,
    /// The window was full at some time.
    full: bool,
}

/// The shortest trip of the last while: what a trip takes where nothing waits.
#[derive(Clone, Copy, Hash, Default, Debug)]
struct Shortest {
    since: Time,
    now: Option<Duration>,
    before: Option<Duration>,
}

impl Shortest {
    fn sample(&mut self, now: Time, trip: Duration) {
        if now.since(self.since) >= MEMORY {
            *self = Self {
                since: now,
                now: None,
                before: self.now,
            };
        }
        self.now = Some(self.now.map_or(trip, |least| least.min(trip)));
    }

    fn value(&self) -> Option<Duration> {
        self.now.into_iter().chain(self.before).min()
    }
}

impl Flow {
    pub(super) fn new(config: &RmpConfig) -> Self {
        let window_max = FRAME * config.window_max;
        Self {
            window: FRAME,
            window_max,
            threshold: window_max,
            shortest: Shortest::default(),
            round: Round::default(),
            wait_max: config.timer_min,
            stop_and_wait: config.stop_and_wait,
            halved: None,
            halved_at: Number::default(),
            halvings: 0,
        }
    }

    /// Frames that may be without an ACK now; with stop and wait, 1.
    pub(super) fn window(&self) -> u32 {
        match self.stop_and_wait {
            true => 1,
            false => self.window / FRAME,
        }
    }

    /// A new configuration: numbers and positions begin anew.
    pub(super) fn restart(&mut self) {
        self.halved_at = Number::default();
        self.shortest = Shortest::default();
        self.round = Round::default();
    }

    /// The most bytes of the next packet, where `pending` wait, this many frames have no ACK, a
    /// frame has `frame` bytes and a packet at most `most` (000 Fig. 11); `None`: it waits for an
    /// ACK.
    pub(super) fn packet_max(
        &self,
        pending: usize,
        unacknowledged: u32,
        frame: usize,
        most: usize,
    ) -> Option<usize> {
        if self.stop_and_wait {
            return (unacknowledged == 0).then_some(most);
        }
        let window = self.window() as usize * frame;
        let available = self.window().saturating_sub(unacknowledged) as usize * frame;
        let silly = available < frame;
        (!silly).then(|| pending.min(window / 2).max(frame).min(available).min(most))
    }

    /// Own packets have positions, where the last that was sent is `sent` and the last position
    /// that was given out is `position`; `senders` tells how many members have one above another.
    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        packets: Acknowledged,
        sent: Number,
        position: Seq,
        senders: impl FnOnce(Seq) -> u32,
    ) {
        if let Some(trip) = packets.trip {
            self.note_queues(now, trip);
        }
        self.round.full |= packets.full;
        self.round.acknowledged += packets.frames;
        let most = match packets.full {
            true => self.threshold,
            false => self.threshold.min(UNFILLED),
        };
        if self.window < most {
            self.window = (self.window + packets.frames * FRAME).min(most);
        }
        if packets.number > self.round.last {
            let senders = senders(self.round.position).max(1);
            self.end_round(now, position, senders);
            self.round = Round {
                last: sent,
                began: now,
                position,
                ..Round::default()
            };
        }
    }

    /// An ACK of this member for own packets, sent with them, was answered by the next token site's
    /// after `trip`: it says of queues what an ACK of another member for them would.
    pub(super) fn passed(&mut self, now: Time, trip: Duration) {
        self.note_queues(now, trip);
    }

    /// Own packets went through all queues, and an answer came back, in `trip`.
    fn note_queues(&mut self, now: Time, trip: Duration) {
        self.shortest.sample(now, trip);
        let least = self.round.shortest.map_or(trip, |least| least.min(trip));
        self.round.shortest = Some(least);
        self.round.latest = Some(trip);
    }

    /// A round trip is over, in which this many members sent: the window changes as far as the
    /// queues say.
    fn end_round(&mut self, now: Time, position: Seq, senders: u32) {
        let slow_start = self.window < self.threshold;
        let round = self.round;
        // While the window doubles, the trips of the round before say too little.
        let trip = if slow_start {
            round.latest
        } else {
            round.shortest
        };
        let (Some(trip), Some(shortest)) = (trip, self.shortest.value()) else {
            return;
        };
        let ordered = position.above(round.position);
        let waits = trip.saturating_sub(shortest);
        let took = now.since(round.began).as_nanos().max(1);
        // Little's law: what waits in queues is the rate times the time that it waits.
        let standing = u128::from(ordered) * waits.as_nanos() / took;
        // Little's law again: the windows of all are to this one as what all sent to what it did.
        let all = u64::from(self.window) * ordered / u64::from(round.acknowledged.max(1));
        let equal = u32::try_from(all / u64::from(senders)).unwrap_or(u32::MAX);
        let above = self.window.saturating_sub(equal);
        if !round.full {
            return;
        }
        if waits > self.wait_max.max(shortest * WAITS) {
            let has_its_share = self.window >= equal;
            let less = if has_its_share {
                self.window / SHRINK
            } else {
                0
            };
            self.window = (self.window - less).max(FRAME);
        } else if !slow_start {
            let step = match standing < STANDING {
                true => FRAME * GROWTH / senders.max(GROWTH),
                false => (FRAME / CREEP / senders).max(1),
            };
            self.window = (self.window + step - above / EQUALIZE).clamp(FRAME, self.window_max);
        }
        if !slow_start || standing >= STANDING {
            self.threshold = self.threshold.min(self.window);
        }
    }

    /// A packet's timer has expired (000 ch. 8 (3)), where a round trip takes `trip` and the last
    /// that was sent is `sent`: halves the window, at most once in a round trip (ours).
    pub(super) fn expired(&mut self, now: Time, trip: Duration, sent: Number) {
        let trip = trip.max(TRIP_LEAST);
        if self.halved.is_none_or(|at| now.since(at) >= trip) {
            self.halve(now, sent);
        }
    }

    /// A member misses the own packet `number`, where the last that was sent is `sent`: halves the
    /// window, but not for a packet that was on its way when it was halved last (ours: what is lost
    /// together is one sign; it includes the three packets that 000 remembers).
    pub(super) fn dropped(&mut self, now: Time, number: Number, sent: Number) {
        if number > self.halved_at && number <= sent {
            self.halve(now, sent);
        }
    }

    fn halve(&mut self, now: Time, sent: Number) {
        self.window = (self.window / 2).max(FRAME);
        self.threshold = self.window;
        self.halved = Some(now);
        self.halved_at = sent;
        self.halvings += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(1);

    /// A sender beside `others`, in a network that carries a packet a `slot` and whose queues take
    /// what is sent; all windows are alike.
    struct Lane {
        flow: Flow,
        now: Time,
        sent: u64,
        position: Seq,
        others: u32,
        slot: Duration,
    }

    impl Lane {
        fn new(others: u32, slot: Duration) -> Self {
            let mut flow = Flow::new(&RmpConfig::lan());
            flow.shortest.sample(Time::ZERO, BASE);
            Self {
                flow,
                now: Time::from_millis(1),
                sent: 0,
                position: Seq::ZERO,
                others,
                slot,
            }
        }

        /// A window is sent, and acknowledged a packet at a time.
        fn round(&mut self) {
            let window = self.flow.window();
            let all = window * (self.others + 1);
            let trip = BASE.max(self.slot * all);
            let first = self.sent + 1;
            self.sent += u64::from(window);
            self.position = self.position.plus(u64::from(all));
            self.now += trip;
            for number in first..=self.sent {
                let packets = Acknowledged {
                    number: Number(number),
                    frames: 1,
                    trip: Some(trip),
                    full: true,
                };
                let senders = self.others + 1;
                let (now, sent, position) = (self.now, Number(self.sent), self.position);
                self.flow
                    .acknowledged(now, packets, sent, position, |_| senders);
            }
        }

        fn rounds(&mut self, count: usize) -> u32 {
            (0..count).for_each(|_| self.round());
            self.flow.window() * (self.others + 1)
        }
    }

    #[test]
    fn slow_start_ends_where_packets_begin_to_wait() {
        // 20 packets fill the round trip.
        for others in [0, 1, 4] {
            let mut lane = Lane::new(others, BASE / 20);
            let all = lane.rounds(40);
            let most = 20 + STANDING as u32 * 3 + others + 1;
            assert!((20..most).contains(&all), "{others} others: {all}");
        }
    }

    #[test]
    fn all_together_grow_slowly_once_the_network_is_full() {
        let mut lane = Lane::new(0, BASE / 20);
        let before = lane.rounds(40);
        let after = lane.rounds(10 * CREEP as usize);
        assert!(
            (before + 8..=before + 12).contains(&after),
            "{before}, {after}"
        );
    }

    #[test]
    fn who_would_wait_as_long_as_a_timer_shrinks_its_window() {
        // Sixteen members, a packet a millisecond: less than a packet each is not to be had.
        let mut lane = Lane::new(15, BASE);
        assert_eq!(lane.rounds(40), 16);
        // Two, which give back what they have more: what waits is about as long as the shortest
        // timer.
        let mut lane = Lane::new(1, BASE);
        lane.rounds(20);
        for _ in 0..100 {
            let all = lane.rounds(1);
            assert!(BASE * all < RmpConfig::lan().timer_min * 5 / 2, "{all}");
        }
    }

    #[test]
    fn what_is_lost_together_halves_the_window_once() {
        let mut lane = Lane::new(0, BASE / 20);
        lane.rounds(5);
        let (now, sent) = (lane.now, Number(lane.sent));
        let window = lane.flow.window();
        for number in 0..lane.sent {
            lane.flow.dropped(now, Number(number), sent);
        }
        assert_eq!(lane.flow.window(), window / 2);
        lane.flow
            .dropped(now, Number(lane.sent + 1), Number(lane.sent + 1));
        assert_eq!(
            lane.flow.window(),
            window / 4,
            "it was sent after the halving"
        );
        lane.flow
            .dropped(now, Number(lane.sent + 9), Number(lane.sent + 2));
        assert_eq!(lane.flow.halvings, 2, "nobody sent it");
    }

    #[test]
    fn timers_that_expire_together_halve_the_window_once() {
        let mut lane = Lane::new(0, BASE / 20);
        lane.rounds(4);
        let (now, sent, window) = (lane.now, Number(lane.sent), lane.flow.window());
        (0..5).for_each(|_| lane.flow.expired(now, BASE, sent));
        assert_eq!(lane.flow.window(), window / 2);
        lane.flow.expired(now + BASE, BASE, sent);
        assert_eq!(lane.flow.window(), window / 4);
    }

    #[test]
    fn behind_a_halving_the_window_grows_by_a_packet_a_round_trip() {
        let mut lane = Lane::new(0, BASE / 20);
        lane.rounds(4);
        let (now, sent) = (lane.now, Number(lane.sent));
        lane.flow.dropped(now, sent, sent);
        let halved = lane.flow.window();
        assert_eq!(lane.rounds(4), halved + 4);
    }

    #[test]
    fn a_window_that_is_not_used_up_stays_small() {
        let mut flow = Flow::new(&RmpConfig::lan());
        for number in 1..100 {
            let packets = Acknowledged {
                number: Number(number),
                frames: 1,
                trip: Some(BASE),
                full: false,
            };
            let now = Time::ZERO + BASE * number as u32;
            flow.acknowledged(now, packets, Number(number), Seq(number), |_| 1);
        }
        assert_eq!(flow.window(), 8);
    }

    #[test]
    fn who_has_more_than_its_share_gives_it_back() {
        let mut flow = Flow::new(&RmpConfig::lan());
        (flow.window, flow.threshold) = (40 * FRAME, 40 * FRAME);
        flow.shortest.sample(Time::ZERO, BASE);
        for round in 1..60 {
            // A hundred packets of all four in a round trip, of which it has as many as its window.
            let number = Number(u64::from(round) * 40);
            let packets = Acknowledged {
                number,
                frames: flow.window(),
                trip: Some(BASE + BASE / 5),
                full: true,
            };
            let now = Time::ZERO + BASE * round;
            flow.acknowledged(now, packets, number, Seq(u64::from(round) * 100), |_| 4);
        }
        assert!((24..28).contains(&flow.window()), "{}", flow.window());
    }

    #[test]
    fn packets_are_as_large_as_half_of_the_window() {
        let config = RmpConfig {
            body_max: 9_000,
            ..RmpConfig::lan()
        };
        let (frame, most) = (1_000, 6_000);
        let mut flow = Flow::new(&config);
        let size =
            |flow: &Flow, pending, on_its_way| flow.packet_max(pending, on_its_way, frame, most);
        // 000 Fig. 11: at least one frame, whatever waits; at most half of the window.
        assert_eq!(size(&flow, 20_000, 0), Some(1_000));
        flow.window = 8 * FRAME;
        assert_eq!(size(&flow, 20_000, 0), Some(4_000));
        assert_eq!(size(&flow, 2_500, 0), Some(2_500));
        assert_eq!(size(&flow, 10, 0), Some(1_000));
        assert_eq!(size(&flow, 20_000, 7), Some(1_000), "what is available");
        assert_eq!(size(&flow, 20_000, 8), None);
        flow.window = 64 * FRAME;
        assert_eq!(size(&flow, 20_000, 0), Some(6_000), "at most a datagram");
    }

    #[test]
    fn stop_and_wait_is_one_packet_of_any_size() {
        let flow = Flow::new(&RmpConfig {
            stop_and_wait: true,
            ..RmpConfig::lan()
        });
        assert_eq!(flow.packet_max(20_000, 0, 1_000, 6_000), Some(6_000));
        assert_eq!(flow.packet_max(20_000, 6, 1_000, 6_000), None);
        assert_eq!(flow.window(), 1);
    }
}
