//! The command `object-info` of version 2: sizes without contents.

use bstr::ByteSlice;
use gix_hash::ObjectId;

use super::Server;
use crate::wire::{WireError, WireResult};

/// As many objects can be asked about at once.
const MOST: usize = 1 << 20;

impl Server<'_, '_> {
    pub(super) fn object_info(&mut self, arguments: bool) -> WireResult<()> {
        let mut size = false;
        let mut ids = Vec::new();
        while arguments && let Some(line) = self.input.line()? {
            match line.strip_prefix(b"oid ").map(ObjectId::from_hex) {
                Some(Ok(id)) if ids.len() < MOST => ids.push(id),
                None if line == "size" => size = true,
                _ => {
                    return Err(WireError::refused(format!(
                        "object-info: unexpected line: '{}'",
                        line.as_bstr()
                    )));
                }
            }
        }
        if size {
            self.output.line("size")?;
        }
        let allowed = self.view.allowed_of(&ids)?;
        for (id, allowed) in ids.iter().zip(allowed) {
            // What is not there, or not for this client, has no size.
            match if allowed { self.view.reader.header(id)? } else { None } {
                Some((_, bytes)) if size => self.output.line(format!("{id} {bytes}"))?,
                Some(_) => self.output.line(id.to_string())?,
                None => self.output.line(format!("{id} "))?,
            }
        }
        self.output.end()
    }
}
