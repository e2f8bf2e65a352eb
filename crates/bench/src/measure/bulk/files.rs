//! The file that is sent, and a directory for each receiver: in memory where there is room, removed
//! at the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use groupcast_core::Rng;

use crate::measure::BenchError;
use crate::testbed::Testbed;

/// The file's name.
const NAME: &str = "payload.bin";
/// Bytes that are compared at a time.
const BLOCK: usize = 1 << 20;

/// One file and the places where it arrives.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    source: PathBuf,
    size: u64,
}

impl Files {
    /// Makes a file of `size` bytes that cannot be compressed.
    pub(super) fn new(bed: &Testbed, size: u64) -> Result<Self, BenchError> {
        let need = size.saturating_mul(bed.hosts() as u64 + 1);
        let memory = Path::new("/dev/shm");
        let parent = match room(memory) {
            Some(room) if room > need => memory,
            _ => bed.directory(),
        };
        let folder = parent.join(format!("gc-bulk-{}", std::process::id()));
        let files = Self {
            source: folder.join(NAME),
            folder,
            size,
        };
        fs::create_dir_all(&files.folder)
            .and_then(|()| files.fill())
            .map_err(BenchError::io("make the file to be sent"))?;
        Ok(files)
    }

    fn fill(&self) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(BLOCK, File::create(&self.source)?);
        let mut rng = Rng::new(self.size);
        let mut left = self.size;
        while left > 0 {
            let bytes = rng.next_u64().to_be_bytes();
            let part = left.min(8) as usize;
            out.write_all(&bytes[..part])?;
            left -= part as u64;
        }
        out.flush()
    }

    /// Fills every receiver's place once, and empties it: a virtual machine's memory is slow when
    /// it is touched for the first time, which would be charged to the first run.
    pub(super) fn warm_up(&self, hosts: RangeInclusive<usize>) -> Result<(), BenchError> {
        for host in hosts.clone() {
            fs::copy(&self.source, self.clear(host)?.join(NAME))
                .map_err(BenchError::io("warm the memory up"))?;
        }
        hosts
            .map(|host| self.clear(host))
            .try_for_each(|cleared| cleared.map(|_| ()))
    }

    /// The file that is sent.
    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    /// What it is called, where contestants keep names.
    pub(super) fn name(&self) -> &'static str {
        NAME
    }

    /// An empty directory for the receiver on `host`.
    pub(super) fn clear(&self, host: usize) -> Result<PathBuf, BenchError> {
        let directory = self.directory(host);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&directory),
        }
        .map_err(BenchError::io("make a receiver's directory"))?;
        Ok(directory)
    }

    /// Where the receiver on `host` puts what it receives.
    pub(super) fn directory(&self, host: usize) -> PathBuf {
        self.folder.join(format!("host-{host}"))
    }

    /// What is wrong with the file `name` at any of `hosts`, and whether it is there but another;
    /// `None` if nothing is.
    pub(super) fn differs(
        &self,
        hosts: RangeInclusive<usize>,
        name: &str,
    ) -> Result<Option<(String, bool)>, BenchError> {
        for host in hosts {
            let path = self.directory(host).join(name);
            let Ok(arrived) = fs::metadata(&path) else {
                return Ok(Some((format!("host {host} has no file"), false)));
            };
            if arrived.len() != self.size {
                let len = arrived.len();
                return Ok(Some((format!("host {host} has {len} bytes only"), true)));
            }
            if !self
                .is_same(&path)
                .map_err(BenchError::io("compare what arrived"))?
            {
                let problem = format!("host {host} has another file than was sent");
                return Ok(Some((problem, true)));
            }
        }
        Ok(None)
    }

    /// What those `hosts` have by now whose sender did not bring it to an end, in words: how many
    /// have the file `name` as it was sent, and how much of it lies at the others, under whatever
    /// name.
    pub(super) fn standing(
        &self,
        hosts: RangeInclusive<usize>,
        name: &str,
    ) -> Result<String, BenchError> {
        let failed = BenchError::io("look at what arrived");
        let count = hosts.clone().count();
        let look = || -> io::Result<Vec<f64>> {
            let mut shares = Vec::new();
            for host in hosts {
                let directory = self.directory(host);
                let place = directory.join(name);
                let is_whole = fs::metadata(&place).is_ok_and(|found| found.len() == self.size);
                if !is_whole || !self.is_same(&place)? {
                    shares.push(occupied(&directory)? as f64 * 100.0 / self.size as f64);
                }
            }
            Ok(shares)
        };
        let shares = look().map_err(failed)?;
        let whole = format!(
            "{} of {count} receivers have the file",
            count - shares.len()
        );
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        Ok(match shares.len() {
            0 => whole,
            _ => format!("{whole}, the others {least:.0} to {most:.0} % of it"),
        })
    }

    fn is_same(&self, path: &Path) -> io::Result<bool> {
        let (mut sent, mut arrived) = (File::open(&self.source)?, File::open(path)?);
        let (mut expected, mut found) = (vec![0; BLOCK], vec![0; BLOCK]);
        let mut left = self.size;
        while left > 0 {
            let part = left.min(BLOCK as u64) as usize;
            sent.read_exact(&mut expected[..part])?;
            arrived.read_exact(&mut found[..part])?;
            if expected[..part] != found[..part] {
                return Ok(false);
            }
            left -= part as u64;
        }
        Ok(true)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Nothing can be reported from here.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Bytes that the files in `directory` and below it take: holes are not counted.
fn occupied(directory: &Path) -> io::Result<u64> {
    /// What `stat` counts in (stat(2)).
    const UNIT: u64 = 512;
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // One that its receiver has renamed or removed meanwhile does not count.
        let Ok(found) = entry.metadata() else {
            continue;
        };
        sum += match found.is_dir() {
            true => occupied(&entry.path())?,
            false => found.blocks() * UNIT,
        };
    }
    Ok(sum)
}

/// Bytes that are free in `directory`.
fn room(directory: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_is_compared_with_what_was_sent() {
        let folder = std::env::temp_dir().join(format!("gc-files-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Files {
            source: folder.join(NAME),
            folder,
            size: BLOCK as u64 + 9,
        };
        files.fill().unwrap();
        let place = files.clear(2).unwrap().join("x");
        let problem = |files: &Files| files.differs(2..=2, "x").unwrap();
        assert_eq!(problem(&files).map(|(_, differs)| differs), Some(false));
        fs::copy(files.source(), &place).unwrap();
        assert_eq!(problem(&files), None);
        let mut bytes = fs::read(&place).unwrap();
        bytes[BLOCK + 3] ^= 1;
        fs::write(&place, &bytes).unwrap();
        assert_eq!(problem(&files).map(|(_, differs)| differs), Some(true));
        fs::write(&place, &bytes[..7]).unwrap();
        assert_eq!(problem(&files).map(|(_, differs)| differs), Some(true));
        let standing = files.standing(2..=2, "x").unwrap();
        assert_eq!(
            standing,
            "0 of 1 receivers have the file, the others 0 to 0 % of it"
        );
        fs::copy(files.source(), &place).unwrap();
        let standing = files.standing(2..=2, "x").unwrap();
        assert_eq!(standing, "1 of 1 receivers have the file");
        let folder = files.folder.clone();
        drop(files);
        assert!(!folder.exists());
    }
}
