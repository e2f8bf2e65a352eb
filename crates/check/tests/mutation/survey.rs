//! Finds in a run that keeps every promise the places where a change would break one.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_check::Ending;
use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, ConfigurationKind, MemberId, MessageId, OrderPlace, Service};

use super::model::Run;

/// The delivery of an ordered message.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) member: MemberId,
    /// Which of the member's observations.
    pub(crate) at: usize,
    pub(crate) id: MessageId,
    pub(crate) place: OrderPlace,
    pub(crate) service: Service,
    pub(crate) kind: ConfigurationKind,
    /// Which of the member's regular configurations, from 0.
    pub(crate) stay: usize,
    /// Others made the same step to the next configuration.
    pub(crate) has_fellows: bool,
    /// The message's sender made the same step to the next configuration, or is the member itself.
    pub(crate) is_of_fellow: bool,
    /// The member installed a later configuration.
    pub(crate) is_past: bool,
}

/// The run, indexed.
pub(crate) struct Survey {
    pub(crate) sites: Vec<Site>,
    /// Who delivers each message, and in which kind of configuration.
    pub(crate) delivered: BTreeMap<MessageId, BTreeMap<MemberId, ConfigurationKind>>,
    /// What each sender had delivered when it submitted a message.
    pub(crate) causes: BTreeMap<MessageId, BTreeSet<MessageId>>,
    /// Who installs each regular configuration.
    pub(crate) installed: BTreeMap<ConfigId, BTreeSet<MemberId>>,
    /// Who sees each view, by its name.
    pub(crate) views: BTreeMap<String, BTreeSet<MemberId>>,
    /// Who makes each step between regular configurations.
    pub(crate) steps: BTreeMap<(ConfigId, ConfigId), BTreeSet<MemberId>>,
    pub(crate) alive: BTreeSet<MemberId>,
}

impl Survey {
    pub(crate) fn of(run: &Run) -> Self {
        let endings = run.outcome.endings.iter();
        let alive = endings.filter(|(_, ending)| **ending == Ending::Alive);
        let mut survey = Self {
            sites: Vec::new(),
            delivered: BTreeMap::new(),
            causes: BTreeMap::new(),
            installed: BTreeMap::new(),
            views: BTreeMap::new(),
            steps: BTreeMap::new(),
            alive: alive.map(|(member, _)| *member).collect(),
        };
        for (member, history) in &run.histories {
            survey.read_steps(*member, history);
        }
        for (member, history) in &run.histories {
            survey.read(*member, history);
        }
        survey
    }

    fn read_steps(&mut self, member: MemberId, history: &[Observation]) {
        for pair in stays(history).windows(2) {
            let movers = self.steps.entry((pair[0], pair[1])).or_default();
            movers.insert(member);
        }
    }

    fn read(&mut self, member: MemberId, history: &[Observation]) {
        let stays = stays(history);
        let mut count = 0;
        let mut now = ConfigurationKind::Regular;
        let mut had = BTreeSet::new();
        for (at, observation) in history.iter().enumerate() {
            match observation {
                Observation::Configuration { kind, id, .. } => {
                    now = *kind;
                    if now == ConfigurationKind::Regular {
                        count += 1;
                        self.installed.entry(*id).or_default().insert(member);
                    }
                }
                Observation::Submit { id, .. } => {
                    self.causes.insert(*id, had.clone());
                }
                Observation::GroupView { view, .. } => {
                    self.views.entry(view.clone()).or_default().insert(member);
                }
                Observation::Deliver {
                    id,
                    service,
                    place: Some(place),
                    ..
                } => {
                    had.insert(*id);
                    self.delivered.entry(*id).or_default().insert(member, now);
                    let next = stays.get(count).copied();
                    let movers = next.map(|next| &self.steps[&(stays[count - 1], next)]);
                    self.sites.push(Site {
                        member,
                        at,
                        id: *id,
                        place: *place,
                        service: *service,
                        kind: now,
                        stay: count - 1,
                        has_fellows: movers.is_some_and(|movers| movers.len() > 1),
                        is_of_fellow: movers.is_some_and(|movers| movers.contains(&id.sender)),
                        is_past: next.is_some(),
                    });
                }
                _ => {}
            }
        }
    }

    /// Whether anybody but `member` delivers the message.
    pub(crate) fn is_shared(&self, site: &Site) -> bool {
        self.delivered[&site.id].len() > 1
    }

    /// Whether the member delivers another ordered message after this one in the same regular
    /// configuration.
    pub(crate) fn is_followed(&self, site: &Site) -> bool {
        site.kind == ConfigurationKind::Regular
            && self
                .same_stay(site)
                .any(|other| other.at > site.at && other.kind == ConfigurationKind::Regular)
    }

    /// The member's deliveries in the same configuration and the transitional one that closes it.
    pub(crate) fn same_stay<'a>(&'a self, site: &'a Site) -> impl Iterator<Item = &'a Site> {
        let sites = self.sites.iter();
        sites.filter(|other| other.member == site.member && other.stay == site.stay)
    }
}

/// The regular configurations of a history.
fn stays(history: &[Observation]) -> Vec<ConfigId> {
    let installed = history.iter().filter_map(|observation| match observation {
        Observation::Configuration {
            kind: ConfigurationKind::Regular,
            id,
            ..
        } => Some(*id),
        _ => None,
    });
    installed.collect()
}
