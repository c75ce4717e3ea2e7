//! The repository git runs the helper for: where its parts are, and what it has.
//!
//! The layout is that of gitrepository-layout(5): `$GIT_DIR` is the repository or a linked worktree's own part of it,
//! and `commondir` in it leads to the shared part. No process is needed to know that.

use std::{
    collections::HashSet,
    ffi::OsString,
    io::{self, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::JoinHandle,
};

use anyhow::{Context, Result, anyhow, bail};
use bstr::{BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use znippy::quote;

use crate::config::Config;

/// The client's repository. All paths are absolute: git deletes files we name from another directory.
#[derive(Debug)]
pub struct Client {
    /// The part that all worktrees share.
    pub common: PathBuf,
    /// Where objects are, `GIT_OBJECT_DIRECTORY` included.
    pub objects: PathBuf,
    /// This worktree's own part.
    git_dir: PathBuf,
}

impl Client {
    /// Finds the repository from the environment git sets.
    ///
    /// # Errors
    /// Fails outside of a repository.
    pub fn from_environment() -> Result<Client> {
        let cwd = std::env::current_dir().context("cannot tell the current directory")?;
        let git_dir =
            std::env::var_os("GIT_DIR").ok_or_else(|| anyhow!("not in a git repository (GIT_DIR is not set)"))?;
        let git_dir = tidy(cwd.join(git_dir));
        let common = match std::env::var_os("GIT_COMMON_DIR") {
            Some(common) => cwd.join(common),
            None => common_dir(&git_dir)?,
        };
        let objects = match std::env::var_os("GIT_OBJECT_DIRECTORY") {
            Some(objects) if !objects.is_empty() => cwd.join(objects),
            _ => common.join("objects"),
        };
        Ok(Client {
            common: tidy(common),
            objects: tidy(objects),
            git_dir,
        })
    }

    /// Returns what the repository's own configuration file tells of these two, if that is simple enough to see without
    /// git: its hash function, and the archive identities that are stored for remotes.
    pub fn glance(&self) -> Option<(Kind, Vec<BString>)> {
        let config = std::fs::read(self.common.join("config")).ok()?;
        // git looks for the object format in this file only. Where it is not named, it is the default.
        if config.to_ascii_lowercase().contains_str("objectformat") {
            return None;
        }
        let identity = |line: &[u8]| -> Option<BString> {
            let (key, value) = line.split_once_str("=")?;
            key.trim()
                .eq_ignore_ascii_case(b"znippyuuid")
                .then(|| value.trim().into())
        };
        Some((Kind::Sha1, config.lines().filter_map(identity).collect()))
    }

    /// Returns git's hash function here.
    pub fn object_format(config: &Config) -> Result<Kind> {
        match config.get("extensions.objectformat").map(|name| name.as_bytes()) {
            None | Some(b"sha1") => Ok(Kind::Sha1),
            Some(b"sha256") => Ok(Kind::Sha256),
            Some(other) => bail!("the repository's object format '{}' is not supported", other.as_bstr()),
        }
    }

    /// Returns whether history or objects may be missing here, so that a pack may come out with holes.
    pub fn may_have_holes(&self, config: &Config) -> bool {
        let filled = |path: PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
        self.is_shallow() || config.is_partial_clone() || filled(self.common.join("info/grafts"))
    }

    /// Returns whether the repository's own configuration file looks like that of a partial clone.
    pub fn may_be_partial(&self) -> bool {
        let config = std::fs::read(self.common.join("config"))
            .unwrap_or_default()
            .to_ascii_lowercase();
        config.contains_str("promisor") || config.contains_str("partialclone")
    }

    /// Returns whether this is a shallow clone.
    pub fn is_shallow(&self) -> bool {
        !self.shallow_commits().is_empty()
    }

    /// Returns the commits of a shallow clone whose parents are not here.
    pub fn shallow_commits(&self) -> HashSet<ObjectId> {
        let path = std::env::var_os("GIT_SHALLOW_FILE").map_or_else(|| self.common.join("shallow"), PathBuf::from);
        let list = std::fs::read(path).unwrap_or_default();
        list.lines()
            .filter_map(|line| ObjectId::from_hex(line.trim()).ok())
            .collect()
    }

    /// Returns whether there is no reference yet.
    pub fn is_empty(&self) -> Result<bool> {
        let output = git()
            .args(["for-each-ref", "--count=1"])
            .output()
            .context("cannot run git for-each-ref")?;
        match output.status.success() {
            true => Ok(output.stdout.is_empty()),
            false => bail!("git for-each-ref failed: {}", output.stderr.trim().as_bstr()),
        }
    }

    /// Returns the branch that is checked out, full name; `None` where HEAD is detached or cannot be read.
    pub fn current_branch(&self) -> Option<BString> {
        if let Ok(head) = std::fs::read(self.git_dir.join("HEAD")) {
            if let Some(name) = head.strip_prefix(b"ref: ") {
                let name = name.trim();
                // `refs/heads/.invalid` stands in HEAD where the references live in another format's files.
                if name != b"refs/heads/.invalid" {
                    return Some(name.into());
                }
            } else if ObjectId::from_hex(head.trim()).is_ok() {
                return None;
            }
        }
        let output = git().args(["symbolic-ref", "-q", "HEAD"]).output().ok()?;
        output.status.success().then(|| output.stdout.trim().into())
    }

    /// Returns the value of `GIT_ALTERNATE_OBJECT_DIRECTORIES` for a git that writes objects elsewhere and reads ours.
    pub fn as_alternate(&self) -> OsString {
        let mut list = quote::list_entry(self.objects.as_os_str().as_bytes());
        if let Some(more) = std::env::var_os("GIT_ALTERNATE_OBJECT_DIRECTORIES").filter(|list| !list.is_empty()) {
            list.push(b':');
            list.extend_from_slice(more.as_bytes());
        }
        OsString::from_vec(list.into())
    }

    /// Starts to read the values of all references.
    pub fn start_tips() -> Result<PendingTips> {
        PendingTips::start(git())
    }

    /// Returns the values of all references here and in the repositories that objects are borrowed from: all of them
    /// have their history complete, so a fetch need not bring what they reach.
    pub fn tips(&self, pending: PendingTips) -> Result<Vec<ObjectId>> {
        let mut tips = Vec::new();
        let warnings = pending.finish(&mut tips)?;
        let _ = io::stderr().write_all(&warnings);
        for store in self.alternates() {
            // Refs of a borrowed store only help; one that is not a repository has none.
            let Some(repository) = store.parent().filter(|path| path.join("refs").is_dir()) else {
                continue;
            };
            let mut listing = git();
            for name in [
                "GIT_COMMON_DIR",
                "GIT_OBJECT_DIRECTORY",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                "GIT_WORK_TREE",
            ] {
                listing.env_remove(name);
            }
            listing.env("GIT_DIR", repository);
            let _ = PendingTips::start(listing).and_then(|pending| pending.finish(&mut tips));
        }
        tips.sort_unstable();
        tips.dedup();
        Ok(tips)
    }

    /// Returns the object directories that `info/alternates` names, directly.
    fn alternates(&self) -> Vec<PathBuf> {
        let Ok(list) = std::fs::read(self.objects.join("info/alternates")) else {
            return Vec::new();
        };
        list.lines()
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
            .filter_map(quote::unquote)
            .map(|line| self.objects.join(OsString::from_vec(line.into())))
            .filter_map(|path| path.canonicalize().ok())
            .collect()
    }
}

/// `git for-each-ref` under way. What it says is told when it is wanted.
pub struct PendingTips(JoinHandle<io::Result<Output>>);

impl PendingTips {
    /// Starts it by `git`, which says where.
    fn start(mut git: Command) -> Result<PendingTips> {
        let listing = git
            .args(["for-each-ref", "--format=%(objectname)"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = listing.spawn().context("cannot run git for-each-ref")?;
        // More than a pipe holds is read while nobody asks for it yet.
        Ok(PendingTips(std::thread::spawn(|| child.wait_with_output())))
    }

    /// Adds the values to `tips`, and returns what git wrote to standard error.
    fn finish(self, tips: &mut Vec<ObjectId>) -> Result<Vec<u8>> {
        let output = self.0.join().expect("reading does not panic");
        let output = output.context("cannot read the output of git for-each-ref")?;
        if !output.status.success() {
            bail!(
                "git for-each-ref failed ({}): {}",
                output.status,
                output.stderr.trim().as_bstr()
            );
        }
        tips.extend(output.stdout.lines().filter_map(|line| ObjectId::from_hex(line).ok()));
        Ok(output.stderr)
    }
}

/// Returns a git command that sees objects as they are: no replacements, no grafts, no download of missing ones.
pub fn git() -> Command {
    let mut command = Command::new("git");
    // Without this, git finds it advisable to talk about the empty graft file.
    command.args(["-c", "advice.graftFileDeprecated=false"]);
    command
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_GRAFT_FILE", "/dev/null")
        .env("GIT_NO_LAZY_FETCH", "1");
    command
}

/// Follows `commondir`, which only a linked worktree has.
fn common_dir(git_dir: &Path) -> Result<PathBuf> {
    let file = git_dir.join("commondir");
    match std::fs::read(&file) {
        Ok(text) => Ok(git_dir.join(OsString::from_vec(text.trim_end().to_vec()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(git_dir.to_owned()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Drops `.` from a path, so that a repository at `.` reads well in messages.
fn tidy(path: PathBuf) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_at_a_simple_configuration() {
        let dir = tempfile::tempdir().expect("tempdir");
        let client = Client {
            common: dir.path().into(),
            objects: dir.path().join("objects"),
            git_dir: dir.path().into(),
        };
        let glance = |text: &str| {
            std::fs::write(dir.path().join("config"), text).expect("write");
            client.glance()
        };
        assert_eq!(glance("[core]\n\tbare = true\n"), Some((Kind::Sha1, vec![])));
        assert_eq!(
            glance("[remote \"o\"]\n\tZnippyUuid = a-b\n"),
            Some((Kind::Sha1, vec!["a-b".into()]))
        );
        assert_eq!(glance("[extensions]\n\tobjectFormat = sha256\n"), None);
    }

    #[test]
    fn a_linked_worktree_leads_to_the_shared_part() {
        let dir = tempfile::tempdir().expect("tempdir");
        let linked = dir.path().join("worktrees/w");
        std::fs::create_dir_all(&linked).expect("mkdir");
        std::fs::write(linked.join("commondir"), "../..\n").expect("write");
        assert_eq!(common_dir(&linked).expect("reads"), linked.join("../.."));
        assert_eq!(common_dir(dir.path()).expect("reads"), dir.path());
    }
}
