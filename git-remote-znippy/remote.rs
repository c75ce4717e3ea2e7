//! The archive behind a remote: where it is, whether it is the right one, and whether it may be created.

use std::{
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use bstr::{BStr, BString, ByteSlice};
use znippy::{
    Error,
    archive::{Durability, Snapshot, WritePolicy},
    locate::{self, Located, Places},
    media::{LockMode, unmounted_ancestor},
};

use crate::{
    client,
    config::{Config, remote_key},
    ui::{self, Voice},
};

/// A remote as git named it.
#[derive(Debug)]
pub struct Remote {
    /// The remote's name, or the whole URL where the user typed one.
    name: BString,
    /// The URL without `znippy::`.
    address: BString,
    located: Located,
}

impl Remote {
    /// Finds the archive's path; a look at the disk, not into the file.
    ///
    /// # Errors
    /// Fails where the URL names nothing that could be an archive.
    pub fn find(name: BString, address: Option<BString>) -> Result<Remote> {
        let Some(address) = address.filter(|address| !address.is_empty()) else {
            bail!("the remote '{}' has no URL", ui::text(&name));
        };
        let mut cwd = std::env::current_dir().context("cannot tell the current directory")?;
        if is_typed(name.as_bstr()) {
            // git runs the helper at the top of the worktree, but the user means the directory he is in.
            if let Some(prefix) = std::env::var_os("GIT_PREFIX") {
                cwd.push(prefix);
            }
        }
        let located = locate::locate(address.as_bstr(), &Places { cwd: &cwd, home: &home })?;
        Ok(Remote { name, address, located })
    }

    /// Returns the archive's path.
    pub fn path(&self) -> &Path {
        &self.located.path
    }

    /// Opens the archive, and passes on what a careful reader should know.
    ///
    /// # Errors
    /// Fails with [`Error::NotFound`] where there is none.
    pub fn open(&self, voice: Voice) -> Result<Snapshot, Error> {
        let snapshot = Snapshot::open(self.path())?;
        for warning in snapshot.warnings() {
            voice.warning(format_args!("{}: {warning}", self.path().display()));
        }
        Ok(snapshot)
    }

    /// Returns whether git knows the remote by a name that its configuration explains.
    fn is_configured(&self, config: &Config) -> bool {
        config.remote(self.name.as_bstr(), "url").is_some() || config.remote(self.name.as_bstr(), "vcs").is_some()
    }

    /// Returns whether the URL is a relative path.
    pub fn is_relative(&self) -> bool {
        self.located.relative
    }

    /// Returns whether `git clone` is about to set up this remote: it stores the URL first and what to fetch last.
    pub fn is_being_cloned(&self, config: &Config) -> bool {
        config.remote(self.name.as_bstr(), "fetch").is_none()
    }

    /// Refuses a stored relative URL: git runs the helper in a different directory for each command and worktree, and
    /// the same text would mean a different file.
    ///
    /// # Errors
    /// Tells the absolute form.
    pub fn refuse_relative(&self, config: &Config) -> Result<()> {
        if !self.located.relative || !self.is_configured(config) {
            return Ok(());
        }
        bail!(
            "znippy::{}: a remote's path must be absolute, as a relative one means another file in another directory; \
             run: git remote set-url {} '{}'",
            ui::text(&self.address),
            ui::text(&self.name),
            ui::text(&locate::url_of(&self.absolute_path()))
        )
    }

    /// Replaces a relative URL, which `git clone` has stored as it was typed, by the absolute one.
    ///
    /// # Errors
    /// Fails where the configuration cannot be written: later fetches would not find the archive.
    pub fn make_absolute(&self, config: &Config) -> Result<()> {
        if !self.located.relative || !self.is_configured(config) {
            return Ok(());
        }
        set_config(
            &remote_key(self.name.as_bstr(), "url"),
            &locate::url_of(&self.absolute_path()),
        )
    }

    /// Returns the path without `.` and `..`, as far as it exists.
    fn absolute_path(&self) -> PathBuf {
        let path = self.path();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return path.to_owned();
        };
        match parent.canonicalize() {
            Ok(parent) => parent.join(name),
            Err(_) => path.to_owned(),
        }
    }

    /// Checks that the archive is the one this remote has always been.
    ///
    /// # Errors
    /// Fails where another UUID is stored: another disk may be mounted in the place of the right one.
    pub fn check_identity(&self, config: &Config, uuid: &str) -> Result<()> {
        match config.remote(self.name.as_bstr(), "znippyuuid") {
            Some(stored) if stored != uuid => bail!(
                "{}: this is another archive ({uuid}) than the one this remote was used with ({stored}); is the right \
                 disk mounted? If the change is intended: git config --unset remote.{}.znippyUuid",
                self.path().display(),
                ui::text(&self.name)
            ),
            _ => Ok(()),
        }
    }

    /// Returns when a push counts as done: the remote's own setting, else the general one.
    ///
    /// # Errors
    /// Fails where the setting has a value that does not exist.
    pub fn durability(&self, config: &Config) -> Result<Durability> {
        let own = config.remote(self.name.as_bstr(), "znippydurability");
        let Some(value) = own.or_else(|| config.get("znippy.durability")) else {
            return Ok(Durability::default());
        };
        let setting = match own {
            Some(_) => format!("remote.{}.znippyDurability", self.name),
            None => "znippy.durability".into(),
        };
        let name = value.to_ascii_lowercase();
        let durability = name.to_str_lossy().parse();
        durability.map_err(|why: String| anyhow!("{setting}: {why}"))
    }

    /// Returns how other writers are kept away: the remote's own setting, else the general one.
    ///
    /// # Errors
    /// Fails where the setting has a value that does not exist.
    pub fn lock_mode(&self, config: &Config) -> Result<LockMode> {
        let own = config.remote(self.name.as_bstr(), "znippylock");
        let Some(value) = own.or_else(|| config.get("znippy.lock")) else {
            return Ok(LockMode::default());
        };
        let setting = match own {
            Some(_) => format!("remote.{}.znippyLock", self.name),
            None => "znippy.lock".into(),
        };
        let mode = value.to_ascii_lowercase().to_str_lossy().parse();
        mode.map_err(|why: String| anyhow!("{setting}: {why}"))
    }

    /// Returns how long to wait for another writer that makes no progress.
    ///
    /// # Errors
    /// Fails where the setting is no number.
    pub fn lock_timeout(&self, config: &Config) -> Result<Duration> {
        let Some(value) = config.get("znippy.locktimeout") else {
            return Ok(WritePolicy::default().timeout);
        };
        let seconds = value.to_str().ok().and_then(|text| text.parse().ok());
        seconds
            .map(Duration::from_secs)
            .ok_or_else(|| anyhow!("znippy.lockTimeout: '{}' is no number of seconds", ui::text(value)))
    }

    /// Checks that a missing archive may be created by a push.
    ///
    /// # Errors
    /// Fails where it was there before, where its disk is not mounted, or where the user forbids creation.
    pub fn check_creation(&self, config: &Config) -> Result<()> {
        let path = self.path();
        if config.remote(self.name.as_bstr(), "znippyuuid").is_some() {
            bail!(
                "{}: the archive is gone, but this remote was used with one before; is the disk mounted? \
                 To start a new one: git config --unset remote.{}.znippyUuid",
                path.display(),
                ui::text(&self.name)
            );
        }
        match config.get("znippy.create").map(|value| value.to_ascii_lowercase()) {
            None => {}
            Some(value) if value == b"auto" => {}
            Some(value) if value == b"never" => {
                bail!(
                    "{}: no such archive, and znippy.create=never forbids to create it",
                    path.display()
                )
            }
            Some(value) => bail!("znippy.create must be auto or never, not '{}'", value.as_bstr()),
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        match std::fs::metadata(parent) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(Error::MissingParent { path: path.to_owned() }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::MissingParent { path: path.to_owned() }.into());
            }
            Err(error) => return Err(error).with_context(|| format!("{}: cannot look for it", parent.display())),
        }
        if let Some(point) = unmounted_ancestor(&self.absolute_path()) {
            bail!(
                "{}: not created, because {} is in /etc/fstab but not mounted",
                path.display(),
                point.display()
            );
        }
        Ok(())
    }

    /// Remembers the archive's UUID for this remote, once something worked. A failure to do so is only a remark: a
    /// read-only repository can still be pushed from.
    pub fn remember(&self, config: &Config, uuid: &str, voice: Voice) {
        let name = self.name.as_bstr();
        if !self.is_configured(config) || config.remote(name, "znippyuuid").is_some() {
            return;
        }
        if let Err(error) = set_config(&remote_key(name, "znippyUuid"), uuid.as_bytes()) {
            voice.detail(format_args!(
                "the archive's identity was not stored: {}",
                znippy::error::one_line(error.as_ref())
            ));
        }
    }
}

