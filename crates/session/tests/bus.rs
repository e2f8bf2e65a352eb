//! The bus over several daemons: what is accepted, asked and sent at one of them holds at all.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::ClientId;
use groupcast_session::frame::{BusRequest, ClientFrame};

use crate::world::World;

type Who = (MemberId, ClientId);

/// Three daemons in one configuration, with clients of the bus at them, in turns.
fn world(clients: usize) -> (World, Rng, Vec<Who>) {
    let mut world = World::new(3);
    let mut rng = Rng::new(7);
    let members: Vec<_> = (1..=3).map(|host| world.member(host)).collect();
    world.divide(std::slice::from_ref(&members), &mut rng);
    world.run(&mut rng);
    let at = |index: usize| members[index % 3];
    let clients = (0..clients).map(|index| (at(index), world.connect_bus(at(index))));
    let clients: Vec<Who> = clients.collect();
    world.run(&mut rng);
    for (member, id) in &clients {
        world.heard(*member, *id);
    }
    (world, rng, clients)
}

/// A client writes a line, all that follows happens, and it hears this.
fn ask(world: &mut World, rng: &mut Rng, (member, id): Who, line: &str) -> String {
    world.say(member, id, &format!("{line}\n"));
    world.run(rng);
    world.heard(member, id)
}

#[test]
fn patterns_domains_below_and_ids_reach_over_daemons() {
    let (mut world, mut rng, clients) = world(3);
    let [al, bo, cy] = [clients[0], clients[1], clients[2]];
    let mut say = |who, line: &str| ask(&mut world, &mut rng, who, line);
    assert_eq!(say(al, "accept draw|erase page1.white"), "ok\n");
    assert_eq!(say(bo, "accept * *.white"), "ok\n");
    assert_eq!(say(cy, "id cy.uiuc"), "ok\n");
    assert_eq!(say(cy, "ping draw page1.white"), "ok c1@h1 c1@h2\n");
    assert_eq!(say(cy, "ping move page1.white"), "ok c1@h2\n");
    assert_eq!(say(cy, "ping * page1.white"), "ok c1@h1 c1@h2\n");
    assert_eq!(say(cy, "ping * white"), "ok\n", "all below it, not itself");
    assert_eq!(say(al, "ping x cy.uiuc"), "ok cy.uiuc\n");
    assert_eq!(say(al, "ping x c1@h3"), "ok cy.uiuc\n");
    assert_eq!(
        say(cy, "msg erase page1.white,cy.uiuc,page2.white all"),
        "msg erase page1.white,cy.uiuc,page2.white raw 3\nall\nok\n"
    );
    let once = "msg erase page1.white,cy.uiuc,page2.white raw 3\nall\n";
    assert_eq!(world.heard(al.0, al.1), once);
    assert_eq!(world.heard(bo.0, bo.1), once);
    let mut say = |who, line: &str| ask(&mut world, &mut rng, who, line);
    assert_eq!(
        say(bo, "clients"),
        "ok 3\n c1@h1 \"\" page1.white\n c1@h2 \"\" *.white\n c1@h3 cy.uiuc\n"
    );
    assert_eq!(say(bo, "reject * *.white"), "ok\n");
    assert_eq!(say(al, "ping * page1.white"), "ok c1@h1\n");
    assert_eq!(say(cy, "id \"\""), "ok\n");
    assert_eq!(say(al, "ping * cy.uiuc"), "ok\n");
}

#[test]
fn clients_of_both_kinds_meet() {
    let (mut world, mut rng, clients) = world(1);
    let bus = clients[0];
    let two = world.member(2);
    let sub = world.connect(two, "sub");
    world.act(two, sub, |client| client.join("g"));
    assert_eq!(ask(&mut world, &mut rng, bus, "accept \"\" g"), "ok\n");
    world.act(two, sub, |client| {
        client.publish(&["g"], Service::Agreed, b"plain");
    });
    world.run(&mut rng);
    assert_eq!(world.heard(bus.0, bus.1), "msg \"\" g raw 5\nplain\n");
    let said = ask(&mut world, &mut rng, bus, "msg y g (a list)");
    assert_eq!(said, "ok\n", "its own tag is not among what it accepts");
    let story = world.client(two, sub).story();
    assert!(story.contains(&"c1@h1>g (a list)".into()), "{story:?}");
}

