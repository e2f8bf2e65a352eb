//! The judge from outside: histories in files, and random runs with one thing wrong.

mod files;
mod mutation;
