//! A batch of `fetch` lines: decide what to send, write it into the client's store.

use std::{collections::HashSet, path::PathBuf};

use anyhow::{Context, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::{
        EntryTable, PackStore,
        emit::{Naming, copy_verbatim, emit_with},
        filter::Filter,
        object::ObjectReader,
    },
    policy::Service,
    refs::{Ref, Target},
    trust::{self, TrustList},
};

use crate::{
    cleanup::Guard,
    client::Client,
    config::Config,
    haves::haves,
    install::{Indexing, Staged, Sync, is_known_check, strictness},
    options::Options,
    plan::Plan,
    remote::Remote,
    ui::{self, Progress},
};

/// A fetch under way: what it works with.
pub struct Fetch<'a> {
    pub remote: &'a Remote,
    pub options: &'a Options,
    pub config: &'a Config,
    pub client: &'a Client,
    pub snapshot: &'a Snapshot,
    /// What to leave out of a new partial clone.
    pub filter: Option<&'a Filter>,
}

/// What a fetch brought.
pub struct Fetched {
    /// The `.keep` file that git is to delete.
    pub keep: Option<(PathBuf, Guard)>,
    /// Everything that the wanted objects reach is in the new pack, and each object there bears its name: git need not walk it.
    pub connected: bool,
}

/// A pack in the client's store.
#[derive(Default)]
struct Brought {
    keep: Option<(PathBuf, Guard)>,
    /// Its objects bear their names, and everything they refer to that the client lacked is in it.
    complete: bool,
}

impl Fetch<'_> {
    /// Brings what `lines`, each what follows `fetch `, ask for and the client's `tips` do not reach.
    ///
    /// # Errors
    /// Fails where the archive does not have a wanted object, and for what cannot be honoured: the client's store is as
    /// before then.
    pub fn run(&self, lines: &[BString], tips: Vec<ObjectId>) -> Result<Fetched> {
        let wants = wants(lines)?;
        let policy = self.snapshot.policy();
        let mut refs = self.snapshot.refs()?;
        refs.retain(|each| !policy.hides(Service::UploadPack, each.name.as_bstr()));
        let shown: HashSet<ObjectId> = refs.iter().filter_map(value).collect();
        for want in &wants {
            if !shown.contains(want) && self.snapshot.lookup(want)?.is_none() {
                bail!("{}: the archive has no object {want}", self.remote.path().display());
            }
        }
        let reader = ObjectReader::new(self.snapshot);
        let progress = Progress::new(self.options.voice, "Comparing histories", false);
        let haves = haves(self.snapshot, &reader, &wants, tips, self.client.is_shallow())?;
        drop(progress);
        let plan = self.plan(&reader, &refs, &shown, &wants, &haves)?;
        let promises = self.filter.map(|_| promises(lines));
        let Brought { keep, complete } = self.bring(&reader, plan, promises.as_deref())?;
        // Git then takes our word for it. So it is said only of a pack that needs nothing else, with objects that bear their
        // names: proven when they were pushed to an archive that nobody else can have changed, or hashed just now.
        let connected = self.options.check_connectivity && keep.is_some() && haves.is_empty() && complete;
        Ok(Fetched { keep, connected })
    }

    fn bring(&self, reader: &ObjectReader<'_>, plan: Plan, promises: Option<&[u8]>) -> Result<Brought> {
        let voice = self.options.voice;
        match plan {
            Plan::Nothing => Ok(Brought::default()),
            Plan::Verbatim => {
                let mut staged = Staged::create(self.client)?;
                let mut progress = Progress::new(voice, "Copying pack", true);
                copy_verbatim(self.snapshot, 0, staged.writer(), &mut |done, total| {
                    progress.update(done, total)
                })?;
                drop(progress);
                let table = self.snapshot.entries(0)?;
                self.install(staged, &self.snapshot.pack_id(0)?, &table, promises)
            }
            Plan::Objects(selection) => {
                let mut staged = Staged::create(self.client)?;
                let mut progress = Progress::new(voice, "Receiving objects", false);
                let receipt = emit_with(
                    reader,
                    &selection,
                    Naming::Offset,
                    staged.writer(),
                    &mut |done, total| progress.update(done, total),
                )?;
                drop((progress, selection));
                self.install(staged, &receipt.pack_id, &receipt.entries, promises)
            }
        }
    }

    fn install(
        &self,
        mut staged: Staged,
        id: &ObjectId,
        table: &EntryTable,
        promises: Option<&[u8]>,
    ) -> Result<Brought> {
        let voice = self.options.voice;
        let (indexing, complete) = match strictness(self.config, &|name| is_known_check(name, voice))? {
            Some(levels) => (Indexing::Strict(levels), false),
            None => match self.distrust() {
                None => (Indexing::Columns(table), true),
                Some(why) => {
                    let path = self.remote.path().display();
                    voice.detail(format_args!("{path}: every object is checked, because {why}"));
                    (Indexing::Columns(table), staged.check(id, table, voice)?)
                }
            },
        };
        staged.promise(promises);
        let keep = staged.finish(id, &indexing, Sync::from_config(self.config), voice)?;
        Ok(Brought { keep, complete })
    }

    /// Returns whether the user trusts this archive, whoever wrote it.
    fn is_trusted(&self) -> bool {
        let uuid = self.snapshot.uuid();
        if self.config.all("znippy.trust").any(|trusted| trusted == uuid) {
            return true;
        }
        let Some(directory) = dirs::config_dir() else {
            return false;
        };
        match TrustList::read(&directory.join("znippy").join("trusted")) {
            Ok(list) => list.contains(&uuid),
            Err(error) => {
                self.options.voice.warning(error);
                false
            }
        }
    }

    /// Returns why objects must be hashed again before they are believed to bear their names.
    fn distrust(&self) -> Option<&'static str> {
        let owner = match self.is_trusted() {
            true => None,
            false => trust::distrust(self.remote.path()),
        };
        owner.or_else(|| {
            (!self.snapshot.is_closed()).then_some("not all of it is proven yet (`znippy index` does that)")
        })
    }
}

