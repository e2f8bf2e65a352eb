//! Where a row runs, with which seeds, on how many threads; and what can keep it from running.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

/// What stands in for the paper's hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabHost {
    /// A closed form, or a model without a network.
    Calc,
    /// The simulator: deterministic, any machine.
    Sim,
    /// Real sockets between network namespaces of this machine; needs root.
    Net,
}

impl LabHost {
    /// Whether equal options give equal data.
    pub fn is_deterministic(self) -> bool {
        self != LabHost::Net
    }
}

impl fmt::Display for LabHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LabHost::Calc => "calc",
            LabHost::Sim => "sim",
            LabHost::Net => "net",
        })
    }
}

impl FromStr for LabHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [LabHost::Calc, LabHost::Sim, LabHost::Net]
            .into_iter()
            .find(|host| host.to_string() == text)
            .ok_or("is not one of: calc, sim, net")
    }
}

/// What the user chose for a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to run.
    pub host: LabHost,
    /// With which seeds.
    pub seeds: Range<u64>,
    /// A run of seconds that shows the shape: fewer points, shorter runs.
    pub quick: bool,
    /// Threads at most.
    pub jobs: usize,
    /// The `groupcast` binary, which a run on [`LabHost::Net`] starts processes from.
    pub executable: PathBuf,
    /// Where a run may leave files of its own, such as captures; `None` if nobody asked.
    pub out: Option<PathBuf>,
}

/// The surroundings of a run: its options, and somebody who watches it.
pub struct Context<'a> {
    options: &'a Options,
    watch: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> Context<'a> {
    /// The surroundings of a run; `watch` hears how many of how many parts are done.
    pub fn new(options: &'a Options, watch: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self { options, watch }
    }

    /// What the user chose.
    pub fn options(&self) -> &Options {
        self.options
    }

    /// The seeds, in order.
    pub fn seeds(&self) -> Range<u64> {
        self.options.seeds.clone()
    }

    /// `full`, or `quick` in a quick run.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// Does `work` on every item on up to [`Options::jobs`] threads; the results stand in the
    /// items' order.
    ///
    /// The first error in that order is returned; parts that were begun are finished, no others
    /// begun.
    pub fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> Result<R, RunError> + Sync,
    ) -> Result<Vec<R>, RunError> {
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<R, RunError>>>> =
            items.iter().map(|_| Mutex::new(None)).collect();
        let take = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return };
                let result = work(item);
                if result.is_err() {
                    next.store(items.len(), Ordering::Relaxed);
                }
                if let Ok(mut place) = results[index].lock() {
                    *place = Some(result);
                }
                (self.watch)(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
            }
        };
        (self.watch)(0, items.len());
        thread::scope(|scope| {
            // The calling thread works too.
            for _ in 1..self.options.jobs.clamp(1, items.len().max(1)) {
                scope.spawn(take);
            }
            take();
        });
        let begun = results
            .into_iter()
            .filter_map(|place| place.into_inner().ok().flatten());
        begun.collect()
    }
}

/// Why a row could not be run. Nothing is kept of such a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// This machine cannot run it there: no root, no namespaces.
    #[error("{0}")]
    Unavailable(String),
    /// It was begun and did not come to its end.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
pub(crate) fn options(seeds: Range<u64>, quick: bool, jobs: usize) -> Options {
    Options {
        host: LabHost::Calc,
        seeds,
        quick,
        jobs,
        executable: PathBuf::new(),
        out: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_items_order_whatever_the_threads() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [1, 2, 7] {
            let options = options(0..1, false, jobs);
            let heard = AtomicUsize::new(0);
            let watch = |_, _| {
                heard.fetch_add(1, Ordering::Relaxed);
            };
            let squares = Context::new(&options, &watch).each(&items, |item| Ok(item * item));
            let expected: Vec<u64> = items.iter().map(|item| item * item).collect();
            assert_eq!(squares.unwrap(), expected);
            assert_eq!(heard.into_inner(), 101);
        }
    }

    #[test]
    fn the_first_error_stops_what_was_not_begun() {
        let options = options(0..1, false, 1);
        let begun = AtomicUsize::new(0);
        let result = Context::new(&options, &|_, _| {}).each(&[1, 2, 3], |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            match item {
                2 => Err(RunError::Failed("two".to_owned())),
                _ => Ok(*item),
            }
        });
        assert_eq!(result.unwrap_err().to_string(), "two");
        assert_eq!(begun.into_inner(), 2);
    }

    #[test]
    fn a_host_is_read_as_it_is_written() {
        for host in [LabHost::Calc, LabHost::Sim, LabHost::Net] {
            assert_eq!(host.to_string().parse(), Ok(host));
        }
        assert!("moon".parse::<LabHost>().is_err());
    }
}
