use std::collections::VecDeque;

use groupcast_core::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;

fn name(name: &str) -> DomainName {
    name.parse().unwrap()
}

fn pool(prefix: u8) -> Pool {
    Pool::new(Ipv4Addr::new(239, 192, 80, 0), prefix, 4809).unwrap()
}

fn member(number: u64) -> MemberId {
    MemberId {
        node: NodeId(number),
        incarnation: Incarnation(number),
    }
}

fn place(counter: u64, seq: u64) -> OrderPlace {
    let config = ConfigId {
        counter,
        representative: member(1),
    };
    OrderPlace::new(config, seq, 0)
}

/// Daemons whose words come in one order, and the groups that each says it has clients in.
struct Daemons {
    all: Vec<Implicit>,
    groups: Vec<Vec<&'static str>>,
    configs: u64,
    seq: u64,
    settled: Vec<(usize, DomainName, Result<(), Refusal>)>,
}

impl Daemons {
    fn new(count: u64) -> Self {
        let all: Vec<Implicit> = (1..=count).map(|it| Implicit::new(member(it))).collect();
        let mut daemons = Self {
            groups: vec![Vec::new(); all.len()],
            all,
            configs: 0,
            seq: 0,
            settled: Vec::new(),
        };
        daemons.meet(&(0..count as usize).collect::<Vec<_>>());
        daemons
    }

    /// These go on together.
    fn meet(&mut self, some: &[usize]) {
        self.configs += 1;
        let members: Vec<MemberId> = some.iter().map(|it| self.all[*it].local).collect();
        let said: Vec<_> = some
            .iter()
            .map(|it| (self.all[*it].local, self.all[*it].said()))
            .collect();
        for index in some {
            self.all[*index].reformed(&members, &said);
        }
        self.run(some);
    }

    /// Lets all words of `some` come to all of them, until there are none.
    fn run(&mut self, some: &[usize]) {
        let mut order = VecDeque::new();
        loop {
            for index in some {
                self.tend(*index);
                while let Some(word) = self.all[*index].poll_word() {
                    order.push_back((self.all[*index].local, word));
                }
            }
            let Some((from, word)) = order.pop_front() else {
                return;
            };
            self.seq += 1;
            let at = place(self.configs, self.seq);
            for index in some {
                self.all[*index].handle_word(from, at, &word).unwrap();
            }
        }
    }

    fn tend(&mut self, index: usize) {
        while let Some(event) = self.all[index].poll_event() {
            match event {
                NameEvent::IsFree(top) => {
                    let mut groups = self.groups[index].iter();
                    let in_use = groups.find(|group| top.covers(&name(group)));
                    let in_use = in_use.map(|group| InUse {
                        group: (*group).to_owned(),
                        ring: String::new(),
                    });
                    self.all[index].answer(&top, in_use);
                }
                NameEvent::Settled(top, outcome) => self.settled.push((index, top, outcome)),
                NameEvent::Changed => {}
            }
        }
    }

    fn tops(&self, index: usize) -> Vec<String> {
        let rings = self.all[index].rings();
        rings.iter().map(|ring| ring.top.to_string()).collect()
    }
}

#[test]
fn two_that_ask_at_once_get_one_ring_at_one_place() {
    let mut daemons = Daemons::new(3);
    daemons.all[0].ask(&name("wb.cb"), pool(28));
    daemons.all[2].ask(&name("wb.cb"), pool(24));
    daemons.run(&[0, 1, 2]);
    let settled: Vec<_> = daemons.settled.iter().map(|it| (it.0, &it.2)).collect();
    assert_eq!(settled, [(0, &Ok(())), (2, &Ok(()))]);
    let first = daemons.all[0].rings();
    assert_eq!(first.len(), 1);
    assert!(daemons.all.iter().all(|it| it.rings() == first));
    let sites = [0, 1, 2].map(|it| daemons.all[it].is_site(&name("wb.cb")));
    assert_eq!(sites, [true, false, true]);

    // The last to leave gives it back.
    daemons.all[1].add_site(&name("wb.cb"));
    daemons.all[0].remove_site(&name("wb.cb"));
    daemons.run(&[0, 1, 2]);
    daemons.all[2].remove_site(&name("wb.cb"));
    daemons.run(&[0, 1, 2]);
    assert_eq!(daemons.tops(0), ["wb.cb"]);
    daemons.all[1].remove_site(&name("wb.cb"));
    daemons.run(&[0, 1, 2]);
    assert!((0..3).all(|it| daemons.tops(it).is_empty()));
}

