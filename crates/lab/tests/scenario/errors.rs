//! Every kind of mistake in a scenario: the place that the error points at, and what it suggests.
//!
//! The mistake is marked in the text: `«…»` is what the error must point at, to the character.

use std::path::Path;

use groupcast_lab::scenario::{ErrorSpan, Scenario, ScenarioError};

/// A scenario that is right, with `network` as its `[network]` and `rest` after it.
fn scenario(network: &str, rest: &str) -> String {
    format!("duration = \"10 s\"\n[network]\n{network}\n{rest}")
}

const LINK: &str = "link = { bandwidth = \"1 Mb/s\", delay = \"5 ms\" }";
const FLOOD: &str = "[protocol]\nname = \"flood\"\n";
const RING: &str = "[protocol]\nname = \"ring\"\n";

fn star(rest: &str) -> String {
    scenario(&format!("kind = \"star\"\nsize = 5\n{LINK}"), rest)
}

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("s.toml"), text, &[])
}

/// The error of `marked` is at its mark, and says `message` and `help`.
#[track_caller]
fn refused(marked: &str, message: &str, help: &str) {
    let start = marked.find('«').expect("a mark");
    let end = marked.find('»').expect("the end of a mark") - '«'.len_utf8();
    let text = marked.replace(['«', '»'], "");
    let error = read(&text).expect_err(marked);
    let place = error.place().expect("a place in the file");
    assert_eq!(
        &text[place.span.clone()],
        &text[start..end],
        "{place}: {error}\n{}",
        error.help()
    );
    assert_eq!(place.span, start..end, "{place}: {error}");
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.help().contains(help), "{error}: {}", error.help());
    let line = 1 + text[..start].matches('\n').count();
    assert!(
        place.to_string().starts_with(&format!("s.toml:{line}:")),
        "{place}"
    );
}

#[test]
fn what_is_right_is_read() {
    for text in [
        star(FLOOD),
        star(RING),
        scenario(&format!("kind = \"switch\"\nhosts = 3\n{LINK}"), RING),
        scenario("kind = \"bus\"\nhosts = 3", FLOOD),
        scenario(
            "kind = \"token-ring\"\nhosts = 3\nholding = \"5 ms\"",
            FLOOD,
        ),
        scenario(
            &format!(
                "kind = \"tree\"\nbranching = 3\nsize = 1000\nmembers = 100\ninclude = [0]\nmulticast = \"core\"\n{LINK}"
            ),
            FLOOD,
        ),
    ] {
        if let Err(error) = read(&text) {
            panic!("{error}\n{text}");
        }
    }
}

#[test]
fn text_that_is_no_toml() {
    refused(
        "duration = «»\n",
        "string values must be quoted",
        "docs/scenarios.md",
    );
}

#[test]
fn keys_that_do_not_exist() {
    refused(
        &star(&format!("«pallette» = 1\n{FLOOD}")),
        "network.pallette",
        "use `",
    );
    refused(
        &format!("«durration» = \"10 s\"\n[network]\nkind = \"star\"\nsize = 5\n{LINK}\n{FLOOD}"),
        "durration: not a key of a scenario",
        "did you mean `duration`?",
    );
    refused(
        &scenario(
            &format!("kind = \"tree\"\n«banching» = 3\nsize = 9\n{LINK}"),
            FLOOD,
        ),
        "network.banching: not a key of a network of the kind `tree`",
        "did you mean `branching`?",
    );
    refused(
        &scenario(
            &format!("kind = \"star\"\nsize = 5\n«depth» = 3\n{LINK}"),
            FLOOD,
        ),
        "not a key of a network of the kind `star`",
        "`depth` goes with the kind `tree`",
    );
    refused(
        &scenario(
            "kind = \"chain\"\nsize = 5\nlink = { bandwidth = \"1 Mb/s\", delay = \"5 ms\", «los» = 0.1 }",
            FLOOD,
        ),
        "network.link.los",
        "did you mean `loss`?",
    );
    refused(
        &star("[protocol]\nname = \"ring\"\n«personal_windw» = 3\n"),
        "not a key of the protocol `ring`",
        "did you mean `personal_window`?",
    );
    refused(
        &star(&format!(
            "{FLOOD}[[source]]\nhosts = 0\narrivals = \"saturate\"\nsize = 9\n«burst» = 3\n"
        )),
        "source.0.burst: not a key of a source with the arrivals `saturate`",
        "`burst` goes with the arrivals bursts",
    );
    refused(
        &star(&format!("{FLOOD}[hosts]\n«wakeup» = \"1 us\"\n")),
        "hosts.wakeup",
        "did you mean `wake_up`?",
    );
}

