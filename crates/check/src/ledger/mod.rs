//! The facts of a run: what all histories together have said so far, with small indices in place of
//! long identities.
//!
//! The rules read it and hold no facts of their own. Per message it keeps one record, per delivery
//! of an ordered message four bytes and a bit, so that a run can be compared across all its
//! histories at any time. It judges nothing: of contradicting facts it keeps the first, and the
//! rule that forbids the contradiction has seen both.

mod describe;
mod enter;
mod guests;
mod life;
mod record;
mod stream;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, MemberId, MessageId, OrderPlace};

pub(crate) use describe::call_kind;
pub(crate) use guests::{Guests, RoleName};
pub(crate) use life::{MemberLife, Stay};
pub(crate) use record::{
    Account, Config, ConfigIx, MemberIx, Message, MessageIx, SetIx, Spot, Step, Transition, index,
};
pub(crate) use stream::Stream;
pub(crate) use views::{GroupIx, Moment, ViewIx, Views};

/// What the histories say, arranged so that rules can look it up.
#[derive(Default, Debug)]
pub(crate) struct Ledger {
    lives: Vec<MemberLife>,
    members: BTreeMap<MemberId, MemberIx>,
    messages: Vec<Message>,
    configs: Vec<Config>,
    config_ids: BTreeMap<ConfigId, ConfigIx>,
    sets: Vec<Box<[MemberId]>>,
    set_ids: BTreeMap<Box<[MemberId]>, SetIx>,
    transitions: BTreeMap<(ConfigIx, ConfigIx), Transition>,
    views: Views,
    guests: Guests,
    accounts: BTreeMap<MessageIx, Account>,
    /// Of each message, who said that its sender counts it among the receivers.
    enrolled: BTreeMap<MessageIx, BTreeSet<MemberIx>>,
    /// Of each message, who said that it holds all of it and may not deliver it yet.
    held: BTreeMap<MessageIx, BTreeSet<MemberIx>>,
    /// Of each message, who said that these hold it.
    all_hold: BTreeMap<MessageIx, (MemberIx, Box<[MemberId]>)>,
    deliveries: u64,
}

impl Ledger {
    /// Says what `observation` is in terms of the ledger. Gives new identities an index; enters
    /// nothing else.
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
                spot: place.map(|OrderPlace { config, seq }| Spot {
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
            Observation::Held { id } => Step::Held {
                message: self.message_ix(*id),
            },
            Observation::AllHold { id, holders } => Step::AllHold {
                message: self.message_ix(*id),
                holders,
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
            Observation::Asked {
                request, client, ..
            } => Step::Asked { request, client },
            Observation::Replied {
                request,
                client,
                handler,
            } => Step::Replied {
                request,
                client,
                handler: *handler,
            },
            Observation::Granted {
                group,
                role,
                client,
                place,
            } => Step::Granted {
                role: (group.clone(), role.clone()),
                client,
                place: *place,
            },
            Observation::Freed {
                group,
                role,
                client,
                place,
            } => Step::Freed {
                role: (group.clone(), role.clone()),
                client,
                place: *place,
            },
            Observation::Leave => Step::Leave,
            Observation::Crash => Step::Crash,
        }
    }

    /// The index of `member`, new or old.
    pub(crate) fn member_ix(&mut self, member: MemberId) -> MemberIx {
        let lives = &mut self.lives;
        *self.members.entry(member).or_insert_with(|| {
            lives.push(MemberLife::new(member));
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

    /// Messages may be delivered to `member` before they are ordered.
    pub(crate) fn expect_early(&mut self, member: MemberId) {
        let ix = self.member_ix(member);
        self.lives[ix.get()].is_early = true;
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

    pub(crate) fn life(&self, ix: MemberIx) -> &MemberLife {
        &self.lives[ix.get()]
    }

    /// All members, with or without a history.
    pub(crate) fn lives(&self) -> impl Iterator<Item = &MemberLife> {
        self.lives.iter()
    }

    /// All members that have a history.
    pub(crate) fn observers(&self) -> impl Iterator<Item = (MemberIx, &MemberLife)> {
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

    /// Whether a member said that it holds all of a message before it may deliver it.
    pub(crate) fn has_held(&self, message: MessageIx, member: MemberIx) -> bool {
        let held = self.held.get(&message);
        held.is_some_and(|members| members.contains(&member))
    }

    /// Each message of which its sender said that all hold it: who said so, and of whom.
    pub(crate) fn all_hold(&self) -> impl Iterator<Item = (MessageIx, MemberIx, &[MemberId])> {
        let all = self.all_hold.iter();
        all.map(|(message, (by, holders))| (*message, *by, &**holders))
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    pub(crate) fn guests(&self) -> &Guests {
        &self.guests
    }

    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// What anybody delivered with a place in the configuration of `member`'s stay number `index`,
    /// at `last` or before, and `member` neither delivered nor reported as lost.
    pub(crate) fn missed(
        &self,
        member: MemberIx,
        index: usize,
        last: u64,
    ) -> impl Iterator<Item = (u64, MessageIx)> {
        let life = self.life(member);
        let order = &self.config(life.stays[index].config).order;
        let known = order.range(..=last).map(|(seq, message)| (*seq, *message));
        known.filter(|(_, ix)| {
            let message = self.message(*ix);
            !life.has(*ix) && !life.has_reported(message.sender, message.id.number)
        })
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
