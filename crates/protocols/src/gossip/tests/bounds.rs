//! What a flood of forged requests, digests and messages can make a member keep and send: no more
//! than its settings say.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use groupcast_core::{
    Event, Incarnation, Instrumented as _, MemberId, MessageId, NodeId, Protocol, Rng,
};

use super::super::round::RoundNumber;
use super::super::wire::{
    Carries, DataHeader, Gossip as Digest, Heartbeat, Holding, Message, NO_TREE, NUMBER_MAX, Run,
    SelfDescription,
};
use super::super::{Dissemination, GossipConfig, HashConfig, HashPlace, Variant};
use super::script::{Script, id, message};

fn stranger(number: u64) -> MemberId {
    MemberId {
        node: NodeId(1 << 40 | number),
        incarnation: Incarnation(number),
    }
}

fn digest(origin: MemberId, first: u64, last: u64) -> Message {
    let run = Run::of(first, last);
    Message::Gossip(Digest {
        round: RoundNumber(1),
        about: SelfDescription {
            heartbeat: Heartbeat(1),
            zone: 0,
            link: false,
            sent: 0,
        },
        alive: Vec::new(),
        digest: alloc::vec![Holding {
            origin,
            runs: alloc::vec![run.clone()],
            gaps: alloc::vec![run],
        }],
    })
}

fn data(id: MessageId, len: usize) -> Message {
    Message::Data {
        header: DataHeader {
            carries: Carries::Data,
            tree: NO_TREE,
            id,
        },
        payload: Bytes::from(alloc::vec![0; len]),
    }
}

fn repair(id: MessageId) -> Message {
    Message::Data {
        header: DataHeader {
            carries: Carries::Repair,
            tree: NO_TREE,
            id,
        },
        payload: Bytes::from_static(b"never sent"),
    }
}

fn reported(script: &mut Script, name: &str) -> u64 {
    let mut found = None;
    script.member('A').measure(&mut |what, value| {
        if what == name {
            found = Some(value);
        }
    });
    found.expect("a name of the list")
}

#[test]
fn forged_requests_are_answered_within_the_limits_of_a_round() {
    let mut script = Script::new("AB", |_| GossipConfig {
        limit_retrans: 20,
        limit_retrans_bytes: 200,
        cyclic: false,
        ..GossipConfig::lan()
    });
    for _ in 0..50 {
        script.submit('A', "0123456789abcdef0123");
    }
    script.round('A');
    for round in 0..5 {
        for number in 1..=50 {
            let id = message('A', number);
            let requestor = super::script::id('B');
            script.forge(
                'B',
                'A',
                &Message::Request {
                    round: RoundNumber(1),
                    id,
                },
            );
            script.forge('B', 'A', &Message::Special { requestor, id });
            script.forge('B', 'A', &Message::Mcast { id });
            script.forge('B', 'A', &Message::MulticastRequest { id });
        }
        let sent = script.member('A').counters();
        let repairs = sent.repairs + sent.multicast_repairs;
        // Ten messages of twenty bytes are the two hundred that a round allows.
        assert_eq!(repairs, 10 * (round + 1));
        script.round('A');
    }
}

#[test]
fn forged_digests_cost_a_bounded_number_of_requests_and_move_nothing_far() {
    let mut script = Script::new("AB", |_| GossipConfig {
        limit_requests: 20,
        window_max: 256,
        senders_max: 8,
        hash: Some(HashConfig::default()),
        ..GossipConfig::lan()
    });
    script.round('A');
    for number in 0..1000 {
        script.forge('B', 'A', &digest(stranger(number), 1, NUMBER_MAX));
        script.forge(
            'B',
            'A',
            &digest(stranger(number), NUMBER_MAX - 5, NUMBER_MAX),
        );
    }
    assert_eq!(script.member('A').counters().requests, 20);
    assert_eq!(reported(&mut script, "senders"), 8);
    for _ in 0..20 {
        script.round('A');
    }
    // Seven strangers, each believed by a window at most.
    assert!(script.member('A').counters().gaps <= 7 * (256 + 6));
}

