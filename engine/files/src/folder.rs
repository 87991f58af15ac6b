//! Folders in which the program writes, and links among them.
//!
//! People keep checkpoints on another disk, behind a link. Such a link is followed if this user made it and owns the folder that it leads
//! to. Where others may write too, anybody can make a link: one of another user, or one to a folder of another user, is refused.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The folder that a link leads to; `None` where the name is no link, or no folder is behind it.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] if the link or the folder belongs to another user; else the error of the system.
pub fn followed(path: &Path) -> io::Result<Option<PathBuf>> {
    // If a name cannot be looked up, the code that uses it reports the error.
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(None) };
    let Some(target) = fs::metadata(path).ok().filter(|found| link.is_symlink() && found.is_dir()) else {
        return Ok(None);
    };
    let leads_to = fs::canonicalize(path)?;
    let own = rustix::process::geteuid().as_raw();
    let (what, owner) = match (link.uid(), target.uid()) {
        (owner, _) if owner != own => ("the link", owner),
        (_, owner) if owner != own => ("that folder", owner),
        _ => return Ok(Some(leads_to)),
    };
    let error = format!(
        "it is a link to {}, and {what} belongs to user {owner}, while this process runs as user {own}: nothing is written there; name a \
         folder of your own",
        leads_to.display()
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, error))
}

/// Makes a folder of the program inside one of its own folders, unless it is there.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a link, which is not followed; else the error of the system.
pub fn make_within(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    match fs::symlink_metadata(path)?.is_symlink() {
        false => Ok(()),
        true => {
            let error = "it is a link, and what is written here stays in this folder; remove the link";
            Err(io::Error::new(ErrorKind::InvalidInput, error))
        }
    }
}

/// Returns once the names in a folder are on disk: a file that is on disk can still lose its name.
///
/// # Errors
/// The error of the system.
pub fn sync(path: &Path) -> io::Result<()> {
    sync_open(&fs::File::open(path)?)
}

/// As [`sync`], of a folder that is open.
pub(crate) fn sync_open(folder: impl AsFd) -> io::Result<()> {
    match rustix::fs::fsync(folder) {
        // Some network file systems have no such operation for folders.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        synced => Ok(synced?),
    }
}

/// The folder that a name is in.
pub fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes what has a name: a file, a folder with all that it holds, or a link itself. Of a link to a folder of this user the link stays, and
/// what the folder holds is removed.
///
/// # Errors
/// As [`followed`].
pub fn remove(path: &Path) -> io::Result<()> {
    match followed(path)? {
        Some(_) => fs::read_dir(path)?.try_for_each(|entry| remove_itself(&entry?.path())),
        None => remove_itself(path),
    }
}

/// Removes a folder with all that it holds, or whatever else has the name; of a link the link.
///
/// # Errors
/// The error of the system.
pub fn remove_itself(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// The target of a link in a folder, if it lies outside of the folder. A folder of Hugging Face's cache holds
/// links to the cache's own `blobs`.
///
/// # Errors
/// The error of the system.
pub fn leads_out(path: &Path) -> io::Result<Option<PathBuf>> {
    if !fs::symlink_metadata(path)?.is_symlink() {
        return Ok(None);
    }
    let target = fs::canonicalize(path)?;
    let home = fs::canonicalize(parent_of(path))?;
    // `models--NAME/snapshots/REVISION/config.json` leads to `models--NAME/blobs/CHECKSUM`.
    let snapshots = home.parent().filter(|folder| folder.ends_with("snapshots"));
    let blobs = snapshots.and_then(Path::parent).map(|model| model.join("blobs"));
    let inside = target.parent().is_some_and(|parent| parent == home || Some(parent) == blobs.as_deref());
    Ok((!inside).then_some(target))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    #[test]
    fn a_link_is_followed_where_one_user_has_both_ends() {
        let home = tempfile::tempdir().unwrap();
        let [disk, link, file, gone] = ["disk", "link", "file", "gone"].map(|name| home.path().join(name));
        fs::create_dir(&disk).unwrap();
        fs::write(&file, "").unwrap();
        symlink(&disk, &link).unwrap();
        symlink("nowhere", &gone).unwrap();
        assert_eq!(followed(&link).unwrap(), Some(fs::canonicalize(&disk).unwrap()));
        for path in [&disk, &file, &gone, &home.path().join("missing")] {
            assert_eq!(followed(path).unwrap(), None, "{}", path.display());
        }
        assert!(make_within(&link).is_err());
        fs::write(disk.join("a"), "").unwrap();
        remove(&link).unwrap();
        assert!(link.is_symlink() && disk.is_dir() && !disk.join("a").exists());
        // Only the superuser can give files away.
        if chown(&disk, Some(1234), None).is_ok() {
            let error = followed(&link).unwrap_err().to_string();
            assert!(error.contains("that folder belongs to user 1234"), "{error}");
            chown(&disk, Some(rustix::process::geteuid().as_raw()), None).unwrap();
            lchown(&link, Some(1234), None).unwrap();
            let error = followed(&link).unwrap_err().to_string();
            assert!(error.contains("the link belongs to user 1234"), "{error}");
            fs::write(disk.join("a"), "").unwrap();
            assert!(remove(&link).is_err() && disk.join("a").exists());
        }
    }

    #[test]
    fn only_links_that_stay_in_a_folder_or_its_cache_are_of_it() {
        let home = tempfile::tempdir().unwrap();
        let snapshot = home.path().join("models--a/snapshots/1");
        let blobs = home.path().join("models--a/blobs");
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir(&blobs).unwrap();
        let secret = home.path().join("secret");
        for file in [&secret, &blobs.join("7"), &snapshot.join("own")] {
            fs::write(file, "").unwrap();
        }
        for (name, target, leads) in [
            ("a", blobs.join("7"), false),
            ("b", "own".into(), false),
            ("c", secret.clone(), true),
            ("d", "../../../secret".into(), true),
        ] {
            symlink(target, snapshot.join(name)).unwrap();
            assert_eq!(leads_out(&snapshot.join(name)).unwrap().is_some(), leads, "{name}");
        }
        assert_eq!(leads_out(&snapshot.join("own")).unwrap(), None);
        // Blobs that are a link themselves may be any folder.
        fs::remove_file(blobs.join("7")).unwrap();
        fs::remove_dir(&blobs).unwrap();
        symlink(home.path(), &blobs).unwrap();
        symlink("../../blobs/secret", snapshot.join("e")).unwrap();
        assert!(leads_out(&snapshot.join("e")).unwrap().is_some());
    }
}
