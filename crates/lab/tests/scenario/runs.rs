//! Runs: the same bytes every time, whatever the number of jobs and whatever was interrupted
//! before; changes change what they say; documents say what is written.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use groupcast_core::Contract;
use groupcast_core::family::FamilySettings;
use groupcast_lab::scenario::{
    Cell, ErrorSpan, RunError, RunOptions, RunReport, Scenario, Watch, run,
};
use groupcast_protocols::registry::FAMILIES;

/// A directory of its own, gone at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("groupcast-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// What is in it, by name.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.0).unwrap().map(Result::unwrap);
        let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
        entries
            .map(|entry| (name(&entry), fs::read(entry.path()).unwrap()))
            .collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Silent;

impl Watch for Silent {
    fn progress(&self, _seed: u64, _percent: u16) {}
}

fn parse(text: &str) -> Scenario {
    match Scenario::parse(Path::new("s.toml"), text, &[]) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{:?}: {error}\n{}", error.place(), error.help()),
    }
}

fn run_into(scenario: &Scenario, jobs: usize, out: Option<&Directory>) -> RunReport {
    let options = RunOptions {
        seeds: scenario.seeds(),
        jobs,
        out: out.map(|directory| directory.0.clone()),
    };
    run(scenario, &options, &Silent).unwrap()
}

/// Everything random at once: loss, arrivals, members, who sleeps, a crash, a cut, a capture.
const BUSY: &str = r#"
duration = "3 s"
warm_up = "500 ms"
seeds = "3..8"
[network]
kind = "random"
size = 12
edges = 16
members = 6
multicast = "core"
link = { bandwidth = "10 Mb/s", delay = "1 ms", loss = { rate = "1 %", burst = 3 }, jitter = "100 us" }
[[hosts.override]]
hosts = { random = 1 }
perturbed = { chance = "20 %", interval = "50 ms" }
[protocol]
name = "ring"
[[source]]
hosts = "all"
arrivals = "poisson"
rate = "40/s"
size = 300
[[change]]
at = "1 s"
crash = 5
[[change]]
at = "1500 ms"
cut = [[0, 1, 2], "3..6"]
[[change]]
at = "2 s"
heal = true
[capture]
links = "host 0"
packets_max = 50
"#;

#[test]
fn the_same_bytes_come_out_every_time_whatever_the_jobs() {
    let scenario = parse(BUSY);
    let (first, second, third) = (
        Directory::new("a"),
        Directory::new("b"),
        Directory::new("c"),
    );
    let report = run_into(&scenario, 1, Some(&first));
    run_into(&scenario, 3, Some(&second));
    // No more threads are made than there are seeds.
    run_into(&scenario, usize::MAX, Some(&third));
    let files = first.files();
    assert_eq!(files, second.files());
    assert_eq!(files, third.files());
    assert_eq!(report.broken, [], "promises were broken");
    for name in [
        "summary.json",
        "runs.csv",
        "hosts.csv",
        "links.csv",
        "windows.csv",
        "latency.csv",
        "packets.csv",
        "counters.csv",
    ] {
        assert!(files[name].len() > 100, "{name}");
    }
    let pcaps: Vec<_> = files
        .iter()
        .filter(|(name, _)| name.ends_with(".pcap"))
        .collect();
    assert!(!pcaps.is_empty());
    for (name, pcap) in pcaps {
        assert_eq!(pcap[..4], 0xa1b2_3c4d_u32.to_le_bytes(), "{name}");
        assert!(name.starts_with("3."), "the first seed only: {name}");
    }
    let seeds = |name: &str| -> Vec<u64> {
        let text = String::from_utf8(files[name].clone()).unwrap();
        let seed = |line: &str| line.split(',').next().unwrap().parse().unwrap();
        text.lines().skip(1).map(seed).collect()
    };
    assert_eq!(seeds("runs.csv"), [3, 4, 5, 6, 7]);
    assert!(seeds("hosts.csv").is_sorted());
    let hashes: std::collections::BTreeSet<String> = report
        .summary
        .runs
        .iter()
        .map(|run| format!("{:?}", run.get("trace_hash")))
        .collect();
    assert_eq!(hashes.len(), 5, "every seed is another world");
}

/// Fails in the middle of seed 4.
struct PowerCut;

