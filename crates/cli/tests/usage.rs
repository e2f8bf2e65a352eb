//! What the binary says to those who use it wrongly, and which exit code it gives: a contract with
//! scripts.

use crate::host;

use std::os::unix::fs::PermissionsExt as _;

use crate::host::Host;

#[test]
fn what_does_not_exist_is_a_usage_error() {
    let host = Host::new();
    host.run(&[]).fails_with(2, &["Usage: groupcast"]);
    host.run(&["watch"])
        .fails_with(2, &["unrecognized subcommand 'watch'"]);
    // A capability that is not built has no option either.
    host.run(&["daemon", "--insecure", "--ipv6"])
        .fails_with(2, &["unexpected argument"]);
    let help = host.run(&["--help"]);
    assert_eq!(help.code, 0);
    for command in [
        "keygen", "daemon", "sub", "pub", "status", "groups", "check",
    ] {
        assert!(
            help.stdout.contains(command),
            "{command} in {}",
            help.stdout
        );
    }
}

#[test]
fn an_unknown_protocol_is_a_usage_error_that_names_the_others() {
    let host = Host::new();
    let ordered = ["invalid value 'token'", "possible values: ring, rmp"];
    for command in [&["demo"][..], &["daemon", "--insecure"]] {
        let all: Vec<&str> = command
            .iter()
            .copied()
            .chain(["--protocol", "token"])
            .collect();
        host.run(&all).fails_with(2, &ordered);
    }
    for option in ["--protocol", "--beside"] {
        host.run(&["bench", "ring", option, "token"])
            .fails_with(2, &["possible values: accelerated, original, rmp"]);
    }
    host.write("d.toml", "insecure = true\nprotocol = \"rnp\"\n");
    host.run(&["daemon", "-c", &host.path("d.toml"), "--check"])
        .fails_with(2, &["d.toml:2", "did you mean `rmp`?"]);
    host.write("e.toml", "insecure = true\n[rmp]\nwindow_max = 4\n");
    let checked = host.run(&["daemon", "-c", &host.path("e.toml"), "--check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.contains("ring orders messages"),
        "{}",
        checked.stdout
    );
    assert!(
        checked.stderr.contains("[rmp] has no effect"),
        "{}",
        checked.stderr
    );
}

#[test]
fn keys_are_private_and_never_overwritten() {
    let host = Host::new();
    let made = host.run(&["keygen", "cluster.key"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let path = host.path("cluster.key");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = host.read("cluster.key");
    host.run(&["keygen", "cluster.key"])
        .fails_with(1, &["cluster.key", "never overwritten"]);
    assert_eq!(host.read("cluster.key"), before);
    host.run(&["keygen"]).fails_with(2, &["<FILE>"]);
    host.run(&["keygen", "-"])
        .fails_with(2, &["never to standard output", "./-"]);

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    host.run(&[
        "daemon",
        "--key",
        "cluster.key",
        "--socket",
        &host.path("s"),
    ])
    .fails_with(1, &["chmod 600"]);
}

#[test]
fn what_holds_something_else_is_neither_written_nor_to_be_changed() {
    let host = Host::new();
    assert_eq!(host.run(&["keygen", "kk"]).code, 0);
    let hosts = "127.0.0.1 localhost\n";
    let foreign = host.write("hosts", hosts);
    let mode =
        |mode| std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let listen = format!("127.0.0.1:{}", host::free_port());
    let (socket, group) = (host.socket("s"), host.multicast());
    let daemon = |options: &[&str]| {
        let mut all = vec!["daemon", "--listen", &listen, "--multicast", group];
        all.extend(["--socket", &socket]);
        all.extend(options);
        host.run(&all)
    };
    let key = host.read("kk");
    daemon(&["--key", "kk", "--history", "./kk"])
        .fails_with(2, &["is the file of `key`", "a file of its own"]);
    assert_eq!(host.read("kk"), key);
    daemon(&["--insecure", "--history", "hosts"])
        .fails_with(1, &["hosts", "not a history", "--history FILE"]);
    assert_eq!(host.read("hosts"), hosts);

    let refused = daemon(&["--key", "hosts"]);
    assert!(!refused.stderr.contains("chmod"), "{}", refused.stderr);
    refused.fails_with(1, &["hosts is not a key file"]);
    let long = host.path(&"x".repeat(120));
    host.run(&[
        "daemon",
        "--insecure",
        "--listen",
        &listen,
        "--socket",
        &long,
    ])
    .fails_with(1, &["107 bytes"]);
    daemon(&["--key", "kk", "--check", "--history", "kk"]).fails_with(2, &["is the file of `key`"]);
}

#[test]
fn a_daemon_without_a_key_is_told_how_to_get_one() {
    let host = Host::new();
    host.run(&["daemon"]).fails_with(
        2,
        &[
            "without a key refuses to start",
            "groupcast keygen FILE",
            "--key FILE",
            "--insecure",
        ],
    );
    host.run(&["daemon", "--key", "k", "--insecure"])
        .fails_with(2, &["--insecure"]);
    host.run(&["daemon", "--key", "missing"])
        .fails_with(1, &["missing"]);
}

#[test]
fn configuration_errors_point_at_the_line() {
    let host = Host::new();
    host.write("d.toml", "insecure = true\n\n[ring]\nidle_hold = \"1 s\"\n");
    host.run(&["daemon", "-c", "d.toml"])
        .fails_with(2, &["d.toml:4", "ring.idle_hold", "idle_hold = \"1 s\""]);
    host.write("d.toml", "insecure = true\nnmae = \"a\"\n");
    host.run(&["daemon", "-c", "d.toml"])
        .fails_with(2, &["d.toml:2", "nmae: not a key", "did you mean `name`?"]);
    host.run(&["daemon", "-c", "missing.toml"])
        .fails_with(2, &["missing.toml", "-c FILE"]);
    host.run(&["daemon", "--insecure", "--name", "a b"])
        .fails_with(2, &["`a b`"]);
    host.run(&["daemon", "--key", "k", "--client-listen", "0.0.0.0:4811"])
        .fails_with(2, &["in clear over the network"]);
    let bad_filter = host
        .command(&["daemon", "--insecure"])
        .env("GROUPCAST_LOG", "info=loud")
        .output();
    host::Ran::of(bad_filter.unwrap()).fails_with(2, &["GROUPCAST_LOG"]);
}

#[test]
fn clients_without_a_daemon_say_what_to_do() {
    let host = Host::new();
    let socket = host.path("none.sock");
    for command in [
        &["sub", "g"][..],
        &["pub", "g"],
        &["status"],
        &["monitor"],
        &["groups"],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend(["--socket", &socket]);
        host.run(&arguments).fails_with(
            1,
            &[
                "no daemon listens on",
                "none.sock",
                "groupcast daemon",
                "--socket",
            ],
        );
    }
    host.run(&["status", "--server", "127.0.0.1:1"])
        .fails_with(1, &["no daemon listens on 127.0.0.1:1", "--client-listen"]);
    host.run(&["status", "--socket", "a", "--server", "127.0.0.1:1"])
        .fails_with(2, &["cannot be used with"]);
    let file = host.write("file", "");
    for path in [&host.path(""), &file] {
        let said = format!("{path} is no socket");
        host.run(&["status", "--socket", path])
            .fails_with(1, &[&said, "--socket"]);
        host.run(&["bus", "--server", &format!("unix:{path}")])
            .fails_with(1, &[&said]);
    }
}

#[test]
fn arguments_of_clients_are_checked_before_anything_is_sent() {
    let host = Host::new();
    host.run(&["sub"]).fails_with(2, &["<GROUP>"]);
    host.run(&["sub", "a@b"]).fails_with(2, &["'@'"]);
    let beside_none = ["status", "--server", "127.0.0.1:1", "--token", "no"];
    host.run(&beside_none)
        .fails_with(1, &["there is no token file no", "`client_token`"]);
    host.run(&["sub", "g", "--count", "0"])
        .fails_with(2, &["--count"]);
    host.run(&["pub", "g", "--service", "total"]).fails_with(
        2,
        &["not a service: use unreliable, reliable, fifo, causal, agreed, k-resilient:K, majority, safe or bimodal"],
    );
    for service in ["k-resilient:x", "k-resilient:128", "k-resilient"] {
        host.run(&["pub", "g", "--service", service]).fails_with(
            2,
            &["k-resilient needs the number of failures that a message outlives, 0 to 127"],
        );
    }
    for rate in ["0", "1e-300", "inf", "nan"] {
        host.run(&["pub", "g", "--rate", rate])
            .fails_with(2, &["from 0.000001 on"]);
    }
    host.run(&["pub", "g", "--size", "10"])
        .fails_with(2, &["--count"]);
    host.run(&["pub", "chat", "hello world"]).fails_with(
        2,
        &[
            "\"hello world\" looks like a message",
            "printf '%s\\n' 'hello world' | groupcast pub chat",
        ],
    );
    host.run(&["pub", "chat", "a\u{202e}b"])
        .fails_with(2, &["cannot be seen"]);
    host.run(&["sub", "g", "-v", "--json"])
        .fails_with(2, &["cannot be used with"]);
    host.run(&["pub", "g", "--file", "missing"])
        .fails_with(2, &["missing"]);
    host.run(&["pub", "g", "--file", "."])
        .fails_with(2, &["directory"]);
    let many: Vec<String> = (0..101).map(|number| format!("g{number}")).collect();
    let mut arguments = vec!["pub"];
    arguments.extend(many.iter().map(String::as_str));
    host.run(&arguments)
        .fails_with(2, &["101 groups", "at most 100"]);
}

#[test]
fn histories_are_judged() {
    let host = Host::new();
    host.run(&["check"]).fails_with(2, &["<HISTORY>"]);
    host.run(&["check", "missing.ndjson"])
        .fails_with(2, &["missing.ndjson"]);
    host.write("text", "hello\n");
    host.run(&["check", "text"])
        .fails_with(2, &["text:1", "histories are what", "--history FILE"]);

    let member = "0000000000000061.0000000000006100";
    let start =
        format!("{{\"event\":\"start\",\"schema\":1,\"member\":\"{member}\",\"name\":\"a\"}}\n");
    let configuration = format!(
        "{{\"event\":\"configuration\",\"kind\":\"regular\",\"config\":\"1-{member}\",\"members\":[\"{member}\"]}}\n"
    );
    host.write("clean", format!("{start}{configuration}"));
    let clean = host.run(&["check", "clean", "--json"]);
    assert_eq!(clean.code, 0, "{}", clean.stderr);
    let report: serde_json::Value = serde_json::from_str(&clean.stdout).unwrap();
    assert_eq!(report["clean"], true);

    // The other member of its configuration has no history here.
    let two = configuration.replace("[\"", "[\"0000000000000060.0000000000006000\",\"");
    host.write("half", format!("{start}{two}"));
    let half = host.run(&["check", "half"]);
    assert_eq!(half.code, 3, "{}", half.stdout);
    assert!(
        half.stdout
            .contains("could not be judged: 0000000000000060"),
        "{}",
        half.stdout
    );
    host.run(&["check", "clean", "clean"])
        .fails_with(2, &["tells as well: give each history once"]);

    // Delivered, although no member has submitted it.
    let invented = format!(
        "{{\"event\":\"deliver\",\"sender\":\"{member}\",\"number\":1,\"service\":\"agreed\",\"config\":\"1-{member}\",\
         \"seq\":65536,\"digest\":\"0000000000000005\"}}\n"
    );
    host.write("bad", format!("{start}{configuration}{invented}"));
    let bad = host.run(&["check", "bad"]);
    assert_eq!(bad.code, 1, "{}", bad.stdout);
    assert!(bad.stdout.contains("violation"), "{}", bad.stdout);
}

#[test]
fn what_has_no_effect_or_no_meaning_is_refused_in_words() {
    let host = Host::new();
    let group = ["--group", "239.192.79.2:4820", "--insecure"];
    let run = |words: &[&str]| host.run(&[words, &group[..]].concat());
    host.write("a", "x");
    for protocol in ["auto", "nak", "ack", "ring", "xtp", "list"] {
        run(&["send", "a", "--protocol", protocol, "--height", "2"])
            .fails_with(2, &["--height is for --protocol tree"]);
    }
    run(&["recv", "--out", "d", "--exec-limit", "5"]).fails_with(2, &["--exec"]);
    for rate in ["0.001", "nan", "1e9", "-5"] {
        let refused = run(&["send", "a", "--rate", rate]);
        assert!(!refused.stderr.contains("tip:"), "{}", refused.stderr);
        refused.fails_with(2, &["from 0.01 to 1000000"]);
    }
    run(&["send", "a", "--rate", "fair"]).fails_with(2, &["--rate auto"]);
    for words in [
        &["sub", "g", "--count", "0"][..],
        &["pub", "g", "--size", "1", "--count", "0"],
        &["sim", "a", "--jobs", "0"],
        &["lab", "run", "all", "--jobs", "0"],
    ] {
        host.run(words).fails_with(2, &["a whole number above 0"]);
    }
    host.run(&["pub", "g", "--rate", "-5"])
        .fails_with(2, &["from 0.000001 on"]);
    run(&["recv", "--out", "a"]).fails_with(1, &["cannot write to a", "not a directory"]);
}

#[test]
fn a_program_reads_why_a_command_failed() {
    let host = Host::new();
    let group = ["--group", "239.192.79.2:4820", "--insecure", "--json"];
    host.write("a", "x");
    host.write("empty", "");
    for (words, code, part) in [
        (&["send", "no-file"][..], 1, "no-file"),
        (&["send", "a", "--list", "no-list"], 2, "no-list"),
        (&["send", "a", "--list", "empty"], 2, "names nobody"),
        (&["request", "no-file"], 1, "no-file"),
        (&["recv", "--out", "a"], 1, "not a directory"),
    ] {
        let ran = host.run(&[words, &group[..]].concat());
        let last = ran.stdout.lines().last().unwrap_or_default();
        let line: serde_json::Value = serde_json::from_str(last).expect(last);
        assert_eq!(line["event"], "error", "{last}");
        assert!(line["message"].as_str().unwrap().contains(part), "{last}");
        ran.fails_with(code, &[part]);
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is_one() {
    let host = Host::new();
    let mut gone = host.command(&["lab", "list"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(gone.stdout(writer).status().unwrap().code(), Some(0));
    let full = || {
        let file = std::fs::File::options().write(true).open("/dev/full");
        file.unwrap()
    };
    let mut listed = host.command(&["lab", "list"]);
    assert_eq!(listed.stdout(full()).status().unwrap().code(), Some(1));
    let member = "0000000000000061.0000000000006100";
    host.write(
        "clean",
        format!("{{\"event\":\"start\",\"schema\":1,\"member\":\"{member}\",\"name\":\"a\"}}\n"),
    );
    host.write("file", "to send");
    let dry_run = [
        "send",
        "file",
        "--dry-run",
        "--insecure",
        "--group",
        "239.192.79.2:4820",
    ];
    let mut gone = host.command(&dry_run);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(gone.stdout(writer).status().unwrap().code(), Some(0));
    let daemon = ["daemon", "--check", "--insecure", "--listen", "127.0.0.1"];
    for words in [
        &["check", "clean"][..],
        &["demo", "--messages", "10"],
        &dry_run,
        &daemon,
    ] {
        let mut told = host.command(words);
        let code = told.stdout(full()).status().unwrap().code();
        assert_eq!(code, Some(1), "{words:?}");
    }
}

/// What would run, what it has beside, and what the start would warn of.
#[test]
fn a_check_says_what_would_run_and_warns_as_the_start_does() {
    let host = Host::new();
    let file = "insecure = true\nlisten = \"127.0.0.1\"\nmetrics = \"0.0.0.0:9812\"\nbus = [\"unix:bus.sock\"]\n\
                [bimodal]\ngroups = [\"ticks\"]\n";
    host.write("d.toml", file);
    let checked = host.run(&["daemon", "-c", &host.path("d.toml"), "--check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    for part in [
        "metrics at http://0.0.0.0:9812",
        "clients of the bus at",
        "bimodal groups: ticks",
    ] {
        assert!(checked.stdout.contains(part), "{part}: {}", checked.stdout);
    }
    for part in ["everybody who reaches 0.0.0.0:9812", "without a key"] {
        assert!(checked.stderr.contains(part), "{part}: {}", checked.stderr);
    }
    host.write("e.toml", "insecure = true\nlisten = \"192.0.2.1\"\n");
    host.run(&["daemon", "-c", &host.path("e.toml"), "--check"])
        .fails_with(1, &["192.0.2.1 is not an address of this host"]);
}

/// What a shell and `man` are told names the commands and their options.
#[test]
fn shells_and_man_are_told_of_the_commands() {
    let host = Host::new();
    for shell in ["bash", "zsh", "fish"] {
        let told = host.run(&["completions", shell]);
        assert_eq!(told.code, 0, "{}", told.stderr);
        for word in ["census", "max-failed"] {
            assert!(told.stdout.contains(word), "{shell}: {word}");
        }
    }
    host.run(&["completions", "csh"])
        .fails_with(2, &["possible values", "bash"]);
    let pages = host.path("man/man1");
    assert_eq!(host.run(&["man", &pages]).code, 0);
    let page = host.read("man/man1/groupcast-send.1");
    assert!(page.contains("max\\-failed"), "{page}");
    host.write("file", "");
    host.run(&["man", &host.path("file")])
        .fails_with(1, &["cannot write manual pages"]);
}

/// A user who writes one is told what the option takes, and not that there is no option `-1`.
#[test]
fn a_negative_number_is_a_value_that_its_option_refuses() {
    let host = Host::new();
    let group = ["--group", "239.192.79.77:4977", "--insecure"];
    let seconds = "not a number of seconds above 0";
    for (command, option, value, takes) in [
        (&["census"][..], "--timeout <S>", "-1", seconds),
        (&["request"], "--timeout <S>", "-0.5", seconds),
        (&["request"], "--wait <S>", "-1", seconds),
        (&["request"], "--backoff <MS>", "-1", "milliseconds from 0"),
        (&["send", "f"], "--wait <S>", "-1", "1..=86400"),
        (&["send", "f"], "--receivers <N>", "-3", "1..=65535"),
        (&["send", "f"], "--rate <", "-5", "not a rate"),
        (&["recv", "--out", "o"], "--dscp <DSCP>", "-1", "0..=63"),
    ] {
        let name = option.split(' ').next().unwrap();
        let all = [command, &group, &[name, value]].concat();
        host.run(&all).fails_with(
            2,
            &[&format!("invalid value '{value}' for '{option}"), takes],
        );
    }
    for (command, takes) in [
        (
            &["sim", "s.toml", "--seeds", "-1..5"][..],
            "a range of seeds",
        ),
        (&["sim", "s.toml", "--seeds", "-3"], "a range of seeds"),
        (&["sim", "s.toml", "--jobs", "-1"], "above 0"),
        (&["lab", "run", "x", "--seeds", "-1..5"], "a range of seeds"),
        (&["bench", "ring", "--duration", "-1"], "from 0.1 to 3600"),
        (&["sub", "g", "--count", "-1"], "above 0"),
        (&["pub", "g", "--rate", "-1"], "not a rate"),
        (&["monitor", "--interval", "-1"], "from 0.1 to 86400"),
    ] {
        let value = command.last().unwrap();
        host.run(command)
            .fails_with(2, &[&format!("invalid value '{value}' for '--"), takes]);
    }
}

/// A variable of a shell that is not set makes a word that is empty.
#[test]
fn what_is_empty_or_half_written_is_refused_with_what_is_missing() {
    let host = Host::new();
    let group = ["--group", "239.192.79.77:4977", "--insecure"];
    let exec = [&["answer"][..], &group, &["--exec", ""]].concat();
    let empty = "--exec needs a command";
    host.run(&exec).fails_with(2, &[empty]);
    let exec = [&["recv", "--out", "o"][..], &group, &["--exec", ""]].concat();
    host.run(&exec).fails_with(2, &[empty]);
    host.run(&["bus", "--server", "127.0.0.1:1", "--exec", ""])
        .fails_with(2, &[empty]);
    for command in [&["status"][..], &["daemon", "--insecure", "--check"]] {
        host.run(&[command, &["--socket", ""]].concat())
            .fails_with(2, &["the path is empty"]);
    }
    for (option, value, example) in [
        ("--client-listen", "4811", "10.0.0.5:4811"),
        ("--peer", "127.0.0.1:99999", "10.0.0.5:4810"),
        ("--multicast", "239.192.79.1", "239.192.79.1:4809"),
    ] {
        host.run(&["daemon", "--insecure", "--check", option, value])
            .fails_with(2, &["not an IP address with a port", example]);
    }
    std::fs::create_dir(host.path("kept")).unwrap();
    host.run(&["lab", "judge", "--kept", "kept"])
        .fails_with(1, &["no results are kept in kept", "--kept"]);
    assert!(
        std::fs::read_dir(host.path("kept"))
            .unwrap()
            .next()
            .is_none()
    );
}
