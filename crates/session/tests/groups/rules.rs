//! Rules of access that change while clients are in groups.

use groupcast_session::frame::Request;
use groupcast_session::groups::{Access, Principal, Right, Rule};

use super::pair;

#[test]
fn who_may_not_be_in_a_group_any_more_leaves_it_and_is_told() {
    let (mut world, mut rng, [al, bo]) = pair();
    for who in [al, bo] {
        for group in ["ops", "chat"] {
            world.act(who.0, who.1, |client| client.join(group));
        }
    }
    world.run(&mut rng);
    let others = Rule {
        groups: vec!["ops".into()],
        who: vec![Principal::User(1000), Principal::Certificate("web".into())],
        rights: vec![Right::Join, Right::Send],
    };
    let now = world.now;
    let engine = &mut world.daemon(al.0).engine;
    engine.set_access(now, Access(vec![others]));
    world.settle(al.0);
    world.run(&mut rng);
    let client = world.client(al.0, al.1);
    let told: Vec<_> = client.rejected_groups.iter().collect();
    assert!(
        matches!(&told[..], [(Request::Join(group), text)] if group == "ops" && text.contains("any more")),
        "{told:?}"
    );
    let last = |group: &str| {
        let mut views = client.views().filter(|view| &*view.group == group);
        views.next_back().map(|view| view.members.len())
    };
    assert_eq!(last("chat"), Some(2), "that one no rule names");
    let other = world.client(bo.0, bo.1);
    let ops = other.views().rfind(|view| &*view.group == "ops");
    assert_eq!(ops.map(|view| view.members.len()), Some(1), "al is gone");
}
