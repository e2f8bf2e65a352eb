//! Requests: who is asked, which answers count, when they end, and what is asked again.

use super::*;

#[test]
fn a_guest_gets_the_answers_of_all_that_answer_or_as_many_as_it_wants() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    let guest = (cy.0, world.connect(cy.0, "guest"));
    for who in [al, bo] {
        assert_eq!(
            claim(&mut world, &mut rng, who, Role::Answering, false),
            ["answering: held"]
        );
    }
    introduce(&mut world, &mut rng, guest, 77, 0);
    say(&mut world, &mut rng, guest, request(1, 0, None));
    assert_eq!(heard(&mut world, guest), ["1 asks 2"]);
    assert_eq!(answer_all(&mut world, &mut rng, al), 1);
    assert_eq!(heard(&mut world, guest), ["1 answered by al@h1"]);
    assert_eq!(answer_all(&mut world, &mut rng, bo), 1);
    assert_eq!(
        heard(&mut world, guest),
        ["1 answered by bo@h2", "1 ends Complete with 2"]
    );
    say(&mut world, &mut rng, guest, request(2, 1, None));
    answer_all(&mut world, &mut rng, bo);
    answer_all(&mut world, &mut rng, al);
    assert_eq!(
        heard(&mut world, guest),
        ["2 asks 2", "2 answered by bo@h2", "2 ends Complete with 1"]
    );
    assert_eq!(
        answer_all(&mut world, &mut rng, cy),
        0,
        "it does not answer"
    );
    judge(&world);
}

/// Places go on through all configurations, and a member may put its own far ahead.
#[test]
fn requests_at_the_highest_places_are_answered() {
    let (mut world, mut rng, [al, _, cy]) = world();
    claim(&mut world, &mut rng, al, Role::Answering, false);
    introduce(&mut world, &mut rng, cy, 77, 0);
    for (number, place) in [(1, 1 << 56), (2, 1 << 63)] {
        world.go_on_from(place);
        say(&mut world, &mut rng, cy, request(number, 0, None));
        assert_eq!(answer_all(&mut world, &mut rng, al), 1);
        let told = heard(&mut world, cy);
        assert_eq!(
            told.last(),
            Some(&format!("{number} ends Complete with 1")),
            "{told:?}"
        );
    }
    judge(&world);
}

#[test]
fn a_request_ends_when_nobody_is_left_or_its_time_is_up() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    introduce(&mut world, &mut rng, cy, 77, 0);
    say(&mut world, &mut rng, cy, request(1, 0, None));
    assert_eq!(heard(&mut world, cy), ["1 asks 0", "1 ends Nobody with 0"]);
    say(&mut world, &mut rng, cy, request(2, 0, Some(4)));
    assert_eq!(heard(&mut world, cy), ["2 asks 0", "2 ends Nobody with 0"]);
    for who in [al, bo] {
        claim(&mut world, &mut rng, who, Role::Answering, false);
    }
    say(&mut world, &mut rng, cy, request(3, 0, None));
    answer_all(&mut world, &mut rng, al);
    world.vanish(bo.0, bo.1);
    world.run(&mut rng);
    assert_eq!(
        heard(&mut world, cy),
        ["3 asks 2", "3 answered by al@h1", "3 ends Short with 1"]
    );
    say(&mut world, &mut rng, cy, request(4, 0, None));
    let due = world.now + WITHIN;
    let engine = &mut world.daemon(cy.0).engine;
    assert_eq!(engine.poll_timeout(), Some(due));
    engine.handle_timeout(due);
    world.settle(cy.0);
    assert_eq!(
        heard(&mut world, cy),
        ["4 asks 1", "4 ends TimedOut with 0"]
    );
    assert_eq!(answer_all(&mut world, &mut rng, al), 1);
    assert_eq!(heard(&mut world, cy), [""; 0], "a late answer goes nowhere");
    assert_eq!(world.daemon(cy.0).engine.status().input, 0);
    judge(&world);
}

