//! Whatever a program can say wrong: it is told what and where, and goes on; or, where it is
//! unknown what its next words mean, its last line says why.

use super::*;

#[test]
fn what_is_wrong_in_a_line_is_named_with_its_column() {
    let mut solo = Solo::new();
    let long = "x".repeat(256);
    for (line, code, column) in [
        ("acept * d".to_owned(), "unknown-command", 1),
        ("help acept".into(), "unknown-command", 6),
        ("accept *".into(), "usage", 9),
        ("accept * d e".into(), "usage", 12),
        ("accept * d ring".into(), "unsupported", 10),
        ("accept * d rings".into(), "usage", 12),
        ("loop-back maybe".into(), "usage", 11),
        ("service best".into(), "usage", 9),
        ("syntax xml".into(), "usage", 8),
        ("msg t d".into(), "usage", 8),
        ("msg t".into(), "usage", 6),
        ("accept * a..b".into(), "domain", 10),
        ("accept * .a".into(), "domain", 10),
        ("accept * a.".into(), "domain", 10),
        ("accept * *".into(), "domain", 10),
        ("accept * a.*.b".into(), "domain", 10),
        ("accept * a,b".into(), "domain", 10),
        ("accept * \"\"".into(), "domain", 10),
        (format!("accept * {long}"), "domain", 10),
        ("accept * a@b".into(), "domain", 10),
        ("msg t *.a x".into(), "domain", 7),
        ("msg t a,,b x".into(), "domain", 9),
        ("msg t a@b@c x".into(), "domain", 7),
        (format!("msg {long} d x"), "tag", 5),
        ("accept \"a\\x00\" d".into(), "tag", 8),
        ("accept \"a\\n\" d".into(), "tag", 8),
        ("ping \"\u{200b}\" d".into(), "tag", 6),
        ("msg \"\\x00\" d x".into(), "tag", 5),
        ("accept ( d".into(), "pattern", 8),
        ("accept \\w{1000} d".into(), "pattern", 8),
        ("reject x d".into(), "not-accepted", 8),
        ("id a..b".into(), "name", 4),
        ("id a@b".into(), "name", 4),
        ("ping t *.d".into(), "domain", 8),
        ("msg t d -5".into(), "length", 9),
        ("accept \"x d".into(), "word", 8),
        ("accept x\"y d".into(), "word", 9),
        ("accept \"x\"y d".into(), "word", 11),
        ("accept \"\\q\" d".into(), "word", 9),
        ("accept a\u{1}b d".into(), "word", 9),
        ("accept a\u{200b} d".into(), "word", 9),
        ("accept a\0 d".into(), "word", 9),
        ("msg t d (a))".into(), "list", 12),
        ("msg t d (a . )".into(), "list", 14),
    ] {
        let heard = solo.say(format!("{line}\n"));
        assert_eq!(error(&heard), (code.to_owned(), column), "{line}: {heard}");
    }
    let heard = solo.say(b"accept a\xff d\n");
    assert_eq!(error(&heard), ("word".into(), 9));
    let heard = solo.say("acept * d\n");
    assert!(heard.contains("accept"), "the nearest is named: {heard}");
    let heard = solo.say("msg t d (a\n b\n  '))\n");
    assert_eq!(
        error(&heard),
        ("list".into(), 5),
        "the column in its line: {heard}"
    );
    assert_eq!(solo.say("ping t d\n"), "ok\n", "the connection goes on");
}

