//! git's checks of what objects hold (`fsck.<msg-id>` in git-config(1)), made by git itself: nobody else knows all of them.
//!
//! `git index-pack --fsck-objects` looks at a pack by itself. But of `.gitmodules` and `.gitattributes` it also checks what is in
//! them, and these may be older than the pack. So it runs in a repository that has just those.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process::{Command, Stdio},
};

use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind as Format, ObjectId};

use super::{
    Kind, Location, PackStore,
    disk::DiskPack,
    emit::emit,
    graph::malformed,
    idx,
    object::ObjectReader,
    parse::{self, EntryMode},
    selection::Selection,
};
use crate::error::{Error, Result};

/// What git found.
#[derive(Debug)]
pub struct Checked {
    /// Whether the pack may be stored.
    pub passes: bool,
    /// What git says, for the user.
    pub told: BString,
}

/// The code with which git ends where it does not understand how it is called.
const USAGE: i32 = 129;

/// Has git check every object of `pack`, whose trees may name files that only `archive` has. Warnings count as errors, as
/// with git's own server, but for the checks to which `levels` give a level: see `receive.fsck.<msg-id>` in git-config(1). What git
/// does not know of these is left out, as by its own server.
///
/// `git` makes a command that runs git; `directory` is an empty one, for files of a few kilobytes an object of the pack.
///
/// # Errors
/// Fails where the pack cannot be read, where git cannot be run, and where it is too old for levels.
pub fn fsck<'a>(
    pack: &DiskPack,
    archive: &dyn PackStore,
    levels: impl Iterator<Item = (&'a str, &'a BStr)>,
    git: &dyn Fn() -> Command,
    directory: &Path,
) -> Result<Checked> {
    let format = pack.object_format();
    prepare(directory, format).map_err(Error::io(directory, "make a repository in"))?;
    let named = named_elsewhere(pack, archive)?;
    if !named.is_empty() {
        lend(archive, &named, &directory.join("objects/pack"))?;
    }
    let input = pack.file().try_clone().map_err(Error::io(pack.path(), "read"))?;
    let mut told = BString::default();
    let mut known = Vec::new();
    for (id, level) in levels {
        match is_known_check(id.as_bytes().as_bstr(), "error", git)? {
            true => known.push(format!("{id}={level}")),
            false => told.extend_from_slice(format!("warning: Skipping unknown msg id '{id}'\n").as_bytes()),
        }
    }
    let asked = match known.is_empty() {
        true => "--fsck-objects".to_owned(),
        false => format!("--fsck-objects={}", known.join(",")),
    };
    let output = git()
        .args(["index-pack", &asked, "-o"])
        .arg(directory.join("checked.idx"))
        // The pack may have no name. Through this one it is read from its start.
        .arg("/dev/stdin")
        .env("GIT_DIR", directory)
        .env_remove("GIT_OBJECT_DIRECTORY")
        .env_remove("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        .env_remove("GIT_COMMON_DIR")
        .env_remove("GIT_WORK_TREE")
        .stdin(Stdio::from(input))
        .output()
        .map_err(Error::io("git", "run"))?;
    // Behind the name of the pack: files of which the content is to be checked and is nowhere.
    let missing = output.stdout.lines().nth(1).is_some();
    if output.status.code() == Some(USAGE) && !known.is_empty() {
        let why = "the archive says what checks of objects count for (receive.fsck), which needs git 2.44 or newer to check them";
        return Err(Error::Invalid(why.into()));
    }
    told.extend_from_slice(&output.stderr);
    Ok(Checked {
        passes: output.status.success() && !missing,
        told,
    })
}

/// Returns whether git has a check of this name, which may count for `level`. `index-pack` reads its options before it misses the
/// name of a pack, which has an exit code of its own.
///
/// # Errors
/// Fails where git cannot be run.
pub fn is_known_check(id: &BStr, level: &str, git: &dyn Fn() -> Command) -> Result<bool> {
    let status = git()
        .arg("index-pack")
        .arg(format!("--strict={id}={level}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(status.map_err(Error::io("git", "run"))?.code() == Some(USAGE))
}

/// Makes the least that git takes for a repository.
fn prepare(directory: &Path, format: Format) -> std::io::Result<()> {
    fs::create_dir_all(directory.join("objects/pack"))?;
    fs::create_dir(directory.join("refs"))?;
    fs::write(directory.join("HEAD"), "ref: refs/heads/main\n")?;
    let version = match format {
        Format::Sha1 => "0",
        _ => "1",
    };
    let mut config = format!("[core]\n\trepositoryformatversion = {version}\n\tbare = true\n");
    if format != Format::Sha1 {
        config.push_str(&format!("[extensions]\n\tobjectformat = {format}\n"));
    }
    fs::write(directory.join("config"), config)
}

/// Returns files that trees of `pack` name in a way that git may take for `.gitmodules` and the like, and which are not in it.
fn named_elsewhere(pack: &DiskPack, archive: &dyn PackStore) -> Result<Selection> {
    let format = pack.object_format();
    let reader = ObjectReader::new(pack);
    let mut named = Selection::new(format);
    let mut met = std::collections::HashSet::new();
    let table = pack.table();
    for row in 0..table.len() {
        let at = Location {
            pack: 0,
            offset: table.offsets[row],
            crc32: table.crc32s[row],
        };
        if reader.header_at(at)?.0 != Kind::Tree {
            continue;
        }
        let tree = reader.read_at(at)?;
        let mut rest = &tree.data[..];
        let width = format.len_in_bytes();
        while let Some((entry, after)) = parse::tree_entry(rest, width).map_err(|why| malformed(table.oid(row), why))? {
            rest = after;
            if entry.mode != EntryMode::Blob || !may_be_special(entry.name) {
                continue;
            }
            let id = ObjectId::from_bytes_or_panic(entry.id);
            if pack.lookup(&id)?.is_none()
                && met.insert(id)
                && let Some(at) = archive.lookup(&id)?
            {
                named.push(&id, Some(Kind::Blob), at);
            }
        }
    }
    Ok(named)
}

/// Returns whether some file system may take `name` for one that begins with `.git`: by its case, as a short name
/// (`GITMOD~1`), or with letters that are not seen.
fn may_be_special(name: &[u8]) -> bool {
    name.starts_with(b".") || name.contains(&b'~') || !name.is_ascii()
}

/// Puts objects of the archive into a directory of packs.
fn lend(archive: &dyn PackStore, set: &Selection, packs: &Path) -> Result<()> {
    let path = packs.join("pack-lent.pack");
    let create = |path: &Path| File::create(path).map_err(Error::io(path, "write"));
    let mut output = BufWriter::new(create(&path)?);
    let receipt = emit(archive, set, &mut output, &mut |_, _| ())?;
    output.flush().map_err(Error::io(&path, "write"))?;
    let path = path.with_extension("idx");
    let mut output = BufWriter::new(create(&path)?);
    idx::write_idx(
        &receipt.entries,
        &receipt.pack_id,
        idx::LARGE_OFFSET_THRESHOLD,
        &mut output,
    )
    .and_then(|_| output.flush())
    .map_err(Error::io(&path, "write"))
}
