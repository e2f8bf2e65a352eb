//! The controller on links of one number each: capacity, loss, a queue.

use std::vec::Vec;

use groupcast_core::Rng;

use super::*;

fn adaptive(yields: bool) -> RateControl {
    match yields {
        true => RateControl::FAIR,
        false => RateControl::ALL,
    }
}

/// How long an epoch is: 10 ms, or as long as 20 packets take.
fn length_of(rate: f64, packet: usize) -> f64 {
    (20.0 * packet as f64 / rate).max(0.01)
}

/// A link of `capacity` bytes a second without a queue and with `loss` of its own, for `epochs`
/// epochs; the mean rate of the second half.
fn settle(control: RateControl, capacity: f64, loss: f64, epochs: u32) -> f64 {
    let packet = 1400;
    let mut rng = Rng::new(1);
    let mut now = Time::ZERO;
    let mut rate = Rate::new(control, now);
    let round_trip = Duration::from_millis(1);
    let (mut sum, mut counted) = (0.0, 0);
    for epoch in 0..epochs {
        let allowed = rate.pace().expect("it is adaptive");
        let length = length_of(allowed, packet);
        now += Duration::from_secs_f64(length);
        let sent = (allowed * length / packet as f64) as u64;
        let kept = (capacity / allowed).min(1.0) * (1.0 - loss);
        let lost = (0..sent).filter(|_| !rng.chance(kept)).count() as u64;
        rate.spend(sent as usize * packet);
        rate.sample(round_trip);
        rate.end_epoch(now, packet, Seen { sent, lost });
        if epoch >= epochs / 2 {
            sum += allowed;
            counted += 1;
        }
    }
    sum / f64::from(counted)
}

#[test]
fn the_rate_finds_the_capacity_of_a_link() {
    for (capacity, yields) in [
        (12.5e6, false),
        (125e6, false),
        (12.5e6, true),
        (125e6, true),
    ] {
        let found = settle(adaptive(yields), capacity, 0.0, 600);
        assert!(
            (0.8..1.15).contains(&(found / capacity)),
            "{found} of {capacity}"
        );
    }
}

#[test]
fn the_links_own_loss_is_not_taken_for_congestion() {
    for loss in [0.01, 0.05, 0.2] {
        for yields in [false, true] {
            let found = settle(adaptive(yields), 125e6, loss, 600);
            assert!(
                (0.75..1.3).contains(&(found / 125e6)),
                "{found} at a loss of {loss}"
            );
        }
    }
}

/// A link of 12.5 MB/s that loses nothing and queues everything, and round trips that others make
/// longer by what `others` says for each epoch: for each of `epochs` epochs the rate, and how long
/// the queue is.
fn queue(
    control: RateControl,
    epochs: u32,
    others: impl Fn(u32) -> Duration,
) -> Vec<(f64, Duration)> {
    let (packet, capacity) = (1400, 12.5e6);
    let mut now = Time::ZERO;
    let mut rate = Rate::new(control, now);
    let mut queued = 0.0_f64;
    let mut epoch = |index| {
        let allowed = rate.pace().expect("it is adaptive");
        let length = length_of(allowed, packet);
        now += Duration::from_secs_f64(length);
        queued = (queued + (allowed - capacity) * length).max(0.0);
        let delay = Duration::from_secs_f64(queued / capacity);
        let sent = (allowed * length / packet as f64) as u64;
        rate.spend(sent as usize * packet);
        rate.sample(Duration::from_millis(1) + delay + others(index));
        rate.end_epoch(now, packet, Seen { sent, lost: 0 });
        (allowed, delay)
    };
    (0..epochs).map(&mut epoch).collect()
}

/// Goal: what others on the link make this rate lose while it begins is not taken for the link's
/// own loss, behind which it could outrun the link for good. No queue shows: it was there before.
#[test]
fn a_rate_is_no_higher_than_what_comes_through() {
    let (packet, capacity, length) = (1400, 1.25e6, 0.1);
    let control = RateControl::Adaptive {
        max: Some(12_500_000),
        share: Share::Fair,
    };
    // So many epochs long others take all but this part.
    for (epochs, left) in [(8, 0.5), (16, 0.6), (32, 0.7)] {
        for seed in 0..10 {
            let mut rng = Rng::new(seed);
            let mut now = Time::ZERO;
            let mut rate = Rate::new(control, now);
            let mut fastest = 0.0_f64;
            for epoch in 0..400 {
                let pace = rate.pace().expect("it is adaptive");
                now += Duration::from_secs_f64(length);
                let sent = (pace * length / packet as f64) as u64;
                let left = if epoch < epochs { left } else { 1.0 };
                let kept = (left * capacity / pace).min(left);
                let lost = (0..sent).filter(|_| !rng.chance(kept)).count() as u64;
                rate.spend(sent as usize * packet);
                rate.sample(Duration::from_millis(50));
                rate.end_epoch(now, packet, Seen { sent, lost });
                if epoch >= 200 {
                    fastest = fastest.max(pace / capacity);
                }
            }
            let told = std::format!("{fastest} times the link, {left} for {epochs}, seed {seed}");
            assert!((0.8..1.4).contains(&fastest), "{told}");
        }
    }
}

