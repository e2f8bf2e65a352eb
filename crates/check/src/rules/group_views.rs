//! Group views: members that see the same view of a process group see it with the same members, at
//! the same place in the total order, and all views in the same order.
//!
//! - A view (its group and its id) has one list of members, equal in names and order wherever it is
//!   seen.
//! - It is seen at one place: in the same configuration, after the same ordered message of it. One
//!   member may be in the regular configuration still and another in a transitional one that closes
//!   it.
//! - A member sees a view once, and there is one order of a group's views that no member
//!   contradicts.

use super::{At, End};
use crate::ledger::{GroupIx, MemberIx, Step, ViewIx};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "group_views"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let Step::GroupView {
            group,
            view: Some(view),
            members,
            ..
        } = *step
        else {
            return;
        };
        let (ledger, views) = (at.ledger, at.ledger.views());
        let first = views.view(group, view);
        let name = || format!("view {} of group {}", first.name, views.name(group));
        if first.members != members {
            at.report(found, || {
                let (here, there) = (members.join(", "), first.members.join(", "));
                let by = ledger.call_member(first.by);
                format!("{} has members [{here}] here and [{there}] at {by}", name())
            });
        }
        if views.seen_by(group, at.observer).contains(&view) {
            at.report(found, || format!("sees {} again", name()));
        } else if first.moment != at.life().moment() {
            at.report(found, || {
                let here = ledger.call_moment(at.life().moment());
                let (there, by) = (
                    ledger.call_moment(first.moment),
                    ledger.call_member(first.by),
                );
                format!("sees {} {here}, and {by} sees it {there}", name())
            });
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for group in end.ledger.views().groups() {
            check_order(end, group, found);
        }
    }
}

/// Looks for an order of the group's views that nobody contradicts; reports one contradiction if
/// there is none.
fn check_order(end: &End<'_>, group: GroupIx, found: &mut Violations) {
    let (ledger, views) = (end.ledger, end.ledger.views());
    let pairs = || {
        views.seen(group).flat_map(|(observer, seen)| {
            seen.windows(2)
                .map(move |pair| (pair[0], pair[1], observer))
        })
    };
    let Some((earlier, later, observer)) =
        find_contradiction(pairs().collect(), views.count(group))
    else {
        return;
    };
    end.report(found, observer, || {
        let call = |view: ViewIx| views.view(group, view).name.as_str();
        let others: Vec<_> = pairs()
            .filter(|(first, second, _)| *first == later || *second == earlier)
            .map(|(first, second, by)| {
                format!(
                    "{} before {} at {}",
                    call(first),
                    call(second),
                    ledger.call_member(by)
                )
            })
            .collect();
        format!(
            "sees view {} of group {} before {}, which contradicts what others see ({})",
            call(earlier),
            views.name(group),
            call(later),
            others.join("; ")
        )
    });
}

/// A step from one view to the next, seen by somebody, that lies on a cycle of such steps; `None`
/// if there is no cycle.
fn find_contradiction(
    mut steps: Vec<(ViewIx, ViewIx, MemberIx)>,
    count: usize,
) -> Option<(ViewIx, ViewIx, MemberIx)> {
    // A view that nothing precedes, or that nothing follows, is on no cycle: take its steps away
    // until none is left.
    loop {
        let (mut precedes, mut follows) = (vec![false; count], vec![false; count]);
        for (earlier, later, _) in &steps {
            precedes[earlier.get()] = true;
            follows[later.get()] = true;
        }
        let before = steps.len();
        steps.retain(|(earlier, later, _)| follows[earlier.get()] && precedes[later.get()]);
        if steps.is_empty() || steps.len() == before {
            return steps.first().copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    const RULE: &str = "group_views";

    #[test]
    fn a_view_has_one_list_of_members() {
        accept("a,b regular 1a ab; a,b view chat v1 x,y");
        reject(
            RULE,
            "a,b regular 1a ab; a view chat v1 x,y; b view chat v1 y,x",
        );
        accept("a,b regular 1a ab; a view chat v1 x,y; b view talk v1 y");
    }

    #[test]
    fn a_view_is_seen_at_one_place() {
        let story = "a,b regular 1a ab; a submit a1";
        accept(&format!("{story}; a,b deliver a1 1a:1; a,b view chat v1 x"));
        reject(
            RULE,
            &format!("{story}; a view chat v1 x; a,b deliver a1 1a:1; b view chat v1 x"),
        );
        reject(
            RULE,
            &format!(
                "{story}; a view chat v1 x; b transitional 1a b; b regular 2b b; b view chat v1 x"
            ),
        );
        accept(&format!(
            "{story}; a view chat v1 x; b transitional 1a b; b view chat v1 x"
        ));
    }

    #[test]
    fn views_come_in_one_order() {
        accept(
            "a,b regular 1a ab; a view chat v1 x; a view chat v2 y; a view chat v3 z; b view chat v1 x; b view chat v3 z",
        );
        reject(
            RULE,
            "a,b regular 1a ab; a view chat v1 x; a view chat v2 y; b view chat v2 y; b view chat v1 x",
        );
        // A circle of three, in which no two contradict each other.
        let circle = "a,b,c regular 1a abc; a view g v1 x; a view g v2 x; b view g v2 x; b view g v3 x; c view g v3 x";
        accept(circle);
        reject(RULE, &format!("{circle}; c view g v1 x"));
    }

    #[test]
    fn a_view_is_seen_once() {
        reject(RULE, "a regular 1a a; a view chat v1 x; a view chat v1 x");
    }
}
