//! One pass over a whole pack that looks at every object.
//!
//! Every entry is checked against its CRC-32 and inflated once, every object is built and hashed, and what it is said to be in
//! the table is compared with what it is. On the way kinds and sizes are found, commits are handed out while they are at
//! hand, and each link to another object is followed as far as the question whether that object is there.
//!
//! A delta is applied right after its base was built, so that no object is built twice, except where bases that wait for
//! their turn would take too much memory.

mod check;
mod entries;
mod families;
mod worker;

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
};

use gix_hash::{ObjectId, oid};

use self::{families::Families, worker::Worker};
use super::{EntryTable, Kind, PackRank, PackStore, header, idx, parse};
use crate::error::Result;

/// Packs with less than so many bytes are resolved by one thread: another one costs more than it helps.
const PARALLEL_FROM: u64 = 2 << 20;

/// At most so many dangling links are told; one is enough to know.
const DANGLING_TOLD: usize = 1000;

/// Tells whether an object outside of the pack is there, which a link says is of some kind.
pub type IsThere<'a> = dyn Fn(&oid, Kind) -> Result<bool> + Sync + 'a;

/// Is given each commit of the pack.
pub type OnCommit<'a> = dyn FnMut(ResolvedCommit<'_>) + Send + 'a;

/// How to resolve a pack.
pub struct ResolveOptions<'a> {
    /// The most threads to use; 0 for as many as the machine runs at once.
    pub threads: usize,
    /// The largest object to build, in bytes.
    pub object_limit: u64,
    /// Bytes of bases that wait for their turn, per thread; more are built again when it comes.
    pub waiting_bytes: usize,
    /// Whether to hash the pack and compare with its id.
    pub check_pack_id: bool,
    /// Tells whether an object outside of the pack is there. Without it, links are not followed.
    pub is_there: Option<&'a IsThere<'a>>,
    /// Called for each commit, in no particular order.
    pub on_commit: Option<&'a mut OnCommit<'a>>,
    /// Called now and then with the number of objects done and of all.
    pub progress: Option<&'a mut dyn FnMut(u64, u64)>,
}

impl Default for ResolveOptions<'_> {
    fn default() -> Self {
        ResolveOptions {
            threads: 0,
            object_limit: 4 << 30,
            waiting_bytes: 64 << 20,
            check_pack_id: false,
            is_there: None,
            on_commit: None,
            progress: None,
        }
    }
}

/// A commit of the pack.
pub struct ResolvedCommit<'a> {
    /// Its row in the table.
    pub row: u32,
    pub links: parse::Commit<'a>,
    /// The rows of the tree and of each parent, in this order; `None` for what is not in the pack.
    pub linked: &'a [Option<u32>],
}

/// An object of the pack that is not what the table says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub oid: ObjectId,
    /// Offset of its entry.
    pub offset: u64,
    pub why: String,
    /// Whether the bytes of the entry are others than were noted, by their CRC-32; else what they hold is wrong.
    pub is_altered: bool,
}

/// A link to an object that is not there, or is of another kind than the link says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dangling {
    /// The object that has the link; `None` where that is not known any more.
    pub from: Option<ObjectId>,
    pub to: ObjectId,
    pub kind: Kind,
}

/// What was found out about a pack.
#[derive(Debug, Default)]
pub struct Resolved {
    /// git's number of each object's kind, by the rows of the table; 0 where it is damaged.
    pub kinds: Vec<u8>,
    /// Sizes in bytes.
    pub sizes: Vec<u64>,
    /// Objects that are not what they should be, in the order of their entries.
    pub damaged: Vec<Damage>,
    /// Links that lead nowhere, in no particular order; at most 1000.
    pub dangling: Vec<Dangling>,
    /// Set where the pack's hash was to be checked and is another one.
    pub other_pack_id: Option<ObjectId>,
}

impl Resolved {
    /// Returns whether every object is what it should be, and every link that was followed leads to an object.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.dangling.is_empty() && self.other_pack_id.is_none()
    }

    /// Moves kinds and sizes into the table they belong to.
    pub fn fill(self, table: &mut EntryTable) {
        table.kinds = self.kinds;
        table.sizes = self.sizes;
    }
}

