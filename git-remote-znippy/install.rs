//! Puts a pack into the client's object store the way git itself does.
//!
//! Everything is written under `tmp_*` names, which `git gc` sweeps after a crash; then `.pack`, `.rev` and, last,
//! `.idx` get their names, because git takes a pack for complete when it sees its `.idx`.

use std::{
    borrow::Cow,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
};

use anyhow::{Context, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::pack::{
    EntryTable,
    disk::DiskPack,
    fsck, idx,
    resolve::{ResolveOptions, resolve},
};

use crate::{
    cleanup::Guard,
    client::{self, Client},
    config::Config,
    ui::{Progress, Voice},
};

/// Which of the files we write git wants synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sync {
    pack: bool,
    metadata: bool,
}

impl Sync {
    /// Reads `core.fsync`: a list of parts, or of parts to leave out of the default, which syncs both.
    pub fn from_config(config: &Config) -> Sync {
        let (mut base, mut add, mut remove) = ([true, true], [false, false], [false, false]);
        let list = config.get("core.fsync").map(|list| list.to_vec()).unwrap_or_default();
        for part in list.fields_with(|char| matches!(char, ',' | ' ' | '\t' | '\n' | '\r')) {
            if part.eq_ignore_ascii_case(b"none") {
                base = [false, false];
                continue;
            }
            let (set, name) = match part.strip_prefix(b"-") {
                Some(name) => (&mut remove, name),
                None => (&mut add, part),
            };
            let [pack, metadata] = match name {
                b"pack" | b"objects" => [true, false],
                b"pack-metadata" | b"derived-metadata" => [false, true],
                b"committed" | b"added" => [true, false],
                b"all" => [true, true],
                _ => [false, false],
            };
            *set = [set[0] | pack, set[1] | metadata];
        }
        let on = |at: usize| (base[at] && !remove[at]) || add[at];
        Sync {
            pack: on(0),
            metadata: on(1),
        }
    }
}

/// How the index of a new pack comes about.
pub enum Indexing<'a> {
    /// From the archive's columns, as they are.
    Columns(&'a EntryTable),
    /// By `git index-pack --strict`, which hashes every object and checks its content; with these levels of severity.
    Strict(BString),
}

/// A pack on its way into the store. Dropped early, it leaves nothing.
pub struct Staged {
    directory: PathBuf,
    path: PathBuf,
    guard: Guard,
    file: BufWriter<File>,
    /// What its `.promisor` file says.
    promises: Option<Vec<u8>>,
}

impl Staged {
    /// Opens a temporary pack in the client's store.
    pub fn create(client: &Client) -> Result<Staged> {
        let directory = client.objects.join("pack");
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let (path, guard, file) = temporary(&directory, "tmp_pack_", "")?;
        Ok(Staged {
            directory,
            path,
            guard,
            file: BufWriter::with_capacity(1 << 18, file),
            promises: None,
        })
    }

    /// Notes that what the pack refers to may be missing, because the remote has it: with `promises` in its `.promisor` file.
    pub fn promise(&mut self, promises: Option<&[u8]>) {
        self.promises = promises.map(<[u8]>::to_vec);
    }

    /// Returns where to write the pack, header and trailer included.
    pub fn writer(&mut self) -> &mut dyn Write {
        &mut self.file
    }

    /// Hashes every object of the pack and compares it with `table`, whose word is not taken. Returns whether everything
    /// that an object refers to is in the pack too.
    ///
    /// # Errors
    /// Fails where an object is not what the table says.
    pub fn check(&mut self, pack_id: &ObjectId, table: &EntryTable, voice: Voice) -> Result<bool> {
        self.file.flush().with_context(|| written(&self.path))?;
        let pack = DiskPack::with_entries(&self.path, table.clone(), *pack_id)?;
        let mut progress = Progress::new(voice, "Checking objects", false);
        let mut on_progress = |done, total| progress.update(done, total);
        let options = ResolveOptions {
            is_there: Some(&|_, _| Ok(false)),
            progress: Some(&mut on_progress),
            ..ResolveOptions::default()
        };
        let resolved = resolve(&pack, 0, table, options)?;
        match resolved.damaged.first() {
            Some(damage) => bail!("object {} in the archive is damaged: {}", damage.oid, damage.why),
            None => Ok(resolved.dangling.is_empty()),
        }
    }

