//! SIGHUP: opens the log again, and reads the configuration and the files of TLS again.

use groupcast_tls::Server;

use super::Daemon;
use crate::clients::raise_file_limit;
use crate::log::Log;

impl Daemon {
    /// Opens the log again, reads certificate and configuration again, and takes over the values
    /// that can change while the daemon runs.
    pub(super) fn read_again(&mut self) {
        if let Some(Err(error)) = self.log.as_ref().map(Log::reopen) {
            tracing::error!("SIGHUP: {error}; the log goes on where it was");
        }
        self.read_certificate();
        let read = match self.reread.as_mut().map(|read| read()) {
            None => return self.narrator.nothing_to_read(),
            Some(Err(error)) => return self.narrator.reread_failed(&error),
            Some(Ok(read)) => read,
        };
        let clients_max = self.config.engine.clients_max;
        let changes = self.config.take_over(&read);
        let now = self.endpoint.now();
        self.engine.set_access(now, self.config.access.clone());
        self.engine.set_slow_rules(self.config.when_slow.clone());
        let limits = self.config.engine.clone();
        if let Err(error) = self.engine.set_limits(limits) {
            // The configuration was checked as it was read.
            tracing::error!("SIGHUP: {error}; the limits of clients stay");
        }
        if self.config.engine.clients_max > clients_max
            && let Err(error) = raise_file_limit(self.config.engine.clients_max)
        {
            tracing::warn!("cannot raise the limit of open files: {error}");
        }
        if let Some(log) = &self.log
            && let Err(error) = log.set_filter(self.config.log.as_deref())
        {
            tracing::error!("SIGHUP: {error}");
        }
        self.narrator.reread(&changes);
    }

    /// Reads the files of TLS again that the current configuration names.
    fn read_certificate(&mut self) {
        let Some(files) = &self.config.tls else {
            return;
        };
        match Server::load(files) {
            Ok(tls) => {
                self.clients.set_tls(&tls);
                self.narrator.certificate_read(Ok(()));
                self.narrator.doubts(&self.clients.doubts());
            }
            Err(error) => self.narrator.certificate_read(Err(&error)),
        }
    }
}