/// Goal: beside others that keep a queue full, each packet that is lost counts, as it does to TCP.
#[test]
fn a_packet_that_is_lost_to_rivals_counts() {
    // Every twentieth epoch the queue is full, and so many packets are lost.
    let beside = |lost| {
        let packet = 1400;
        let mut now = Time::ZERO;
        let control = RateControl::Adaptive {
            max: Some(20_000_000),
            share: Share::Fair,
        };
        let mut rate = Rate::new(control, now);
        let mut sum = 0.0;
        for epoch in 0..1000_u64 {
            let pace = rate.pace().expect("it is adaptive");
            let length = length_of(pace, packet);
            now += Duration::from_secs_f64(length);
            let sent = (pace * length / packet as f64) as u64;
            let is_top = epoch % 20 == 19;
            let others = match epoch {
                0..100 => 0,
                _ => 8_000 + 500 * (epoch % 20),
            };
            rate.spend(sent as usize * packet);
            rate.sample(Duration::from_micros(1_000 + others));
            let lost = if is_top && epoch > 100 { lost } else { 0 };
            rate.end_epoch(now, packet, Seen { sent, lost });
            sum += if epoch >= 500 { pace } else { 0.0 };
        }
        sum / 500.0
    };
    let (none, one) = (beside(0), beside(1));
    assert!(one < 0.6 * none, "{one} with a packet lost, {none} without");
    assert!(one > 1e6, "{one}");
}

#[test]
fn a_queue_that_loses_nothing_is_kept_short_and_not_empty() {
    let run = queue(RateControl::FAIR, 1000, |_| Duration::ZERO);
    let second = &run[500..];
    let rate = second.iter().map(|(rate, _)| rate).sum::<f64>() / 500.0;
    assert!((0.85..1.0).contains(&(rate / 12.5e6)), "{rate}");
    let longest = second.iter().map(|(_, delay)| *delay).max();
    assert!(longest < Some(Duration::from_millis(8)), "{longest:?}");
}

#[test]
fn a_queue_that_others_keep_full_does_not_take_the_rate_away() {
    let others = |epoch| match epoch {
        0..500 => Duration::ZERO,
        _ => Duration::from_millis(30),
    };
    let run = queue(RateControl::FAIR, 2000, others);
    let mean = |part: &[(f64, Duration)]| {
        part.iter().map(|(rate, _)| rate).sum::<f64>() / part.len() as f64
    };
    let (before, after) = (mean(&run[300..500]), mean(&run[500..]));
    assert!(after > 0.7 * before, "{after} after {before}");
}

/// Goal: what gives way is next to nothing while others keep a queue, and as much as the link takes
/// before and after. The others come and go.
#[test]
fn what_gives_way_waits_until_the_others_are_gone() {
    let others = |epoch| match epoch {
        500..1000 => Duration::from_millis(30),
        _ => Duration::ZERO,
    };
    let run = queue(RateControl::BACKGROUND, 3000, others);
    let mean = |part: &[(f64, Duration)]| {
        part.iter().map(|(rate, _)| rate).sum::<f64>() / part.len() as f64 / 12.5e6
    };
    let (before, beside) = (mean(&run[300..500]), mean(&run[550..1000]));
    let after = mean(&run[2500..]);
    assert!(before > 0.7 && after > 0.7, "{before} and {after}");
    assert!(beside < 0.02, "{beside} beside others");
}

#[test]
fn a_fixed_rate_is_kept_and_a_pause_gives_no_burst() {
    let mut rate = Rate::new(
        RateControl::Fixed {
            bytes_per_second: 1_000_000,
        },
        Time::ZERO,
    );
    let mut now = Time::from_millis(1000);
    let mut sent = 0;
    while now < Time::from_millis(2000) {
        if rate.allows(now) {
            rate.spend(1000);
            sent += 1000;
        } else {
            now = rate.due(now).expect("it is not paused");
        }
    }
    assert!((990_000..1_010_000).contains(&sent), "{sent}");
}

/// Receivers of a rate that yields, over epochs of 20 packets or more.
struct Several<const N: usize> {
    rate: Rate,
    now: Time,
    paths: [Path; N],
}

type Pair = Several<2>;

impl<const N: usize> Several<N> {
    fn new() -> Self {
        Self {
            rate: Rate::new(
                RateControl::Adaptive {
                    max: Some(40_000_000),
                    share: Share::Fair,
                },
                Time::ZERO,
            ),
            now: Time::ZERO,
            paths: [Path::default(); N],
        }
    }

    /// An epoch in which each receiver loses such a share and has such a round trip; `None`: it
    /// says nothing. The rate after it.
    fn epoch(&mut self, shown: [Option<(f64, u64)>; N]) -> f64 {
        self.part(1.0, shown)
    }

    /// The same where the host takes only a part of what the rate allows.
    fn part(&mut self, part: f64, shown: [Option<(f64, u64)>; N]) -> f64 {
        let allowed = self.rate.pace().expect("it is adaptive");
        self.lasting(length_of(allowed, 1400), part, shown)
    }

    /// The same for an epoch of so many seconds.
    fn lasting(&mut self, length: f64, part: f64, shown: [Option<(f64, u64)>; N]) -> f64 {
        let allowed = self.rate.pace().expect("it is adaptive");
        self.now += Duration::from_secs_f64(length);
        let sent = (part * allowed * length / 1400.0) as u64;
        self.rate.spend(sent as usize * 1400);
        for (path, shown) in self.paths.iter_mut().zip(shown) {
            let Some((loss, micros)) = shown else {
                continue;
            };
            path.seen.sent += sent;
            path.seen.lost += (sent as f64 * loss) as u64;
            path.sample(Duration::from_micros(micros));
        }
        self.rate
            .end_epoch_of(self.now, 1400, N as u32, self.paths.iter_mut());
        self.rate.rate.expect("it is adaptive")
    }

    /// The rate after so many epochs that are alike.
    fn epochs(&mut self, count: u32, shown: [Option<(f64, u64)>; N]) -> f64 {
        (0..count)
            .map(|_| self.epoch(shown))
            .fold(0.0, |_, rate| rate)
    }