impl Watch for PowerCut {
    fn progress(&self, seed: u64, percent: u16) {
        assert!(
            (seed, percent) != (4, 50),
            "on purpose: the run is interrupted"
        );
    }
}

#[test]
fn an_interrupted_run_leaves_earlier_results_and_running_again_is_as_if_it_had_not_been() {
    let directory = Directory::new("torn");
    let earlier = parse(&BUSY.replace("40/s", "20/s"));
    run_into(&earlier, 1, Some(&directory));
    let before = directory.files();

    let scenario = parse(BUSY);
    let options = RunOptions {
        seeds: scenario.seeds(),
        jobs: 1,
        out: Some(directory.0.clone()),
    };
    let torn = catch_unwind(AssertUnwindSafe(|| run(&scenario, &options, &PowerCut)));
    assert!(torn.is_err());
    let (partial, whole): (Vec<_>, Vec<_>) = directory
        .files()
        .into_iter()
        .partition(|(name, _)| name.ends_with(".partial"));
    assert!(partial.iter().any(|(name, _)| name == "runs.csv.partial"));
    assert_eq!(whole.into_iter().collect::<BTreeMap<_, _>>(), before);

    run_into(&scenario, 2, Some(&directory));
    let clean = Directory::new("clean");
    run_into(&scenario, 2, Some(&clean));
    assert_eq!(directory.files(), clean.files());

    // Without a capture, the earlier one does not stay as if it belonged to the results.
    let text = BUSY.replace("[capture]\nlinks = \"host 0\"\npackets_max = 50", "");
    run_into(&parse(&text), 2, Some(&directory));
    assert!(
        directory
            .files()
            .keys()
            .all(|name| !name.ends_with(".pcap"))
    );
}

#[test]
fn the_error_is_that_of_the_lowest_seed() {
    let text = |seeds: &str| {
        format!(
            "duration = \"1 s\"\nseeds = \"{seeds}\"\n[network]\nkind = \"random\"\nsize = 5\nedges = 6\nlink = {{ bandwidth = \"unlimited\", delay = \
             \"1 ms\" }}\n[protocol]\nname = \"flood\"\n[[change]]\nat = \"500 ms\"\ndown = \"1-2\"\n"
        )
    };
    // A random network has this link with some seeds only.
    let parsed = |start: u64| {
        Scenario::parse(
            Path::new("s.toml"),
            &text(&format!("{start}..{}", start + 20)),
            &[],
        )
        .ok()
    };
    let scenario = (0..100).find_map(parsed).expect("a network with the link");
    let wrong = scenario
        .seeds()
        .find(|seed| scenario.outline(*seed).is_err())
        .expect("one without");
    for jobs in [1, 4] {
        let options = RunOptions {
            seeds: scenario.seeds(),
            jobs,
            out: None,
        };
        match run(&scenario, &options, &Silent) {
            Err(RunError::Scenario { seed, error }) => {
                assert_eq!(seed, wrong);
                assert!(
                    error.to_string().contains("there is no link 1-2"),
                    "{error}"
                );
                assert_eq!(error.place().map(ErrorSpan::line), Some(12));
            }
            other => panic!("{:?}", other.map(|report| report.summary)),
        }
    }
}

/// Deliveries of `host` in each window of one second.
fn windows(report: &Directory, host: u64) -> Vec<u64> {
    let text = String::from_utf8(report.files()["windows.csv"].clone()).unwrap();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let heading = fields(text.lines().next().unwrap());
    let column = |name: &str| heading.iter().position(|it| it == name).unwrap();
    text.lines()
        .skip(1)
        .map(fields)
        .filter(|line| line[column("host")] == host.to_string())
        .map(|line| line[column("delivered")].parse().unwrap())
        .collect()
}

/// A star of four hosts that costs nothing; host 1 sends.
fn star(rest: &str) -> Scenario {
    parse(&format!(
        "duration = \"8 s\"\nwarm_up = \"2 s\"\n[network]\nkind = \"star\"\nsize = 4\nlink = {{ bandwidth = \"unlimited\", delay = \"5 ms\", framing = \
         \"none\" }}\n[hosts]\nmodel = \"free\"\n[measure]\nwindow = \"1 s\"\n[protocol]\nname = \"flood\"\n[[source]]\nhosts = 1\nrate = \
         \"100/s\"\nsize = 50\n{rest}"
    ))
}