#[test]
fn keys_that_are_missing() {
    refused(
        &scenario(
            "kind = \"star\"\nsize = 5\nlink = «{ bandwidth = \"1 Mb/s\" }»",
            FLOOD,
        ),
        "network.link: `delay` is missing",
        "a link needs it",
    );
    let error = read("[network]\nkind = \"star\"\n").expect_err("no duration");
    assert_eq!(error.to_string(), "`duration` is missing");
    refused(
        &star(&format!("{FLOOD}«[[source]]»\nhosts = 0\nsize = 9\n")),
        "source.0: `rate` is missing",
        "arrivals `constant`",
    );
}

#[test]
fn values_of_the_wrong_kind() {
    refused(
        &scenario(
            &format!("kind = \"star\"\nsize = «\"five\"»\n{LINK}"),
            FLOOD,
        ),
        "where a whole number belongs",
        "8",
    );
    refused(
        &scenario(&format!("kind = \"star\"\nsize = «-5»\n{LINK}"), FLOOD),
        "-5 is below 0",
        "0 or more",
    );
    refused(
        &scenario(&format!("kind = \"star\"\nsize = «0»\n{LINK}"), FLOOD),
        "0 is out of range",
        "use 1 to",
    );
    refused(
        &scenario(&format!("kind = «7»\n{LINK}"), FLOOD),
        "where a string belongs",
        "a name",
    );
    refused(
        &star(&format!("{FLOOD}[source]\nhosts = 0\n")).replace("[source]", "«[source]»"),
        "a table where a list of tables belongs",
        "[[source]]",
    );
    refused(
        &format!(
            "duration = «10»\n{}",
            &star(FLOOD)["duration = \"10 s\"\n".len()..]
        ),
        "the number 10 where a duration belongs",
        "\"10 ms\"",
    );
}

#[test]
fn units() {
    let link = |link: &str| {
        scenario(
            &format!("kind = \"chain\"\nsize = 5\nlink = {{ {link} }}"),
            FLOOD,
        )
    };
    refused(
        &link("bandwidth = «\"10 Mbps\"», delay = \"5 ms\""),
        "`Mbps` is not a unit of a bandwidth",
        "did you mean \"10 Mb/s\"?",
    );
    refused(
        &link("bandwidth = \"10 Mb/s\", delay = «\"5 msec\"»"),
        "`msec` is not a unit of a duration",
        "did you mean \"5 ms\"?",
    );
    refused(
        &link("bandwidth = \"10 Mb/s\", delay = \"5 ms\", queue = «\"64 KB\"»"),
        "`KB` is not a unit of a size",
        "did you mean \"64 kB\"?",
    );
    refused(
        &link("bandwidth = \"10 Mb/s\", delay = \"5 ms\", loss = «5»"),
        "5 is not between 0 and 1",
        "did you mean \"5 %\"?",
    );
    refused(
        &star(&format!(
            "{FLOOD}[[source]]\nhosts = 0\nsize = 9\nrate = «100»\n"
        )),
        "where a rate belongs",
        "\"100/s\"",
    );
    refused(
        &link("bandwidth = \"10 Mb/s\", delay = \"5 ms\", queue = [\"1 KiB\", «\"2 KiB\"»]"),
        "a second limit of the same kind",
        "50 packets",
    );
    refused(
        &link("bandwidth = \"10 Mb/s\", delay = \"5 ms\", loss = «{ rate = \"90 %\", burst = 2 }»"),
        "cannot come in bursts of 2 packets",
        "bursts of 9.0 or more",
    );
}