/// Seed 1017 of the swarm, as its views and settings were then: a newcomer's first message of one
/// of eight senders, in a table of six.
#[test]
fn what_others_hold_of_a_sender_without_room_is_accounted_for() {
    let mut script = Script::new("AB", |_| GossipConfig {
        senders_max: 3,
        stable_threshold: 3,
        ..GossipConfig::lan()
    });
    script.round('A');
    for sender in ['C', 'D'] {
        script.forge(sender, 'A', &data(message(sender, 1), 10));
    }
    // The table is full, and when there is room again nobody holds the message any more.
    script.forge('B', 'A', &digest(id('E'), 5, 5));
    for _ in 0..6 {
        script.round('A');
    }
    script.forge('E', 'A', &data(message('E', 6), 10));
    for _ in 0..6 {
        script.round('A');
    }
    assert_eq!(script.told('A'), ["C1", "D1", "gap E5..5", "E6"]);
}

/// How often somebody was asked whether it is a bufferer; nobody ever is.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);

fn nobody(_: MessageId, _: MemberId) -> u32 {
    LOOKED_AT.fetch_add(1, Ordering::Relaxed);
    u32::MAX
}

#[test]
fn forged_requests_for_what_nobody_keeps_cost_a_bounded_number_of_looks_at_the_view() {
    let mut script = Script::new("ABCD", |_| GossipConfig {
        limit_requests: 20,
        hash: Some(HashConfig {
            bufferers: 1,
            place: HashPlace::Given(nobody),
            ..HashConfig::default()
        }),
        ..GossipConfig::lan()
    });
    for round in (1..=3).map(RoundNumber) {
        for number in 1..1000 {
            let id = message('C', number);
            script.forge('B', 'A', &Message::Request { round, id });
        }
        // Two others could be bufferers.
        assert_eq!(LOOKED_AT.swap(0, Ordering::Relaxed), 20 * 2);
        script.round('A');
    }
}

#[test]
fn the_buffer_is_bounded_whoever_fills_it() {
    let mut script = Script::new("AB", |_| GossipConfig {
        message_max: 1000,
        buffer_max: 20_000,
        senders_max: 64,
        ..GossipConfig::lan()
    });
    for number in 1..200 {
        script.forge('B', 'A', &data(message('B', number), 1000));
        assert!(reported(&mut script, "buffered") <= 20_000);
    }
    assert_eq!(script.told('A').len(), 199);
    // Messages that all wait for others that never come: when they fill the buffer, those are given
    // up.
    script.told('A');
    for number in 400..600 {
        script.forge('B', 'A', &data(message('B', number), 1000));
        assert!(reported(&mut script, "buffered") <= 20_000);
    }
    let told = script.told('A');
    assert_eq!((told[0].as_str(), told.len()), ("gap B200..399", 201));
    assert_eq!(script.member('A').counters().overflows, 0);
    // Own messages are delivered and spread all the same.
    script.submit('A', "one");
    script.submit('A', "two");
    assert_eq!(script.told('A'), ["A1", "A2"]);
    assert!(reported(&mut script, "buffered") <= 20_000);
    for _ in 0..30 {
        script.round('A');
    }
    assert_eq!(reported(&mut script, "buffered"), 0);
}

#[test]
fn junk_and_messages_in_this_members_own_name_are_dropped() {
    let mut script = Script::new("AB", |_| GossipConfig::lan());
    script.submit('A', "mine");
    script.forge('B', 'A', &data(message('A', 1), 4));
    script.forge('B', 'A', &data(message('A', 2), 10));
    script.forge('B', 'A', &digest(id('A'), 1, 9));
    let now = groupcast_core::Time::ZERO;
    for junk in [&[][..], &[99], &[4, 1], &[1, 0, 0]] {
        let body = Bytes::copy_from_slice(junk);
        script.member('A').handle_datagram(now, id('B'), body);
    }
    assert_eq!(script.member('A').counters().junk, 5);
    assert_eq!(script.member('A').counters().duplicates, 1);
    assert_eq!(script.member('A').counters().requests, 0);
    assert_eq!(script.told('A'), ["A1"]);
}

