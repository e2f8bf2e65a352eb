//! A quantity over several seeds: its mean with a confidence interval (Student's t), its least and
//! its greatest value.

use serde::Serialize;

/// One quantity over the runs of several seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The mean over seeds.
    pub mean: f64,
    /// Lower end of the mean's confidence interval. `None` with one seed.
    pub low: Option<f64>,
    /// Upper end of the mean's confidence interval. `None` with one seed.
    pub high: Option<f64>,
    /// The least of any seed.
    pub min: f64,
    /// The greatest of any seed.
    pub max: f64,
    /// How many seeds have a value.
    pub seeds: usize,
}

impl Estimate {
    /// From a value a seed; the interval holds the mean with probability `confidence` (0 to 1, both
    /// excluded) if seeds scatter normally. `None` if there is no value.
    pub fn of(values: &[f64], confidence: f64) -> Option<Self> {
        let seeds = values.len();
        let mean = values.iter().sum::<f64>() / seeds as f64;
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        let half = (seeds > 1).then(|| {
            let squares: f64 = values.iter().map(|it| (it - mean) * (it - mean)).sum();
            let freedom = seeds as u32 - 1;
            student_t(confidence, freedom) * (squares / f64::from(freedom) / seeds as f64).sqrt()
        });
        Some(Self {
            mean,
            low: half.map(|half| mean - half),
            high: half.map(|half| mean + half),
            min,
            max,
            seeds,
        })
    }
}

/// The `t` such that a variable of Student's distribution with `freedom` degrees is within ±t with
/// probability `confidence` (0 to 1, both excluded).
pub fn student_t(confidence: f64, freedom: u32) -> f64 {
    let confidence = confidence.clamp(0.0, 1.0 - 1e-9);
    let mut low = 0.0;
    let mut high = 1.0;
    while within(high, freedom) < confidence {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    // The arc tangent may differ in its last digit from one platform to the next: what is written
    // must not.
    (high * 1e9).round() / 1e9
}

/// The probability of |T| ≤ t for whole degrees of freedom (Abramowitz and Stegun 26.7.3, 26.7.4).
fn within(t: f64, freedom: u32) -> f64 {
    let n = f64::from(freedom.max(1));
    let cosine2 = n / (n + t * t);
    let sine = t / (n + t * t).sqrt();
    let is_odd = freedom.max(1) % 2 == 1;
    // The sum's terms in cos θ: of even powers 0, 2, … n−2, or of odd powers 1, 3, … n−2.
    let (mut term, first) = if is_odd {
        (cosine2.sqrt(), 1)
    } else {
        (1.0, 0)
    };
    let mut sum = 0.0;
    let mut power = first;
    while power + 2 <= freedom.max(1) {
        sum += term;
        power += 2;
        term *= cosine2 * f64::from(power - 1) / f64::from(power);
    }
    if is_odd {
        ((t / n.sqrt()).atan() + sine * sum) * std::f64::consts::FRAC_2_PI
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn quantiles_match_the_printed_tables() {
        for (confidence, freedom, t) in [
            (0.95, 1, 12.706),
            (0.95, 2, 4.303),
            (0.95, 4, 2.776),
            (0.99, 4, 4.604),
            (0.90, 9, 1.833),
            (0.95, 9, 2.262),
            (0.95, 30, 2.042),
            (0.99, 120, 2.617),
            (0.95, 100_000, 1.960),
        ] {
            let found = student_t(confidence, freedom);
            assert!(
                (found - t).abs() < 0.0006,
                "{confidence} {freedom}: {found}"
            );
        }
    }

    #[test]
    fn an_interval_covers_the_true_mean_as_often_as_it_promises() {
        let mut rng = Rng::new(11);
        // Sums of twelve even numbers are as good as normal; their mean is 6.
        let mut covered = [0; 2];
        for _ in 0..4_000 {
            let values: Vec<f64> = (0..5).map(|_| (0..12).map(|_| rng.unit()).sum()).collect();
            for (count, confidence) in covered.iter_mut().zip([0.95, 0.80]) {
                let estimate = Estimate::of(&values, confidence).unwrap();
                let inside = estimate.low.unwrap() <= 6.0 && 6.0 <= estimate.high.unwrap();
                *count += i32::from(inside);
            }
        }
        // Three standard errors: 41 and 76 of 4,000.
        assert!((covered[0] - 3_800).abs() < 41, "{covered:?}");
        assert!((covered[1] - 3_200).abs() < 76, "{covered:?}");
    }

    #[test]
    fn one_seed_has_no_interval_and_none_has_no_estimate() {
        let one = Estimate::of(&[3.5], 0.95).unwrap();
        assert_eq!((one.mean, one.low, one.high), (3.5, None, None));
        assert_eq!((one.min, one.max, one.seeds), (3.5, 3.5, 1));
        assert_eq!(Estimate::of(&[], 0.95), None);
        let equal = Estimate::of(&[2.0; 5], 0.95).unwrap();
        assert_eq!((equal.low, equal.high), (Some(2.0), Some(2.0)));
    }
}
