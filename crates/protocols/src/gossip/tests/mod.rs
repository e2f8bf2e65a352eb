//! Members that exchange scripted messages without a network: what is said is written down, line by
//! line.

mod bounds;
mod exchanges;
mod hashing;
mod life;
mod proofs;
mod script;
mod sizes;
