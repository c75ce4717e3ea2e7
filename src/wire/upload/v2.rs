//! Version 2: commands, each answered by itself.

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;

use super::{Server, cut::Boundary, negotiate::Common, request::Request};
use crate::{
    pack::filter::Filter,
    wire::{BandWidth, Capabilities, Packet, WireError, WireResult, packet::without_line_end},
};

/// How many lines may come before the arguments of a command.
const MOST_CAPABILITIES: usize = 1024;

/// How a command was announced.
struct Announced {
    command: BString,
    /// Arguments follow.
    arguments: bool,
}

impl Server<'_, '_> {
    /// Serves one command after the other.
    pub(super) fn serve_v2(&mut self) -> WireResult<()> {
        if self.advertise_only || !self.stateless {
            self.advertise_v2()?;
        }
        if self.advertise_only {
            return Ok(());
        }
        while let Some(Announced { command, arguments }) = self.announced()? {
            match command.as_slice() {
                b"ls-refs" => self.ls_refs(arguments)?,
                b"fetch" => self.fetch(arguments)?,
                b"object-info" => self.object_info(arguments)?,
                _ => return Err(WireError::refused(format!("invalid command '{command}'"))),
            }
            self.output.flush()?;
            if self.stateless {
                break;
            }
        }
        Ok(())
    }

    /// Reads up to the arguments of the next command; `None` where there is none.
    fn announced(&mut self) -> WireResult<Option<Announced>> {
        self.input.begin();
        let mut command: Option<BString> = None;
        let mut words: Vec<BString> = Vec::new();
        let arguments = loop {
            match self.input.read()? {
                None if command.is_none() && words.is_empty() => return Ok(None),
                None => return Err(WireError::HungUp),
                Some(Packet::Data(data)) => {
                    let line = without_line_end(data);
                    match line.strip_prefix(b"command=") {
                        Some(_) if command.is_some() => {
                            return Err(WireError::refused(format!("command '{line}' requested after another")));
                        }
                        Some(name) => command = Some(name.into()),
                        None if words.len() < MOST_CAPABILITIES => words.push(line.into()),
                        None => return Err(WireError::refused("too many capabilities")),
                    }
                }
                Some(Packet::Flush) if command.is_none() && words.is_empty() => return Ok(None),
                Some(Packet::Flush) => break false,
                Some(Packet::Delimiter) => break true,
                Some(Packet::ResponseEnd) => return Err(WireError::refused("unexpected response end packet")),
            }
        };
        let Some(command) = command else {
            return Err(WireError::refused("no command requested"));
        };
        let capabilities = Capabilities::from_words(words.iter().map(|word| word.as_slice()));
        let ours = self.view.snapshot.object_format().to_string();
        let theirs = capabilities.value("object-format").unwrap_or("sha1".into());
        if theirs != ours.as_str() {
            return Err(WireError::refused(format!(
                "mismatched object format: server {ours}; client {theirs}"
            )));
        }
        Ok(Some(Announced { command, arguments }))
    }

    fn fetch(&mut self, arguments: bool) -> WireResult<()> {
        let format = self.view.snapshot.object_format();
        let mut request = Request::default();
        while arguments && let Some(line) = self.input.line()? {
            if let Some(name) = line.strip_prefix(b"want-ref ") {
                request.want_refs.push(name.into());
            } else if !request.take_word(line) && !request.take(line, format)? {
                return Err(WireError::refused(format!("unexpected line: '{line}'")));
            }
        }
        let wanted_refs = self.resolve(&mut request)?;
        self.view.check_wants(&request.wants)?;
        let filter = self.view.filter(&request)?;
        self.output.set_banded(request.sideband_all);
        let mut common = Common::default();
        for have in &request.haves {
            self.view.note_have(&mut common, *have)?;
        }
        if !request.haves.is_empty() {
            // With `done` the client knows what it needs to know.
            if !request.done && !self.acknowledge(&request, &mut common)? {
                return self.output.end();
            }
        } else if request.wants.is_empty() {
            return Ok(());
        }
        self.send_sections(&request, &wanted_refs, &common.haves, filter)
    }

    /// Adds the values of wanted references to what is wanted, and returns them with their names.
    fn resolve(&self, request: &mut Request) -> WireResult<Vec<(ObjectId, BString)>> {
        let mut values = Vec::new();
        for name in std::mem::take(&mut request.want_refs) {
            let value = match self.view.is_hidden(name.as_bstr()) {
                true => None,
                false => self.view.follow(name.as_bstr())?,
            };
            let Some((oid, _)) = value else {
                return Err(WireError::refused(format!("unknown ref {name}")));
            };
            request.wants.push(oid);
            values.push((oid, name));
        }
        Ok(values)
    }

    /// Tells what is in common. Returns whether the pack follows at once.
    fn acknowledge(&mut self, request: &Request, common: &mut Common) -> WireResult<bool> {
        self.output.line("acknowledgments")?;
        if common.haves.is_empty() {
            self.output.line("NAK")?;
        }
        for have in &common.haves {
            self.output.line(format!("ACK {have}"))?;
        }
        if request.wait_for_done || !self.view.is_enough(common, &request.wants)? {
            return Ok(false);
        }
        self.output.line("ready")?;
        self.output.delimiter()?;
        Ok(true)
    }

    fn send_sections(
        &mut self,
        request: &Request,
        wanted_refs: &[(ObjectId, BString)],
        haves: &[ObjectId],
        filter: Filter,
    ) -> WireResult<()> {
        let mut boundary = Boundary::default();
        if request.is_cut() {
            boundary = self.view.boundary(request)?;
            self.output.line("shallow-info")?;
            for id in &boundary.shallow {
                self.output.line(format!("shallow {id}"))?;
            }
            for id in &boundary.unshallow {
                self.output.line(format!("unshallow {id}"))?;
            }
            self.output.delimiter()?;
        }
        if !wanted_refs.is_empty() {
            self.output.line("wanted-refs")?;
            for (oid, name) in wanted_refs {
                self.output.line([format!("{oid} ").as_bytes(), name].concat())?;
            }
            self.output.delimiter()?;
        }
        self.output.line("packfile")?;
        self.output.set_banded(false);
        self.send_pack(request, haves, boundary, filter, Some(BandWidth::Large))?;
        self.output.end()
    }
}