/// What A is told of B, which has sent a message and sends another one long after `lies` of C.
fn told_in_spite_of(lies: &[Message], hears_gossip: bool) -> Vec<String> {
    let mut script = Script::new("AB", |_| GossipConfig::lan());
    script.submit('B', "1");
    script.arrives =
        Box::new(move |from, _, what| hears_gossip || from != 'B' || !what.starts_with("gossip"));
    for lie in lies {
        script.forge('C', 'A', lie);
    }
    for _ in 0..40 {
        script.round_of_all();
    }
    script.submit('B', "2");
    script.told('A')
}

#[test]
fn who_says_that_a_sender_is_far_ahead_does_not_silence_it() {
    let of = |number| message('B', number);
    let lies = [
        repair(of(NUMBER_MAX)),
        repair(of(8_000)),
        digest(id('B'), 1, NUMBER_MAX),
        digest(id('B'), NUMBER_MAX - 5, NUMBER_MAX),
        digest(id('B'), 2, 2),
    ];
    for lie in &lies {
        let lie = core::slice::from_ref(lie);
        assert_eq!(told_in_spite_of(lie, true), ["B1", "B2"], "{lie:?}");
        // Then the sender is asked.
        assert_eq!(told_in_spite_of(lie, false), ["B1", "B2"], "{lie:?}");
    }
    assert_eq!(told_in_spite_of(&lies, true), ["B1", "B2"]);
}

#[test]
fn who_says_that_a_sender_is_far_ahead_does_not_silence_it_for_a_newcomer() {
    let lies = [
        repair(message('B', NUMBER_MAX)),
        digest(id('B'), NUMBER_MAX - 5, NUMBER_MAX),
    ];
    for lie in &lies {
        for rounds in [0, 30] {
            let mut script = Script::new("AB", |_| GossipConfig::lan());
            if matches!(lie, Message::Data { .. }) && rounds > 0 {
                // What was delivered cannot be taken back.
                continue;
            }
            script.forge('C', 'A', lie);
            for _ in 0..rounds {
                script.round('A');
            }
            script.submit('B', "1");
            script.submit('B', "2");
            assert_eq!(script.told('A'), ["B1", "B2"], "{rounds} after {lie:?}");
        }
    }
}

