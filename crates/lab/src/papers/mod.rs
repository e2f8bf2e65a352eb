//! The papers' tables and figures, each as one command: data, plots and a verdict on what the paper
//! concluded.
//!
//! A [`Row`] is data: where a figure stands, what it was measured on, and its *finding* in words. A
//! [`Reproduction`] is code: it produces [`Data`], judges it, and draws it. The two meet only in
//! [`registry`] and on paper: `judge` is handed the data and nothing else, so that a [`Verdict`]
//! cannot know what it is expected to say. What the paper concluded is written a second time there,
//! as arithmetic.
//!
//! - [`data`]: tables of numbers with units, as JSON and CSV; what judges and plots read.
//! - [`verdict`]: claims, what was measured, and whether they held.
//! - [`context`]: where and with which seeds to run; many runs on many threads, results in order.
//! - [`plot`]: what to draw, and SVG and PNG of it.
//! - [`record`]: a run as it is kept: data, verdict, and the commit, host and seeds that they came
//!   from.
//! - [`kept`]: the runs kept in docs/lab, and their index.
//! - [`calc`]: rows in closed form. [`rmp`], [`lan`], [`ring`], [`xtp`], [`gossip`]: the figures of
//!   000 to 004.
//!
//! # The skeleton
//!
//! A paper has a folder of its own, in which a file's name says which part of a figure it holds:
//!
//! - `mod`: the figures as [`figure::Figure`]s, and what does not come out, with the reason.
//! - `plan`: which points each figure has.
//! - `point`: what a point is (its [`figure::Point`]), and what is measured of it, as rows of a
//!   table.
//! - `sim`: a point on the simulator, with the hosts and the network that stand in for the paper's.
//! - `net`: a point on sockets of this machine, as far as `groupcast_bench` measures it.
//! - `judge`: what each figure concluded, as arithmetic on the data.
//! - `draw`: what to draw of the data.
//!
//! Files beside these are the paper's own, such as `curve`, which reads points as curves for
//! `judge` and `draw`.
//!
//! Adding a row: write it in the folder of its paper, name it in [`registry`].

pub mod calc;
pub mod context;
pub mod data;
pub mod figure;
pub mod gossip;
pub mod kept;
pub mod lan;
mod models;
pub mod plot;
mod points;
pub mod record;
pub mod registry;
pub mod ring;
pub mod rmp;
pub mod rows;
pub mod verdict;
pub mod xtp;

use std::fmt;
use std::ops::Range;

pub use context::{Context, LabHost, Options, RunError};
pub use data::{Cell, Column, Data, Table};
pub use plot::{Plot, raster};
pub use record::Record;
pub use registry::{reproduction, row};
pub use rows::rows;
pub use verdict::{Check, Verdict};

/// One table or figure of a paper.
#[derive(Debug)]
pub struct Row {
    /// Its name on the command line, such as `ring-fig1`.
    pub id: &'static str,
    /// The paper it stands in.
    pub paper: Paper,
    /// Where: `Fig. 1`, `Table 4`.
    pub place: &'static str,
    /// What it is measured on, beside the paper's [common setup](Row::common_setup).
    pub setup: &'static str,
    /// What the paper concluded, for people. No verdict reads it.
    pub finding: &'static str,
}

impl Row {
    /// What all rows of its paper share unless they say otherwise; empty if nothing.
    pub fn common_setup(&self) -> &'static str {
        rows::common_setup(self.paper)
    }
}

/// The five papers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paper {
    /// 000: RMP and the Message Bus.
    Rmp,
    /// 001: reliable multicast over Ethernet-connected networks.
    Lan,
    /// 002: the Accelerated Ring.
    AcceleratedRing,
    /// 003: a transport layer reliable multicast, XTP.
    Xtp,
    /// 004: Bimodal Multicast (the family gossip) and SRM.
    Gossip,
}

impl Paper {
    /// Its number, as comments and documents cite it.
    pub fn number(self) -> &'static str {
        match self {
            Paper::Rmp => "000",
            Paper::Lan => "001",
            Paper::AcceleratedRing => "002",
            Paper::Xtp => "003",
            Paper::Gossip => "004",
        }
    }

    /// What it is about, in a few words.
    pub fn subject(self) -> &'static str {
        match self {
            Paper::Rmp => "RMP and the Message Bus",
            Paper::Lan => "ACK, NAK, ring and tree over Ethernet",
            Paper::AcceleratedRing => "the Accelerated Ring",
            Paper::Xtp => "XTP reliable multicast",
            Paper::Gossip => "bimodal multicast and SRM",
        }
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

/// How one row is run, judged and drawn.
pub trait Reproduction: Sync {
    /// A few words for a heading, such as `Agreed latency and throughput, 1 Gb/s`.
    fn title(&self) -> &'static str;

    /// Where it can run; the first is the default.
    fn hosts(&self) -> &'static [LabHost];

    /// The seeds of a full run. A closed form has one.
    fn seeds(&self) -> Range<u64>;

    /// Runs it. Equal options give equal data on [`LabHost::Calc`] and [`LabHost::Sim`].
    ///
    /// Settings that the paper leaves open belong into the data's [conditions](Data::condition).
    fn run(&self, context: &Context<'_>) -> Result<Data, RunError>;

    /// Judges what came out. It sees the data and nothing else: not the row, not its finding, not
    /// an earlier verdict.
    fn judge(&self, data: &Data) -> Verdict;

    /// What to draw, in reading order; they become the panels of one figure.
    fn plots(&self, data: &Data) -> Vec<Plot>;
}
