//! A git repository in one file.
pub mod archive;
pub mod error;
pub mod format;
pub mod media;
pub mod pack;
pub mod refs;
pub use error::{Error, Result};
