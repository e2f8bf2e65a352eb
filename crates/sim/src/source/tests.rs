//! Sources against closed forms: counts, gaps, bursts; and what refusal, silence and replies do.

use std::sync::Arc;

use super::*;

const SECOND: Time = Time::from_millis(1_000);

fn source(arrivals: Arrivals) -> Source {
    with(SourceConfig::new(arrivals, 100, Service::Agreed))
}

fn with(config: SourceConfig) -> Source {
    Source::new(config, Rng::new(1)).unwrap()
}

/// The times of all messages before `limit`, each of which is taken.
fn times(source: &mut Source, limit: Time) -> Vec<u64> {
    let mut times = Vec::new();
    while let Some(due) = source.due().filter(|due| *due < limit) {
        assert_eq!(
            source.take(due).map(|it| it.service),
            Some(source.config().service)
        );
        source.taken();
        times.push(due.as_nanos());
    }
    times
}

#[test]
fn a_constant_rate_does_not_drift() {
    let times = times(
        &mut source(Arrivals::Constant { rate: 3.0 }),
        Time::from_millis(1_000_000),
    );
    assert_eq!(times.len(), 3_000);
    assert_eq!(&times[..4], [0, 333_333_333, 666_666_667, 1_000_000_000]);
    assert_eq!(times[2_997], 999_000_000_000);
}

#[test]
fn poisson_counts_have_the_mean_and_the_variance_of_poisson() {
    let times = times(
        &mut source(Arrivals::Poisson { rate: 1_000.0 }),
        Time::from_millis(100_000),
    );
    // Counts in windows of 10 ms: mean 10, variance 10.
    let mut counts = vec![0.0f64; 10_000];
    times
        .iter()
        .for_each(|at| counts[(at / 10_000_000) as usize] += 1.0);
    let mean = counts.iter().sum::<f64>() / 1e4;
    let variance = counts.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 1e4;
    // Four standard errors: √(10/10⁴), and √((10 + 2·10²)/10⁴) for the variance.
    assert!((mean - 10.0).abs() < 0.13, "{mean}");
    assert!((variance - 10.0).abs() < 0.58, "{variance}");
    // The share of empty windows of 1 ms is e^-1.
    let mut empty = vec![true; 100_000];
    times
        .iter()
        .for_each(|at| empty[(at / 1_000_000) as usize] = false);
    let share = empty.iter().filter(|it| **it).count() as f64 / 1e5;
    assert!((share - (-1.0f64).exp()).abs() < 0.0062, "{share}");
}

#[test]
fn bursts_come_at_once_and_keep_the_rate() {
    let times = times(
        &mut source(Arrivals::Bursts {
            rate: 100.0,
            burst: 5,
        }),
        SECOND,
    );
    assert_eq!(times.len(), 100);
    assert_eq!(times[4], 0);
    assert!(times[5..10].iter().all(|at| *at == 50_000_000));
}

#[test]
fn a_trace_is_played_from_the_start() {
    let ms = Duration::from_millis;
    let trace: Arc<[_]> = [(ms(0), 10), (ms(5), 20), (ms(5), 30)].into();
    let mut config = SourceConfig::new(Arrivals::Trace(trace), 0, Service::Fifo);
    config.start = SECOND;
    let mut source = with(config);
    let mut seen = Vec::new();
    while let Some(due) = source.due() {
        seen.push((due.as_nanos() / 1_000_000, source.take(due).unwrap().len));
    }
    assert_eq!(seen, [(1_000, 10), (1_005, 20), (1_005, 30)]);
    assert!(source.is_done());
}

#[test]
fn count_and_stop_end_a_source() {
    let mut config = SourceConfig::new(Arrivals::Constant { rate: 10.0 }, 1, Service::Agreed);
    config.count = Some(3);
    assert_eq!(times(&mut with(config.clone()), SECOND).len(), 3);
    config.count = None;
    config.stop = Time::from_millis(500);
    let mut source = with(config);
    assert_eq!(times(&mut source, Time::MAX).len(), 5);
    assert!(source.is_done());
}

#[test]
fn a_rate_loses_what_is_refused_and_saturation_waits_for_room() {
    let mut constant = source(Arrivals::Constant { rate: 10.0 });
    constant.take(Time::ZERO).unwrap();
    constant.refused();
    assert_eq!(constant.due(), Some(Time::from_millis(100)));
    assert_eq!(constant.accepted(), 0);
    let mut greedy = source(Arrivals::Saturate);
    let soon = Time::from_nanos(300);
    assert_eq!(times(&mut greedy, soon), [0, 100, 200]);
    greedy.take(soon).unwrap();
    greedy.refused();
    assert_eq!((greedy.due(), greedy.take(SECOND)), (None, None));
    greedy.writable(SECOND);
    assert_eq!(greedy.due(), Some(SECOND));
    greedy.not_before(SECOND + Duration::from_micros(3));
    assert_eq!(greedy.take(SECOND), None);
    assert_eq!(greedy.due(), Some(SECOND + Duration::from_micros(3)));
}

#[test]
fn replies_answer_only_those_they_are_for_and_are_not_lost() {
    let mut arrivals = Arrivals::reply([2]);
    if let Arrivals::Reply { advance, .. } = &mut arrivals {
        *advance = 1;
    }
    let mut source = source(arrivals);
    assert_eq!(times(&mut source, SECOND), [0]);
    source.delivered(SECOND, 1);
    assert_eq!(source.due(), None);
    source.delivered(SECOND, 2);
    source.delivered(SECOND, 2);
    source.take(SECOND).unwrap();
    source.refused();
    assert_eq!(source.due(), None);
    source.writable(SECOND);
    assert_eq!(
        times(&mut source, Time::MAX),
        [1_000_000_100, 1_000_000_200]
    );
}

#[test]
fn after_a_silence_nothing_is_made_up_for() {
    let mut constant = source(Arrivals::Constant { rate: 10.0 });
    assert_eq!(times(&mut constant, Time::from_millis(150)).len(), 2);
    constant.silence();
    assert_eq!(constant.due(), None);
    constant.sound(Time::from_millis(1_005));
    let times = times(&mut constant, Time::from_millis(1_200));
    assert_eq!(times, [1_005_000_000, 1_105_000_000]);
}

#[test]
fn a_stagger_is_within_its_bound_and_differs_between_hosts() {
    let mut config = SourceConfig::new(Arrivals::Constant { rate: 10.0 }, 1, Service::Agreed);
    config.stagger = Duration::from_millis(100);
    let starts: Vec<_> = (0..20)
        .map(|seed| {
            Source::new(config.clone(), Rng::new(seed))
                .unwrap()
                .due()
                .unwrap()
        })
        .collect();
    assert!(starts.iter().all(|start| *start < Time::from_millis(100)));
    let distinct: std::collections::BTreeSet<_> = starts.iter().collect();
    assert_eq!(distinct.len(), 20);
}

#[test]
fn a_source_that_cannot_be_says_why() {
    let refused = |arrivals| {
        let config = SourceConfig::new(arrivals, 1, Service::Agreed);
        Source::new(config, Rng::new(1)).unwrap_err().to_string()
    };
    assert!(refused(Arrivals::Constant { rate: 0.0 }).contains("0 messages a second"));
    assert!(refused(Arrivals::Poisson { rate: f64::NAN }).contains("NaN"));
    assert!(
        refused(Arrivals::Bursts {
            rate: 1.0,
            burst: 0
        })
        .contains("at least one")
    );
    let trace = [(Duration::from_secs(2), 1), (Duration::from_secs(1), 1)];
    assert!(refused(Arrivals::Trace(trace.into())).contains("entry 1"));
}
