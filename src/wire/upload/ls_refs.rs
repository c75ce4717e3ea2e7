//! The command `ls-refs` of version 2.

use bstr::{BStr, BString, ByteSlice};

use super::Server;
use crate::{
    refs::Target,
    wire::{WireError, WireResult},
};

/// With more prefixes than this, all references are listed: prefixes only save work.
const MOST_PREFIXES: usize = 65536;

impl Server<'_, '_> {
    pub(super) fn ls_refs(&mut self, arguments: bool) -> WireResult<()> {
        let (mut peel, mut symrefs, mut unborn) = (false, false, false);
        let mut prefixes: Vec<BString> = Vec::new();
        let mut count = 0;
        while arguments && let Some(line) = self.input.line()? {
            if let Some(prefix) = line.strip_prefix(b"ref-prefix ") {
                count += 1;
                if count <= MOST_PREFIXES {
                    prefixes.push(prefix.into());
                }
                continue;
            }
            match line.as_bytes() {
                b"peel" => peel = true,
                b"symrefs" => symrefs = true,
                b"unborn" => unborn = true,
                _ => return Err(WireError::refused(format!("unexpected line: '{line}'"))),
            }
        }
        if count > MOST_PREFIXES {
            prefixes.clear();
        }
        let asked_for = |name: &BStr| prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix));
        if unborn
            && symrefs
            && asked_for("HEAD".into())
            && let Some(Target::Symbolic(to)) = self.view.snapshot.find_ref("HEAD".into())?
            && self.view.follow(to.as_bstr())?.is_none()
        {
            self.output.line([b"unborn HEAD symref-target:", &to[..]].concat())?;
        }
        for each in self.view.shown()? {
            if !asked_for(each.name.as_bstr()) {
                continue;
            }
            let mut text = format!("{} ", each.oid).into_bytes();
            text.extend_from_slice(&each.name);
            if symrefs && let Some(target) = &each.symref {
                text.extend_from_slice(b" symref-target:");
                text.extend_from_slice(target);
            }
            if peel && let Some(peeled) = &each.peeled {
                text.extend_from_slice(format!(" peeled:{peeled}").as_bytes());
            }
            self.output.line(text)?;
        }
        self.output.end()
    }
}
