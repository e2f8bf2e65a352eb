//! `groupcast lab` as a script sees it: what is listed, what a run writes, what a comparison finds,
//! what is refused.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::host::Host;
use serde_json::Value;

#[test]
fn every_row_is_listed_with_its_state() {
    let host = Host::new();
    let listed = host.run(&["lab", "list", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let rows: Vec<Value> = listed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 73);
    for row in &rows {
        let run = match row["status"].as_str().unwrap() {
            "pass" | "fail" => true,
            "missing" => false,
            other => panic!("{other}"),
        };
        assert_eq!(row["commit"].is_string(), run, "{row}");
        assert!(
            row["paper"].is_string() && row["finding"].is_string(),
            "{row}"
        );
    }
    // Outside a checkout the program knows the results that it was built with.
    let table = rows.iter().find(|row| row["id"] == "rmp-table4").unwrap();
    assert_eq!(table["status"], "pass");
    let shown = host.run(&["lab", "list"]);
    assert!(shown.stdout.contains("73 rows"), "{}", shown.stdout);
    // They do not stand in for a folder that was named.
    host.run(&["lab", "list", "--kept", "nowhere"])
        .fails_with(1, &["cannot read nowhere"]);
}

#[test]
fn a_folder_that_cannot_be_made_is_told_before_a_row_runs() {
    let host = Host::new();
    std::fs::write(host.path("file"), "").unwrap();
    // Before what is kept is read, too, which comes before the row runs.
    let (out, kept) = (host.path("file/out"), host.path("nowhere"));
    let row = ["lab", "run", "rmp-table5", "--verify", "--kept", &kept];
    host.run(&[&row[..], &["--out", &out]].concat())
        .fails_with(1, &["cannot write into", &out]);
}

#[test]
fn a_run_leaves_data_figures_and_a_verdict() {
    let host = Host::new();
    let ran = host.run(&[
        "lab",
        "run",
        "rmp-table5",
        "--json",
        "--out",
        &host.path("out"),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&line["id"], &line["status"]),
        (&"rmp-table5".into(), &"pass".into())
    );
    assert_eq!(line["differences"], Value::Null);

    let kept: Value = serde_json::from_str(&host.read("out/rmp-table5.json")).unwrap();
    assert_eq!(kept["status"], "pass");
    let csv = host.read("out/rmp-table5-costs.csv");
    assert!(
        csv.contains("unicast (cost)") && csv.contains(",126,45"),
        "{csv}"
    );
    assert!(
        host.read("out/rmp-table5.svg")
            .contains("What multicast saves between sites")
    );
    // The program that draws pictures is there where the whole workspace was built.
    let png = std::fs::read(host.path("out/rmp-table5.png"));
    match Path::new(env!("CARGO_BIN_EXE_groupcast"))
        .with_file_name("groupcast-draw")
        .exists()
    {
        true => assert_eq!(&png.unwrap()[1..4], b"PNG"),
        false => assert!(png.is_err() && ran.stderr.contains("groupcast-draw")),
    }
}

#[test]
fn without_the_program_that_draws_there_are_drawings_and_a_word_about_it() {
    let host = Host::new();
    let alone = host.path("groupcast");
    std::fs::copy(env!("CARGO_BIN_EXE_groupcast"), &alone).unwrap();
    let (out, kept) = (host.path("out"), host.path("kept"));
    let arguments = ["lab", "run", "rmp-table4", "--out", &out, "--kept", &kept];
    // Another test of this process may have begun a program while the copy was open for writing:
    // its child holds it until it has become that program.
    let ran = loop {
        match Command::new(&alone).args(arguments).output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
            ran => break ran.unwrap(),
        }
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("cargo build --release --workspace"), "{said}");
    assert!(host.read("out/rmp-table4.svg").contains("<svg"));
    assert!(!Path::new(&host.path("out/rmp-table4.png")).exists());
}

#[test]
fn a_run_is_compared_with_the_one_that_is_kept() {
    let host = Host::new();
    let (out, kept) = (host.path("out"), host.path("kept"));
    let row = ["lab", "run", "rmp-table4", "--out", &out, "--kept", &kept];
    let with = |option: &str| host.run(&[&row[..], &[option]].concat());
    with("--verify").fails_with(1, &["no run of `rmp-table4` on calc is kept"]);
    assert_eq!(with("--keep").code, 0);
    assert!(host.read("kept/README.md").contains("rmp-table4.svg"));
    let same = with("--verify");
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(same.stdout.contains("as kept"), "{}", same.stdout);

    // The kept result is changed by hand.
    let path = host.path("kept/rmp-table4.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let better = text.replace("38.0,16.0", "38.0,13.0");
    assert_ne!(better, text);
    std::fs::write(&path, better).unwrap();
    let differs = with("--verify");
    assert_eq!(differs.code, 1);
    assert!(
        differs.stdout.contains("table `costs`: 1 rows differ"),
        "{}",
        differs.stdout
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let host = Host::new();
    let refused = |arguments: &[&str], words: &[&str]| {
        host.run(&[&["lab", "run"], arguments].concat())
            .fails_with(2, words);
    };
    refused(&["rmp-table9"], &["no row `rmp-table9`", "rmp-table4"]);
    refused(
        &["rmp-table4", "--host", "net"],
        &["does not run on net", "it runs on calc"],
    );
    refused(&["rmp-table4", "--host", "moon"], &["calc, sim, net"]);
    refused(&["rmp-table4", "--seeds", "5..5"], &["1..6"]);
    refused(
        &["rmp-table4", "--seeds", "1..3", "--verify"],
        &["cannot be used with"],
    );
    refused(
        &["rmp-table4", "--quick", "--keep"],
        &["cannot be used with"],
    );
    refused(&[], &["<ID>"]);
}
