//! git's protocol, as a server speaks it (gitprotocol-pack(5), gitprotocol-v2(5)).
//!
//! A server here takes two streams and a snapshot; which process they lead to is no concern of its. It never prints and never
//! reads the environment.

pub mod capabilities;
mod error;
pub mod packet;
pub mod receive;
pub mod sideband;
pub mod upload;
pub mod upload_archive;

pub use self::{
    capabilities::Capabilities,
    error::{WireError, WireResult},
    packet::{Packet, PacketReader, PacketWriter},
    sideband::{BandWidth, Sideband},
};

/// The version of the protocol that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Version {
    /// The server begins with its references.
    #[default]
    V0,
    /// As version 0, after a line that says so.
    V1,
    /// The server begins with what it can do, and answers commands.
    V2,
}

impl Version {
    /// Returns the highest version that `GIT_PROTOCOL` names: a list of `key=value` with colons between.
    pub fn from_git_protocol(value: &[u8]) -> Version {
        let named = value.split(|byte| *byte == b':').filter_map(|entry| match entry {
            b"version=1" => Some(Version::V1),
            b"version=2" => Some(Version::V2),
            _ => None,
        });
        named.max().unwrap_or_default()
    }
}

/// What the server calls itself.
pub const AGENT: &str = concat!("znippy/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_counts() {
        for (value, version) in [
            ("", Version::V0),
            ("version=0", Version::V0),
            ("version=1", Version::V1),
            ("version=2", Version::V2),
            ("version=1:version=2", Version::V2),
            ("side=1:version=2:other", Version::V2),
            ("version=3", Version::V0),
            ("version=22", Version::V0),
        ] {
            assert_eq!(Version::from_git_protocol(value.as_bytes()), version, "{value}");
        }
    }
}
