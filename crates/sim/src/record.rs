//! The histories of a world's members, which the judge reads, and the trace hash.

use std::cell::RefCell;
use std::rc::Rc;

use groupcast_check::{Checker, Contract};
use groupcast_core::trace::{Observation, Observer};
use groupcast_core::{ConfigId, MemberId, MessageId, Time};

use crate::seal::fold;

/// A running hash of all that happens: the same seed twice gives the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    pub(crate) fn new() -> Self {
        Self(0x2d35_8dcc_aa6c_78a5)
    }

    pub(crate) fn absorb(&mut self, word: u64) {
        self.0 = fold(self.0.rotate_left(17) ^ word, 0x8bb8_4b93_962e_acc9) ^ word;
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }

    fn member(&mut self, member: MemberId) {
        self.absorb(member.node.0);
        self.absorb(member.incarnation.0);
    }

    fn message(&mut self, id: MessageId) {
        self.member(id.sender);
        self.absorb(id.number);
    }

    fn config(&mut self, id: ConfigId) {
        self.absorb(id.counter);
        self.member(id.representative);
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a String>) {
        for text in texts {
            self.absorb(groupcast_core::trace::digest(text.as_bytes()));
        }
    }

    fn observation(&mut self, observation: &Observation) {
        match observation {
            Observation::Start => self.absorb(1),
            Observation::Submit {
                id,
                service,
                digest,
            } => {
                self.absorb(2 + (u64::from(service.code()) << 8));
                self.message(*id);
                self.absorb(*digest);
            }
            Observation::Deliver {
                id,
                service,
                place,
                digest,
            } => {
                self.absorb(3 + (u64::from(service.code()) << 8));
                self.message(*id);
                if let Some(place) = place {
                    self.config(place.config);
                    self.absorb(place.seq);
                }
                self.absorb(*digest);
            }
            Observation::Configuration { kind, id, members } => {
                self.absorb(4 + ((*kind as u64) << 8));
                self.config(*id);
                members.iter().for_each(|member| self.member(*member));
            }
            Observation::GroupView {
                group,
                view,
                members,
            } => {
                self.absorb(5);
                self.texts([group, view].into_iter().chain(members));
            }
            Observation::Account {
                id,
                complete,
                failed,
            } => {
                self.absorb(8);
                self.message(*id);
                self.absorb(complete.len() as u64);
                let all = complete.iter().chain(failed);
                all.for_each(|member| self.member(*member));
            }
            Observation::Enrolled { id } => {
                self.absorb(10);
                self.message(*id);
            }
            Observation::Held { id } => {
                self.absorb(15);
                self.message(*id);
            }
            Observation::AllHold { id, holders } => {
                self.absorb(16);
                self.message(*id);
                holders.iter().for_each(|member| self.member(*member));
            }
            Observation::Gap(gap) => {
                self.absorb(9);
                self.member(gap.sender);
                self.absorb(gap.first);
                self.absorb(gap.last);
            }
            Observation::Asked {
                request,
                group,
                client,
            } => {
                self.absorb(11);
                self.texts([request, group, client]);
            }
            Observation::Replied {
                request,
                client,
                handler,
            } => {
                self.absorb(12 + (handler.map_or(0, |it| u64::from(it) + 1) << 8));
                self.texts([request, client]);
            }
            Observation::Granted {
                group,
                role,
                client,
                place,
            }
            | Observation::Freed {
                group,
                role,
                client,
                place,
            } => {
                let granted = matches!(observation, Observation::Granted { .. });
                self.absorb(if granted { 13 } else { 14 });
                self.texts([group, role, client]);
                self.config(place.config);
                self.absorb(place.seq);
            }
            Observation::Leave => self.absorb(6),
            Observation::Crash => self.absorb(7),
        }
    }
}

/// All histories of a world, in the order in which they were made, and the judge that checks them
/// as they grow.
pub(crate) struct Record {
    /// The world's time, kept up to date by it.
    pub(crate) now: Time,
    pub(crate) hash: TraceHash,
    log: Vec<(MemberId, Observation)>,
    pub(crate) checker: Checker,
}

impl Record {
    pub(crate) fn new(contract: Contract) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            now: Time::ZERO,
            hash: TraceHash::new(),
            log: Vec::new(),
            checker: Checker::new().under(contract),
        }))
    }

    /// All observations in their order, each with the member that made it.
    pub(crate) fn log(&self) -> &[(MemberId, Observation)] {
        &self.log
    }

    pub(crate) fn observe(&mut self, member: MemberId, observation: &Observation) {
        self.hash.absorb(self.now.as_nanos());
        self.hash.member(member);
        self.hash.observation(observation);
        self.checker.observe(member, observation);
        self.log.push((member, observation.clone()));
    }
}

/// The observer of one node.
pub(crate) struct Tap(pub(crate) Rc<RefCell<Record>>);

impl Observer for Tap {
    fn observe(&mut self, observer: MemberId, observation: &Observation) {
        self.0.borrow_mut().observe(observer, observation);
    }
}