#[test]
fn impossible_networks() {
    refused(
        &scenario(&format!("kind = «\"sttar\"»\nsize = 5\n{LINK}"), FLOOD),
        "no kind of network",
        "did you mean `star`?",
    );
    refused(
        &scenario(
            &format!("kind = \"tree\"\nbranching = 3\ndepth = 2\nsize = «9»\n{LINK}"),
            FLOOD,
        ),
        "contradicts depth",
        "filled breadth first",
    );
    refused(
        &scenario(
            &format!("kind = \"random\"\nsize = 5\nedges = «3»\n{LINK}"),
            FLOOD,
        ),
        "from 4 to 10 links, not 3",
        "use 4 to 10",
    );
    refused(
        &scenario(
            &format!("kind = \"star\"\nsize = 5\nmembers = «6»\n{LINK}"),
            FLOOD,
        ),
        "there are only 5",
        "5 vertices",
    );
    refused(
        &scenario(
            &format!("kind = \"star\"\nsize = 5\nmembers = [0, «9»]\n{LINK}"),
            FLOOD,
        ),
        "there is no vertex 9",
        "0 to 4",
    );
    refused(
        &scenario(
            &format!("kind = \"star\"\nsize = 5\ncore = «0»\n{LINK}"),
            FLOOD,
        ),
        "there is no shared tree",
        "multicast = \"core\"",
    );
    refused(
        &scenario("kind = \"bus\"\nhosts = 3\npropagation = «\"1 ms\"»", FLOOD),
        "too long for this bus",
        "25 us",
    );
    refused(
        &scenario(
            &format!("kind = \"star\"\nsize = 200\n{LINK}"),
            "[protocol]\nname = «\"ring\"»\n",
        ),
        "a ring of at most 128 members cannot have 200",
        "fewer hosts",
    );
}

#[test]
fn an_edge_list_that_is_wrong_is_shown_itself() {
    let directory = std::env::temp_dir().join(format!("groupcast-edges-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let text = scenario(
        &format!("kind = \"edges\"\nfile = \"net.txt\"\n{LINK}"),
        FLOOD,
    );
    let parse = || Scenario::parse(&directory.join("s.toml"), &text, &[]);

    let error = parse().unwrap_err();
    assert!(matches!(error, ScenarioError::Unreadable { .. }), "{error}");
    assert_eq!(error.place().map(ErrorSpan::line), Some(4));

    std::fs::write(directory.join("net.txt"), "a b\nb c 10 Mbps\n").unwrap();
    let error = parse().unwrap_err();
    let place = error.place().unwrap();
    assert!(place.to_string().contains("net.txt:2:"), "{place}");

    std::fs::write(directory.join("net.txt"), "a b\nc d\n").unwrap();
    let error = parse().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("in pieces: no way leads from a to c"),
        "{error}"
    );

    std::fs::write(directory.join("net.txt"), "a b\nb c 1 Mb/s 2 ms\n").unwrap();
    assert!(parse().is_ok());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn hosts_and_links_that_are_not_there() {
    let source = |hosts: &str| {
        star(&format!(
            "{FLOOD}[[source]]\nhosts = {hosts}\nsize = 9\nrate = \"1/s\"\n"
        ))
    };
    refused(&source("«7»"), "there is no host 7", "the hosts are 0 to 4");
    refused(&source("«\"0..9\"»"), "there is no host 5", "0 to 4");
    refused(&source("«\"some\"»"), "does not name hosts", "\"all\"");
    refused(
        &source("«{ random = 9 }»"),
        "9 of 5 hosts cannot be drawn",
        "at most 5",
    );
    let change = |links: &str| {
        star(&format!(
            "{FLOOD}[[change]]\nat = \"1 s\"\ndown = {links}\n"
        ))
    };
    refused(
        &change("«\"1-2\"»"),
        "there is no link 1-2",
        "1 is linked to 0",
    );
    refused(
        &change("«\"0-77\"»"),
        "does not name two vertices",
        "0 to 4",
    );
    refused(&change("[\"0-1\", «\"at 9\"»]"), "no vertex 9", "0 to 4");
    refused(
        &change("«\"everything\"»"),
        "does not name links",
        "\"3-7\"",
    );
}

#[test]
fn changes_that_make_no_sense() {
    let change = |lines: &str| star(&format!("{FLOOD}{lines}"));
    refused(
        &change("[[change]]\nat = \"1 s\"\n«crsh» = 3\n"),
        "not a key of a change",
        "did you mean `crash`?",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\ncrash = 3\nheal = «true»\n"),
        "a second change beside `crash`",
        "[[change]]",
    );
    refused(
        &change("[[change]]\nat = «\"11 s\"»\ncrash = 3\n"),
        "after the end",
        "`duration`",
    );
    refused(
        &change("[[change]]\nat = \"2 s\"\npause = «3»\n[[change]]\nat = \"1 s\"\ncrash = 3\n"),
        "host 3 does not run then",
        "start it before",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\nstart = 3\n[[change]]\nat = \"2 s\"\nstart = «3»\n"),
        "host 3 runs already",
        "crash or leave",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\ncut = [[0, 1], «[1, 2]»]\n"),
        "host 1 is in two parts",
        "exactly one",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\ncut = «[[0, 1], [2]]»\n"),
        "host 3 is in no part",
        "exactly one",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\nlink = \"0-1\"\n«los» = \"5 %\"\n"),
        "not a key of a change",
        "did you mean `loss`?",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\nlink = «\"0-1\"»\n"),
        "nothing changes",
        "loss",
    );
    for (marked, message, help) in [
        ("up = «\"0-1\"»", "these links are not down then", "`down`"),
        ("heal = «true»", "nothing is cut then", "`cut`"),
    ] {
        let marked = change(&format!("[[change]]\nat = \"1 s\"\n{marked}\n"));
        refused(&marked, message, help);
    }
    let down = "[[change]]\nat = \"1 s\"\ndown = \"at 0\"\n[[change]]\nat = \"2 s\"\n";
    refused(
        &change(&format!("{down}down = «\"0-1\"»\n")),
        "these links are down already",
        "`up`",
    );
    let source = "[[source]]\nhosts = 0\nrate = \"1/s\"\nsize = 9\n[[change]]\nat = \"1 s\"\n";
    refused(
        &change(&format!("{source}sound = «0»\n")),
        "source 0 is not silent then",
        "`start`",
    );
    let silence = "silence = 0\n[[change]]\nat = \"2 s\"\nsilence = «0»\n";
    refused(
        &change(&format!("{source}{silence}")),
        "source 0 is silent already",
        "`sound`",
    );
    refused(
        &change("[[change]]\nat = \"1 s\"\nsilence = «0»\n"),
        "there is no source 0",
        "[[source]]",
    );
}

