//! Checks that the daemon writes into no file that it reads: the first line of a log would destroy
//! a key.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::check::Check;
use super::{DaemonConfigError, Options};
use crate::rings::history_path;

impl Check<'_> {
    /// Refuses a history or a log in a file that another key names, by whatever path.
    pub(super) fn written(&self, options: &Options) -> Result<(), DaemonConfigError> {
        let read = [
            ("key", &options.key),
            ("client_token", &options.client_token),
            ("tls_certificate", &options.tls_certificate),
            ("tls_key", &options.tls_key),
            ("tls_client_ca", &options.tls_client_ca),
        ];
        let written = [
            ("history", &options.history),
            ("log_file", &options.log_file),
        ];
        self.histories_of_rings(options, read.iter().chain(&written))?;
        for (at, (key, path)) in written.iter().enumerate() {
            let Some(path) = path else { continue };
            let others = read.iter().chain(&written[..at]);
            let other = others.filter(|(_, other)| is_named(other, path));
            let mut names = other.map(|(name, _)| format!("`{name}`"));
            let configuration = self.file.is_some_and(|file| is_same(file.path(), path));
            let configuration = configuration.then(|| "the configuration itself".to_owned());
            if let Some(other) = names.next().or(configuration) {
                return Err(self.error(
                    key,
                    format!("{} is the file of {other}", path.display()),
                    "name a file of its own: what the daemon writes would destroy the other",
                ));
            }
        }
        Ok(())
    }

    /// The same of the histories of rings, which follow from `history`.
    fn histories_of_rings<'a>(
        &self,
        options: &Options,
        others: impl Iterator<Item = &'a (&'static str, &'a Option<PathBuf>)> + Clone,
    ) -> Result<(), DaemonConfigError> {
        let Some(history) = &options.history else {
            return Ok(());
        };
        for ring in options.rings.iter().flatten() {
            let path = history_path(history, &ring.top);
            let mut others = others.clone().filter(|(_, other)| is_named(other, &path));
            let configuration = self.file.is_some_and(|file| is_same(file.path(), &path));
            let other = match others.next() {
                Some((name, _)) => format!("`{name}`"),
                None if configuration => "the configuration itself".to_owned(),
                None => continue,
            };
            return Err(self.error(
                "history",
                format!(
                    "{}, the history of the ring {:?}, is the file of {other}",
                    path.display(),
                    ring.top
                ),
                "name another file: what the daemon writes would destroy the other",
            ));
        }
        Ok(())
    }
}

fn is_named(other: &Option<PathBuf>, path: &Path) -> bool {
    other.as_ref().is_some_and(|other| is_same(other, path))
}

/// Whether two paths lead to one file: by name if it does not exist yet, else also through links.
fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let file = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file);
    let id = |path: &Path| file(path).map(|file| (file.dev(), file.ino()));
    absolute(one) == absolute(other) || id(one).is_some_and(|one| Some(one) == id(other))
}
