//! What a process may ask of its host so that it runs in time: real-time priority and memory that
//! is never swapped out.

use std::io;

use crate::sys;

/// The highest real-time priority that may be asked for.
pub const REAL_TIME_PRIORITY_MAX: u32 = 99;

/// From now on the calling thread, and those that it begins, run before all that has no real-time
/// priority (SCHED_FIFO). `priority` is 1 to [`REAL_TIME_PRIORITY_MAX`].
///
/// # Errors
/// What the system says: without the capability CAP_SYS_NICE it allows no more than the limit
/// RLIMIT_RTPRIO.
pub fn run_in_real_time(priority: u32) -> io::Result<()> {
    let priority = i32::try_from(priority).map_err(|_| io::ErrorKind::InvalidInput)?;
    sys::run_in_real_time(priority)
}

/// From now on no memory of this process is swapped out.
///
/// # Errors
/// What the system says: without the capability CAP_IPC_LOCK it allows no more than the limit
/// RLIMIT_MEMLOCK.
pub fn lock_memory() -> io::Result<()> {
    sys::lock_memory()
}
