//! The Python packages: an environment of their own under the target directory, their checks, the
//! tests of the lab's and of the applications at the bus.
//!
//! The environment is made once and kept until the interpreter or what the package needs is
//! another. Everything is installed by name from the index that pip is set up for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::exec;
use crate::setup;

/// The package, from the root of the workspace.
const PACKAGE: &str = "bindings/python/groupcast_lab";
/// The module for the bus, which is checked with the same tools; the tests of the command line run
/// it.
const BUS: &str = "bindings/python/groupcast_bus";
/// Applications at the bus, with their own tests and the settings of the same tools.
const APPLICATIONS: &str = "examples/bus/applications";
/// Scripts that show how the lab's is used.
const EXAMPLES: &str = "examples/python";
/// The extras that its tests need.
const EXTRAS: &str = "[dask,test]";
/// The lowest version of Python that it supports.
const VERSION_MIN: (u32, u32) = (3, 10);
/// A small distribution that the installation needs in any case: whether it can be had tells
/// whether there is an index.
const PROBE: &str = "hatchling";
/// How long one command that installs may take.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(300);

/// Why there is no environment.
pub(crate) enum Lack {
    /// The machine lacks what it takes; nobody did anything wrong.
    Absent(String),
    /// It takes no more than what is there, and still it failed.
    Broken(String),
}

/// An environment in which the package is installed, with what its tests need.
pub(crate) struct Environment {
    /// The directory that has it, caches and all.
    home: PathBuf,
}

/// The environment, made if need be.
pub(crate) fn environment() -> Result<Environment, Lack> {
    if setup::found("python3").is_none() {
        return Err(Lack::Absent("there is no python3 here".into()));
    }
    let version = version().map_err(Lack::Absent)?;
    let environment = Environment {
        home: exec::built("python", ""),
    };
    let wanted = environment.wanted(&version).map_err(Lack::Broken)?;
    let made = environment.home.join("made-from");
    if fs::read_to_string(&made).is_ok_and(|made| made == wanted) {
        return Ok(environment);
    }
    environment.make()?;
    fs::write(&made, wanted)
        .map_err(|error| Lack::Broken(format!("cannot write {}: {error}", made.display())))?;
    Ok(environment)
}

impl Environment {
    /// The tests of the package and of the applications, against the `groupcast` of the release
    /// profile.
    pub(crate) fn tests(&self) -> [Command; 2] {
        [PACKAGE, APPLICATIONS].map(|directory| {
            let mut tests = self.python(&["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
            tests.current_dir(exec::root().join(directory));
            tests.env("GROUPCAST", exec::built("release", "groupcast"));
            tests
        })
    }

    /// What else must hold of the source: types, lints, format.
    pub(crate) fn checks(&self) -> [Command; 9] {
        let tool = |package: &str, args: &[&str]| {
            let mut tool = self.python(&["-m"]);
            tool.args(args).current_dir(exec::root().join(package));
            tool
        };
        let ruff = |package: &str, args: &[&str]| {
            let mut ruff = tool(package, &["ruff"]);
            ruff.args(args)
                .args(["--quiet", "--no-cache", "--config", "pyproject.toml", "."]);
            if package == PACKAGE {
                ruff.arg(exec::root().join(EXAMPLES));
            }
            ruff
        };
        [
            tool(PACKAGE, &["mypy"]),
            ruff(PACKAGE, &["check"]),
            ruff(PACKAGE, &["format", "--check"]),
            tool(BUS, &["mypy"]),
            ruff(BUS, &["check"]),
            ruff(BUS, &["format", "--check"]),
            tool(APPLICATIONS, &["mypy"]),
            ruff(APPLICATIONS, &["check"]),
            ruff(APPLICATIONS, &["format", "--check"]),
        ]
    }

    /// A call of the environment's interpreter in the package's directory. Nothing is written but
    /// into `home`.
    fn python(&self, args: &[&str]) -> Command {
        let mut python = exec::command(self.home.join("venv/bin/python"), args);
        python.current_dir(exec::root().join(PACKAGE));
        for (variable, folder) in [
            ("PYTHONPYCACHEPREFIX", "bytecode"),
            ("MYPY_CACHE_DIR", "mypy"),
            ("MPLCONFIGDIR", "matplotlib"),
            ("DASK_TEMPORARY_DIRECTORY", "dask"),
        ] {
            python.env(variable, self.home.join(folder));
        }
        python
    }

    /// What the environment depends on, as text: with another, it is made anew.
    fn wanted(&self, version: &str) -> Result<String, String> {
        let package = exec::root().join(PACKAGE);
        let project = fs::read_to_string(package.join("pyproject.toml"))
            .map_err(|error| format!("cannot read {PACKAGE}/pyproject.toml: {error}"))?;
        Ok(format!(
            "Python {version}\n{}{EXTRAS}\n{}\n{project}",
            package.display(),
            self.home.display()
        ))
    }

    fn make(&self) -> Result<(), Lack> {
        // A stamp of an earlier environment must not outlive it if this fails half way.
        let _ = fs::remove_file(self.home.join("made-from"));
        let venv = self.home.join("venv");
        let create = exec::command("python3", ["-m", "venv", "--clear", &path(&venv)]);
        installed(create).map_err(|_| {
            Lack::Absent("python3 makes no environment (Debian's package: python3-venv)".into())
        })?;
        let probe = self.home.join("probe");
        let download = self.pip(&[
            "download",
            "--no-deps",
            "--retries",
            "2",
            "--dest",
            &path(&probe),
            PROBE,
        ]);
        installed(download)
            .map_err(|_| Lack::Absent("no index of Python packages answers".into()))?;
        let package = format!("{}{EXTRAS}", exec::root().join(PACKAGE).display());
        installed(self.pip(&["install", "--editable", &package])).map_err(Lack::Broken)
    }

    fn pip(&self, args: &[&str]) -> Command {
        let mut pip = self.python(&["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        pip.args(args);
        pip
    }
}

/// The version of `python3`, if the package supports it.
fn version() -> Result<String, String> {
    let output = Command::new("python3")
        .args(["-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"])
        .output()
        .map_err(|error| format!("cannot run python3: {error}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if is_supported(&version) {
        Ok(version)
    } else {
        let (major, minor) = VERSION_MIN;
        Err(format!(
            "python3 is `{version}`; the package needs {major}.{minor}"
        ))
    }
}

fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => (major, minor) >= VERSION_MIN,
        _ => false,
    }
}

fn installed(command: Command) -> Result<(), String> {
    exec::run(command, INSTALL_TIME_MAX)
        .error
        .map_or(Ok(()), Err)
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["3.10.0", "3.11.7", "4.0.0"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["3.9.18", "2.7.18", "", "3", "three.ten"] {
            assert!(!is_supported(version), "{version}");
        }
    }

    #[test]
    fn the_package_supports_what_it_is_tested_with() {
        let project = exec::root().join(PACKAGE).join("pyproject.toml");
        let project = fs::read_to_string(project).expect("the package has a pyproject.toml");
        let (major, minor) = VERSION_MIN;
        assert!(project.contains(&format!("requires-python = \">={major}.{minor}\"")));
        assert!(project.contains(PROBE));
    }
}