    /// Epochs that are alike until the rate has become so, and no more than so many.
    fn until(&mut self, count: u32, shown: [Option<(f64, u64)>; N], is_so: impl Fn(&Rate) -> bool) {
        let became = (0..count).any(|_| {
            self.epoch(shown);
            is_so(&self.rate)
        });
        assert!(became, "{:?}", self.rate);
    }
}

#[test]
fn what_one_loses_and_what_waits_for_another_are_no_congestion_together() {
    let clean = Some((0.0, 500));
    let mut pair = Pair::new();
    let found = pair.epochs(8, [clean; 2]);
    assert!(found > 20e6, "doubled: {found}");
    // That what one loses is its link's own loss is learnt first.
    let lossy = Some((0.02, 500));
    let learnt = pair.epochs(400, [lossy, clean]);
    assert!(learnt > 0.9 * found, "{learnt} after {found}");
    // At the one that loses there is no queue, and no loss at the one with a queue.
    let mut least = f64::MAX;
    for _ in 0..40 {
        least = least.min(pair.epoch([lossy, Some((0.0, 600))]));
    }
    assert!(least > 0.9 * learnt, "{least} after {learnt}");
    // Both at one: congestion.
    let rate = pair.epochs(12, [Some((0.1, 9_000)), clean]);
    assert!(rate < 0.75 * learnt, "{rate} after {learnt}");
}

#[test]
fn a_receiver_of_which_nothing_is_heard_stops_the_growth() {
    let clean = Some((0.0, 500));
    let mut pair = Pair::new();
    let before = pair.epochs(5, [clean; 2]);
    let held = pair.epochs(3, [clean, None]);
    assert!(held <= before, "{held} after {before}");
    let fallen = pair.epochs(12, [clean, None]);
    assert!(fallen < 0.5 * before, "{fallen} after {before}");
    let mut grown = fallen;
    for _ in 0..40 {
        grown = pair.epoch([clean; 2]);
    }
    assert!(grown > 1.5 * fallen, "{grown} after {fallen}");
}

#[test]
fn a_rate_that_yields_begins_low_and_asks_by_the_time() {
    let mut rate = Rate::new(adaptive(true), Time::ZERO);
    assert!(rate.rate() <= Some(2_000_000));
    let at = Time::from_millis;
    assert!(rate.asks(at(10), 3) && !rate.asks(at(12), 3) && rate.asks(at(15), 3));
    assert!(
        !rate.asks(at(40), 200),
        "200 receivers are asked less often"
    );
    assert!(rate.asks(at(70), 200));
    let mut other = Rate::new(adaptive(false), Time::ZERO);
    assert!(!other.asks(at(1_000), 1));
}

/// 1 Gb/s, a packet in 12 µs, of which every 128th may ask, and answers after 300 µs: what 200
/// receivers answer is bounded, unless little room makes them answer sooner; and a few are asked as
/// often as ever.
#[test]
fn many_receivers_are_not_asked_by_every_turn() {
    const EVERY: u64 = 128;
    let round_trip = Duration::from_micros(300);
    // How often they are asked in a second, if the answers to the first askings are lost.
    let asked = |receivers, control, room, lost: u64| {
        let mut rate = Rate::new(control, Time::ZERO);
        let (mut askings, mut base, mut answered) = (0, 0, None);
        for number in 0..83_000_u64 {
            let now = Time::ZERO + Duration::from_micros(12 * number);
            if let Some((_, has)) = answered.filter(|(at, _)| now >= *at) {
                (base, answered) = (has, None);
            }
            let turn = Turn {
                receivers,
                every: EVERY,
                room,
                at: number + 1 - base,
                round_trip,
            };
            let is_turn = (number + 1).is_multiple_of(EVERY);
            let in_turn = is_turn && rate.asks_in_turn(now, &turn);
            if in_turn {
                rate.note_asked(now);
            }
            if in_turn || rate.asks(now, receivers) {
                askings += 1;
                if askings > lost {
                    answered = Some((now + round_trip, number + 1));
                }
            }
            rate.spend(1400);
            assert!(number - base < room + EVERY, "it stands still at {number}");
        }
        askings
    };
    let fair = adaptive(true);
    let many = asked(200, fair, 1024, 0);
    assert!((80..=100).contains(&many), "{many}");
    let some_lost = asked(200, fair, 1024, 1);
    assert!((80..=101).contains(&some_lost), "{some_lost}");
    let room = asked(200, fair, 512, 0);
    assert!((200..=220).contains(&room), "{room}");
    let all = 83_000 / EVERY;
    assert_eq!(asked(1, fair, 1024, 0), all);
    assert_eq!(asked(200, fair, 374, 0), all);
    assert_eq!(asked(200, adaptive(false), 1024, 0), all);
}

/// A rate of up to ten gigabits a second, whose start is over; epochs of thousands of packets.
fn at_ten_gigabits() -> Several<1> {
    let mut fast = Several::new();
    fast.rate.max = 1.25e9;
    fast.epochs(4, [Some((0.0, 200))]);
    fast.rate.starting = false;
    fast.rate.rate = Some(0.7e9);
    fast
}

/// TCP takes what is left and loses little: 160 packets in a round trip are TCP's where one of
/// 10,000 is lost. The queue is too short to show.
#[test]
fn a_rate_at_which_tcp_could_not_lose_so_much_falls_though_no_queue_shows() {
    let mut fast = at_ten_gigabits();
    let mut sum = 0.0;
    for epoch in 0..200 {
        let is_above = fast.rate.pace() > Some(0.6e9);
        let rate = fast.epoch([Some((if is_above { 0.002 } else { 0.0 }, 230))]);
        sum += if epoch >= 100 { rate } else { 0.0 };
    }
    let mean = sum / 100.0;
    assert!((0.4e9..0.65e9).contains(&mean), "{mean}");
}

