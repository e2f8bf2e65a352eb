//! Bodies of the fuzz targets: functions of any bytes that must not panic, hang, grow or lie.
//!
//! `fuzz/` calls each from libFuzzer, and `suite/tests/corpus.rs` replays the committed corpora
//! through the same functions. The bytes are read as a *script*: a byte chooses what happens next,
//! the following ones say how. Every script means something, so that mutations of one rarely end at
//! its first byte.

use groupcast_core::{Incarnation, MemberId, NodeId};

mod access;
mod bus;
mod disk;
mod family;
mod frames;
mod groups;
mod history;
mod lists;
mod node;
mod rekey;
mod relay;
mod replies;
mod wire;

pub use access::access;
pub use bus::bus;
pub use family::family;
pub use frames::frames;
pub use groups::groups;
pub use history::history;
pub use lists::lists;
pub use node::node;
pub use rekey::rekey;
pub use relay::relay;
pub use replies::replies;

/// A target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets but [`family`], which is one target for each family of the registry, by the family's
/// name.
pub const TARGETS: &[Target] = &[
    ("access", access),
    ("bus", bus),
    ("frames", frames),
    ("groups", groups),
    ("history", history),
    ("lists", lists),
    ("node", node),
    ("rekey", rekey),
    ("relay", relay),
    ("replies", replies),
];

/// The member number `index` of a script's world.
fn member(index: usize) -> MemberId {
    MemberId {
        node: NodeId(index as u64 + 1),
        incarnation: Incarnation(index as u64 + 101),
    }
}

/// Reads a script from the front. At its end numbers are 0 and bytes are few.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// The byte that says what happens next; `None` at the end.
    fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> u8 {
        self.step().unwrap_or(0)
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// An index below `len`, which is not 0.
    fn index(&mut self, len: usize) -> usize {
        usize::from(self.u8()) % len
    }

    /// Up to 255 bytes, preceded by how many.
    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u8()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }
}
