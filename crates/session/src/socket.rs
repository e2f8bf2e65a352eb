//! The default paths of a daemon's Unix socket.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Name of the socket in its directory.
pub const SOCKET_NAME: &str = "groupcast.sock";

/// The paths where the socket may be: the daemon of user `euid` listens at the first one, a client
/// of that user tries each in turn.
///
/// - The superuser's daemon serves the host: `/run/groupcast.sock`.
/// - A user's own: `groupcast.sock` in `runtime_dir` (the value of `XDG_RUNTIME_DIR`) if that is an
///   absolute path, otherwise `/tmp/groupcast-UID.sock`. Its clients fall back to the host's.
///
/// A client must not use a socket that belongs to neither its user nor the superuser: any user can
/// make files in `/tmp`.
pub fn socket_candidates(euid: u32, runtime_dir: Option<&OsStr>) -> Vec<PathBuf> {
    let host = Path::new("/run").join(SOCKET_NAME);
    if euid == 0 {
        return vec![host];
    }
    let own = match runtime_dir.map(Path::new) {
        Some(dir) if dir.is_absolute() => dir.join(SOCKET_NAME),
        _ => PathBuf::from(format!("/tmp/groupcast-{euid}.sock")),
    };
    vec![own, host]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_place_and_falls_back_to_the_hosts() {
        assert_eq!(
            socket_candidates(0, Some(OsStr::new("/run/user/0"))),
            [Path::new("/run/groupcast.sock")]
        );
        assert_eq!(
            socket_candidates(1000, Some(OsStr::new("/run/user/1000"))),
            [
                Path::new("/run/user/1000/groupcast.sock"),
                Path::new("/run/groupcast.sock")
            ]
        );
        for dir in [None, Some(OsStr::new("")), Some(OsStr::new("relative"))] {
            assert_eq!(
                socket_candidates(1000, dir)[0],
                Path::new("/tmp/groupcast-1000.sock")
            );
        }
    }
}
