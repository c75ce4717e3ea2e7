//! Every cut and every flipped bit of an archive, and files that lie about their size: nothing panics, hangs, takes much
//! memory or gives a wrong object; damage is named, and costs only what it hit.

mod archive;
mod cuts;
mod disk;
mod examine;
mod flips;
mod hostile;
mod memory;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;
