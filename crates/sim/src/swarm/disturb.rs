//! The first phase of a run: load and faults, as planned; and faults that wait for a moment of the
//! protocol.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Instrumented, MessageId, SubmitError, Time};

use super::fault::Fault;
use super::progress::MEETING;
use super::run::Run;
use super::scenario::{ClosedLoop, Submission};
use crate::host::Status;

/// What happens to the cluster from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Start(usize),
    Begin(usize),
    End(usize),
    Submit(usize),
    Loop(usize),
    /// Nothing has gone wrong so far, and all had the time to meet.
    Acquaint,
}

/// What is to happen, in its order.
#[derive(Default)]
pub(super) struct Plan {
    actions: BTreeMap<(Time, usize), Action>,
    added: usize,
}

impl Plan {
    fn add(&mut self, at: Time, action: Action) {
        self.actions.insert((at, self.added), action);
        self.added += 1;
    }

    fn next(&self) -> Option<Time> {
        self.actions.keys().next().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Time) -> Option<Action> {
        let due = self.actions.first_entry()?;
        (due.key().0 <= now).then(|| due.remove())
    }
}

/// A fault met its moment: a datagram that shows it is on its way between two hosts.
#[derive(Clone, Copy)]
pub(super) struct Sprung {
    fault: usize,
    from: usize,
    to: usize,
}

/// Faults that wait for a moment, and those whose moment has come.
#[derive(Default)]
pub(super) struct Moments {
    waiting: usize,
    sprung: Rc<RefCell<Vec<Sprung>>>,
}

/// A client that sends its next message when it has its last.
pub(super) struct Client {
    host: usize,
    left: u32,
    len: usize,
    last: Option<MessageId>,
}

/// How often a client of a closed loop looks whether it has its message.
const GLANCE: Duration = Duration::from_micros(200);

