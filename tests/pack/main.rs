//! Packs against git: what this library reads and writes must be what git does.

mod finder;
mod gitoxide;
mod idx;
mod incoming;
mod object;
mod reach;
mod repo;
mod resolve;
mod send;
mod thin;
