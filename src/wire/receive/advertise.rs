//! What the server says first: its references, and what it can do.

use std::io::Write;

use bstr::ByteSlice;

use super::{PacketWriter, Policy, Snapshot, Version, WireResult};
use crate::{policy::Service, refs::Target, wire::AGENT};

/// Writes the references that a push may change, with the capabilities behind the first.
pub(super) fn advertise(
    snapshot: &Snapshot,
    policy: &Policy,
    version: Version,
    writer: &mut PacketWriter<&mut dyn Write>,
) -> WireResult<()> {
    let format = snapshot.object_format();
    // What a thin pack leaves out is stored with it. Where what is stored is checked or has a limit, old objects are not to be
    // held to that once more.
    let thin = match policy.checks_objects() || policy.max_input_size().or(policy.max_object_size()).is_some() {
        true => " no-thin",
        false => "",
    };
    let capabilities = format!(
        "report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta{thin} push-options \
         object-format={format} agent={AGENT}"
    );
    if version == Version::V1 {
        writer.line("version 1")?;
    }
    let mut first = true;
    let mut line = |id: &gix_hash::oid, name: &[u8]| {
        let mut text = [id.to_string().as_bytes(), b" ", name].concat();
        if std::mem::take(&mut first) {
            text.push(0);
            text.extend_from_slice(capabilities.as_bytes());
        }
        writer.line(text)
    };
    let mut any = false;
    for each in snapshot.refs()? {
        let name = each.name.as_bstr();
        if !name.starts_with(b"refs/") || policy.hides(Service::ReceivePack, name) {
            continue;
        }
        let value = match each.target {
            Target::Object { oid, .. } => Some(oid),
            Target::Symbolic(to) => snapshot.resolve_ref(to.as_bstr())?,
        };
        if let Some(value) = value {
            line(&value, name)?;
            any = true;
        }
    }
    if !any {
        line(&format.null(), b"capabilities^{}")?;
    }
    writer.end()?;
    writer.flush()
}