impl<P: Instrumented> Run<'_, P> {
    /// Load and faults, as planned.
    pub(super) fn disturb(&mut self) {
        let end = Time::ZERO + self.scenario.duration;
        self.plan();
        while let Some(at) = self.plan.next().filter(|at| *at < end) {
            self.advance(at);
            // What sprang meanwhile may have planned its end for before.
            while let Some(action) = self.plan.take(self.cluster.now()) {
                self.act(action);
            }
        }
        self.advance(end);
    }

    fn plan(&mut self) {
        let scenario = self.scenario;
        let starts = scenario.starts.iter().enumerate();
        starts.for_each(|(host, at)| self.plan.add(*at, Action::Start(host)));
        for (index, fault) in scenario.faults.iter().enumerate() {
            self.plan.add(fault.at, Action::Begin(index));
            if let (Some(until), None) = (fault.until, fault.moment) {
                self.plan.add(until, Action::End(index));
            }
        }
        for (index, it) in scenario.load.iter().enumerate() {
            self.plan.add(it.at, Action::Submit(index));
        }
        for (index, it) in scenario.loops.iter().enumerate() {
            self.plan.add(it.at, Action::Loop(index));
        }
        let started = scenario.starts.iter().max().copied().unwrap_or(Time::ZERO);
        let met = started + MEETING;
        let calm = scenario.faults.iter().all(|fault| fault.at >= met);
        if self.config.acquainted && calm {
            self.plan.add(met, Action::Acquaint);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start(host) => {
                if !self.cluster.is_alive(host) {
                    self.cluster.start(host);
                }
            }
            Action::Begin(index) => match self.faults[index].moment {
                None => self.begin(index),
                Some(_) => self.await_moment(index),
            },
            Action::End(index) => {
                let fault = &self.faults[index];
                self.cluster.note(format_args!("ends: {fault}"));
                fault.end(&mut self.cluster, &self.scenario.host);
            }
            Action::Submit(index) => self.submit(self.scenario.load[index]),
            Action::Loop(index) => {
                let ClosedLoop {
                    host,
                    messages,
                    len,
                    ..
                } = self.scenario.loops[index];
                self.clients.push(Client {
                    host,
                    left: messages,
                    len,
                    last: None,
                });
            }
            Action::Acquaint => self.cluster.expect_accounts(),
        }
    }

    fn begin(&mut self, index: usize) {
        let fault = &self.faults[index];
        self.cluster.note(format_args!("begins: {fault}"));
        fault.begin(&mut self.cluster, &self.scenario.host);
    }

    /// From now on the fault waits for the first datagram that shows its moment.
    fn await_moment(&mut self, index: usize) {
        let Some(moment) = self.faults[index].moment else {
            return;
        };
        let fault = &self.faults[index];
        self.cluster.note(format_args!("waits: {fault}"));
        self.moments.waiting += 1;
        let sprung = Rc::clone(&self.moments.sprung);
        let mut spent = false;
        self.cluster.network().drop_all(move |info| {
            if !spent && !info.is_admission() && (moment.shows)(info.class, info.body()) {
                spent = true;
                let (from, to) = (info.from, info.to);
                sprung.borrow_mut().push(Sprung {
                    fault: index,
                    from,
                    to,
                });
            }
            false
        });
    }

    /// The moment of a fault has come: it strikes one of the two hosts whose datagram shows it.
    fn spring(&mut self, sprung: Sprung) {
        self.moments.waiting -= 1;
        let (now, struck) = (
            self.cluster.now(),
            match self.rng.chance(0.5) {
                true => sprung.from,
                false => sprung.to,
            },
        );
        let fault = &mut self.faults[sprung.fault];
        fault.strike(now, struck);
        if let Some(until) = fault.until {
            self.plan.add(until, Action::End(sprung.fault));
        }
        self.begin(sprung.fault);
    }

    /// Lets the time until `to` pass, with what happens of itself.
    fn advance(&mut self, to: Time) {
        while self.cluster.now() < to {
            let left = to - self.cluster.now();
            if self.moments.waiting > 0 {
                let sprung = Rc::clone(&self.moments.sprung);
                let limit = if self.clients.is_empty() {
                    left
                } else {
                    left.min(GLANCE)
                };
                self.cluster
                    .run_until(|_| !sprung.borrow().is_empty(), limit);
            } else if self.clients.is_empty() {
                self.cluster.run_to(to);
            } else {
                self.cluster.run_for(left.min(GLANCE));
            }
            let sprung = std::mem::take(&mut *self.moments.sprung.borrow_mut());
            sprung.into_iter().for_each(|it| self.spring(it));
            self.serve_clients();
            // The end of what sprang may be due before.
            if self
                .plan
                .next()
                .is_some_and(|next| next <= self.cluster.now())
            {
                return;
            }
        }
    }

    /// Every client that has its last message sends its next, until it has sent all.
    fn serve_clients(&mut self) {
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| {
            if self.cluster.status(client.host) != Status::Up {
                return false;
            }
            let last = client.last;
            if last.is_some_and(|id| !self.cluster.has_delivered(client.host, id)) {
                return true;
            }
            client.left = client.left.saturating_sub(1);
            client.last = self.say(client.host, client.len);
            client.left > 0 && client.last.is_some()
        });
        self.clients = clients;
    }

    /// A message of a client at `host`, which is its process's own; `None` if it is refused.
    fn say(&mut self, host: usize, len: usize) -> Option<MessageId> {
        let service = self.service(&[groupcast_core::Service::Agreed]);
        let payload = self.payload(len);
        let id = self.cluster.submit(host, service, payload).ok();
        match id {
            Some(_) => self.accepted += 1,
            None => self.refused += 1,
        }
        id
    }

    fn submit(&mut self, submission: Submission) {
        let hosts = self.scenario.hosts;
        let running = (0..hosts)
            .map(|step| (submission.host + step) % hosts)
            .find(|host| self.cluster.status(*host) == Status::Up);
        let payload = self.payload(submission.len);
        let application = &mut self.application;
        let result =
            running.map(|host| application.submit(&mut self.cluster, host, &submission, payload));
        match result {
            Some(Ok(())) => self.accepted += 1,
            None
            | Some(Err(
                SubmitError::Full { .. } | SubmitError::Leaving | SubmitError::Minority { .. },
            )) => self.refused += 1,
            Some(Err(error)) => panic!("a message of {} bytes: {error}", submission.len),
        }
    }
}

impl Fault {
    /// It begins now, at `host` instead of the host that was drawn.
    fn strike(&mut self, now: Time, host: usize) {
        self.until = self.until.map(|until| now + (until - self.at));
        self.at = now;
        if let Some(drawn) = self.effect.host() {
            self.effect.swap(drawn, host);
        }
    }
}
