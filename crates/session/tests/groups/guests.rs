//! Requests to groups, handlers and locks, from client to client over several daemons.

use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Outcome;
use groupcast_core::{MemberId, Rng};
use groupcast_session::frame::{GuestFrame, GuestReply, Reject};
use groupcast_session::guests::{
    Ending, GUESTS_PER_DAEMON_MAX, ROLES_PER_CLIENT_MAX, Role, RoleState,
};
use groupcast_session::{ClientId, EngineConfig};

use super::story;
use crate::world::World;

type Who = (MemberId, ClientId);

const WITHIN: Duration = Duration::from_secs(5);

/// Three daemons in one configuration, with a client of the group g at each.
fn world() -> (World, Rng, [Who; 3]) {
    world_with(EngineConfig::default())
}

fn world_with(config: EngineConfig) -> (World, Rng, [Who; 3]) {
    let mut world = World::with_config(3, config);
    let mut rng = Rng::new(5);
    let members = [1, 2, 3].map(|host| world.member(host));
    world.divide(&[members.to_vec()], &mut rng);
    world.run(&mut rng);
    let clients = [0, 1, 2].map(|index| {
        let name = ["al", "bo", "cy"][index];
        (members[index], world.connect(members[index], name))
    });
    for who in clients {
        world.act(who.0, who.1, |client| client.join("g"));
    }
    world.run(&mut rng);
    (world, rng, clients)
}

fn say(world: &mut World, rng: &mut Rng, who: Who, frame: GuestFrame) {
    world.act(who.0, who.1, |client| client.say(frame));
    world.run(rng);
}

fn claim(world: &mut World, rng: &mut Rng, who: Who, role: Role, may_wait: bool) -> Vec<String> {
    let frame = GuestFrame::Claim {
        token: 1,
        may_wait,
        role,
        group: "g".into(),
    };
    say(world, rng, who, frame);
    heard(world, who)
}

fn release(world: &mut World, rng: &mut Rng, who: Who, role: Role) -> Vec<String> {
    let frame = GuestFrame::Release {
        token: 2,
        role,
        group: "g".into(),
    };
    say(world, rng, who, frame);
    heard(world, who)
}

/// A client says which guest it is.
fn introduce(world: &mut World, rng: &mut Rng, who: Who, id: u64, floor: u64) {
    say(world, rng, who, GuestFrame::Guest { id, floor });
}

fn request(number: u64, answers: u16, handler: Option<u16>) -> GuestFrame {
    GuestFrame::Request {
        number,
        answers,
        handler,
        within: WITHIN,
        group: "g".into(),
        payload: Bytes::from(format!("question {number}")),
        stream_len: 0,
    }
}

/// Answers everything that the client was asked and has not answered; how much that was.
fn answer_all(world: &mut World, rng: &mut Rng, who: Who) -> usize {
    let seen = std::mem::take(&mut world.client(who.0, who.1).guest);
    let mut count = 0;
    for (reply, _) in seen {
        if let GuestReply::Request { place, .. } = reply {
            count += 1;
            let payload = Bytes::from_static(b"answer");
            let frame = GuestFrame::Answer {
                seq: place.seq,
                payload,
                stream_len: 0,
            };
            say(world, rng, who, frame);
        }
    }
    count
}

/// What a client was told of requests and roles since the last time, in short.
fn heard(world: &mut World, who: Who) -> Vec<String> {
    let line = |(reply, payload): (GuestReply, Vec<u8>)| match reply {
        GuestReply::Request { guest, handler, .. } => {
            let text = String::from_utf8_lossy(&payload).into_owned();
            format!("{guest} asks {handler:?} {text}")
        }
        GuestReply::Taken { number, asked } => format!("{number} asks {asked}"),
        GuestReply::Answer { number, from } => format!("{number} answered by {from}"),
        GuestReply::Ended {
            number,
            ending,
            answers,
            ..
        } => format!("{number} ends {ending:?} with {answers}"),
        GuestReply::Role(notice) => {
            let state = match notice.state {
                RoleState::Held => "held".into(),
                RoleState::Waits { holder } => format!("waits for {holder}"),
                RoleState::Released => "released".into(),
                RoleState::Lost { holder } => format!("lost to {holder}"),
                RoleState::Refused { holder, .. } => format!("refused, has {holder}"),
                _ => "unknown".into(),
            };
            format!("{}: {state}", notice.role)
        }
    };
    let seen = std::mem::take(&mut world.client(who.0, who.1).guest);
    seen.into_iter().map(line).collect()
}

