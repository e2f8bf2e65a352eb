//! The daemon's side.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection};

use crate::doubt::{Doubt, doubts};
use crate::pem::{Owner, TlsError, certificates, client_authorities, private_key};
use crate::stream::TlsStream;
use crate::{ALPN, VERSIONS, provider};

/// The files of a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFiles {
    /// Its certificate, and the chain above it, in PEM.
    pub certificate: PathBuf,
    /// The private key of the certificate, in PEM; mode 0600, root's or the daemon's user's.
    pub key: PathBuf,
    /// Certificates of authorities in PEM: a client must show a certificate that one of them has
    /// signed. Without, clients show none.
    pub client_ca: Option<PathBuf>,
}

/// What a daemon shows its clients, and asks them for.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    /// What it shows, and where that was read.
    certificate: CertificateDer<'static>,
    path: PathBuf,
}

impl Server {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file is wrong, and why.
    pub fn load(files: &ServerFiles) -> Result<Self, TlsError> {
        let identity =
            |error: rustls::Error| TlsError::identity(&files.certificate, &files.key, &error);
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(identity)?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(client_authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(|error| TlsError::Malformed {
                        path: path.clone(),
                        what: error.to_string(),
                    })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(&files.certificate)?;
        let certificate = chain[0].clone();
        let mut config = builder
            .with_single_cert(chain, private_key(&files.key, Owner::Own)?)
            .map_err(identity)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            certificate,
            path: files.certificate.clone(),
        })
    }

    /// What clients that connect to `addresses` will refuse the certificate for, as it is `now`:
    /// that it has expired, or is for another address. Nothing is said of an address that is none
    /// (`0.0.0.0`).
    pub fn doubts(&self, now: SystemTime, addresses: &[IpAddr]) -> Vec<Doubt> {
        let kinds = doubts(&self.certificate, now, addresses).into_iter();
        kinds
            .map(|kind| Doubt {
                path: self.path.clone(),
                kind,
            })
            .collect()
    }

    /// The daemon's end of a connection by `socket`, which must not block.
    ///
    /// # Errors
    /// None that the files could cause: the library refuses its own configuration.
    pub fn accept<S>(&self, socket: S) -> Result<TlsStream<S>, rustls::Error> {
        let session = ServerConnection::new(self.config.clone())?;
        Ok(TlsStream::new(socket, session.into()))
    }
}
