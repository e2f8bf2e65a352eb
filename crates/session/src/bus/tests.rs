//! One connection of the bus at a daemon that is alone: replies and forms of a message. What a
//! program can do wrong stands in `wrong`.

use std::io::IoSlice;

use bytes::Bytes;
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, Incarnation, MemberId, MessageId,
    NodeId, OrderPlace, Time,
};

use super::*;
use crate::frame::{ClientFrame, ClientKind, FEATURES, Hello, MAGIC, VERSION};
use crate::groups::{Carrier, ClientId, Engine, EngineConfig, Transport};

/// A daemon without others, and a client of its bus.
pub(super) struct Solo {
    engine: Engine,
    id: ClientId,
    pub(super) bus: Bus,
    ordered: u64,
    open: bool,
}

impl Solo {
    pub(super) fn new() -> Self {
        Self::with(EngineConfig::default())
    }

    fn with(config: EngineConfig) -> Self {
        let local = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let mut engine = Engine::new(config, local, "h1").unwrap();
        let configuration = Configuration {
            kind: ConfigurationKind::Regular,
            id: ConfigId {
                counter: 1,
                representative: local,
            },
            members: vec![local],
            left: Vec::new(),
        };
        let event = Event::Configuration(configuration);
        engine.handle_event(Time::ZERO, Carrier::Order, event);
        let id = engine.connected(Time::ZERO, Transport::Unix).unwrap();
        let mut solo = Self {
            engine,
            id,
            bus: Bus::new(None),
            ordered: 0,
            open: true,
        };
        assert_eq!(solo.settle(), "bus 1 c1@h1\n");
        solo
    }

    /// The client writes `text`; what it hears.
    pub(super) fn say(&mut self, text: impl AsRef<[u8]>) -> String {
        self.bus.take_text(text.as_ref());
        self.settle()
    }

    fn end(&mut self) -> String {
        self.bus.end_text();
        self.settle()
    }

    fn settle(&mut self) -> String {
        let mut heard = Vec::new();
        let mut busy = true;
        while busy {
            busy = self.feed_engine() | self.order() | self.feed_client();
            heard.extend_from_slice(self.bus.text());
            let len = self.bus.text().len();
            self.bus.text_taken(len);
            if self.bus.is_paused() {
                self.bus.resume();
                busy = true;
            }
        }
        while self.engine.poll_close().is_some() {
            self.open = false;
        }
        String::from_utf8_lossy(&heard).into_owned()
    }

    fn feed_engine(&mut self) -> bool {
        let mut busy = false;
        while self.bus.has_frames()
            && let Some(space) = self.engine.space(self.id)
        {
            let frames = self.bus.frames();
            let len = frames.len().min(space.len());
            space[..len].copy_from_slice(&frames[..len]);
            self.bus.frames_taken(len);
            self.engine.received_all(Time::ZERO, self.id, len);
            busy = true;
        }
        busy
    }

    fn order(&mut self) -> bool {
        let (mut ordered, sender) = (Vec::new(), self.engine.status().daemons);
        let sender = sender.first().map_or(
            MemberId {
                node: NodeId(1),
                incarnation: Incarnation(1),
            },
            |(member, _)| *member,
        );
        let number = &mut self.ordered;
        self.engine.pump(Time::ZERO, |_, service, payload| {
            *number += 1;
            let id = MessageId {
                sender,
                number: *number,
            };
            ordered.push(Delivery {
                id,
                service,
                place: Some(OrderPlace {
                    config: ConfigId {
                        counter: 1,
                        representative: sender,
                    },
                    seq: *number << 16,
                }),
                payload,
            });
            Ok(id)
        });
        let busy = !ordered.is_empty();
        for delivery in ordered {
            let event = Event::Deliver(delivery);
            self.engine.handle_event(Time::ZERO, Carrier::Order, event);
        }
        // Like a daemon: after what a ring of one has ordered.
        while let Some((id, question)) = self.engine.poll_question() {
            self.engine.answer(Time::ZERO, id, question, Bytes::new());
        }
        busy
    }

    fn feed_client(&mut self) -> bool {
        let mut busy = false;
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = self.engine.slices(self.id, &mut slices);
            let bytes: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
            if bytes.is_empty() {
                return busy;
            }
            self.engine.consumed(Time::ZERO, self.id, bytes.len());
            self.bus.take_frames(&bytes).unwrap();
            busy = true;
        }
    }
}

/// The code and the column of the only line.
pub(super) fn error(line: &str) -> (String, usize) {
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], "error", "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    (words[1].to_owned(), words[2].parse().unwrap())
}

