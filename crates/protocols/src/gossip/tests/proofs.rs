//! What is not delivered twice although nothing is known of its sender any more: datagrams that
//! were late for minutes, or recorded, and come for the first time.

use bytes::Bytes;

use super::super::GossipConfig;
use super::super::wire::{Carries, DataHeader, Heartbeat, Message, NO_TREE, SelfDescription};
use super::script::{Script, message};

fn small_tables() -> GossipConfig {
    GossipConfig {
        senders_max: 2,
        stable_threshold: 1,
        announce_every: None,
        ..GossipConfig::lan()
    }
}

fn data(sender: char, number: u64) -> Message {
    Message::Data {
        header: DataHeader {
            carries: Carries::Data,
            tree: NO_TREE,
            id: message(sender, number),
        },
        payload: Bytes::from_static(b"text"),
    }
}

fn describes(sent: u64) -> Message {
    Message::Join {
        about: SelfDescription {
            heartbeat: Heartbeat(1),
            zone: 0,
            link: false,
            sent,
        },
        answer: false,
    }
}

/// A follows one more sender than it has bookmarks, each for a moment: of the one that it followed
/// before, it knows nothing any more, and whoever is new has to prove that it lives.
fn forget_all(script: &mut Script) {
    (0..4).for_each(|_| script.round('A'));
    for sender in '\u{100}'..'\u{140}' {
        script.forge(sender, 'A', &data(sender, 1));
        (0..4).for_each(|_| script.round('A'));
    }
    script.told('A');
    script.said();
}

fn asked(script: &mut Script, who: char) -> usize {
    let question = alloc::format!("A -> {who}: prove");
    script
        .said()
        .iter()
        .filter(|line| **line == question)
        .count()
}

/// Seed 61,888 of the swarm: a datagram of a life that had ended 200 s before.
#[test]
fn what_is_late_of_a_sender_that_was_forgotten_is_not_delivered_again() {
    let mut script = Script::new("A", |_| small_tables());
    (1..=3).for_each(|number| script.forge('C', 'A', &data('C', number)));
    assert_eq!(script.told('A'), ["C1", "C2", "C3"]);
    forget_all(&mut script);
    script.forge('C', 'A', &data('C', 2));
    assert_eq!(script.told('A'), [""; 0]);
    assert_eq!(asked(&mut script, 'C'), 1);
    // Nor do its own old words say where it begins.
    for sent in [1, 2, 3] {
        script.forge('C', 'A', &describes(sent));
        script.forge('C', 'A', &data('C', sent));
        (0..4).for_each(|_| script.round('A'));
    }
    assert_eq!(script.told('A'), [""; 0]);
    // An answer that was not asked for like this is none.
    let Message::Join { about, .. } = describes(1) else {
        unreachable!()
    };
    script.forge('C', 'A', &Message::Proof { nonce: 1, about });
    script.forge('C', 'A', &data('C', 2));
    assert_eq!(script.told('A'), [""; 0]);
}

#[test]
fn a_sender_that_was_forgotten_and_lives_is_followed_again_once_it_has_proved_it() {
    let mut script = Script::new("AC", |_| small_tables());
    for text in ["1", "2", "3"] {
        script.submit('C', text);
    }
    assert_eq!(script.told('A'), ["C1", "C2", "C3"]);
    script.forge('C', 'A', &Message::Leave);
    forget_all(&mut script);
    script.submit('C', "A must ask");
    assert_eq!(script.told('A'), [""; 0]);
    assert_eq!(asked(&mut script, 'C'), 1);
    script.submit('C', "again");
    script.forge('C', 'A', &data('C', 2));
    script.submit('C', "and again");
    assert_eq!(script.told('A'), ["C5", "C6"]);
    assert_eq!(asked(&mut script, 'C'), 0);
}

/// A word of a sender that came while a bookmark said more.
#[test]
fn an_old_word_does_not_outlive_the_bookmark_that_knew_better() {
    let mut script = Script::new("A", |_| small_tables());
    (1..=3).for_each(|number| script.forge('C', 'A', &data('C', number)));
    script.forge('C', 'A', &Message::Leave);
    (0..4).for_each(|_| script.round('A'));
    script.forge('D', 'A', &data('D', 1));
    script.forge('C', 'A', &describes(1));
    forget_all(&mut script);
    script.told('A');
    script.forge('C', 'A', &data('C', 2));
    assert_eq!(script.told('A'), [""; 0]);
}

#[test]
fn questions_and_answers_are_bounded_in_a_round() {
    let mut script = Script::new("AC", |_| GossipConfig {
        limit_requests: 5,
        ..small_tables()
    });
    forget_all(&mut script);
    for sender in '\u{200}'..'\u{300}' {
        script.forge(sender, 'A', &data(sender, 1));
    }
    let said = script.said();
    let questions = said.iter().filter(|line| line.ends_with("prove")).count();
    assert_eq!(questions, 5);
    for nonce in 0..100 {
        script.forge('C', 'A', &Message::Prove { nonce });
    }
    let said = script.said();
    let answers = said.iter().filter(|line| line.ends_with("proof")).count();
    assert_eq!(answers, 5);
}