#[test]
fn a_thousand_domains_are_refused_and_a_hundred_are_not() {
    let mut solo = Solo::new();
    let domains = |count: usize| {
        (0..count)
            .map(|it| format!("d{it}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(solo.say(format!("msg t {} x\n", domains(100))), "ok\n");
    let heard = solo.say(format!("msg t {} x\n", domains(1_000)));
    assert_eq!(error(&heard).0, "too-many");
}

/// What belongs to a message that is refused may be somebody else's words: it is no command.
#[test]
fn what_follows_a_refused_message_is_not_carried_out() {
    let many = vec!["d"; 101].join(",");
    let long = "x".repeat(256);
    for (head, code) in [
        ("msg t a..b".to_owned(), "domain"),
        ("msg t *.d raw".into(), "domain"),
        (format!("msg t {many} from=x"), "too-many"),
        (format!("msg {long} d"), "tag"),
    ] {
        let mut solo = Solo::new();
        for message in ["9\nid evil\nx\n", "(\nid evil\n)\n"] {
            if message.starts_with('(') && (head.ends_with("raw") || head.ends_with("from=x")) {
                continue;
            }
            let heard = solo.say(format!("{head} {message}"));
            assert_eq!(error(&heard).0, code, "{head} {message}: {heard}");
            let info = solo.say("info\n");
            assert!(info.contains(" id=\"\" "), "{head} {message}: {info}");
        }
    }
    for head in [&b"msg \"t d 10\n"[..], b"msg t\xff d 10\n"] {
        let mut solo = Solo::new();
        let heard = solo.say([head, b"id evil\nab\n"].concat());
        assert!(heard.starts_with("closed length-unknown "), "{heard}");
    }
    let mut solo = Solo::new();
    let heard = solo.say("msg t a..b hello\ninfo\n");
    assert!(
        heard.starts_with("error domain") && heard.contains("\nok name="),
        "{heard}"
    );
}

#[test]
fn where_the_frame_is_lost_the_last_line_says_why() {
    for (text, code) in [
        (vec![b'a'; LINE_MAX + 1], "line-too-long"),
        (b"msg t d 67108865\n".to_vec(), "length-too-long"),
        (
            b"msg t d 99999999999999999999999\n".to_vec(),
            "length-too-long",
        ),
        (b"msg t d 3\nabcd\n".to_vec(), "no-line-end"),
        (
            [&b"msg t d (\n"[..], &b"a ".repeat(9 << 20)].concat(),
            "list-too-long",
        ),
    ] {
        let mut solo = Solo::new();
        let heard = solo.say(&text);
        assert!(heard.starts_with(&format!("closed {code} ")), "{heard}");
        assert_eq!(heard.lines().count(), 1, "{heard}");
        assert!(!solo.open && !solo.bus.wants_text());
        assert_eq!(solo.say("ping t d\n"), "");
    }
    for text in ["msg t d 5\nabc", "msg t d (a b\n", "msg t d (a\n;) x"] {
        let mut solo = Solo::new();
        solo.say("accept * d\n");
        assert_eq!(solo.say(text), "");
        let heard = solo.end();
        assert!(heard.starts_with("closed end-in-message "), "{heard}");
        assert_eq!(
            solo.ordered, 6,
            "state, two names, id, accept, leave: no message"
        );
    }
}

/// A browser sends what any web page asks it to send to this host: commands in the body of a
/// request are not those of a client.
#[test]
fn the_body_of_a_web_request_is_not_carried_out() {
    let head = "Host: 127.0.0.1:4812\r\nOrigin: http://page.example\r\nContent-Length: 32\r\n\r\n";
    for first in [
        "POST / HTTP/1.1",
        "GET /a%20b?c HTTP/1.0",
        "OPTIONS * HTTP/1.1",
        "PRI * HTTP/2.0",
    ] {
        let mut solo = Solo::new();
        let heard = solo.say(format!(
            "{first}\r\n{head}accept * d\r\nmsg t d from a page\r\n"
        ));
        assert!(heard.starts_with("closed http "), "{first}: {heard}");
        assert_eq!(heard.lines().count(), 1, "{first}: {heard}");
        assert!(!solo.open && !solo.bus.wants_text(), "{first}");
        assert_eq!(solo.ordered, 4, "{first}: state, names, leave: no message");
    }
    let mut solo = Solo::new();
    let text = "POST / HTTP/1.1";
    assert_eq!(
        solo.say(format!("accept * d\nmsg t d {text}\n")),
        format!("ok\nmsg t d raw {}\n{text}\nok\n", text.len()),
        "as a text it is one like others"
    );
}

/// What is skipped because its message is refused has the limits of what is not.
#[test]
fn what_belongs_to_a_refused_message_is_bounded_too() {
    for (text, code) in [
        (b"msg t a..b 67108865\n".to_vec(), "length-too-long"),
        (b"msg t a..b 3\nabcd\n".to_vec(), "no-line-end"),
        (
            [&b"msg t a..b (\n"[..], &b"a ".repeat(9 << 20)].concat(),
            "list-too-long",
        ),
        ([&b"# "[..], &[b'a'; LINE_MAX]].concat(), "line-too-long"),
        (vec![b' '; LINE_MAX + 1], "line-too-long"),
        (
            [&b"msg t d (a) ;"[..], &[b' '; LINE_MAX + 1]].concat(),
            "line-too-long",
        ),
    ] {
        let mut solo = Solo::new();
        let heard = solo.say(&text);
        assert!(heard.starts_with(&format!("closed {code} ")), "{heard}");
    }
    let mut solo = Solo::new();
    let line = format!("msg t d \"{}\"", "x".repeat(LINE_MAX - 10));
    assert_eq!(line.len(), LINE_MAX);
    assert_eq!(solo.say(format!("{line}\n")), "ok\n", "as long as may be");
}

#[test]
fn lists_beyond_the_limits_are_refused_in_every_form() {
    let mut solo = Solo::new();
    let deep = "(".repeat(1_000_000) + &")".repeat(1_000_000);
    let flat = format!("({})", "a ".repeat(8_000_000));
    for (list, code) in [(&deep, "depth"), (&flat, "atoms")] {
        let heard = solo.say(format!("msg t d {}\n{list}\n", list.len()));
        assert_eq!(error(&heard).0, code);
        let heard = solo.say(format!("msg t d (\n{}\n", &list[1..]));
        assert_eq!(error(&heard).0, code);
    }
    let unbalanced = ")".repeat(1_000_000);
    assert_eq!(
        solo.say(format!("msg t d {}\n{unbalanced}\n", unbalanced.len())),
        "ok\n"
    );
    let long = format!("({})", "a ".repeat(10_000_000));
    assert_eq!(
        solo.say(format!("msg t d {}\n{long}\n", long.len())),
        "ok\n",
        "raw"
    );
}

#[test]
fn many_accepts_are_refused_at_the_limit_and_cost_no_more() {
    let mut solo = Solo::with(EngineConfig {
        patterns_per_client_max: 100,
        ..EngineConfig::default()
    });
    let mut refused = 0;
    for round in 0..10_000 {
        let lines = (0..100).map(|it| format!("accept x{round}.{it} d{}\n", it % 7));
        let heard = solo.say(lines.collect::<String>());
        refused += heard
            .lines()
            .filter(|line| line.starts_with("error too-many "))
            .count();
    }
    assert_eq!(refused, 999_900, "of a million");
    assert_eq!(solo.say("ping x0.0 d0\n"), "ok c1@h1\n");
}