#[track_caller]
fn number(report: &RunReport, column: &str) -> f64 {
    let run = &report.summary.runs[0];
    run.get(column).and_then(Cell::number).expect(column)
}

#[test]
fn latency_is_that_of_the_path() {
    let report = run_into(&star(""), 1, None);
    // Two links of 5 ms from rim to rim; one to the middle; nothing to the sender itself.
    assert_eq!(number(&report, "latency_max_s"), 0.010);
    assert!((number(&report, "latency_mean_s") - (0.010 + 0.010 + 0.005 + 0.0) / 4.0).abs() < 1e-4);
    assert_eq!(number(&report, "missing"), 0.0);
    assert_eq!(number(&report, "hosts"), 4.0);
    assert!((number(&report, "throughput_slowest") - 100.0).abs() < 0.5);
}

#[test]
fn changes_change_what_they_say() {
    // The windows begin at 2, 3, … 7 s. A message takes 10 ms, so the second in which something
    // changes is not exact.
    let cases = [
        ("down = \"0-3\"", "up = \"0-3\"", 3, 2),
        ("silence = 0", "sound = 0", 3, 3),
        ("part = 3", "join = 3", 3, 2),
        ("cut = [[0, 1, 2], [3]]", "heal = true", 3, 2),
        ("crash = 3", "start = 3", 3, 2),
        ("link = \"0>3\"\nloss = 1", "link = \"0>3\"\nloss = 0", 3, 2),
    ];
    for (change, undo, host, same_as) in cases {
        let directory = Directory::new(&format!("change-{}", &change[..4]));
        let rest =
            format!("[[change]]\nat = \"4 s\"\n{change}\n[[change]]\nat = \"6 s\"\n{undo}\n");
        run_into(&star(&rest), 1, Some(&directory));
        let seen = windows(&directory, host);
        // What is delivered in the very last instant begins a window of no length.
        assert!((6..=7).contains(&seen.len()), "{change}: {seen:?}");
        assert!(seen[0] >= 98 && seen[1] >= 98, "{change}: {seen:?}");
        assert!(seen[2] <= 2 && seen[3] == 0, "{change}: {seen:?}");
        assert!(seen[5] >= 98, "{change}: {seen:?}");
        // Somebody else does not notice, unless the source itself is silent.
        let other = windows(&directory, same_as);
        let undisturbed = other[..6]
            .iter()
            .all(|delivered| (98..=102).contains(delivered));
        assert_eq!(undisturbed, same_as != host, "{change}: {other:?}");
    }
}

#[test]
fn a_run_says_how_often_its_group_changed() {
    let ring = |changes: &str| {
        format!(
            "duration = \"3 s\"\nwarm_up = \"1 s\"\n[network]\nkind = \"switch\"\nhosts = 3\n\
             link = {{ bandwidth = \"100 Mb/s\", delay = \"10 us\" }}\n[protocol]\nname = \"ring\"\n{changes}"
        )
    };
    let calm = run_into(&parse(&ring("")), 1, None);
    assert_eq!(number(&calm, "configurations_max"), 0.0);
    let crash = ring("[[change]]\nat = \"2 s\"\ncrash = 2\n");
    let crash = run_into(&parse(&crash), 1, None);
    assert_eq!(number(&crash, "configurations_max"), 1.0);
    let flood = run_into(&star(""), 1, None);
    assert_eq!(
        flood.summary.runs[0].get("configurations_max"),
        Some(&Cell::None)
    );
}

#[test]
fn links_that_are_called_alike_are_captured_each() {
    let (edges, out) = (Directory::new("edges"), Directory::new("alike"));
    fs::create_dir(&edges.0).unwrap();
    let list = edges.0.join("alike.edges");
    fs::write(&list, "a-b c\na_b c\na_b c\n").unwrap();
    let scenario = parse(&format!(
        "duration = \"1 s\"\n[network]\nkind = \"edges\"\nfile = {list:?}\n\
         link = {{ bandwidth = \"1 Mb/s\", delay = \"1 ms\" }}\n[protocol]\nname = \"flood\"\n\
         [[source]]\nhosts = 0\nrate = \"10/s\"\nsize = 50\n[capture]\nlinks = \"all\"\n"
    ));
    run_into(&scenario, 1, Some(&out));
    let files = out.files();
    let captures = files.keys().filter(|name| name.ends_with(".pcap"));
    let expected = [
        "1.a_b-c.2.pcap",
        "1.a_b-c.3.pcap",
        "1.a_b-c.pcap",
        "1.c-a_b.2.pcap",
        "1.c-a_b.3.pcap",
        "1.c-a_b.pcap",
    ];
    assert!(captures.eq(expected.iter()), "{:?}", files.keys());
    assert!(files.contains_key("summary.json"));
}

