//! Requests to groups, handlers and locks, from client to client over several daemons.

mod bounds;
mod requests;
mod roles;

use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Outcome;
use groupcast_core::{MemberId, Rng};
use groupcast_session::frame::{GuestFrame, GuestReply, Reject};
use groupcast_session::guests::{
    Ending, GUESTS_PER_DAEMON_MAX, ROLES_PER_CLIENT_MAX, Role, RoleState,
};
use groupcast_session::{ClientId, EngineConfig};

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
