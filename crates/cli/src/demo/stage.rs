//! The stage: all members of the demo with their diaries, the judge, and the waits for what must
//! happen.
//!
//! Only the story's thread uses it. Members report through one bounded channel: if the stage falls
//! behind, they wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use groupcast_check::{CheckReport, Checker, Ending, Outcome, Together};
use groupcast_core::family::OrderFamily;
use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, ConfigurationKind, Incarnation, MemberId, NodeId, Rng};
use groupcast_net::{Key, random_u64};

use super::diary::{Diary, Installed, Tally};
use super::load::Messages;
use super::member::{Birth, Command, Member, Notice, What};
use super::network::Network;
use crate::failure::Failure;

/// Names of the members, in the order in which they are given.
pub(crate) const NAMES: [&str; 16] = [
    "ada", "ben", "cleo", "dan", "eva", "finn", "gina", "hugo", "iris", "jack", "kate", "leo",
    "mia", "nils", "olga", "paul",
];

/// A member of the demo: one name, with several incarnations one after another.
struct DemoMember {
    name: &'static str,
    lives: u64,
    /// The id of the last incarnation.
    id: MemberId,
    diary: Diary,
    /// `None` before the first incarnation and between two.
    member: Option<Member>,
    /// Whether the member has obeyed the command to rest.
    rested: bool,
    /// When its last incarnation ended.
    ended: Option<Instant>,
}

/// All members, and the judge.
pub(crate) struct DemoStage {
    order: &'static OrderFamily,
    network: Network,
    key: Key,
    rng: Rng,
    members: Vec<DemoMember>,
    /// The names of all incarnations.
    names: BTreeMap<MemberId, String>,
    checker: Checker,
    notices: Receiver<Notice>,
    sender: SyncSender<Notice>,
}

impl DemoStage {
    /// How long a wait may take. On a busy machine a wait takes a tenth of this.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
    /// The most notices that wait for the stage; then the members wait.
    const NOTICES_MAX: usize = 4_096;

    /// An empty stage for `count` members, at most as many as there are [`NAMES`].
    pub(crate) fn new(
        count: u8,
        order: &'static OrderFamily,
        network: Network,
        key: Key,
        rng: &Rng,
    ) -> Self {
        let (sender, notices) = mpsc::sync_channel(Self::NOTICES_MAX);
        let members = NAMES.iter().take(count.into()).map(|name| {
            let id = MemberId {
                node: NodeId::from_name(name),
                incarnation: Incarnation(0),
            };
            DemoMember {
                name,
                lives: 0,
                id,
                diary: Diary::new(id, order.family.contract),
                member: None,
                rested: false,
                ended: None,
            }
        });
        Self {
            order,
            members: members.collect(),
            network,
            key,
            rng: rng.fork("messages"),
            names: BTreeMap::new(),
            checker: Checker::new().under(order.family.contract),
            notices,
            sender,
        }
    }

    /// Starts a new incarnation of member `index`.
    pub(crate) fn start(&mut self, index: usize) -> Result<(), Failure> {
        let incarnation = Incarnation(random_u64().map_err(Failure::failed)?);
        let rng = Rng::new(random_u64().map_err(Failure::failed)?);
        let demo_member = &mut self.members[index];
        demo_member.lives += 1;
        demo_member.id.incarnation = incarnation;
        demo_member.diary = Diary::new(demo_member.id, self.order.family.contract);
        demo_member.rested = true;
        demo_member.ended = None;
        let name = match demo_member.lives {
            1 => demo_member.name.to_owned(),
            life => format!("{}#{life}", demo_member.name),
        };
        self.names.insert(demo_member.id, name.clone());
        self.checker.set_name(demo_member.id, &name);
        let birth = Birth {
            id: demo_member.id,
            name,
            order: self.order,
            endpoint: self.network.endpoint(index),
            key: self.key.clone(),
            rng,
            messages: Messages::new(
                self.rng
                    .fork_index(index as u64)
                    .fork_index(demo_member.lives),
            ),
        };
        let member = Member::start(birth, self.sender.clone()).map_err(|error| {
            Failure::failed(format!("{} cannot start: {error}", demo_member.name)).help(
                "the demo needs the loopback interface: `ip address show lo` says whether it is up",
            )
        })?;
        demo_member.member = Some(member);
        Ok(())
    }

