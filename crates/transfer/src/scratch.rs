//! A directory for one test, removed at its end.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gc-transfer-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `act` as a user who may not read what he may not read: another one, if this is root.
pub(crate) fn as_a_plain_user(act: impl FnOnce() + Send) {
    let act = || {
        let nobody = rustix::process::Uid::from_raw(65_534);
        // The call changes this thread alone.
        if rustix::process::geteuid().is_root()
            && let Err(error) = rustix::thread::set_thread_res_uid(None, nobody, None)
        {
            eprintln!("skipped: root cannot become another user here: {error}");
            return;
        }
        act();
    };
    let ended = std::thread::scope(|scope| scope.spawn(act).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
