//! `groupcast completions` and `groupcast man`: the command line told to shells and to `man`, as
//! clap knows it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::failure::{Failure, printed};

/// Print the completions of a shell for this program.
///
/// For bash: put them into `~/.local/share/bash-completion/completions/groupcast`. For zsh: into a
/// file `_groupcast` in a directory of `$fpath`. For fish: into
/// `~/.config/fish/completions/groupcast.fish`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that they are for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions of `command`.
pub(crate) fn completions(
    args: &CompletionsArgs,
    mut command: clap::Command,
) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "groupcast", &mut text);
    printed(anstream::stdout().lock().write_all(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Write manual pages for `man`, one for each command.
///
/// `groupcast.1`, `groupcast-send.1` and so on, into a directory that is made if it is not there.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The directory, for example ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages of `command`.
pub(crate) fn man(args: &ManArgs, command: clap::Command) -> Result<ExitCode, Failure> {
    let directory = &args.directory;
    let written =
        fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
    written.map_err(|error| {
        let place = directory.display();
        Failure::failed(format!("cannot write manual pages into {place}: {error}"))
    })?;
    Ok(ExitCode::SUCCESS)
}