#[test]
fn what_is_asked_again_after_a_reconnection_is_given_to_nobody_twice() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    claim(&mut world, &mut rng, al, Role::Answering, false);
    introduce(&mut world, &mut rng, cy, 77, 0);
    say(&mut world, &mut rng, cy, request(1, 0, None));
    assert_eq!(heard(&mut world, al), ["cy@h3 asks None question 1"]);
    world.vanish(cy.0, cy.1);
    world.run(&mut rng);
    // At another daemon nothing is known of answers.
    let other = (bo.0, world.connect(bo.0, "cy"));
    introduce(&mut world, &mut rng, other, 77, 1);
    say(&mut world, &mut rng, other, request(1, 0, None));
    assert_eq!(heard(&mut world, other), ["1 ends Repeated with 0"]);
    say(&mut world, &mut rng, other, request(2, 0, None));
    assert_eq!(heard(&mut world, al), ["cy@h2 asks None question 2"]);
    // The table goes with the daemons through a partition and back.
    world.divide(&[vec![al.0, bo.0], vec![cy.0]], &mut rng);
    world.run(&mut rng);
    world.divide(&[vec![cy.0, bo.0], vec![al.0]], &mut rng);
    world.run(&mut rng);
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    world.run(&mut rng);
    let third = (cy.0, world.connect(cy.0, "third"));
    introduce(&mut world, &mut rng, third, 77, 2);
    say(&mut world, &mut rng, third, request(2, 0, None));
    assert_eq!(heard(&mut world, third), ["2 ends Repeated with 0"]);
    assert_eq!(heard(&mut world, al), [""; 0]);
    judge(&world);
}

#[test]
fn a_guest_that_comes_back_to_its_daemon_gets_the_answers_that_came_meanwhile() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    for who in [al, bo] {
        claim(&mut world, &mut rng, who, Role::Answering, false);
    }
    introduce(&mut world, &mut rng, cy, 77, 0);
    say(&mut world, &mut rng, cy, request(1, 0, None));
    world.vanish(cy.0, cy.1);
    world.run(&mut rng);
    answer_all(&mut world, &mut rng, al);
    let again = (cy.0, world.connect(cy.0, "cy"));
    introduce(&mut world, &mut rng, again, 77, 1);
    say(&mut world, &mut rng, again, request(1, 0, None));
    assert_eq!(
        heard(&mut world, again),
        ["1 asks 2", "1 answered by al@h1"]
    );
    assert_eq!(answer_all(&mut world, &mut rng, bo), 1);
    assert_eq!(
        heard(&mut world, again),
        ["1 answered by bo@h2", "1 ends Complete with 2"]
    );
    judge(&world);
}

/// The connections of one guest are one to it: what one of them asked is told to the other.
#[test]
fn what_a_guest_asked_over_a_connection_that_is_gone_ends_at_its_other_one() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    claim(&mut world, &mut rng, al, Role::Answering, false);
    let again = (cy.0, world.connect(cy.0, "again"));
    introduce(&mut world, &mut rng, cy, 77, 0);
    introduce(&mut world, &mut rng, again, 77, 1);
    say(&mut world, &mut rng, cy, request(1, 0, None));
    world.vanish(cy.0, cy.1);
    world.run(&mut rng);
    // Many others go meanwhile, with requests that wait for them.
    for id in 100..200 {
        let other = (cy.0, world.connect(cy.0, "other"));
        introduce(&mut world, &mut rng, other, id, 0);
        say(&mut world, &mut rng, other, request(1, 0, None));
        world.vanish(other.0, other.1);
        world.run(&mut rng);
    }
    answer_all(&mut world, &mut rng, al);
    assert_eq!(
        heard(&mut world, again),
        ["1 answered by al@h1", "1 ends Complete with 1"]
    );
    assert_eq!(heard(&mut world, bo), [""; 0]);
    judge(&world);
}

