//! What is refused before anything is sent, and a dry run.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::Group;
use crate::host::Ran;

#[test]
fn options_that_make_no_sense_are_refused_and_a_dry_run_sends_nothing() {
    let group = Group::new();
    fs::create_dir_all(group.path("tree/cache")).unwrap();
    fs::write(group.path("tree/a"), "12345").unwrap();
    fs::write(group.path("tree/a.o"), "object").unwrap();
    fs::write(group.path("tree/cache/b"), "cached").unwrap();
    let options = [
        "tree",
        "--exclude",
        "*.o",
        "--exclude",
        "cache/",
        "--dry-run",
    ];
    let listed = group.send(&options);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let lines: Vec<&str> = listed.stdout.lines().map(str::trim_start).collect();
    assert_eq!(lines[..2], ["directory  tree", "5  tree/a"]);
    assert!(
        lines[2].contains("2 entries; nothing was sent"),
        "{lines:?}"
    );
    assert!(listed.stderr.contains("left out: 2 entries"));
    let json = group.send(&[&options[..], &["--json"]].concat());
    let total: Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&total["entries"], &total["bytes"]), (&2.into(), &5.into()));

    for (options, problem) in [
        (&["tree", "--exclude", "[a"][..], "[a"),
        (&["tree", "--exclude", "tree"], "leaves out everything"),
        (&["-", "--dry-run"], "for files"),
        (&["-", "--exclude", "*"], "for files"),
        (&["tree", "--dry-run", "--status", "s"], "--status"),
        (&["tree", "--together", "--max-failed", "1"], "--together"),
        (&["tree", "--ttl", "0"], "--ttl"),
        (&["tree", "--dscp", "64"], "--dscp"),
    ] {
        group.send(options).fails_with(2, &[problem]);
    }
    let mut nowhere = group.host.command(&["send", "tree", "--key", "group.key"]);
    nowhere.args(["--group", &group.address, "--interface", "none7"]);
    Ran::of(nowhere.output().unwrap()).fails_with(2, &["none7", "lo"]);
    let stdout = ["recv", "--out", "-", "--exec", "true"];
    Ran::of(group.command(&stdout).output().unwrap()).fails_with(2, &["--exec"]);
}

