//! What a configuration may say: precedence, contradictions, ranges, and errors that point at the
//! line.

use std::path::{Path, PathBuf};

use std::time::Duration;

use groupcast_core::settings::Value;
use groupcast_daemon::config::{
    Config, DaemonConfigError, File, FilePlace, MULTICAST, Options, Security,
};
use groupcast_net::{Group, Spin};

fn file(text: &str) -> File {
    File::parse(Path::new("daemon.toml"), text).expect("the tests' files are well-formed")
}

fn build(text: &str) -> Result<Config, DaemonConfigError> {
    Config::build(Some(&file(text)), Options::default())
}

/// The error of `text`: its message, its line, its help.
fn refused(text: &str) -> (String, Option<usize>, String) {
    let error = File::parse(Path::new("daemon.toml"), text)
        .and_then(|file| Config::build(Some(&file), Options::default()))
        .expect_err(text);
    let line = error.place().map(FilePlace::line);
    (error.to_string(), line, error.help())
}

/// A file with these further rings.
fn with_rings(rings: &str) -> String {
    format!("name = \"a\"\nlisten = \"10.0.0.1\"\ninsecure = true\n{rings}")
}

#[test]
fn rings_have_a_top_an_address_and_settings_of_rmp() {
    let text = "[[rings]]\ntop = \"wb.cb\"\nmulticast = \"239.192.79.2:4809\"\n\
                [[rings]]\ntop = \"cb\"\nmulticast = \"239.192.79.3:4809\"\npreset = \"wan\"\nwindow_max = 7\n";
    let config = build(&with_rings(text)).unwrap();
    let tops: Vec<&str> = config.rings.iter().map(|ring| &*ring.top).collect();
    assert_eq!(tops, ["wb.cb", "cb"]);
    assert_eq!(config.engine.rings, tops);
    let value = |ring: usize, name: &str| {
        let settings = config.rings[ring].order.config.list();
        let mut settings = settings.into_iter();
        let setting = settings.find(|it| it.name == name).expect(name);
        format!("{:?}", setting.value)
    };
    assert_ne!(value(0, "timer_min"), value(1, "timer_min"), "the preset");
    assert_ne!(value(0, "window_max"), value(1, "window_max"));
}

#[test]
fn rings_that_cannot_be_are_refused_and_say_what_to_do() {
    let ring = |top: &str, rest: &str| {
        format!("[[rings]]\ntop = \"{top}\"\nmulticast = \"239.192.79.2:4809\"\n{rest}")
    };
    let cases = [
        (
            ring("wb..cb", ""),
            "empty level in column 4",
            "root rightmost",
        ),
        (ring("*.cb", ""), "all groups below a name", "without `*.`"),
        (
            ring("cb", &ring("cb", "")),
            "two rings have the top",
            "each top once",
        ),
        (
            ring("cb", "[bimodal]\ngroups = [\"x.cb\"]\n"),
            "the ring \"cb\" carries",
            "not bimodal",
        ),
        (
            "[[rings]]\ntop = \"cb\"\n".into(),
            "no `multicast`",
            "multicast = ",
        ),
        (
            ring("cb", "windo_max = 7\n"),
            "not a key of a ring",
            "window_max",
        ),
        (ring("cb", "window_max = \"x\"\n"), "rings", ""),
        (
            "[[rings]]\ntop = \"cb\"\nmulticast = \"10.0.0.2:4809\"\n".into(),
            "not a multicast address",
            "239.192",
        ),
        (
            "[[rings]]\ntop = \"cb\"\nmulticast = \"224.0.0.5:4809\"\n".into(),
            "not a multicast address",
            "not of 224.0.0.0/24",
        ),
        (
            "multicast = \"239.192.79.2:4809\"\n".to_owned() + &ring("cb", ""),
            "daemons' own address",
            "give it another",
        ),
        (
            "[[ring]]\ntop = \"cb\"\n".into(),
            "a list where a table",
            "[[rings]]",
        ),
        (
            "peer = [\"10.0.0.2:4810\"]\n".to_owned() + &ring("cb", ""),
            "by multicast",
            "leave the rings out",
        ),
    ];
    for (text, message, help) in cases {
        let (said, _, helped) = refused(&with_rings(&text));
        assert!(
            said.contains(message) && helped.contains(help),
            "{said} / {helped}"
        );
    }
}

