//! Clients of the bus in bimodal groups: tags choose at each receiver's daemon, lists are
//! converted, and gaps are told.

use groupcast_core::{NodeId, Service};

use super::daemon::{Daemon, config, spread};

/// Two daemons, with a client of the bus each.
fn pair() -> (
    Daemon,
    groupcast_session::ClientId,
    Daemon,
    groupcast_session::ClientId,
) {
    let (mut one, mut two) = (Daemon::new(1, config()), Daemon::new(2, config()));
    let (al, bo) = (one.connect_bus(), two.connect_bus());
    (one, al, two, bo)
}

/// Whom a daemon has heard of in the first group.
fn members(daemon: &Daemon) -> Vec<String> {
    let groups = daemon.engine.groups();
    groups[0].members.iter().map(ToString::to_string).collect()
}

#[test]
fn tags_choose_and_lists_are_converted_at_each_receiver() {
    let (mut one, al, mut two, bo) = pair();
    assert_eq!(one.say(al, "accept up|down ticks"), "ok\n");
    assert_eq!(two.say(bo, "accept up ticks"), "ok\n");
    assert_eq!(two.say(bo, "syntax cstream"), "ok\n");
    assert_eq!(one.say(al, "service bimodal"), "ok\n");
    let own = "msg up ticks 4\n(a1)\nok\n";
    assert_eq!(one.say(al, "msg up ticks (a1)"), own);
    let down = "msg down ticks raw 1\nx\nok\n";
    assert_eq!(one.say(al, "msg down ticks x"), down);
    assert_eq!(one.say(al, "msg other ticks y"), "ok\n", "nobody's tag");
    spread(&mut one, &mut two);
    assert_eq!(two.heard(bo), "msg up ticks 9\ncs[y2:a1]\n");

    assert_eq!(two.say(bo, "accept down ticks"), "ok\n");
    assert_eq!(two.say(bo, "reject up ticks"), "ok\n");
    assert_eq!(one.say(al, "loop-back off"), "ok\n");
    assert_eq!(one.say(al, "msg up ticks x"), "ok\n");
    assert_eq!(one.say(al, "msg down ticks y"), "ok\n");
    spread(&mut one, &mut two);
    assert_eq!(two.heard(bo), "msg down ticks raw 1\ny\n");
    assert_eq!(two.say(bo, "reject down ticks"), "ok\n");
    assert_eq!(one.say(al, "msg down ticks z"), "ok\n");
    spread(&mut one, &mut two);
    assert_eq!(two.heard(bo), "", "it has left with its last pattern");
    assert_eq!(members(&two), ["c1@h1"]);
}

#[test]
fn clients_of_both_kinds_meet_and_views_are_approximate() {
    let (mut one, al, mut two, bo) = pair();
    let sub = two.connect("sub");
    two.act(sub, |client| client.join("ticks"));
    assert_eq!(one.say(al, "views on"), "ok\n");
    let view = "view ticks approximate join c1@h1 c1@h1\nok\n";
    assert_eq!(one.say(al, "accept \"\" ticks"), view);
    spread(&mut two, &mut one);
    one.tend(&[2]);
    let view = "view ticks approximate network \"\" c1@h1 sub@h2\n";
    assert_eq!(one.heard(al), view);
    assert_eq!(two.say(bo, "service bimodal"), "ok\n");
    assert_eq!(two.say(bo, "msg up ticks (a list)"), "ok\n");
    two.act(sub, |client| {
        client.publish(&["ticks"], Service::Bimodal, b"plain");
    });
    spread(&mut two, &mut one);
    assert_eq!(one.heard(al), "msg \"\" ticks raw 5\nplain\n");
    let story = two.story(sub);
    assert!(story.contains(&"c1@h2>ticks (a list)".into()), "{story:?}");
    assert_eq!(one.say(al, "quit"), "ok\n");
    assert_eq!(members(&one), ["sub@h2"], "al has left");
}

#[test]
fn what_is_lost_is_told_in_its_place() {
    let (mut one, al, mut two, bo) = pair();
    two.say(bo, "accept up ticks");
    one.say(al, "service bimodal");
    one.say(al, "msg up ticks first");
    spread(&mut one, &mut two);
    two.gap(0, 1, 2, 3);
    one.say(al, "msg up ticks last");
    spread(&mut one, &mut two);
    let heard = "msg up ticks raw 5\nfirst\ngap ticks h1 2 3\nmsg up ticks raw 4\nlast\n";
    assert_eq!(two.heard(bo), heard);
}

#[test]
fn what_a_bimodal_domain_has_not_is_refused() {
    let mut one = Daemon::new(1, config());
    let al = one.connect_bus();
    one.engine.bimodal_elsewhere([NodeId::from_name("far")]);
    for (line, error, part) in [
        ("accept ( ticks", "error pattern 8 ", ""),
        (
            "ping up ticks",
            "error unsupported 9 ",
            "no place in an order",
        ),
        ("id ticks", "error name 4 ", "bimodal group"),
        (
            "accept * far",
            "error unsupported 10 ",
            "name it in bimodal.groups",
        ),
        (
            "accept * ticks ring",
            "error unsupported 10 ",
            "no ring carries it",
        ),
        ("msg t ticks x", "error unsupported 0 ", "service bimodal"),
        ("reject * ticks", "error not-accepted 8 ", ""),
    ] {
        let heard = one.say(al, line);
        assert!(heard.starts_with(error) && heard.contains(part), "{heard}");
    }
    one.say(al, "service bimodal");
    for (line, part) in [
        ("msg t d x", "not bimodal at the daemon h1"),
        ("msg t ticks,news x", "goes to one group"),
    ] {
        let heard = one.say(al, line);
        assert!(
            heard.starts_with("error unsupported 0 ") && heard.contains(part),
            "{heard}"
        );
    }
    let groups = one.engine.groups();
    let joined = groups.iter().any(|group| !group.members.is_empty());
    assert!(!joined, "{groups:?}");
}