    /// Indexes the pack, whose trailing hash is `pack_id`, and gives it its name.
    ///
    /// Returns the `.keep` file that protects it from a concurrent `git gc` until the references are written; `None`
    /// where the user has one there already.
    ///
    /// # Errors
    /// Fails where the disk does, or where re-hashing finds that the pack is not what it should be.
    pub fn finish(
        self,
        pack_id: &ObjectId,
        indexing: &Indexing<'_>,
        sync: Sync,
        voice: Voice,
    ) -> Result<Option<(PathBuf, Guard)>> {
        let Staged {
            directory,
            path,
            guard,
            file,
            promises,
        } = self;
        let file = file
            .into_inner()
            .map_err(|error| error.into_error())
            .with_context(|| written(&path))?;
        let name = |extension: &str| directory.join(format!("pack-{pack_id}.{extension}"));
        let length = file.metadata().with_context(|| written(&path))?.len();
        if is_there(&name("pack"), &name("idx"), length, pack_id) {
            return keep(&name("keep"));
        }
        // git shows its own.
        let is_ours = matches!(indexing, Indexing::Columns(_));
        let progress = is_ours.then(|| Progress::new(voice, "Storing pack", false));
        // Waits for the disk go side by side: a journal often ends them all at once.
        let (index, reverse) = thread::scope(|scope| {
            let synced = scope.spawn(|| match sync.pack {
                true => file
                    .sync_all()
                    .with_context(|| format!("cannot sync {}", path.display())),
                false => Ok(()),
            });
            let indexed = match indexing {
                Indexing::Columns(table) => index_from_columns(&directory, table, pack_id, sync),
                Indexing::Strict(levels) => index_by_git(&directory, &path, levels, voice),
            };
            synced.join().expect("a sync does not panic")?;
            indexed
        })?;
        drop(progress);
        let keep = keep(&name("keep"))?;
        let promisor = promises.map(|promises| lay(&name("promisor"), &promises)).transpose()?;
        for (guard, name) in [(guard, name("pack")), (reverse, name("rev")), (index, name("idx"))] {
            guard
                .rename(&name)
                .with_context(|| format!("cannot rename to {}", name.display()))?;
        }
        if let Some(guard) = promisor.flatten() {
            guard.release();
        }
        Ok(keep)
    }
}

fn written(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Lays a `.keep` file, unless there is one.
fn keep(path: &Path) -> Result<Option<(PathBuf, Guard)>> {
    let text = format!("git-remote-znippy {}\n", std::process::id());
    Ok(lay(path, text.as_bytes())?.map(|guard| (path.to_owned(), guard)))
}

/// Lays a file that says something about a pack, unless there is one.
fn lay(path: &Path, text: &[u8]) -> Result<Option<Guard>> {
    let create = |path: &Path| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text)
    };
    match Guard::file(path, create) {
        Ok((guard, ())) => Ok(Some(guard)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error).with_context(|| written(path)),
    }
}

/// Returns whether the store has the very same pack: of this length, and with this hash at its end and in its index.
fn is_there(pack: &Path, index: &Path, length: u64, pack_id: &ObjectId) -> bool {
    let hash_len = pack_id.as_slice().len() as u64;
    let hash_at = |path: &Path, from_end: u64| -> io::Result<(u64, Vec<u8>)> {
        let mut file = File::open(path)?;
        let start = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::End(-(from_end as i64)))?;
        let mut hash = vec![0; hash_len as usize];
        file.read_exact(&mut hash)?;
        Ok((start, hash))
    };
    let same_pack = hash_at(pack, hash_len).is_ok_and(|(len, hash)| len == length && hash == pack_id.as_slice());
    same_pack && hash_at(index, 2 * hash_len).is_ok_and(|(_, hash)| hash == pack_id.as_slice())
}

/// Creates a file that no other process uses. Read-only for everyone, as git makes its packs; the open file is writable.
fn temporary(directory: &Path, prefix: &str, suffix: &str) -> Result<(PathBuf, Guard, File)> {
    let open = |path: &Path| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(path)
    };
    for attempt in 0u32.. {
        let path = directory.join(format!("{prefix}znippy_{}_{attempt}{suffix}", std::process::id()));
        match Guard::file(&path, open) {
            Ok((guard, file)) => return Ok((path, guard, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
            Err(error) => return Err(error).with_context(|| written(&path)),
        }
    }
    unreachable!("the loop ends with its last attempt")
}

/// Writes `.idx` and `.rev` under temporary names.
fn index_from_columns(directory: &Path, table: &EntryTable, pack_id: &ObjectId, sync: Sync) -> Result<(Guard, Guard)> {
    type Fill<'a> = dyn Fn(&mut dyn Write) -> io::Result<ObjectId> + std::marker::Sync + 'a;
    let write = |prefix: &str, fill: &Fill<'_>| -> Result<Guard> {
        let (path, guard, file) = temporary(directory, prefix, "")?;
        let mut file = BufWriter::with_capacity(1 << 16, file);
        fill(&mut file)
            .and_then(|_| file.flush())
            .with_context(|| written(&path))?;
        if sync.metadata {
            file.get_ref()
                .sync_all()
                .with_context(|| format!("cannot sync {}", path.display()))?;
        }
        Ok(guard)
    };
    thread::scope(|scope| {
        let reverse = scope.spawn(|| write("tmp_rev_", &|out| idx::write_rev(table, pack_id, out)));
        let index = write("tmp_idx_", &|out| {
            idx::write_idx(table, pack_id, idx::LARGE_OFFSET_THRESHOLD, out)
        });
        let reverse = reverse.join().expect("writing does not panic");
        Ok((index?, reverse?))
    })
}

