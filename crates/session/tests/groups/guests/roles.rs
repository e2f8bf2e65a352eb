//! Handlers and locks: one holder each, who waits for them, and how many a client may have.

use super::*;

#[test]
fn a_handler_has_one_holder_who_alone_is_asked() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    let role = Role::Handler(3);
    assert_eq!(
        claim(&mut world, &mut rng, al, role, false),
        ["handler 3: held"]
    );
    assert_eq!(
        claim(&mut world, &mut rng, bo, role, false),
        ["handler 3: refused, has al@h1"]
    );
    assert_eq!(
        release(&mut world, &mut rng, bo, role),
        ["handler 3: refused, has al@h1"]
    );
    claim(&mut world, &mut rng, cy, Role::Answering, false);
    introduce(&mut world, &mut rng, cy, 77, 0);
    say(&mut world, &mut rng, cy, request(1, 0, Some(3)));
    assert_eq!(heard(&mut world, cy), ["1 asks 1"]);
    assert_eq!(heard(&mut world, bo), [""; 0]);
    assert_eq!(answer_all(&mut world, &mut rng, al), 1);
    assert_eq!(
        heard(&mut world, cy),
        ["1 answered by al@h1", "1 ends Complete with 1"]
    );
    let stranger = (al.0, world.connect(al.0, "stranger"));
    assert_eq!(
        claim(&mut world, &mut rng, stranger, role, false),
        ["handler 3: refused, has "],
        "handlers are for members"
    );
    judge(&world);
}