/// Others who have heard the same lie tell it again and again.
#[test]
fn a_forged_message_that_its_sender_denies_does_not_come_back() {
    let mut script = Script::new("AB", |_| GossipConfig::lan());
    script.submit('B', "1");
    let lies = [repair(message('B', 5)), digest(id('B'), 1, 5)];
    for round in 0..30 {
        for lie in &lies {
            script.forge('C', 'A', lie);
        }
        script.round_of_all();
        let waiting = reported(&mut script, "waiting");
        assert!(round < 5 || waiting == 0, "in round {round}");
    }
    for text in ["2", "3", "4", "5"] {
        script.submit('B', text);
    }
    let payloads: Vec<Bytes> = script.events[&'A']
        .iter()
        .filter_map(|event| match event {
            Event::Deliver(delivery) => Some(delivery.payload.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(payloads, ["1", "2", "3", "4", "5"]);
    assert_eq!(script.told('A'), ["B1", "B2", "B3", "B4", "B5"]);
}

/// What was sent right after a denial is true: the sender is asked, and says so.
#[test]
fn what_a_sender_has_denied_and_sends_later_comes_from_others_too() {
    let mut script = Script::new("ABC", |_| GossipConfig {
        stable_threshold: 40,
        ..GossipConfig::lan()
    });
    script.submit('B', "1");
    script.forge('C', 'A', &repair(message('B', 3)));
    for _ in 0..5 {
        script.round_of_all();
    }
    assert_eq!(reported(&mut script, "waiting"), 0, "it is denied");
    script.arrives = Box::new(|from, to, what| (from, to) != ('B', 'A') || what == "proof");
    script.submit('B', "2");
    script.submit('B', "3");
    for _ in 0..10 {
        script.round_of_all();
    }
    assert_eq!(script.told('A'), ["B1", "B2", "B3"]);
}

/// Else what goes along a tree would be dropped where it comes first, as long as the sender lives.
#[test]
fn others_are_believed_again_when_nobody_repeats_what_a_sender_has_denied() {
    let mut script = Script::new("AB", |_| GossipConfig::lan());
    script.submit('B', "1");
    script.forge('C', 'A', &repair(message('B', 5)));
    for _ in 0..12 {
        script.round_of_all();
    }
    assert_eq!(reported(&mut script, "waiting"), 0, "it is denied");
    script.said();
    script.forge('C', 'A', &repair(message('B', 2)));
    assert_eq!(script.said(), [""; 0], "nobody is asked");
    assert_eq!(script.told('A'), ["B1", "B2"]);
}

/// The same where one member repeats it in the time of a denial: the sender is asked, and what it
/// answers is no denial of what others say.
#[test]
fn one_false_word_in_a_while_does_not_keep_others_from_being_believed() {
    let mut script = Script::new("AB", |_| GossipConfig::lan());
    let lie = repair(message('B', 5));
    script.submit('B', "1");
    script.forge('C', 'A', &lie);
    for _ in 0..5 {
        script.round_of_all();
    }
    assert_eq!(reported(&mut script, "waiting"), 0, "it is denied");
    script.said();
    script.forge('C', 'A', &lie);
    assert_eq!(script.said(), ["A -> B: prove", "B -> A: proof"]);
    for _ in 0..4 {
        script.round_of_all();
    }
    script.said();
    script.forge('C', 'A', &repair(message('B', 2)));
    assert_eq!(script.said(), [""; 0], "nobody is asked");
    assert_eq!(script.told('A'), ["B1", "B2"]);
}

/// Members in one tree, in which each has two neighbours: what comes of C goes on to D.
fn in_a_tree(settings: GossipConfig) -> Script {
    Script::new("ABCD", |_| GossipConfig {
        dissemination: Dissemination::Trees {
            trees: 1,
            arity: 1,
            seed: 1,
        },
        ..settings.clone()
    })
}

/// Message `number` of B, as a neighbour in a tree passes it on.
fn along_a_tree(number: u64) -> Message {
    Message::Data {
        header: DataHeader {
            carries: Carries::Data,
            tree: 0,
            id: message('B', number),
        },
        payload: Bytes::from_static(b"text"),
    }
}

/// Whatever false words there are, and whenever: what comes along a tree is passed on and delivered
/// at once, although the sender has said no word of it.
#[test]
fn false_words_do_not_keep_what_comes_along_a_tree_from_being_taken_at_once() {
    let is_taken = |told: &dyn Fn(u64) -> bool, last: u64, which: &str| {
        let mut script = in_a_tree(GossipConfig::lan());
        script.submit('B', "1");
        for round in 0..=last {
            if told(round) {
                script.forge('C', 'A', &repair(message('B', 5)));
                script.forge('C', 'A', &digest(id('B'), 1, 5));
            }
            script.round_of_all();
        }
        script.said();
        for number in [3, 2] {
            script.forge('C', 'A', &along_a_tree(number));
            let passed_on = format!("A -> D: data B{number}");
            let said = script.said();
            assert!(said.contains(&passed_on), "{which}, {last}: {said:?}");
        }
        assert_eq!(script.told('A'), ["B1", "B2", "B3"], "{which}, {last}");
    };
    for last in 0..20 {
        is_taken(&|round| round == 0, last, "once");
        for every in 1..8 {
            is_taken(&|round| round % every == 0, last, "again and again");
        }
    }
    for second in 1..12 {
        for third in second..12 {
            let told = |round| [0, second, third].contains(&round);
            is_taken(&told, third, "three times");
            is_taken(&told, third + 1, "three times");
        }
    }
}

/// In which order false words name numbers.
#[derive(Clone, Copy, Debug)]
enum Lies {
    Rising,
    Falling,
    Random,
    Same,
}

impl Lies {
    const ALL: [Self; 4] = [Self::Rising, Self::Falling, Self::Random, Self::Same];
    /// False words are told this long.
    const ROUNDS: u64 = 90;

    /// The number of the word that is told as the `index`th.
    fn number(self, index: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::Rising => 1_000 + index,
            Self::Falling => 1_000 + 4 * Self::ROUNDS - index,
            Self::Random => 1_000 + rng.below(1_000),
            Self::Same => 1_000,
        }
    }
}

/// Liars name messages that B never sent, every this many rounds; B sends one of its own now and
/// then. Returns how many that are forged were held at the most.
fn held_beside(lies: Lies, liars: u64, every: u64, hears_gossip: bool, by_digest: bool) -> u64 {
    let what = format!("{lies:?} of {liars}, every {every}, {hears_gossip}, {by_digest}");
    let mut script = Script::new("AB", |_| GossipConfig::lan());
    let mut rng = Rng::new(liars + every);
    script.submit('B', "true");
    script.arrives =
        Box::new(move |from, _, what| hears_gossip || from != 'B' || !what.starts_with("gossip"));
    let (mut told, mut most, mut sent) = (0, 0, 1);
    for round in 0..Lies::ROUNDS {
        if round.is_multiple_of(every) {
            for liar in 0..liars {
                let number = lies.number(told, &mut rng);
                let from = ['C', 'D', 'E', 'F'][liar as usize];
                let lie = match by_digest {
                    true => digest(id('B'), number.saturating_sub(5), number),
                    false => repair(message('B', number)),
                };
                script.forge(from, 'A', &lie);
                told += 1;
            }
        }
        script.said();
        script.round_of_all();
        let asked = script.said();
        let asked = asked.iter().filter(|it| *it == "A -> B: prove").count();
        assert!(asked <= 1, "{what}: {asked} times in round {round}");
        most = most.max(reported(&mut script, "waiting"));
        if round % 10 == 9 {
            script.submit('B', "true");
            sent += 1;
            let expected: Vec<String> = (1..=sent).map(|number| format!("B{number}")).collect();
            let events = script.events[&'A'].iter();
            let delivered = events.filter_map(|event| match event {
                Event::Deliver(it) => Some(format!("B{}", it.id.number)),
                Event::Gap(gap) => Some(format!("gap {}..{}", gap.first, gap.last)),
                _ => None,
            });
            assert!(delivered.eq(expected), "{what}, in round {round}");
        }
    }
    let patience = u64::from(GossipConfig::lan().stable_threshold);
    for _ in 0..patience {
        script.round_of_all();
    }
    assert_eq!(reported(&mut script, "waiting"), 0, "{what}");
    assert_eq!(script.told('A').len() as u64, sent, "{what}");
    most
}

/// However many false words there are, and in whatever order: each is forgotten by itself, soon
/// after the sender's next word, and nothing of the sender is given up for it.
#[test]
fn false_words_that_go_on_neither_silence_a_sender_nor_stay() {
    let doubted = u64::from(GossipConfig::lan().stable_threshold) / 2;
    for lies in Lies::ALL {
        for (liars, every) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (4, 1), (4, 3)] {
            for by_digest in [false, true] {
                let most = held_beside(lies, liars, every, true, by_digest);
                assert!(
                    most <= 3 * liars,
                    "{lies:?} of {liars}, every {every}: {most}"
                );
                // Then the sender is asked.
                let most = held_beside(lies, liars, every, false, by_digest);
                assert!(
                    most <= (doubted + 6) * liars,
                    "{lies:?} of {liars}, every {every}: {most} of one that is asked"
                );
            }
        }
    }
}

/// The same lies of several messages, in turn: none of them is here in the end.
#[test]
fn many_forged_messages_that_their_sender_denies_do_not_come_back() {
    for every in 1..5 {
        let mut script = Script::new("AB", |_| GossipConfig::lan());
        script.submit('B', "1");
        for number in 3..=8 {
            script.forge('C', 'A', &repair(message('B', number)));
        }
        for round in 0..60 {
            if round % every == 0 {
                let number = 3 + round / every % 6;
                script.forge('C', 'A', &repair(message('B', number)));
                script.forge('C', 'A', &digest(id('B'), 1, number));
            }
            script.round_of_all();
            let waiting = reported(&mut script, "waiting");
            // Where it is told seldom the denial ends, and it is denied again.
            let most = if every == 1 && round >= 20 { 0 } else { 6 };
            assert!(waiting <= most, "{waiting} in round {round}");
        }
        for number in 3..=8 {
            script.forge('C', 'A', &repair(message('B', number)));
        }
        let mut rounds = 0..8;
        while reported(&mut script, "waiting") > 0 {
            rounds.next().expect("they are denied by then");
            script.round_of_all();
        }
        for number in 3..=8 {
            script.forge('C', 'A', &repair(message('B', number)));
            script.submit('B', "true");
        }
        script.submit('B', "true");
        let events = script.events[&'A'].iter();
        let forged = events.filter(|event| match event {
            Event::Deliver(delivery) => delivery.payload == "never sent",
            _ => false,
        });
        assert_eq!(forged.count(), 0, "every {every} rounds");
        assert_eq!(script.told('A').len(), 8);
    }
}

/// Along a tree a message comes from a neighbour, and whoever is behind it gets it from this
/// member.
#[test]
fn who_is_far_behind_asks_the_sender_at_once_and_passes_on_what_comes_next() {
    let mut script = in_a_tree(GossipConfig {
        window_max: 64,
        ..GossipConfig::lan()
    });
    script.submit('B', "1");
    script.arrives = Box::new(|_, to, _| to != 'A');
    for _ in 0..100 {
        script.submit('B', "text");
    }
    script.arrives = Box::new(|_, _, _| true);
    script.said();
    script.forge('C', 'A', &along_a_tree(101));
    assert_eq!(script.member('A').counters().overflows, 1);
    assert_eq!(script.said(), ["A -> B: prove", "B -> A: proof"]);
    script.forge('C', 'A', &along_a_tree(101));
    assert_eq!(script.said()[..1], ["A -> D: data B101"]);
    assert_eq!(script.told('A'), ["B1", "gap B2..37"]);
}

#[test]
fn who_was_away_for_longer_than_the_window_and_hears_others_only_catches_up() {
    let mut script = Script::new("ABC", |_| GossipConfig {
        window_max: 64,
        variant: Variant::Basic,
        ..GossipConfig::lan()
    });
    script.arrives = Box::new(|from, to, _| (from, to) != ('B', 'A'));
    let mut sent = 0;
    let mut send = |script: &mut Script| -> u64 {
        script.submit('B', "text");
        script.round_of_all();
        sent += 1;
        sent
    };
    for _ in 0..20 {
        send(&mut script);
    }
    script.arrives = Box::new(|_, to, _| to != 'A');
    for _ in 0..300 {
        send(&mut script);
    }
    script.arrives = Box::new(|from, to, _| (from, to) != ('B', 'A'));
    script.told('A');
    let sent = (0..150).map(|_| send(&mut script)).last().expect("some");
    let told = script.told('A');
    let last = told.last().map(|last| last[1..].parse::<u64>());
    assert!(
        matches!(last, Some(Ok(last)) if last + 5 >= sent),
        "{told:?} of {sent}"
    );
    // It gives up a window at a time, once each.
    let gaps = told.iter().filter(|it| it.starts_with("gap")).count();
    assert_eq!(gaps, 6, "{told:?}");
}
