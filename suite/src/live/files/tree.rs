//! Trees of files from a seed, and whether two trees are the same.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use groupcast_core::Rng;

use super::super::Outcome;

/// Bytes that do not repeat, from a seed.
pub fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Makes a tree of about `bytes` bytes at `root`: one large file, and small ones with every kind of
/// entry among them. Names are the same whatever the seed, contents are not.
pub fn make(root: &Path, bytes: usize, rng: &mut Rng) -> Outcome {
    const SMALL: usize = 60;
    const SMALL_MAX: u64 = 20_000;
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::create_dir_all(root.join("deep/er"))?;
    fs::create_dir_all(root.join("nothing"))?;
    fs::write(root.join("empty"), "")?;
    symlink("../large", root.join("deep/link"))?;
    let mut left = bytes;
    for number in 0..SMALL {
        let len = rng.below(SMALL_MAX) as usize;
        left = left.saturating_sub(len);
        let directory = ["", "deep", "deep/er"][number % 3];
        let path = root.join(directory).join(format!("small {number}\n"));
        fs::write(&path, noise(rng, len))?;
        let mode = [0o644, 0o444, 0o755, 0o600][number % 4];
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    fs::write(root.join("large"), noise(rng, left))?;
    Ok(())
}

/// Fails unless `there` has what `here` has and nothing else: names, kinds, permissions, times and
/// bytes.
pub fn assert_same(here: &Path, there: &Path) -> Outcome {
    let differs = |what: &str| Err(format!("{} differs: {what}", there.display()).into());
    let (a, b) = (here.symlink_metadata()?, there.symlink_metadata()?);
    if a.file_type() != b.file_type() {
        return differs("its kind");
    }
    if a.is_symlink() {
        return match fs::read_link(here)? == fs::read_link(there)? {
            true => Ok(()),
            false => differs("where it points"),
        };
    }
    if a.mode() != b.mode() {
        return differs("its permissions");
    }
    if (a.mtime(), a.mtime_nsec()) != (b.mtime(), b.mtime_nsec()) {
        return differs("its time");
    }
    if a.is_file() {
        return match fs::read(here)? == fs::read(there)? {
            true => Ok(()),
            false => differs("its bytes"),
        };
    }
    let count = |path: &Path| fs::read_dir(path).map(Iterator::count);
    if count(here)? != count(there)? {
        return differs("its entries");
    }
    for entry in fs::read_dir(here)? {
        let name = entry?.file_name();
        assert_same(&here.join(&name), &there.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_like_itself_and_like_no_other() -> Outcome {
        let directory = std::env::temp_dir().join(format!("gc-tree-{}", std::process::id()));
        let (a, b) = (directory.join("a"), directory.join("b"));
        make(&a, 1_000_000, &mut Rng::new(1))?;
        assert_same(&a, &a)?;
        make(&b, 1_000_000, &mut Rng::new(1))?;
        let time = assert_same(&a, &b).map_err(|error| error.to_string());
        assert!(time.is_err_and(|error| error.contains("time")));
        fs::write(a.join("large"), "x")?;
        fs::copy(a.join("large"), a.join("more"))?;
        assert!(assert_same(&a.join("large"), &b.join("large")).is_err());
        fs::remove_dir_all(directory)?;
        Ok(())
    }
}