#[test]
fn what_another_part_may_have_carried_out_ends_as_unknown() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    claim(&mut world, &mut rng, al, Role::Handler(1), false);
    claim(&mut world, &mut rng, al, Role::Answering, false);
    introduce(&mut world, &mut rng, bo, 77, 0);
    say(&mut world, &mut rng, bo, request(1, 0, None));
    world.divide(&[vec![al.0], vec![bo.0, cy.0]], &mut rng);
    world.run(&mut rng);
    claim(&mut world, &mut rng, cy, Role::Handler(1), false);
    heard(&mut world, cy);
    // The guest is known here, but what asks for a handler is not carried out again.
    let again = (cy.0, world.connect(cy.0, "again"));
    introduce(&mut world, &mut rng, again, 77, 2);
    say(&mut world, &mut rng, again, request(2, 0, Some(1)));
    assert_eq!(heard(&mut world, again), ["2 ends Unknown with 0"]);
    say(&mut world, &mut rng, again, request(3, 0, Some(1)));
    assert_eq!(heard(&mut world, again), ["3 asks 1"]);
    assert_eq!(heard(&mut world, cy).len(), 1);
    // This one is not known at all.
    let stranger = (cy.0, world.connect(cy.0, "stranger"));
    introduce(&mut world, &mut rng, stranger, 78, 5);
    say(&mut world, &mut rng, stranger, request(5, 0, None));
    assert_eq!(heard(&mut world, stranger), ["5 ends Unknown with 0"]);
    judge(&world);
}

/// The claims and the request are under way when the network splits; a part may miss what the other
/// sent, and still have what came behind it.
#[test]
fn one_process_answers_what_asks_for_a_handler_though_parts_miss_each_others_claims() {
    for seed in 0..40 {
        let (mut world, _, [al, bo, cy]) = world();
        let mut rng = Rng::new(seed);
        introduce(&mut world, &mut rng, bo, 77, 0);
        let claim = GuestFrame::Claim {
            token: 1,
            may_wait: true,
            role: Role::Handler(1),
            group: "g".into(),
        };
        for (who, frame) in [
            (al, claim.clone()),
            (cy, claim),
            (bo, request(1, 0, Some(1))),
        ] {
            world.act(who.0, who.1, |client| client.say(frame));
            assert!(world.order(who.0, &mut rng));
        }
        world.divide(&[vec![al.0], vec![bo.0, cy.0]], &mut rng);
        world.run(&mut rng);
        for who in [al, cy] {
            answer_all(&mut world, &mut rng, who);
        }
        judge(&world);
    }
}

/// What ends as unknown says nothing of the requests beside it.
#[test]
fn all_that_a_guest_repeats_where_it_is_not_known_ends_as_unknown() {
    let (mut world, mut rng, [al, _, cy]) = world();
    claim(&mut world, &mut rng, al, Role::Answering, false);
    introduce(&mut world, &mut rng, cy, 77, 5);
    for number in 3..=5 {
        say(&mut world, &mut rng, cy, request(number, 0, None));
        let unknown = format!("{number} ends Unknown with 0");
        assert_eq!(heard(&mut world, cy), [unknown]);
    }
    say(&mut world, &mut rng, cy, request(6, 0, None));
    assert_eq!(heard(&mut world, cy), ["6 asks 1"]);
    judge(&world);
}