#[test]
fn each_request_for_all_clients_is_answered_before_the_client_leaves() {
    let (mut world, _, clients) = world(1);
    let member = clients[0].0;
    let asker = world.connect(member, "asker");
    world.act(member, asker, |client| {
        for token in 1..=20 {
            let request = BusRequest::Clients;
            client.send(&ClientFrame::Bus { token, request });
        }
        client.send(&ClientFrame::Bye);
    });
    let client = world.client(member, asker);
    assert_eq!((client.lists, client.done.len()), (20, 0));
}

#[test]
fn a_list_of_all_clients_that_is_too_long_is_refused_and_the_asker_stays() {
    let (mut world, mut rng, clients) = world(18);
    let (asker, long) = clients.split_first().unwrap();
    for (number, (member, id)) in long.iter().enumerate() {
        let domain = |at| format!("accept * {number:02}{at:03}{}\n", "x".repeat(246));
        let lines: String = (0..1_000).map(domain).collect();
        world.say(*member, *id, &lines);
    }
    world.run(&mut rng);
    let said = ask(&mut world, &mut rng, *asker, "clients");
    assert!(said.starts_with("error too-many "), "{said}");
    for (member, id) in &long[1..] {
        world.say(*member, *id, "quit\n");
    }
    world.run(&mut rng);
    let said = ask(&mut world, &mut rng, *asker, "clients");
    assert!(said.starts_with("ok 2\n"), "{}", said.len());
}

#[test]
fn lists_are_converted_for_each_receiver() {
    let (mut world, mut rng, clients) = world(3);
    for who in &clients {
        ask(&mut world, &mut rng, *who, "accept * d");
    }
    let [al, bo, cy] = [clients[0], clients[1], clients[2]];
    ask(&mut world, &mut rng, bo, "syntax cstream");
    ask(&mut world, &mut rng, cy, "syntax raw");
    let own = "msg t d 13\n(a  \"b\" . c )\n";
    assert_eq!(
        ask(&mut world, &mut rng, al, "msg t d (a  \"b\" . c )"),
        format!("{own}ok\n"),
        "not touched"
    );
    assert_eq!(world.heard(bo.0, bo.1), "msg t d 17\ncs[y1:as1:b.y1:c]\n");
    assert_eq!(world.heard(cy.0, cy.1), own.replace("13", "sexp 13"));
    let stream = "msg t d 10\ncs[i3:-42]";
    assert_eq!(
        ask(&mut world, &mut rng, bo, stream),
        format!("{stream}\nok\n")
    );
    assert_eq!(world.heard(al.0, al.1), "msg t d 5\n(-42)\n");
    assert_eq!(world.heard(cy.0, cy.1), "msg t d cstream 10\ncs[i3:-42]\n");
}

#[test]
fn who_may_not_join_a_group_reads_it_neither_from_above_nor_by_an_id() {
    use groupcast_session::groups::{Access, Principal, Right, Rule};

    let (mut world, mut rng, clients) = world(2);
    let [al, bo] = [clients[0], clients[1]];
    ask(&mut world, &mut rng, bo, "accept * *.z");
    ask(&mut world, &mut rng, bo, "id secret.z");
    let send = "msg t secret.z,open.z x";
    ask(&mut world, &mut rng, al, send);
    assert!(!world.heard(bo.0, bo.1).is_empty());
    let rule = Rule {
        groups: vec!["secret.*".into()],
        who: vec![Principal::Tcp],
        rights: vec![Right::Join],
    };
    let now = world.now;
    let engine = &mut world.daemon(bo.0).engine;
    engine.set_access(now, Access(vec![rule]));
    ask(&mut world, &mut rng, al, "msg t secret.z x");
    assert_eq!(world.heard(bo.0, bo.1), "");
    ask(&mut world, &mut rng, al, send);
    assert_eq!(
        world.heard(bo.0, bo.1),
        "msg t secret.z,open.z raw 1\nx\n",
        "by the other"
    );
    for line in ["accept * secret.z", "id secret.x"] {
        let reply = ask(&mut world, &mut rng, bo, line);
        assert!(reply.starts_with("error forbidden "), "{reply}");
    }
}

