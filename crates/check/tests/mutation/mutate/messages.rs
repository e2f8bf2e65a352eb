//! Changes of messages: their ids, their bytes, their places, what was delivered before them.

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigurationKind, MessageId, OrderPlace, Rng, Service};

use super::super::model::Run;
use super::super::survey::{Site, Survey};
use super::{alter, history, lose, pick_site, pick_spot};

pub(super) fn omit_start(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
    let found = pick_spot(run, rng, |_, seen| *seen == Observation::Start);
    let Some((member, at)) = found else {
        return false;
    };
    history(run, member).remove(at);
    // A history of nothing but its start has nothing to be wrong then.
    !run.histories[&member].is_empty()
}

pub(super) fn go_on_after_the_end(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn garble(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    alter(
        run,
        survey,
        rng,
        |site| survey.is_shared(site),
        |_, _, digest| *digest ^= 1,
    )
}

pub(super) fn change_service(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn repeat(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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
pub(super) fn invent(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn skip_a_number(run: &mut Run, _: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn submit_after_delivery(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn swap_neighbours(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let found = pick_site(survey, rng, |site| {
        let mut stay = survey.same_stay(site);
        stay.any(|other| other.at == site.at + 1 && other.kind == site.kind)
    });
    let Some(site) = found else { return false };
    history(run, site.member).swap(site.at, site.at + 1);
    true
}

pub(super) fn shift_place(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn lose_place(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let suits = |site: &Site| !is_early(site);
    alter(run, survey, rng, suits, |_, place, _| *place = None)
}

pub(super) fn lose_early_place(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    alter(run, survey, rng, is_early, |_, place, _| *place = None)
}

pub(super) fn is_early(site: &Site) -> bool {
    matches!(site.service, Service::Reliable | Service::Fifo)
}

pub(super) fn lose_in_the_middle(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        survey.is_shared(site) && survey.is_followed(site)
    })
}

/// A message of a member of the transitional configuration, before another message that is
/// delivered there.
pub(super) fn lose_in_transition(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_later =
            |other: &Site| other.at > site.at && other.kind == ConfigurationKind::Transitional;
        site.is_of_fellow && survey.is_shared(site) && survey.same_stay(site).any(is_later)
    })
}

/// Exchanges two messages in all deliveries: everybody still agrees on one order, the wrong one.
pub(super) fn exchange(run: &mut Run, a: MessageId, b: MessageId) {
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

pub(super) fn exchange_two_of_a_sender(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn exchange_cause_and_effect(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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

pub(super) fn lose_earlier_of_a_sender(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_later = |other: &Site| {
            other.at > site.at
                && other.kind == ConfigurationKind::Transitional
                && other.id.sender == site.id.sender
        };
        survey.is_shared(site) && survey.same_stay(site).any(is_later)
    })
}

pub(super) fn lose_a_cause(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    lose(run, survey, rng, |site| {
        let is_effect = |other: &Site| {
            let causes = survey.causes.get(&other.id);
            other.id.sender != site.member && causes.is_some_and(|causes| causes.contains(&site.id))
        };
        survey.is_shared(site) && survey.same_stay(site).any(is_effect)
    })
}
