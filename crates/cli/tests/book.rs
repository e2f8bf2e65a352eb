//! README and the book: every command in them is one that the programs understand, the tour of the
//! README works as it is written, and every file that they name is there.
//!
//! Method: the fenced blocks without a language, or with `sh`, are read line by line. A `groupcast`
//! command is given to the program with `--help` at its end, so that names and values are read and
//! nothing runs. A synopsis, which has brackets or words in capitals for values, is compared with
//! the help. Of `cargo` commands, packages, examples, tests, tasks and options must exist: to run
//! them is what `cargo xtask test` does, or takes root, other hosts or hours.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::host::Host;

/// Where the sources of the tasks say which options they take.
const TASKS: [&str; 4] = [
    "xtask/src",
    "suite/src/bin",
    "crates/bench/src/bin",
    "crates/cli/src/bench",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README, book and what else stands beside them, with their paths from the root.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let folders = [
        "",
        "docs",
        "docs/adr",
        "bindings/python/groupcast_bus",
        "bindings/python/groupcast_lab",
        "examples/bus/applications",
    ];
    for folder in folders {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = PathBuf::from(entry.unwrap().file_name());
            if name.extension().is_some_and(|extension| extension == "md") {
                paths.push(Path::new(folder).join(name));
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// The lines of the blocks of commands on a page; a line that ends with a backslash goes on with
/// the next.
fn commands(page: &str) -> Vec<String> {
    let (mut lines, mut fence, mut going_on) = (Vec::<String>::new(), None, false);
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(matches!(language, "" | "sh")),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => {
                let (part, more) = match line.strip_suffix('\\') {
                    Some(part) => (part, true),
                    None => (line, false),
                };
                match (going_on, lines.last_mut()) {
                    (true, Some(last)) => last.push_str(part),
                    _ => lines.push(part.to_owned()),
                }
                going_on = more;
            }
            (None, _) => {}
        }
    }
    lines
}

/// The words of the command `program` in a line of a shell, if there is one: up to a comment, a
/// pipe, a redirection.
fn words_of(line: &str, program: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default();
    let mut segments = line.split('|').map(str::trim);
    let command = segments.find(|segment| segment.split(' ').next() == Some(program))?;
    let ends = |word: &&str| !matches!(*word, "&" | "&&" | ";") && !word.contains(['>', '<']);
    let words = command.split_whitespace().skip(1).take_while(ends);
    // A variable of a shell's loop stands for a digit of a port or a name.
    Some(
        words
            .map(|word| word.replace(['\'', '"'], "").replace("$n", "1"))
            .collect(),
    )
}

/// Whether the words are the form of a command, not one to type.
fn is_synopsis(words: &[String]) -> bool {
    let stands_for_more = |word: &String| {
        word.contains(['[', ']'])
            || word.contains("...")
            || word.chars().all(|c| c.is_ascii_uppercase())
    };
    words.iter().any(stands_for_more)
}

/// The options among the words, without brackets and values.
fn options(words: &[String]) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    words.iter().filter_map(move |word| {
        let word = word.trim_start_matches('[');
        let end = word.find(|c| !is_name(c)).unwrap_or(word.len());
        word[..end].starts_with("--").then(|| &word[..end])
    })
}

fn groupcast(words: &[&str]) -> Result<String, String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_groupcast"));
    let output = program.args(words).stdin(Stdio::null()).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn every_command_of_ours_is_understood() {
    let mut understood = 0;
    for (path, page) in pages() {
        for line in commands(&page) {
            let Some(words) = words_of(&line, "groupcast") else {
                continue;
            };
            let asked: Vec<&str> = if is_synopsis(&words) {
                let names = words.iter().map(String::as_str);
                names
                    .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
                    .collect()
            } else {
                words.iter().map(String::as_str).collect()
            };
            // What stands behind `--exec` is another program's.
            let own = asked.iter().take_while(|word| **word != "--exec");
            let help: Vec<&str> = own.copied().chain(["--help"]).collect();
            let help = groupcast(&help);
            let help = help.unwrap_or_else(|said| panic!("{}: `{line}`: {said}", path.display()));
            for option in options(&words) {
                assert!(
                    help.contains(option),
                    "{}: `{line}`: {option}",
                    path.display()
                );
            }
            understood += 1;
        }
    }
    assert!(understood > 20, "only {understood} commands were found");
}

/// All text of the files in `folder`, folders in it too.
fn texts(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.push_str(&texts(&path)),
            false => all.push_str(&fs::read_to_string(&path).unwrap_or_default()),
        }
    }
    all
}

/// Everything that cargo can be asked for by name: packages, and their examples and tests.
fn targets() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path()).collect();
    folders.push(root().join("suite"));
    for folder in folders {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let named = manifest
            .lines()
            .filter_map(|line| line.strip_prefix("name = "));
        names.extend(named.map(|name| name.trim_matches('"').to_owned()));
        for kind in ["examples", "tests"] {
            for entry in fs::read_dir(folder.join(kind)).into_iter().flatten() {
                let path = entry.unwrap().path();
                names.extend(
                    path.file_stem()
                        .map(|stem| stem.to_string_lossy().into_owned()),
                );
            }
        }
    }
    names
}