    /// Tells each of `indices` what to do; the next wait notices a member that has ended already.
    pub(crate) fn tell(&mut self, indices: &[usize], command: impl Fn(usize) -> Command) {
        for index in indices {
            let demo_member = &mut self.members[*index];
            demo_member.rested = false;
            if let Some(member) = &demo_member.member {
                member.tell(command(*index));
            }
        }
    }

    /// Cuts the network: members hear only those of their own side.
    pub(crate) fn cut(&mut self, sides: &[Vec<usize>]) {
        for side in sides {
            let heard = side.iter().map(|index| self.network.address(*index).into());
            let heard: BTreeSet<_> = heard.collect();
            self.tell(side, |_| Command::Hear(Some(heard.clone())));
        }
    }

    /// Sets the mark: from here on paths, tallies and bytes are counted anew.
    pub(crate) fn mark(&mut self) {
        self.members
            .iter_mut()
            .for_each(|demo_member| demo_member.diary.mark());
    }

    /// Waits until `done`; `what` completes the sentence "waited for … in vain".
    pub(crate) fn wait(
        &mut self,
        what: &str,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + Self::PATIENCE;
        while !done(self) {
            self.take_some(deadline, what)?;
        }
        Ok(())
    }

    /// Waits for at least one notice, and takes those that have come.
    pub(crate) fn take_some(&mut self, deadline: Instant, what: &str) -> Result<(), Failure> {
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.notices.recv_timeout(patience) {
            Ok(notice) => self.take(notice)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(self.in_vain(what));
            }
        }
        for _ in 0..Self::NOTICES_MAX {
            let Ok(notice) = self.notices.try_recv() else {
                break;
            };
            self.take(notice)?;
        }
        match Instant::now() > deadline {
            true => Err(self.in_vain(what)),
            false => Ok(()),
        }
    }

    fn take(&mut self, notice: Notice) -> Result<(), Failure> {
        let Notice { member, at, what } = notice;
        let Some(demo_member) = self
            .members
            .iter_mut()
            .find(|demo_member| demo_member.id == member)
        else {
            return Ok(());
        };
        match what {
            What::Saw {
                observations,
                bytes,
            } => {
                demo_member.diary.add_bytes(bytes);
                for observation in &observations {
                    demo_member.diary.enter(at, observation);
                    self.checker.observe(member, observation);
                }
            }
            What::Rested => demo_member.rested = true,
            What::Ended(Err(error)) => {
                let name = &self.names[&member];
                return Err(Failure::failed(format!("{name} gave up: {error}")));
            }
            What::Ended(Ok(())) => {
                demo_member.member = None;
                demo_member.ended = Some(at);
                if demo_member.diary.left().is_none() {
                    self.checker.observe(member, &Observation::Crash);
                }
            }
        }
        Ok(())
    }

    fn in_vain(&self, what: &str) -> Failure {
        let places = self.members.iter().map(|demo_member| {
            let place = match demo_member.diary.current() {
                None => "in no configuration".to_owned(),
                Some(current) => self.describe(current),
            };
            format!("\n  {}: {place}", demo_member.name)
        });
        Failure::failed(format!(
            "waited for {what} in vain ({} s){}",
            Self::PATIENCE.as_secs(),
            places.collect::<String>()
        ))
        .help(
            "the loopback interface may be down (`ip address show lo`), or this machine too busy for so many members: try \
             again, or with fewer",
        )
    }

    fn describe(&self, installed: &Installed) -> String {
        format!(
            "{} {}: {}",
            kind_word(installed),
            self.call(installed.id),
            self.names_of(&installed.members).join(" ")
        )
    }

    /// Whether each of `indices` is in the same regular configuration, of exactly these members.
    pub(crate) fn is_together(&self, indices: &[usize]) -> bool {
        let mut expected: Vec<MemberId> = indices.iter().map(|index| self.id(*index)).collect();
        expected.sort_unstable();
        let mut regular = indices.iter().map(|index| self.diary(*index).regular());
        let Some(Some(first)) = regular.next() else {
            return false;
        };
        first.members == expected && regular.all(|other| other.is_some_and(|other| other.is(first)))
    }

    /// Whether each of `indices` has delivered `count` messages in the configuration that it is in.
    pub(crate) fn have_delivered(&self, indices: &[usize], count: u64) -> bool {
        indices.iter().all(|index| {
            let regular = self.diary(*index).regular();
            regular.is_some_and(|regular| regular.tally.messages >= count)
        })
    }

    /// Whether each of `sides` is a separate configuration in which nothing is submitted any more
    /// and every message is delivered at all members.
    pub(crate) fn is_quiet(&self, sides: &[Vec<usize>]) -> bool {
        let place = |index: &usize| self.diary(*index).last_place();
        sides.iter().all(|side| {
            self.is_together(side)
                && side.iter().all(|index| {
                    let demo_member = &self.members[*index];
                    demo_member.rested
                        && demo_member.diary.is_served()
                        && place(index) == place(&side[0])
                })
        })
    }

    /// The configurations installed since the mark at any of `indices`, in the order of time, each
    /// with the members that installed it.
    pub(crate) fn installed(&self, indices: &[usize]) -> Vec<(Installed, Vec<usize>)> {
        let mut all: Vec<(Installed, Vec<usize>)> = Vec::new();
        for index in indices {
            for installed in self.diary(*index).path() {
                match all.iter_mut().find(|(other, _)| other.is(installed)) {
                    Some((other, at)) => {
                        other.at = other.at.max(installed.at);
                        at.push(*index);
                    }
                    None => all.push((installed.clone(), vec![*index])),
                }
            }
        }
        // A member reports what it sees in one turn with one time: the transitional one comes
        // first.
        all.sort_by_key(|(one, _)| (one.at, one.kind == ConfigurationKind::Regular));
        all
    }

    /// The different values of `tally` among `indices`, each with the members that have it: one
    /// entry if all have the same.
    pub(crate) fn tallies(
        &self,
        indices: &[usize],
        tally: impl Fn(&Diary) -> Option<Tally>,
    ) -> Vec<(Tally, Vec<usize>)> {
        let mut all: Vec<(Tally, Vec<usize>)> = Vec::new();
        for index in indices {
            let Some(tally) = tally(self.diary(*index)) else {
                continue;
            };
            match all.iter_mut().find(|(other, _)| *other == tally) {
                Some((_, by)) => by.push(*index),
                None => all.push((tally, vec![*index])),
            }
        }
        all
    }

    /// The verdict on a quiet group: all living members are in one configuration and have delivered
    /// everything.
    pub(crate) fn judge_quiet(&self) -> CheckReport {
        let alive = self.alive();
        let ids = || alive.iter().map(|index| self.id(*index));
        let outcome = Outcome {
            endings: ids().map(|id| (id, Ending::Alive)).collect(),
            complete: true,
            without_configurations: false,
            together: vec![Together {
                members: ids().collect(),
                messages: Vec::new(),
            }],
            ..Outcome::default()
        };
        CheckReport::new(&self.checker, &outcome)
    }

    /// The verdict after all members have ended.
    pub(crate) fn judge(&self) -> CheckReport {
        CheckReport::new(&self.checker, &Outcome::default())
    }

    /// The members that are alive, by index.
    pub(crate) fn alive(&self) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(_, demo_member)| demo_member.member.is_some())
            .map(|(index, _)| index)
            .collect()
    }

    /// When the last incarnation of member `index` ended.
    pub(crate) fn ended(&self, index: usize) -> Option<Instant> {
        self.members[index].ended
    }

    /// The diary of the last incarnation of member `index`.
    pub(crate) fn diary(&self, index: usize) -> &Diary {
        &self.members[index].diary
    }

    /// The id of member `index` in its last incarnation.
    pub(crate) fn id(&self, index: usize) -> MemberId {
        self.members[index].id
    }

    /// The names of `indices`.
    pub(crate) fn names(&self, indices: &[usize]) -> Vec<String> {
        let ids: Vec<MemberId> = indices.iter().map(|index| self.id(*index)).collect();
        self.names_of(&ids)
    }

    /// The names of `ids`, in alphabetical order.
    pub(crate) fn names_of(&self, ids: &[MemberId]) -> Vec<String> {
        let mut names: Vec<String> = ids.iter().map(|id| self.name(*id)).collect();
        names.sort();
        names
    }

    fn name(&self, id: MemberId) -> String {
        let name = self.names.get(&id).cloned();
        name.unwrap_or_else(|| id.to_string())
    }

    /// A configuration's id for people: its counter and who formed it.
    pub(crate) fn call(&self, id: ConfigId) -> String {
        format!("{}@{}", id.counter, self.name(id.representative))
    }
}

/// The word for its kind.
pub(crate) fn kind_word(installed: &Installed) -> &'static str {
    match installed.kind {
        ConfigurationKind::Regular => "regular",
        ConfigurationKind::Transitional => "transitional",
    }
}