#[test]
fn an_address_of_tcp_is_for_one_thing() {
    let one = "127.0.0.1:4812";
    let bus = format!("bus = [\"{one}\"]\n");
    let clients = format!("client_listen = \"{one}\"\n");
    for (text, key, other) in [
        (format!("{bus}{clients}"), "bus", "client_listen"),
        (format!("{bus}metrics = \"4812\"\n"), "bus", "metrics"),
        (
            format!("{clients}metrics = \"{one}\"\n"),
            "client_listen",
            "metrics",
        ),
    ] {
        let (said, line, helped) = refused(&format!("insecure = true\n{text}"));
        assert!(
            said.contains(&format!("{key}: {one} is the address of `{other}`")),
            "{said}"
        );
        assert!(line.is_some() && helped.contains("of its own"), "{helped}");
    }
    // With the port 0 each gets another.
    let text = "insecure = true\nbus = [\"127.0.0.1:0\"]\nclient_listen = \"127.0.0.1:0\"\n";
    let file = File::parse(Path::new("daemon.toml"), text).unwrap();
    Config::build(Some(&file), Options::default()).unwrap();
}

#[test]
fn what_is_wrong_in_the_second_ring_is_told_with_its_line() {
    let first = "[[rings]]\ntop = \"x\"\nmulticast = \"239.192.79.3:4809\"\n";
    let second = |top: &str, multicast: &str, rest: &str| {
        let ring = format!("[[rings]]\ntop = \"{top}\"\nmulticast = \"{multicast}\"\n{rest}");
        with_rings(&format!("{first}{ring}"))
    };
    let good = "239.192.79.2:4809";
    for text in [
        // Of the file alone, and of what it says together.
        second("wb..cb", good, ""),
        second("cb", "10.0.0.2:4809", ""),
        second("cb", good, "windo_max = 7\n"),
        second("x", good, ""),
        second("cb", &MULTICAST.to_string(), ""),
        second("cb", good, "[bimodal]\ngroups = [\"x.cb\"]\n"),
    ] {
        let (said, line, _) = refused(&text);
        let header = text
            .lines()
            .enumerate()
            .filter(|(_, it)| *it == "[[rings]]");
        let (second, _) = header.last().expect("there are two");
        assert_eq!(line, Some(second + 1), "{said}");
    }
}

#[test]
fn a_daemon_without_a_key_is_refused_and_told_how() {
    let error = Config::build(None, Options::default()).unwrap_err();
    assert!(matches!(error, DaemonConfigError::NoKey));
    for word in ["groupcast keygen FILE", "--key FILE", "--insecure"] {
        assert!(error.help().contains(word), "{}", error.help());
    }
    assert!(matches!(
        build("insecure = false").unwrap_err(),
        DaemonConfigError::NoKey
    ));
}

#[test]
fn little_is_needed() {
    let config = build("key = \"k\"").unwrap();
    assert_eq!(config.security, Security::Key(PathBuf::from("k")));
    assert_eq!(config.endpoint.listen.port(), 4810);
    assert!(!config.name.is_empty());
    assert_eq!(config.endpoint.group, Group::Multicast(MULTICAST));
    assert_eq!(config.endpoint.multicast_ttl, 1);
    assert_eq!(config.endpoint.multicast_loop, Some(true));
}

