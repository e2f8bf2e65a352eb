//! What happens to datagrams between hosts: from a process that sends to the hosts that they reach.

use std::net::SocketAddr;
use std::rc::Rc;

use groupcast_core::{Instrumented, SocketClass, Time, TransmitBuf};

use super::{Medium, Step, World};
use crate::fabric::{Hop, Reached, Target};
use crate::host::{self, Datagram, Received};
use crate::network::body_of;
use crate::trace::TraceLevel;

impl<P: Instrumented> World<P> {
    /// Sends to an address; the datagram is lost if no host has it.
    pub(super) fn send_to(
        &mut self,
        from: usize,
        to: SocketAddr,
        class: SocketClass,
        buf: &TransmitBuf,
    ) {
        let Some(to) = host::host_at(to, self.hosts.len()) else {
            return;
        };
        self.send(from, Target::Host(to), class, buf);
    }

    pub(super) fn send(
        &mut self,
        from: usize,
        target: Target,
        class: SocketClass,
        buf: &TransmitBuf,
    ) {
        let now = self.agenda.now();
        let copies = match target {
            Target::All => {
                let reached = self.multicast.iter().filter(|reached| **reached);
                reached.count() - 1
            }
            Target::Host(_) => 1,
        };
        let batch = self.hosts[from].config.send_batch.max(1) as usize;
        let mut departs = now;
        for (number, segment) in buf.iter().enumerate() {
            if number % batch == 0 {
                let call = buf.iter().skip(number).take(batch);
                let same = buf.iter().skip(number).take(batch);
                let kinds = self.kinds_sent(from, class, same);
                let lens = call.map(<[u8]>::len);
                departs = self.pay_for_sending(from, lens, copies as u64, kinds);
            }
            self.hash.absorb(now.as_nanos() ^ (from as u64) << 48);
            self.hash.absorb(tail(segment));
            let source = host::address(from);
            let datagram = Rc::new(Datagram::new(from, source, class, segment.into()));
            self.measure_sent(&datagram);
            let drops = if departs > now {
                let datagram = Rc::clone(&datagram);
                self.agenda.push(departs, Step::Leave { datagram, target });
                false
            } else {
                !self.depart(&datagram, target)
            };
            if let Some(trace) = &mut self.trace
                && trace.level >= TraceLevel::Datagrams
            {
                let body = trace.describe(class, body_of(segment));
                let (len, drop) = (segment.len(), if drops { " DROPPED" } else { "" });
                trace.line(
                    now,
                    from,
                    format_args!("-> {target:?} {class:?} {len} B {body}{drop}"),
                );
            }
        }
    }

    /// A datagram leaves its host, over whatever medium there is. Returns whether it did not find
    /// the send buffer full for too long.
    pub(super) fn depart(&mut self, datagram: &Rc<Datagram>, target: Target) -> bool {
        let now = self.agenda.now();
        let room = match &mut self.medium {
            Medium::Switch(_) => self.leave(datagram, target),
            Medium::Fabric(fabric) => {
                let room = fabric.send(now, datagram, target, &mut self.effects);
                self.settle_effects();
                Some(room.unwrap_or(now))
            }
        };
        // A full send buffer stops the whole process: it has one thread.
        let host = &mut self.hosts[datagram.from];
        if room.is_some() {
            let left_by = || match &self.medium {
                Medium::Switch(network) => network.left_by(datagram.from),
                Medium::Fabric(fabric) => fabric.left_by(datagram.from),
            };
            host.queue.note(now, datagram.bytes.len(), left_by);
        }
        host.busy_until = host.busy_until.max(room.unwrap_or(now));
        room.is_some()
    }

    // Through the switch.

    /// Leaves for the switch. Returns when the send buffer has room again, or `None` if it was
    /// dropped there.
    fn leave(&mut self, datagram: &Rc<Datagram>, target: Target) -> Option<Time> {
        let now = self.agenda.now();
        let network = self.medium.switch();
        let departure = network.leave(now, datagram.from, datagram.bytes.len())?;
        if let Some(adversary) = &mut self.adversary {
            adversary.record(datagram);
        }
        let datagram = Rc::clone(datagram);
        self.agenda
            .push(departure.at_switch, Step::Switch { datagram, target });
        Some(departure.room)
    }

    /// Which buffer of host `to` takes a datagram. A host that has multicast takes its data where
    /// the group's address is: what a host without sends cannot go there, and goes where all
    /// unicast goes.
    pub(super) fn buffer(&self, to: usize, datagram: &Datagram) -> SocketClass {
        match self.multicast[to] && !self.multicast[datagram.from] {
            true => SocketClass::Control,
            false => datagram.class,
        }
    }

    pub(super) fn switch(&mut self, datagram: &Rc<Datagram>, target: Target) {
        match target {
            Target::Host(to) => self.descend(datagram, to, false),
            Target::All => {
                for to in 0..self.hosts.len() {
                    if to != datagram.from && self.multicast[to] && self.listening[to] {
                        self.descend(datagram, to, true);
                    }
                }
            }
        }
    }

    fn descend(&mut self, datagram: &Rc<Datagram>, to: usize, multicast: bool) {
        let now = self.agenda.now();
        let network = self.medium.switch();
        let arrivals = network.deliver(now, datagram, to, multicast);
        for arrival in arrivals.into_iter().flatten() {
            let received = Received {
                datagram: Rc::clone(datagram),
                flipped: arrival.flipped,
                arrived: arrival.at,
            };
            self.agenda
                .push(arrival.at, Step::Arrive { host: to, received });
        }
    }

    // Over the fabric.

    /// A packet has crossed a link.
    pub(super) fn hop(&mut self, hop: Hop) {
        let now = self.agenda.now();
        self.medium.fabric().handle(now, hop, &mut self.effects);
        self.settle_effects();
    }

    /// What a call of the fabric led to.
    pub(super) fn settle_effects(&mut self) {
        for (at, hop) in self.effects.later.drain(..) {
            self.agenda.push(at, Step::Hop(hop));
        }
        if self.effects.reached.is_empty() {
            return;
        }
        // Receiving makes hosts send, which fills the effects again.
        let mut effects = std::mem::take(&mut self.effects);
        for Reached {
            host,
            datagram,
            flipped,
        } in effects.reached.drain(..)
        {
            match datagram.segment {
                // Its checksum fails.
                Some(_) if flipped.is_some() => {}
                Some((flow, segment)) => self.flow_arrives(flow, segment),
                None => self.arrive(
                    host,
                    Received {
                        datagram,
                        flipped,
                        arrived: self.agenda.now(),
                    },
                ),
            }
        }
        if self.effects.is_empty() {
            self.effects = effects;
        }
    }
}

/// The last eight bytes of a datagram: half of its tag, so a hash of all that it says.
fn tail(datagram: &[u8]) -> u64 {
    datagram
        .last_chunk::<8>()
        .map_or(0, |tail| u64::from_be_bytes(*tail))
}