#[test]
fn what_cannot_work_is_said_before_anything_is_sent() {
    let group = Group::new();
    let host = &group.host;
    let at = ["--group", &group.address, "--interface", "127.0.0.1"];
    let run = |arguments: &[&str]| host.run(&[arguments, &at].concat());
    run(&["send", "group.key"]).fails_with(2, &["neither --key nor --insecure"]);
    run(&["recv", "--out", "d"]).fails_with(2, &["neither --key nor --insecure"]);
    host.run(&[
        "relay",
        "--from",
        &group.address,
        "--to",
        "239.192.79.79:4829",
    ])
    .fails_with(2, &["neither --key nor --insecure"]);
    let nowhere = run(&["recv", "--out", "/proc/nowhere", "--insecure"]);
    nowhere.fails_with(1, &["cannot write to /proc/nowhere"]);
    assert!(!nowhere.stderr.contains("is made"), "{}", nowhere.stderr);
    symlink("gone", group.path("link")).unwrap();
    run(&["recv", "--out", "link", "--insecure"])
        .fails_with(1, &["it is a symbolic link that leads nowhere"]);
    let pauses = ["--rate-at", "8:00=pause", "--rate-at", "9:00=pause"];
    run(&[&["send", "group.key", "--insecure"][..], &pauses].concat())
        .fails_with(2, &["nothing but pauses"]);
    fs::create_dir_all(group.path("tree/cache")).unwrap();
    fs::write(group.path("tree/cache/f"), "f").unwrap();
    let excluding = |pattern: &str| {
        let at = ["--exclude", pattern, "--group", &group.address];
        let ran = host.run(&[&["send", "tree", "--dry-run"][..], &at].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (ran.stdout, ran.stderr.contains("leaves out nothing"))
    };
    for pattern in ["cache/**", "./tree/cache", "/cache/"] {
        assert!(excluding(pattern).1, "{pattern}");
    }
    for pattern in [
        "tree/cache/**",
        "/tree/cache",
        "cache/",
        "**/f",
        "cache",
        "t*/f",
    ] {
        assert!(!excluding(pattern).1, "{pattern}");
    }
    let listed = excluding("cache").0;
    assert!(listed.contains(" in 1 entry; nothing"), "{listed}");
    host.run(&["send", "group.key", "--insecure", "--group", "10.0.0.1:5"])
        .fails_with(2, &["not a multicast address"]);
    run(&["send", "missing", "--insecure"]).fails_with(1, &["missing"]);
    run(&["send", "group.key", "--insecure", "--require", "a,rl/b1"])
        .fails_with(2, &["required by its own, `b1`"]);
    run(&["send", "/", "--insecure"]).fails_with(2, &["no name"]);
    run(&["send", "/proc/cpuinfo", "--insecure"]).fails_with(2, &["/proc/cpuinfo"]);
    fs::create_dir_all(group.path("kept/.groupcast")).unwrap();
    run(&["send", "kept/.groupcast", "--insecure"]).fails_with(1, &[".groupcast"]);
    run(&["send", "-", "group.key", "--insecure"]).fails_with(2, &["standard input"]);
    // Each is called as its user called it, and in its unit.
    for (options, says) in [
        ("--window 8 --poll 9", "--poll: 9 is out of range"),
        ("--protocol xtp --poll 2000", "--poll: 2000 is out of range"),
        (
            "--protocol multidriver --poll 0",
            "--poll: 0 is out of range",
        ),
        (
            "--protocol list --poll 2000",
            "--poll: 2000 is out of range",
        ),
        ("--window 0", "--window: 0 is out of range"),
        ("--protocol tree --height 0", "--height: 0 is out of range"),
        (
            "--protocol xtp --rate background",
            "rate in Mb/s, as --rate 20",
        ),
        (
            "--protocol xtp --rate-at 8:00=background --rate-at 9:00=20",
            "rate in Mb/s, as --rate-at 08:00=20",
        ),
        ("--protocol ring --window 1 --receivers 3", "help: --window"),
    ] {
        let words: Vec<&str> = options.split(' ').collect();
        let refused = run(&[&["send", "group.key", "--insecure"][..], &words].concat());
        refused.fails_with(2, &[says]);
        for internal in ["setting", "_every", "bits a second"] {
            assert!(!refused.stderr.contains(internal), "{}", refused.stderr);
        }
    }
    for bytes in [
        "0",
        "10",
        "63",
        "65001",
        "-1",
        "9999999999999999999999",
        "1400 bit",
        "1 MiB",
    ] {
        let packet = format!("--packet={bytes}");
        run(&["send", "group.key", "--insecure", &packet])
            .fails_with(2, &["a packet has 64 to 65000 bytes"]);
    }
    let long = format!("{}end", "directory/".repeat(500));
    let sent = run(&["send", &long, "--insecure"]);
    sent.fails_with(1, &["directory/directory/", "/end", "too long"]);
    assert!(sent.stderr.len() < 700, "{}", sent.stderr);
    run(&["send", "group.key", "--insecure", "--protocol", "tcp"]).fails_with(2, &["tcp"]);
    run(&["recv", "--out", "-", "--json", "--insecure"]).fails_with(2, &["--json"]);
    run(&["recv", "--out", "group.key", "--insecure"]).fails_with(1, &["group.key"]);
    run(&["send", "group.key", "--insecure", "--wait", "1"])
        .fails_with(1, &["nobody received anything", "groupcast recv"]);
    let _holder = group.receiver("one", &[]);
    let second = group
        .command(&["recv", "--out", "out-one"])
        .output()
        .unwrap();
    Ran::of(second).fails_with(1, &["another receiver uses"]);
}
