//! The binary as its users run it: one file a part of the command line, one test program for all.

mod access;
mod book;
mod bus;
mod bus_wrong;
mod circumstances;
mod demo;
mod group;
mod host;
mod lab;
mod languages;
mod lost_output;
mod metrics;
mod monitor;
mod process;
mod relay;
mod replica;
mod requests;
mod ring_keys;
mod rings;
mod service;
mod sim;
mod terminal;
mod tls;
mod transfer;
mod usage;
