//! Exponential random numbers, the same bits on every machine.
//!
//! A standard library's logarithm may differ in its last digit from one platform to the next, and a
//! world must not.

use groupcast_core::Rng;

/// A random number, exponentially distributed with mean 1.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    // 53 random bits and a half: never 0, never 1.
    let bits = (rng.next_u64() >> 11) as f64 + 0.5;
    -ln(bits / (1u64 << 53) as f64)
}

/// The natural logarithm of a positive, normal number: 2 artanh((m−1)/(m+1)) + e ln 2 for m·2^e,
/// with m near 1.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1_023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | 1_023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    // |s| ≤ 0.172: the terms left out are below 2^-53.
    let series = (0..=10)
        .rev()
        .fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    2.0 * s * series + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right_to_the_last_digits() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let x = rng.unit() * (1u64 << rng.below(40)) as f64 + 1e-12;
            let error = (ln(x) - x.ln()).abs();
            assert!(
                error <= 4.0 * f64::EPSILON * x.ln().abs().max(1.0),
                "{x}: {error}"
            );
        }
    }

    #[test]
    fn mean_and_variance_are_one_and_the_tail_is_exponential() {
        let mut rng = Rng::new(2);
        let values: Vec<f64> = (0..200_000).map(|_| exponential(&mut rng)).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        let tail = values.iter().filter(|it| **it > 3.0).count() as f64 / count;
        // Four standard errors.
        assert!((mean - 1.0).abs() < 0.009, "{mean}");
        assert!((variance - 1.0).abs() < 0.026, "{variance}");
        assert!((tail - (-3.0f64).exp()).abs() < 0.002, "{tail}");
    }
}