#[test]
fn what_a_path_loses_at_every_rate_is_its_own_however_fast_it_is() {
    for loss in [0.002, 0.01] {
        let mut fast = at_ten_gigabits();
        let after = fast.epochs(200, [Some((loss, 230))]);
        assert!(after > 0.9 * 1.25e9, "{after} at {loss}");
    }
}

#[test]
fn a_burst_of_a_fast_rate_that_is_lost_is_no_congestion() {
    let mut fast = at_ten_gigabits();
    let before = fast.rate.rate.expect("it is adaptive");
    fast.epoch([Some((0.01, 230))]);
    let after = fast.epochs(3, [Some((0.0, 230))]);
    assert!(after >= before, "{after} after {before}");
}

/// TCP could lose next to nothing there, and links lose in bursts.
#[test]
fn bursts_that_a_long_way_loses_are_no_congestion() {
    let mut far = Several::<1>::new();
    far.rate.max = 125e6;
    far.epochs(4, [Some((0.0, 20_000))]);
    far.rate.starting = false;
    far.rate.rate = Some(80e6);
    let mut rng = Rng::new(1);
    for _ in 0..300 {
        let loss = if rng.chance(0.3) { 0.01 } else { 0.0 };
        far.lasting(0.04, 1.0, [Some((loss, 20_000))]);
    }
    let after = far.rate.rate;
    assert!(after > Some(0.9 * 125e6), "{after:?}");
}

/// What others lose at their start was taken for the path's own loss.
#[test]
fn a_path_that_loses_less_has_no_such_loss_of_its_own() {
    let mut fast = at_ten_gigabits();
    let own = |fast: &Several<1>| fast.paths[0].own_loss().expect("it is measured");
    fast.paths[0].learn(0.02);
    fast.epochs(2, [Some((0.018, 230))]);
    assert!(own(&fast) > 0.017, "{}", own(&fast));
    fast.epochs(2, [Some((0.001, 230))]);
    assert!(own(&fast) < 0.004, "{}", own(&fast));
}

#[test]
fn what_is_lost_from_the_start_is_the_paths_own() {
    let mut pair = Pair::new();
    let found = pair.epochs(8, [Some((0.03, 500)), Some((0.0, 500))]);
    assert!(found > 30e6, "{found}");
}

#[test]
fn a_burst_that_is_lost_is_no_congestion_and_what_goes_on_is() {
    let clean = Some((0.0, 500));
    let mut pair = Pair::new();
    let before = pair.epochs(20, [clean; 2]);
    let burst = pair.epoch([Some((0.2, 500)), clean]);
    assert!(burst >= before, "{burst} after {before}");
    let after = pair.epochs(2, [clean; 2]);
    assert!(after >= before, "{after} after {before}");
    let lasting = (0..6).map(|_| pair.epoch([Some((0.2, 500)), clean]));
    let least = lasting.fold(f64::MAX, f64::min);
    assert!(least < 0.9 * before, "{least} after {before}");
}

#[test]
fn who_is_silent_for_long_holds_nobody_back() {
    let clean = Some((0.0, 500));
    let mut pair = Pair::new();
    let before = pair.epochs(5, [clean; 2]);
    let silent = [clean, None];
    let least = (0..40).map(|_| pair.epoch(silent)).fold(f64::MAX, f64::min);
    assert!(least < 0.3 * before, "{least} after {before}");
    let after = pair.epochs(400, silent);
    assert!(after > 0.5 * before, "{after} after {before}");
}

#[test]
fn a_host_that_takes_less_is_given_less_where_others_keep_a_queue() {
    let mut pair = Pair::new();
    pair.epochs(8, [Some((0.0, 500)); 2]);
    let queue = [Some((0.0, 30_000)); 2];
    // The queue does not go for a lower rate: others keep it, and the rate is held.
    pair.epochs(40, queue);
    let held = pair.epochs(1, queue);
    let least = (0..6)
        .map(|_| pair.part(0.8, queue))
        .fold(f64::MAX, f64::min);
    assert!(least < 0.6 * held, "{least} after {held}");
}

/// Two receivers, of which one is behind a queue that others keep full.
fn beside_rivals() -> Pair {
    let mut pair = Pair::new();
    pair.epochs(8, [Some((0.0, 500)); 2]);
    let queue = [Some((0.0, 335_000)), Some((0.0, 500))];
    pair.until(40, queue, |rate| rate.rivals.are_there());
    pair.rate.starting = false;
    pair.epochs(20, queue);
    assert!(pair.rate.rivals.are_there());
    pair
}

/// The others grow so slowly that each time the rate falls the queue is a little shorter, and as
/// long as before after a few round trips.
#[test]
fn a_queue_that_slow_others_keep_does_not_take_the_rate_away() {
    let mut pair = Pair::new();
    let before = pair.epochs(8, [Some((0.0, 12_000)); 2]);
    pair.epochs(2, [Some((0.25, 24_000)); 2]);
    let mut sum = 0.0;
    for epoch in 0..400 {
        let micros = if epoch % 4 < 2 { 17_500 } else { 16_500 };
        sum += pair.epoch([Some((0.0, micros)); 2]);
    }
    let mean = sum / 400.0;
    assert!(mean > 0.4 * before, "{mean} after {before}");
}

#[test]
fn a_loss_while_the_rate_falls_for_a_queue_does_not_hide_who_keeps_it() {
    let mut pair = Pair::new();
    let before = pair.epochs(8, [Some((0.0, 500)); 2]);
    // Every second epoch is judged.
    for (epochs, loss) in [(6, 0.0), (2, 0.25), (8, 0.0)] {
        pair.epochs(epochs, [Some((loss, 335_000)), Some((0.0, 500))]);
    }
    assert!(pair.rate.rivals.are_there());
    let after = pair.rate.rate.expect("it is adaptive");
    assert!(after > 0.3 * before, "{after} after {before}");
}

