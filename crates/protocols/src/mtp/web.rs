//! How a member finds a web, loses it, and goes over to another.

use alloc::collections::BTreeMap;

use groupcast_core::{Destination, Incarnation, MemberId, Time};

use super::Mtp;
use super::incoming::Incoming;
use super::master::Master;
use super::statuses::Statuses;
use super::wire::{InWeb, Message};

/// The web that a member is in.
#[derive(Debug)]
pub(super) struct Web {
    pub(super) id: Incarnation,
    pub(super) master: MemberId,
    /// When the master was heard last.
    heard: Time,
    pub(super) statuses: Statuses,
    /// The next message to be delivered.
    pub(super) next: u64,
    pub(super) incoming: BTreeMap<u64, Incoming>,
}

/// Heartbeats for which a member looks for a web before it makes one.
const LOOKS: u32 = 3;
/// Heartbeats after which a silent master is gone; it says that it is there four times as often.
const SILENCE: u32 = 16;
/// Members that are remembered while a web is looked for.
const LOOKING_MAX: usize = 1_024;

impl Mtp {
    /// Another looks for a web.
    pub(super) fn hear_hello(&mut self, now: Time, from: MemberId) {
        if self.looking.len() < LOOKING_MAX {
            self.looking.insert(from);
        }
        let heartbeat = self.config.heartbeat;
        if let Some(master) = &self.master
            && now - master.said >= heartbeat
        {
            self.say_alive(now);
        }
    }

    fn say_alive(&mut self, now: Time) {
        let (Some(master), Some(web)) = (&mut self.master, &self.web) else {
            return;
        };
        master.said = now;
        let statuses = web.statuses;
        self.send(Destination::Group, InWeb::Alive(statuses));
    }

    /// A datagram of some web: that of a master may be one to go over to.
    pub(super) fn hear_web(&mut self, now: Time, from: MemberId, id: Incarnation, said: &InWeb) {
        let (InWeb::Status(statuses) | InWeb::Alive(statuses)) = said else {
            return;
        };
        if from.incarnation != id {
            return;
        }
        match &mut self.web {
            Some(web) if web.id == id => {
                if web.master == from {
                    web.heard = now;
                }
            }
            Some(web) if web.master > from => {
                let heartbeat = self.config.heartbeat;
                let master = self.master.as_ref();
                if master.is_some_and(|it| now - it.said >= heartbeat) {
                    // So that the other hears of this one.
                    self.say_alive(now);
                }
            }
            _ => {
                self.lose_web(now);
                self.web = Some(Web {
                    id,
                    master: from,
                    heard: now,
                    statuses: *statuses,
                    // What has a token already began without this member.
                    next: statuses.newest() + 1,
                    incoming: BTreeMap::new(),
                });
                self.ask(now);
            }
        }
    }

    /// What a heartbeat brings while a web is looked for, or kept.
    pub(super) fn keep_web(&mut self, now: Time) {
        let heartbeat = self.config.heartbeat;
        if let Some(master) = &self.master {
            if now - master.said >= heartbeat * (SILENCE / 4) {
                self.say_alive(now);
            }
            return;
        }
        if let Some(web) = &self.web {
            if now - web.heard >= heartbeat * SILENCE {
                self.lose_web(now);
            }
            return;
        }
        let highest = self.looking.iter().all(|other| *other < self.local);
        if highest && now - self.looks_since >= heartbeat * LOOKS {
            self.master = Some(Master::default());
            self.web = Some(Web {
                id: self.local.incarnation,
                master: self.local,
                heard: now,
                statuses: Statuses::default(),
                next: 1,
                incoming: BTreeMap::new(),
            });
            self.say_alive(now);
            return self.ask(now);
        }
        if now - self.looks_since >= heartbeat * SILENCE {
            // Whoever was higher has gone.
            self.looking.clear();
            self.looks_since = now;
        }
        self.outbox
            .push_back((Destination::Group, Message::Hello.encode()));
    }

    /// The web is gone, for this member. What has no token yet is sent in the next.
    fn lose_web(&mut self, now: Time) {
        self.web = None;
        self.master = None;
        self.asked = None;
        self.looking.clear();
        self.looks_since = now;
        self.outgoing.clear();
    }
}
