//! `groupcast keygen`: a new key for a cluster, in a file that only its owner can read.

use std::path::PathBuf;
use std::process::ExitCode;

use groupcast_net::Key;
use groupcast_session::rekey::Fingerprint;

use crate::failure::{Failure, tell};

/// Make a key that the daemons of one cluster share.
///
/// The file is new, readable by its owner only, and never overwritten. Copy it to every host of the
/// cluster and start the daemons there with `--key FILE`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to write the key
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes the key.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.file.as_os_str() == "-" {
        return Err(
            Failure::usage("a key is written to a file, never to standard output")
                .help("name a file; ./- is one that is called -"),
        );
    }
    let key = Key::generate(&args.file).map_err(Failure::failed)?;
    tell(format_args!(
        "wrote a new key to {}, fingerprint {}: copy it to every host of the cluster, and start the daemons with --key (as the token of \
         TCP clients: name it as client_token, and copy it to them)",
        args.file.display(),
        Fingerprint(key.fingerprint()),
    ));
    Ok(ExitCode::SUCCESS)
}