#[test]
fn what_the_daemon_writes_is_none_of_the_files_that_it_reads() {
    for written in ["history", "log_file"] {
        for text in [
            "key = \"kk\"",
            "insecure = true\nclient_listen = \"127.0.0.1:4811\"\nclient_token = \"kk\"",
            "insecure = true\nclient_listen = \"127.0.0.1:4811\"\ntls_certificate = \"c\"\ntls_key = \"kk\"",
        ] {
            let (message, line, help) = refused(&format!("{text}\n{written} = \"./kk\""));
            assert!(message.starts_with(&format!("{written}: ./kk is the file of")));
            assert_eq!(line, Some(text.lines().count() + 1));
            assert!(help.contains("a file of its own"));
        }
        let (message, ..) = refused(&format!("insecure = true\n{written} = \"daemon.toml\""));
        assert!(message.contains("the configuration itself"), "{message}");
    }
    let (message, ..) = refused("insecure = true\nhistory = \"a\"\nlog_file = \"a\"");
    assert!(message.contains("log_file: a is the file of `history`"));
    let ring = "[[rings]]\ntop = \"wb.cb\"\nmulticast = \"239.192.79.2:4809\"\n";
    let (message, ..) = refused(&format!(
        "insecure = true\nhistory = \"h.ndjson\"\nlog_file = \"h.wb.cb.ndjson\"\n{ring}"
    ));
    let said =
        "history: h.wb.cb.ndjson, the history of the ring \"wb.cb\", is the file of `log_file`";
    assert!(message.contains(said), "{message}");

    // A link is another name of the same file.
    let key = std::env::temp_dir().join(format!("gc-config-{}.key", std::process::id()));
    let link = key.with_extension("link");
    let _ = std::fs::remove_file(&link);
    std::fs::write(&key, "x").unwrap();
    std::os::unix::fs::symlink(&key, &link).unwrap();
    let linked = Options {
        key: Some(key.clone()),
        history: Some(link.clone()),
        ..Options::default()
    };
    let error = Config::build(None, linked).unwrap_err();
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_file(&key).unwrap();
    assert!(
        error.to_string().contains("is the file of `key`"),
        "{error}"
    );
}

#[test]
fn a_right_that_does_not_exist_is_not_guessed() {
    let rule = |right: &str| {
        format!("insecure = true\n[[access]]\nusers = [\"root\"]\nrights = [\"{right}\"]")
    };
    let (_, _, help) = refused(&rule("read"));
    assert_eq!(help, "use `join`, `send` or `rekey`");
    let (_, _, help) = refused(&rule("sned"));
    assert_eq!(help, "did you mean `send`?");
}

/// Such a rule would close no group, and its writer would not know.
#[test]
fn a_rule_is_for_names_that_a_group_can_have() {
    let rule = |groups: &str| {
        format!("insecure = true\n[[access]]\nusers = [0]\ngroups = {groups}\nrights = [\"join\"]")
    };
    for (groups, words) in [
        ("[\"\"]", "must not be empty"),
        ("[\"a\", \"\"]", "must not be empty"),
        ("[\"a\\nb\"]", "control characters"),
        ("[\"@h1\"]", "not a private name"),
    ] {
        let (message, _, help) = refused(&rule(groups));
        assert!(
            message.contains("which no group is called") && message.contains(words),
            "{message}"
        );
        assert!(help.contains("for all groups"), "{help}");
    }
    let (message, _, _) =
        refused("insecure = true\n[[when_slow]]\ngroups = [\"\"]\npolicy = \"drop\"");
    assert!(message.contains("must not be empty"), "{message}");
    for groups in [
        "[\"*\"]",
        "[\"*.cb\"]",
        "[\"ops/*\", \"a\"]",
        "[\"al@h1\", \"al@*\"]",
    ] {
        build(&rule(groups)).unwrap();
    }
}

#[test]
fn a_users_number_in_quotes_is_told_from_a_name() {
    let rule =
        |user: &str| format!("insecure = true\n[[access]]\nusers = [{user}]\nrights = [\"rekey\"]");
    let (message, _, help) = refused(&rule("\"4000000000\""));
    assert!(message.contains("in quotes is a user's name"), "{message}");
    assert!(help.ends_with("users = [4000000000]"), "{help}");
    let (message, _, help) = refused(&rule("\"nobody of that name\""));
    assert!(message.contains("there is no user"), "{message}");
    assert!(help.contains("id -u"), "{help}");
}