#[test]
fn settings_that_contradict_each_other() {
    refused(
        &star("[protocol]\nname = \"ring\"\nidle_hold = «\"1 s\"»\n"),
        "1 s is out of range",
        "at most a quarter of token_loss_min",
    );
    refused(
        &star(&format!(
            "{FLOOD}[[source]]\nhosts = 0\nsize = 9\nrate = \"1/s\"\nservice = «\"agreed\"»\n"
        )),
        "`flood` does not carry agreed",
        "use `unreliable`",
    );
    refused(
        &star(&format!(
            "{RING}[[source]]\nhosts = 0\nsize = 9\nrate = \"1/s\"\nservice = «\"k-resilient:300\"»\n"
        )),
        "not a service: `k-resilient:300`",
        "0 to 127, as in `k-resilient:2`",
    );
    refused(
        &star(&format!(
            "{FLOOD}[[source]]\nhosts = \"all\"\narrivals = \"reply\"\nto = «1»\nsize = 9\n"
        )),
        "host 1 would answer nobody but itself",
        "`advance`",
    );
    refused(
        &format!("warm_up = «\"10 s\"»\n{}", star(FLOOD)),
        "nothing is left to measure",
        "part of `duration`",
    );
    refused(
        &star(&format!("{FLOOD}[measure]\nwindow = «\"99 us\"»\n")),
        "101011 windows of time are more than 100000",
        "\"100 us\" or more",
    );
    refused(
        &format!("seeds = «5»\n{}", star(FLOOD)),
        "the number 5 where a range of seeds belongs",
        "\"1..6\" for seeds 1 to 5",
    );
    refused(
        &star(&format!("{FLOOD}[hosts]\nmodel = «\"vm-2062\"»\n")),
        "no host model",
        "did you mean `vm-2026`?",
    );
}

#[test]
fn what_is_laid_over_is_shown_itself() {
    let text = star(&format!(
        "{FLOOD}[[source]]\nhosts = 0\nsize = 9\nrate = \"1/s\"\n"
    ));
    let parse = |setting: &str| Scenario::parse(Path::new("s.toml"), &text, &[setting.into()]);
    for right in [
        "source.0.rate=50/s",
        "source.0.rate = \"50/s\"",
        "network.size=9",
        "measure.window=1 s",
        "network.link.loss={ rate = 0.1, burst = 3 }",
    ] {
        assert!(parse(right).is_ok(), "{right}");
    }
    for (setting, column, message) in [
        (
            "source.0.rate=fast",
            15,
            "source.0.rate: `fast` is not a rate",
        ),
        ("network.siz=9", 9, "network.siz: not a key"),
        ("source.3.rate=1/s", 8, "`3` is not in a list of 1"),
        ("duration.x=1", 10, "`x` cannot be in the string `10 s`"),
        ("duration", 1, "no value"),
        ("network..size=1", 9, "an empty key"),
    ] {
        let error = parse(setting).expect_err(setting);
        let place = error.place().expect("the setting").to_string();
        assert_eq!(place, format!("--set:1:{column}"), "{setting}: {error}");
        assert!(error.to_string().contains(message), "{setting}: {error}");
    }
}
