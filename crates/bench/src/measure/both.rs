//! A client of a measurement that sends and receives, as other systems are measured: one process a
//! host beside its daemon.

use std::time::Duration;

use groupcast_client::{Client, Service};
use serde::{Deserialize, Serialize};

use super::clients::{Publish, Schedule, Subscribe, connect};
use super::clock::{self, Window};
use super::stamp::Stamp;
use super::tally::Tally;
use super::wakes::InWindow;
use super::{BenchError, Said, await_window, say};

/// Messages that it sends before it looks for some that came, if it sends as fast as it may.
const BURST: usize = 32;

/// Its part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Both {
    /// What it receives.
    pub subscribe: Subscribe,
    /// What it sends; it only receives without.
    pub publish: Option<Publish>,
}

impl Both {
    /// Sends and receives until the window's end; the result is a [`Tally`].
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let mut client = connect(&self.subscribe.socket)?;
        client
            .join(&self.subscribe.group)
            .map_err(|error| BenchError::client("join", error))?;
        self.subscribe.await_members(&mut client)?;
        let window = await_window()?;
        let (mut tally, mut in_window) = (Tally::new(), InWindow::default());
        let mut source = self.publish.as_ref().map(Source::new).transpose()?;
        let mut now = clock::now();
        while now < window.until {
            in_window.look(now >= window.from, || client.calls().into());
            let patience = match &mut source {
                Some(source) => source.send(&mut client, now, window)?,
                None => window.until - now,
            };
            now = self
                .subscribe
                .receive(&mut client, window, &mut tally, patience)?;
        }
        tally.counts = in_window.end(client.calls().into());
        say(&Said::Result(tally))
    }
}

/// The messages to send.
struct Source<'a> {
    part: &'a Publish,
    service: Service,
    payload: Vec<u8>,
    schedule: Schedule,
    /// When the next one is due.
    due: clock::Instant,
    /// The next one's number.
    index: u64,
}

impl<'a> Source<'a> {
    fn new(part: &'a Publish) -> Result<Self, BenchError> {
        let service = part.service.parse();
        let mut schedule = Schedule::staggered(clock::now(), part.interval_ns)?;
        Ok(Self {
            part,
            service: service.map_err(|error| BenchError::client("publish", error))?,
            payload: vec![b'.'; part.size],
            due: schedule.next(),
            schedule,
            index: 0,
        })
    }

    /// Sends what is due and has credit; for how long the client may wait for what comes.
    fn send(
        &mut self,
        client: &mut Client,
        now: clock::Instant,
        window: Window,
    ) -> Result<u64, BenchError> {
        for _ in 0..BURST {
            if self.due > now || !client.has_credit() {
                break;
            }
            Stamp {
                sender: self.part.sender,
                index: self.index,
                sent: self.schedule.sent(self.due, clock::now()),
            }
            .write(&mut self.payload);
            client
                .publish(&[&self.part.group], self.service, &self.payload)
                .map_err(|error| BenchError::client("publish", error))?;
            self.index += 1;
            self.due = self.schedule.next();
        }
        // Without credit it waits for that, which comes like a message; else for the next one's
        // time.
        let until = match client.has_credit() {
            true => self.due.min(window.until),
            false => window
                .until
                .min(now + clock::nanos(Duration::from_millis(1))),
        };
        Ok(until.saturating_sub(now))
    }
}
