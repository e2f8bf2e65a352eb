//! What the steps need from the machine: installed by name where that is possible, named where it
//! is not.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program that a step calls, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

/// What the live tests call: network namespaces, packet filters, captures.
const LIVE: &[Tool] = &[
    Tool {
        program: "ip",
        package: "iproute2",
    },
    Tool {
        program: "nft",
        package: "nftables",
    },
    Tool {
        program: "tcpdump",
        package: "tcpdump",
    },
];

/// What every build calls: the cryptography is C.
const BUILD: &[Tool] = &[Tool {
    program: "cc",
    package: "gcc",
}];

/// What tests of the bus in other languages call. Without one of them, its test is skipped.
const LANGUAGES: &[Tool] = &[
    Tool {
        program: "nc",
        package: "netcat-openbsd",
    },
    Tool {
        program: "make",
        package: "make",
    },
    Tool {
        program: "pkg-config",
        package: "pkg-config",
    },
    Tool {
        program: "c++",
        package: "g++",
    },
    Tool {
        program: "valgrind",
        package: "valgrind",
    },
    Tool {
        program: "python3",
        package: "python3",
    },
    Tool {
        program: "sbcl",
        package: "sbcl",
    },
    Tool {
        program: "node",
        package: "nodejs",
    },
    Tool {
        program: "bash",
        package: "bash",
    },
];

/// What counting instructions calls.
const COUNTER: &[Tool] = &[Tool {
    program: "valgrind",
    package: "valgrind",
}];

/// What measuring other systems beside the ring calls: Corosync, and what JGroups needs.
const PEERS: &[Tool] = &[
    Tool {
        program: "corosync",
        package: "corosync",
    },
    Tool {
        program: "javac",
        package: "default-jdk-headless",
    },
    Tool {
        program: "mvn",
        package: "maven",
    },
];

/// Corosync's clients need this file of a package without programs.
const CPG_HEADER: (&str, &str) = ("/usr/include/corosync/cpg.h", "libcpg-dev");

/// Installs what tests need.
pub(crate) fn install() -> Result<String, String> {
    let tools: Vec<&Tool> = BUILD.iter().chain(LIVE).collect();
    let note = install_all(&tools)?;
    let languages: Vec<&Tool> = LANGUAGES.iter().collect();
    // Without one of these a test is skipped, and says so.
    Ok(match install_all(&languages) {
        Ok(more) => format!("{note}; for other languages: {more}"),
        Err(_) => format!("{note}; without {}", programs(&missing(LANGUAGES))),
    })
}

/// Installs what counts instructions.
pub(crate) fn install_counter() -> Result<String, String> {
    let tools: Vec<&Tool> = COUNTER.iter().collect();
    install_all(&tools)
}

/// Installs the other systems of Debian's packages, and what those of other registries need.
pub(crate) fn install_peers() -> Result<String, String> {
    let tools: Vec<&Tool> = PEERS.iter().collect();
    let installed = install_all(&tools)?;
    let (header, package) = CPG_HEADER;
    if !PathBuf::from(header).is_file() {
        apt(&["install", "-y", "-qq", "--no-install-recommends", package])?;
    }
    Ok(installed)
}

/// Installs what is missing of `tools`, if this is root on a Debian; fails with the names of what
/// still is.
fn install_all(tools: &[&Tool]) -> Result<String, String> {
    let missing = missing(tools.iter().copied());
    if missing.is_empty() {
        return Ok("nothing to install".into());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let list = packages.join(" ");
    if !is_root() || found("apt-get").is_none() {
        return Err(format!(
            "install these packages (Debian's names) and try again: {list}"
        ));
    }
    // The lists of a fresh machine are empty or old; a mirror that does not answer shows in the
    // installation.
    let _ = apt(&["update", "-qq"]);
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(&packages);
    apt(&install)?;
    match self::missing(tools.iter().copied()).as_slice() {
        [] => Ok(format!("installed {list}")),
        still => Err(format!(
            "still missing after the installation: {}",
            programs(still)
        )),
    }
}

/// Why the live tests cannot run on this machine; `None` if they can.
pub(crate) fn live_obstacle() -> Option<String> {
    if !is_root() {
        return Some("network namespaces need root".into());
    }
    let missing = missing(LIVE);
    if !missing.is_empty() {
        return Some(format!("missing: {}", programs(&missing)));
    }
    let name = format!("gc-probe-{}", std::process::id());
    if !quiet("ip", &["netns", "add", &name]) {
        return Some("this kernel or container forbids network namespaces".into());
    }
    quiet("ip", &["netns", "del", &name]);
    None
}

/// Whether `program` can be called.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(sbin)
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

fn missing<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<&'a Tool> {
    tools
        .into_iter()
        .filter(|tool| found(tool.program).is_none())
        .collect()
}

fn programs(tools: &[&Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.program).collect();
    names.join(", ")
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt(args: &[&str]) -> Result<(), String> {
    let line = format!("apt-get {}", args.join(" "));
    println!("$ {line}");
    let status = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{line}`: {status}"))
    }
}

fn quiet(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_only_if_they_are_there() {
        assert!(found("sh").is_some());
        assert!(found("no-such-program-here").is_none());
        let tools = [
            Tool {
                program: "sh",
                package: "dash",
            },
            Tool {
                program: "no-such-program-here",
                package: "none",
            },
        ];
        assert_eq!(programs(&missing(&tools)), "no-such-program-here");
    }
}
