//! A git repository in one file.
//!
//! # The model
//!
//! An *archive* is one Arrow IPC file that holds git packs, byte for byte, and the history of every reference. It grows by
//! *commits*: each is one Arrow record batch message at the end of the file, with one row a transaction. A row has the
//! reference edits of a push, the table of the objects in its pack, what is derived from them, and the pack itself as last
//! column. The Arrow footer is written inside the same message, so after every commit the file is valid for any Arrow reader,
//! and a file that was cut anywhere still starts with whole commits.
//!
//! A *commit* is: take the writer lock, look at the file again, judge the edits, append, sync once, and write one of two
//! *slots* in the head, which name the last commit that a sync covered. Nothing that was written is ever changed, but for the
//! slots. A crash leaves either a tail that is not a whole commit, which readers ignore and the next writer cuts off, or a
//! whole one, which counts. Every byte is covered by a checksum that the commit's identity depends on.
//!
//! A *gc* writes the archive anew, as the next *generation*: one pack with everything that is kept, the references, and the history
//! of their moves. It works beside pushes and readers, carries over what comes in meanwhile, and takes the old file's place by a
//! rename under the writer lock.
//!
//! A *snapshot* is the state that one commit made. Opening one takes no lock and a handful of reads, whatever the size of the
//! archive: the head, the footer, and at most two rows for the references. Object look-ups go through a table a pack, which is
//! searched in place.
//!
//! # The layers
//!
//! Dependencies run downwards only.
//!
//! | module | what it knows |
//! |---|---|
//! | [`wire`] | git's protocol, as a server speaks it over any two streams |
//! | [`verify`] | what is damaged in an archive, and what that costs |
//! | [`archive`] | paths, locks, the order of a commit, snapshots |
//! | [`policy`] | what an archive allows: its settings and what they mean |
//! | [`refs`] | values and edits of references, and git's rules for them |
//! | [`trust`] | who can have written a file; nothing of what is in it |
//! | [`pack`] | git's packs: reading objects, walking the graph, building packs; nothing of archives |
//! | [`mod@format`] | what every byte of the file means, and how to tell a whole commit from a torn one; nothing of git |
//! | [`quote`] | git's quoting of names and values in lines of text |
//! | [`media`] | bytes at offsets, syncs, and the lock; nothing of formats |
//!
//! The binaries sit on top: `git-remote-znippy` speaks git's remote helper protocol, `znippy` is the command line. Only they
//! print, and only they read the environment.
//!
//! The format is specified in `man/znippy-format.5`.

#![deny(unsafe_code)]

pub mod archive;
pub mod error;
pub mod format;
pub mod locate;
pub mod media;
pub mod pack;
pub mod policy;
pub mod quote;
pub mod refs;
pub mod trust;
pub mod verify;
pub mod wire;
pub use error::{Error, Result};