/// A flow that begins fills a long queue in a few round trips, however much the rate falls.
#[test]
fn a_queue_that_grows_though_the_rate_falls_is_that_of_others() {
    let after = |queues: [u64; 3]| {
        let mut pair = Pair::new();
        pair.epochs(8, [Some((0.0, 500)); 2]);
        for micros in queues {
            // Every second epoch is judged.
            pair.epochs(2, [Some((0.0, micros)); 2]);
        }
        pair.rate.rivals.are_there()
    };
    assert!(after([5_000, 60_000, 300_000]));
    assert!(!after([5_000, 10_000, 15_000]));
    assert!(!after([300_000; 3]));
}

/// TCP that begins beside a full queue doubles its window until something is lost.
#[test]
fn a_start_that_a_queue_of_others_has_ended_goes_on() {
    let mut pair = Pair::new();
    pair.epochs(2, [Some((0.0, 500)); 2]);
    let queue = [Some((0.0, 12_000)); 2];
    pair.until(40, queue, |rate| rate.rivals.are_there());
    let before = pair.rate.rate.expect("it is adaptive");
    // It is not full yet.
    for micros in [13_000, 14_000, 15_000, 16_000, 17_000] {
        pair.epoch([Some((0.0, micros)); 2]);
    }
    let after = pair.rate.rate.expect("it is adaptive");
    assert!(after > 8.0 * before, "{after} after {before}");
    pair.epochs(2, [Some((0.3, 17_000)); 2]);
    assert!(!pair.rate.starting);
}

/// A flow that begins loses half of what all send, and that of others, too.
#[test]
fn half_of_the_rate_is_left_beside_a_long_queue_whatever_it_loses() {
    for (micros, least, most) in [(335_000, 0.49, 0.51), (1_900, 0.09, 0.11)] {
        let mut pair = Pair::new();
        pair.epochs(8, [Some((0.0, 500)); 2]);
        let before = pair.rate.rate.expect("it is adaptive");
        pair.epoch([Some((0.9, micros)), Some((0.0, 500))]);
        let left = pair.rate.rate.expect("it is adaptive") / before;
        assert!((least..most).contains(&left), "{left} at {micros}");
    }
}

/// By a packet per round trip in each round trip it would take a minute.
#[test]
fn beside_others_the_rate_comes_back_by_the_time_as_cubic_does() {
    let mut pair = beside_rivals();
    let queue = |loss| [Some((loss, 335_000)), Some((0.0, 500))];
    let before = pair.rate.rate.expect("it is adaptive");
    pair.until(4, queue(0.1), |rate| rate.rate < Some(before));
    // 20 seconds.
    for _ in 0..60 {
        pair.lasting(0.335, 1.0, queue(0.0));
    }
    let after = pair.rate.rate.expect("it is adaptive");
    assert!(after > before, "{after} after {before}");
}

#[test]
fn what_was_sent_before_the_rate_fell_does_not_count_again() {
    let mut pair = beside_rivals();
    let before = pair.rate.rate.expect("it is adaptive");
    let congested = [Some((0.2, 335_000)), Some((0.0, 500))];
    assert!((0..4).any(|_| pair.epoch(congested) < before));
    pair.rate.spend(100 * 1400);
    // On average the ways are short.
    let ends_after = |millis| {
        let now = pair.now + Duration::from_millis(millis);
        pair.rate.epoch_ends(now, Duration::from_millis(1), 1400)
    };
    assert_eq!([20, 334, 336].map(ends_after), [false, false, true]);
}

#[test]
fn rivals_are_not_forgotten_while_the_path_to_them_is_not_heard() {
    let mut pair = beside_rivals();
    let before = pair.rate.rate;
    pair.epoch([None, Some((0.0, 500))]);
    assert!(pair.rate.rivals.are_there());
    assert_eq!(pair.rate.rate, before);
    // It is heard, and the queue is gone.
    pair.epochs(20, [Some((0.0, 500)); 2]);
    assert!(!pair.rate.rivals.are_there());
    assert!(pair.rate.rate > before);
}

#[test]
fn a_path_to_which_too_little_was_sent_is_neither_unheard_nor_good() {
    let clean = Some((0.0, 500));
    // A receiver gets copies of so many packets in each epoch, and says nothing of them.
    let run = |copies: u64, epochs: u32, other| {
        let mut pair = Pair::new();
        pair.epochs(5, [clean; 2]);
        let copied = |_| {
            pair.paths[1].note_uncopied();
            (0..copies).for_each(|_| pair.paths[1].note_copied());
            pair.epoch([other, None])
        };
        let rates: Vec<f64> = (0..epochs).map(copied).collect();
        rates
    };
    let alone = run(0, 40, clean);
    assert_eq!(run(7, 40, clean), alone, "it has no say");
    assert!(alone[39] > alone[0], "the other one lets the rate grow");
    let fallen = run(8, 12, clean);
    assert!(fallen[11] < 0.5 * fallen[0], "unheard: {fallen:?}");
    let nobody = run(7, 12, None);
    assert_eq!(
        nobody[11], nobody[0],
        "that of the other one nothing is heard is not good"
    );
}

/// The path to a receiver that gets its first copies late, with a long way: its round trip is no
/// queue.
#[test]
fn a_long_way_that_is_measured_late_is_no_queue() {
    let clean = Some((0.0, 500));
    let mut pair = Pair::new();
    pair.paths[1].note_uncopied();
    let before = pair.epochs(9, [clean, None]);
    let long = Some((0.0, 40_000));
    let rates: Vec<f64> = (0..6).map(|_| pair.epoch([clean, long])).collect();
    assert!(
        rates.iter().all(|rate| *rate >= before),
        "{before}: {rates:?}"
    );
    let queued = pair.epochs(6, [clean, Some((0.0, 90_000))]);
    assert!(queued < 0.8 * before, "{queued} after {before}");
}