#[test]
fn answers_follow_what_they_answer() {
    let rest = "[[source]]\nhosts = 2\narrivals = \"reply\"\nto = 1\nsize = 30\n";
    let report = run_into(&star(rest), 1, None);
    let submitted = number(&report, "submitted");
    assert!(
        (1195.0..=1205.0).contains(&submitted),
        "{submitted}: one answer a message"
    );
}

/// The lines of a file, without the heading, as columns.
fn lines(report: &Directory, name: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8(report.files()[name].clone()).unwrap();
    let columns = |line: &str| line.split(',').map(ToOwned::to_owned).collect();
    text.lines().skip(1).map(columns).collect()
}

#[test]
fn a_flow_shares_a_link_with_a_transfer_and_its_hosts_take_no_part() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("examples/scenarios/shared.toml");
    let scenario = Scenario::read(&path, &["source.0.size=2000000".to_owned()]).unwrap();
    let out = Directory::new("flow");
    run_into(&scenario, 1, Some(&out));
    let flows = lines(&out, "flows.csv");
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0][1..5], ["0", "cubic", "1", "4"]);
    let goodput: f64 = flows[0][6].parse().unwrap();
    assert!(
        (0.0..100e6).contains(&goodput) && goodput > 0.0,
        "{goodput}"
    );
    for kind in lines(&out, "packets.csv") {
        assert!(!["1", "4"].contains(&kind[1].as_str()), "{kind:?}");
    }
    let delivered: Vec<u64> = lines(&out, "hosts.csv")
        .iter()
        .map(|host| host[5].parse().unwrap())
        .collect();
    assert!(delivered[2] > 0 && delivered[3] > 0, "{delivered:?}");
    assert_eq!((delivered[1], delivered[4]), (0, 0));
}

#[test]
fn a_flow_needs_two_hosts() {
    let wrong = |keys: &str| {
        let text = format!("{FLOW}{keys}");
        Scenario::parse(Path::new("s.toml"), &text, &[])
            .unwrap_err()
            .to_string()
    };
    let itself = wrong("from = 1\nto = 1\n");
    assert!(itself.contains("from host 1 to itself"), "{itself}");
    let uneven = wrong("from = [0, 1]\nto = 2\n");
    assert!(uneven.contains("2 flows cannot end at 1 hosts"), "{uneven}");
    let never = wrong("from = 0\nto = 1\nstop = \"0 s\"\n");
    assert!(never.contains("not after `start`"), "{never}");
}

/// A scenario to which a flow is to be added.
const FLOW: &str = r#"
duration = "1 s"
[network]
kind = "switch"
hosts = 3
link = { bandwidth = "1 Gb/s", delay = "5 us" }
[protocol]
name = "bulk"
[[flow]]
"#;

#[test]
fn every_example_is_right_and_every_column_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut examples = 0;
    for entry in fs::read_dir(root.join("examples/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            examples += 1;
            if let Err(error) = Scenario::read(&path, &[]) {
                panic!("{}: {error}", path.display());
            }
        }
    }
    assert!(examples >= 5, "{examples} examples");

    let document = fs::read_to_string(root.join("docs/scenarios.md")).unwrap();
    let directory = Directory::new("columns");
    run_into(&parse(BUSY), 2, Some(&directory));
    for (name, content) in directory.files() {
        let Some(heading) = name
            .ends_with(".csv")
            .then(|| content.split(|byte| *byte == b'\n').next().unwrap())
        else {
            continue;
        };
        for column in std::str::from_utf8(heading).unwrap().split(',') {
            assert!(
                document.contains(&format!("`{column}`")),
                "{name}: {column} is not in docs/scenarios.md"
            );
        }
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
}

