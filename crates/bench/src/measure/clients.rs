//! The clients of a measurement: one that publishes stamped messages, one that receives and tallies
//! them.

use std::path::Path;
use std::time::Duration;

use groupcast_client::{Address, Client, ClientEvent, Options, Service, ViewKind};
use groupcast_net::random_u64;
use serde::{Deserialize, Serialize};

use super::clock::{self, Instant, Window};
use super::stamp::Stamp;
use super::tally::Tally;
use super::wakes::{Counts, InWindow};
use super::{BenchError, Said, await_window, say};

/// How long daemons may take to start, and all receivers to be in the group.
pub(super) const JOINING: Duration = Duration::from_secs(20);
/// A sender this far behind its schedule is held up by the ring, and the wait counts as latency;
/// anything less is its own timer's.
const BEHIND: Duration = Duration::from_millis(1);

/// A sending client's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Publish {
    /// The socket of its daemon.
    pub socket: String,
    /// Where its messages go.
    pub group: String,
    /// Which sender it is.
    pub sender: u32,
    /// Payload of a message in bytes.
    pub size: usize,
    /// The service of every message.
    pub service: String,
    /// Nanoseconds from one message to the next; as fast as possible without.
    pub interval_ns: Option<u64>,
}

/// A receiving client's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Subscribe {
    /// The socket of its daemon.
    pub socket: String,
    /// What it joins.
    pub group: String,
    /// It is ready once this many members are in the group.
    pub members: usize,
}

impl Publish {
    /// Publishes until the window's end; the result is [`Sent`].
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let service: Service = self
            .service
            .parse()
            .map_err(|error| BenchError::client("publish", error))?;
        let mut client = connect(&self.socket)?;
        let mut payload = vec![b'.'; self.size];
        let window = await_window()?;
        let mut schedule = Schedule::staggered(clock::now(), self.interval_ns)?;
        let mut in_window = InWindow::default();
        let mut index = 0;
        loop {
            let due = schedule.next();
            // As fast as possible, no time is spent on asking whether it is time.
            if self.interval_ns.is_some() {
                clock::sleep_until(due);
            }
            let now = clock::now();
            if now >= window.until {
                break;
            }
            in_window.look(now >= window.from, || client.calls().into());
            Stamp {
                sender: self.sender,
                index,
                sent: schedule.sent(due, now),
            }
            .write(&mut payload);
            client
                .publish(&[&self.group], service, &payload)
                .map_err(|error| BenchError::client("publish", error))?;
            if self.interval_ns.is_some() {
                client
                    .next_event(Some(Duration::ZERO))
                    .map_err(|error| BenchError::client("publish", error))?;
            }
            index += 1;
        }
        say(&Said::Result(Sent {
            messages: index,
            counts: in_window.end(client.calls().into()),
        }))
    }
}

/// What a sending client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Messages, warm-up included.
    pub messages: u64,
    /// What it counted of itself within the window.
    pub counts: Counts,
}

/// When the next message is due.
pub(super) struct Schedule {
    next: Instant,
    /// Nanoseconds from one to the next; 0 if they are sent as fast as they are taken.
    interval: u64,
}

impl Schedule {
    /// As [`Schedule::starting`], but somewhere in the first interval: senders that began together
    /// would go on sending at the same instants, as those of a network never do.
    pub(super) fn staggered(now: Instant, interval: Option<u64>) -> Result<Self, BenchError> {
        let interval = interval.unwrap_or(0);
        let random = random_u64().map_err(|error| BenchError::client("draw a start", error))?;
        Ok(Self::starting(
            now + random % interval.max(1),
            Some(interval),
        ))
    }

    pub(super) fn starting(now: Instant, interval: Option<u64>) -> Self {
        Self {
            next: now,
            interval: interval.unwrap_or(0),
        }
    }

    pub(super) fn next(&mut self) -> Instant {
        let due = self.next;
        self.next += self.interval;
        due
    }

    /// When a message that was `due` and could be handed on `now` counts as sent.
    pub(super) fn sent(&self, due: Instant, now: Instant) -> Instant {
        let held_up = self.interval > 0 && now.saturating_sub(due) > clock::nanos(BEHIND);
        if held_up { due } else { now }
    }
}