/// Returns whether git was given a URL, not a remote's name.
fn is_typed(name: &BStr) -> bool {
    name.starts_with(b"znippy::") || name.starts_with(b"znippy://")
}

fn set_config(key: &BString, value: &[u8]) -> Result<()> {
    let output = client::git()
        .arg("config")
        .arg(std::ffi::OsString::from_vec(key.to_vec()))
        .arg(std::ffi::OsString::from_vec(value.to_vec()))
        .output()
        .context("cannot run git config")?;
    match output.status.success() {
        true => Ok(()),
        false => Err(anyhow!("git config {key} failed: {}", output.stderr.trim().as_bstr())),
    }
}

/// Returns the home directory of `user`, or of the current one, as git finds it.
fn home(user: Option<&BStr>) -> Option<PathBuf> {
    let Some(user) = user else {
        return std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
    };
    let mut setting = b"znippy.home=~".to_vec();
    setting.extend_from_slice(user);
    let output = client::git()
        .arg("-c")
        .arg(std::ffi::OsString::from_vec(setting))
        .args(["config", "-z", "--type=path", "--get", "znippy.home"])
        .output()
        .ok()?;
    let path = output.stdout.strip_suffix(b"\0")?;
    output
        .status
        .success()
        .then(|| std::ffi::OsString::from_vec(path.to_vec()).into())
}
