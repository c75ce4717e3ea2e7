//! `receive-pack`: takes a push, in versions 0 and 1 of the protocol (gitprotocol-pack(5), "Pushing Data To a Server").
//!
//! The pack is stored on the local disk, every object in it is hashed, and everything that it refers to must be in it or in
//! the archive. Then pack and references are committed in one append, under the writer lock, where each reference must
//! still have the value that the client saw. Before that commit nothing of a push is in the archive.

mod advertise;
mod commands;
mod report;
mod shallow;
mod store;

use std::{
    fs::File,
    io::{self, BufRead, Write},
    path::Path,
};

use bstr::BString;
use gix_hash::Kind as Format;

use self::{
    commands::{Command, Request},
    report::Report,
};
use super::{BandWidth, Packet, PacketReader, PacketWriter, Sideband, Version, WireError, WireResult};
use crate::{
    Error,
    archive::{Snapshot, WritePolicy},
    pack::{disk::DiskPack, fsck::Checked},
    policy::Policy,
};

/// Where packs are kept on the local disk.
#[derive(Clone, Copy)]
pub struct Spool<'a> {
    /// The directory, for messages.
    pub directory: &'a Path,
    /// Makes an empty file there, which vanishes when it is closed.
    pub file: &'a dyn Fn() -> io::Result<File>,
}

impl Spool<'_> {
    /// Makes an empty file.
    fn make(&self) -> crate::Result<File> {
        (self.file)().map_err(|source| self.failed(source))
    }

    /// Returns the error that a file there cannot be written or read.
    fn failed(&self, source: io::Error) -> Error {
        Error::Spool {
            directory: self.directory.to_owned(),
            source,
        }
    }
}

/// What a server of pushes is given beside the archive.
pub struct ReceiveOptions<'a> {
    /// The version of the protocol that the client asked for. 2 counts as 0: there is no version 2 of pushes.
    pub version: Version,
    /// Who pushes, for the archive's log.
    pub actor: Option<BString>,
    /// Where the pack is kept until it is proven.
    pub spool: Spool<'a>,
    /// Has git check what is in the objects of a pack, where the archive's settings ask for that: see [`crate::pack::fsck`].
    pub fsck: &'a dyn Fn(&DiskPack) -> crate::Result<Checked>,
    /// How to write to the archive.
    pub policy: WritePolicy<'a>,
}

/// Serves one push to the archive of `snapshot`.
///
/// # Errors
/// Fails where the conversation does. What becomes of the push is told to the client, and is no error.
pub fn serve(
    snapshot: &Snapshot,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    options: ReceiveOptions<'_>,
) -> WireResult<()> {
    let mut packets = PacketReader::new(input);
    let mut writer = PacketWriter::new(output);
    let result = converse(snapshot, &mut packets, &mut writer, options);
    if let Err(error) = &result
        && !error.is_hang_up()
    {
        // Where the client is still there, it shows this to the user.
        let _ = writer.error(error.to_string());
    }
    result
}

fn converse(
    snapshot: &Snapshot,
    packets: &mut PacketReader<&mut dyn BufRead>,
    writer: &mut PacketWriter<&mut dyn Write>,
    options: ReceiveOptions<'_>,
) -> WireResult<()> {
    let policy = snapshot.policy();
    advertise::advertise(snapshot, &policy, options.version, writer)?;
    let Some(request) = Request::read(packets, snapshot.object_format())? else {
        return Ok(());
    };
    let report = store::store(snapshot, &policy, &request, *packets.get_mut(), options);
    if !request.wants_report() {
        return Ok(());
    }
    let bytes = report.encode(&request)?;
    match request.has_bands() {
        true => {
            let mut band = Sideband::new(writer.get_mut(), BandWidth::Large);
            for note in &report.notes {
                band.progress(format!("{note}\n"))?;
            }
            band.write_all(&bytes)?;
            writer.end()?;
        }
        false => writer.get_mut().write_all(&bytes)?,
    }
    writer.flush()
}