#[test]
fn a_default_that_does_not_fit_points_at_what_was_written() {
    let text = "insecure = true\n[ring]\ntoken_loss_min = \"2 s\"";
    let (message, line, help) = refused(text);
    assert!(message.starts_with("ring.token_loss_min: does not go with ring.token_loss_max"));
    assert_eq!(line, Some(3));
    assert!(
        help.starts_with("set ring.token_loss_max too: use at least"),
        "{help}"
    );
    let text = "insecure = true\n[ring]\ntoken_loss_min = \"2 s\"\ntoken_loss_max = \"1 s\"";
    let (message, line, _) = refused(text);
    assert!(
        message.starts_with("ring.token_loss_max: 1 s is out of range"),
        "{message}"
    );
    assert_eq!(line, Some(4));
}

#[test]
fn the_command_line_wins_and_displaces_what_it_excludes() {
    let text = "name = \"a\"\ninsecure = true\nmulticast = \"239.0.0.1:9\"\n[clients]\nmax = 7";
    let over = Options {
        key: Some("k".into()),
        peer: Some(vec!["10.0.0.2:4810".parse().unwrap()]),
        listen: Some("10.0.0.1".parse().unwrap()),
        ..Options::default()
    };
    let config = Config::build(Some(&file(text)), over).unwrap();
    assert_eq!(config.name, "a");
    assert_eq!(config.security, Security::Key("k".into()));
    assert_eq!(
        config.endpoint.group,
        Group::Mesh(vec!["10.0.0.2:4810".parse().unwrap()])
    );
    assert_eq!(config.endpoint.listen, "10.0.0.1:4810".parse().unwrap());
    assert_eq!(config.engine.clients_max, 7);
}

#[test]
fn errors_point_at_the_line() {
    let (message, line, help) = refused("name = \"a\"\ninsecure = true\nmulticats = \"x\"\n");
    assert_eq!(
        message,
        "multicats: not a key of the daemon's configuration"
    );
    assert_eq!(help, "did you mean `multicast`?");
    assert_eq!(line, Some(3));

    let (message, line, _) = refused("insecure = true\n[clients]\nmax = \"many\"\n");
    assert!(
        message.contains("where a whole number belongs"),
        "{message}"
    );
    assert_eq!(line, Some(3));

    let (message, line, help) = refused("insecure = true\n[clients]\n\nmax = 0\n");
    assert_eq!(message, "clients.max: 0 is out of range");
    assert_eq!(line, Some(4));
    assert_eq!(help, "use 1 to 65536");

    let (_, line, _) = refused("name = \"a\"\nlisten = \n");
    assert_eq!(line, Some(2));
}

#[test]
fn contradictions_are_refused_where_they_are_written() {
    let (message, line, _) = refused("key = \"k\"\ninsecure = true\n");
    assert_eq!(message, "insecure: contradicts key");
    assert_eq!(line, Some(2));

    let (message, line, _) =
        refused("insecure = true\nmulticast = \"239.0.0.1:9\"\npeer = [\"10.0.0.1:1\"]");
    assert_eq!(message, "multicast: contradicts peer");
    assert_eq!(line, Some(2));

    let (message, line, _) = refused("insecure = true\nttl = 3\npeer = [\"10.0.0.1:1\"]");
    assert_eq!(message, "ttl: means nothing without multicast");
    assert_eq!(line, Some(2));

    let both = Options {
        key: Some("k".into()),
        insecure: Some(true),
        ..Options::default()
    };
    let error = Config::build(None, both).unwrap_err();
    assert_eq!(error.to_string(), "insecure: contradicts key");
    assert!(error.place().is_none(), "it was on the command line");
}

