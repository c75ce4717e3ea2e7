//! `gc`: what a rewrite keeps, what it removes and when, and what happens around it meanwhile.

#[path = "../common/mod.rs"]
mod common;

mod disk;
mod expiry;
mod locks;
mod meanwhile;
mod packs;
mod place;
mod races;
mod rewrite;
