//! The facts of a run: what all histories together have said so far, with small indices in place of long identities.
//!
//! The rules read it and hold no facts of their own. Per message it keeps one record, per delivery of an ordered
//! message four bytes and a bit, so that a run can be compared across all its histories at any time. It judges
//! nothing: of contradicting facts it keeps the first, and the rule that forbids the contradiction has seen both.

mod describe;
mod life;
mod stream;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, ConfigurationKind, MemberId, MessageId, Place, Service};

pub(crate) use describe::call_kind;
pub(crate) use life::Life;
pub(crate) use stream::Stream;
pub(crate) use views::{GroupIx, Moment, ViewIx, Views};

use crate::outcome::Ending;

/// An index into one of the ledger's tables.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name(u32);

        impl $name {
            pub(crate) fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("2^32 records do not fit into memory"))
            }

            pub(crate) fn get(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use index;

index!(
    /// A member: it has a history, or sent a message that is in one.
    MemberIx
);
index!(
    /// A regular configuration.
    ConfigIx
);
index!(
    /// A message.
    MessageIx
);
index!(
    /// A list of members.
    SetIx
);

/// A place in the total order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub(crate) seq: u64,
    pub(crate) config: ConfigIx,
}

/// What is known about a message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: MessageId,
    pub(crate) sender: MemberIx,
    pub(crate) submission: Option<Submission>,
    /// Its first delivery anywhere.
    pub(crate) sighting: Option<Sighting>,
    /// Who delivered it first in a regular configuration.
    pub(crate) regular_at: Option<MemberIx>,
}

/// How a message was submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    pub(crate) service: Service,
    pub(crate) digest: u64,
    /// The last ordered message that its sender had delivered: all that it had seen stands there or before.
    pub(crate) after: Option<Spot>,
    /// The last regular configuration that its sender had closed, by installing its transitional one.
    pub(crate) closed: Option<ConfigIx>,
}

/// How a message was delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub(crate) by: MemberIx,
    pub(crate) service: Service,
    pub(crate) digest: u64,
    pub(crate) spot: Option<Spot>,
}

/// What the sender of a message said became of it.
#[derive(Debug)]
pub(crate) struct Account {
    /// Who said it.
    pub(crate) by: MemberIx,
    /// Who has all of it.
    pub(crate) complete: Box<[MemberId]>,
    /// Who does not, or may not.
    pub(crate) failed: Box<[MemberId]>,
}

/// What is known about a regular configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) id: ConfigId,
    /// Its members and who installed it first; `None` as long as nobody has.
    pub(crate) installed: Option<(SetIx, MemberIx)>,
    /// What is delivered anywhere with a place in it, by `seq`.
    pub(crate) order: BTreeMap<u64, MessageIx>,
}

/// Two consecutive regular configurations of a member, through a transitional one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    /// The members of the transitional configuration.
    pub(crate) set: SetIx,
    /// Who made it first.
    pub(crate) by: MemberIx,
    /// Which of that one's stays it ended.
    pub(crate) stay: usize,
}

/// An observation in terms of the ledger, not yet entered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    Start,
    Submit {
        message: MessageIx,
        id: MessageId,
        service: Service,
        digest: u64,
    },
    Deliver {
        message: MessageIx,
        service: Service,
        digest: u64,
        spot: Option<Spot>,
    },
    Install {
        kind: ConfigurationKind,
        config: ConfigIx,
        set: SetIx,
    },
    Enrolled {
        message: MessageIx,
    },
    Account {
        message: MessageIx,
        complete: &'a [MemberId],
        failed: &'a [MemberId],
    },
    GroupView {
        group: GroupIx,
        view: Option<ViewIx>,
        name: &'a str,
        members: &'a [String],
    },
    /// Of `sender`, all numbers from `first` to `last`.
    Gap {
        sender: MemberIx,
        first: u64,
        last: u64,
    },
    Leave,
    Crash,
}

/// The facts.
#[derive(Default, Debug)]
pub(crate) struct Ledger {
    lives: Vec<Life>,
    members: BTreeMap<MemberId, MemberIx>,
    messages: Vec<Message>,
    configs: Vec<Config>,
    config_ids: BTreeMap<ConfigId, ConfigIx>,
    sets: Vec<Box<[MemberId]>>,
    set_ids: BTreeMap<Box<[MemberId]>, SetIx>,
    transitions: BTreeMap<(ConfigIx, ConfigIx), Transition>,
    views: Views,
    accounts: BTreeMap<MessageIx, Account>,
    /// Of each message, who said that its sender counts it among the receivers.
    enrolled: BTreeMap<MessageIx, BTreeSet<MemberIx>>,
    deliveries: u64,
}