/// The first epoch ends before an answer has come over a way of 50 ms: at the start, and when the
/// rate is set anew.
#[test]
fn a_long_way_is_no_queue_at_the_start_and_after_a_pause() {
    let far = [Some((0.0, 50_000)); 2];
    let mut pair = Pair::new();
    let begins = |pair: &mut Pair| {
        let first = pair.epoch([None; 2]);
        let grown = pair.epochs(6, far);
        assert!(grown >= 4.0 * first, "{grown} after {first}");
    };
    begins(&mut pair);
    pair.rate.change(None, pair.now);
    pair.rate.change(Some(RateControl::FAIR), pair.now);
    pair.paths = [Path::default(); 2];
    begins(&mut pair);
    // And a queue is one.
    let (before, queue) = (pair.rate.rate, [Some((0.0, 90_000)); 2]);
    let queued = pair.epochs(4, queue);
    assert!(Some(queued) < before.map(|rate| 0.7 * rate), "{queued}");
}

/// Others keep a queue from the start, and send less when something is lost.
#[test]
fn a_queue_of_others_is_not_taken_for_a_long_way() {
    let of = |millis: u64| [Some((0.0, 1_000 * millis)); 2];
    let mut pair = Pair::new();
    let first = pair.epoch([None; 2]);
    pair.epochs(1, of(205));
    assert!(pair.rate.pace() < Some(0.3 * first), "it is looked into");
    pair.epochs(2, of(150));
    assert_eq!(pair.rate.rate, Some(first));
    let queued = pair.epochs(2, of(205));
    assert!(queued < 0.5 * first, "{queued} after {first}");
}

/// The way is short, but much is lost on it from the start.
#[test]
fn much_loss_at_the_start_is_looked_into_like_a_long_way() {
    for (loss, looks) in [(0.1, false), (0.4, true)] {
        let mut pair = Pair::new();
        pair.epoch([Some((loss, 7_000)); 2]);
        let begun = pair.rate.rate.expect("it is adaptive");
        let looked = pair.rate.pace().expect("it is adaptive") < 0.3 * begun;
        assert_eq!(looked, looks, "a loss of {loss}");
    }
    // It is lost when the rate has been doubled some times.
    let mut pair = Pair::new();
    pair.epochs(3, [Some((0.0, 7_000)); 2]);
    let begun = pair.epoch([Some((0.3, 7_000)); 2]);
    let looked = pair.rate.pace().expect("it is adaptive");
    assert!(looked < 0.6 * begun, "{looked} after {begun}");
}

/// Others send as much as the link carries, whatever is lost, and keep its queue full from the
/// start. What is lost is the same at each rate at which little is sent.
#[test]
fn no_rate_goes_far_beyond_a_link_for_what_others_make_it_lose_from_the_start() {
    let (packet, capacity, length) = (1400, 1.25e6, 0.1);
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let (mut now, mut path) = (Time::ZERO, Path::default());
        let mut rate = Rate::new(RateControl::FAIR, now);
        let mut later = 0.0;
        for epoch in 0..200 {
            let pace = rate.pace().expect("it is adaptive");
            now += Duration::from_secs_f64(length);
            let sent = (pace * length / packet as f64) as u64;
            let kept = capacity / (pace + capacity);
            path.seen.sent += sent;
            path.seen.lost += (0..sent).filter(|_| !rng.chance(kept)).count() as u64;
            path.sample(Duration::from_millis(7));
            rate.spend(sent as usize * packet);
            rate.end_epoch_of(now, packet, 1, core::iter::once(&mut path));
            if epoch >= 100 {
                later += pace / capacity / 100.0;
            }
        }
        assert!(later < 1.5, "{later} times the link, seed {seed}");
    }
}

/// What others made it lose at the start is taken for the path's own loss; then they are gone, and
/// what it loses is lost to its own rate. Epochs are so short that rates that differ by a third
/// show nothing but chance.
#[test]
fn a_large_loss_of_the_paths_own_is_looked_into_again() {
    let (packet, capacity) = (1400, 1.25e6);
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let (mut now, mut path) = (Time::ZERO, Path::default());
        let mut rate = Rate::new(RateControl::FAIR, now);
        rate.rate = Some(4.0 * capacity);
        rate.starting = false;
        path.learn(0.4);
        let mut later = 0.0;
        for epoch in 0..400 {
            let pace = rate.pace().expect("it is adaptive");
            let length = length_of(pace, packet);
            now += Duration::from_secs_f64(length);
            let sent = (pace * length / packet as f64) as u64;
            path.seen.sent += sent;
            path.seen.lost += (0..sent).filter(|_| !rng.chance(capacity / pace)).count() as u64;
            path.sample(Duration::from_millis(7));
            rate.spend(sent as usize * packet);
            rate.end_epoch_of(now, packet, 1, core::iter::once(&mut path));
            if epoch >= 200 {
                later += pace / capacity / 200.0;
            }
        }
        assert!(later < 2.0, "{later} times the link, seed {seed}");
    }
}

/// While nothing was heard yet of one, it may be far: the rate waits for it, and does not fall.
#[test]
fn who_may_be_far_is_waited_for() {
    let mut pair = Pair::new();
    let first = pair.epoch([None; 2]);
    let waits: Vec<f64> = (0..12).map(|_| pair.epoch([CLEAN, None])).collect();
    assert!(waits.iter().all(|rate| *rate == first), "{waits:?}");
    let grown = pair.epochs(8, [CLEAN, Some((0.0, 200_000))]);
    assert!(grown > 4.0 * first, "{grown} after {first}");
}

