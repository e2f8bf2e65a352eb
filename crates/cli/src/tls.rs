//! The options of a command that speaks TLS with a daemon.

use std::path::PathBuf;

use groupcast_client::tls::{self, ClientFiles};

use crate::failure::Failure;

/// How to speak TLS with a daemon.
#[derive(Clone, clap::Args, Default)]
pub(crate) struct TlsArgs {
    /// Speak TLS; one of the authorities in this file (PEM) must have signed the daemon's
    /// certificate
    #[arg(long, value_name = "FILE", requires = "server")]
    tls_ca: Option<PathBuf>,
    /// The DNS name or the address that the daemon's certificate is for [default: that of --server]
    #[arg(long, value_name = "NAME", requires = "tls_ca", value_parser = tls_name)]
    tls_name: Option<String>,
    /// The certificate (PEM) to show to a daemon that asks for one
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// The client's side, with its files read; none if TLS is not asked for.
    pub(crate) fn load(&self) -> Result<Option<tls::Client>, Failure> {
        let Some(ca) = self.tls_ca.clone() else {
            return Ok(None);
        };
        let identity = self.tls_certificate.clone().zip(self.tls_key.clone());
        let tls = tls::Client::load(&ClientFiles { ca, identity }).map_err(Failure::failed)?;
        Ok(Some(tls))
    }

    /// What the daemon's certificate is to be for, if not for its address.
    pub(crate) fn name(&self) -> Option<&str> {
        self.tls_name.as_deref()
    }
}

/// A name that a certificate can be for.
fn tls_name(word: &str) -> Result<String, String> {
    match tls::is_name(word) {
        true => Ok(word.to_owned()),
        false => Err("write a DNS name or an address, without a port".into()),
    }
}
