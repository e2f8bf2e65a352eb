//! Bounds and bad input of requests and roles.

use groupcast_session::groups::{Access, Principal, Right, Rule};

use super::super::story;
use super::*;

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
fn who_may_not_send_to_a_group_may_not_ask_it_either() {
    let (mut world, mut rng, [al, bo, _]) = world();
    claim(&mut world, &mut rng, al, Role::Answering, false);
    let of_others = Rule {
        groups: vec!["g".into()],
        who: vec![Principal::User(1000)],
        rights: vec![Right::Send],
    };
    let now = world.now;
    let engine = &mut world.daemon(bo.0).engine;
    engine.set_access(now, Access(vec![of_others]));
    introduce(&mut world, &mut rng, bo, 77, 0);
    say(&mut world, &mut rng, bo, request(1, 0, None));
    let seen = std::mem::take(&mut world.client(bo.0, bo.1).guest);
    let [
        (
            GuestReply::Ended {
                ending: Ending::Refused,
                code: Reject::Forbidden,
                text,
                ..
            },
            _,
        ),
    ] = &seen[..]
    else {
        panic!("it hears {seen:?}");
    };
    assert!(text.contains("do not let this client send"), "{text}");
    assert_eq!(heard(&mut world, al), [""; 0], "nobody was asked");
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
