//! What a host's processor does: receives, submits and delivers one call after the other, runs the
//! timeouts, and drains the node after each.
//!
//! ```text
//!  datagram ─▶ buffer ─┐                        ┌─▶ handled, node drained ─▶ sends
//!  offer ────▶ queue ──┼─▶ next task ─ its cost ┼─▶ submitted
//!  delivery ─▶ outbox ─┘   (one processor)      └─▶ given to the clients
//! ```
//!
//! Every call that sends has a cost of its own. With [`Effect::Begin`] a task takes effect before
//! its cost, with [`Effect::End`] after it; see there.

use std::time::Duration;

use bytes::BytesMut;
use groupcast_core::node::Route;
use groupcast_core::trace::Transition;
use groupcast_core::{Event, Instrumented, Node, SocketClass, Time, TransmitBuf};

use super::{CHANNEL, Medium, RecordedTransition, SPINNING_MAX, Step, World, WorldNotice};
use crate::exponential::exponential;
use crate::fabric::Target;
use crate::host::config::{Effect, Processors};
use crate::host::{Received, Status, Task};
use crate::network::body_of;
use crate::trace::{Trace, TraceLevel};

/// Timeouts wait for unread datagrams for at most this long, as the network driver's do: what they
/// wait for may lie there.
const BACKLOG_MAX: Duration = Duration::from_millis(50);

impl<P: Instrumented> World<P> {
    /// A copy of a datagram is at a host.
    pub(crate) fn arrive(&mut self, index: usize, received: Received) {
        let now = self.agenda.now();
        let buffer = self.buffer(index, &received.datagram);
        let up = self.hosts[index].status == Status::Up;
        let left = up && buffer == SocketClass::Data && self.leave_while_dozing(index);
        let host = &mut self.hosts[index];
        match host.status {
            Status::Down | Status::Left => {}
            Status::Paused => host.enqueue(buffer, received),
            Status::Up if left => host.enqueue(buffer, received),
            Status::Up => {
                let idle = host.busy_until <= now && !host.has_work();
                if idle && host.config.effect == Effect::Begin {
                    self.receive(index, received);
                } else {
                    host.enqueue(buffer, received);
                    self.wake(index);
                    self.schedule_work(index);
                }
            }
        }
    }

    /// Where the process of a host dozes, leaves what comes now until it wakes: for control, or
    /// because it has dozed for long enough. Whether it does.
    pub(super) fn leave_while_dozing(&mut self, index: usize) -> bool {
        let host = &self.hosts[index];
        let Some(until) = host.dozes_until(self.agenda.now()) else {
            return false;
        };
        if !host.has_work() {
            self.agenda.push(until, Step::DozeEnds { host: index });
        }
        true
    }

    /// A host wakes for what came while it dozed, unless that has been done, or it dozes again.
    pub(super) fn doze_ends(&mut self, index: usize) {
        let host = &self.hosts[index];
        let dozes = host.dozes_until(self.agenda.now()).is_some();
        if host.status == Status::Up && host.has_work() && !dozes {
            self.wake(index);
            self.schedule_work(index);
        }
    }

