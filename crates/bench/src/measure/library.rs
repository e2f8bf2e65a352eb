//! A member of the order without a daemon: one process on a host that sends and receives (002 IV-A,
//! "library-based").
//!
//! One thread drives the endpoint, submits what is due and tallies what is delivered. What it costs
//! to go through a daemon is the difference to [`clients`](super::clients).

use std::net::SocketAddrV4;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::family::{OrderConfig, OrderFamily, OrderLimits};
use groupcast_core::settings::Value;
use groupcast_core::{
    Configuration, ConfigurationKind, Event, Incarnation, Instrumented, MemberId, NodeId,
    Ordered as _, Rng, Service, SubmitError,
};
use groupcast_net::{Endpoint, EndpointConfig, Key, random_u64};
use groupcast_protocols::registry;
use rustix::thread::set_current_timer_slack;
use serde::{Deserialize, Serialize};

use super::clients::{JOINING, Schedule};
use super::clock::{self, Instant, Window};
use super::endpoint::{self, Driver, failed, window_in_time};
use super::ring::{Method, Spinning, Windows};
use super::stamp::Stamp;
use super::tally::Tally;
use super::wakes::{Counts, InWindow};
use super::{BenchError, Said, say};

/// Payload bytes that wait for the token when the ring sets the pace: the two largest visits.
pub(crate) const QUEUE_MAX: usize = 1 << 20;
/// Without anything to do, it looks this often for its window.
const PATIENCE: Duration = Duration::from_millis(5);

/// A member's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its host, from 1.
    pub host: u32,
    /// Its address.
    pub listen: SocketAddrV4,
    /// The group's address.
    pub multicast: SocketAddrV4,
    /// It is ready once this many members are in the ring.
    pub members: usize,
    /// The file with the key; in clear without.
    pub key: Option<String>,
    /// Payload of a message in bytes.
    pub size: usize,
    /// The service of every message.
    pub service: String,
    /// Whether it sends; otherwise it only receives.
    pub sends: bool,
    /// Nanoseconds from one message to the next; as fast as the ring takes them without.
    pub interval_ns: Option<u64>,
    /// The name of what orders messages.
    pub order: String,
    /// The ring's windows; without a meaning for another order.
    pub windows: Windows,
    /// Whether it polls before it sleeps.
    pub spin: Spinning,
}

impl Member {
    /// Sends and receives until the window's end; the result is a [`Tally`].
    pub(super) fn run(&self) -> Result<(), BenchError> {
        // One thread drives the ring and is the sender's clock. The kernel lets timers be late by
        // 50 µs: a token would wake it first, and every message would just have missed that token.
        set_current_timer_slack(NonZeroU64::new(1))
            .map_err(|error| BenchError::client("ask for exact timers", error))?;
        let service: Service = self
            .service
            .parse()
            .map_err(|error| BenchError::client("submit", error))?;
        let order = registry::order(&self.order)
            .ok_or_else(|| BenchError::client("join", format!("no order {}", self.order)))?;
        let mut actor = Actor {
            endpoint: self.open(order)?,
            order,
            tally: Tally::new(),
            // Nothing counts before the window is known.
            window: Window { from: 0, until: 0 },
            members: self.members,
            sender: self.host,
            service,
            payload: vec![b'.'; self.size],
            index: 0,
            complete: false,
            full: false,
            in_window: InWindow::default(),
        };
        actor.await_members()?;
        actor.window = actor.drive_until(&window_in_time())?;
        match self.sends {
            true => actor.measure(self.interval_ns)?,
            false => actor.receive()?,
        }
        let counts = actor.counts();
        actor.tally.counts = actor.in_window.end(counts);
        say(&Said::Result(actor.tally))
    }

    /// The endpoint with the order on it.
    fn open(&self, order: &OrderFamily) -> Result<Endpoint<Box<dyn Instrumented>>, BenchError> {
        let seed = random_u64().map_err(failed)?;
        let rng = Rng::new(seed);
        let local = MemberId {
            node: NodeId::from_name(&format!("host-{}", self.host)),
            incarnation: Incarnation(rng.fork("incarnation").next_u64()),
        };
        let key = self.key.as_ref().map(|path| Key::load(Path::new(path)));
        let key = key.transpose().map_err(failed)?;
        let config = EndpointConfig {
            spin: self.spin.setting(),
            ..EndpointConfig::multicast(self.listen, self.multicast)
        };
        let mut endpoint = endpoint::open(local, config, key.as_ref(), &rng.fork("node"))?;
        let config = self.settings(order, endpoint.body_max());
        let make = config.members().map_err(failed)?.factory(1);
        let member = make(local, rng.fork(order.name()), endpoint.now());
        endpoint.node_mut().open(order.channel, member);
        Ok(endpoint)
    }

    /// What waits for the token: what a visit may send, where that is pinned (the load of 002's
    /// library prototypes is set by the window), so that latency is the ring's and not the queue's.
    fn queue_max(&self) -> usize {
        let visit = |messages: u32| messages as usize * self.size;
        self.windows.personal.map_or(QUEUE_MAX, visit)
    }

    /// The order's settings; a datagram is at most `fitting`, what the interface takes in one
    /// piece, as in a daemon.
    fn settings(&self, order: &OrderFamily, fitting: Option<usize>) -> Box<dyn OrderConfig> {
        let config = order.member_config(None);
        let mut config = config.expect("there is a first preset");
        let limits = config.limits();
        config.set_limits(OrderLimits {
            body_max: limits.body_max.min(fitting.unwrap_or(usize::MAX)),
            queue_max: self.queue_max(),
            ..limits
        });
        let Windows {
            personal,
            global,
            accelerated,
            method,
        } = self.windows;
        let method = match method {
            Method::First => "first",
            Method::Second => "second",
        };
        config.set("priority", Value::Word(method));
        let named = [
            ("personal_window", personal),
            ("global_window", global),
            ("accelerated_window", accelerated),
        ];
        for (name, window) in named {
            if let Some(window) = window {
                config.set(name, Value::Integer(window.into()));
            }
        }
        config
    }
}

