//! Crashes and failures of the disk, in memory: every image that a power cut may leave is opened, read and pushed to; and
//! every call to the disk fails in every way.
//!
//! `ZNIPPY_CRASH_EFFORT=full` tries many times more; `--nocapture` shows how many images there were.

#[path = "../common/mod.rs"]
mod common;

mod disk;
mod failing;
mod images;
mod late;
mod matrix;
mod network;
mod races;
mod replay;
mod volume;
mod work;