#[test]
fn what_clients_accept_is_known_again_after_daemons_met() {
    let (mut world, mut rng, clients) = world(2);
    let [al, bo] = [clients[0], clients[1]];
    ask(&mut world, &mut rng, al, "accept a.* d");
    ask(&mut world, &mut rng, al, "id al");
    let [one, two, three] = [1, 2, 3].map(|host| world.member(host));
    world.divide(&[vec![one], vec![two, three]], &mut rng);
    world.run(&mut rng);
    assert_eq!(ask(&mut world, &mut rng, bo, "ping ab d"), "ok\n");
    assert_eq!(ask(&mut world, &mut rng, al, "ping ab d"), "ok al\n");
    ask(&mut world, &mut rng, bo, "accept ab d");
    world.divide(&[vec![one, two, three]], &mut rng);
    world.run(&mut rng);
    assert_eq!(ask(&mut world, &mut rng, bo, "ping ab d"), "ok al c1@h2\n");
    assert_eq!(ask(&mut world, &mut rng, bo, "ping a d"), "ok al\n");
    ask(&mut world, &mut rng, bo, "msg a d hello");
    assert_eq!(world.heard(al.0, al.1), "msg a d raw 5\nhello\n");
}

/// What the daemons should know, in the plainest way.
#[derive(Default)]
struct Model {
    accepted: BTreeMap<usize, BTreeSet<(String, String)>>,
    ids: BTreeMap<usize, String>,
    quiet: BTreeSet<usize>,
}

impl Model {
    fn accepts(&self, client: usize, tag: &str, domain: &str) -> bool {
        let is_below = |group: &str| match group.strip_prefix('*') {
            Some(rest) => domain.ends_with(rest),
            None => group == domain,
        };
        let matches = |pattern: &str| match pattern {
            "*" => true,
            "a|b" => tag == "a" || tag == "b",
            "b+" => !tag.is_empty() && tag.bytes().all(|byte| byte == b'b'),
            other => other == tag,
        };
        let accepted = self.accepted.get(&client).into_iter().flatten();
        let mut accepted = accepted.filter(|(_, group)| is_below(group));
        accepted.any(|(pattern, _)| tag == "*" || matches(pattern))
            || self.ids.get(&client).is_some_and(|id| id == domain)
    }
}

/// Random commands of eight clients at three daemons, which part and meet: each message comes once
/// to exactly those whom the model names, and `ping` names the same.
#[test]
fn every_message_reaches_exactly_those_whom_a_naive_model_names() {
    const DOMAINS: [&str; 5] = ["x.y.z", "w.y.z", "y.z", "z", "x.z"];
    const GROUPS: [&str; 7] = ["x.y.z", "w.y.z", "y.z", "z", "x.z", "*.y.z", "*.z"];
    const PATTERNS: [&str; 5] = ["*", "a|b", "b+", "a", "bb"];
    const TAGS: [&str; 4] = ["a", "b", "bb", "c"];
    let (mut world, mut rng, clients) = world(8);
    let mut model = Model::default();
    // Which component each daemon is in.
    let mut component = [0; 3];
    let pick =
        |rng: &mut Rng, from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    for step in 0..3_000 {
        let actor = rng.below(8) as usize;
        let who = clients[actor];
        match rng.below(20) {
            0..=4 => {
                let (pattern, group) = (pick(&mut rng, &PATTERNS), pick(&mut rng, &GROUPS));
                let line = format!("accept {pattern} {group}");
                assert_eq!(ask(&mut world, &mut rng, who, &line), "ok\n");
                model
                    .accepted
                    .entry(actor)
                    .or_default()
                    .insert((pattern, group));
            }
            5..=7 => {
                let (pattern, group) = (pick(&mut rng, &PATTERNS), pick(&mut rng, &GROUPS));
                let line = format!("reject {pattern} {group}");
                let had = model
                    .accepted
                    .entry(actor)
                    .or_default()
                    .remove(&(pattern, group));
                let reply = ask(&mut world, &mut rng, who, &line);
                assert_eq!(reply == "ok\n", had, "{step}: {line}: {reply}");
            }
            8 => {
                let id = ["", "z", "al", "al.z"][rng.below(4) as usize];
                assert_eq!(
                    ask(&mut world, &mut rng, who, &format!("id \"{id}\"")),
                    "ok\n"
                );
                model.ids.remove(&actor);
                if !id.is_empty() {
                    model.ids.insert(actor, id.into());
                }
            }
            9 => {
                let on = model.quiet.remove(&actor);
                if !on {
                    model.quiet.insert(actor);
                }
                let line = format!("loop-back {}", if on { "on" } else { "off" });
                assert_eq!(ask(&mut world, &mut rng, who, &line), "ok\n");
            }
            10 => {
                let members = [1, 2, 3].map(|host| world.member(host));
                component = [0, 0, rng.below(2) as usize];
                let part = |number| {
                    let of = (0..3).filter(|index| component[*index] == number);
                    of.map(|index| members[index]).collect::<Vec<_>>()
                };
                let parts = [part(0), part(1)]
                    .into_iter()
                    .filter(|part| !part.is_empty());
                world.divide(&parts.collect::<Vec<_>>(), &mut rng);
                world.run(&mut rng);
            }
            11..=13 => {
                let (tag, domain) = (pick(&mut rng, &TAGS), pick(&mut rng, &DOMAINS));
                let tag = if rng.below(4) == 0 { "*".into() } else { tag };
                let reply = ask(&mut world, &mut rng, who, &format!("ping {tag} {domain}"));
                let of = (0..8).filter(|other| component[other % 3] == component[actor % 3]);
                let mut named: Vec<_> = of
                    .filter(|other| model.accepts(*other, &tag, &domain))
                    .map(|other| (private(&clients, other), model.ids.get(&other).cloned()))
                    .collect();
                named.sort();
                let named: Vec<_> = named
                    .into_iter()
                    .map(|(name, id)| id.unwrap_or(name))
                    .collect();
                let expected = [vec!["ok".to_owned()], named].concat().join(" ");
                assert_eq!(
                    reply,
                    format!("{expected}\n"),
                    "{step}: ping {tag} {domain}"
                );
            }
            _ => {
                let tag = pick(&mut rng, &TAGS);
                let count = 1 + rng.below(3) as usize;
                let domains: Vec<_> = (0..count).map(|_| pick(&mut rng, &DOMAINS)).collect();
                let line = format!("msg {tag} {} m{step}", domains.join(","));
                let reply = ask(&mut world, &mut rng, who, &line);
                let text = format!("m{step}");
                let delivery = format!(
                    "msg {tag} {} raw {}\n{text}\n",
                    domains.join(","),
                    text.len()
                );
                for other in 0..8 {
                    let heard = match other == actor {
                        true => reply.clone(),
                        false => world.heard(clients[other].0, clients[other].1),
                    };
                    let reached = component[other % 3] == component[actor % 3];
                    let wanted = domains
                        .iter()
                        .any(|domain| model.accepts(other, &tag, domain));
                    let silent = other == actor && model.quiet.contains(&actor);
                    let mut expected = String::new();
                    if reached && wanted && !silent {
                        expected.push_str(&delivery);
                    }
                    if other == actor {
                        expected.push_str("ok\n");
                    }
                    assert_eq!(heard, expected, "{step}: {line} of {actor} at {other}");
                }
            }
        }
    }
}

