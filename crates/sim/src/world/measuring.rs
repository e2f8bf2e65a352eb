//! What is measured in a world; nothing by default.
use groupcast_core::trace::Inspect;
use groupcast_core::{Ordered, SocketClass};

use super::World;

pub(crate) struct Measuring {
    pub(crate) inspect: Inspect,
}

impl<P: Ordered> World<P> {
    pub(super) fn measure_sent(&mut self, _from: usize, _class: SocketClass, _segment: &[u8]) {}
}
