//! Random members: k of n, every set as likely as every other.

use groupcast_core::Rng;
use thiserror::Error;

/// Draws `count` of `all`, among them `include` in any case, in ascending order.
///
/// A larger `count` with a generator in the same state adds to what a smaller one draws: a sweep
/// over group sizes compares groups that grow. Takes as long as a copy of `all` and a sort.
///
/// # Errors
/// There are fewer than `count`, `count` is less than what must be included, or that is not among
/// `all`.
pub fn draw<T: Copy + Ord>(
    all: &[T],
    include: &[T],
    count: usize,
    rng: &mut Rng,
) -> Result<Vec<T>, DrawError> {
    let mut rest = all.to_vec();
    rest.sort_unstable();
    rest.dedup();
    let distinct = rest.len();
    let mut drawn = include.to_vec();
    drawn.sort_unstable();
    drawn.dedup();
    rest.retain(|it| drawn.binary_search(it).is_err());
    if rest.len() + drawn.len() != distinct {
        return Err(DrawError::NotAmong);
    }
    let Some(wanted) = count.checked_sub(drawn.len()) else {
        return Err(DrawError::TooFew {
            count,
            include: drawn.len(),
        });
    };
    if wanted > rest.len() {
        return Err(DrawError::TooMany {
            count,
            all: distinct,
        });
    }
    // Fisher and Yates, stopped when there are enough.
    for index in 0..wanted {
        let other = rng.range(index as u64..rest.len() as u64) as usize;
        rest.swap(index, other);
    }
    drawn.extend_from_slice(&rest[..wanted]);
    drawn.sort_unstable();
    Ok(drawn)
}

/// Why this many cannot be drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DrawError {
    /// More are wanted than there are.
    #[error("{count} are to be drawn, but there are only {all}")]
    TooMany {
        /// How many are wanted.
        count: usize,
        /// How many there are.
        all: usize,
    },
    /// More must be included than are wanted.
    #[error("{count} are to be drawn, but {include} are to be among them")]
    TooFew {
        /// How many are wanted.
        count: usize,
        /// How many must be included.
        include: usize,
    },
    /// What must be included is not there to draw from.
    #[error("one that is to be included is not among those to draw from")]
    NotAmong,
}
