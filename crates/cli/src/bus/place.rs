//! `--server` of the bus: where a daemon listens for its clients.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::server::Server;

/// Where a bus is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// At a Unix socket.
    Unix(PathBuf),
    /// At an address, or at a name that has some.
    Tcp(Server),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            if text.contains('/') {
                return format!("a Unix socket is named as unix:{text}");
            }
            "use IP:PORT, NAME:PORT or unix:PATH, for example 127.0.0.1:4812".to_owned()
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(server) => server.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_an_address_or_a_name() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("unix:/run/b"), Ok(Place::Unix("/run/b".into())));
        let named = Server::Named("localhost".into(), 4812);
        assert_eq!(place("localhost:4812"), Ok(Place::Tcp(named)));
        let at = Server::At("[::1]:4812".parse().expect("an address"));
        assert_eq!(place("[::1]:4812"), Ok(Place::Tcp(at)));
        for (wrong, part) in [
            ("/run/b", "unix:/run/b"),
            ("unix:", "NAME:PORT"),
            ("h", "NAME:PORT"),
        ] {
            assert!(place(wrong).unwrap_err().contains(part), "{wrong}");
        }
    }
}