#[test]
fn a_guest_that_is_away_when_its_request_ends_is_told_the_same_when_it_comes_back() {
    let (mut world, mut rng, [_, _, mut cy]) = world();
    for (floor, frame, told) in [
        (5, request(5, 0, None), &["5 ends Unknown with 0"][..]),
        (6, request(6, 0, Some(1)), &["6 ends Unknown with 0"]),
        (
            6,
            request(7, 0, None),
            &["7 asks 0", "7 ends Nobody with 0"],
        ),
    ] {
        introduce(&mut world, &mut rng, cy, 77, floor);
        world.act(cy.0, cy.1, |client| client.say(frame.clone()));
        world.vanish(cy.0, cy.1);
        world.run(&mut rng);
        cy = (cy.0, world.connect(cy.0, "cy"));
        introduce(&mut world, &mut rng, cy, 77, floor.max(7));
        say(&mut world, &mut rng, cy, frame);
        assert_eq!(heard(&mut world, cy), told);
        world.vanish(cy.0, cy.1);
        world.run(&mut rng);
        cy = (cy.0, world.connect(cy.0, "cy"));
    }
    judge(&world);
}

/// A member leaves, or its connection goes, in an exchange that is interrupted; one request waits
/// for it, and another comes behind that.
#[test]
fn who_leaves_while_daemons_exchange_states_is_asked_no_more_though_they_are_interrupted() {
    for vanishes in [false, true] {
        let (mut world, mut rng, [al, bo, cy]) = world();
        for who in [al, bo] {
            claim(&mut world, &mut rng, who, Role::Answering, false);
        }
        introduce(&mut world, &mut rng, cy, 77, 0);
        say(&mut world, &mut rng, cy, request(1, 0, None));
        assert_eq!(answer_all(&mut world, &mut rng, al), 1);
        heard(&mut world, bo);
        match vanishes {
            true => world.vanish(bo.0, bo.1),
            false => world.act(bo.0, bo.1, |client| client.leave("g")),
        }
        let second = request(2, 0, None);
        world.act(cy.0, cy.1, |client| client.say(second));
        let members = [al.0, bo.0, cy.0];
        let all = |world: &mut World| {
            for member in members {
                while world.deliver(member) {}
            }
        };
        world.divide(&[members.to_vec()], &mut rng);
        all(&mut world);
        for member in [bo.0, cy.0] {
            assert!(world.order(member, &mut rng));
        }
        all(&mut world);
        let status = world.daemon(al.0).engine.status();
        assert_eq!(status.phase.name(), "exchanging");
        world.divide(&[members.to_vec()], &mut rng);
        world.run(&mut rng);
        assert_eq!(
            heard(&mut world, cy),
            [
                "1 asks 2",
                "1 answered by al@h1",
                "1 ends Short with 1",
                "2 asks 1"
            ]
        );
        assert_eq!(heard(&mut world, al), ["cy@h3 asks None question 2"]);
        if !vanishes {
            assert_eq!(heard(&mut world, bo), [""; 0]);
        }
        judge(&world);
    }
}

/// All daemons know which requests came, also where one lets go of what it holds.
#[test]
fn of_requests_that_are_let_go_of_the_number_stays() {
    let (mut world, mut rng, [al, bo, cy]) = world_with(EngineConfig {
        held_max: 4_096,
        ..EngineConfig::default()
    });
    introduce(&mut world, &mut rng, cy, 77, 0);
    world.act(cy.0, cy.1, |client| {
        let mut frame = request(1, 0, None);
        if let GuestFrame::Request { payload, .. } = &mut frame {
            *payload = vec![b'x'; 6_000].into();
        }
        client.say(frame);
    });
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    for member in [al.0, bo.0, cy.0] {
        while world.deliver(member) {}
    }
    assert!(world.order(cy.0, &mut rng));
    world.run(&mut rng);
    for who in [al, bo, cy] {
        assert!(world.client(who.0, who.1).disconnected.is_some());
    }
    let again = (bo.0, world.connect(bo.0, "again"));
    introduce(&mut world, &mut rng, again, 77, 1);
    say(&mut world, &mut rng, again, request(1, 0, None));
    assert_eq!(heard(&mut world, again), ["1 ends Repeated with 0"]);
    assert_eq!(world.daemon(bo.0).engine.counters().nonsense, 0);
}
