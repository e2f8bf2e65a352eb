//! The daemon from outside: what a configuration may say, and daemons as values in one process.

mod config;
mod life;
mod parsed;