/// Losses on every link; `protocol` is a `[protocol]` table.
fn lossy(protocol: &str) -> String {
    format!(
        r#"
duration = "12 s"
[network]
kind = "star"
size = 7
link = {{ bandwidth = "10 Mb/s", delay = "2 ms", loss = "3 %" }}
{protocol}
[[source]]
hosts = 1
rate = "50/s"
size = 200
start = "2 s"
stop = "8 s"
"#
    )
}

#[test]
fn families_that_report_gaps_repair_what_links_lose_and_keep_their_contract() {
    let mut protocols = vec![
        "[protocol]\nname = \"gossip\"\nvariant = \"local\"\nacquainted = 3\nsub_gsize = 2".to_owned(),
        "[protocol]\nname = \"gossip\"\npreset = \"paper\"\nbufferers = 3\nacquainted = 9\ntrees = 4\narity = 2"
            .to_owned(),
    ];
    for family in FAMILIES.iter().filter(|it| it.contract == Contract::Gapped) {
        for preset in family.settings.iter().flat_map(FamilySettings::presets) {
            protocols.push(format!(
                "[protocol]\nname = \"{}\"\npreset = \"{}\"\nacquainted = 9",
                family.name, preset.name
            ));
        }
    }
    for protocol in protocols {
        let out = Directory::new("gapped");
        let report = run_into(&parse(&lossy(&protocol)), 1, Some(&out));
        assert_eq!(report.broken, [], "{protocol}");
        let kinds = String::from_utf8(out.files()["packets.csv"].clone()).unwrap();
        let repairs = kinds.lines().any(|line| line.contains(",repair,"));
        assert!(repairs, "{protocol}\n{kinds}");
    }
}

#[test]
fn a_setting_of_gossip_that_cannot_work_is_named_at_its_place() {
    let text = lossy("[protocol]\nname = \"gossip\"\nthreshold = 0");
    let Err(error) = Scenario::parse(Path::new("s.toml"), &text, &[]) else {
        panic!("it is accepted");
    };
    assert!(error.to_string().contains("threshold"), "{error}");
    assert!(error.place().is_some());
}

/// Bytes between the two clusters of the example, where half of everything between them is lost,
/// and messages that some host did not deliver, of 126,400.
fn between_clusters(settings: &[&str]) -> (u64, u64) {
    let example = "../../examples/scenarios/gossip-zones.toml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(example);
    let shorter = [
        "seeds=1..3",
        "duration=14 s",
        "warm_up=5 s",
        "source.0.start=4 s",
        "source.0.stop=12 s",
    ];
    let settings = [&shorter, settings].concat();
    let settings: Vec<String> = settings.into_iter().map(str::to_owned).collect();
    let scenario = Scenario::read(&path, &settings).unwrap();
    let out = Directory::new(&format!("zones-{}", settings.len()));
    let report = run_into(&scenario, 1, Some(&out));
    assert_eq!(report.broken, []);
    let files = out.files();
    let sum = |file: &str, column: &str, admits: &dyn Fn(&str) -> bool| -> u64 {
        let text = std::str::from_utf8(&files[file]).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let at = header.iter().position(|name| *name == column).unwrap();
        let of_interest = lines.filter(|line| admits(line[1]));
        of_interest
            .map(|line| line[at].parse::<u64>().unwrap())
            .sum()
    };
    let between = sum("links.csv", "bytes", &|link| {
        link == "0>40" || link == "40>0"
    });
    (between, sum("hosts.csv", "missing", &|_| true))
}

#[test]
fn a_hierarchy_halves_what_crosses_between_clusters_and_loses_no_more() {
    let (flat, missed) = between_clusters(&["protocol.zones=1"]);
    let (zoned, missing) = between_clusters(&[]);
    assert!(zoned * 2 <= flat, "{zoned} beside {flat} bytes");
    // Within what chance makes of a few messages.
    assert!(missing <= missed + 8, "{missing} beside {missed}");
}

#[test]
fn links_of_zones_that_are_not_there_are_refused() {
    let text = lossy("[protocol]\nname = \"gossip\"\nlinks = 3");
    let Err(error) = Scenario::parse(Path::new("s.toml"), &text, &[]) else {
        panic!("it is accepted");
    };
    assert!(error.to_string().contains("links"), "{error}");
}
