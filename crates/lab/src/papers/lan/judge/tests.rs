//! Judges are judged: data after the paper's finding holds, data that contradicts it does not.

use super::super::super::Verdict;
use super::super::point::{KB500, LanPoint, MB2, System};
use super::super::points::Points;
use super::super::points::tests::points;
use super::*;

fn passes(judge: fn(&Points, &mut Verdict), times: &[(LanPoint, f64)]) -> bool {
    let mut verdict = Verdict::new();
    judge(&points(times), &mut verdict);
    verdict.passed()
}

/// `time` of each of `settings`.
fn with(
    settings: impl IntoIterator<Item = LanPoint>,
    time: impl Fn(&LanPoint) -> f64,
) -> Vec<(LanPoint, f64)> {
    let timed = |setting: LanPoint| (setting, time(&setting));
    settings.into_iter().map(timed).collect()
}

fn height(setting: &LanPoint) -> f64 {
    match setting.system {
        System::Tree { height } => f64::from(height),
        _ => f64::NAN,
    }
}

fn poll(setting: &LanPoint) -> f64 {
    match setting.system {
        System::Nak { poll } => f64::from(poll),
        _ => f64::NAN,
    }
}

const COUNTS: [u32; 4] = [1, 10, 20, 30];

#[test]
fn no_data_is_no_pass() {
    let judges: [fn(&Points, &mut Verdict); 14] = [
        fig8, fig10, fig11, fig12, fig13, fig14, fig15, fig16, fig17, fig18, fig19, fig20, table2,
        table3,
    ];
    for judge in judges {
        assert!(!passes(judge, &[]));
    }
}

#[test]
fn tcp_is_linear_and_multicast_flat() {
    let all = |system| COUNTS.map(|n| LanPoint::new(system, 50_000, 2).to(n));
    let times = |grows: f64| {
        with(
            all(System::Tcp).into_iter().chain(all(System::Ack)),
            move |it| match it.system {
                System::Tcp => 50.0 * f64::from(it.receivers),
                _ => 60.0 + grows * f64::from(it.receivers),
            },
        )
    };
    assert!(passes(fig8, &times(0.1)));
    assert!(!passes(fig8, &times(0.3)));
}

#[test]
fn a_window_of_two_is_the_best_for_acknowledgements() {
    let settings = || {
        [1_300, 8_000, 50_000]
            .into_iter()
            .flat_map(|packet| [1, 2, 5].map(|window| LanPoint::new(System::Ack, packet, window)))
    };
    let time = |at_five: f64| {
        move |it: &LanPoint| {
            let by_window = match it.window {
                1 => 1.3,
                2 => 1.0,
                _ => at_five,
            };
            by_window * (50.0 + 1e5 / f64::from(it.packet))
        }
    };
    assert!(passes(fig10, &with(settings(), time(1.0))));
    assert!(!passes(fig10, &with(settings(), time(0.9))));
}

#[test]
fn small_messages_are_linear_and_large_ones_flat() {
    let settings = || {
        [1_000, KB500]
            .into_iter()
            .flat_map(|size| COUNTS.map(|n| LanPoint::new(System::Ack, 50_000, 2).size(size).to(n)))
    };
    let time =
        |slope: f64| move |it: &LanPoint| it.size as f64 / 1e4 + slope * f64::from(it.receivers);
    assert!(passes(fig11, &with(settings(), time(0.05))));
    assert!(!passes(fig11, &with(settings(), time(0.0))));
    assert!(!passes(fig11, &with(settings(), time(2.0))));
}

#[test]
fn the_best_poll_is_a_little_below_the_window() {
    let settings = || (1..=20).map(|poll| LanPoint::new(System::Nak { poll }, 8_000, 20));
    let around = |best: f64| move |it: &LanPoint| 50.0 + (poll(it) - best).powi(2);
    assert!(passes(fig12, &with(settings(), around(17.0))));
    assert!(!passes(fig12, &with(settings(), around(10.0))));
}

#[test]
fn packets_of_a_middle_size_are_best_for_nak() {
    let settings = || {
        [50_000, 500_000].into_iter().flat_map(|buffer| {
            [500, 8_000, 50_000]
                .map(|packet| LanPoint::new(System::Nak { poll: 1 }, packet, buffer / packet))
        })
    };
    let around = |best: f64| {
        move |it: &LanPoint| {
            let bytes = f64::from(it.packet * it.window);
            50.0 + (f64::from(it.packet) - best).abs() / 1e3 + 1e5 / bytes
        }
    };
    assert!(passes(fig13, &with(settings(), around(8_000.0))));
    assert!(!passes(fig13, &with(settings(), around(500.0))));
}

