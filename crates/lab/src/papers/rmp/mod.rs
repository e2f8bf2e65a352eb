//! 000: RMP, the engine itself with 000's constants.
//!
//! - `transcript`: Fig. 6, packet by packet.

#[cfg(test)]
mod tests;
mod transcript;

pub use self::transcript::Transcript;
