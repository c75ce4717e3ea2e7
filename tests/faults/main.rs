//! Real processes on real disks: killed at their Nth system call, told of errors that did not happen, out of space, cut off
//! from power, and many at once.
//!
//! What needs strace, root or FUSE says NOT RUN where it is missing. `ZNIPPY_FAULTS=full` injects at every call instead of some
//! of each kind.

#[path = "../common/mod.rs"]
mod common;

mod inject;
mod injected;
mod loopback;
mod maps;
mod owners;
mod stopped;