impl Subscribe {
    /// Receives until the window's end; the result is a [`Tally`].
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let mut client = connect(&self.socket)?;
        client
            .join(&self.group)
            .map_err(|error| BenchError::client("join", error))?;
        self.await_members(&mut client)?;
        let window = await_window()?;
        let mut tally = Tally::new();
        let mut in_window = InWindow::default();
        let mut now = clock::now();
        while now < window.until {
            in_window.look(now >= window.from, || client.calls().into());
            now = self.receive(&mut client, window, &mut tally, window.until - now)?;
        }
        tally.counts = in_window.end(client.calls().into());
        say(&Said::Result(tally))
    }

    pub(super) fn await_members(&self, client: &mut Client) -> Result<(), BenchError> {
        let deadline = clock::now() + clock::nanos(JOINING);
        loop {
            let patience = Duration::from_nanos(deadline.saturating_sub(clock::now()));
            let event = client
                .next_event(Some(patience))
                .map_err(|error| BenchError::client("wait for the group", error))?;
            match event {
                Some(ClientEvent::View(view)) if view.members.len() >= self.members => {
                    return Ok(());
                }
                Some(_) => {}
                None => {
                    return Err(BenchError::client(
                        "wait for the group",
                        format!("{} members were not there in {JOINING:?}", self.members),
                    ));
                }
            }
        }
    }

    /// Takes what comes first within `patience`, and says when that was: the clock is read once for
    /// a message, and not again to see whether time is up.
    pub(super) fn receive(
        &self,
        client: &mut Client,
        window: Window,
        tally: &mut Tally,
        patience: u64,
    ) -> Result<Instant, BenchError> {
        let event = client
            .next_event(Some(Duration::from_nanos(patience)))
            .map_err(|error| BenchError::client("receive", error))?;
        let now = clock::now();
        match event {
            Some(ClientEvent::Message(message)) => {
                let stamp = Stamp::read(&message.payload)
                    .ok_or_else(|| BenchError::client("receive", "a message without a stamp"))?;
                let bytes = message.payload.len();
                tally.add(now, window, stamp, message.place, bytes);
                Ok(now)
            }
            // At the end the other receivers go.
            Some(ClientEvent::View(_)) if now >= window.until => Ok(now),
            // A ring that lost its token and formed anew, with all its members, has only been slow.
            Some(ClientEvent::View(view)) if view.members.len() >= self.members => {
                tally.reformations += u64::from(view.kind == ViewKind::Regular);
                Ok(now)
            }
            Some(ClientEvent::View(view)) => Err(BenchError::client(
                "receive",
                format!(
                    "the group changed during the measurement ({}): {} members are left",
                    view.cause,
                    view.members.len()
                ),
            )),
            Some(ClientEvent::Disconnected { text, .. }) => {
                Err(BenchError::client("receive", text))
            }
            _ => Ok(now),
        }
    }
}

/// Connects to a daemon that may be starting.
pub(super) fn connect(socket: &str) -> Result<Client, BenchError> {
    const INTERVAL: Duration = Duration::from_millis(20);
    let address = Address::from(Path::new(socket));
    let deadline = clock::now() + clock::nanos(JOINING);
    loop {
        match Client::connect(&address, Options::default()) {
            Ok(client) => return Ok(client),
            Err(_) if clock::now() < deadline => std::thread::sleep(INTERVAL),
            Err(error) => return Err(BenchError::client("connect", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_its_pace_whatever_happens() {
        let mut schedule = Schedule::starting(100, Some(10));
        assert_eq!(
            [schedule.next(), schedule.next(), schedule.next()],
            [100, 110, 120]
        );
        let mut free = Schedule::starting(100, None);
        assert_eq!([free.next(), free.next()], [100, 100]);
    }

    #[test]
    fn a_wait_that_the_ring_caused_counts() {
        let paced = Schedule::starting(0, Some(10));
        assert_eq!(paced.sent(100, 50_100), 50_100);
        assert_eq!(paced.sent(100, 5_000_100), 100);
        assert_eq!(Schedule::starting(0, None).sent(0, 5_000_000), 5_000_000);
    }
}