/// The private name of a client: the first at each daemon is `c1`.
fn private(clients: &[Who], index: usize) -> String {
    format!("c{}@h{}", clients[index].1.0, index % 3 + 1)
}

/// Clients that send without waiting, at daemons that part and meet meanwhile: what two of them
/// both get, they get in one order, and nothing twice.
#[test]
fn what_two_get_both_they_get_in_one_order() {
    let (mut world, mut rng, clients) = world(6);
    for who in &clients {
        ask(&mut world, &mut rng, *who, "accept * *.z");
    }
    let members: Vec<_> = (1..=3).map(|host| world.member(host)).collect();
    for step in 0..400 {
        let (member, id) = clients[rng.below(6) as usize];
        world.say(member, id, &format!("msg t x.z,y.z m{step}\n"));
        for _ in 0..rng.below(6) {
            let member = members[rng.below(3) as usize];
            if rng.below(2) == 0 {
                world.order(member, &mut rng);
            } else {
                world.deliver(member);
            }
        }
        if rng.below(40) == 0 {
            let (one, other): (Vec<_>, Vec<_>) = members.iter().partition(|_| rng.below(2) == 0);
            let parts = [one, other].into_iter().filter(|part| !part.is_empty());
            world.divide(&parts.collect::<Vec<_>>(), &mut rng);
        }
    }
    world.divide(std::slice::from_ref(&members), &mut rng);
    world.run(&mut rng);
    let heard: Vec<Vec<String>> = clients
        .iter()
        .map(|(member, id)| {
            let text = world.heard(*member, *id);
            let lines = text
                .lines()
                .filter(|line| line.starts_with('m') && !line.starts_with("msg"));
            lines.map(str::to_owned).collect()
        })
        .collect();
    for one in &heard {
        assert_eq!(
            one.iter().collect::<BTreeSet<_>>().len(),
            one.len(),
            "nothing twice"
        );
        assert!(one.len() > 50);
        for other in &heard {
            let common = |from: &[String], of: &[String]| {
                let of: BTreeSet<_> = of.iter().cloned().collect();
                from.iter()
                    .filter(|it| of.contains(*it))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(common(one, other), common(other, one));
        }
    }
}