/// Returns the object a reference holds by itself.
fn value(reference: &Ref) -> Option<ObjectId> {
    match &reference.target {
        Target::Object { oid, .. } => Some(*oid),
        Target::Symbolic(_) => None,
    }
}

/// Returns the wanted objects, each once: git asks for HEAD and for its branch.
fn wants(lines: &[BString]) -> Result<Vec<ObjectId>> {
    let mut wants = lines
        .iter()
        .map(|line| want(line.as_bstr()))
        .collect::<Result<Vec<_>>>()?;
    wants.sort_unstable();
    wants.dedup();
    Ok(wants)
}

/// Returns what git notes beside a pack that is not complete: the references that were fetched with it.
fn promises(lines: &[BString]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| [line.as_slice(), b"\n"].concat())
        .collect()
}

/// `<oid> <name>`.
fn want(line: &BStr) -> Result<ObjectId> {
    let hex = line.fields().next().unwrap_or_default();
    let want = ObjectId::from_hex(hex).with_context(|| format!("malformed fetch command '{}'", ui::text(line)))?;
    if want.is_null() {
        bail!("'{}' was asked for, which names no object yet", ui::text(line));
    }
    Ok(want)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_wanted_once() {
        let hex = |digit: &str| digit.repeat(40);
        let lines: Vec<BString> = ["b", "a", "b"]
            .map(|digit| format!("{} refs/heads/{digit}", hex(digit)).into())
            .into();
        let ids: Vec<String> = wants(&lines).expect("parses").iter().map(ToString::to_string).collect();
        assert_eq!(ids, [hex("a"), hex("b")]);
        assert!(wants(&[format!("{} refs/heads/x", hex("0")).into()]).is_err());
        assert!(wants(&["nonsense".into()]).is_err());
        assert_eq!(wants(&[format!("{0} {0}", hex("c")).into()]).expect("parses").len(), 1);
    }
}
