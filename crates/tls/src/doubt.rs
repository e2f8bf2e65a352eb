//! What a daemon's certificate will be refused for, found before a client refuses it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage};

/// A certificate that expires within this is worth a word.
const SOON: Duration = Duration::from_secs(14 * DAY);
const DAY: u64 = 24 * 60 * 60;

/// What is wrong with the daemon's certificate, or will be soon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// The file of the certificate.
    pub path: PathBuf,
    /// What it is.
    pub kind: DoubtKind,
}

/// Why clients refuse a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DoubtKind {
    /// It expired this long ago.
    Expired(Duration),
    /// It expires so soon.
    ExpiresSoon(Duration),
    /// It is valid only after this time.
    NotYetValid(Duration),
    /// It is for these names, and not for the address that clients connect to.
    NotForAddress {
        /// That address.
        address: IpAddr,
        /// The names and addresses that it is for.
        names: Vec<String>,
    },
    /// It says that it is not for servers, or another thing that clients do not take.
    Unusable(String),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            DoubtKind::Expired(ago) => write!(
                f,
                "the certificate {path} expired {} ago: clients refuse it until there is a new one (then send SIGHUP)",
                Span(*ago)
            ),
            DoubtKind::ExpiresSoon(left) => write!(
                f,
                "the certificate {path} expires in {}: put a new one in its place, then send SIGHUP",
                Span(*left)
            ),
            DoubtKind::NotYetValid(left) => write!(
                f,
                "the certificate {path} is not valid for another {}: clients refuse it until then; is this host's clock right?",
                Span(*left)
            ),
            DoubtKind::NotForAddress { address, names } => {
                let names = listed(names);
                write!(
                    f,
                    "the certificate {path} is for {names}, not for {address}: clients refuse it unless they say \
                     --tls-name with a name that it is for"
                )
            }
            DoubtKind::Unusable(why) => {
                write!(f, "clients refuse the certificate {path}: {why}")
            }
        }
    }
}

/// A time in words: whole days from two days on.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            _ if seconds >= 2 * DAY => write!(f, "{} days", seconds / DAY),
            _ if seconds >= 2 * 3600 => write!(f, "{} hours", seconds / 3600),
            ..=60 => f.write_str("1 minute"),
            _ => write!(f, "{} minutes", seconds.div_ceil(60)),
        }
    }
}

/// What is wrong with `certificate` at `now` for clients that connect to `addresses`; any address
/// does without one.
pub(crate) fn doubts(
    certificate: &CertificateDer<'_>,
    now: SystemTime,
    addresses: &[IpAddr],
) -> Vec<DoubtKind> {
    let certificate = match EndEntityCert::try_from(certificate) {
        Ok(certificate) => certificate,
        Err(error) => return vec![DoubtKind::Unusable(unusable(&error))],
    };
    let now = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let mut doubts: Vec<_> = time_or_use(&certificate, now).into_iter().collect();
    let addresses: BTreeSet<_> = addresses.iter().filter(|it| !it.is_unspecified()).collect();
    for address in addresses.into_iter().copied() {
        let valid = certificate.verify_is_valid_for_subject_name(&ServerName::from(address));
        if let Err(Error::CertNotValidForName(context)) = valid {
            let names = plain(&context.presented);
            doubts.push(DoubtKind::NotForAddress { address, names });
        }
    }
    doubts
}

/// What is wrong with the certificate itself at `now`, since 1970.
fn time_or_use(certificate: &EndEntityCert<'_>, now: Duration) -> Option<DoubtKind> {
    // Without authorities nothing is believed. But what does not depend on who has signed it is
    // looked at first.
    let at = |time: Duration| {
        let time = UnixTime::since_unix_epoch(time);
        let algorithms = ALL_VERIFICATION_ALGS;
        let usage = KeyUsage::server_auth();
        certificate
            .verify_for_usage(algorithms, &[], &[], time, usage, None, None)
            .err()
    };
    let seconds = |time: UnixTime| Duration::from_secs(time.as_secs());
    match at(now)? {
        Error::UnknownIssuer => match at(now + SOON)? {
            Error::CertExpired { not_after, .. } => {
                let left = seconds(not_after).saturating_sub(now);
                Some(DoubtKind::ExpiresSoon(left))
            }
            _ => None,
        },
        Error::CertExpired { not_after, .. } => {
            Some(DoubtKind::Expired(now.saturating_sub(seconds(not_after))))
        }
        Error::CertNotValidYet { not_before, .. } => {
            let left = seconds(not_before).saturating_sub(now);
            Some(DoubtKind::NotYetValid(left))
        }
        error => Some(DoubtKind::Unusable(unusable(&error))),
    }
}

/// Why a certificate cannot be a daemon's, in words where the library has none.
fn unusable(error: &Error) -> String {
    match error {
        Error::CaUsedAsEndEntity => authority_shown("the daemon"),
        Error::RequiredEkuNotFoundContext(context) => {
            let present = context.present.iter();
            wrong_purpose(present.map(|it| purpose(it)), SERVERS)
        }
        error => error.to_string(),
    }
}

/// What a certificate can be for, as people call it, and as openssl does.
pub(crate) const SERVERS: (&str, &str) = ("servers", "serverAuth");
pub(crate) const CLIENTS: (&str, &str) = ("clients", "clientAuth");

/// Why an authority's certificate is not taken from one that shows it as its own.
pub(crate) fn authority_shown(who: &str) -> String {
    format!(
        "it is one of an authority (basicConstraints says CA:TRUE): let the authority sign another one for {who}, or \
         make it with basicConstraints=CA:FALSE"
    )
}

/// Why a certificate for `present` purposes is not taken from one that must be `wanted`.
pub(crate) fn wrong_purpose(
    present: impl Iterator<Item = String>,
    (whom, word): (&str, &str),
) -> String {
    let present: Vec<_> = present.collect();
    let present = match &present[..] {
        [] => "nothing".to_owned(),
        present => present.join(", "),
    };
    format!(
        "it is not for {whom}: its extendedKeyUsage has {present}, and not {word}. Make one with {word}, or without \
         extendedKeyUsage"
    )
}

/// A purpose by its number (OID), as openssl calls it.
pub(crate) fn purpose(number: &[usize]) -> String {
    match number {
        [1, 3, 6, 1, 5, 5, 7, 3, 1] => SERVERS.1.to_owned(),
        [1, 3, 6, 1, 5, 5, 7, 3, 2] => CLIENTS.1.to_owned(),
        [2, 5, 29, 37, 0] => "anyExtendedKeyUsage".to_owned(),
        number => {
            let parts: Vec<_> = number.iter().map(ToString::to_string).collect();
            parts.join(".")
        }
    }
}

/// Names as the library lists them (`DnsName("a")`, `IpAddress(10.0.0.1)`), as people write them.
pub(crate) fn plain(presented: &[String]) -> Vec<String> {
    let name = |name: &String| {
        let inner = name.split_once('(').map_or(&**name, |(_, inner)| inner);
        inner.trim_end_matches(')').trim_matches('"').to_owned()
    };
    presented.iter().map(name).collect()
}

/// The names that a certificate is for, in a sentence.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => "no name at all (it has no subjectAltName)".to_owned(),
        names => names.join(", "),
    }
}
