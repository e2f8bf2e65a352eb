//! Certificates and keys in PEM files.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage};
use zeroize::Zeroizing;

/// No PEM file is longer, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The word in PEM that says that a key is encrypted, in both ways to write that.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// What is wrong with the files of one side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Others than its owner may read or change the file of a private key.
    #[error(
        "the private key {} may be read or changed by others than its owner (mode {mode:o}): chmod 600 it", path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file of a daemon's private key belongs to somebody who knows the key, then.
    #[error(
        "the private key {} belongs to user {owner}, who is neither root nor the daemon's user: `chown` it to one of \
         them, and make a new key if that user is not to know this one",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// Certificate and key do not belong together, or are of a kind that is not spoken.
    #[error(
        "the certificate {} and the key {} cannot be used together: {why}",
        certificate.display(), key.display()
    )]
    Identity {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
}

impl TlsError {
    /// What `error` says of a certificate and its key.
    pub(crate) fn identity(certificate: &Path, key: &Path, error: &rustls::Error) -> Self {
        // It has no name in the library.
        let of_version_1 = || error.to_string().contains("UnsupportedCertVersion");
        let why = match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "{error}; name the key that the certificate was made for. Of several certificates in a file the first is \
                 the one of the key, and the chain above it stands behind it"
            ),
            _ if of_version_1() => {
                "it is a certificate of version 1, as openssl makes it without -extfile: make one of version 3".into()
            }
            _ => error.to_string(),
        };
        Self::Identity {
            certificate: certificate.into(),
            key: key.into(),
            why,
        }
    }
}

/// The certificates in the file `path`, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?.text;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(malformed(path, "holds no certificate in PEM")),
        Err(error) => Err(malformed(path, &format!("is no PEM file: {error}"))),
    }
}

/// Whose a file may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Anybody's: who runs the program has named it.
    Anybody,
    /// Root's, or that of the user who runs the program. Another owner knows what is in it,
    /// whatever its mode, and can put something else there.
    Own,
}

/// The private key in the file `path`, which belongs to `owner` and which nobody else may read.
pub(crate) fn private_key(path: &Path, owner: Owner) -> Result<PrivateKeyDer<'static>, TlsError> {
    let File {
        text,
        mode,
        owner: found,
    } = read(path)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let encrypted = text.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
        match encrypted {
            true => malformed(
                path,
                "is encrypted, and nobody is there to give its password: `openssl pkey -in FILE -out NEWFILE` writes it \
                 without",
            ),
            false => malformed(path, &format!("holds no private key in PEM: {error}")),
        }
    })?;
    // Only now: nobody is to be told to change the mode of a file that is something else.
    let user = rustix::process::geteuid().as_raw();
    if owner == Owner::Own && found != 0 && found != user {
        return Err(TlsError::Foreign {
            path: path.into(),
            owner: found,
        });
    }
    match mode {
        Some(mode) => Err(TlsError::Exposed {
            path: path.into(),
            mode,
        }),
        None => Ok(key),
    }
}

/// The authorities in the file `path`, at least one.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| {
            let what = format!("holds a certificate that is none of an authority: {error}");
            malformed(path, &what)
        })?;
    }
    Ok(store)
}

/// The authorities in the file `path` whose certificates a daemon takes from its clients, at least
/// one. Each says that it is one: the holder of any other key in the file could make certificates,
/// too.
pub(crate) fn client_authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let store = authorities(path)?;
    let all = certificates(path)?;
    match all
        .iter()
        .position(|certificate| !is_authority(certificate))
    {
        None => Ok(store),
        Some(at) => {
            let which = match all.len() {
                1 => "a certificate".to_owned(),
                _ => format!("as number {} a certificate", at + 1),
            };
            let what = format!(
                "holds {which} that is none of an authority (basicConstraints does not say CA:TRUE): name \
                 the certificate of the authority that signs those of clients"
            );
            Err(malformed(path, &what))
        }
    }
}

/// Whether the certificate says that it is an authority's (basicConstraints). It is judged as if a
/// server showed it: being an authority is what it is refused for then, after its times.
fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else {
        return false;
    };
    let at = |time| {
        let usage = KeyUsage::client_auth();
        certificate
            .verify_for_usage(ALL_VERIFICATION_ALGS, &[], &[], time, usage, None, None)
            .err()
    };
    let error = match at(UnixTime::since_unix_epoch(Duration::ZERO)) {
        Some(Error::CertNotValidYet { not_before, .. }) => at(not_before),
        error => error,
    };
    error == Some(Error::CaUsedAsEndEntity)
}

fn malformed(path: &Path, what: &str) -> TlsError {
    TlsError::Malformed {
        path: path.into(),
        what: what.to_owned(),
    }
}

/// What a regular file holds, and whose it is.
struct File {
    text: Zeroizing<Vec<u8>>,
    /// Its mode, if that lets others than its owner at it. A group may read a file that root owns:
    /// so secrets are mounted into containers.
    mode: Option<u32>,
    /// The number of the user who owns it.
    owner: u32,
}

fn read(path: &Path) -> Result<File, TlsError> {
    let failed = |source| TlsError::Read {
        path: path.into(),
        source,
    };
    // Opening a pipe would wait for somebody who writes into it.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(malformed(path, "is not a regular file"));
    }
    let mode = metadata.mode() & 0o777;
    let allowed = match metadata.uid() {
        0 => 0o740,
        _ => 0o700,
    };
    if metadata.len() > FILE_MAX {
        return Err(malformed(path, "is longer than any certificates are"));
    }
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_MAX as usize + 1));
    let mut start = file.take(FILE_MAX);
    start.read_to_end(&mut text).map_err(failed)?;
    Ok(File {
        text,
        mode: (mode & !allowed != 0).then_some(mode),
        owner: metadata.uid(),
    })
}
