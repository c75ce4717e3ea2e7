//! From the text of a `znippy::` URL, or a path on the command line, to the archive's path.
//!
//! The rules, in order:
//!
//! - `znippy://` in front of an absolute path is dropped: `znippy:///p/a.znippy` is `/p/a.znippy`. There are no hosts.
//! - `~` and `~user` are home directories. Nothing else is decoded: `%41`, `+`, spaces and any other byte mean themselves.
//! - A relative path counts from the directory the caller names.
//! - A file of exactly this name wins, then one with `.znippy` added. A new archive always gets `.znippy`.
//! - A slash at the end is dropped, but then the path may not be a directory: nobody who writes `/mnt/nas/` means
//!   `/mnt/nas.znippy`.
//! - `?at=` asks for an earlier state, unless a file has it in its name.

use std::{
    ffi::OsStr,
    fs::FileType,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};

use crate::error::{Error, Result};

/// The ending of an archive's file name.
pub const EXTENSION: &str = ".znippy";

/// Where relative paths and `~` lead. The library reads no environment, so its caller says.
pub struct Places<'a> {
    /// The directory that relative paths count from; absolute.
    pub cwd: &'a Path,
    /// Returns the home directory of a user, or of the current one (`None`); `None` where there is no such user.
    pub home: &'a dyn Fn(Option<&BStr>) -> Option<PathBuf>,
}

/// The answer of [`locate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The archive's absolute path; the one to create where there is none.
    pub path: PathBuf,
    /// Whether a file is there now.
    pub exists: bool,
    /// Whether the text was a relative path, which means another file in another directory.
    pub relative: bool,
}

/// Returns the path of the archive that `text` names: a remote's URL without `znippy::`, or a path.
///
/// # Errors
/// Fails for what can never be an archive, and where the disk cannot tell whether a file is there: a permission or
/// I/O error is never taken for "no such file".
pub fn locate(text: &BStr, places: &Places<'_>) -> Result<Located> {
    let Spelled { path, relative, slash } = spell(text, places)?;
    let exact = kind(&path)?;
    if slash && exact.is_some_and(|kind| kind.is_dir()) {
        return Err(Error::IsDirectory { path });
    }
    if exact.is_some_and(|kind| !kind.is_dir()) {
        return Ok(Located {
            path,
            exists: true,
            relative,
        });
    }
    if has_extension(&path) {
        // A directory of this name cannot be an archive, nor can one be created in its place.
        return match exact {
            Some(_) => Err(Error::IsDirectory { path }),
            None => absent(text, path, relative),
        };
    }
    let mut longer = path.into_os_string();
    longer.push(EXTENSION);
    let longer = PathBuf::from(longer);
    match kind(&longer)? {
        Some(kind) if kind.is_dir() => Err(Error::IsDirectory { path: longer }),
        Some(_) => Ok(Located {
            path: longer,
            exists: true,
            relative,
        }),
        None => absent(text, longer, relative),
    }
}

/// Returns the answer for an archive that does not exist yet.
fn absent(text: &BStr, path: PathBuf, relative: bool) -> Result<Located> {
    match text.find("?at=") {
        Some(at) => Err(Error::Invalid(format!(
            "{}: reading an earlier state with '?at=' is not supported yet (and no file has that in its name)",
            text[..at].as_bstr()
        ))),
        None => Ok(Located {
            path,
            exists: false,
            relative,
        }),
    }
}

/// A path as it was written, before a look at the disk.
#[derive(Debug, PartialEq, Eq)]
struct Spelled {
    path: PathBuf,
    relative: bool,
    /// It ended in a slash.
    slash: bool,
}

fn spell(text: &BStr, places: &Places<'_>) -> Result<Spelled> {
    let invalid = |why: &str| Err(Error::Invalid(format!("'{text}': {why}")));
    let bytes: &[u8] = match text.strip_prefix(b"znippy://") {
        Some(rest) if rest.starts_with(b"/") => rest,
        Some(_) => return invalid("a znippy URL names no host; write znippy:///absolute/path or znippy::path"),
        None => text,
    };
    if bytes.contains(&0) {
        return invalid("a path holds no NUL byte");
    }
    let trimmed = bytes.trim_end_with(|byte| byte == '/');
    if trimmed.is_empty() {
        return invalid("names no archive; write the path of a file, such as /backup/app.znippy");
    }
    let slash = trimmed.len() < bytes.len();
    if let Some(rest) = trimmed.strip_prefix(b"~") {
        let end = rest.find_byte(b'/').unwrap_or(rest.len());
        let user = rest[..end].as_bstr();
        let Some(home) = (places.home)((!user.is_empty()).then_some(user)) else {
            return invalid("no such home directory (for a file whose name begins with '~' write './~')");
        };
        let below = rest[end..].trim_start_with(|byte| byte == '/');
        if below.is_empty() {
            return Ok(Spelled {
                path: home,
                relative: false,
                slash: true,
            });
        }
        return Ok(Spelled {
            path: home.join(OsStr::from_bytes(below)),
            relative: false,
            slash,
        });
    }
    let path = Path::new(OsStr::from_bytes(trimmed));
    let relative = path.is_relative();
    Ok(Spelled {
        path: if relative {
            normalized(places.cwd, path)
        } else {
            path.to_owned()
        },
        relative,
        slash,
    })
}

