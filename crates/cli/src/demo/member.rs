//! A member of the demo: a thread with an endpoint of the network and an order on it, steered by
//! commands.
//!
//! Commands come through a channel, and a waker of the endpoint's poll ends its wait, so the member
//! need not look for them. The observations of the member go the other way, in batches, through a
//! channel that all members share. The [stage](super::stage) interprets them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_core::family::OrderFamily;
use groupcast_core::trace::{Observation, Observer, digest};
use groupcast_core::{Event, Instrumented, MemberId, Ordered as _, Rng, SubmitError, Time};
use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing};
use mio::{Token, Waker};

use super::load::Messages;

/// What a member is told to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Submit this many messages as fast as they are delivered.
    Burst(u64),
    /// Submit a message whenever this time has passed.
    Flow(Duration),
    /// Submit nothing more. [`What::Rested`] is the answer.
    Rest,
    /// Take only the datagrams of these senders; `None`: of all senders.
    Hear(Option<BTreeSet<SocketAddr>>),
    /// Leave the group gracefully, then end.
    Leave,
    /// End at once, without telling the others.
    Kill,
}

/// Something that happened at a member.
#[derive(Debug)]
pub(crate) struct Notice {
    /// The member at which it happened.
    pub(crate) member: MemberId,
    /// When it was noticed.
    pub(crate) at: Instant,
    /// What.
    pub(crate) what: What,
}

/// What can happen at a member.
#[derive(Debug)]
pub(crate) enum What {
    /// An observer saw this, in this order.
    Saw {
        /// The observations, oldest first.
        observations: Vec<Observation>,
        /// Payload bytes of the deliveries among it.
        bytes: u64,
    },
    /// [`Command::Rest`] was obeyed: nothing is submitted from here on.
    Rested,
    /// The sockets are closed; nothing follows. An error says why it ended without being told to.
    Ended(Result<(), String>),
}

/// Everything that a member's thread needs.
pub(crate) struct Birth {
    /// Who it is.
    pub(crate) id: MemberId,
    /// Its name, for the thread.
    pub(crate) name: String,
    /// What orders messages.
    pub(crate) order: &'static OrderFamily,
    /// The configuration of its endpoint.
    pub(crate) endpoint: EndpointConfig,
    /// The key of this run.
    pub(crate) key: Key,
    /// For challenges and the order: from the operating system.
    pub(crate) rng: Rng,
    /// The messages that it will send.
    pub(crate) messages: Messages,
}

/// The handle of a running member.
#[derive(Debug)]
pub(crate) struct Member {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Member {
    /// How long opening the sockets may take.
    const OPENING_MAX: Duration = Duration::from_secs(5);

    /// Starts the thread; returns once its sockets are open. What happens there comes through
    /// `notices`.
    pub(crate) fn start(birth: Birth, notices: SyncSender<Notice>) -> Result<Self, String> {
        let (commands, orders) = mpsc::channel();
        let (opened, opening) = mpsc::sync_channel(1);
        let name = birth.name.clone();
        let body = move || {
            let member = birth.id;
            let (mut actor, waker) = match Actor::open(birth, orders, notices.clone()) {
                Ok(pair) => pair,
                Err(error) => {
                    // The thread that started this one may have stopped waiting.
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(waker));
            let result = actor.live();
            drop(actor);
            // If the demo has ended, the notice is dropped.
            let _ = notices.send(Notice {
                member,
                at: Instant::now(),
                what: What::Ended(result),
            });
        };
        thread::Builder::new()
            .name(name)
            .spawn(body)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let waker = opening
            .recv_timeout(Self::OPENING_MAX)
            .map_err(|_| "its thread did not open its sockets".to_owned())??;
        Ok(Self { commands, waker })
    }

    /// Tells the member what to do; false if it has ended.
    pub(crate) fn tell(&self, command: Command) -> bool {
        self.commands.send(command).is_ok() && self.waker.wake().is_ok()
    }
}

/// Collects what the node's observer sees.
#[derive(Clone, Debug, Default)]
struct Recorder(Rc<RefCell<Vec<Observation>>>);

impl Observer for Recorder {
    fn observe(&mut self, _: MemberId, observation: &Observation) {
        self.0.borrow_mut().push(observation.clone());
    }
}

/// What the member still has to submit.
#[derive(Clone, Copy, Debug)]
struct Work {
    left: u64,
    every: Duration,
    /// The member submits nothing while this many of its messages are not delivered.
    outstanding_max: u64,
}

impl Work {
    const NONE: Self = Self {
        left: 0,
        every: Duration::ZERO,
        outstanding_max: 0,
    };
}

/// The member itself, which runs in its thread.
struct Actor {
    order: &'static OrderFamily,
    endpoint: Endpoint<Box<dyn Instrumented>>,
    orders: Receiver<Command>,
    notices: SyncSender<Notice>,
    seen: Recorder,
    messages: Messages,
    work: Work,
    /// When to submit the next message.
    due: Time,
    /// Own messages that are not delivered yet.
    outstanding: u64,
}

impl Actor {
    const ORDERS: Token = Token(0);
    /// `outstanding_max` of a burst: enough to fill a rotation of the token.
    const BURST_OUTSTANDING_MAX: u64 = 256;
    /// `outstanding_max` of a flow: few, since they pile up while the group has no configuration.
    const FLOW_OUTSTANDING_MAX: u64 = 8;