/// The member at work.
struct Actor {
    endpoint: Endpoint<Box<dyn Instrumented>>,
    order: &'static OrderFamily,
    tally: Tally,
    window: Window,
    members: usize,
    sender: u32,
    service: Service,
    payload: Vec<u8>,
    /// The next message's number.
    index: u64,
    /// All members have been in the ring.
    complete: bool,
    /// The ring refused a message and has not asked for more since.
    full: bool,
    in_window: InWindow,
}

impl Actor {
    fn await_members(&mut self) -> Result<(), BenchError> {
        let deadline = clock::now() + clock::nanos(JOINING);
        while !self.complete {
            if clock::now() > deadline {
                return Err(BenchError::client(
                    "form the ring",
                    format!("{} members were not there in {JOINING:?}", self.members),
                ));
            }
            self.turn(PATIENCE)?;
        }
        Ok(())
    }

    /// Keeps the ring going until there is a window.
    fn drive_until(
        &mut self,
        window: &Receiver<Result<Window, BenchError>>,
    ) -> Result<Window, BenchError> {
        loop {
            match window.try_recv() {
                Ok(window) => return window,
                Err(TryRecvError::Empty) => self.turn(PATIENCE)?,
                Err(TryRecvError::Disconnected) => {
                    return Err(BenchError::client("read the window", "nobody tells it"));
                }
            }
        }
    }

    fn measure(&mut self, interval_ns: Option<u64>) -> Result<(), BenchError> {
        let mut schedule = Schedule::staggered(clock::now(), interval_ns)?;
        let mut due = schedule.next();
        loop {
            let mut now = clock::now();
            while due <= now && now < self.window.until && !self.full {
                if self.submit(schedule.sent(due, now))? {
                    due = schedule.next();
                }
                now = clock::now();
            }
            if now >= self.window.until {
                return Ok(());
            }
            self.look(now);
            let next = if self.full {
                self.window.until
            } else {
                due.min(self.window.until)
            };
            self.turn(Duration::from_nanos(next.saturating_sub(now)))?;
        }
    }

    /// Keeps the ring going until the window's end.
    fn receive(&mut self) -> Result<(), BenchError> {
        loop {
            let now = clock::now();
            let left = self.window.until.saturating_sub(now);
            if left == 0 {
                return Ok(());
            }
            self.look(now);
            self.turn(Duration::from_nanos(left))?;
        }
    }

    /// Submits the next message; whether the ring took it.
    fn submit(&mut self, sent: Instant) -> Result<bool, BenchError> {
        Stamp {
            sender: self.sender,
            index: self.index,
            sent,
        }
        .write(&mut self.payload);
        let payload = Bytes::copy_from_slice(&self.payload);
        let (now, service) = (self.endpoint.now(), self.service);
        match self.member().submit(now, service, payload) {
            Ok(_) => {
                self.index += 1;
                Ok(true)
            }
            Err(SubmitError::Full { .. }) => {
                self.full = true;
                Ok(false)
            }
            Err(error) => Err(BenchError::client("submit", error)),
        }
    }

    /// Notes what was counted before the window.
    fn look(&mut self, now: Instant) {
        if now >= self.window.from && !self.in_window.is_open() {
            let counts = self.counts();
            self.in_window.look(true, || counts);
        }
    }

    /// What was counted since the start.
    fn counts(&mut self) -> Counts {
        let mut visits = 0;
        self.member().measure(&mut |name, count| {
            if name == "visits" {
                visits = count;
            }
        });
        Counts {
            visits,
            ..Counts::from(self.endpoint.counters())
        }
    }

    fn member(&mut self) -> &mut Box<dyn Instrumented> {
        self.endpoint
            .node_mut()
            .instance_mut(self.order.channel)
            .expect("opened with the endpoint")
    }

    /// A ring that lost its token and formed anew, with all its members, has only been slow.
    fn regard(&mut self, now: Instant, configuration: &Configuration) -> Result<(), BenchError> {
        if configuration.kind == ConfigurationKind::Transitional {
            return Ok(());
        }
        let members = configuration.members.len();
        if members >= self.members {
            self.tally.reformations += u64::from(self.complete);
            self.complete = true;
        } else if self.complete && now < self.window.until {
            return Err(BenchError::client(
                "stay in the ring",
                format!("{members} of {} members are left", self.members),
            ));
        }
        Ok(())
    }
}

impl Driver for Actor {
    type Protocol = Box<dyn Instrumented>;

    fn endpoint(&mut self) -> &mut Endpoint<Box<dyn Instrumented>> {
        &mut self.endpoint
    }

    fn take(&mut self, now: Instant, event: Event) -> Result<(), BenchError> {
        match event {
            Event::Deliver(delivery) => {
                let stamp = Stamp::read(&delivery.payload)
                    .ok_or_else(|| BenchError::client("receive", "a message without a stamp"))?;
                let bytes = delivery.payload.len();
                self.tally
                    .add(now, self.window, stamp, delivery.place, bytes);
            }
            Event::Writable => self.full = false,
            Event::Configuration(configuration) => self.regard(now, &configuration)?,
            Event::NameInUse { holder } => {
                return Err(BenchError::client(
                    "stay in the ring",
                    format!("{holder} has the same name"),
                ));
            }
            _ => {}
        }
        Ok(())
    }
}
