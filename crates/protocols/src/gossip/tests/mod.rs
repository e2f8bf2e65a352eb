//! Members that exchange scripted messages without a network: what is said is written down, line by line.

mod exchanges;
mod script;