#[test]
fn larger_packets_scale_better_for_nak() {
    let settings = || {
        [500, 50_000].into_iter().flat_map(|packet| {
            COUNTS.map(|n| LanPoint::new(System::Nak { poll: 3 }, packet, 4).to(n))
        })
    };
    let time = |slope: f64| {
        move |it: &LanPoint| 50.0 + slope * f64::from(it.receivers) / f64::from(it.packet)
    };
    assert!(passes(fig14, &with(settings(), time(60.0))));
    assert!(!passes(fig14, &with(settings(), time(600.0))));
    assert!(!passes(fig14, &with(settings(), time(0.0))));
}

#[test]
fn a_ring_wants_middle_packets_and_more_than_n_of_them() {
    let packets = || [1_300, 8_000, 50_000].map(|it| LanPoint::new(System::Ring, it, 35));
    let around = |best: f64| move |it: &LanPoint| 200.0 + (f64::from(it.packet) - best).abs();
    assert!(passes(fig15, &with(packets(), around(8_000.0))));
    assert!(!passes(fig15, &with(packets(), around(1_300.0))));

    let windows = || [30, 31, 50].map(|it| LanPoint::new(System::Ring, 8_000, it));
    let time = |refused: f64, gain: f64| {
        move |it: &LanPoint| match it.window {
            30 => refused,
            31 => 200.0,
            _ => 200.0 - gain,
        }
    };
    assert!(passes(fig16, &with(windows(), time(f64::NAN, 9.0))));
    assert!(!passes(fig16, &with(windows(), time(200.0, 9.0))));
    assert!(!passes(fig16, &with(windows(), time(f64::NAN, 0.0))));

    let receivers = || COUNTS.map(|n| LanPoint::new(System::Ring, 8_000, 50).size(MB2).to(n));
    let grows = |slope: f64| move |it: &LanPoint| 188.0 + slope * f64::from(it.receivers);
    assert!(passes(fig17, &with(receivers(), grows(0.05))));
    assert!(!passes(fig17, &with(receivers(), grows(0.5))));
}

#[test]
fn neither_the_flattest_nor_the_tallest_tree_is_best() {
    let settings = || {
        [8_000, 50_000].into_iter().flat_map(|packet| {
            [1, 6, 15, 30].map(|height| LanPoint::new(System::Tree { height }, packet, 20))
        })
    };
    let time = |flat: f64| {
        move |it: &LanPoint| match (it.packet, height(it)) {
            (8_000, 1.0) => flat,
            (8_000, height) => 50.0 + (height - 15.0).abs() / 10.0,
            (_, 1.0) => 60.0,
            (_, height) => 55.0 + (height - 6.0).abs() / 10.0,
        }
    };
    assert!(passes(fig18, &with(settings(), time(62.0))));
    assert!(!passes(fig18, &with(settings(), time(40.0))));
}

#[test]
fn tall_trees_need_windows() {
    let settings = || {
        [1, 6, 30].into_iter().flat_map(|height| {
            [1, 2, 5, 10, 20].map(|window| LanPoint::new(System::Tree { height }, 8_000, window))
        })
    };
    // A tree of height H fills the wire with a third of H packets.
    let time = |each: f64| {
        move |it: &LanPoint| {
            let lacking = (height(it) * each - f64::from(it.window)).max(0.0);
            let flat = if height(it) == 1.0 { 5.0 } else { 0.0 };
            50.0 + flat + 10.0 * lacking
        }
    };
    assert!(passes(fig19, &with(settings(), time(1.0 / 3.0))));
    assert!(!passes(fig19, &with(settings(), time(0.05))));
}

#[test]
fn tall_trees_are_slow_for_small_messages() {
    let settings = || {
        [1, 3, 6, 15, 30].map(|height| LanPoint::new(System::Tree { height }, 8_000, 20).size(1))
    };
    let time = |each: f64| move |it: &LanPoint| 1.0 + each * height(it);
    assert!(passes(fig20, &with(settings(), time(0.2))));
    assert!(!passes(fig20, &with(settings(), time(0.01))));
}

#[test]
fn the_order_of_throughputs_is_that_of_table_3() {
    let settings = super::super::plan::best(MB2);
    let falling = |step: f64| {
        let times = settings.iter().enumerate();
        let times: Vec<(LanPoint, f64)> = times
            .map(|(index, setting)| (*setting, 200.0 + step * index as f64))
            .collect();
        passes(table3, &times)
    };
    assert!(falling(5.0));
    assert!(!falling(-5.0));
    assert!(!falling(0.0));
}

#[test]
fn acknowledgements_are_counted_exactly() {
    // The points of these tests count none.
    let none = LanPoint::new(System::Ack, 8_000, 2).to(3);
    assert!(!passes(table2, &[(none, 50.0)]));
}