#[test]
fn what_would_fragment_is_refused_and_the_group_is_named() {
    let mut daemons = Daemons::new(2);
    daemons.groups[1].push("page.wb.cb");
    daemons.all[0].ask(&name("cb"), pool(28));
    daemons.all[0].ask(&name("ed.cb"), pool(28));
    daemons.run(&[0, 1]);
    daemons.all[1].ask(&name("cb"), pool(28));
    daemons.groups[1].clear();
    daemons.run(&[0, 1]);
    let texts: Vec<String> = daemons
        .settled
        .iter()
        .map(|(_, top, outcome)| match outcome {
            Ok(()) => format!("{top} is made"),
            Err(refusal) => refusal.to_string(),
        })
        .collect();
    assert_eq!(
        texts,
        [
            "a ring cb would take the group page.wb.cb from the daemons' own order: use a name without groups in use at \
             or below it",
            "ed.cb is made",
            "a ring cb would be around the ring ed.cb: use a name that has no ring below it",
        ]
    );
}

#[test]
fn addresses_are_given_once_and_given_back() {
    let mut daemons = Daemons::new(2);
    for ring in ["a", "b", "c"] {
        daemons.all[0].ask(&name(ring), pool(31));
    }
    daemons.run(&[0, 1]);
    let rings = daemons.all[1].rings();
    assert_eq!(rings.len(), 2);
    assert_ne!(rings[0].multicast, rings[1].multicast);
    assert_eq!(daemons.settled[2].2, Err(Refusal::NoAddress));
    daemons.all[0].remove_site(&name("a"));
    daemons.run(&[0, 1]);
    daemons.all[1].ask(&name("c"), pool(31));
    daemons.run(&[0, 1]);
    assert_eq!(daemons.tops(0), ["b", "c"]);
    assert_eq!(daemons.all[0].rings()[1].multicast, rings[0].multicast);
}

#[test]
fn parts_that_meet_have_one_ring_of_a_name_and_none_whose_sites_are_gone() {
    let mut daemons = Daemons::new(4);
    daemons.all[0].ask(&name("cb"), pool(28));
    daemons.all[3].ask(&name("left"), pool(28));
    daemons.run(&[0, 1, 2, 3]);
    daemons.meet(&[0, 1]);
    daemons.meet(&[2]);
    assert_eq!(daemons.tops(0), ["cb"]);
    assert!(daemons.tops(2).is_empty());
    let other = Pool::new(Ipv4Addr::new(239, 192, 90, 0), 28, 4809).unwrap();
    daemons.all[2].ask(&name("cb"), other);
    daemons.run(&[2]);
    let [first, second] = [0, 2].map(|it| daemons.all[it].rings()[0].clone());
    assert_ne!(first, second);
    daemons.meet(&[0, 1, 2]);
    for index in 0..3 {
        assert_eq!(
            daemons.all[index].rings()[..],
            *std::slice::from_ref(&first)
        );
    }
    assert!(daemons.all[2].is_site(&name("cb")));
}

#[test]
fn what_had_no_outcome_is_asked_again() {
    let mut daemons = Daemons::new(2);
    daemons.all[0].ask(&name("cb"), pool(28));
    // Its word goes lost with the configuration.
    while daemons.all[0].poll_word().is_some() {}
    daemons.meet(&[0]);
    assert_eq!(daemons.tops(0), ["cb"]);
    daemons.all[0].remove_site(&name("cb"));
    while daemons.all[0].poll_word().is_some() {}
    daemons.meet(&[0, 1]);
    assert!(daemons.tops(1).is_empty());
}

