//! The program `znippy`: each verb, its exit codes and its output, with git's own commands as the oracle.

#[path = "../common/mod.rs"]
mod common;

mod bad_paths;
mod config;
mod durability;
mod first_run;
mod fixture;
mod index;
mod info;
mod init;
mod output;
mod parity;
mod races;
mod refs;
mod repair;
mod unlock;
mod update;
mod verify;
