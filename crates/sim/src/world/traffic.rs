//! What happens to datagrams between hosts: from a process that sends to the hosts that they reach.

use std::net::SocketAddr;
use std::rc::Rc;

use groupcast_core::{Ordered, SocketClass, TransmitBuf};

use super::{Step, Target, World};
use crate::host::{self, Datagram, Received};
use crate::network::body_of;
use crate::trace::TraceLevel;

impl<P: Ordered> World<P> {
    /// To an address; nobody is there if it is no host's.
    pub(super) fn send_to(
        &mut self,
        from: usize,
        to: SocketAddr,
        class: SocketClass,
        buf: &TransmitBuf,
    ) {
        if let Some(to) = host::host_at(to, self.hosts.len()) {
            self.send(from, Target::Host(to), class, buf);
        }
    }

    pub(super) fn send(
        &mut self,
        from: usize,
        target: Target,
        class: SocketClass,
        buf: &TransmitBuf,
    ) {
        let now = self.agenda.now();
        for segment in buf.iter() {
            self.hash.absorb(now.as_nanos() ^ (from as u64) << 48);
            self.hash.absorb(tail(segment));
            let departure = self.network.leave(now, from, segment.len());
            let host = &mut self.hosts[from];
            host.busy_until = host.busy_until.max(now) + self.host_config.send_cost;
            if let Some(trace) = &mut self.trace
                && trace.level >= TraceLevel::Datagrams
            {
                let body = trace.describe(class, body_of(segment));
                let (len, drop) = (
                    segment.len(),
                    if departure.is_none() { " DROPPED" } else { "" },
                );
                trace.line(
                    now,
                    from,
                    format_args!("-> {target:?} {class:?} {len} B {body}{drop}"),
                );
            }
            let Some(departure) = departure else {
                continue;
            };
            // A full send buffer stops the whole process: it has one thread.
            host.busy_until = host.busy_until.max(departure.room);
            let datagram = Rc::new(Datagram {
                from,
                source: host::address(from),
                class,
                bytes: segment.into(),
            });
            if let Some(adversary) = &mut self.adversary {
                adversary.record(&datagram);
            }
            self.agenda
                .push(departure.at_switch, Step::Switch { datagram, target });
        }
    }

    pub(super) fn switch(&mut self, datagram: &Rc<Datagram>, target: Target) {
        match target {
            Target::Host(to) => self.descend(datagram, to),
            Target::All => {
                for to in (0..self.hosts.len()).filter(|to| *to != datagram.from) {
                    self.descend(datagram, to);
                }
            }
        }
    }

    fn descend(&mut self, datagram: &Rc<Datagram>, to: usize) {
        let now = self.agenda.now();
        let arrivals =
            self.network
                .deliver(now, datagram.from, to, datagram.class, &datagram.bytes);
        for arrival in arrivals.into_iter().flatten() {
            let received = Received {
                datagram: Rc::clone(datagram),
                flipped: arrival.flipped,
            };
            self.agenda
                .push(arrival.at, Step::Arrive { host: to, received });
        }
    }
}

/// The last eight bytes of a datagram: half of its tag, so a hash of all that it says.
fn tail(datagram: &[u8]) -> u64 {
    datagram
        .last_chunk::<8>()
        .map_or(0, |tail| u64::from_be_bytes(*tail))
}
