//! The changes: each makes one thing wrong, and names the rule that must find it.

use groupcast_core::trace::Observation;
use groupcast_core::{
    ConfigId, ConfigurationKind, Gap, MemberId, MessageId, OrderPlace, Rng, Service,
};

use super::model::Run;
use super::survey::{Site, Survey};

/// A kind of change.
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    pub(crate) rule: &'static str,
    /// Makes the change somewhere; false if the run has no place for it.
    pub(crate) make: fn(&mut Run, &Survey, &mut Rng) -> bool,
}

macro_rules! mutations {
    ($($rule:literal: $($name:ident),+;)+) => {
        /// All kinds of changes.
        pub(crate) const MUTATIONS: &[Mutation] = &[
            $($(Mutation { name: stringify!($name), rule: $rule, make: $name },)+)+
        ];
    };
}

mutations! {
    "life": omit_start, go_on_after_the_end;
    "integrity": garble, change_service, repeat, invent, skip_a_number, submit_after_delivery;
    "agreed": swap_neighbours, shift_place, lose_place, lose_in_the_middle, lose_in_transition;
    "fifo": exchange_two_of_a_sender, lose_earlier_of_a_sender;
    "causality": exchange_cause_and_effect, lose_a_cause;
    "configurations": order_elsewhere, shrink_regular, shrink_transitional, omit_transitional, install_again, misname_transitional;
    "virtual_synchrony": lose_among_fellows, cross_the_split;
    "self_delivery": lose_own, leave_early;
    "safe": lose_safe;
    "resilience": lose_resilient;
    "refused": report_delivered;
    "placed": lose_early_place;
    "group_views": change_view, exchange_views, repeat_view, delay_view;
    "liveness": lose_in_the_last_configuration;
}

fn pick_site(survey: &Survey, rng: &mut Rng, suits: impl Fn(&Site) -> bool) -> Option<Site> {
    let sites: Vec<&Site> = survey.sites.iter().filter(|site| suits(site)).collect();
    rng.pick(&sites).map(|site| (*site).clone())
}

/// A member and which of its observations.
type Spot = (MemberId, usize);

fn pick_spot(run: &Run, rng: &mut Rng, suits: impl Fn(Spot, &Observation) -> bool) -> Option<Spot> {
    let mut spots = Vec::new();
    for (member, history) in &run.histories {
        for (at, observation) in history.iter().enumerate() {
            if suits((*member, at), observation) {
                spots.push((*member, at));
            }
        }
    }
    rng.pick(&spots).copied()
}

fn history(run: &mut Run, member: MemberId) -> &mut Vec<Observation> {
    run.histories.get_mut(&member).unwrap()
}

/// Removes a delivery that suits.
fn lose(run: &mut Run, survey: &Survey, rng: &mut Rng, suits: impl Fn(&Site) -> bool) -> bool {
    let Some(site) = pick_site(survey, rng, suits) else {
        return false;
    };
    history(run, site.member).remove(site.at);
    true
}

/// Changes a delivery that suits.
fn alter(
    run: &mut Run,
    survey: &Survey,
    rng: &mut Rng,
    suits: impl Fn(&Site) -> bool,
    change: impl Fn(&mut Service, &mut Option<OrderPlace>, &mut u64),
) -> bool {
    let Some(site) = pick_site(survey, rng, suits) else {
        return false;
    };
    if let Observation::Deliver {
        service,
        place,
        digest,
        ..
    } = &mut history(run, site.member)[site.at]
    {
        change(service, place, digest);
    }
    true
}

fn omit_start(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
    let found = pick_spot(run, rng, |_, seen| *seen == Observation::Start);
    let Some((member, at)) = found else {
        return false;
    };
    history(run, member).remove(at);
    // A history of nothing but its start has nothing to be wrong then.
    !run.histories[&member].is_empty()
}

fn go_on_after_the_end(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
    let found = pick_spot(run, rng, |_, seen| {
        matches!(seen, Observation::Leave | Observation::Crash)
    });
    let Some((member, _)) = found else {
        return false;
    };
    let again = history(run, member)[1].clone();
    history(run, member).push(again);
    true
}

fn garble(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    alter(
        run,
        survey,
        rng,
        |site| survey.is_shared(site),
        |_, _, digest| *digest ^= 1,
    )
}

fn change_service(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    alter(
        run,
        survey,
        rng,
        |site| survey.is_shared(site),
        |service, _, _| {
            *service = match service {
                Service::Agreed => Service::Causal,
                _ => Service::Agreed,
            };
        },
    )
}

