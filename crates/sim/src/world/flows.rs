//! Flows beside the protocol: their segments into the fabric and out of it, and their times.

use std::rc::Rc;

use groupcast_core::{Instrumented, Time};

use super::{Step, World};
use crate::fabric::Target;
use crate::flow::{Flow, FlowConfig, FlowUse, Segment};
use crate::host::Datagram;

/// A flow, and when it is called next.
#[derive(Debug)]
pub(super) struct Placed {
    flow: Flow,
    timer: Option<Time>,
    generation: u64,
}

impl<P: Instrumented> World<P> {
    /// A flow between two hosts, over the fabric; its number.
    pub(crate) fn add_flow(&mut self, config: FlowConfig) -> usize {
        let number = self.flows.len();
        self.flows.push(Placed {
            flow: Flow::new(config),
            timer: None,
            generation: 0,
        });
        self.drain_flow(number);
        number
    }

    /// What each flow did so far.
    pub(crate) fn flow_uses(&self) -> Vec<FlowUse> {
        self.flows.iter().map(|it| it.flow.used()).collect()
    }

    /// A segment is at its host.
    pub(super) fn flow_arrives(&mut self, number: usize, segment: Segment) {
        let now = self.agenda.now();
        self.hash.absorb(now.as_nanos() ^ (number as u64) << 40);
        self.flows[number].flow.handle_segment(now, segment);
        self.drain_flow(number);
    }

    /// A flow may have something to do.
    pub(super) fn flow_due(&mut self, number: usize, generation: u64) {
        let placed = &mut self.flows[number];
        if placed.generation == generation {
            placed.timer = None;
            placed.flow.handle_timeout(self.agenda.now());
            self.drain_flow(number);
        }
    }

    fn drain_flow(&mut self, number: usize) {
        let now = self.agenda.now();
        while let Some(outgoing) = self.flows[number].flow.poll_transmit(now) {
            let [from, to] = outgoing.hosts;
            let datagram = Datagram::of_flow(from, number, outgoing.segment, outgoing.len);
            let fabric = self.medium.fabric();
            fabric.send(now, &Rc::new(datagram), Target::Host(to), &mut self.effects);
            self.settle_effects();
        }
        let placed = &mut self.flows[number];
        let Some(due) = placed.flow.poll_timeout() else {
            return;
        };
        let due = due.max(now);
        if placed.timer.is_some_and(|timer| timer <= due) {
            return;
        }
        placed.timer = Some(due);
        placed.generation += 1;
        let generation = placed.generation;
        self.agenda.push(due, Step::Flow { number, generation });
    }
}
