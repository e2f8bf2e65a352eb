//! Messages between a process and its user: in the same process, or in client processes beside it.
//!
//! A user offers messages; they wait for the process in a bounded queue, are submitted when its
//! processor comes to them, and stay first in the queue while the protocol has no room. What the
//! process delivers goes to the user at once, or to the clients: the process pays for writing, a
//! sleeping client wakes up, and pays for reading. What becomes of each message is [`WorldNotice`].

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{Delivery, Instrumented, MessageId, Service, SubmitError, Time};

use super::{CHANNEL, Offer, Step, World, WorldNotice};
use crate::host::config::{Effect, Processors};
use crate::host::{Offered, Status, Task};

impl<P: Instrumented> World<P> {
    /// The user of a host has a message.
    pub(crate) fn offer(&mut self, index: usize, service: Service, payload: Bytes) -> Offer {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let runs = match host.config.clients {
            Some(_) => host.is_alive(),
            None => host.status == Status::Up,
        };
        if !runs {
            return Offer::Down;
        }
        if host.offered_bytes >= host.config.offered_max {
            host.wants_room = true;
            return Offer::Full;
        }
        host.offered_bytes += counted(&payload);
        host.load.offered_max = host.load.offered_max.max(host.offered_bytes);
        let offered = Offered { service, payload };
        let life = host.lives;
        let at = self.client_sends(index, offered.payload.len());
        if at > now {
            let step = Step::Offered {
                host: index,
                life,
                offered: Box::new(offered),
            };
            self.agenda.push(at, step);
        } else {
            self.take_offer(index, life, offered);
        }
        Offer::Taken
    }

    /// The client, if there is one, pays for sending a message; when it is at the process.
    fn client_sends(&mut self, index: usize, len: usize) -> Time {
        let now = self.agenda.now();
        let host = &self.hosts[index];
        let Some(clients) = host.config.clients else {
            return now;
        };
        let from = host.clients.sending_until.max(now);
        let done = self.client_computes(index, from, clients.submit.of(1, 1, len as u64));
        self.hosts[index].clients.sending_until = done;
        done
    }

    /// A client of a host works for `cost`, from `from` on or later; when it is done.
    fn client_computes(&mut self, index: usize, from: Time, cost: Duration) -> Time {
        let host = &mut self.hosts[index];
        let own_core = host.config.clients.is_some_and(|clients| clients.own_core);
        match host.config.processors {
            _ if cost.is_zero() => from,
            Processors::Own if own_core => from + cost,
            Processors::Own => {
                let done = self.compute(index, cost);
                done.max(from)
            }
            Processors::Shared { machine, .. } => {
                host.load.processor += cost;
                let machine = self.machines.entry(machine).or_default();
                machine.work(from, cost)
            }
        }
    }

