//! Versions 0 and 1: references first, then one request, negotiated have by have.

use bstr::{BStr, ByteSlice};
use gix_hash::ObjectId;

use super::{Server, cut::Boundary, negotiate::Common, request::Request};
use crate::wire::{BandWidth, Capabilities, Packet, WireError, WireResult, packet::without_line_end};

/// What the client can do with answers to its haves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acks {
    /// One, for the first object in common.
    Single,
    /// `multi_ack`: for each.
    Multi,
    /// `multi_ack_detailed`: for each, with what it means.
    Detailed,
}

/// A request and how to answer it.
struct Wanted {
    request: Request,
    acks: Acks,
    no_done: bool,
    width: Option<BandWidth>,
}

impl Server<'_, '_> {
    /// Serves one request.
    pub(super) fn serve_v0(&mut self) -> WireResult<()> {
        if self.advertise_only || !self.stateless {
            self.advertise_v0()?;
        }
        if self.advertise_only {
            return Ok(());
        }
        let Some(wanted) = self.wanted()? else {
            return Ok(());
        };
        let filter = self.view.filter(&wanted.request)?;
        let mut boundary = Boundary::default();
        if wanted.request.is_cut() {
            boundary = self.view.boundary(&wanted.request)?;
        }
        if wanted.request.deepens() {
            for id in &boundary.shallow {
                self.output.line(format!("shallow {id}"))?;
            }
            for id in &boundary.unshallow {
                self.output.line(format!("unshallow {id}"))?;
            }
            self.output.end()?;
            self.output.flush()?;
        }
        let Some(common) = self.negotiate(&wanted)? else {
            return Ok(());
        };
        let Wanted { request, width, .. } = wanted;
        self.send_pack(&request, &common.haves, boundary, filter, width)?;
        if width.is_some() {
            self.output.end()?;
        }
        Ok(())
    }

    /// Reads what the client wants; `None` where that is nothing.
    fn wanted(&mut self) -> WireResult<Option<Wanted>> {
        let format = self.view.snapshot.object_format();
        let mut wanted = Wanted {
            request: Request::default(),
            acks: Acks::Single,
            no_done: false,
            width: None,
        };
        loop {
            let line = match self.input.read()? {
                Some(Packet::Data(data)) => without_line_end(data),
                // A client that saw all it wanted ends the list, or just goes.
                Some(_) => break,
                None if wanted.request.wants.is_empty() => return Ok(None),
                None => return Err(WireError::HungUp),
            };
            let mut line = line;
            if wanted.request.wants.is_empty() && line.starts_with(b"want ") {
                let split = line.bytes().skip(5).position(|byte| byte == b' ').map(|at| at + 5);
                if let Some(at) = split {
                    let capabilities = Capabilities::parse(&line[at + 1..]);
                    wanted.set(&capabilities, &format.to_string())?;
                    line = line[..at].as_bstr();
                }
            }
            if line == "deepen-relative" {
                wanted.request.relative = true;
            } else if line.starts_with(b"have ") || !wanted.request.take(line, format)? {
                return Err(WireError::refused(format!(
                    "upload-pack: protocol error, unexpected line '{line}'"
                )));
            }
        }
        if wanted.request.wants.is_empty() {
            return Ok(None);
        }
        self.view.check_wants(&wanted.request.wants)?;
        Ok(Some(wanted))
    }

    /// Learns what the client has; `None` where it will come back with more.
    fn negotiate(&mut self, wanted: &Wanted) -> WireResult<Option<Common>> {
        let format = self.view.snapshot.object_format();
        let multi = wanted.acks != Acks::Single;
        let mut common = Common::default();
        let (mut got_common, mut got_other, mut ready) = (false, false, false);
        let mut last: Option<ObjectId> = None;
        let mut request = Request::default();
        loop {
            let line = match self.input.read()? {
                Some(Packet::Data(data)) => Some(without_line_end(data).to_owned()),
                Some(_) => None,
                None => return Err(WireError::HungUp),
            };
            let Some(line) = line else {
                if wanted.acks == Acks::Detailed
                    && got_common
                    && !got_other
                    && self.view.is_enough(&mut common, &wanted.request.wants)?
                {
                    ready = true;
                    self.ack(last, " ready")?;
                }
                if common.haves.is_empty() || multi {
                    self.output.line("NAK")?;
                }
                if wanted.no_done && ready {
                    self.ack(last, "")?;
                    return Ok(Some(common));
                }
                self.output.flush()?;
                if self.stateless {
                    return Ok(None);
                }
                (got_common, got_other) = (false, false);
                continue;
            };
            if line == "done" {
                match common.haves.is_empty() {
                    true => self.output.line("NAK")?,
                    false if multi => self.ack(last, "")?,
                    false => {}
                }
                return Ok(Some(common));
            }
            if !line.starts_with(b"have ") {
                return Err(WireError::refused(format!(
                    "git upload-pack: expected SHA1 list, got '{line}'"
                )));
            }
            request.haves.clear();
            request.take(line.as_bstr(), format)?;
            let have = request.haves[0];
            if self.view.note_have(&mut common, have)? {
                got_common = true;
                last = Some(have);
                match wanted.acks {
                    Acks::Detailed => self.ack(last, " common")?,
                    Acks::Multi => self.ack(last, " continue")?,
                    Acks::Single if common.haves.len() == 1 => self.ack(last, "")?,
                    Acks::Single => {}
                }
            } else {
                got_other = true;
                if multi && self.view.is_enough(&mut common, &wanted.request.wants)? {
                    // As if it were common: what the client tells on this way is of no use any more.
                    let detailed = wanted.acks == Acks::Detailed;
                    ready |= detailed;
                    self.ack(Some(have), if detailed { " ready" } else { " continue" })?;
                }
            }
        }
    }

    fn ack(&mut self, id: Option<ObjectId>, status: &str) -> WireResult<()> {
        match id {
            Some(id) => self.output.line(format!("ACK {id}{status}")),
            None => Ok(()),
        }
    }
}

impl Wanted {
    fn set(&mut self, capabilities: &Capabilities, format: &str) -> WireResult<()> {
        for (name, value) in capabilities.iter() {
            match name.as_bytes() {
                b"multi_ack_detailed" => self.acks = Acks::Detailed,
                b"multi_ack" if self.acks == Acks::Single => self.acks = Acks::Multi,
                b"no-done" => self.no_done = true,
                b"side-band-64k" => self.width = Some(BandWidth::Large),
                b"side-band" if self.width.is_none() => self.width = Some(BandWidth::Small),
                b"object-format" if value != Some(BStr::new(format)) => {
                    let theirs = value.unwrap_or_default();
                    return Err(WireError::refused(format!(
                        "mismatched object format: server {format}; client {theirs}"
                    )));
                }
                _ => drop(self.request.take_word(name)),
            }
        }
        Ok(())
    }
}
