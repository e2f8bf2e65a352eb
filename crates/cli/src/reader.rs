//! The reader of what a command prints.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether the reader of `out`, a pipe or a terminal, has gone, asked without writing anything.
pub(crate) fn has_gone(out: &impl AsFd) -> bool {
    let mut out = [PollFd::new(out, PollFlags::empty())];
    let asked = poll(&mut out, Some(&Timespec::default()));
    asked.is_ok() && out[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