    /// A message is at the process.
    pub(super) fn take_offer(&mut self, index: usize, life: u64, offered: Offered) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        if host.lives != life || !host.is_alive() {
            return;
        }
        if host.status == Status::Up && self.leave_while_dozing(index) {
            let host = &mut self.hosts[index];
            host.offered.push_back(offered);
            host.offers_left = true;
            return;
        }
        let host = &mut self.hosts[index];
        let idle = host.status == Status::Up && host.busy_until <= now && !host.has_work();
        if idle && host.config.effect == Effect::Begin && !host.submit_blocked {
            let task = Task::Submit(vec![offered]);
            let cost = host.task_cost(&task);
            self.compute(index, cost);
            self.perform(index, task);
            return;
        }
        host.offered.push_back(offered);
        if host.status != Status::Up {
            return;
        }
        if host.config.clients.is_none() && host.config.effect == Effect::End {
            // A user in the same process has a message only while the process runs.
            host.awake = true;
        }
        self.wake(index);
        self.schedule_work(index);
    }

    /// Messages go to the protocol; from the first for which it has no room on, they wait. The node
    /// is to be drained.
    pub(super) fn submit_all(&mut self, index: usize, offers: Vec<Offered>) {
        let mut offers = offers.into_iter();
        while let Some(offered) = offers.next() {
            let taken = counted(&offered.payload);
            let told = match self.submit(index, offered.service, offered.payload.clone()) {
                Ok(id) => WorldNotice::Accepted {
                    host: index,
                    id,
                    payload: offered.payload,
                },
                Err(SubmitError::Full { .. }) => {
                    let host = &mut self.hosts[index];
                    host.submit_blocked = true;
                    let back: Vec<Offered> = [offered].into_iter().chain(offers).collect();
                    back.into_iter()
                        .rev()
                        .for_each(|offered| host.offered.push_front(offered));
                    return;
                }
                Err(_) => WorldNotice::Refused { host: index },
            };
            self.report(told);
            let host = &mut self.hosts[index];
            host.offered_bytes = host.offered_bytes.saturating_sub(taken);
            if host.wants_room && host.offered_bytes < host.config.offered_max {
                host.wants_room = false;
                self.report(WorldNotice::Room { host: index });
            }
        }
    }

    /// Submits a message to the protocol, for the record too.
    fn submit(
        &mut self,
        index: usize,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let host = &mut self.hosts[index];
        let local = host.clock.local(self.agenda.now());
        let node = host.node.as_mut().ok_or(SubmitError::Leaving)?;
        let digest = node.is_observed().then(|| digest(&payload));
        let instance = node.instance_mut(CHANNEL).ok_or(SubmitError::Leaving)?;
        let id = instance.submit(local, service, payload)?;
        if let Some(digest) = digest {
            node.observe(&Observation::Submit {
                id,
                service,
                digest,
            });
        }
        Ok(id)
    }

    /// The process has written messages to its clients.
    pub(super) fn give_to_clients(&mut self, index: usize, deliveries: Vec<Delivery>) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let Some(config) = host.config.clients else {
            // There were clients when they were taken for them.
            for delivery in deliveries {
                self.report(WorldNotice::Delivered {
                    host: index,
                    delivery,
                });
            }
            return;
        };
        let room = config.inbox_max.saturating_sub(host.clients.inbox.len());
        host.load.inbox_dropped += deliveries.len().saturating_sub(room) as u64;
        host.clients.inbox.extend(deliveries.into_iter().take(room));
        host.load.inbox_max = host.load.inbox_max.max(host.clients.inbox.len());
        if !host.clients.receiving {
            host.clients.receiving = true;
            let life = host.lives;
            let step = Step::Clients { host: index, life };
            self.agenda.push(now + config.wake_up, step);
        }
    }

    /// The clients are awake and take what waits, or go to sleep.
    pub(super) fn wake_clients(&mut self, index: usize, life: u64) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let Some(config) = host.config.clients else {
            return;
        };
        if host.lives != life {
            return;
        }
        let count = host.clients.inbox.len().min(config.batch.max(1) as usize);
        if count == 0 {
            host.clients.receiving = false;
            return;
        }
        host.clients.hand.extend(host.clients.inbox.drain(..count));
        let bytes: usize = host.clients.hand.iter().map(|it| it.payload.len()).sum();
        let each = config.deliver.of(1, count as u64, bytes as u64);
        let shares = !config.own_core || host.config.processors != Processors::Own;
        let cost = if shares {
            each * config.receivers.max(1)
        } else {
            each
        };
        let done = self.client_computes(index, now, cost);
        self.agenda
            .push(done, Step::Delivered { host: index, life });
    }

    /// The clients have what they took.
    pub(super) fn clients_have(&mut self, index: usize, life: u64) {
        let host = &mut self.hosts[index];
        if host.lives != life {
            return;
        }
        let hand = std::mem::take(&mut host.clients.hand);
        for delivery in hand {
            self.report(WorldNotice::Delivered {
                host: index,
                delivery,
            });
        }
        self.wake_clients(index, life);
    }

    fn report(&mut self, what: WorldNotice) {
        if let Some(told) = &mut self.told {
            told.push_back(what);
        }
    }

    /// From now on the process of a host is perturbed as its configuration says.
    pub(super) fn perturb(&mut self, index: usize) {
        let now = self.agenda.now();
        let fresh = self.rng.fork("perturbation").fork_index(index as u64);
        let host = &mut self.hosts[index];
        host.perturbation += 1;
        let Some(perturbation) = host.config.perturbation else {
            return;
        };
        let rng = host.perturbation_rng.get_or_insert(fresh);
        // Hosts do not fall asleep in step.
        let phase = rng.duration(Duration::ZERO, perturbation.interval);
        let generation = host.perturbation;
        let step = Step::Perturb {
            host: index,
            generation,
        };
        self.agenda.push(now + phase, step);
    }

    /// An interval begins: perhaps the process sleeps through it.
    pub(super) fn may_sleep(&mut self, index: usize, generation: u64) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let Some(perturbation) = host.config.perturbation else {
            return;
        };
        if host.perturbation != generation || !host.is_alive() {
            return;
        }
        let sleeps = host
            .perturbation_rng
            .as_mut()
            .is_some_and(|rng| rng.chance(perturbation.probability));
        if sleeps && host.status == Status::Up {
            host.load.sleeps += 1;
            host.busy_until = host.busy_until.max(now + perturbation.interval);
        }
        let step = Step::Perturb {
            host: index,
            generation,
        };
        // An interval of nothing would never end.
        let interval = perturbation.interval.max(Duration::from_nanos(1));
        self.agenda.push(now + interval, step);
    }
}

/// What a message counts in the queue: an empty one takes room too.
fn counted(payload: &Bytes) -> usize {
    payload.len().max(1)
}