#[test]
fn a_role_goes_to_who_waits_when_its_holder_goes() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    let lock = Role::Lock(0);
    claim(&mut world, &mut rng, al, lock, true);
    assert_eq!(
        claim(&mut world, &mut rng, bo, lock, true),
        ["lock 0: waits for al@h1"]
    );
    claim(&mut world, &mut rng, cy, lock, true);
    assert_eq!(
        release(&mut world, &mut rng, al, lock),
        ["lock 0: released"]
    );
    assert_eq!(heard(&mut world, bo), ["lock 0: held"]);
    world.act(bo.0, bo.1, |client| client.leave("g"));
    world.run(&mut rng);
    assert_eq!(heard(&mut world, cy), ["lock 0: held"]);
    claim(&mut world, &mut rng, al, lock, true);
    world.crash(cy.0);
    world.divide(&[vec![al.0, bo.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(
        heard(&mut world, al),
        ["lock 0: held"],
        "the daemon is gone"
    );
    judge(&world);
}

#[test]
fn of_two_holders_that_meet_the_earlier_stays_and_the_other_is_told() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    let role = Role::Handler(1);
    world.divide(&[vec![al.0], vec![bo.0, cy.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(
        claim(&mut world, &mut rng, bo, role, false),
        ["handler 1: held"]
    );
    assert_eq!(
        claim(&mut world, &mut rng, cy, role, true),
        ["handler 1: waits for bo@h2"]
    );
    assert_eq!(
        claim(&mut world, &mut rng, al, role, false),
        ["handler 1: held"]
    );
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    world.run(&mut rng);
    assert_eq!(heard(&mut world, al), ["handler 1: lost to bo@h2"]);
    assert_eq!(heard(&mut world, bo), [""; 0]);
    assert_eq!(heard(&mut world, cy), [""; 0], "it waits still");
    release(&mut world, &mut rng, bo, role);
    assert_eq!(heard(&mut world, cy), ["handler 1: held"]);
    judge(&world);
}

#[test]
fn a_client_has_so_many_roles_and_no_more() {
    let (mut world, mut rng, [al, ..]) = world();
    for number in 0..ROLES_PER_CLIENT_MAX {
        let role = Role::Lock(number as u16);
        assert_eq!(claim(&mut world, &mut rng, al, role, false).len(), 1);
    }
    let last = Role::Lock(ROLES_PER_CLIENT_MAX as u16);
    assert_eq!(
        claim(&mut world, &mut rng, al, last, true),
        ["lock 256: refused, has "]
    );
    release(&mut world, &mut rng, al, Role::Lock(7));
    assert_eq!(
        claim(&mut world, &mut rng, al, last, true),
        ["lock 256: held"]
    );
}

#[test]
fn all_clients_of_a_daemon_have_so_many_roles_together_and_no_more() {
    let (mut world, mut rng, [al, bo, _]) = world_with(EngineConfig {
        roles_max: 3,
        ..EngineConfig::default()
    });
    let am = (al.0, world.connect(al.0, "am"));
    world.act(am.0, am.1, |client| client.join("g"));
    world.run(&mut rng);
    let lock = Role::Lock;
    claim(&mut world, &mut rng, al, lock(0), false);
    claim(&mut world, &mut rng, al, lock(1), false);
    // Of several at once, as many as there is room for.
    let ask = |client: &mut crate::world::client::TestClient| {
        for number in 2..6 {
            client.say(GuestFrame::Claim {
                token: 1,
                may_wait: true,
                role: lock(number),
                group: "g".into(),
            });
        }
    };
    world.act(am.0, am.1, ask);
    world.run(&mut rng);
    let mut told = heard(&mut world, am);
    told.sort();
    let no = |number| format!("lock {number}: refused, has ");
    assert_eq!(told, ["lock 2: held".to_owned(), no(3), no(4), no(5)]);
    let wait = GuestFrame::Claim {
        token: 1,
        may_wait: true,
        role: lock(0),
        group: "g".into(),
    };
    say(&mut world, &mut rng, am, wait);
    let (code, text) = refusal(&mut world, am);
    assert_eq!(code, Reject::TooManyRoles);
    assert!(text.contains("3 are allowed"), "{text}");
    assert_eq!(
        claim(&mut world, &mut rng, am, lock(2), false),
        ["lock 2: held"],
        "it has that one"
    );
    let held = ["lock 0: waits for al@h1"];
    assert_eq!(claim(&mut world, &mut rng, bo, lock(0), true), held);
    world.vanish(al.0, al.1);
    world.run(&mut rng);
    assert_eq!(heard(&mut world, bo), ["lock 0: held"]);
    for number in [1, 3] {
        let held = [format!("lock {number}: held")];
        assert_eq!(claim(&mut world, &mut rng, am, lock(number), true), held);
    }
    assert_eq!(claim(&mut world, &mut rng, am, lock(4), true), [no(4)]);
    judge(&world);
}

#[test]
fn a_foreign_unlock_and_a_taken_handler_are_refused_in_words_that_name_the_holder() {
    let (mut world, mut rng, [al, bo, _]) = world();
    for role in [Role::Lock(7), Role::Handler(7)] {
        claim(&mut world, &mut rng, al, role, false);
        let group = || "g".to_owned();
        let unlock = GuestFrame::Release {
            token: 1,
            role,
            group: group(),
        };
        say(&mut world, &mut rng, bo, unlock.clone());
        let (code, text) = refusal(&mut world, bo);
        assert_eq!(code, Reject::NotHeld);
        assert!(text.starts_with(&format!("al@h1 has {role}")), "{text}");
        let take = GuestFrame::Claim {
            token: 2,
            may_wait: false,
            role,
            group: group(),
        };
        say(&mut world, &mut rng, bo, take);
        let (code, text) = refusal(&mut world, bo);
        assert_eq!(code, Reject::Taken);
        assert!(text.starts_with(&format!("al@h1 has {role}")), "{text}");
        release(&mut world, &mut rng, al, role);
        say(&mut world, &mut rng, bo, unlock);
        let (code, text) = refusal(&mut world, bo);
        assert_eq!(code, Reject::NotHeld);
        assert!(text.contains("neither has"), "{text}");
    }
    judge(&world);
}