#[test]
fn clients_in_clear_over_the_network_need_the_word() {
    let (message, line, help) = refused("key = \"k\"\nclient_listen = \"0.0.0.0:4811\"");
    assert!(message.contains("in clear over the network"), "{message}");
    assert_eq!(line, Some(2));
    assert!(help.contains("127.0.0.1"), "{help}");
    assert!(build("key = \"k\"\nclient_listen = \"127.0.0.1:4811\"").is_ok());
    assert!(build("key = \"k\"\nclient_listen = \"[::1]:4811\"").is_ok());
    assert!(build("insecure = true\nclient_listen = \"0.0.0.0:4811\"").is_ok());
}

#[test]
fn addresses_and_names_that_cannot_be_are_refused() {
    for (text, part) in [
        (
            "listen = \"0.0.0.0\"",
            "not the IPv4 address of one interface",
        ),
        ("listen = \"::1\"", "not the IPv4 address of one interface"),
        ("listen = \"localhost\"", "is not an address"),
        ("multicast = \"10.0.0.1:4809\"", "not a multicast address"),
        ("multicast = \"239.0.0.1:0\"", "not a multicast address"),
        ("multicast = \"224.0.0.1:4809\"", "is of 224.0.0.0/24"),
        ("listen = \"10.0.0.1:0\"", "port 0 cannot be used"),
        ("ttl = 0", "out of range"),
        ("peer = []", "there is none"),
        (
            "peer = [\"239.0.0.1:4810\"]",
            "not the address of one daemon",
        ),
        ("name = \"\"", "cannot be a daemon's name"),
        ("name = \"a b\"", "cannot be a daemon's name"),
        ("name = \"a@b\"", "cannot be a daemon's name"),
    ] {
        let (message, line, _) = refused(&format!("insecure = true\n{text}\n"));
        assert!(message.contains(part), "{text}: {message}");
        assert_eq!(line, Some(2), "{text}");
    }
}

