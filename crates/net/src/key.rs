//! The cluster's pre-shared key and its file: what `groupcast keygen` writes and every daemon
//! reads.
//!
//! The file is one line of 64 hexadecimal digits (256 random bits); lines that begin with `#` are
//! comments. What is derived from the key is the business of [`seal`].

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, Mode, OFlags};
use zeroize::{Zeroize as _, Zeroizing};

use crate::{seal, sys};

mod pseudo;

/// A cluster's pre-shared key: 256 bits, overwritten when dropped, never shown by `Debug`.
#[derive(Clone)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// Length in bytes.
    pub const LEN: usize = 32;

    const HEADER: &str = "# groupcast cluster key. Every daemon of the cluster needs a copy; who has it can read \
                          and write everything. Keep it secret (chmod 600).\n";
    /// No key file is longer, whatever its comments say.
    const FILE_MAX: u64 = 4096;

    /// 256 bits from the operating system.
    ///
    /// # Errors
    /// [`KeyError::Entropy`] if the system has none to give.
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; Self::LEN];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| KeyError::Entropy)?;
        Ok(Self(bytes))
    }

    /// The key with exactly these bytes: for tests, and for keys that come from elsewhere.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Makes a new random key and writes it to the new file `path` with mode 0600.
    ///
    /// # Errors
    /// [`KeyError::Exists`] if there is a file already: it is never overwritten.
    pub fn generate(path: &Path) -> Result<Self, KeyError> {
        let key = Self::random()?;
        let mut text = Zeroizing::new(String::from(Self::HEADER));
        for byte in key.0 {
            text.push(hex_digit(byte >> 4));
            text.push(hex_digit(byte & 0xf));
        }
        text.push('\n');
        let failed = |source| KeyError::Write {
            path: path.into(),
            source,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => KeyError::Exists { path: path.into() },
                _ => failed(source),
            })?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(key)
    }

    /// Reads the key of the file `path`.
    ///
    /// # Errors
    /// [`KeyError::Exposed`] if others than its owner may read or change the file (a group may read
    /// one that root owns, as secrets are mounted into containers: modes 0440 and 0640),
    /// [`KeyError::Malformed`] if it holds no key, [`KeyError::Missing`] if there is no file,
    /// [`KeyError::Read`] if it cannot be read.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file = open_regular(path).map_err(|source| KeyError::unread(path, source))?;
        Self::read(file, path)
    }

    /// The same for a program that runs for itself, as a daemon does: the file must be root's or
    /// this user's. Whoever else owns it knows the key, whatever the mode, and can put another in
    /// its place.
    ///
    /// # Errors
    /// Those of [`load`](Self::load), and [`KeyError::Foreign`].
    pub fn load_own(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::unread(path, source);
        let file = open_regular(path).map_err(failed)?;
        let owner = file.as_ref().map(File::metadata).transpose();
        let owner = owner.map_err(failed)?.map(|metadata| metadata.uid());
        let key = Self::read(file, path)?;
        // Only now: what is no key file is called that, whoever owns it.
        match owner {
            Some(owner) => KeyError::unless_own(path, owner).map(|()| key),
            None => Ok(key),
        }
    }

    /// The same where somebody else has named the file: it must moreover be no symbolic link, and
    /// on a file system that keeps what was written by its owner. A file of `/proc` has an owner
    /// too, and somebody else chose what is in it.
    ///
    /// Nothing is opened to read before that is known.
    ///
    /// # Errors
    /// Those of [`load_own`](Self::load_own), and [`KeyError::Pseudo`].
    pub fn load_named(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::unread(path, source);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let stat = fs::fstat(&found).map_err(|error| failed(error.into()))?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Self::irregular(path));
        }
        let on = fs::fstatfs(&found).map_err(|error| failed(error.into()))?;
        if pseudo::is_pseudo(on.f_type as u64) {
            return Err(KeyError::Pseudo { path: path.into() });
        }
        KeyError::unless_own(path, stat.st_uid)?;
        // The path may mean another file by now; this means the one that was looked at.
        let same = format!("/proc/self/fd/{}", found.as_raw_fd());
        let file = open_regular(Path::new(&same)).map_err(failed)?;
        Self::read(file, path)
    }

    fn irregular(path: &Path) -> KeyError {
        KeyError::Malformed {
            path: path.into(),
            what: "it is not a regular file",
        }
    }

    /// Reads the key of `file`, found at `path`, if it is a regular file.
    fn read(file: Option<File>, path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::unread(path, source);
        let file = file.ok_or_else(|| Self::irregular(path))?;
        let metadata = file.metadata().map_err(failed)?;
        let mut text = Zeroizing::new(Vec::new());
        file.take(Self::FILE_MAX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let key = Self::parse(&text).map_err(|what| KeyError::Malformed {
            path: path.into(),
            what,
        })?;
        // Only now: nobody is to be told to change the mode of a file that is something else.
        let mode = metadata.mode() & 0o777;
        match is_exposed(mode, metadata.uid()) {
            false => Ok(key),
            true => Err(KeyError::Exposed {
                path: path.into(),
                mode,
            }),
        }
    }

    fn parse(text: &[u8]) -> Result<Self, &'static str> {
        if text.len() as u64 > Self::FILE_MAX {
            return Err("it is longer than any key file");
        }
        let mut lines = text
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        let line = lines.next().ok_or("there is no key in it")?;
        if lines.next().is_some() {
            return Err("there is more than one line in it that is no comment");
        }
        if line.len() != 2 * Self::LEN {
            return Err("its key is not 64 hexadecimal digits long");
        }
        let mut key = Self([0; Self::LEN]);
        for (byte, digits) in key.0.iter_mut().zip(line.chunks_exact(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err("its key contains something else than hexadecimal digits");
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(key)
    }

    /// Tells it from others, and says nothing about it: derived by HKDF-SHA256 with the label
    /// `groupcast key fingerprint v1`.
    pub fn fingerprint(&self) -> [u8; 16] {
        seal::fingerprint(self)
    }

    /// Its bytes: for what is made of them, and for tokens, which have files of the same form.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// Opens the file at `path` to read, if it is a regular file. Never waits: opening a pipe would,
/// for somebody who writes to it.
///
/// # Errors
/// If it cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let is_file = file.metadata()?.is_file();
    Ok(is_file.then_some(file))
}

/// Whether a key file of this mode and owner can be read or changed by users who are not meant to.
/// Root chose the group of a file that root owns; the group of a user's own file is often one that
/// all users share.
fn is_exposed(mode: u32, owner: u32) -> bool {
    let allowed = if owner == 0 { 0o740 } else { 0o700 };
    mode & 0o777 & !allowed != 0
}

/// 64 random bits from the operating system: for an incarnation, or a generator's seed.
///
/// # Errors
/// [`KeyError::Entropy`] if the system has none to give.
pub fn random_u64() -> Result<u64, KeyError> {
    let mut bytes = [0; 8];
    // Not the cryptographic library's generator, which measures jitter for 20 ms when a process
    // first asks it.
    sys::random(&mut bytes).map_err(|_| KeyError::Entropy)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// Why there is no key. No file was changed, except that [`KeyError::Write`] may leave a part of a
/// new one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file exists; a key is never overwritten.
    #[error("{} exists already, and a key is never overwritten: choose another name, or remove it first", .path.display())]
    Exists {
        /// The path of the key file.
        path: PathBuf,
    },
    /// Others than the owner may read or change the file.
    #[error(
        "the key file {0} is open to other users (mode {mode:03o}): run `chmod 600 {0}`, and make a new key if others \
         may have read it",
        .path.display()
    )]
    Exposed {
        /// The path of the key file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The file belongs to somebody who knows the key, then.
    #[error(
        "the key file {0} belongs to user {owner}, who is neither root nor the daemon's user: `chown` it to one of \
         them, and make a new key if that user is not to know this one",
        .path.display()
    )]
    Foreign {
        /// The path of the key file.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// The owner of the file did not write it.
    #[error(
        "the key file {} is on a file system that is no storage (as /proc), or that a user serves: keep it on a disk",
        .path.display()
    )]
    Pseudo {
        /// The path of the key file.
        path: PathBuf,
    },
    /// The file holds no key.
    #[error("{} is not a key file: {what}; `groupcast keygen FILE` makes one", .path.display())]
    Malformed {
        /// The path of the key file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no such file.
    #[error(
        "there is no key file {0}: copy there the one of the other hosts, or, on the first host, make it with \
         `groupcast keygen {0}`",
        .path.display()
    )]
    Missing {
        /// The path of the key file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", .path.display())]
    Read {
        /// The path of the key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the key file {}: {source}", .path.display())]
    Write {
        /// The path of the key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system has no randomness to give.
    #[error("the operating system gave no random bytes")]
    Entropy,
}

impl KeyError {
    /// [`Foreign`](Self::Foreign), unless `owner` is root or the user of this process.
    fn unless_own(path: &Path, owner: u32) -> Result<(), Self> {
        let user = rustix::process::geteuid().as_raw();
        match owner == 0 || owner == user {
            true => Ok(()),
            false => Err(Self::Foreign {
                path: path.into(),
                owner,
            }),
        }
    }

    fn unread(path: &Path, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Read { path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("gc-key-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, text: &str, mode: u32) -> PathBuf {
            let path = self.0.join("file.key");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_generated_key_is_private_loads_again_and_is_never_overwritten() {
        let dir = Dir::new("generate");
        let path = dir.0.join("cluster.key");
        let made = Key::generate(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Key::load(&path).unwrap().0, made.0);
        let before = fs::read(&path).unwrap();
        assert!(matches!(Key::generate(&path), Err(KeyError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
        let text = String::from_utf8(before).unwrap();
        assert!(text.lines().count() == 2 && text.starts_with('#'));
    }

    #[test]
    fn a_key_open_to_others_is_refused_with_the_remedy() {
        let dir = Dir::new("exposed");
        for mode in [0o644, 0o604, 0o660, 0o601] {
            let path = dir.file(&"ab".repeat(32), mode);
            let error = Key::load(&path).unwrap_err();
            let remedy = format!("chmod 600 {}", path.display());
            assert!(error.to_string().contains(&remedy), "{error}");
        }
        for mode in [0o600, 0o400] {
            assert!(Key::load(&dir.file(&"ab".repeat(32), mode)).is_ok());
            fs::remove_file(dir.0.join("file.key")).unwrap();
        }
    }

    #[test]
    fn a_group_may_read_what_root_owns() {
        for mode in [0o440, 0o640, 0o400, 0o600] {
            assert!(!is_exposed(mode, 0), "{mode:o}");
        }
        for mode in [0o444, 0o460, 0o644, 0o650] {
            assert!(is_exposed(mode, 0), "{mode:o}");
        }
        for mode in [0o440, 0o640, 0o604] {
            assert!(is_exposed(mode, 1000), "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_by_name() {
        let dir = Dir::new("malformed");
        let long = format!("#{}\n{}", "x".repeat(5000), "ab".repeat(32));
        let two = format!("{0}\n{0}\n", "ab".repeat(32));
        for (text, what) in [
            ("", "no key"),
            ("# only a comment\n", "no key"),
            ("abcd\n", "64 hexadecimal"),
            (&"zz".repeat(32), "something else"),
            (&two, "more than one"),
            (&long, "longer"),
        ] {
            let error = Key::load(&dir.file(text, 0o600)).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("keygen"), "{error}");
        }
        let error = Key::load(&dir.0).unwrap_err().to_string();
        assert!(error.contains("regular file"), "{error}");
        // A file that others may read, and should: its mode is none of a key's business.
        let error = Key::load(&dir.file("root:x:0:0\n", 0o644)).unwrap_err();
        assert!(matches!(error, KeyError::Malformed { .. }), "{error}");
    }

    #[test]
    fn an_error_about_a_missing_file_says_how_to_make_it() {
        let dir = Dir::new("missing");
        let path = dir.0.join("none.key");
        let remedy = format!("`groupcast keygen {}`", path.display());
        for loaded in [
            Key::load(&path),
            Key::load_own(&path),
            Key::load_named(&path),
        ] {
            let error = loaded.unwrap_err().to_string();
            assert!(error.contains(&remedy), "{error}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = Dir::new("odd");
        let pipe = dir.0.join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        for odd in [&pipe, &dir.0, Path::new("/dev/zero")] {
            let error = Key::load(odd).unwrap_err().to_string();
            assert!(error.contains("regular file"), "{error}");
        }
    }

    #[test]
    fn a_file_that_a_client_named_is_on_a_disk_and_no_link() {
        let dir = Dir::new("own");
        let path = dir.file(&"ab".repeat(32), 0o600);
        assert_eq!(
            Key::load_named(&path).unwrap().0,
            Key::load(&path).unwrap().0
        );
        let link = dir.0.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = Key::load_named(&link).unwrap_err();
        assert!(matches!(error, KeyError::Malformed { .. }), "{error}");
        // Mode 0400, and its owner is who runs the program: not who chose the environment.
        for named in ["/proc/self/environ", "/proc/self/auxv"] {
            let error = Key::load_named(Path::new(named)).unwrap_err();
            assert!(matches!(error, KeyError::Pseudo { .. }), "{error}");
        }
    }

    #[test]
    fn a_file_of_another_user_is_no_key_of_this_one() {
        let dir = Dir::new("foreign");
        let path = dir.file(&"ab".repeat(32), 0o600);
        assert!(Key::load_own(&path).is_ok() && Key::load_named(&path).is_ok());
        let own = rustix::process::geteuid().as_raw();
        for (owner, is_own) in [(0, true), (own, true), (own + 12_345, false)] {
            let said = KeyError::unless_own(&path, owner);
            assert_eq!(said.is_ok(), is_own, "{owner}: {said:?}");
        }
        // Only root can give a file away.
        if own == 0 {
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            assert!(
                Key::load(&path).is_ok(),
                "it is for a program that a user runs"
            );
            for loaded in [Key::load_own(&path), Key::load_named(&path)] {
                let error = loaded.unwrap_err().to_string();
                assert!(
                    error.contains("user 12345") && error.contains("chown"),
                    "{error}"
                );
            }
            fs::write(&path, "something else").unwrap();
            let error = Key::load_own(&path).unwrap_err();
            assert!(matches!(error, KeyError::Malformed { .. }), "{error}");
        }
    }

    #[test]
    fn debug_does_not_show_the_key() {
        assert_eq!(format!("{:?}", Key::from_bytes([7; 32])), "Key(secret)");
    }
}
