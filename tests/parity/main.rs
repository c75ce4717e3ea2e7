//! The helper against git: the same commands on a bare repository over `file://` and on an archive over `znippy::`, and
//! what only an archive has: its URLs, its writers, its errors.

#[path = "../common/mod.rs"]
mod common;

mod atomic;
mod branches;
mod clients;
mod clone;
mod creation;
mod errors;
mod fetch;
mod force;
mod formats;
mod head;
mod lease;
mod listing;
mod mirror;
mod namespaces;
mod noop;
mod options;
mod partial;
mod policies;
mod progress;
mod reach;
mod receive;
mod requests;
mod rules;
mod select;
mod served;
mod shallow;
mod ssh;
mod tags;
mod thin;
mod traps;
mod trust;
mod urls;
mod writers;
