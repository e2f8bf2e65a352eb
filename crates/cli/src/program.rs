//! Checks of commands that are named long before they are run.

use std::ffi::OsStr;
use std::path::Path;

use groupcast_core::text::printable;

use crate::failure::{Failure, tell};

/// Warns if there is no `program` for running in `directory`. That is no error: it may be there
/// when it is needed. One without a name never is.
pub(crate) fn doubt(program: &OsStr, directory: &Path) -> Result<(), Failure> {
    if program.is_empty() {
        return Err(unnamed());
    }
    if !is_there(program, directory, std::env::var_os("PATH").as_deref()) {
        let name = printable(program.as_encoded_bytes());
        tell(format_args!(
            "warning: there is no command `{name}`: unless it comes, it fails each time that it is to be run"
        ));
    }
    Ok(())
}

/// The failure of a command whose --exec names none.
pub(crate) fn unnamed() -> Failure {
    Failure::usage("--exec needs a command: its name is empty")
}

fn is_there(program: &OsStr, directory: &Path, path: Option<&OsStr>) -> bool {
    match program.as_encoded_bytes().contains(&b'/') {
        true => directory.join(program).is_file(),
        false => std::env::split_paths(path.unwrap_or_default())
            .any(|place| place.join(program).is_file()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_on_the_path_and_a_path_from_the_directory() {
        let has = |program: &str, directory: &str, path: &str| {
            is_there(program.as_ref(), directory.as_ref(), Some(path.as_ref()))
        };
        assert!(has("sh", "/", "/no/such:/bin"));
        assert!(!has("sh", "/bin", "/no/such"));
        assert!(has("./sh", "/bin", "") && has("/bin/sh", "/no/such", ""));
        assert!(!has("./sh", "/no/such", "/bin"));
    }
}