    /// A process that sleeps begins to wake up.
    pub(super) fn wake(&mut self, index: usize) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        if host.awake || host.config.effect == Effect::Begin {
            return;
        }
        host.awake = true;
        let takes = host.config.wake_up + self.wake_up_jitter(index);
        let host = &mut self.hosts[index];
        host.busy_until = host.busy_until.max(now) + takes;
        let cost = host.config.wait;
        self.compute(index, cost);
    }

    /// By how much longer this waking takes, drawn at random.
    fn wake_up_jitter(&mut self, index: usize) -> Duration {
        let host = &mut self.hosts[index];
        let mean = host.config.wake_up_jitter;
        if mean.is_zero() {
            return Duration::ZERO;
        }
        let wake_up_rng = host
            .wake_up_rng
            .get_or_insert_with(|| self.rng.fork("drowsiness").fork_index(index as u64));
        mean.mul_f64(exponential(wake_up_rng))
    }

    pub(super) fn schedule_work(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !host.work_scheduled && (host.awake || host.has_work()) {
            host.work_scheduled = true;
            self.agenda
                .push(host.busy_until, Step::Work { host: index });
        }
    }

    /// The processor becomes free: the task that it worked on takes effect, and it begins the next.
    pub(super) fn work(&mut self, index: usize) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        host.work_scheduled = false;
        if host.status != Status::Up {
            return;
        }
        // A timeout may have taken the processor in between.
        if host.busy_until <= now
            && let Some(task) = host.task.take()
        {
            self.perform(index, task);
        }
        if self.hosts[index].busy_until <= now {
            self.begin(index);
        }
        self.schedule_work(index);
    }

    /// Takes up the next task, or goes to sleep.
    fn begin(&mut self, index: usize) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        if host.status != Status::Up {
            return;
        }
        match host.config.effect {
            Effect::Begin => {
                let first = host.read_first();
                let users_first = host.offers_come_first();
                if let Some(received) = (!users_first).then(|| host.dequeue(first)).flatten() {
                    self.receive(index, received);
                } else if let Some(task) = host.next_for_user() {
                    let cost = host.task_cost(&task);
                    self.compute(index, cost);
                    self.perform(index, task);
                }
            }
            Effect::End => {
                let Some(task) = host.next_task() else {
                    host.awake = false;
                    return;
                };
                let kinds = match &task {
                    Task::Receive(batch) => self.kinds_received(index, batch),
                    Task::Submit(_) | Task::Deliver(_) => Duration::ZERO,
                };
                let cost = self.hosts[index].task_cost(&task) + kinds;
                if self.compute(index, cost) > now {
                    self.hosts[index].task = Some(task);
                } else {
                    self.perform(index, task);
                }
            }
        }
    }

    /// A task takes effect.
    pub(super) fn perform(&mut self, index: usize, task: Task) {
        match task {
            Task::Receive(batch) => {
                self.hosts[index].received_in_turn += batch.len() as u32;
                for received in batch {
                    self.handle(index, received);
                }
                self.drain(index);
            }
            Task::Submit(offers) => {
                self.submit_all(index, offers);
                self.drain(index);
            }
            Task::Deliver(deliveries) => self.give_to_clients(index, deliveries),
        }
    }

    /// Keeps a host's processor busy for `cost` more; until when.
    pub(super) fn compute(&mut self, index: usize, cost: Duration) -> Time {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        host.load.processor += cost;
        let from = host.busy_until.max(now);
        host.busy_until = match host.config.processors {
            Processors::Shared { machine, .. } if !cost.is_zero() => {
                let machine = self.machines.entry(machine).or_default();
                machine.work(from, cost)
            }
            _ => from + cost,
        };
        host.busy_until
    }

    /// A sending call with datagrams of these lengths, which the network copies this often and
    /// whose kinds cost this much; when they leave.
    pub(super) fn pay_for_sending(
        &mut self,
        index: usize,
        lens: impl Iterator<Item = usize>,
        copies: u64,
        kinds: Duration,
    ) -> Time {
        let config = &self.hosts[index].config;
        let (effect, cost) = (config.effect, config.send_cost(lens, copies) + kinds);
        let done = self.compute(index, cost);
        match effect {
            Effect::Begin => self.agenda.now(),
            Effect::End => done,
        }
    }

    /// Takes a datagram with a call of its own: first the effect, then the cost.
    fn receive(&mut self, index: usize, received: Received) {
        let len = received.datagram.bytes.len();
        let kinds = self.kinds_received(index, std::slice::from_ref(&received));
        self.handle(index, received);
        let cost = self.hosts[index].config.receive_cost([len].into_iter());
        self.compute(index, cost + kinds);
        self.drain(index);
    }

    /// A datagram goes to the host's node, which is to be drained then.
    fn handle(&mut self, index: usize, received: Received) {
        let now = self.agenda.now();
        let Received {
            datagram,
            flipped,
            arrived,
        } = received;
        let mut bytes = BytesMut::from(&datagram.bytes[..]);
        if let Some(bit) = flipped
            && let Some(byte) = bytes.get_mut(bit as usize / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        self.hash.absorb(now.as_nanos() ^ (index as u64) << 56);
        let host = &mut self.hosts[index];
        let Some(node) = &mut host.node else { return };
        let local = host.clock.local(now);
        let arrived = Time::from_nanos(
            local
                .as_nanos()
                .saturating_sub((now - arrived).as_nanos() as u64),
        );
        let result = node.handle_arrival(local, arrived, datagram.source, bytes);
        host.spinning = 0;
        if result.is_ok() {
            self.measure_received(index, &datagram);
        }
        if let Some(trace) = &mut self.trace
            && trace.level >= TraceLevel::Datagrams
        {
            let (class, from) = (datagram.class, datagram.from);
            let body = trace.describe(class, body_of(&datagram.bytes));
            let outcome = result.err().map(|why| format!(" REJECTED {why}"));
            let outcome = outcome.unwrap_or_default();
            trace.line(
                now,
                index,
                format_args!("<- h{from} {class:?} {body}{outcome}"),
            );
        }
    }

    pub(super) fn time_out(&mut self, index: usize, generation: u64) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        if host.timer_generation != generation {
            return;
        }
        host.timer = None;
        if host.status != Status::Up {
            return;
        }
        if host.busy_until > now {
            self.delay_timer(index, generation);
            return;
        }
        if !self.timeout_is_due(index) {
            self.arm(index);
            return;
        }
        self.wake(index);
        if self.hosts[index].busy_until > now {
            self.delay_timer(index, generation);
        } else if !self.waits_for_backlog(index) {
            self.run_timeouts(index);
        }
        self.schedule_work(index);
    }

    /// Whether a timeout of the node is due.
    fn timeout_is_due(&self, index: usize) -> bool {
        let host = &self.hosts[index];
        let local = host.clock.local(self.agenda.now());
        let due = host.node.as_ref().and_then(Node::poll_timeout);
        due.is_some_and(|due| due <= local)
    }

    /// Whether what is due waits until the datagrams that lie in the buffers have been read: their
    /// draining arms the timer again.
    fn waits_for_backlog(&self, index: usize) -> bool {
        let host = &self.hosts[index];
        let receives = !host.queues_are_empty() || matches!(host.task, Some(Task::Receive(_)));
        let due = host.node.as_ref().and_then(Node::poll_timeout);
        host.config.effect == Effect::End
            && receives
            && due.is_some_and(|due| self.agenda.now() - host.clock.world(due) < BACKLOG_MAX)
    }

    fn run_timeouts(&mut self, index: usize) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let local = host.clock.local(now);
        let Some(node) = &mut host.node else { return };
        self.hash.absorb(!now.as_nanos() ^ (index as u64) << 56);
        node.handle_timeout(local);
        let due = node.poll_timeout().is_some_and(|due| due <= local);
        host.spinning = if due { host.spinning + 1 } else { 0 };
        assert!(
            host.spinning < SPINNING_MAX,
            "the timeouts of host {index} never move on: its protocol would spin"
        );
        self.drain(index);
    }

    /// The timer event comes again when the processor is free.
    fn delay_timer(&mut self, index: usize, generation: u64) {
        let host = &mut self.hosts[index];
        host.timer = Some(host.busy_until);
        let timer = Step::Timer {
            host: index,
            generation,
        };
        self.agenda.push(host.busy_until, timer);
    }

    /// Drains a host's node: its datagrams, its events, and when it wants to be called.
    pub(crate) fn drain(&mut self, index: usize) {
        loop {
            self.drain_transmits(index);
            let observed = self.drain_observations(index);
            if !self.drain_events(index) && !observed {
                break;
            }
        }
        self.drain_transitions(index);
        if self.hosts[index].status == Status::Left {
            self.hosts[index].close(Status::Left);
        } else {
            self.arm(index);
            self.schedule_work(index);
        }
    }

    /// A host joins the multicast group, or leaves it, as its process wants.
    fn follow_membership(&mut self, index: usize) {
        let Some(node) = &self.hosts[index].node else {
            return;
        };
        let listens = node.listens();
        if std::mem::replace(&mut self.listening[index], listens) == listens {
            return;
        }
        let reached = self.multicast[index];
        if let Medium::Fabric(fabric) = &mut self.medium
            && reached
        {
            fabric.set_joined(index, listens);
        }
        let does = if listens { "joins" } else { "leaves" };
        self.tell(index, format_args!("{does} the multicast group"));
    }

    fn drain_transmits(&mut self, index: usize) {
        self.follow_membership(index);
        let now = self.agenda.now();
        let mut buf = self.take_buf(index);
        loop {
            let host = &mut self.hosts[index];
            let local = host.clock.local(now);
            let Some(node) = &mut host.node else { break };
            if node.wants_uplink(local) {
                node.handle_uplink(local, host.queue.uplink(now));
            }
            let Some(outgoing) = node.poll_transmit(local, &mut buf) else {
                break;
            };
            let mut copies = std::mem::take(&mut self.copies);
            copies.clear();
            match outgoing.route {
                Route::Multicast | Route::Mesh => copies.extend_from_slice(node.copied()),
                Route::Unicast(to) => copies.push(to),
            }
            let (before, after) = copies.split_at(node.copied_before());
            for to in before {
                self.send_to(index, to.address, outgoing.class, &buf);
            }
            if outgoing.route == Route::Multicast {
                self.send(index, Target::All, outgoing.class, &buf);
            }
            for to in after {
                self.send_to(index, to.address, outgoing.class, &buf);
            }
            self.copies = copies;
        }
        self.buf = Some(buf);
    }

    /// The buffer, for as many segments as the host has in a send. It must be put back.
    fn take_buf(&mut self, index: usize) -> TransmitBuf {
        let segments = self.hosts[index].config.segments_max;
        match self.buf.take() {
            Some(buf) if self.buf_segments == segments => buf,
            _ => {
                self.buf_segments = segments;
                TransmitBuf::new(segments, Node::<P>::HEADROOM, crate::seal::TAG_LEN)
            }
        }
    }

    /// What the instance itself has seen; whether there was anything.
    fn drain_observations(&mut self, index: usize) -> bool {
        let Some(node) = &mut self.hosts[index].node else {
            return false;
        };
        let mut any = false;
        while let Some(instance) = node.instance_mut(CHANNEL)
            && let Some(observation) = instance.poll_observation()
        {
            any = true;
            node.observe(&observation);
        }
        any
    }

    /// Whether there was any event.
    fn drain_events(&mut self, index: usize) -> bool {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let Some(node) = &mut host.node else {
            return false;
        };
        let mut any = false;
        while let Some((_, event)) = node.poll_event() {
            any = true;
            if let Some(trace) = &mut self.trace {
                trace_event(trace, now, index, &event);
            }
            match event {
                Event::Deliver(mut delivery) => {
                    if host.config.clients.is_some() {
                        host.outbox.push_back(delivery.clone());
                    } else if let Some(told) = &mut self.told {
                        let delivery = delivery.clone();
                        told.push_back(WorldNotice::Delivered {
                            host: index,
                            delivery,
                        });
                    }
                    if self.told.is_none() {
                        if !self.keep_payloads {
                            delivery.payload.clear();
                        }
                        host.seen.deliver(delivery);
                    }
                }
                Event::Configuration(configuration) => match &mut self.told {
                    Some(told) => told.push_back(WorldNotice::Configured {
                        host: index,
                        configuration,
                    }),
                    None => host.seen.configurations.push(configuration),
                },
                Event::Gap(gap) if self.told.is_none() => host.seen.gaps.push(gap),
                Event::Writable => host.submit_blocked = false,
                Event::NameInUse { .. } => host.seen.name_in_use = true,
                Event::Left => host.status = Status::Left,
                _ => {}
            }
        }
        any
    }

    fn drain_transitions(&mut self, index: usize) {
        let at = self.agenda.now();
        let Some(node) = &mut self.hosts[index].node else {
            return;
        };
        while let Some((_, transition)) = node.poll_transition() {
            if let Some(trace) = &mut self.trace {
                let Transition {
                    from, to, cause, ..
                } = transition;
                trace.line(at, index, format_args!("{from} => {to} ({cause})"));
            }
            self.transitions.push(RecordedTransition {
                at,
                host: index,
                transition,
            });
        }
    }

    /// Schedules the host's timer event, unless one comes early enough anyway.
    pub(super) fn arm(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(due) = host.node.as_ref().and_then(Node::poll_timeout) else {
            return;
        };
        let at = host.clock.world(due).max(host.busy_until);
        if host.status != Status::Up || host.timer.is_some_and(|timer| timer <= at) {
            return;
        }
        host.timer = Some(at);
        host.timer_generation += 1;
        let timer = Step::Timer {
            host: index,
            generation: host.timer_generation,
        };
        self.agenda.push(at, timer);
    }
}

fn trace_event(trace: &mut Trace, now: Time, index: usize, event: &Event) {
    match event {
        Event::Deliver(delivery) => {
            let (id, service, place) = (delivery.id, delivery.service, delivery.place);
            let (seq, len) = (place.map(|place| place.seq), delivery.payload.len());
            trace.line(
                now,
                index,
                format_args!("delivers {id:?} {service} at {seq:?}, {len} B"),
            );
        }
        other => trace.line(now, index, format_args!("{other:?}")),
    }
}
