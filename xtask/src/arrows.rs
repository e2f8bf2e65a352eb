//! Which crate may name which: the arrows of ARCHITECTURE.md, held.
//!
//! The compiler refuses a cycle; this refuses a short cut. What `cargo metadata` says of each crate
//! of the workspace is compared with [`RULES`]; a crate without a rule is refused too, so that a
//! new crate comes with its arrows. The table of ARCHITECTURE.md says the same as the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::exec;

/// What one crate may depend on, among ours.
struct Rule {
    name: &'static str,
    /// What users of the crate get with it.
    may: &'static [&'static str],
    /// What its own tests and benches may use besides.
    may_in_tests: &'static [&'static str],
}

const fn rule(name: &'static str, may: &'static [&'static str]) -> Rule {
    Rule {
        name,
        may,
        may_in_tests: &[],
    }
}

/// Everything but the command line and the suites: what the top of the workspace may use.
const LIBRARIES: &[&str] = &[
    "groupcast-core",
    "groupcast-protocols",
    "groupcast-check",
    "groupcast-sim",
    "groupcast-session",
    "groupcast-net",
    "groupcast-client",
    "groupcast-daemon",
    "groupcast-bench",
    "groupcast-lab",
    "groupcast-lmbl",
    "groupcast-tls",
    "groupcast-transfer",
    // Programs of the suite are in groups without a daemon.
    "groupcast-member",
    "groupcast-groups",
];

const RULES: &[Rule] = &[
    rule("groupcast-core", &[]),
    Rule {
        name: "groupcast-protocols",
        may: &["groupcast-core"],
        may_in_tests: &["groupcast-check", "groupcast-sim"],
    },
    rule("groupcast-check", &["groupcast-core"]),
    Rule {
        name: "groupcast-session",
        may: &["groupcast-core", "groupcast-lmbl"],
        may_in_tests: &["groupcast-check"],
    },
    // A crate of its own, so that a library in another language can have it and nothing else.
    rule("groupcast-lmbl", &[]),
    // What programs in C link: the lists and a socket, nothing of the daemon.
    rule("groupcast-c", &["groupcast-lmbl"]),
    rule("groupcast-net", &["groupcast-core"]),
    rule("groupcast-sim", &["groupcast-core", "groupcast-check"]),
    rule("groupcast-tls", &[]),
    rule(
        "groupcast-client",
        &["groupcast-core", "groupcast-session", "groupcast-tls"],
    ),
    // The daemon writes histories, so it knows their format.
    rule(
        "groupcast-daemon",
        &[
            "groupcast-core",
            "groupcast-check",
            "groupcast-net",
            "groupcast-protocols",
            "groupcast-session",
            "groupcast-tls",
        ],
    ),
    // A crate of its own, so that a program can have a member and leave daemon, clients and groups
    // out.
    rule(
        "groupcast-member",
        &["groupcast-core", "groupcast-net", "groupcast-protocols"],
    ),
    // A crate of its own, so that a member can be had without groups.
    rule(
        "groupcast-groups",
        &[
            "groupcast-core",
            "groupcast-member",
            "groupcast-net",
            "groupcast-session",
        ],
    ),
    rule(
        "groupcast-transfer",
        &["groupcast-core", "groupcast-net", "groupcast-protocols"],
    ),
    rule(
        "groupcast-bench",
        &[
            "groupcast-core",
            "groupcast-protocols",
            "groupcast-sim",
            "groupcast-session",
            "groupcast-net",
            "groupcast-client",
        ],
    ),
    // What it runs on real sockets is measured by `bench`.
    rule(
        "groupcast-lab",
        &[
            "groupcast-core",
            "groupcast-protocols",
            "groupcast-check",
            "groupcast-sim",
            "groupcast-bench",
        ],
    ),
    // Its tests run programs in C against its daemons.
    Rule {
        name: "groupcast",
        may: LIBRARIES,
        may_in_tests: &["groupcast-c"],
    },
    rule("groupcast-suite", LIBRARIES),
    rule("groupcast-fuzz", &["groupcast-suite"]),
    // The renderer of pictures is nobody's dependency: the laboratory calls it as a program.
    rule("groupcast-draw", &[]),
    rule("xtask", &[]),
];

/// A dependency of one crate of the workspace on another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Arrow {
    from: String,
    to: String,
    /// Used by the crate's tests and benches only.
    in_tests: bool,
}

/// Every breach found, one a line; empty if the arrows hold.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let mut metadata: Command =
        exec::cargo(["metadata", "--no-deps", "--format-version", "1", "--quiet"]);
    let output = metadata
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed: {}", said.trim()));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata is no JSON: {error}"))?;
    let (crates, arrows) = read(&metadata);
    if crates.is_empty() {
        return Err("cargo metadata names no crate".into());
    }
    let map = fs::read_to_string(exec::root().join("ARCHITECTURE.md"))
        .map_err(|error| format!("cannot read ARCHITECTURE.md: {error}"))?;
    let mut found = breaches(&crates, &arrows);
    found.extend(RULES.iter().filter_map(|rule| untold(&map, rule)));
    Ok(found)
}

