//! The steps of a world: which there are, what they do, and which of them commute.

use std::hash::Hash;

use bytes::Bytes;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{Ordered, SocketClass, Time, TransmitBuf};

use super::world::{InFlight, World, member};
use super::{ExploreConfig, fingerprint};

/// A step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// The copy with this index arrives.
    Arrive(usize),
    /// What is due at this member expires.
    Expire(usize),
    /// The message with this index is submitted.
    Submit(usize),
    /// Time passes.
    Pass(Passage),
}

/// How time passes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Passage {
    /// Who crashes, and all that was on its way to it is lost with it.
    pub(super) crash: Option<usize>,
    /// The keys of the other copies that are lost; the rest is late.
    pub(super) lost: Vec<u64>,
    /// All is done.
    pub(super) rests: bool,
    /// Until then.
    pub(super) until: Time,
}

/// What tells a step from others, whatever the world. Steps at different members commute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) key: u64,
    site: usize,
}

impl Label {
    pub(super) fn commutes(self, other: Self) -> bool {
        self.site != other.site
    }
}

/// The steps of one world.
#[derive(Default)]
pub(super) struct Acts {
    pub(super) acts: Vec<Act>,
    /// A path may end here.
    pub(super) end: bool,
}

impl Act {
    /// `None` for a step that commutes with none.
    pub(super) fn label<P>(&self, world: &World<P>, config: &ExploreConfig) -> Option<Label> {
        Some(match self {
            Self::Arrive(copy) => {
                let copy = &world.copies[*copy];
                let (key, site) = (copy.key, copy.to);
                Label { key, site }
            }
            Self::Expire(site) => Label {
                key: fingerprint::of(&("expire", site)),
                site: *site,
            },
            Self::Submit(message) => Label {
                key: fingerprint::of(&("submit", message)),
                site: config.messages[*message].0,
            },
            Self::Pass(_) => return None,
        })
    }

    /// For a person.
    pub(super) fn describe<P>(&self, world: &World<P>, config: &ExploreConfig) -> String {
        let kind = |copy: &InFlight| {
            let datagram = &copy.datagram;
            let class = SocketClass::Data;
            let kind = (config.inspect)(class, &datagram.body, &mut |_| ()).kind;
            format!("{kind} of {} to {}", datagram.from, copy.to)
        };
        match self {
            Self::Arrive(copy) => format!("{} arrives", kind(&world.copies[*copy])),
            Self::Expire(site) => format!("a timer of {site} expires"),
            Self::Submit(message) => {
                let (site, service) = config.messages[*message];
                format!("{site} submits a message, {service}")
            }
            Self::Pass(passage) => {
                let Passage {
                    crash, lost, until, ..
                } = passage;
                let ended = crash.map_or(String::new(), |site| format!("{site} crashes; "));
                let others = world.copies.iter().filter(|copy| Some(copy.to) != *crash);
                let others = others.map(|copy| {
                    let fate = if lost.contains(&copy.key) {
                        "lost"
                    } else {
                        "late"
                    };
                    format!("{} is {fate}; ", kind(copy))
                });
                format!("{ended}{}it is {until:?}", others.collect::<String>())
            }
        }
    }
}

impl<P: Ordered + Clone + Hash> World<P> {
    /// The world after `act`.
    pub(super) fn after(&self, act: &Act, config: &ExploreConfig, buf: &mut TransmitBuf) -> Self {
        let mut world = self.clone();
        match act {
            Act::Arrive(copy) => {
                let copy = world.copies.remove(*copy);
                let from = member(copy.datagram.from);
                world.input(copy.to, buf, |engine, now| {
                    engine.handle_datagram(now, from, copy.datagram.body.clone());
                    None
                });
            }
            Act::Expire(site) => world.input(*site, buf, |engine, now| {
                engine.handle_timeout(now);
                None
            }),
            Act::Submit(message) => {
                world.submitted |= 1 << message;
                let (site, service) = config.messages[*message];
                let payload = vec![*message as u8];
                let digest = digest(&payload);
                world.input(site, buf, |engine, now| {
                    let accepted = engine.submit(now, service, Bytes::from(payload));
                    accepted.ok().map(|id| Observation::Submit {
                        id,
                        service,
                        digest,
                    })
                });
            }
            Act::Pass(passage) => world.pass(passage),
        }
        world
    }

