//! TLS 1.3 between a daemon and its clients over TCP: certificates and keys from PEM files, and a
//! stream over any socket that does not block.
//!
//! A daemon has a [`Server`], a client a [`Client`]; each makes a [`TlsStream`] of a connected
//! socket. The handshake happens while the stream is read and written, so nothing here waits.
//!
//! The protocol is `rustls`. There is no resumption: a certificate that is taken away counts from
//! the next connection on. Both sides name the protocol `groupcast` in the handshake (ALPN).
#![forbid(unsafe_code)]

mod client;
mod doubt;
mod pem;
mod records;
mod refusal;
mod server;
mod stream;

pub use client::{Client, ClientFiles, is_name};
pub use doubt::{Doubt, DoubtKind};
pub use pem::TlsError;
pub use server::{Server, ServerFiles};
pub use stream::TlsStream;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// What both sides call the protocol (RFC 7301).
const ALPN: &[u8] = b"groupcast";
/// The versions that are spoken.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The cryptography: the same library as between daemons.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
