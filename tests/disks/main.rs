//! Disks that other machines write to: a file system of our own that misbehaves on order.
//!
//! What comes of it is in the table of disks in `man/znippy-format.5`. Where nothing can be mounted these tests say NOT RUN.

#[path = "../common/mod.rs"]
mod common;

mod disk;
mod machine;
mod manners;
mod sshfs;
mod stage;
