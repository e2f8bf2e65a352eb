//! ACK beside TCP and raw UDP, its packets, windows and receivers (001 Fig. 8–11).

use super::super::super::Verdict;
use super::super::points::{Points, line};
use super::{SAME, growth, list, percent};

/// TCP beside ACK.
pub(in super::super) fn fig8(points: &Points, verdict: &mut Verdict) {
    let (tcp, ack) = (points.system("tcp"), points.system("ack"));
    let times = tcp.curve(|key| key.receivers);
    let (_, slope, straight) = line(&times);
    verdict.check(
        straight >= 0.99 && growth(&tcp) >= 15.0,
        "TCP's time is linear in N (a straight line explains 99 % of it, and 30 take at least 15 times as long as one)",
        format!(
            "{slope:.1} ms a receiver, {:.2} % explained, 30 take {:.1} times as long",
            straight * 100.0,
            growth(&tcp)
        ),
    );
    let grows = percent(growth(&ack));
    verdict.check(
        grows < 10.0,
        "ACK's time grows by less than 10 % from 1 to 30",
        format!(
            "{grows:.1} % (6 % in the paper), from {:.1} ms",
            ack.of(|key| key.receivers == 1.0).time()
        ),
    );
    let behind: Vec<f64> = ack
        .iter()
        .filter(|point| point.key.receivers > 1.0)
        .filter(|point| {
            let tcp = tcp.of(|key| key.receivers == point.key.receivers).time();
            point.time().partial_cmp(&tcp) != Some(std::cmp::Ordering::Less)
        })
        .map(|point| point.key.receivers)
        .collect();
    verdict.check(
        behind.is_empty(),
        "ACK is ahead of TCP for N > 1",
        match behind.is_empty() {
            true => "at every N".to_owned(),
            false => format!("not at {behind:?}"),
        },
    );
}

/// What ACK costs beyond raw UDP.
pub(in super::super) fn fig9(points: &Points, verdict: &mut Verdict) {
    let at = |name: &str, copies: bool, size: f64| {
        points
            .of(|key| key.system == name && key.size == size && (key.copy > 0.0) == copies)
            .time()
    };
    let sizes = points.values(|key| key.size);
    let (Some(small), Some(large)) = (sizes.first(), sizes.last()) else {
        verdict.check(false, "there are points", "none");
        return;
    };
    let ratio = at("ack", true, *small) / at("udp", true, *small);
    verdict.check(
        (1.6..=3.0).contains(&ratio),
        format!("{small} B: two round trips instead of one, so 1.6 to 3 times raw UDP's time"),
        format!("{ratio:.2} times"),
    );
    let (ack, free, udp) = (
        at("ack", true, *large),
        at("ack", false, *large),
        at("udp", true, *large),
    );
    let share = (ack - free) / (ack - udp);
    verdict.check(
        share >= 0.5,
        format!("{large} B: the copy is most of what ACK costs beyond raw UDP"),
        format!(
            "{:.0} % of it: ACK {ack:.2} ms, without the copy {free:.2} ms, UDP {udp:.2} ms",
            share * 100.0
        ),
    );
}

/// ACK: packets and windows.
pub(in super::super) fn fig10(points: &Points, verdict: &mut Verdict) {
    let packets = points.values(|key| key.packet);
    let mut best = Vec::new();
    let mut worse = Vec::new();
    for packet in &packets {
        let of = points.of(|key| key.packet == *packet);
        let two = of.of(|key| key.window == 2.0).time();
        best.push((*packet, two));
        worse.push((*packet, percent(two / of.best_time())));
    }
    verdict.check(
        worse.iter().all(|(_, percent)| *percent <= SAME * 100.0),
        "a window of 2 is the best at every packet size, within 1 %",
        format!("above the best: {}", list(&worse, " %")),
    );
    let one: Vec<(f64, f64)> = packets
        .iter()
        .zip(&best)
        .map(|(packet, (_, two))| {
            let one = points.of(|key| key.packet == *packet && key.window == 1.0);
            (*packet, percent(one.time() / two))
        })
        .collect();
    verdict.check(
        one.iter().all(|(_, percent)| *percent > SAME * 100.0),
        "a window of 1 is worse at every packet size",
        format!("beyond the time with 2: {}", list(&one, " %")),
    );
    verdict.check(
        best.is_sorted_by(|a, b| a.1 >= b.1) && best.len() > 1,
        "larger packets are better, with a window of 2",
        list(&best, " ms"),
    );
}

/// ACK: small and large messages.
pub(in super::super) fn fig11(points: &Points, verdict: &mut Verdict) {
    for size in points.values(|key| key.size) {
        let of = points.of(|key| key.size == size);
        let growth = growth(&of);
        if size < 4_000.0 {
            let (_, slope, straight) = line(&of.curve(|key| key.receivers));
            verdict.check(
                straight >= 0.95 && growth >= 1.5,
                format!("{size} B: linear in N (95 % explained, at least 1.5 times from 1 to 30)"),
                format!(
                    "{:.0} µs a receiver, {:.1} % explained, {growth:.1} times",
                    slope * 1_000.0,
                    straight * 100.0
                ),
            );
        } else if size > 8_000.0 {
            verdict.check(
                growth <= 1.25,
                format!("{size} B: about flat (at most 25 % from 1 to 30)"),
                format!("{:.1} %", percent(growth)),
            );
        }
    }
}