/// Joins `path` to `base` without its leading `./`, so that the result reads well in messages. `..` stays: what it
/// means depends on symbolic links.
fn normalized(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix(".").unwrap_or(path))
}

/// Returns what is at `path`, following symbolic links; `None` where nothing is.
fn kind(path: &Path) -> Result<Option<FileType>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, "look for it")(error)),
    }
}

fn has_extension(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(EXTENSION.as_bytes())
}

/// Returns `path` as the URL that means it from every directory.
pub fn url_of(path: &Path) -> BString {
    let mut url = b"znippy::".to_vec();
    url.extend(path.to_owned().into_os_string().into_vec());
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(dir: &Path, text: &str) -> Result<Located> {
        let home = |user: Option<&BStr>| match user {
            None => Some(dir.join("home")),
            Some(name) if name == "ann" => Some(dir.join("ann")),
            Some(_) => None,
        };
        locate(text.into(), &Places { cwd: dir, home: &home })
    }

    fn path(dir: &Path, text: &str) -> String {
        let found = run(dir, text).expect("locates").path;
        found
            .strip_prefix(dir)
            .expect("below the directory")
            .to_str()
            .expect("utf-8")
            .to_owned()
    }

    #[test]
    fn an_exact_file_wins_then_the_extension_is_added() {
        let dir = tempfile::tempdir().expect("tempdir");
        assert_eq!(path(dir.path(), "a"), "a.znippy");
        assert!(!run(dir.path(), "a").expect("locates").exists);
        std::fs::write(dir.path().join("a.znippy"), "").expect("write");
        assert_eq!(path(dir.path(), "a"), "a.znippy");
        assert!(run(dir.path(), "a").expect("locates").exists);
        std::fs::write(dir.path().join("a"), "").expect("write");
        assert_eq!(path(dir.path(), "a"), "a");
        assert_eq!(path(dir.path(), "a.znippy"), "a.znippy");
        assert_eq!(path(dir.path(), "new.znippy"), "new.znippy");
        assert_eq!(path(dir.path(), "new.git"), "new.git.znippy");
    }

    #[test]
    fn a_directory_is_no_archive_but_may_stand_beside_one() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::create_dir(dir.path().join("app")).expect("mkdir");
        assert_eq!(path(dir.path(), "app"), "app.znippy");
        assert!(matches!(run(dir.path(), "app/"), Err(Error::IsDirectory { .. })));
        std::fs::create_dir(dir.path().join("dir.znippy")).expect("mkdir");
        assert!(matches!(run(dir.path(), "dir.znippy"), Err(Error::IsDirectory { .. })));
        assert!(matches!(run(dir.path(), "dir"), Err(Error::IsDirectory { .. })));
        std::fs::write(dir.path().join("app.znippy"), "").expect("write");
        assert!(matches!(run(dir.path(), "app/"), Err(Error::IsDirectory { .. })));
        assert_eq!(path(dir.path(), "app.znippy/"), "app.znippy");
    }

    #[test]
    fn nothing_is_decoded() {
        let dir = tempfile::tempdir().expect("tempdir");
        for name in ["a b", "%41", "a+b", "naïve-☃", "a%2Fb", "a#b", "a?b"] {
            assert_eq!(path(dir.path(), name), format!("{name}.znippy"));
            assert_eq!(path(dir.path(), &format!("./{name}")), format!("{name}.znippy"));
        }
    }

    #[test]
    fn homes_schemes_and_relative_paths() {
        let dir = tempfile::tempdir().expect("tempdir");
        for part in ["home", "ann"] {
            std::fs::create_dir(dir.path().join(part)).expect("mkdir");
        }
        assert_eq!(path(dir.path(), "~/x"), "home/x.znippy");
        assert_eq!(path(dir.path(), "~ann/x"), "ann/x.znippy");
        assert!(run(dir.path(), "~bob/x").is_err());
        let absolute = format!("znippy://{}/x", dir.path().display());
        assert_eq!(path(dir.path(), &absolute), "x.znippy");
        assert!(run(dir.path(), "znippy://host/x").is_err());
        assert!(run(dir.path(), "x").expect("locates").relative);
        assert!(!run(dir.path(), &absolute).expect("locates").relative);
        assert!(!run(dir.path(), "~/x").expect("locates").relative);
        assert!(run(dir.path(), "").is_err());
        assert!(run(dir.path(), "/").is_err());
    }

    #[test]
    fn at_counts_only_where_no_file_has_it_in_its_name() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("a.znippy"), "").expect("write");
        let error = run(dir.path(), "a.znippy?at=5").expect_err("not supported");
        assert!(error.to_string().contains("not supported yet"), "{error}");
        std::fs::write(dir.path().join("a.znippy?at=5"), "").expect("write");
        assert_eq!(path(dir.path(), "a.znippy?at=5"), "a.znippy?at=5");
    }

    #[test]
    fn an_error_of_the_disk_is_not_absence() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("file"), "").expect("write");
        assert!(matches!(run(dir.path(), "file/x"), Err(Error::Io { .. })));
    }
}
