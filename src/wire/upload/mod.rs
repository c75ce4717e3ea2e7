//! The server of a fetch: what `git upload-pack` does (gitprotocol-pack(5), gitprotocol-v2(5)).
//!
//! One file a step: what a client may see (`shown`) and may want (`allowed`), the requests of both versions (`v0`,
//! `v2`), negotiation, the cut of a shallow history, and the pack.

mod advertise;
mod allowed;
mod cut;
mod ls_refs;
mod negotiate;
mod object_info;
mod plan;
mod request;
mod send;
mod shown;
mod v0;
mod v2;

use std::io::{Read, Write};

use super::{PacketReader, PacketWriter, Version, WireError, WireResult};
use crate::{archive::Snapshot, pack::object::ObjectReader};

/// Which objects a client may ask for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Any that is stored: for who can read the file anyway.
    Stored,
    /// Those that a shown reference reaches.
    Reachable,
}

/// How to serve.
pub struct Options<'a> {
    pub version: Version,
    /// Answer one request and end, as under HTTP: each request repeats what came before.
    pub stateless: bool,
    /// Only say what there is and what can be done.
    pub advertise_only: bool,
    pub wants: Wants,
    /// Called when a client that waits for it is about to get a pack.
    pub before_pack: Option<&'a mut dyn FnMut()>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            version: Version::V0,
            stateless: false,
            advertise_only: false,
            wants: Wants::Reachable,
            before_pack: None,
        }
    }
}

/// Serves fetches from `snapshot` until the client has no more to ask. Both streams should be buffered; what was read from
/// `input` and not used stays there.
///
/// # Errors
/// Fails where the client breaks the protocol or asks for what it cannot have, after it was told, where the archive cannot be
/// read, and where the client went away.
pub fn serve<'a>(
    snapshot: &'a Snapshot,
    input: &mut dyn Read,
    output: &mut dyn Write,
    options: Options<'a>,
) -> WireResult<()> {
    let Options {
        version,
        stateless,
        advertise_only,
        wants,
        before_pack,
    } = options;
    let mut server = Server {
        view: View {
            snapshot,
            reader: ObjectReader::new(snapshot),
            wants,
        },
        version,
        stateless,
        advertise_only,
        before_pack,
        input: PacketReader::new(input),
        output: PacketWriter::new(output),
        told: false,
    };
    let result = match version {
        Version::V0 | Version::V1 => server.serve_v0(),
        Version::V2 => server.serve_v2(),
    };
    let result = result.and_then(|()| server.output.flush());
    if let Err(error) = &result
        && !server.told
        && let WireError::Refused(_) | WireError::Archive(_) = error
    {
        // Told as well as possible: the error counts, not whether the client hears of it.
        let _ = server.output.error(error.to_string());
    }
    result
}

/// What a client may see of an archive.
struct View<'a> {
    snapshot: &'a Snapshot,
    reader: ObjectReader<'a>,
    wants: Wants,
}

/// A conversation under way.
struct Server<'a, 'io> {
    view: View<'a>,
    version: Version,
    stateless: bool,
    advertise_only: bool,
    before_pack: Option<&'a mut dyn FnMut()>,
    input: PacketReader<&'io mut dyn Read>,
    output: PacketWriter<&'io mut dyn Write>,
    /// The client has been told why it ends, or would take it for data.
    told: bool,
}
