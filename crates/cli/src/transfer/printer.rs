//! Printing on a thread of its own: a reader that does not read, a stopped terminal or a slow disk
//! delays no time-out of the protocol, and no transfer.
//!
//! Lines wait in a queue with a bound. Those that the next ones make stale, such as progress, are
//! left out while a reader is behind. Others are not, unless so many wait that the bound is
//! reached; then the user is told how many are missing. When the command ends it waits until
//! everything is printed, but only for [`LAST`](Printer::LAST) once it is to stop.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// What prints, on the printing thread. It is dropped there when everything is printed.
pub(super) trait Print: Send + 'static {
    /// What it prints.
    type Item: Send + 'static;

    /// Prints `item`. May wait for whoever reads.
    fn print(&mut self, item: Self::Item);

    /// So many items that must not be left out were, before the next one.
    fn left_out(&mut self, items: u64);

    /// Everything is printed. Returns why the last item could not be, if that is so.
    fn close(self) -> io::Result<()>;
}

/// A queue of things to be printed, and the thread that prints them.
pub(super) struct Printer<T> {
    queue: Arc<Queue<T>>,
}

struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// What is printed last, whatever is left out.
    last: Option<T>,
    /// How many that must not be left out were, because too many wait.
    left_out: u64,
    /// Whether nothing comes any more.
    is_closed: bool,
    /// Whether the thread has ended.
    is_over: bool,
    /// Whether everything was printed then, and the last of it could be.
    printed: io::Result<()>,
}

/// Says that the thread has ended, however it does.
struct Over<T>(Arc<Queue<T>>);

