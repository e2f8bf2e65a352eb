//! The changes: each makes one thing wrong, and names the rule that must find it.

use groupcast_core::trace::Observation;
use groupcast_core::{MemberId, OrderPlace, Rng, Service};

mod configurations;
mod messages;
mod views;

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
    ($($rule:literal in $file:ident: $($name:ident),+;)+) => {
        /// All kinds of changes.
        pub(crate) const MUTATIONS: &[Mutation] = &[
            $($(Mutation { name: stringify!($name), rule: $rule, make: $file::$name },)+)+
        ];
    };
}

mutations! {
    "life" in messages: omit_start, go_on_after_the_end;
    "integrity" in messages: garble, change_service, repeat, invent, skip_a_number, submit_after_delivery;
    "agreed" in messages: swap_neighbours, shift_place, lose_place, lose_in_the_middle, lose_in_transition;
    "fifo" in messages: exchange_two_of_a_sender, lose_earlier_of_a_sender;
    "causality" in messages: exchange_cause_and_effect, lose_a_cause;
    "configurations" in configurations: order_elsewhere, shrink_regular, shrink_transitional, omit_transitional, install_again, misname_transitional;
    "virtual_synchrony" in configurations: lose_among_fellows, cross_the_split;
    "self_delivery" in configurations: lose_own, leave_early;
    "safe" in configurations: lose_safe;
    "resilience" in configurations: lose_resilient;
    "refused" in configurations: report_delivered;
    "placed" in messages: lose_early_place;
    "group_views" in views: change_view, exchange_views, repeat_view, delay_view;
    "liveness" in configurations: lose_in_the_last_configuration;
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