#[test]
fn every_command_of_cargo_names_what_there_is() {
    let (targets, mut found) = (targets(), 0);
    let tasks: String = TASKS
        .iter()
        .map(|folder| texts(&root().join(folder)))
        .collect();
    for (path, page) in pages() {
        for line in commands(&page) {
            let Some(words) = words_of(&line, "cargo") else {
                continue;
            };
            found += 1;
            let shown = format!("{}: `{line}`", path.display());
            for pair in words.windows(2) {
                if matches!(
                    &*pair[0],
                    "-p" | "--package" | "--example" | "--test" | "--bin"
                ) {
                    assert!(targets.contains(&pair[1]), "{shown}: {}", pair[1]);
                }
            }
            if words[0] == "xtask" {
                let task = words.get(1).map_or("help", String::as_str);
                assert!(tasks.contains(&format!("\"{task}\"")), "{shown}: {task}");
                for option in options(&words) {
                    assert!(tasks.contains(option), "{shown}: {option}");
                }
            }
        }
    }
    assert!(found > 10, "only {found} commands were found");
}

/// What stands between `open` and `close` in `text`, each time.
fn between<'a>(text: &'a str, open: &str, close: char) -> impl Iterator<Item = &'a str> {
    text.split(open)
        .skip(1)
        .filter_map(move |rest| rest.split(close).next())
}

#[test]
fn every_file_that_is_named_exists() {
    let roots = [
        "crates/",
        "docs/",
        "suite/",
        "examples/",
        "fuzz/",
        "xtask/",
        "bindings/",
        ".ci/",
    ];
    let mut missing = Vec::new();
    for (path, page) in pages() {
        let folder = root().join(&path);
        let folder = folder.parent().unwrap();
        for link in between(&page, "](", ')') {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                missing.push(format!("{}: {link}", path.display()));
            }
        }
        for file in between(&page, "\"examples/", '"') {
            if !root().join("examples").join(file).exists() {
                missing.push(format!("{}: \"examples/{file}\"", path.display()));
            }
        }
        for quoted in page
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2))
        {
            let is_path = roots.iter().any(|root| quoted.starts_with(root))
                && !quoted.contains([' ', '*', '<', '{', '|'])
                && !quoted
                    .chars()
                    .any(|c| c.is_ascii_uppercase() && !quoted.contains('.'));
            let file = quoted.split(':').next().unwrap_or_default();
            // What is made by running something is not in a checkout.
            let is_made = file.contains("/target/") || file.contains("/artifacts/");
            if is_path && !is_made && !root().join(file).exists() {
                missing.push(format!("{}: `{quoted}`", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The blocks of a section of a page: the lines of each.
fn blocks(page: &str, heading: &str) -> Vec<String> {
    let section = page.split(heading).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```").skip(1).step_by(2);
    blocks.map(|block| block.trim().to_owned()).collect()
}

/// Goal: a reader who types the tour of the README gets what it says. Method: its blocks as one
/// script, with a directory and ports of this test's own, without the build; what subscribes goes
/// to the background.
#[test]
fn the_tour_of_the_readme_works() {
    let host = Host::new();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let tour = blocks(&readme, "## Tour: three terminals, one machine");
    let [_build, daemons, subscribers, publishers] = &tour[..] else {
        panic!("{} blocks", tour.len());
    };
    let subscribers: String = subscribers
        .lines()
        .enumerate()
        .map(|(number, line)| format!("{line} > sub-{number} 2> sub-{number}.log &\n"))
        .collect();
    let base = 2_000 + std::process::id() % 1_000;
    let script = format!(
        "trap 'kill $(jobs -p)' EXIT\n{daemons}\n\
         await() {{ for n in $(seq 300); do eval \"$1\" && return; sleep 0.1; done; exit 9; }}\n\
         say() {{ groupcast \"$1\" --socket /tmp/gc-3.sock --json > said; }}\n\
         names() {{ grep -q \"$1\" said; }}\n\
         await 'test -S /tmp/gc-1.sock && test -S /tmp/gc-2.sock && test -S /tmp/gc-3.sock'\n\
         await 'say status; names host-1 && names host-2 && names host-3'\n\
         {subscribers}\
         await 'say groups; names host-1 && names host-2'\n\
         set -e\n{publishers}\nset +e\n\
         await 'test $(wc -l < sub-0) -ge $(wc -l < README.md)'\n\
         await 'test $(grep -c message sub-1) -ge $(wc -l < README.md)'\n"
    )
    .replace("/tmp/", &host.path(""))
    .replace("127.0.0.1:700$n", &format!("127.0.0.1:{base}$n"))
    .replace("239.192.79.1:7000", host.multicast());
    host.write("README.md", &readme);
    let program = Path::new(env!("CARGO_BIN_EXE_groupcast"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(host.path(""))
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", output.status);

    let plain = host.read("sub-0");
    assert!(plain.starts_with("hello, group\n"), "{plain:.100}");
    assert!(plain.contains("# groupcast"), "{plain:.100}");
    let json = host.read("sub-1");
    let texts: Vec<String> = json
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| Some(line["text"].as_str()?.to_owned()))
        .collect();
    let lines: Vec<&str> = plain.lines().collect();
    assert_eq!(texts, lines);
}