/// Lets git index the pack, so that no object's name is taken on trust. git syncs what it writes as it is configured.
fn index_by_git(directory: &Path, pack: &Path, levels: &BString, voice: Voice) -> Result<(Guard, Guard)> {
    let (index_path, index, _) = temporary(directory, "tmp_idx_", ".idx")?;
    let reverse_path = index_path.with_extension("rev");
    // git creates both anew; ours hold the names.
    std::fs::remove_file(&index_path).with_context(|| written(&index_path))?;
    let (reverse, ()) = Guard::file(&reverse_path, |_| Ok(()))?;
    let mut command = client::git();
    command.args(["index-pack", "--rev-index"]);
    if voice.shows_progress() {
        command.arg("-v");
    }
    command.arg(match levels.is_empty() {
        true => "--strict".to_owned(),
        false => format!("--strict={levels}"),
    });
    command
        .arg("-o")
        .arg(&index_path)
        .arg(pack)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let (child_guard, mut child) = Guard::child(&mut command).context("cannot run git index-pack")?;
    let status = child.wait().context("cannot wait for git index-pack")?;
    child_guard.release();
    if !status.success() {
        bail!("git index-pack refused the pack of the archive ({status})");
    }
    Ok((index, reverse))
}

/// Returns the levels of git's object checks that `fetch.fsck.*` sets, in the form of `index-pack --strict=`; `None`
/// where neither `fetch.fsckObjects` nor `transfer.fsckObjects` asks for checks. Checks that `is_known` does not know are left
/// out: git warns of them and goes on, but `index-pack` would stop.
///
/// # Errors
/// Fails where one of them is no boolean.
pub fn strictness(config: &Config, is_known: &dyn Fn(&BStr) -> bool) -> Result<Option<BString>> {
    let asked = match config.bool("fetch.fsckobjects")? {
        Some(asked) => asked,
        None => config.bool("transfer.fsckobjects")?.unwrap_or(false),
    };
    if !asked {
        return Ok(None);
    }
    let levels = config
        .below("fetch.fsck.")
        .filter_map(|(name, value)| match name == "skiplist" {
            true => Some([b"skiplist=", &*with_home(value)].concat()),
            false => is_known(name).then(|| [name.as_bytes(), b"=", value].concat()),
        });
    Ok(Some(bstr::join(",", levels).into()))
}

/// Returns a path with the user's home directory for the `~` that it begins with.
fn with_home(path: &BStr) -> Cow<'_, [u8]> {
    match (path.strip_prefix(b"~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Cow::Owned([home.as_encoded_bytes(), b"/", rest].concat()),
        _ => Cow::Borrowed(path),
    }
}

/// Returns whether git has a check of this name, and warns where it has not, as git does.
pub fn is_known_check(name: &BStr, voice: Voice) -> bool {
    let is_known = fsck::is_known_check(name, "ignore", &client::git).unwrap_or(false);
    if !is_known {
        voice.warning(format_args!("Skipping unknown msg id '{name}'"));
    }
    is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_fsync_names_what_is_synced() {
        let sync = |value: &str| {
            let sync = Sync::from_config(&Config::with(&[("core.fsync", value)]));
            (sync.pack, sync.metadata)
        };
        let default = Sync::from_config(&Config::default());
        assert!(default.pack && default.metadata);
        assert_eq!(sync("none"), (false, false));
        assert_eq!(sync("none,pack"), (true, false));
        assert_eq!(sync("-pack-metadata"), (true, false));
        assert_eq!(sync("all,-pack"), (true, true));
        assert_eq!(sync("-objects, -derived-metadata"), (false, false));
        assert_eq!(sync("committed"), (true, true));
        assert_eq!(sync("reference"), (true, true));
    }

    #[test]
    fn strictness_collects_the_levels() {
        let with = |list: &[(&str, &str)]| strictness(&Config::with(list), &|name| name != "nonsense").expect("parses");
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("transfer.fsckobjects", "true")]).expect("strict"), "");
        assert_eq!(
            with(&[("transfer.fsckobjects", "true"), ("fetch.fsckobjects", "false")]),
            None
        );
        let list = [
            ("fetch.fsckobjects", "1"),
            ("fetch.fsck.badtimezone", "ignore"),
            ("fetch.fsck.nonsense", "warn"),
            ("fetch.fsck.skiplist", "/x"),
        ];
        assert_eq!(with(&list).expect("strict"), "badtimezone=ignore,skiplist=/x");
        assert!(strictness(&Config::with(&[("fetch.fsckobjects", "perhaps")]), &|_| true).is_err());
    }
}