/// Looks at every object of `pack`, whose entries are `table`.
///
/// Damage is a result, not an error: see [`Resolved::is_sound`].
///
/// # Errors
/// Fails where the store cannot be read or `is_there` fails.
pub fn resolve(
    store: &dyn PackStore,
    pack: PackRank,
    table: &EntryTable,
    mut options: ResolveOptions<'_>,
) -> Result<Resolved> {
    let families = Families::scan(store, pack, table)?;
    let shared = Shared {
        store,
        pack,
        table,
        fan_out: idx::fan_out(table),
        families: &families,
        object_limit: options.object_limit,
        waiting_bytes: options.waiting_bytes,
        is_there: options.is_there,
        on_commit: match &mut options.on_commit {
            Some(on_commit) => Some(Mutex::new(&mut **on_commit)),
            None => None,
        },
        kinds: std::iter::repeat_with(|| AtomicU8::new(0)).take(table.len()).collect(),
        sizes: std::iter::repeat_with(|| AtomicU64::new(0)).take(table.len()).collect(),
        linked_as: match options.is_there {
            Some(_) => std::iter::repeat_with(|| AtomicU8::new(0)).take(table.len()).collect(),
            None => Vec::new(),
        },
        next_root: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        found: Mutex::new(Found {
            damaged: families.damaged.clone(),
            ..Found::default()
        }),
        failure: Mutex::new(None),
    };
    let threads = match options.threads {
        _ if store.pack_len(pack)? < PARALLEL_FROM => 1,
        // Not asked for before: the answer costs more than a small pack.
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut other_pack_id = None;
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let work = || Worker::new(&shared).run(&mut |_, _| ());
            // Where the system has no thread to give, this one does all.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        if options.check_pack_id {
            match check::hash_pack(&shared) {
                Ok(found) => other_pack_id = found,
                Err(err) => shared.fail(err),
            }
        }
        match &mut options.progress {
            Some(progress) => Worker::new(&shared).run(*progress),
            None => Worker::new(&shared).run(&mut |_, _| ()),
        }
    });
    if let Some(progress) = &mut options.progress {
        progress(shared.done.load(Ordering::Relaxed), table.len() as u64);
    }
    let Shared {
        kinds,
        sizes,
        linked_as,
        found,
        failure,
        ..
    } = shared;
    if let Some(err) = failure.into_inner().expect("no thread panicked with the lock") {
        return Err(err);
    }
    let Found {
        mut damaged,
        mut dangling,
    } = found.into_inner().expect("no thread panicked with the lock");
    damaged.sort_by_key(|damage| damage.offset);
    let kinds: Vec<u8> = kinds.into_iter().map(AtomicU8::into_inner).collect();
    for (row, linked) in linked_as.into_iter().map(AtomicU8::into_inner).enumerate() {
        // A damaged object was told already.
        let wrong = if kinds[row] == 0 {
            0
        } else {
            linked & !(1 << kinds[row])
        };
        if wrong != 0 && dangling.len() < DANGLING_TOLD {
            let kind = header::kind_of_code(wrong.trailing_zeros() as u8).expect("only kinds are marked");
            dangling.push(Dangling {
                from: None,
                to: table.oid(row).to_owned(),
                kind,
            });
        }
    }
    let sizes = sizes.into_iter().map(AtomicU64::into_inner).collect();
    Ok(Resolved {
        kinds,
        sizes,
        damaged,
        dangling,
        other_pack_id,
    })
}

/// What the threads share.
struct Shared<'a> {
    store: &'a dyn PackStore,
    pack: PackRank,
    table: &'a EntryTable,
    fan_out: [u32; 256],
    families: &'a Families,
    object_limit: u64,
    waiting_bytes: usize,
    is_there: Option<&'a IsThere<'a>>,
    on_commit: Option<Mutex<&'a mut OnCommit<'a>>>,
    kinds: Vec<AtomicU8>,
    sizes: Vec<AtomicU64>,
    /// For each object of the pack, a bit for each kind that a link says it has.
    linked_as: Vec<AtomicU8>,
    /// The next family that no thread has taken.
    next_root: AtomicUsize,
    done: AtomicU64,
    stop: AtomicBool,
    found: Mutex<Found>,
    failure: Mutex<Option<crate::error::Error>>,
}

#[derive(Default)]
struct Found {
    damaged: Vec<Damage>,
    dangling: Vec<Dangling>,
}

impl Shared<'_> {
    /// Notes the first failure, and stops all threads.
    fn fail(&self, err: crate::error::Error) {
        self.failure
            .lock()
            .expect("no thread panicked with the lock")
            .get_or_insert(err);
        self.stop.store(true, Ordering::Relaxed);
    }
}