impl Ledger {
    /// Says what `observation` is in terms of the ledger. Gives new identities an index; enters nothing else.
    pub(crate) fn resolve<'a>(&mut self, observation: &'a Observation) -> Step<'a> {
        match observation {
            Observation::Start => Step::Start,
            Observation::Submit {
                id,
                service,
                digest,
            } => Step::Submit {
                message: self.message_ix(*id),
                id: *id,
                service: *service,
                digest: *digest,
            },
            Observation::Deliver {
                id,
                service,
                place,
                digest,
            } => Step::Deliver {
                message: self.message_ix(*id),
                service: *service,
                digest: *digest,
                spot: place.map(|Place { config, seq }| Spot {
                    seq,
                    config: self.config_ix(config),
                }),
            },
            Observation::Configuration { kind, id, members } => Step::Install {
                kind: *kind,
                config: self.config_ix(*id),
                set: self.set_ix(members),
            },
            Observation::Enrolled { id } => Step::Enrolled {
                message: self.message_ix(*id),
            },
            Observation::Account {
                id,
                complete,
                failed,
            } => Step::Account {
                message: self.message_ix(*id),
                complete,
                failed,
            },
            Observation::GroupView {
                group,
                view,
                members,
            } => {
                let group = self.views.group_ix(group);
                Step::GroupView {
                    group,
                    view: self.views.find(group, view),
                    name: view,
                    members,
                }
            }
            Observation::Gap(gap) => Step::Gap {
                sender: self.member_ix(gap.sender),
                first: gap.first,
                last: gap.last,
            },
            Observation::Leave => Step::Leave,
            Observation::Crash => Step::Crash,
        }
    }

    /// Enters `step`, which `observer` saw.
    pub(crate) fn enter(&mut self, observer: MemberIx, step: &Step<'_>) {
        let life = &mut self.lives[observer.get()];
        life.lines += 1;
        match *step {
            Step::Start => {}
            Step::Submit {
                message,
                id,
                service,
                digest,
            } => {
                life.submitted = life.submitted.max(id.number);
                let message = &mut self.messages[message.get()];
                if id.sender == life.id && message.submission.is_none() {
                    message.submission = Some(Submission {
                        service,
                        digest,
                        after: life.last,
                        closed: life.closed(),
                    });
                }
            }
            Step::Deliver {
                message,
                service,
                digest,
                spot,
            } => {
                let sighting = Sighting {
                    by: observer,
                    service,
                    digest,
                    spot,
                };
                self.enter_delivery(observer, message, sighting);
            }
            Step::Install { kind, config, set } => self.enter_install(observer, kind, config, set),
            Step::Enrolled { message } => {
                self.enrolled.entry(message).or_default().insert(observer);
            }
            Step::Account {
                message,
                complete,
                failed,
            } => {
                let account = Account {
                    by: observer,
                    complete: complete.into(),
                    failed: failed.into(),
                };
                let number = self.messages[message.get()].id.number;
                life.accounted = life.accounted.max(number);
                self.accounts.entry(message).or_insert(account);
            }
            Step::GroupView {
                group,
                view,
                name,
                members,
            } => {
                let moment = life.moment();
                let view = view
                    .unwrap_or_else(|| self.views.insert(group, name, members, observer, moment));
                self.views.enter(group, observer, view);
            }
            Step::Gap {
                sender,
                first,
                last,
            } => life.report(sender, first, last),
            Step::Leave => life.ended = Some(Ending::Left),
            Step::Crash => life.ended = Some(Ending::Crashed),
        }
    }

    fn enter_delivery(&mut self, observer: MemberIx, ix: MessageIx, sighting: Sighting) {
        self.deliveries += 1;
        let life = &mut self.lives[observer.get()];
        let message = &mut self.messages[ix.get()];
        let is_first = message.sighting.is_none();
        message.sighting.get_or_insert(sighting);
        let Some(spot) = sighting.spot else {
            if sighting.service != Service::Unreliable {
                life.receive(ix, message.sender, message.id.number);
                life.deliver_unplaced(message.sender, message.id.number, sighting.service);
            }
            return;
        };
        if !life.deliver(ix, message.sender, message.id.number, spot) {
            return;
        }
        if life.in_regular() {
            message.regular_at.get_or_insert(observer);
        }
        if is_first {
            let order = &mut self.configs[spot.config.get()].order;
            order.entry(spot.seq).or_insert(ix);
        }
    }

    fn enter_install(
        &mut self,
        observer: MemberIx,
        kind: ConfigurationKind,
        config: ConfigIx,
        set: SetIx,
    ) {
        let life = &mut self.lives[observer.get()];
        if kind == ConfigurationKind::Transitional {
            life.install_transitional(set);
            return;
        }
        if let Some((stay, last)) = life.stays.iter().enumerate().next_back()
            && let Some(transitional) = &last.transitional
        {
            let transition = Transition {
                set: transitional.set,
                by: observer,
                stay,
            };
            self.transitions
                .entry((last.config, config))
                .or_insert(transition);
        }
        let record = &mut self.configs[config.get()];
        record.installed.get_or_insert((set, observer));
        life.install_regular(config, record.id.counter);
    }

    /// The index of `member`, new or old.
    pub(crate) fn member_ix(&mut self, member: MemberId) -> MemberIx {
        let lives = &mut self.lives;
        *self.members.entry(member).or_insert_with(|| {
            lives.push(Life::new(member));
            MemberIx::new(lives.len() - 1)
        })
    }

    fn message_ix(&mut self, id: MessageId) -> MessageIx {
        let sender = self.member_ix(id.sender);
        let messages = &mut self.messages;
        *self.lives[sender.get()]
            .numbers
            .entry(id.number)
            .or_insert_with(|| {
                messages.push(Message {
                    id,
                    sender,
                    submission: None,
                    sighting: None,
                    regular_at: None,
                });
                MessageIx::new(messages.len() - 1)
            })
    }

    fn config_ix(&mut self, id: ConfigId) -> ConfigIx {
        let configs = &mut self.configs;
        *self.config_ids.entry(id).or_insert_with(|| {
            configs.push(Config {
                id,
                installed: None,
                order: BTreeMap::new(),
            });
            ConfigIx::new(configs.len() - 1)
        })
    }

    fn set_ix(&mut self, members: &[MemberId]) -> SetIx {
        if let Some(ix) = self.set_ids.get(members) {
            return *ix;
        }
        let ix = SetIx::new(self.sets.len());
        self.sets.push(members.into());
        self.set_ids.insert(members.into(), ix);
        ix
    }

    /// Records the name of `member`, for the texts.
    pub(crate) fn set_name(&mut self, member: MemberId, name: &str) {
        let ix = self.member_ix(member);
        self.lives[ix.get()].name = Some(name.to_owned());
    }

    pub(crate) fn find(&self, member: MemberId) -> Option<MemberIx> {
        self.members.get(&member).copied()
    }

    pub(crate) fn find_message(&self, id: MessageId) -> Option<MessageIx> {
        self.life(self.find(id.sender)?)
            .numbers
            .get(&id.number)
            .copied()
    }

    pub(crate) fn life(&self, ix: MemberIx) -> &Life {
        &self.lives[ix.get()]
    }

    /// All members that have a history.
    pub(crate) fn observers(&self) -> impl Iterator<Item = (MemberIx, &Life)> {
        let lives = self.lives.iter().enumerate();
        lives
            .filter(|(_, life)| life.lines > 0)
            .map(|(ix, life)| (MemberIx::new(ix), life))
    }

    pub(crate) fn message(&self, ix: MessageIx) -> &Message {
        &self.messages[ix.get()]
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) fn config(&self, ix: ConfigIx) -> &Config {
        &self.configs[ix.get()]
    }

    /// All regular configurations that anybody named.
    pub(crate) fn configs(&self) -> impl Iterator<Item = (ConfigIx, &Config)> {
        let configs = self.configs.iter().enumerate();
        configs.map(|(ix, config)| (ConfigIx::new(ix), config))
    }

    pub(crate) fn set(&self, ix: SetIx) -> &[MemberId] {
        &self.sets[ix.get()]
    }

    pub(crate) fn transition(&self, from: ConfigIx, to: ConfigIx) -> Option<&Transition> {
        self.transitions.get(&(from, to))
    }

    pub(crate) fn transitions(&self) -> impl Iterator<Item = ((ConfigIx, ConfigIx), &Transition)> {
        self.transitions.iter().map(|(key, value)| (*key, value))
    }

    /// What senders said became of their messages.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (MessageIx, &Account)> {
        self.accounts
            .iter()
            .map(|(message, account)| (*message, account))
    }

    /// Who said that the sender of `message` counts it among the receivers.
    pub(crate) fn enrolled(&self, message: MessageIx) -> impl Iterator<Item = MemberId> {
        let members = self.enrolled.get(&message).into_iter().flatten();
        members.map(|member| self.life(*member).id)
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// What anybody delivered with a place in the configuration of `member`'s stay number `index`, at `last` or before,
    /// and `member` did not.
    pub(crate) fn missed(
        &self,
        member: MemberIx,
        index: usize,
        last: u64,
    ) -> impl Iterator<Item = (u64, MessageIx)> {
        let life = self.life(member);
        let order = &self.config(life.stays[index].config).order;
        let known = order.range(..=last).map(|(seq, message)| (*seq, *message));
        known.filter(|(_, message)| !life.has(*message))
    }

    /// The `seq` of a message's place.
    pub(crate) fn seq(&self, message: MessageIx) -> Option<u64> {
        let sighting = self.message(message).sighting.as_ref()?;
        sighting.spot.map(|spot| spot.seq)
    }

    /// Whether `member` has gone beyond `config`: it is in a later regular configuration.
    pub(crate) fn is_past(&self, member: MemberIx, config: ConfigIx) -> bool {
        self.life(member).counter > self.config(config).id.counter
    }
}