impl Pair {
    /// An epoch of 300 ms in which the source had 20 packets, sent at once; each receiver sees a
    /// queue of 30 ms. The rate after it.
    fn burst(&mut self) -> f64 {
        self.rate.spend(20 * 1400);
        self.rate.note_idle(self.now, true);
        self.now += Duration::from_millis(300);
        for path in &mut self.paths {
            path.seen.sent += 20;
            path.sample(Duration::from_millis(30));
        }
        self.rate
            .end_epoch_of(self.now, 1400, 2, self.paths.iter_mut());
        self.rate.note_idle(self.now, false);
        self.rate.rate.expect("it is adaptive")
    }
}

#[test]
fn what_a_source_has_between_pauses_is_not_what_the_network_takes() {
    let queue = [Some((0.0, 30_000)); 2];
    let mut pair = Pair::new();
    pair.epochs(10, [CLEAN; 2]);
    // Others keep the queue, and the rate is held.
    let before = pair.epochs(40, queue);
    let after = pair.burst();
    assert!(after > 0.7 * before, "{after} after {before}");
    assert_eq!(pair.rate.own, 0, "no queue of this host's is seen");
    // And where nobody is known to keep it.
    let before = pair.epochs(40, [CLEAN; 2]);
    let least = (0..2).map(|_| pair.burst()).fold(f64::MAX, f64::min);
    assert!(least > 0.6 * before, "{least} after {before}");
}

#[test]
fn what_gives_way_does_so_between_pauses_too() {
    let mut pair = Pair::new();
    pair.rate.gives_way = true;
    let before = pair.epochs(40, [CLEAN; 2]);
    let least = (0..12).map(|_| pair.burst()).fold(f64::MAX, f64::min);
    assert!(least < 0.1 * before, "{least} after {before}");
}

const CLEAN: Option<(f64, u64)> = Some((0.0, 500));
const CONGESTED: Option<(f64, u64)> = Some((0.3, 20_000));

impl Several<7> {
    /// The first has a slow port; the second loses one burst with it. Until a leap begins.
    fn until_a_leap() -> Self {
        const PORT: f64 = 3e6;
        let mut several = Self::new();
        several
            .rate
            .leave_behind_after(Some(Duration::from_secs(1)), false);
        let mut bursts = 0;
        for _ in 0..4_000 {
            let mut shown = [CLEAN; 7];
            if several.rate.rate.is_some_and(|rate| rate > PORT) {
                shown[0] = CONGESTED;
                if bursts < 2 {
                    bursts += 1;
                    shown[1] = CONGESTED;
                }
            }
            several.epoch(shown);
            if several.rate.few.leaps() {
                assert!(several.paths[0].is_blamed() && several.paths[1].is_blamed());
                return several;
            }
        }
        panic!("no leap at {:?}", several.rate.rate);
    }
}

#[test]
fn who_takes_a_leap_stays_though_it_was_blamed() {
    let mut several = Several::until_a_leap();
    let mut shown = [CLEAN; 7];
    shown[0] = CONGESTED;
    for _ in 0..20 {
        several.epoch(shown);
        if several.rate.leaves_behind() {
            assert_eq!(several.paths[0].took_leap(), Some(false));
            assert_eq!(several.paths[1].took_leap(), Some(true));
            several.epoch(shown);
            assert!(!several.paths[1].is_blamed());
            return;
        }
    }
    panic!("the leap did not come off");
}

#[test]
fn who_has_taken_a_leap_stays_though_too_little_is_heard_of_it_in_the_end() {
    let mut several = Several::until_a_leap();
    let mut shown = [CLEAN; 7];
    shown[0] = CONGESTED;
    let mut silent = 0;
    for _ in 0..20 {
        several.epoch(shown);
        if several.rate.leaves_behind() {
            assert!(silent > 0);
            assert_eq!(several.paths[1].took_leap(), Some(true));
            return;
        }
        if several.paths[1].took_leap() == Some(true) {
            shown[1] = None;
            silent += 1;
        }
    }
    panic!("the leap did not come off");
}

#[test]
fn a_leap_of_which_none_but_the_blamed_say_anything_ends() {
    let mut several = Several::until_a_leap();
    let before = several.rate.rate.expect("it is adaptive") / 2.0;
    let mut shown = [None; 7];
    shown[0] = CLEAN;
    let after = several.epochs(4, shown);
    assert!(!several.rate.few.leaps());
    assert!(after <= before, "{after} after {before}");
}

#[test]
fn a_leap_that_nobody_answers_falls_below_the_rate_before() {
    let mut several = Several::until_a_leap();
    let before = several.rate.rate.expect("it is adaptive") / 2.0;
    several.rate.unheard();
    let after = several.rate.rate.expect("it is adaptive");
    assert!(after <= before / 2.0, "{after} after {before}");
}

/// The last repairs of a pass go to few.
#[test]
fn a_later_pass_has_what_each_copy_had_while_the_rate_was_found() {
    let mut pair = Pair::new();
    pair.rate.fan_out(8);
    let clean = Some((0.0, 500));
    let mut found = 0.0;
    for _ in 0..12 {
        let allowed = pair.rate.pace().expect("it is adaptive");
        let packets = (allowed * 0.05 / 8.0 / 1400.0).ceil() as u64;
        pair.now += Duration::from_millis(50);
        for _ in 0..packets {
            pair.rate.spend(1400);
        }
        for path in &mut pair.paths {
            path.seen.sent += packets;
            path.sample(Duration::from_micros(500));
        }
        pair.rate
            .end_epoch_of(pair.now, 1400, 2, pair.paths.iter_mut());
        found = pair.rate.rate.expect("it is adaptive");
    }
    pair.rate.fan_out(1);
    let last = pair.part(0.1, [clean; 2]);
    assert!(last >= found);
    pair.rate.begin_pass(pair.now, 0.0);
    let each = pair.rate.regains;
    assert!((each / (last / 8.0) - 1.0).abs() < 0.1, "{each} of {last}");
}