    fn pass(&mut self, passage: &Passage) {
        if let Some(site) = passage.crash {
            self.crash(site);
        }
        for key in &passage.lost {
            if let Some(at) = self.copies.iter().position(|copy| copy.key == *key) {
                self.copies.remove(at);
                self.losses -= 1;
            }
        }
        self.late -= self.copies.len() as u8;
        self.rest -= u8::from(passage.rests);
        self.now = passage.until;
    }

    /// Whether what is due at the member at `site` has not expired yet.
    fn is_overdue(&self, site: usize) -> bool {
        self.sites[site].due.is_some_and(|due| due <= self.now)
    }

    /// The messages that are to be submitted next, of each member that lives.
    fn next_messages<'a>(&'a self, config: &'a ExploreConfig) -> impl Iterator<Item = usize> + 'a {
        let open = |message: &usize| self.submitted & (1 << message) == 0;
        (0..config.messages.len()).filter(move |message| {
            let site = config.messages[*message].0;
            let mut before = (0..*message).filter(|other| config.messages[*other].0 == site);
            open(message) && self.sites[site].alive && !before.any(|other| open(&other))
        })
    }

    /// The steps in which no time passes.
    pub(super) fn acts(&self, config: &ExploreConfig) -> Vec<Act> {
        let first = |at: &usize| *at == 0 || self.copies[*at - 1].key != self.copies[*at].key;
        let arrivals = (0..self.copies.len()).filter(first).map(Act::Arrive);
        let due = self.alive().filter(|site| self.is_overdue(*site));
        let submissions = self.next_messages(config).map(Act::Submit);
        arrivals
            .chain(due.map(Act::Expire))
            .chain(submissions)
            .collect()
    }

    /// The steps in which time passes. `is_done` tells of the world as it is before that, but for
    /// what is lost and who crashes, whether all is done that must be.
    ///
    /// # Errors
    /// Those of `is_done`.
    pub(super) fn passages<E>(
        &self,
        config: &ExploreConfig,
        mut is_done: impl FnMut(&Self) -> Result<bool, E>,
    ) -> Result<Acts, E> {
        let mut acts = Acts::default();
        let may_crash = self.crashes > 0 && self.alive().count() > 1;
        let crashes = self.alive().filter(|_| may_crash).map(Some);
        for crash in std::iter::once(None).chain(crashes) {
            if self
                .alive()
                .any(|site| Some(site) != crash && self.is_overdue(site))
            {
                continue;
            }
            let left = self.copies.iter().filter(|copy| Some(copy.to) != crash);
            let left: Vec<u64> = left.map(|copy| copy.key).collect();
            if left.len() > usize::from(self.losses) + usize::from(self.late) {
                continue;
            }
            let mut world = self.clone();
            if let Some(site) = crash {
                world.crash(site);
            }
            let done = is_done(&world)?;
            for lost in fates(&left, self.losses.into(), self.late.into()) {
                let rests = done && lost.len() == left.len();
                let waits = world.next_messages(config).next().is_some();
                if rests && (waits || self.rest == 0) {
                    acts.end |= !waits;
                    continue;
                }
                let passage = |until| {
                    let lost = lost.clone();
                    Act::Pass(Passage {
                        crash,
                        lost,
                        rests,
                        until,
                    })
                };
                acts.acts.extend(world.times(config).map(passage));
            }
        }
        Ok(acts)
    }

    /// Until when time may pass: to the first timer, or one that is due soon after.
    fn times(&self, config: &ExploreConfig) -> impl Iterator<Item = Time> {
        let due = self.alive().filter_map(|site| self.sites[site].due);
        let mut due: Vec<Time> = due.map(|due| due.max(self.now)).collect();
        due.sort_unstable();
        due.dedup();
        let most = due.first().map(|first| *first + config.skew);
        due.into_iter().filter(move |due| Some(*due) <= most)
    }
}

/// The sets of those of `left` that are lost, of which at most `losses` are and at most `late` are
/// not.
fn fates(left: &[u64], losses: usize, late: usize) -> Vec<Vec<u64>> {
    let sets = (0..1_u32 << left.len()).map(|set| {
        let is_in = |at: &usize| set & (1 << at) != 0;
        (0..left.len()).filter(is_in).map(|at| left[at]).collect()
    });
    let fits = |set: &Vec<u64>| set.len() <= losses && left.len() - set.len() <= late;
    sets.filter(fits).collect()
}
