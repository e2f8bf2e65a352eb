//! A receiver's target directory, whatever becomes of it while the receiver runs.
//!
//! A [`Spool`] has the directory and its folder by descriptors, which stay valid when their names
//! are removed, and lead nowhere then. So each transfer looks before it begins, on its disk's
//! thread, whether the names still lead there. If not, the spool is opened anew, as when the
//! receiver starts. Transfers under way keep the former one, and fail.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Spool, SpoolError};
use crate::manifest::Limits;
use crate::warnings::Warnings;

/// A target directory, in use by one receiver.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    limits: Limits,
    durable: bool,
    spool: Mutex<Arc<Spool>>,
    warnings: Arc<Warnings>,
    /// One of the constants below.
    news: AtomicU8,
}

impl Home {
    /// Nothing is new.
    const OLD: u8 = 0;
    /// It was opened anew, and other users cannot write to it.
    const RENEWED: u8 = 1;
    /// It was opened anew, and they can.
    const SHARED: u8 = 2;

    /// Opens it: see [`Spool::open_and_warn`].
    pub(crate) fn open(path: &Path, limits: &Limits, durable: bool) -> Result<Self, SpoolError> {
        let warnings = Arc::new(Warnings::default());
        let spool = Spool::open_and_warn(path, limits, durable, Arc::clone(&warnings))?;
        Ok(Self {
            path: path.into(),
            limits: *limits,
            durable,
            spool: Mutex::new(Arc::new(spool)),
            warnings,
            news: AtomicU8::new(Self::OLD),
        })
    }

    /// The spool for a new transfer; opens it anew if the directory, or the folder in it, is not
    /// there any more. Touches the disk.
    pub(crate) fn spool(&self) -> Result<Arc<Spool>, SpoolError> {
        let mut spool = self.lock();
        if !spool.is_there() {
            let warnings = Arc::clone(&self.warnings);
            let anew = Spool::open_and_warn(&self.path, &self.limits, self.durable, warnings)?;
            let news = match anew.is_shared() {
                true => Self::SHARED,
                false => Self::RENEWED,
            };
            *spool = Arc::new(anew);
            self.news.store(news, Ordering::Relaxed);
        }
        Ok(Arc::clone(&spool))
    }

    /// The spool as it was last seen. Waits while another thread opens it anew.
    pub(crate) fn current(&self) -> Arc<Spool> {
        Arc::clone(&self.lock())
    }

    /// Whether it was opened anew since the last call, and whether others can write to it now.
    /// Waits for nothing.
    pub(crate) fn take_news(&self) -> Option<bool> {
        match self.news.swap(Self::OLD, Ordering::Relaxed) {
            Self::OLD => None,
            news => Some(news == Self::SHARED),
        }
    }

    /// The next warning for the user. Waits for no disk.
    pub(crate) fn take_warning(&self) -> Option<String> {
        self.warnings.take()
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Spool>> {
        // A thread that panicked leaves a spool.
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
