//! Changes of groups' views.

use groupcast_core::Rng;
use groupcast_core::trace::Observation;

use super::super::model::Run;
use super::super::survey::Survey;
use super::{Spot, history, pick_spot};

pub(super) fn is_shared_view(survey: &Survey, seen: &Observation) -> bool {
    matches!(seen, Observation::GroupView { view, .. } if survey.views[view].len() > 1)
}

pub(super) fn pick_view(run: &Run, survey: &Survey, rng: &mut Rng) -> Option<Spot> {
    pick_spot(run, rng, |_, seen| is_shared_view(survey, seen))
}

pub(super) fn change_view(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_view(run, survey, rng) else {
        return false;
    };
    if let Observation::GroupView { members, .. } = &mut history(run, member)[at] {
        members.push("stranger".to_owned());
    }
    true
}

pub(super) fn repeat_view(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
    let Some((member, at)) = pick_view(run, survey, rng) else {
        return false;
    };
    let again = history(run, member)[at].clone();
    history(run, member).insert(at + 1, again);
    true
}

/// The member sees a view after a message that the others delivered after the view.
pub(super) fn delay_view(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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
pub(super) fn exchange_views(run: &mut Run, survey: &Survey, rng: &mut Rng) -> bool {
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