/// The histories keep the checker's rules.
fn judge(world: &World) {
    let violations = world.checker.finish(&Outcome::default());
    assert!(violations.is_empty(), "{violations:#?}");
}

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

/// A state that no message holds keeps nobody from agreeing on the groups.
#[test]
fn a_daemon_whose_state_is_longer_than_a_message_agrees_with_the_others() {
    let (mut world, mut rng, [al, bo, cy]) = world();
    for number in 0..100u16 {
        let group = format!("{number:0>200}");
        world.act(al.0, al.1, |client| client.join(&group));
        world.run(&mut rng);
        let frame = GuestFrame::Claim {
            token: 1,
            may_wait: false,
            role: Role::Lock(number),
            group,
        };
        say(&mut world, &mut rng, al, frame);
    }
    let told = claim(&mut world, &mut rng, al, Role::Handler(1), false);
    assert_eq!(told.len(), 101);
    assert!(told.iter().all(|line| line.ends_with(": held")), "{told:?}");
    world.message_max = 2_000;
    world.divide(&[vec![al.0], vec![bo.0, cy.0]], &mut rng);
    world.run(&mut rng);
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    // It is interrupted when some of it has come.
    for _ in 0..5 {
        world.order(al.0, &mut rng);
    }
    for who in [al, bo, cy] {
        while world.deliver(who.0) {}
    }
    world.divide(&[vec![al.0, bo.0, cy.0]], &mut rng);
    world.run(&mut rng);
    let refused = ["handler 1: refused, has al@h1"];
    let role = Role::Handler(1);
    assert_eq!(claim(&mut world, &mut rng, bo, role, false), refused);
    world.act(cy.0, cy.1, |client| client.join(&format!("{:0>200}", 7)));
    world.run(&mut rng);
    let told = story(&mut world, cy);
    let view = told.last().expect("it joined");
    assert!(view.contains("al") && view.contains("cy"), "{view}");
    assert_eq!(heard(&mut world, al), [""; 0], "it has what it had");
    judge(&world);
}