fn repeat(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some(site) = pick_site(survey, rng, |_| true) else {
        return false;
    };
    let history = history(run, site.member);
    let again = history[site.at].clone();
    let later = rng.range(site.at as u64 + 1..history.len() as u64 + 1) as usize;
    history.insert(later, again);
    true
}

/// A member that is known to be alive at the end never sent this.
fn invent(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| survey.alive.contains(&site.id.sender));
    let Some(site) = found else { return false };
    let invented = Observation::Deliver {
        id: MessageId {
            number: site.id.number + 10_000,
            ..site.id
        },
        service: Service::Agreed,
        place: Some(OrderPlace {
            seq: site.place.seq + 1,
            ..site.place
        }),
        digest: 0,
    };
    history(run, site.member).insert(site.at + 1, invented);
    true
}

fn skip_a_number(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
    let found = pick_spot(run, rng, |_, seen| {
        matches!(seen, Observation::Submit { .. })
    });
    let Some((member, at)) = found else {
        return false;
    };
    if let Observation::Submit { id, .. } = &mut history(run, member)[at] {
        id.number += 1;
    }
    true
}

fn submit_after_delivery(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| site.id.sender == site.member);
    let Some(site) = found else { return false };
    let history = history(run, site.member);
    let submitted = history
        .iter()
        .position(|seen| matches!(seen, Observation::Submit { id, .. } if *id == site.id))
        .unwrap();
    let submission = history.remove(submitted);
    history.insert(site.at, submission);
    true
}

fn swap_neighbours(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| {
        let mut stay = survey.same_stay(site);
        stay.any(|other| other.at == site.at + 1 && other.kind == site.kind)
    });
    let Some(site) = found else { return false };
    history(run, site.member).swap(site.at, site.at + 1);
    true
}

fn shift_place(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    alter(
        run,
        survey,
        rng,
        |site| survey.is_shared(site),
        |_, place, _| {
            if let Some(place) = place {
                place.seq += 1;
            }
        },
    )
}

fn lose_place(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let suits = |site: &Site| !is_early(site);
    alter(run, survey, rng, suits, |_, place, _| *place = None)
}

fn lose_early_place(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    alter(run, survey, rng, is_early, |_, place, _| *place = None)
}

fn is_early(site: &Site) -> bool {
    matches!(site.service, Service::Reliable | Service::Fifo)
}

fn lose_in_the_middle(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        survey.is_shared(site) && survey.is_followed(site)
    })
}

/// A message of a member of the transitional configuration, before another message that is
/// delivered there.
fn lose_in_transition(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_later =
            |other: &Site| other.at > site.at && other.kind == ConfigurationKind::Transitional;
        site.is_of_fellow && survey.is_shared(site) && survey.same_stay(site).any(is_later)
    })
}

/// Exchanges two messages in all deliveries: everybody still agrees on one order, the wrong one.
fn exchange(run: &mut Run, a: MessageId, b: MessageId) {
    let find = |run: &Run, wanted: MessageId| {
        let mut all = run.histories.values().flatten();
        all.find_map(|seen| match seen {
            Observation::Deliver {
                id,
                service,
                digest,
                ..
            } if *id == wanted => Some((*id, *service, *digest)),
            _ => None,
        })
        .unwrap()
    };
    let (first, second) = (find(run, a), find(run, b));
    for seen in run.histories.values_mut().flatten() {
        if let Observation::Deliver {
            id,
            service,
            digest,
            ..
        } = seen
        {
            if *id == a {
                (*id, *service, *digest) = second;
            } else if *id == b {
                (*id, *service, *digest) = first;
            }
        }
    }
}

fn exchange_two_of_a_sender(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let next = |site: &Site| {
        let mut stay = survey.same_stay(site);
        stay.find(|other| other.id.sender == site.id.sender && other.id.number > site.id.number)
            .map(|other| other.id)
    };
    let Some(site) = pick_site(survey, rng, |site| next(site).is_some()) else {
        return false;
    };
    let Some(later) = next(&site) else {
        return false;
    };
    exchange(run, site.id, later);
    true
}

fn exchange_cause_and_effect(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let effect = |site: &Site| {
        let mut all = survey.causes.iter();
        all.find(|(effect, causes)| {
            effect.sender != site.id.sender
                && causes.contains(&site.id)
                && survey.delivered.contains_key(effect)
        })
        .map(|(effect, _)| *effect)
    };
    let Some(site) = pick_site(survey, rng, |site| effect(site).is_some()) else {
        return false;
    };
    let Some(effect) = effect(&site) else {
        return false;
    };
    exchange(run, site.id, effect);
    true
}