#[test]
fn paths_of_a_file_are_relative_to_it() {
    let directory = std::env::temp_dir().join(format!("groupcast-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("daemon.toml");
    std::fs::write(
        &path,
        "key = \"cluster.key\"\nhistory = \"/var/h.ndjson\"\n",
    )
    .unwrap();
    let config = Config::build(Some(&File::read(&path).unwrap()), Options::default()).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(
        config.security,
        Security::Key(directory.join("cluster.key"))
    );
    assert_eq!(config.history, Some(PathBuf::from("/var/h.ndjson")));

    let missing = File::read(&path).unwrap_err();
    assert!(missing.to_string().contains("daemon.toml"), "{missing}");
}

/// What the setting `name` of the order is.
fn setting(config: &Config, name: &str) -> Option<Value> {
    let mut settings = config.order.config.list().into_iter();
    settings.find(|setting| setting.name == name)?.value
}

#[test]
fn the_protocol_is_chosen_by_name_and_has_a_table_of_its_own() {
    let usual = build("insecure = true").unwrap();
    assert_eq!(usual.order.family.name(), "ring");
    assert!(usual.unused_tables.is_empty() && usual.fit_body);

    let rmp = "insecure = true\nprotocol = \"rmp\"\n[rmp]\npreset = \"wan\"\nwindow_max = 7\nbody_max = 1000\n";
    let config = build(rmp).unwrap();
    assert_eq!(config.order.family.name(), "rmp");
    assert_eq!(setting(&config, "window_max"), Some(Value::Integer(7)));
    let silence = Value::Time(Duration::from_millis(2500));
    assert_eq!(setting(&config, "silence_max"), Some(silence));
    assert_eq!(config.order.config.limits().body_max, 1000);
    assert!(config.unused_tables.is_empty() && !config.fit_body);

    let over = Options {
        protocol: Some("ring".into()),
        ..Options::default()
    };
    let config = Config::build(Some(&file(rmp)), over).unwrap();
    assert_eq!(config.order.family.name(), "ring");
    assert_eq!(config.unused_tables, ["rmp"]);
    assert!(
        config.fit_body,
        "the other protocol's body_max is no matter"
    );
    let warning = config.unused("rmp");
    assert!(warning.contains("[rmp] has no effect"), "{warning}");
}

#[test]
fn a_wrong_protocol_and_wrong_settings_of_it_are_refused_where_they_are_written() {
    let (message, line, help) = refused("insecure = true\nprotocol = \"rnp\"\n");
    assert_eq!(
        message,
        "protocol: `rnp` does not order the messages of a daemon"
    );
    assert_eq!((line, help.as_str()), (Some(2), "did you mean `rmp`?"));
    let (message, _, help) = refused("insecure = true\nprotocol = \"gossip\"\n");
    assert!(message.contains("`gossip`"), "{message}");
    assert_eq!(help, "use `ring` or `rmp`");
    let (_, line, help) = refused("insecure = true\nprotocol = \"rmp\"\n[rmp]\nquiets = true\n");
    assert_eq!((line, help.as_str()), (Some(4), "did you mean `quiet`?"));
    let text = "insecure = true\nprotocol = \"rmp\"\n[rmp]\nnull_ack_after = \"1 s\"\n";
    let (message, line, _) = refused(text);
    assert!(message.starts_with("rmp.null_ack_after: "), "{message}");
    assert_eq!(line, Some(4));
    let (message, _, _) = refused("insecure = true\n[rmp]\npreset = \"paper\"\n");
    assert!(message.starts_with("rmp.preset: "), "{message}");
}

#[test]
fn settings_of_the_ring_and_the_network_are_read_and_checked() {
    let config = build(
        "insecure = true\n[net]\nspin = \"50 us\"\nsegments_max = 16\n[ring]\npersonal_window = 60\n\
         token_loss_max = \"600ms\"\npriority = \"first\"\n",
    )
    .unwrap();
    assert_eq!(config.endpoint.spin, Spin::For(Duration::from_micros(50)));
    assert_eq!(config.endpoint.segments_max, 16);
    assert_eq!(
        setting(&config, "personal_window"),
        Some(Value::Integer(60))
    );
    let loss_max = Value::Time(Duration::from_millis(600));
    assert_eq!(setting(&config, "token_loss_max"), Some(loss_max));

    let wide = build("insecure = true\nring.preset = \"wan\"").unwrap();
    let loss_min = Value::Time(Duration::from_millis(900));
    assert_eq!(setting(&wide, "token_loss_min"), Some(loss_min));

    let (message, line, _) = refused("insecure = true\n[ring]\nidle_hold = \"1 s\"\n");
    assert!(message.starts_with("ring.idle_hold: "), "{message}");
    assert_eq!(line, Some(3));
    let (message, line, _) = refused("insecure = true\n[ring]\nidle_hold = \"1 h\"\n");
    assert!(
        message.contains("`h` is not a unit of a duration"),
        "{message}"
    );
    assert_eq!(line, Some(3));
    let (message, line, help) = refused("insecure = true\n[ring]\ntoken_loss_min = 150\n");
    assert!(
        message.contains("the number 150 where a duration belongs"),
        "{message}"
    );
    assert!(help.contains("\"150 ms\""), "{help}");
    assert_eq!(line, Some(3));
    let (message, line, help) = refused("insecure = true\n[ring]\ntoken_los_min = \"1 s\"\n");
    assert_eq!(message, "ring.token_los_min: not a key of [ring]");
    assert_eq!(help, "did you mean `token_loss_min`?");
    assert_eq!(line, Some(3));
    let (_, _, help) = refused("insecure = true\nsub_gsize = 2\n");
    assert_eq!(help, "`sub_gsize` is a key of [bimodal]");
    let (message, line, _) = refused("insecure = true\n[net]\nsegments_max = 65\n");
    assert_eq!(message, "net.segments_max: 65 is out of range");
    assert_eq!(line, Some(3));
}