/// Why the last thing that a client asked of roles was refused.
fn refusal(world: &mut World, who: Who) -> (Reject, String) {
    let seen = std::mem::take(&mut world.client(who.0, who.1).guest);
    match seen.into_iter().last() {
        Some((GuestReply::Role(notice), _)) => match notice.state {
            RoleState::Refused { code, text, .. } => (code, text),
            other => panic!("it is not refused: {other:?}"),
        },
        other => panic!("it hears {other:?}"),
    }
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

#[test]
fn a_guest_beyond_the_table_is_refused_until_another_has_gone() {
    let (mut world, mut rng, [al, ..]) = world_with(EngineConfig {
        clients_max: GUESTS_PER_DAEMON_MAX + 2,
        ..EngineConfig::default()
    });
    claim(&mut world, &mut rng, al, Role::Answering, false);
    let guests: Vec<Who> = (0..=GUESTS_PER_DAEMON_MAX)
        .map(|index| (al.0, world.connect(al.0, &format!("guest{index}"))))
        .collect();
    for (index, who) in guests.iter().enumerate() {
        let id = index as u64;
        let ask = |client: &mut crate::world::client::TestClient| {
            client.say(GuestFrame::Guest { id, floor: 0 });
            client.say(request(1, 0, None));
        };
        world.act(who.0, who.1, ask);
    }
    world.run(&mut rng);
    let (last, first) = (guests[GUESTS_PER_DAEMON_MAX], guests[0]);
    assert_eq!(heard(&mut world, first), ["1 asks 1"]);
    let seen = std::mem::take(&mut world.client(last.0, last.1).guest);
    let [
        (
            GuestReply::Ended {
                ending: Ending::Refused,
                code: Reject::TooManyGuests,
                text,
                ..
            },
            _,
        ),
    ] = &seen[..]
    else {
        panic!("it hears {seen:?}");
    };
    assert!(text.contains("table of guests is full"), "{text}");
    world.vanish(first.0, first.1);
    world.run(&mut rng);
    say(&mut world, &mut rng, last, request(2, 0, None));
    assert_eq!(heard(&mut world, last), ["2 asks 1"]);
    judge(&world);
}

#[test]
fn names_that_are_none_are_refused_at_once() {
    let (mut world, mut rng, [al, ..]) = world();
    let frame = GuestFrame::Claim {
        token: 1,
        may_wait: false,
        role: Role::Lock(0),
        group: "al@h1".into(),
    };
    say(&mut world, &mut rng, al, frame);
    assert_eq!(heard(&mut world, al), ["lock 0: refused, has "]);
    introduce(&mut world, &mut rng, al, 77, 0);
    let mut frame = request(1, 0, None);
    if let GuestFrame::Request { group, .. } = &mut frame {
        group.clear();
    }
    say(&mut world, &mut rng, al, frame);
    assert_eq!(heard(&mut world, al), ["1 ends Refused with 0"]);
    assert_eq!(world.daemon(al.0).engine.counters().nonsense, 0);
}

#[test]
fn numbers_that_go_back_and_a_second_guest_end_the_connection() {
    let (mut world, mut rng, [al, bo, _]) = world();
    introduce(&mut world, &mut rng, al, 77, 0);
    say(&mut world, &mut rng, al, request(2, 0, None));
    say(&mut world, &mut rng, al, request(2, 0, None));
    let (_, why) = world.client(al.0, al.1).disconnected.clone().unwrap();
    assert!(why.contains("numbers must increase"), "{why}");
    introduce(&mut world, &mut rng, bo, 78, 0);
    introduce(&mut world, &mut rng, bo, 79, 0);
    assert!(world.client(bo.0, bo.1).disconnected.is_some());
}

#[test]
fn an_answer_to_nothing_goes_nowhere() {
    let (mut world, mut rng, [al, bo, _]) = world();
    introduce(&mut world, &mut rng, al, 77, 0);
    let frame = GuestFrame::Answer {
        seq: 1 << 16,
        payload: Bytes::from_static(b"forged"),
        stream_len: 0,
    };
    say(&mut world, &mut rng, bo, frame);
    assert_eq!(heard(&mut world, al), [""; 0]);
    assert_eq!(world.daemon(bo.0).engine.counters().rejected, 1);
}

#[test]
fn credit_for_requests_and_answers_comes_back() {
    let (mut world, mut rng, [al, bo, _]) = world();
    claim(&mut world, &mut rng, al, Role::Answering, false);
    introduce(&mut world, &mut rng, bo, 77, 0);
    let window = world.client(bo.0, bo.1).credit;
    for number in 1..40 {
        let mut frame = request(number, 0, None);
        if let GuestFrame::Request { payload, .. } = &mut frame {
            *payload = vec![b'x'; window as usize / 16].into();
        }
        assert!(world.client(bo.0, bo.1).may_publish(), "request {number}");
        say(&mut world, &mut rng, bo, frame);
        answer_all(&mut world, &mut rng, al);
    }
    let ended = heard(&mut world, bo);
    let complete = ended.iter().filter(|line| line.contains("Complete"));
    assert_eq!(complete.count(), 39);
}