fn lose_earlier_of_a_sender(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_later = |other: &Site| {
            other.at > site.at
                && other.kind == ConfigurationKind::Transitional
                && other.id.sender == site.id.sender
        };
        survey.is_shared(site) && survey.same_stay(site).any(is_later)
    })
}

fn lose_a_cause(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_effect = |other: &Site| {
            let causes = survey.causes.get(&other.id);
            other.id.sender != site.member && causes.is_some_and(|causes| causes.contains(&site.id))
        };
        survey.is_shared(site) && survey.same_stay(site).any(is_effect)
    })
}

fn order_elsewhere(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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
fn shrink(run: &mut Run, rng: &mut Rng, suits: impl Fn(Spot, &Observation) -> bool) -> bool {
    let Some((member, at)) = pick_spot(run, rng, suits) else {
        return false;
    };
    if let Observation::Configuration { members, .. } = &mut history(run, member)[at] {
        let other = members.iter().position(|other| *other != member).unwrap();
        members.remove(other);
    }
    true
}

fn shrink_regular(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    shrink(run, rng, |_, seen| {
        matches!(seen, Observation::Configuration { kind: ConfigurationKind::Regular, id, .. }
            if survey.installed[id].len() > 1)
    })
}

fn shrink_transitional(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

fn pick_transitional(run: &Run, survey: &Survey, rng: &mut Rng) -> Option<Spot> {
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

fn omit_transitional(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_transitional(run, survey, rng) else {
        return false;
    };
    history(run, member).remove(at);
    true
}

fn misname_transitional(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_transitional(run, survey, rng) else {
        return false;
    };
    if let Observation::Configuration { id, .. } = &mut history(run, member)[at] {
        id.counter += 1;
    }
    true
}

fn install_again(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
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

fn lose_among_fellows(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| site.has_fellows)
}

/// The first delivery of a transitional configuration comes before it instead.
fn cross_the_split(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

fn lose_own(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_held = site.is_past && survey.is_shared(site);
        site.id.sender == site.member && (is_held || survey.alive.contains(&site.member))
    })
}

fn leave_early(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| site.id.sender == site.member);
    let Some(site) = found else { return false };
    let history = history(run, site.member);
    history.truncate(site.at);
    history.push(Observation::Leave);
    true
}

fn lose_safe(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let mut others = survey.delivered[&site.id].iter();
        site.service == Service::Safe
            && (site.is_past || survey.alive.contains(&site.member))
            && others
                .any(|(other, kind)| *other != site.member && *kind == ConfigurationKind::Regular)
    })
}

fn lose_resilient(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

fn report_delivered(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

fn is_shared_view(survey: &Survey, seen: &Observation) -> bool {
    matches!(seen, Observation::GroupView { view, .. } if survey.views[view].len() > 1)
}

fn pick_view(run: &Run, survey: &Survey, rng: &mut Rng) -> Option<Spot> {
    pick_spot(run, rng, |_, seen| is_shared_view(survey, seen))
}

fn change_view(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_view(run, survey, rng) else {
        return false;
    };
    if let Observation::GroupView { members, .. } = &mut history(run, member)[at] {
        members.push("stranger".to_owned());
    }
    true
}

fn repeat_view(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_view(run, survey, rng) else {
        return false;
    };
    let again = history(run, member)[at].clone();
    history(run, member).insert(at + 1, again);
    true
}

/// The member sees a view after a message that the others delivered after the view.
fn delay_view(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_spot(run, rng, |(member, at), seen| {
        let next = run.histories[&member].get(at + 1);
        is_shared_view(survey, seen)
            && matches!(next, Some(Observation::Deliver { place: Some(_), .. }))
    });
    let Some((member, at)) = found else {
        return false;
    };
    history(run, member).swap(at, at + 1);
    true
}

/// The member sees two consecutive views of the group in the other order.
fn exchange_views(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let next = |run: &Run, (member, at): Spot| {
        let rest = run.histories[&member].iter().enumerate().skip(at + 1);
        let mut views = rest.filter(|(_, seen)| matches!(seen, Observation::GroupView { .. }));
        views.next().map(|(later, _)| later)
    };
    let found = pick_spot(run, rng, |spot, seen| {
        let later = next(run, spot).map(|later| &run.histories[&spot.0][later]);
        is_shared_view(survey, seen) && later.is_some_and(|later| is_shared_view(survey, later))
    });
    let Some((member, at)) = found else {
        return false;
    };
    let Some(later) = next(run, (member, at)) else {
        return false;
    };
    history(run, member).swap(at, later);
    true
}

fn lose_in_the_last_configuration(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        survey.alive.contains(&site.member) && !site.is_past && survey.is_shared(site)
    })
}
