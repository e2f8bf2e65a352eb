//! The client's side.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::pem::{Owner, TlsError, authorities, certificates, private_key};
use crate::stream::TlsStream;
use crate::{ALPN, VERSIONS, provider};

/// The files of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFiles {
    /// Certificates of authorities in PEM: one of them must have signed the daemon's.
    pub ca: PathBuf,
    /// The client's certificate, and its private key with mode 0600, in PEM: for a daemon that asks
    /// for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Whom a client believes, and what it shows.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file is wrong, and why.
    pub fn load(files: &ClientFiles) -> Result<Self, TlsError> {
        let of_ca = |error: rustls::Error| TlsError::Malformed {
            path: files.ca.clone(),
            what: error.to_string(),
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(of_ca)?
            .with_root_certificates(authorities(&files.ca)?);
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    certificates(certificate)?,
                    private_key(key, Owner::Anybody)?,
                )
                .map_err(|error| TlsError::identity(certificate, key, &error))?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The client's end of a connection by `socket`, which must not block, to the daemon at `ip`,
    /// whose certificate must be for `name`, or for the address where there is no name.
    ///
    /// # Errors
    /// `name` is none that a certificate can be for.
    pub fn connect<S>(
        &self,
        socket: S,
        ip: IpAddr,
        name: Option<&str>,
    ) -> Result<TlsStream<S>, rustls::Error> {
        let name = match name {
            None => ServerName::from(ip),
            Some(name) => ServerName::try_from(name.to_owned())
                .map_err(|error| rustls::Error::General(format!("`{name}`: {error}")))?,
        };
        let session = ClientConnection::new(self.0.clone(), name)?;
        Ok(TlsStream::new(socket, session.into()))
    }
}

/// Whether a certificate can be for `name`: a DNS name, or an address without a port.
pub fn is_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}
