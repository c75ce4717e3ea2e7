//! The first words of a server.

use super::Server;
use crate::wire::{AGENT, Version, WireResult};

/// What versions 0 and 1 can do, but for what depends on the archive.
const CAPABILITIES: &str = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not \
                            deepen-relative no-progress include-tag multi_ack_detailed no-done filter \
                            allow-tip-sha1-in-want allow-reachable-sha1-in-want";

impl Server<'_, '_> {
    /// Says what version 2 can do.
    pub(super) fn advertise_v2(&mut self) -> WireResult<()> {
        self.output.line("version 2")?;
        self.output.line(format!("agent={AGENT}"))?;
        self.output.line("ls-refs=unborn")?;
        self.output
            .line("fetch=shallow wait-for-done filter ref-in-want sideband-all")?;
        self.output.line("server-option")?;
        self.output
            .line(format!("object-format={}", self.view.snapshot.object_format()))?;
        self.output.line("object-info")?;
        self.output.end()?;
        self.output.flush()
    }

    /// Lists the references, the first one with what versions 0 and 1 can do.
    pub(super) fn advertise_v0(&mut self) -> WireResult<()> {
        if self.version == Version::V1 {
            self.output.line("version 1")?;
        }
        let format = self.view.snapshot.object_format();
        let shown = self.view.shown()?;
        let mut capabilities = Vec::from(CAPABILITIES);
        for (name, target) in shown
            .iter()
            .filter_map(|each| Some((&each.name, each.symref.as_ref()?)))
        {
            // Others may be many, and clients only look for this one.
            if name == "HEAD" {
                capabilities.extend_from_slice(&[b" symref=HEAD:", &target[..]].concat());
            }
        }
        capabilities.extend_from_slice(format!(" object-format={format} agent={AGENT}").as_bytes());
        let mut first = Some(capabilities);
        let mut line =
            |output: &mut crate::wire::PacketWriter<&mut dyn std::io::Write>, oid: &gix_hash::oid, name: &[u8]| {
                let mut text = format!("{oid} ").into_bytes();
                text.extend_from_slice(name);
                if let Some(capabilities) = first.take() {
                    text.push(0);
                    text.extend_from_slice(&capabilities);
                }
                output.line(text)
            };
        for each in &shown {
            line(&mut self.output, &each.oid, &each.name)?;
            if let Some(peeled) = &each.peeled {
                line(&mut self.output, peeled, &[&each.name[..], b"^{}"].concat())?;
            }
        }
        if shown.is_empty() {
            line(&mut self.output, &format.null(), b"capabilities^{}")?;
        }
        self.output.end()?;
        self.output.flush()
    }
}
