//! What a connection's trace holds, what ends it, and what is no trace.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::bus::tests::{Solo, error};
use crate::frame::Syntax;

/// Traces in memory, one after the other, all of the same time.
#[derive(Clone, Default, Debug)]
struct Memory(Rc<RefCell<Inner>>);

#[derive(Default, Debug)]
struct Inner {
    text: Vec<u8>,
    begun: Vec<String>,
    /// After this many bytes there is no room.
    room: Option<usize>,
    refusal: Option<TraceRefusal>,
}

impl Tracer for Memory {
    fn begin(&mut self, name: &str, client: &str) -> Result<Box<dyn Trace>, TraceRefusal> {
        let mut inner = self.0.borrow_mut();
        if let Some(refusal) = inner.refusal.clone() {
            return Err(refusal);
        }
        inner.begun.push(format!("{name} {client}"));
        let head = Head {
            name: name.to_owned(),
            client: client.to_owned(),
            part: 1,
            start: Duration::from_micros(1_700_000_000_000_001),
        };
        inner.text.clear();
        head.write(&mut inner.text);
        Ok(Box::new(self.clone()))
    }
}

impl Trace for Memory {
    fn take(&mut self, item: Item<'_>) {
        if self.failure().is_none() {
            let at = Duration::from_micros(1_000_007);
            item.write(&mut self.0.borrow_mut().text, at).unwrap();
        }
    }

    fn failure(&self) -> Option<String> {
        let inner = self.0.borrow();
        let full = inner.room.is_some_and(|room| inner.text.len() > room);
        full.then(|| "no space left".to_owned())
    }
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow().text).into_owned()
    }
}

fn solo() -> (Solo, Memory) {
    let (mut solo, memory) = (Solo::new(), Memory::default());
    solo.bus.tracer = Some(Box::new(memory.clone()));
    (solo, memory)
}

const HEAD: &str = "trace 1 t c1@h1 1 1700000000.000001\n";

#[test]
fn a_trace_is_as_the_document_has_it() {
    let (mut solo, memory) = solo();
    solo.say("accept * d\nviews on\n");
    let heard = solo.say(
        "tracefile t\nping x d\nmsg a d 3\r\nx\ny\r\nnonsense\naccept b v\ntracefile off\ninfo\n",
    );
    let expected = "ok\nok c1@h1\nmsg a d raw 3\nx\ny\nview v regular join c1@h1 c1@h1\nok\nerror ";
    assert!(heard.starts_with(expected), "{heard}");
    let refusal = heard
        .lines()
        .find(|line| line.starts_with("error "))
        .unwrap();
    let whole = format!(
        "{HEAD}1.000007 < 1 c1@h1 3\nok\n\n\
         1.000007 > 2 c1@h1 9\nping x d\n\n\
         1.000007 > 3 c1@h1 16\nmsg a d 3\r\nx\ny\r\n\n\
         1.000007 > 4 c1@h1 9\nnonsense\n\n\
         1.000007 > 5 c1@h1 11\naccept b v\n\n\
         1.000007 > 6 c1@h1 14\ntracefile off\n\n\
         1.000007 < 2 c1@h1 9\nok c1@h1\n\n\
         1.000007 < 0 c1@h1 18\nmsg a d raw 3\nx\ny\n\n\
         1.000007 < 0 c1@h1 32\nview v regular join c1@h1 c1@h1\n\n\
         1.000007 < 3 c1@h1 3\nok\n\n\
         1.000007 < 4 c1@h1 {}\n{refusal}\n\n\
         1.000007 < 5 c1@h1 3\nok\n\n\
         1.000007 < 6 c1@h1 3\nok\n\n",
        refusal.len() + 1,
    );
    // Where the commands stand among the replies depends on how fast the engine is.
    let sorted = |text: &str, side: &str| {
        let records = text.split("\n1.000007 ").filter(|it| it.starts_with(side));
        records.map(str::to_owned).collect::<Vec<_>>()
    };
    let text = memory.text();
    assert!(text.starts_with(HEAD));
    for side in [">", "<"] {
        assert_eq!(sorted(&text, side), sorted(&whole, side));
    }
}