#[test]
fn each_form_of_a_message_is_told_from_the_others() {
    let mut solo = Solo::new();
    assert_eq!(solo.say("accept * d\n"), "ok\n");
    for (message, delivered) in [
        ("5\nhello", "raw 5\nhello"),
        ("0\n", "raw 0\n"),
        ("5 apples", "raw 8\n5 apples"),
        ("  spaced  out ", "raw 12\nspaced  out "),
        ("\"5\"", "raw 1\n5"),
        (r#""a\"b\\\x41\n""#, "raw 6\na\"b\\A\n"),
        (r#""a" b"#, "raw 5\n\"a\" b"),
        ("(a\n  (b))", "9\n(a\n  (b))"),
        ("(a) ; comment", "3\n(a)"),
        ("raw 3\n(a)", "raw 3\n(a)"),
        ("from=x.y sexp 3\n(a)", "3\n(a)"),
        ("from=\"o d\" 3\n(a)", "3\n(a)"),
        ("from=x hello", "raw 12\nfrom=x hello"),
        ("raw 3 times", "raw 11\nraw 3 times"),
        ("3\n(a(", "raw 3\n(a("),
        ("8\ncs[y1:a]", "3\n(a)"),
    ] {
        let heard = solo.say(format!("msg t d {message}\n"));
        assert_eq!(heard, format!("msg t d {delivered}\nok\n"), "{message}");
        // What the bus prints it also reads.
        let again = heard.strip_suffix("ok\n").unwrap();
        assert_eq!(solo.say(again), heard, "{message}");
        // With the other line ends, too.
        if !message.contains('\n') {
            assert_eq!(solo.say(format!("msg t d {message}\r\n")), heard);
        }
    }
    assert_eq!(
        solo.say("msg t d 3\r\n\r\n.\r\n"),
        "msg t d raw 3\n\r\n.\nok\n"
    );
}

#[test]
fn commands_are_answered_in_order_however_they_come() {
    let script = "accept * d\nping t d\nnonsense\nmsg t d one\nloop-back off\nmsg t d two\n\
                  loop-back on\n# a comment\n\nreject * d\nreject * d\nviews on\naccept * v.w\nquit\n";
    let mut solo = Solo::new();
    let heard = solo.say(script);
    let mut lines: Vec<&str> = heard.lines().collect();
    for line in lines.iter_mut().filter(|line| line.starts_with("error ")) {
        *line = line.split(' ').nth(1).unwrap();
    }
    let expected = [
        "ok",
        "ok c1@h1",
        "unknown-command",
        "msg t d raw 3",
        "one",
        "ok",
        "ok",
        "ok",
        "ok",
        "ok",
        "not-accepted",
        "ok",
        "view v.w regular join c1@h1 c1@h1",
        "ok",
        "ok",
        "closed bye good-bye",
    ];
    assert_eq!(lines, expected);
    assert!(!solo.open);
    let mut pieces = Solo::new();
    let slowly: String = script.bytes().map(|byte| pieces.say([byte])).collect();
    assert_eq!(slowly, heard);
}

#[test]
fn the_list_of_clients_shows_what_the_client_that_asks_did_before() {
    let script = "accept * room\nclients\nreject * room\nclients\nquit\n";
    let expected = "ok\nok 1\n c1@h1 \"\" room\nok\nok 1\n c1@h1 \"\"\nok\n";
    assert_eq!(
        Solo::new().say(script),
        format!("{expected}closed bye good-bye\n")
    );
    // It is asked for while the daemon has not ordered that the client is on the bus.
    let mut early = Solo::new();
    early.id = early.engine.connected(Time::ZERO, Transport::Unix).unwrap();
    early.bus = Bus::new(None);
    let heard = early.say("clients\nquit\n");
    assert!(heard.contains("\n c2@h1 \"\"\n"), "{heard}");
}

#[test]
fn the_list_of_clients_comes_before_what_the_program_does_next() {
    let list = "ok 1\n c1@h1 \"\"\n";
    assert_eq!(
        Solo::new().say("clients\nquit\n"),
        format!("{list}ok\nclosed bye good-bye\n")
    );
    let mut ends = Solo::new();
    ends.bus.take_text(b"clients\n");
    assert_eq!(ends.end(), format!("{list}closed bye good-bye\n"));
    assert_eq!(
        Solo::new().say("accept * room\nclients\nreject * room\n"),
        "ok\nok 1\n c1@h1 \"\" room\nok\n"
    );
    assert_eq!(Solo::new().say("clients\n".repeat(20)), list.repeat(20));
}

/// Each list costs a walk over all clients.
#[test]
fn who_asks_for_all_clients_has_each_of_them_counted_as_its_work() {
    let mut solo = Solo::new();
    let mut greeting = MAGIC.to_vec();
    ClientFrame::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        features: FEATURES,
        kind: ClientKind::Application,
        delivery_window: 1 << 20,
        name: None,
        token: None,
    })
    .encode(&mut greeting);
    let join = ClientFrame::Join {
        group: "g".into(),
        discard_own: false,
        ring: false,
    };
    join.encode(&mut greeting);
    let mut asker = solo.id;
    for _ in 0..300 {
        asker = solo.engine.connected(Time::ZERO, Transport::Unix).unwrap();
        solo.engine.space(asker).unwrap()[..greeting.len()].copy_from_slice(&greeting);
        solo.engine.received_all(Time::ZERO, asker, greeting.len());
        while solo.order() {}
    }
    let mut asked = Vec::new();
    for token in 1..=3 {
        let request = BusRequest::Clients;
        ClientFrame::Bus { token, request }.encode(&mut asked);
    }
    solo.engine.space(asker).unwrap()[..asked.len()].copy_from_slice(&asked);
    for (len, more) in [(asked.len(), true), (0, true), (0, true), (0, false)] {
        let handled = solo.engine.received(Time::ZERO, asker, len);
        assert_eq!(handled.more, more);
        assert_eq!(
            (handled.frames, handled.named >= 300),
            (usize::from(more), more)
        );
    }
}