/// Names, numbers and lists of who may not give them.
#[test]
fn what_a_daemon_may_not_say_is_an_error_and_changes_nothing() {
    let mut daemons = Daemons::new(2);
    daemons.all[0].ask(&name("cb"), pool(28));
    daemons.run(&[0, 1]);
    let at = place(1, 1_000);
    let say = |one: &mut Implicit, word: Word| {
        let mut bytes = Vec::new();
        word.encode(&mut Writer::new(&mut bytes));
        one.handle_word(member(2), at, &bytes)
    };
    let one = &mut daemons.all[0];
    let before = one.rings();
    let answer = Word::Answer {
        number: before[0].number,
        in_use: None,
    };
    assert!(say(one, answer).is_err(), "it is answered already");
    assert!(one.handle_word(member(2), at, &[9, 9]).is_err());
    // A site removes itself, and nobody else.
    let top = name("cb");
    assert_eq!(say(one, Word::Remove { top: top.clone() }), Ok(()));
    assert_eq!(say(one, Word::Add { top: name("none") }), Ok(()));
    assert!(one.is_site(&top));
    assert_eq!(one.rings(), before);
    let ask = |number: usize| Word::Ask {
        number: number as u64,
        pool: pool(28),
        top: name(&format!("r{number}")),
    };
    for number in 0..QUESTIONS_MAX {
        assert_eq!(say(one, ask(number)), Ok(()));
    }
    let error = say(one, ask(QUESTIONS_MAX)).unwrap_err();
    assert!(error.contains("64 questions"), "{error}");
    assert_eq!(one.questions.len(), QUESTIONS_MAX);
    assert_eq!(one.rings(), before);
}

#[test]
fn golden_bytes() {
    let bytes = |word: Word| {
        let mut bytes = Vec::new();
        word.encode(&mut Writer::new(&mut bytes));
        assert_eq!(Word::decode(&bytes), Ok(word));
        bytes
    };
    let top = name("b.a");
    let ask = Word::Ask {
        number: 7,
        pool: pool(28),
        top: top.clone(),
    };
    #[rustfmt::skip]
    let golden = [1,  0, 0, 0, 0, 0, 0, 0, 7,  239, 192, 80, 0,  28,  0x12, 0xc9,  3, b'b', b'.', b'a'];
    assert_eq!(bytes(ask), golden);
    let in_use = Some(InUse {
        group: "g".into(),
        ring: String::new(),
    });
    let answer = Word::Answer { number: 7, in_use };
    assert_eq!(bytes(answer), [2, 0, 0, 0, 0, 0, 0, 0, 7, 1, 1, b'g', 0]);
    assert_eq!(
        bytes(Word::Add { top: top.clone() }),
        [3, 3, b'b', b'.', b'a']
    );
    assert_eq!(bytes(Word::Remove { top }), [4, 3, b'b', b'.', b'a']);
}

#[test]
fn a_pool_is_a_network_of_multicast_addresses() {
    let network = |text: &str, prefix| Pool::new(text.parse().unwrap(), prefix, 4809);
    assert_eq!(network("239.192.80.0", 28).map(|it| it.len()), Some(16));
    for (text, prefix) in [
        ("239.192.80.8", 28),
        ("10.0.0.0", 24),
        ("239.0.0.0", 8),
        ("239.192.80.0", 33),
    ] {
        assert_eq!(network(text, prefix), None, "{text}/{prefix}");
    }
    let all: BTreeSet<_> = ["a", "b", "c", "d"]
        .map(|top| pool(28).address(&name(top), |_| false).unwrap())
        .into();
    assert!(all.len() > 1, "the name decides");
}

proptest! {
    #[test]
    fn no_word_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut names = Implicit::new(member(1));
        names.reformed(&[member(1)], &[(member(1), bytes.clone())]);
        let _ = names.handle_word(member(1), place(1, 1), &bytes);
    }

    #[test]
    fn daemons_together_know_the_same_rings(
        acts in prop::collection::vec((0..4usize, 0..5u8, 0..4usize), 0..40),
    ) {
        const NAMES: [&str; 4] = ["a", "b.a", "c", "d.c"];
        let mut daemons = Daemons::new(4);
        let mut parts = vec![vec![0, 1, 2, 3]];
        for (which, what, top) in acts {
            let top = name(NAMES[top]);
            match what {
                0 => daemons.all[which].ask(&top, pool(29)),
                1 => daemons.all[which].add_site(&top),
                2 => daemons.all[which].remove_site(&top),
                3 => {
                    parts = vec![(0..=which).collect(), (which + 1..4).collect()];
                    parts.retain(|part| !part.is_empty());
                }
                _ => parts = vec![vec![0, 1, 2, 3]],
            }
            for part in parts.clone() {
                if what >= 3 {
                    daemons.meet(&part);
                }
                daemons.run(&part);
                let first = daemons.all[part[0]].rings();
                prop_assert!(part.iter().all(|it| daemons.all[*it].rings() == first));
                for ring in &first {
                    let is_there = |it: &usize| daemons.all[*it].is_site(&ring.top);
                    prop_assert!(part.iter().any(is_there), "{} is left over", ring.top);
                }
            }
        }
    }
}
