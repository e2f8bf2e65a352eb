//! Compilers that use the processors beside what is tested.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::Outcome;

/// Functions of the program that is compiled: it takes about a second.
const FUNCTIONS: usize = 300;

/// Compilers that run again and again until the value is dropped, which takes as long as their last
/// runs.
pub struct Compilers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Compilers {
    /// Begins `count` of them; their program is written to `directory`.
    pub fn begin(count: usize, directory: &Path) -> Outcome<Self> {
        let source = directory.join("load.c");
        fs::write(&source, program())?;
        let compile = move || {
            let mut compiler = Command::new("cc");
            compiler.args(["-O2", "-c", "-o", "/dev/null"]).arg(&source);
            compiler.stdout(Stdio::null()).stderr(Stdio::null());
            compiler
        };
        if count > 0 {
            let status = compile().status();
            if !status
                .map_err(|error| format!("cannot run cc: {error}"))?
                .success()
            {
                return Err("cc does not compile the load".into());
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count)
            .map(|_| {
                let (stop, compile) = (Arc::clone(&stop), compile.clone());
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) && compile().status().is_ok() {}
                })
            })
            .collect();
        Ok(Self { stop, threads })
    }
}

impl Drop for Compilers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// A C program that is long and dull.
fn program() -> String {
    let mut program = String::new();
    for number in 0..FUNCTIONS {
        let _ = writeln!(
            program,
            "double f{number}(double *a, int n) {{ double s = {number}; for (int i = 0; i < n; i++) \
             {{ a[i] += s * a[(i * {number}) % n]; s = s > a[i] ? s - a[i] : a[i] / (s + 1); }} return s; }}"
        );
    }
    program
}