/// What the code map in `map` should say of the crate of `rule`, and does not.
fn untold(map: &str, rule: &Rule) -> Option<String> {
    let short = |name: &'static str| match name {
        "groupcast" => "cli",
        other => other.trim_start_matches("groupcast-"),
    };
    let sorted = |names: &mut dyn Iterator<Item = &str>| {
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let wanted = match rule.may {
        [] => "nothing of ours".to_owned(),
        LIBRARIES => "everything".to_owned(),
        some => sorted(&mut some.iter().map(|name| short(name))),
    };
    let begins = format!("| `{}` ", short(rule.name));
    let row = map.lines().find(|line| line.starts_with(&begins));
    let last = row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
    let told = last.map(|names| {
        // In brackets stands what its tests may use.
        let names = names.split(" (").next().unwrap_or_default();
        sorted(&mut names.split(", "))
    });
    (told.as_ref() != Some(&wanted)).then(|| {
        format!(
            "ARCHITECTURE.md should say of `{}` that it names {wanted}",
            short(rule.name)
        )
    })
}

/// The crates of the workspace and the arrows between them.
fn read(metadata: &Value) -> (BTreeSet<String>, BTreeSet<Arrow>) {
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let crates: BTreeSet<String> = packages
        .iter()
        .filter_map(|package| package["name"].as_str().map(str::to_owned))
        .collect();
    let mut arrows = BTreeSet::new();
    for package in packages {
        let from = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            if crates.contains(to) {
                arrows.insert(Arrow {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    in_tests: dependency["kind"].as_str() == Some("dev"),
                });
            }
        }
    }
    (crates, arrows)
}

fn breaches(crates: &BTreeSet<String>, arrows: &BTreeSet<Arrow>) -> Vec<String> {
    let rules: BTreeMap<&str, &Rule> = RULES.iter().map(|rule| (rule.name, rule)).collect();
    let unruled = crates
        .iter()
        .filter(|name| !rules.contains_key(name.as_str()))
        .map(|name| format!("{name} has no rule: give it one in xtask/src/arrows.rs, with its reason in docs/adr"));
    let forbidden = arrows.iter().filter_map(|arrow| {
        let rule = rules.get(arrow.from.as_str())?;
        let to = arrow.to.as_str();
        let allowed = rule.may.contains(&to) || (arrow.in_tests && rule.may_in_tests.contains(&to));
        let of = if arrow.in_tests { "the tests of " } else { "" };
        (!allowed).then(|| format!("{of}{} must not depend on {to}", arrow.from))
    });
    unruled.chain(forbidden).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Breaches of a workspace in which `from` depends on `to`.
    fn of(from: &str, to: &str, kind: &Value) -> Vec<String> {
        let metadata = json!({"packages": [
            {"name": from, "dependencies": [
                {"name": to, "kind": kind},
                {"name": "bytes", "kind": null},
            ]},
            {"name": to, "dependencies": []},
        ]});
        let (crates, arrows) = read(&metadata);
        breaches(&crates, &arrows)
    }

    #[test]
    fn the_arrows_of_this_workspace_hold() {
        assert_eq!(check(), Ok(Vec::new()));
    }

    #[test]
    fn forbidden_arrows_are_found() {
        for (from, to) in [
            ("groupcast-core", "groupcast-check"),
            ("groupcast-sim", "groupcast-protocols"),
            ("groupcast-net", "groupcast-protocols"),
            ("groupcast-protocols", "groupcast-sim"),
            ("groupcast-protocols", "groupcast-net"),
            ("groupcast-session", "groupcast-net"),
            ("groupcast-check", "groupcast-sim"),
            ("groupcast-client", "groupcast-daemon"),
            ("groupcast-daemon", "groupcast-sim"),
            ("groupcast-bench", "groupcast-lab"),
            ("groupcast-lab", "groupcast"),
        ] {
            assert_eq!(
                of(from, to, &Value::Null),
                [format!("{from} must not depend on {to}")]
            );
        }
    }

    #[test]
    fn tests_may_use_more_than_the_crate_but_not_anything() {
        assert!(of("groupcast-protocols", "groupcast-sim", &json!("dev")).is_empty());
        assert_eq!(
            of("groupcast-protocols", "groupcast-net", &json!("dev")),
            ["the tests of groupcast-protocols must not depend on groupcast-net"]
        );
        assert_eq!(
            of("groupcast-core", "groupcast-sim", &json!("dev")).len(),
            1
        );
        assert_eq!(
            of("groupcast-protocols", "groupcast-sim", &json!("build")).len(),
            1,
            "a build script is no test"
        );
    }

    #[test]
    fn a_map_that_says_something_else_is_found() {
        let rule = rule("groupcast-net", &["groupcast-core", "groupcast-check"]);
        let says = |names: &str| untold(&format!("| `net` | sockets | {names} |\n"), &rule);
        assert_eq!(says("core, check"), None);
        assert_eq!(says("check, core (its tests: sim)"), None);
        let wanted = "ARCHITECTURE.md should say of `net` that it names check, core";
        for wrong in ["core", "nothing of ours", "core, check, sim"] {
            assert_eq!(says(wrong), Some(wanted.to_owned()));
        }
        assert_eq!(untold("", &rule), Some(wanted.to_owned()));
    }

    #[test]
    fn a_crate_without_a_rule_is_refused() {
        let found = of("groupcast-novel", "groupcast-core", &Value::Null);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("groupcast-novel has no rule"));
    }
}