/// The queue of this host's own link, which holds what is sent at rates that yield, and what TCP
/// flows put there: each as much as goes through in a millisecond, and two segments of two packets
/// at least, whatever its window (Linux's small queues).
struct HostQueue<const N: usize> {
    /// Bytes a second.
    capacity: f64,
    now: Time,
    rates: [Rate; N],
    /// When the epoch of each ends.
    ends: [Time; N],
    /// Bytes that wait: of each rate, and of TCP.
    waits: [f64; N],
    tcp_waits: f64,
    /// Bytes that went through.
    through: [f64; N],
    tcp_through: f64,
    /// All that did since the beginning, and whether the host tells that.
    carried: f64,
    tells: bool,
}

impl<const N: usize> HostQueue<N> {
    const PACKET: usize = 1400;
    const STEP: Duration = Duration::from_micros(100);
    /// What a TCP flow may have in the queue takes so long to go through.
    const TCP: Duration = Duration::from_millis(1);
    const WAY: Duration = Duration::from_millis(1);
    /// What fits into the send buffer of a socket.
    const BUFFER: f64 = 450e3;

    fn new(capacity: f64, tells: bool) -> Self {
        Self {
            capacity,
            carried: 0.0,
            tells,
            now: Time::ZERO,
            rates: core::array::from_fn(|_| Rate::new(RateControl::FAIR, Time::ZERO)),
            ends: [Time::ZERO; N],
            waits: [0.0; N],
            tcp_waits: 0.0,
            through: [0.0; N],
            tcp_through: 0.0,
        }
    }

    fn step(&mut self, flows: u32) {
        self.now += Self::STEP;
        let all = self.waits.iter().sum::<f64>() + self.tcp_waits;
        let delay = Duration::from_secs_f64(all / self.capacity);
        let served = (self.capacity * Self::STEP.as_secs_f64() / all.max(1.0)).min(1.0);
        let tcp = self.tcp_waits * served;
        self.tcp_through += tcp;
        self.carried += all * served;
        let each = tcp / f64::from(flows.max(1)) * Self::TCP.div_duration_f64(Self::STEP);
        self.tcp_waits = f64::from(flows) * each.max(4.0 * Self::PACKET as f64);
        for index in 0..N {
            let (rate, waits) = (&mut self.rates[index], &mut self.waits[index]);
            self.through[index] += *waits * served;
            *waits *= 1.0 - served;
            if rate.wants_uplink(self.now) {
                rate.handle_uplink(
                    self.now,
                    Uplink {
                        waits: *waits as u64,
                        carried: self.tells.then_some(self.carried as u64),
                    },
                );
            }
            let pace = rate.pace().expect("it is adaptive");
            let sent = (pace * Self::STEP.as_secs_f64()).min(Self::BUFFER - *waits);
            *waits += sent;
            rate.spend(sent as usize);
            rate.sample(Self::WAY + delay);
            if self.now < self.ends[index] {
                continue;
            }
            let seen = Seen {
                sent: rate.bucket.used() / Self::PACKET as u64,
                lost: 0,
            };
            rate.end_epoch(self.now, Self::PACKET, seen);
            let length = Duration::from_secs_f64(length_of(pace, Self::PACKET));
            self.ends[index] = self.now + length.max((Self::WAY + delay) * 2);
        }
    }

    /// Shares of the link beside so many TCP flows, after five seconds of them: of each rate, and
    /// of TCP.
    fn shares(&mut self, flows: u32) -> ([f64; N], f64) {
        for step in 0..150_000 {
            if step == 50_000 {
                (self.through, self.tcp_through) = ([0.0; N], 0.0);
            }
            self.step(flows);
        }
        let link = self.capacity * 10.0;
        (
            self.through.map(|each| each / link),
            self.tcp_through / link,
        )
    }
}

/// Goal: whatever TCP and transfers send from one host, each has at least half of what would be the
/// same for all, and nothing is left unused. TCP does not fill that queue, so nothing is ever lost.
/// Where the host does not tell what its link carries, TCP has less at a gigabit: a sixth of its
/// share at least.
#[test]
fn beside_tcp_in_the_queue_of_this_host_all_have_a_share() {
    fn try_with<const N: usize>(megabits: u32, tells: bool, flows: impl IntoIterator<Item = u32>) {
        let mut queue = HostQueue::<N>::new(f64::from(megabits) * 1e6 / 8.0, tells);
        for flows in flows {
            let (transfers, tcp) = queue.shares(flows);
            let told =
                std::format!("{megabits} Mb/s, {flows} flows, {tells}: {transfers:?} and {tcp}");
            let fair = 1.0 / f64::from(N as u32 + flows);
            for transfer in transfers {
                let least = if flows == 0 { 0.9 } else { 0.5 };
                assert!(transfer > least * fair, "{told}");
            }
            let least = if tells || megabits < 1000 {
                0.5
            } else {
                1.0 / 6.0
            };
            assert!(tcp >= least * f64::from(flows) * fair, "{told}");
            assert!(transfers.iter().sum::<f64>() + tcp > 0.9, "{told}");
        }
    }
    for megabits in [10, 100, 1000] {
        for tells in [false, true] {
            try_with::<1>(megabits, tells, [1, 0, 1, 2]);
            try_with::<2>(megabits, tells, [0, 1, 2]);
        }
    }
}