#[test]
fn what_is_written_is_read_again() {
    let (mut solo, memory) = solo();
    let long = "x".repeat(KEPT_MAX);
    solo.say("tracefile t\naccept * d\n");
    solo.say(format!("msg \"a b\" d,\"e,f\" {}\n{long}\n", long.len()));
    solo.say("msg s d (a\n b)\nmsg q d \"two\\nlines\"\nmsg r d rest of it\n");
    let text = memory.text();
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    assert_eq!(
        (&*reader.head().name, &*reader.head().client),
        ("t", "c1@h1")
    );
    assert_eq!(
        reader.head().start,
        Duration::from_micros(1_700_000_000_000_001)
    );
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    assert_eq!(reader.left(), 0);
    let sent: Vec<_> = records.iter().filter(|it| it.side == Side::Sent).collect();
    let abouts: Vec<_> = sent.iter().map(|it| About::of(it.bytes)).collect();
    assert_eq!(
        (&*abouts[0].word, abouts[0].tag.as_deref()),
        ("accept", Some("*"))
    );
    assert_eq!(sent[1].bytes.len(), KEPT_MAX, "its first bytes");
    assert!(sent[1].whole > KEPT_MAX + 20);
    assert_eq!(abouts[1].tag.as_deref(), Some("a b"));
    assert_eq!(abouts[1].domains, ["d", "e,f"]);
    assert!(abouts[1].message.as_ref().unwrap().len() < KEPT_MAX);
    let messages: Vec<_> = abouts[2..]
        .iter()
        .map(|it| it.message.as_deref().unwrap())
        .collect();
    assert_eq!(messages, [&b"(a\n b)"[..], b"two\nlines", b"rest of it"]);
    let got = records
        .iter()
        .filter(|it| it.side == Side::Got && it.number == 0);
    let delivered: Vec<_> = got.map(|it| About::of(it.bytes)).collect();
    assert_eq!(delivered[1].syntax, None, "a list in its own syntax");
    assert_eq!(delivered[2].syntax, Some(Syntax::Raw));
    assert_eq!(delivered[2].message.as_deref(), Some(&b"two\nlines"[..]));
    let replies = records
        .iter()
        .filter(|it| it.side == Side::Got && it.number > 0);
    assert_eq!(
        replies.map(|it| it.number).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
}

#[test]
fn a_client_chooses_a_name_and_never_a_path() {
    let (mut solo, memory) = solo();
    let long = "x".repeat(65);
    for name in [
        "../x", "/etc/x", ".", "..", "a/b", "a.b", "\"\"", "a\\x00", "\"a b\"", "é", &long,
    ] {
        let heard = solo.say(format!("tracefile {name}\n"));
        assert_eq!(error(&heard), ("name".into(), 11), "{name}: {heard}");
    }
    assert_eq!(error(&solo.say("tracefile\n")), ("usage".into(), 10));
    assert_eq!(error(&solo.say("tracefile a b\n")), ("usage".into(), 13));
    assert!(memory.0.borrow().begun.is_empty());
    assert_eq!(solo.say("tracefile off\n"), "ok\n", "there is none to end");
    assert_eq!(solo.say("tracefile A-b_9\n"), "ok\n");
    assert_eq!(memory.0.borrow().begun, ["A-b_9 c1@h1"]);
}

#[test]
fn what_refuses_a_trace_is_told_and_leaves_the_one_that_there_is() {
    let mut plain = Solo::new();
    let heard = plain.say("tracefile t\n");
    assert_eq!(error(&heard), ("unsupported".into(), 0));
    assert!(heard.contains("bus_trace"), "{heard}");

    let (mut solo, memory) = solo();
    assert_eq!(solo.say("tracefile t\n"), "ok\n");
    for (refusal, code) in [
        (TraceRefusal::InUse, ("name".into(), 11)),
        (TraceRefusal::TooMany(3), ("too-many".into(), 11)),
        (TraceRefusal::System("no".into()), ("other".into(), 0)),
    ] {
        memory.0.borrow_mut().refusal = Some(refusal);
        assert_eq!(error(&solo.say("tracefile u\n")), code);
    }
    assert!(memory.text().contains("\ntracefile u\n"), "it goes on");
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    let (mut solo, memory) = solo();
    solo.say("accept * d\ntracefile t\n");
    memory.0.borrow_mut().room = Some(memory.text().len() + 10);
    let heard = solo.say("msg t d x\n");
    assert_eq!(heard, "trace-ended t no space left\nmsg t d raw 1\nx\nok\n");
    assert_eq!(solo.say("msg t d y\n"), "msg t d raw 1\ny\nok\n");

    // The disk can be found full while the connection says nothing.
    memory.0.borrow_mut().room = None;
    assert_eq!(solo.say("tracefile t\n"), "ok\n");
    assert!(!solo.bus.tend_trace());
    memory.0.borrow_mut().room = Some(0);
    assert!(solo.bus.tend_trace());
    assert_eq!(solo.say(""), "trace-ended t no space left\n");
}

#[test]
fn what_is_no_trace_is_refused_and_a_torn_end_is_left() {
    for text in [
        "",
        "trace 2 t c 1 1.000000\n",
        "trace 1 t c 1 1.0\n",
        "ok\n",
        "trace 1 t",
    ] {
        assert!(Reader::new(text.as_bytes()).is_err(), "{text:?}");
    }
    let read = |rest: &str| {
        let text = format!("{HEAD}{rest}");
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        let record = reader.next_record();
        record.map(|it| it.map(|it| it.bytes.to_vec()))
    };
    assert_eq!(read("0.000001 < 0 \"\" 2\nok\n"), Ok(Some(b"ok".to_vec())));
    for torn in [
        "",
        "0.0",
        "0.000001 < 0 a 2",
        "0.000001 < 0 a 2\n",
        "0.000001 < 0 a 2\nok",
    ] {
        assert_eq!(read(torn), Ok(None), "{torn:?}");
    }
    for wrong in [
        "x\n",
        "0.000001 = 0 a 2\nok\n",
        "0.000001 < 0 a -2\nok\n",
        "0.000001 < 0 a 99999999\nok\n",
        "0.000001 < 0 a 2/1\nok\n",
        "0.000001 < 0 a 2 2\nok\n",
        "0.000001 < 0 a 1\nok\n",
        "0.1 < 0 a 2\nok\n",
    ] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
    assert!(read(&"x".repeat(9_000)).is_err());
}

#[test]
fn a_domain_stands_for_itself_or_for_all_below() {
    let about = About::of(b"view page1.cb.uiuc regular join a@h a@h\n");
    assert!(about.names("page1.cb.uiuc") && about.names("*.uiuc") && about.names("*.cb.uiuc"));
    assert!(!about.names("cb.uiuc") && !about.names("*.page1.cb.uiuc"));
    assert_eq!(About::of(b"\xff\n"), About::default());
}

/// A block of text has hundreds of them, and each opens files.
#[test]
fn one_trace_is_begun_at_a_time_and_the_commands_behind_it_wait() {
    let (mut solo, memory) = solo();
    let begun = || memory.0.borrow().begun.clone();
    solo.bus.take_text(
        b"tracefile a\ntracefile off\ntracefile b\n"
            .repeat(100)
            .as_slice(),
    );
    assert_eq!(begun(), ["a c1@h1"]);
    for expected in 2..=200 {
        assert!(solo.bus.is_paused() && !solo.bus.wants_text());
        assert_eq!(solo.bus.take_begins(), 1);
        solo.bus.text_taken(solo.bus.text().len());
        assert_eq!(
            begun().len(),
            expected - 1,
            "other work carries nothing out"
        );
        solo.bus.resume();
        assert_eq!(begun().len(), expected);
    }
}

#[test]
fn the_name_that_a_trace_has_already_is_no_new_one() {
    let (mut solo, memory) = solo();
    assert_eq!(
        solo.say("tracefile t\ninfo\ntracefile t\n").lines().last(),
        Some("ok")
    );
    assert_eq!(memory.0.borrow().begun, ["t c1@h1"]);
    let text = memory.text();
    assert!(text.contains("> 3 c1@h1 12\ntracefile t\n"), "{text}");
    assert!(text.ends_with("< 3 c1@h1 3\nok\n\n"), "{text}");
}
