//! Finding the others: hellos until the group is complete, which is the one configuration that
//! there ever is.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Destination, Event, MemberId, SocketClass, Time,
};

use super::receiver::Receiver;
use super::{Timer, Windowed, wire};

impl Windowed {
    pub(super) fn hear_hello(&mut self, now: Time, from: MemberId, complete: bool) {
        let is_full = self.others.len() + 1 >= self.config.group;
        if is_full && !self.others.contains_key(&from) {
            return;
        }
        self.others.insert(from, complete);
        self.install();
        if !complete && self.timers.due(Timer::Hello).is_none() {
            self.timers
                .set(Timer::Hello, now + self.config.hello_interval);
        }
    }

    pub(super) fn install(&mut self) {
        if self.installed || self.others.len() + 1 < self.config.group {
            return;
        }
        self.installed = true;
        self.transitions
            .record("looking", "complete", "all are found");
        self.sender.install(self.others.keys().copied());
        let capacity = 2 * self.config.window as usize;
        let receiver = |member: &MemberId| (*member, Receiver::new(capacity));
        self.receivers = self.others.keys().map(receiver).collect();
        let mut members: Vec<MemberId> = self.others.keys().copied().collect();
        members.push(self.local);
        members.sort_unstable();
        let representative = members[0];
        self.events.push_back(Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: ConfigId {
                counter: 1,
                representative,
            },
            members,
            left: Vec::new(),
        }));
    }

    pub(super) fn say_hello(&mut self, now: Time) {
        let hello = wire::hello(self.installed);
        self.send(
            Destination::Group,
            SocketClass::Control,
            hello,
            Bytes::new(),
        );
        let all_complete = self.installed && self.others.values().all(|complete| *complete);
        if !all_complete {
            self.timers
                .set(Timer::Hello, now + self.config.hello_interval);
        }
    }
}
