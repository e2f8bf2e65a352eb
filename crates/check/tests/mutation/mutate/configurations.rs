//! Changes of configurations, and of what is delivered in them.

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, ConfigurationKind, Gap, Rng, Service};

use super::super::model::Run;
use super::super::survey::Survey;
use super::{Spot, alter, history, lose, pick_site, pick_spot};

pub(super) fn order_elsewhere(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let configs: Vec<ConfigId> = survey.installed.keys().copied().collect();
    let elsewhere = rng.pick(&configs).copied().unwrap();
    alter(
        run,
        survey,
        rng,
        |site| site.place.config != elsewhere,
        |_, place, _| {
            if let Some(place) = place {
                place.config = elsewhere;
            }
        },
    )
}

/// Takes one other member off the list of a configuration that suits.
pub(super) fn shrink(
    run: &mut Run,
    rng: &mut Rng,
    suits: impl Fn(Spot, &Observation) -> bool,
) -> bool {
    let Some((member, at)) = pick_spot(run, rng, suits) else {
        return false;
    };
    if let Observation::Configuration { members, .. } = &mut history(run, member)[at] {
        let other = members.iter().position(|other| *other != member).unwrap();
        members.remove(other);
    }
    true
}

pub(super) fn shrink_regular(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    shrink(run, rng, |_, seen| {
        matches!(seen, Observation::Configuration { kind: ConfigurationKind::Regular, id, .. }
            if survey.installed[id].len() > 1)
    })
}

pub(super) fn shrink_transitional(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    shrink(run, rng, |(member, _), seen| {
        let Observation::Configuration {
            kind: ConfigurationKind::Transitional,
            id,
            ..
        } = seen
        else {
            return false;
        };
        let mut steps = survey.steps.iter();
        steps.any(|((from, _), movers)| from == id && movers.contains(&member) && movers.len() > 1)
    })
}

pub(super) fn pick_transitional(run: &Run, survey: &Survey, rng: &mut Rng) -> Option<Spot> {
    pick_spot(run, rng, |(member, _), seen| {
        let Observation::Configuration {
            kind: ConfigurationKind::Transitional,
            id,
            ..
        } = seen
        else {
            return false;
        };
        let mut steps = survey.steps.iter();
        steps.any(|((from, _), movers)| from == id && movers.contains(&member))
    })
}

pub(super) fn omit_transitional(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_transitional(run, survey, rng) else {
        return false;
    };
    history(run, member).remove(at);
    true
}

pub(super) fn misname_transitional(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_transitional(run, survey, rng) else {
        return false;
    };
    if let Observation::Configuration { id, .. } = &mut history(run, member)[at] {
        id.counter += 1;
    }
    true
}

pub(super) fn install_again(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
    let found = pick_spot(run, rng, |_, seen| {
        matches!(
            seen,
            Observation::Configuration {
                kind: ConfigurationKind::Regular,
                ..
            }
        )
    });
    let Some((member, at)) = found else {
        return false;
    };
    let again = history(run, member)[at].clone();
    history(run, member).insert(at + 1, again);
    true
}

pub(super) fn lose_among_fellows(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| site.has_fellows)
}

/// The first delivery of a transitional configuration comes before it instead.
pub(super) fn cross_the_split(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| {
        let mut stay = survey.same_stay(site);
        site.has_fellows
            && site.kind == ConfigurationKind::Transitional
            && !stay.any(|other| other.kind == site.kind && other.at < site.at)
    });
    let Some(site) = found else { return false };
    let history = history(run, site.member);
    let split = history[..site.at]
        .iter()
        .rposition(|seen| matches!(seen, Observation::Configuration { .. }))
        .unwrap();
    let delivery = history.remove(site.at);
    history.insert(split, delivery);
    true
}

pub(super) fn lose_own(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_held = site.is_past && survey.is_shared(site);
        site.id.sender == site.member && (is_held || survey.alive.contains(&site.member))
    })
}

pub(super) fn leave_early(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| site.id.sender == site.member);
    let Some(site) = found else { return false };
    let history = history(run, site.member);
    history.truncate(site.at);
    history.push(Observation::Leave);
    true
}

pub(super) fn lose_safe(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let mut others = survey.delivered[&site.id].iter();
        site.service == Service::Safe
            && (site.is_past || survey.alive.contains(&site.member))
            && others
                .any(|(other, kind)| *other != site.member && *kind == ConfigurationKind::Regular)
    })
}

pub(super) fn lose_resilient(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let mut others = survey.delivered[&site.id].iter();
        // In its last configuration nobody is missing to it.
        matches!(site.service, Service::KResilient(_) | Service::Majority)
            && !site.is_past
            && survey.alive.contains(&site.member)
            && others
                .any(|(other, kind)| *other != site.member && *kind == ConfigurationKind::Regular)
    })
}

pub(super) fn report_delivered(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some(site) = pick_site(survey, rng, |_| true) else {
        return false;
    };
    let (first, last) = (site.id.number, site.id.number);
    let gap = Gap {
        sender: site.id.sender,
        first,
        last,
    };
    history(run, site.member).insert(site.at + 1, Observation::Gap(gap));
    true
}

pub(super) fn lose_in_the_last_configuration(
    run: &mut Run,
    survey: &Survey,
    rng: &mut Rng,
) -> bool {
    lose(run, survey, rng, |site| {
        survey.alive.contains(&site.member) && !site.is_past && survey.is_shared(site)
    })
}