impl<T> Drop for Over<T> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A thread that panicked leaves a valid queue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item, with how many were left out before it, once there is one.
    fn next(&self) -> Option<(u64, Option<T>)> {
        let mut state = self.lock();
        loop {
            let left_out = match state.waiting.is_empty() {
                true => std::mem::take(&mut state.left_out),
                false => 0,
            };
            let item = state.waiting.pop_front();
            if item.is_some() || left_out > 0 {
                return Some((left_out, item));
            }
            if state.is_closed {
                return state.last.take().map(|last| (0, Some(last)));
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T: Send + 'static> Printer<T> {
    /// The most items that wait: some megabytes.
    const MOST: usize = 16_384;
    /// While so many wait, what becomes stale is left out.
    const BEHIND: usize = 16;
    /// How long a command that is to stop waits for a reader.
    pub(super) const LAST: Duration = Duration::from_secs(2);

    /// Starts the thread.
    pub(super) fn start(mut printing: impl Print<Item = T>) -> Result<Self, Failure> {
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                last: None,
                left_out: 0,
                is_closed: false,
                is_over: false,
                // What it is if the thread panics.
                printed: Err(io::Error::other("its thread has failed")),
            }),
            changed: Condvar::new(),
        });
        let taken = Arc::clone(&queue);
        let print = move || {
            let over = Over(Arc::clone(&taken));
            while let Some((left_out, item)) = taken.next() {
                if left_out > 0 {
                    printing.left_out(left_out);
                }
                if let Some(item) = item {
                    printing.print(item);
                }
            }
            let closed = printing.close();
            taken.lock().printed = closed;
            drop(over);
        };
        thread::Builder::new()
            .name("print".into())
            .spawn(print)
            .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(Self { queue })
    }

    /// Prints `item` after what waits.
    pub(super) fn print(&self, item: T) {
        self.put(item, Self::MOST, true);
    }

    /// The same for an item that the next one makes stale: it is left out if a reader is behind.
    pub(super) fn print_stale(&self, item: T) {
        self.put(item, Self::BEHIND, false);
    }

    /// Prints `item` after everything else, when this is [ended](Self::end); it has room always.
    pub(super) fn print_last(&self, item: T) {
        self.queue.lock().last = Some(item);
    }

    fn put(&self, item: T, most: usize, counts: bool) {
        let mut state = self.queue.lock();
        // After a gap nothing is put behind it before the gap is told.
        if state.waiting.len() < most && state.left_out == 0 {
            state.waiting.push_back(item);
        } else if counts {
            state.left_out += 1;
        }
        drop(state);
        self.queue.changed.notify_all();
    }

    /// Returns when everything is printed: true; or [`LAST`](Self::LAST) after `stop` was set and
    /// this was called: false, and the thread is left alone.
    ///
    /// # Errors
    /// If the last item could not be printed, though its reader is there, or the thread has failed.
    pub(super) fn end(self, stop: &AtomicBool) -> io::Result<bool> {
        /// How late a stop request is seen.
        const PATIENCE: Duration = Duration::from_millis(50);
        let mut state = self.queue.lock();
        state.is_closed = true;
        self.queue.changed.notify_all();
        let mut stopped: Option<Instant> = None;
        while !state.is_over {
            if stop.load(Ordering::Relaxed) {
                let since = *stopped.get_or_insert_with(Instant::now);
                if since.elapsed() >= Self::LAST {
                    return Ok(false);
                }
            }
            let waited = self.queue.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::replace(&mut state.printed, Ok(())).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// Prints one item for each word of its reader.
    struct Slow {
        reader: Receiver<()>,
        printed: Sender<String>,
    }

    impl Print for Slow {
        type Item = usize;

        fn print(&mut self, item: usize) {
            // A reader that has gone reads everything.
            let _ = self.reader.recv();
            let _ = self.printed.send(item.to_string());
        }

        fn left_out(&mut self, items: u64) {
            let _ = self.printed.send(format!("without {items}"));
        }

        fn close(self) -> io::Result<()> {
            let _ = self.printed.send("end".into());
            Ok(())
        }
    }

    fn slow() -> (Printer<usize>, Sender<()>, Receiver<String>) {
        let (read, reader) = mpsc::channel();
        let (printed, lines) = mpsc::channel();
        let printer = Printer::start(Slow { reader, printed });
        (printer.expect("a thread can be started"), read, lines)
    }

    #[test]
    fn what_nobody_reads_waits_and_only_what_is_stale_is_left_out() {
        let (printer, read, lines) = slow();
        for item in 0..1000 {
            match item % 10 {
                0 => printer.print(item),
                _ => printer.print_stale(item),
            }
        }
        // The reader reads all from now on.
        drop(read);
        assert!(printer.end(&AtomicBool::new(false)).expect("it was"));
        let printed: Vec<String> = lines.iter().collect();
        for item in (0..1000).step_by(10) {
            assert!(printed.contains(&item.to_string()), "{item}: {printed:?}");
        }
        assert!(printed.len() < 150, "{printed:?}");
        assert_eq!(printed.last().map(String::as_str), Some("end"));
    }

    #[test]
    fn memory_has_a_bound_and_what_is_missing_is_told() {
        let (printer, read, lines) = slow();
        // The thread holds at most one of them.
        for item in 0..Printer::<usize>::MOST + 11 {
            printer.print(item);
        }
        printer.print_last(usize::MAX);
        drop(read);
        assert!(printer.end(&AtomicBool::new(false)).expect("it was"));
        let printed: Vec<String> = lines.iter().collect();
        let last = printed.len() - 2;
        assert_eq!(printed[last], usize::MAX.to_string(), "it has room always");
        let missing = printed
            .iter()
            .find_map(|line| line.strip_prefix("without "));
        let missing: usize = missing.expect("it is told").parse().expect("a number");
        assert!((10..=11).contains(&missing), "{missing}");
        assert_eq!(printed.len(), Printer::<usize>::MOST + 11 - missing + 3);
    }

    #[test]
    fn a_command_does_not_wait_for_a_thread_that_has_failed() {
        struct Fails;
        impl Print for Fails {
            type Item = ();

            fn print(&mut self, (): ()) {
                panic!("this is the test's");
            }

            fn left_out(&mut self, _: u64) {}

            fn close(self) -> io::Result<()> {
                Ok(())
            }
        }
        let printer = Printer::start(Fails).expect("a thread can be started");
        printer.print(());
        let failed = printer.end(&AtomicBool::new(false));
        let failed = failed.expect_err("nothing is known of the last item");
        assert_eq!(failed.to_string(), "its thread has failed");
    }

    #[test]
    fn a_command_that_is_to_stop_does_not_wait_for_a_reader_for_long() {
        let (printer, read, _lines) = slow();
        printer.print(1);
        let begun = Instant::now();
        assert!(!printer.end(&AtomicBool::new(true)).expect("it was"));
        assert!(begun.elapsed() >= Printer::<usize>::LAST);
        drop(read);
    }
}
