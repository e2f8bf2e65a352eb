//! Why a connection failed, in words that say what to do: the library's own are for those who know
//! TLS.

use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, ExtendedKeyPurpose, OtherError};

use crate::doubt::{
    CLIENTS, SERVERS, Span, authority_shown, listed, plain, purpose, wrong_purpose,
};

/// Whose words they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Client,
    Daemon,
}

/// What `error` means to `side`.
pub(crate) fn explained(side: Side, error: &Error) -> String {
    let (other, authorities) = match side {
        Side::Client => ("the daemon", "the file of authorities of this client"),
        Side::Daemon => ("the client", "tls_client_ca"),
    };
    match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::ExpiredContext { time, not_after } => {
                let ago = days(*time, *not_after);
                format!(
                    "{other}'s certificate expired {ago} ago: it needs a new one, or this host's clock is wrong"
                )
            }
            CertificateError::NotValidYetContext { time, not_before } => {
                let left = days(*not_before, *time);
                format!(
                    "{other}'s certificate is not valid for another {left}: is this host's clock right?"
                )
            }
            CertificateError::UnknownIssuer => format!(
                "{other}'s certificate is signed by none of the authorities in {authorities}"
            ),
            // So it is where an authority of the same name has another key.
            CertificateError::BadSignature => format!(
                "{other}'s certificate is signed by none of the authorities in {authorities}: one has the name of the \
                 authority that signed it, and another key"
            ),
            CertificateError::NotValidForNameContext {
                expected,
                presented,
            } => {
                let names = listed(&plain(presented));
                let expected = expected.to_str();
                format!("{other}'s certificate is for {names}, not for {expected}")
            }
            CertificateError::InvalidPurposeContext { presented, .. } => {
                let wanted = match side {
                    Side::Client => SERVERS,
                    Side::Daemon => CLIENTS,
                };
                let why = wrong_purpose(presented.iter().map(named), wanted);
                format!("{other}'s certificate is not taken: {why}")
            }
            CertificateError::Other(why) if is_of_authority(why) => {
                format!(
                    "{other}'s certificate is not taken: {}",
                    authority_shown(other)
                )
            }
            _ => format!("{other}'s certificate is not taken: {why}"),
        },
        Error::NoCertificatesPresented => {
            "the client showed no certificate, and tls_client_ca asks for one".into()
        }
        Error::AlertReceived(alert) => refused(side, other, *alert),
        Error::InvalidMessage(_) => format!("{other} does not speak TLS: {error}"),
        _ => error.to_string(),
    }
}

/// What the other side means by an alert.
fn refused(side: Side, other: &str, alert: AlertDescription) -> String {
    let certificate = match side {
        Side::Client => "this client's certificate",
        Side::Daemon => "the daemon's certificate",
    };
    let why = match alert {
        AlertDescription::CertificateRequired => {
            return format!("{other} asks for a certificate, and none was shown");
        }
        AlertDescription::CertificateExpired => {
            format!("{certificate} has expired, or is not valid yet")
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            format!("{certificate} is signed by none of the authorities that it knows")
        }
        AlertDescription::UnsupportedCertificate => {
            format!("it does not take {certificate}: it is not for this purpose (extendedKeyUsage)")
        }
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            format!("it does not take {certificate} (is it for the name that it was asked for?)")
        }
        AlertDescription::ProtocolVersion => "it does not speak TLS 1.3".into(),
        AlertDescription::NoApplicationProtocol => "it is no groupcast program".into(),
        alert => format!("{alert:?}"),
    };
    format!("{other} ended it: {why}")
}

/// A purpose of a certificate, as openssl calls it.
fn named(of: &ExtendedKeyPurpose) -> String {
    match of {
        ExtendedKeyPurpose::ServerAuth => SERVERS.1.to_owned(),
        ExtendedKeyPurpose::ClientAuth => CLIENTS.1.to_owned(),
        ExtendedKeyPurpose::Other(number) => purpose(number),
    }
}

/// Whether a certificate was refused because it is an authority's own.
fn is_of_authority(why: &OtherError) -> bool {
    let why = why.0.downcast_ref::<webpki::Error>();
    why == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// From `then` to `later`, in words.
fn days(later: UnixTime, then: UnixTime) -> String {
    let span = later.as_secs().saturating_sub(then.as_secs());
    Span(Duration::from_secs(span)).to_string()
}
