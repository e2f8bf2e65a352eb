//! Prices out of measured times: deciles, and least squares of relative errors without negative
//! prices.

/// The first decile, the median and the last decile of `values` (which it sorts); 0 if there are
/// none.
pub(super) fn deciles(values: &mut [u64]) -> [u64; 3] {
    values.sort_unstable();
    [1, 5, 9].map(|tenths| {
        let index = values.len() * tenths / 10;
        values.get(index).copied().unwrap_or(0)
    })
}

/// One observation: this much of each thing took this long.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Observation<const N: usize> {
    pub(super) amounts: [f64; N],
    pub(super) nanos: f64,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Fit<const N: usize> {
    /// The price of one of each thing, in nanoseconds; never negative.
    pub(super) prices: [f64; N],
    /// The root of the mean square of the relative errors.
    pub(super) error: f64,
}

/// The prices that explain `observations` best, by the squares of their relative errors; a price
/// that would be negative is nothing.
pub(super) fn fit<const N: usize>(observations: &[Observation<N>]) -> Fit<N> {
    let mut free = [true; N];
    loop {
        let prices = solve(observations, &free);
        let lowest = (0..N).min_by(|a, b| prices[*a].total_cmp(&prices[*b]));
        match lowest.filter(|index| prices[*index] < 0.0) {
            Some(index) => free[index] = false,
            None => {
                let error = error(observations, &prices);
                return Fit { prices, error };
            }
        }
    }
}

fn error<const N: usize>(observations: &[Observation<N>], prices: &[f64; N]) -> f64 {
    let squares = observations.iter().map(|observation| {
        let amounts = observation.amounts.iter();
        let expected: f64 = amounts
            .zip(prices)
            .map(|(amount, price)| amount * price)
            .sum();
        (expected / observation.nanos - 1.0).powi(2)
    });
    (squares.sum::<f64>() / observations.len().max(1) as f64).sqrt()
}

/// Solves the normal equations for the prices that are free; the others are 0.
fn solve<const N: usize>(observations: &[Observation<N>], free: &[bool; N]) -> [f64; N] {
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for observation in observations.iter().filter(|it| it.nanos > 0.0) {
        // By relative errors: every row is divided by its time.
        let row = observation.amounts.map(|amount| amount / observation.nanos);
        for i in 0..N {
            for j in 0..N {
                matrix[i][j] += row[i] * row[j];
            }
            right[i] += row[i];
        }
    }
    for i in 0..N {
        if !free[i] || matrix[i][i] == 0.0 {
            matrix[i] = [0.0; N];
            matrix.iter_mut().for_each(|row| row[i] = 0.0);
            matrix[i][i] = 1.0;
            right[i] = 0.0;
        }
    }
    eliminate(matrix, right)
}

/// Gauss, with the largest pivot of each column.
fn eliminate<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> [f64; N] {
    for column in 0..N {
        let pivot = (column..N)
            .max_by(|a, b| {
                matrix[*a][column]
                    .abs()
                    .total_cmp(&matrix[*b][column].abs())
            })
            .unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        if matrix[column][column] == 0.0 {
            continue;
        }
        let (above, known) = (matrix[column], right[column]);
        for row in column + 1..N {
            let factor = matrix[row][column] / above[column];
            for (element, pivot) in matrix[row].iter_mut().zip(&above) {
                *element -= factor * pivot;
            }
            right[row] -= factor * known;
        }
    }
    let mut solution = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N)
            .map(|index| matrix[row][index] * solution[index])
            .sum();
        if matrix[row][row] != 0.0 {
            solution[row] = (right[row] - known) / matrix[row][row];
        }
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(prices: [f64; 3], noise: impl Fn(usize) -> f64) -> Vec<Observation<3>> {
        let amounts = [1.0, 8.0, 32.0]
            .into_iter()
            .flat_map(|count| [0.1, 0.7, 1.4].map(|kib| [1.0, count, count * kib]));
        amounts
            .enumerate()
            .map(|(index, amounts)| Observation {
                amounts,
                nanos: (0..3).map(|it| amounts[it] * prices[it]).sum::<f64>() * noise(index),
            })
            .collect()
    }

    #[test]
    fn exact_times_give_their_prices_back() {
        let fit = fit(&observed([1_500.0, 250.0, 130.0], |_| 1.0));
        for (found, price) in fit.prices.iter().zip([1_500.0, 250.0, 130.0]) {
            assert!((found / price - 1.0).abs() < 1e-6, "{fit:?}");
        }
        assert!(fit.error < 1e-9);
    }

    #[test]
    fn noise_is_in_the_error_and_little_of_it_in_the_prices() {
        let noise = |index: usize| if index.is_multiple_of(2) { 1.03 } else { 0.97 };
        let fit = fit(&observed([1_500.0, 250.0, 130.0], noise));
        assert!((0.01..0.04).contains(&fit.error), "{fit:?}");
        assert!((fit.prices[0] / 1_500.0 - 1.0).abs() < 0.1, "{fit:?}");
    }

    #[test]
    fn nothing_has_a_negative_price() {
        let fit = fit(&observed([1_500.0, 250.0, -40.0], |_| 1.0));
        assert_eq!(fit.prices[2], 0.0);
        assert!(fit.prices[0] > 0.0 && fit.prices[1] > 0.0);
    }

    #[test]
    fn deciles_are_where_they_should_be() {
        assert_eq!(deciles(&mut [9, 1, 5, 2, 8, 10, 3, 7, 4, 6]), [2, 6, 10]);
        assert_eq!(deciles(&mut []), [0, 0, 0]);
    }
}
