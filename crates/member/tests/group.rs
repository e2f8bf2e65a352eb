//! Members on the loopback interface, each in a thread of its own.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use groupcast_member::{
    ConfigurationKind, Event, JoinError, Key, Member, MemberBuilder, RmpConfig, Sealing, Service,
};

const MEMBERS: usize = 3;
const MESSAGES: usize = 200;
/// Everything ends within this time, or the test fails.
const LIMIT: Duration = Duration::from_secs(30);

/// A group that other runs on this host do not use.
fn group() -> SocketAddrV4 {
    let id = std::process::id();
    let [_, _, a, b] = id.to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(239, 78, a, b), 20_000 + (id % 12_000) as u16)
}

/// Joins, waits for the others, sends, and leaves once it has heard all messages; what it heard, in
/// its order. `order` chooses the protocol.
fn take_part(
    name: &str,
    group: SocketAddrV4,
    order: fn(MemberBuilder) -> MemberBuilder,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let key = Key::from_bytes([7; 32]);
    let builder = Member::builder(name, group, Sealing::Key(key)).interface(Ipv4Addr::LOCALHOST);
    let mut member = order(builder).join()?;
    let (mut heard, mut complete) = (Vec::new(), false);
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        match member.next_event(Duration::from_millis(100))? {
            Some(Event::Deliver(message)) => {
                heard.push(String::from_utf8(message.payload.to_vec())?);
                if heard.len() == MEMBERS * MESSAGES {
                    member.leave();
                }
            }
            Some(Event::Configuration(now))
                if now.kind == ConfigurationKind::Regular
                    && now.members.len() == MEMBERS
                    && !complete =>
            {
                complete = true;
                for number in 0..MESSAGES {
                    member.submit(Service::Agreed, format!("{name} {number}"))?;
                }
            }
            Some(Event::Left) => {
                assert!(member.next_event(LIMIT)?.is_none(), "nothing follows");
                return Ok(heard);
            }
            _ => {}
        }
    }
    Err(format!("{name} heard {} messages and did not leave", heard.len()).into())
}

#[test]
fn members_hear_the_same_messages_in_the_same_order() {
    hear_the_same(group(), |builder| builder);
}

#[test]
fn members_of_rmp_do_too() {
    let group = SocketAddrV4::new(*group().ip(), group().port() + 2);
    hear_the_same(group, |builder| builder.rmp(RmpConfig::lan()));
}

fn hear_the_same(group: SocketAddrV4, order: fn(MemberBuilder) -> MemberBuilder) {
    let (tell, told) = mpsc::channel();
    for name in ["ada", "ben", "cleo"] {
        let tell = tell.clone();
        let part = move || take_part(name, group, order).map_err(|error| error.to_string());
        thread::spawn(move || tell.send(part()));
    }
    let mut heard = (0..MEMBERS).map(|_| {
        let heard = told
            .recv_timeout(2 * LIMIT)
            .expect("a thread says what it heard");
        heard.expect("it heard all")
    });
    let first = heard.next().expect("there are members");
    assert_eq!(
        first.iter().collect::<BTreeSet<_>>().len(),
        MEMBERS * MESSAGES
    );
    for other in heard {
        assert_eq!(other, first);
    }
}

#[test]
fn a_waker_ends_the_wait() {
    let group = SocketAddrV4::new(*group().ip(), group().port() + 1);
    let mut member = Member::builder("ada", group, Sealing::Insecure)
        .interface(Ipv4Addr::LOCALHOST)
        .join()
        .unwrap();
    // Alone after the time for gathering others: one configuration, then nothing.
    while member.next_event(Duration::from_secs(2)).unwrap().is_some() {}
    let waker = member.waker();
    let start = Instant::now();
    let thread = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        waker.wake()
    });
    assert!(member.next_event(LIMIT).unwrap().is_none());
    assert!(start.elapsed() < LIMIT / 2);
    thread.join().unwrap().unwrap();
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let group = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4830);
    let error = Member::builder("ada", group, Sealing::Insecure)
        .join()
        .err()
        .unwrap();
    assert!(error.to_string().contains("239.0.0.0/8"), "{error}");
}

#[test]
fn a_member_without_a_name_or_in_an_address_of_routers_is_refused() {
    let join = |name, group| {
        let sealing = Sealing::Key(Key::from_bytes([7; 32]));
        let builder = Member::builder(name, group, sealing);
        builder.interface(Ipv4Addr::LOCALHOST).join()
    };
    let error = join("", group()).err();
    assert!(matches!(error, Some(JoinError::NoName)));
    let routers = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 1), 4_809);
    let error = join("ada", routers).err().map(|error| error.to_string());
    let error = error.unwrap_or_default();
    assert!(error.contains("224.0.0.1 is of 224.0.0.0/24"), "{error}");
}