#[test]
fn what_is_chosen_is_told() {
    let mut solo = Solo::new();
    solo.say(
        "id al.uiuc\nservice k-resilient:2\nsyntax cstream\nviews on\nfrom on\nloop-back off\n",
    );
    assert_eq!(
        solo.say("info\n"),
        "ok name=c1@h1 daemon=h1 id=al.uiuc service=k-resilient:2 syntax=cstream loop-back=off \
         views=on from=on message-max=67108864\n"
    );
    let help = solo.say("help\n");
    assert!(
        help.starts_with("ok 15\n accept TAG DOMAIN [ring]: "),
        "{help}"
    );
    for name in command::NAMES {
        let about = solo.say(format!("help {name}\n"));
        assert!(about.starts_with(&format!("ok 1\n {name}")), "{about}");
    }
}

#[test]
fn views_and_senders_are_shown_on_request() {
    let mut solo = Solo::new();
    solo.say("from on\nid al\nviews on\n");
    assert_eq!(
        solo.say("accept * d\n"),
        "view d regular join c1@h1 c1@h1\nok\n"
    );
    assert_eq!(solo.say("msg t d x\n"), "msg t d from=al raw 1\nx\nok\n");
    assert_eq!(solo.say("reject * d\n"), "view d regular leave c1@h1\nok\n");
}

#[test]
fn the_end_of_the_stream_is_a_quit() {
    let mut solo = Solo::new();
    solo.say("accept * d\n");
    assert_eq!(solo.say("msg t d 3\nabc"), "");
    assert_eq!(solo.end(), "msg t d raw 3\nabc\nok\nclosed bye good-bye\n");
    assert!(!solo.open);
}

#[test]
fn a_syntax_that_was_chosen_is_held() {
    let mut solo = Solo::new();
    solo.say("accept * d\nsyntax sexp\n");
    assert_eq!(error(&solo.say("msg t d text\n")), ("list".into(), 9));
    assert_eq!(
        solo.say("msg t d raw 4\ntext\n"),
        "msg t d raw 4\ntext\nok\n"
    );
    assert_eq!(error(&solo.say("msg t d cstream 3\n(a)\n")).0, "list");
    solo.say("syntax raw\n");
    assert_eq!(solo.say("msg t d (a)\n"), "msg t d 3\n(a)\nok\n");
}

#[test]
fn nothing_more_is_taken_while_replies_or_text_wait() {
    let mut bus = Bus::new(None);
    assert!(!bus.wants_text(), "before the welcome");
    let mut solo = Solo::new();
    solo.say("accept * d\n");
    std::mem::swap(&mut bus, &mut solo.bus);
    // Nobody answers.
    bus.take_text("ping t d\n".repeat(PENDING_MAX + 50).as_bytes());
    assert!(!bus.wants_text());
    assert!(bus.frames().len() < FRAMES_MAX);
}

#[test]
fn pipelined_messages_wait_for_credit_and_all_are_accepted() {
    let mut solo = Solo::with(EngineConfig {
        publish_window: 1_000,
        ..EngineConfig::default()
    });
    solo.say("accept * d\nloop-back off\n");
    let lines: String = (0..500)
        .map(|it| format!("msg t d message number {it}\n"))
        .collect();
    assert_eq!(solo.say(lines), "ok\n".repeat(500));
}

mod wrong;
