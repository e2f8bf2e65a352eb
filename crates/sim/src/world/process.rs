//! What a host does: takes datagrams and timeouts as its processor is free, and drains its node after each.

use bytes::BytesMut;
use groupcast_core::node::Route;
use groupcast_core::trace::Transition;
use groupcast_core::{Event, Node, Ordered, SocketClass, Time};

use super::{SPINNING_MAX, Step, Target, Transited, World};
use crate::host::{Received, Status};
use crate::network::body_of;
use crate::trace::{Trace, TraceLevel};

impl<P: Ordered> World<P> {
    /// A copy is at a host, whoever brought it.
    pub(crate) fn arrive(&mut self, index: usize, received: Received) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let idle = host.busy_until <= now && host.queues_are_empty();
        match host.status {
            Status::Down | Status::Left => {}
            Status::Up if idle => self.receive(index, received),
            Status::Up => {
                host.enqueue(&self.host_config, received);
                self.schedule_work(index);
            }
            Status::Paused => host.enqueue(&self.host_config, received),
        }
    }

    pub(super) fn schedule_work(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !host.work_scheduled && !host.queues_are_empty() {
            host.work_scheduled = true;
            self.agenda
                .push(host.busy_until, Step::Work { host: index });
        }
    }

    pub(super) fn work(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.work_scheduled = false;
        if host.status != Status::Up {
            return;
        }
        if host.busy_until > self.agenda.now() {
            // A timeout took the processor in between.
            self.schedule_work(index);
            return;
        }
        let first = host
            .node
            .as_ref()
            .map_or(SocketClass::Token, Node::read_first);
        if let Some(received) = host.dequeue(first) {
            self.receive(index, received);
        }
        self.schedule_work(index);
    }

    fn receive(&mut self, index: usize, received: Received) {
        let now = self.agenda.now();
        let Received { datagram, flipped } = received;
        let mut bytes = BytesMut::from(&datagram.bytes[..]);
        if let Some(bit) = flipped
            && let Some(byte) = bytes.get_mut(bit as usize / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        self.hash.absorb(now.as_nanos() ^ (index as u64) << 56);
        let host = &mut self.hosts[index];
        let Some(node) = &mut host.node else { return };
        let result = node.handle_datagram(host.clock.local(now), datagram.source, bytes);
        host.busy_until = now + self.host_config.receive_cost;
        host.spinning = 0;
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
        self.drain(index);
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
            host.timer = Some(host.busy_until);
            let timer = Step::Timer {
                host: index,
                generation,
            };
            self.agenda.push(host.busy_until, timer);
            return;
        }
        let local = host.clock.local(now);
        let Some(node) = &mut host.node else { return };
        if node.poll_timeout().is_some_and(|due| due <= local) {
            self.hash.absorb(!now.as_nanos() ^ (index as u64) << 56);
            node.handle_timeout(local);
            let due = node.poll_timeout().is_some_and(|due| due <= local);
            host.spinning = if due { host.spinning + 1 } else { 0 };
            assert!(
                host.spinning < SPINNING_MAX,
                "the timeouts of host {index} never move on: its protocol would spin"
            );
            self.drain(index);
        } else {
            self.arm(index);
        }
    }

    /// Takes everything out of a host's node: what it sends, what it tells, when it wants to be called.
    pub(crate) fn drain(&mut self, index: usize) {
        loop {
            self.drain_transmits(index);
            if !self.drain_events(index) {
                break;
            }
        }
        self.drain_transitions(index);
        if self.hosts[index].status == Status::Left {
            self.hosts[index].close(Status::Left);
        } else {
            self.arm(index);
        }
    }

    fn drain_transmits(&mut self, index: usize) {
        let now = self.agenda.now();
        let mut buf = self.buf.take().expect("it is back after every drain");
        loop {
            let host = &mut self.hosts[index];
            let local = host.clock.local(now);
            let Some(node) = &mut host.node else { break };
            let Some(outgoing) = node.poll_transmit(local, &mut buf) else {
                break;
            };
            match outgoing.route {
                Route::Multicast => self.send(index, Target::All, outgoing.class, &buf),
                Route::Unicast(address) => self.send_to(index, address, outgoing.class, &buf),
                Route::Mesh => {
                    let mut mesh = std::mem::take(&mut self.mesh);
                    mesh.clear();
                    mesh.extend(node.mesh());
                    for address in &mesh {
                        self.send_to(index, *address, outgoing.class, &buf);
                    }
                    self.mesh = mesh;
                }
            }
        }
        self.buf = Some(buf);
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
                    if !self.keep_payloads {
                        delivery.payload.clear();
                    }
                    host.seen.deliveries.push(delivery);
                }
                Event::Configuration(configuration) => {
                    host.seen.configurations.push(configuration);
                }
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
                let Transition { from, to, cause } = transition;
                trace.line(at, index, format_args!("{from} => {to} ({cause})"));
            }
            self.transitions.push(Transited {
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