    fn open(
        birth: Birth,
        orders: Receiver<Command>,
        notices: SyncSender<Notice>,
    ) -> Result<(Self, Arc<Waker>), String> {
        let local = birth.id;
        let order = birth.order;
        let rng = birth.rng.fork(order.name());
        let group = order.family.build(local, rng, Time::ZERO);
        let seen = Recorder::default();
        let mut endpoint = Endpoint::builder(birth.endpoint, local, Sealing::Key(birth.key))
            .rng(birth.rng.fork("node"))
            .observer(Box::new(seen.clone()))
            .open()
            .map_err(|error| error.to_string())?;
        endpoint.node_mut().open(order.channel, group);
        let waker = Waker::new(endpoint.registry(), Self::ORDERS)
            .map_err(|error| format!("cannot make a waker: {error}"))?;
        let actor = Self {
            order,
            endpoint,
            orders,
            notices,
            seen,
            messages: birth.messages,
            work: Work::NONE,
            due: Time::ZERO,
            outstanding: 0,
        };
        Ok((actor, Arc::new(waker)))
    }

    /// The loop, until the member is told to end or the demo takes no more notices.
    fn live(&mut self) -> Result<(), String> {
        let mut ready = Vec::new();
        loop {
            if self.obey().is_break() {
                return Ok(());
            }
            let wait = self.submit()?;
            self.endpoint
                .turn(wait, &mut ready)
                .map_err(|error| format!("the network failed: {error}"))?;
            if self.take_events()?.is_break() {
                return Ok(());
            }
        }
    }

    fn group(&mut self) -> &mut Box<dyn Instrumented> {
        self.endpoint
            .node_mut()
            .instance_mut(self.order.channel)
            .expect("opened with the endpoint")
    }

    /// Carries out the commands that wait; breaks when one of them ends the member.
    fn obey(&mut self) -> ControlFlow<()> {
        loop {
            let command = match self.orders.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
            };
            let now = self.endpoint.now();
            match command {
                Command::Burst(count) => {
                    self.start_work(count, Duration::ZERO, Self::BURST_OUTSTANDING_MAX);
                }
                Command::Flow(every) => {
                    self.start_work(u64::MAX, every, Self::FLOW_OUTSTANDING_MAX);
                }
                Command::Rest => {
                    self.work = Work::NONE;
                    self.report(0)?;
                    self.notify(What::Rested)?;
                }
                Command::Hear(only) => self.endpoint.set_filter(only.map(|only| {
                    let keep = move |from: SocketAddr| only.contains(&from);
                    Box::new(keep) as _
                })),
                Command::Leave => {
                    self.work = Work::NONE;
                    self.group().leave(now);
                }
                Command::Kill => return ControlFlow::Break(()),
            }
        }
    }

    fn start_work(&mut self, left: u64, every: Duration, outstanding_max: u64) {
        self.due = self.endpoint.now();
        self.work = Work {
            left,
            every,
            outstanding_max,
        };
    }

    /// Submits what is due; returns how long the next message can wait, if there is one.
    fn submit(&mut self) -> Result<Option<Duration>, String> {
        while self.work.left > 0 && self.outstanding < self.work.outstanding_max {
            let now = self.endpoint.now();
            if now < self.due {
                return Ok(Some(self.due - now));
            }
            let (service, payload) = self.messages.next();
            let digest = digest(&payload);
            let id = match self.group().submit(now, service, payload) {
                Ok(id) => id,
                // The outstanding ones fill the queue: their deliveries make room.
                Err(SubmitError::Full { .. }) => return Ok(None),
                Err(error) => return Err(format!("a message was refused: {error}")),
            };
            self.endpoint.node_mut().observe(&Observation::Submit {
                id,
                service,
                digest,
            });
            self.outstanding += 1;
            self.work.left -= 1;
            self.due = now + self.work.every;
        }
        Ok(None)
    }

    /// Takes the order's events and passes on what was observed; breaks once the member has left.
    fn take_events(&mut self) -> Result<ControlFlow<()>, String> {
        let (local, mut bytes, mut left) = (self.endpoint.node().local(), 0, false);
        while let Some((_, event)) = self.endpoint.node_mut().poll_event() {
            match event {
                Event::Deliver(delivery) => {
                    bytes += delivery.payload.len() as u64;
                    let own = u64::from(delivery.id.sender == local);
                    self.outstanding = self.outstanding.saturating_sub(own);
                }
                Event::Left => left = true,
                Event::NameInUse { holder } => {
                    return Err(format!("another process, {holder}, has the same name"));
                }
                _ => {}
            }
        }
        while self.endpoint.node_mut().poll_transition().is_some() {}
        if left {
            let now = self.endpoint.now();
            self.endpoint.flush(now);
        }
        Ok(match (self.report(bytes), left) {
            (ControlFlow::Continue(()), false) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        })
    }

    fn report(&mut self, bytes: u64) -> ControlFlow<()> {
        let observations = std::mem::take(&mut *self.seen.0.borrow_mut());
        if observations.is_empty() {
            return ControlFlow::Continue(());
        }
        self.notify(What::Saw {
            observations,
            bytes,
        })
    }

    /// Sends a notice to the demo; breaks if the demo takes no more.
    fn notify(&mut self, what: What) -> ControlFlow<()> {
        let notice = Notice {
            member: self.endpoint.node().local(),
            at: Instant::now(),
            what,
        };
        match self.notices.send(notice) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
