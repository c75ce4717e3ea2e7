//! Filters: what of a history a partial clone leaves out (`--filter` of git-rev-list(1)).
//!
//! Each kind of filter narrows one property of the objects to send, so any combination of filters is one [`Filter`] again.

mod sparse;

use bstr::{BStr, BString, ByteSlice};

use super::Kind;

pub use sparse::Sparse;

/// Which objects of what is reachable are sent. Objects that are wanted by name are sent in any case.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only objects of these kinds; all where there is none.
    kinds: Option<Vec<Kind>>,
    /// Only blobs of fewer bytes.
    blobs_below: Option<u64>,
    /// Only trees and blobs that are fewer steps than this from a root tree, which is at 0.
    depth: Option<u64>,
    /// Only blobs at paths that match all of these.
    sparse: Vec<Sparse>,
}

/// How to walk trees for a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    /// Trees and blobs.
    All,
    /// Trees only.
    Trees,
    /// Neither.
    Nothing,
    /// By path: one object may count at one path and not at another.
    Paths,
}

impl Filter {
    /// Parses the argument of `--filter`: `blob:none`, `blob:limit=N`, `tree:DEPTH`, `object:type=KIND`, `sparse:oid=BLOB`, or
    /// `combine:` and filters with `+` between. `patterns` returns the content of the blob that a sparse filter names.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(spec: &BStr, patterns: &mut dyn FnMut(&BStr) -> Result<Vec<u8>, String>) -> Result<Filter, String> {
        let mut filter = Filter::default();
        filter.narrow(spec, patterns, 0)?;
        Ok(filter)
    }

    fn narrow(
        &mut self,
        spec: &BStr,
        patterns: &mut dyn FnMut(&BStr) -> Result<Vec<u8>, String>,
        nesting: u8,
    ) -> Result<(), String> {
        let invalid = || format!("invalid filter-spec '{spec}'");
        if spec == "blob:none" {
            self.blobs_below = Some(0);
        } else if let Some(limit) = spec.strip_prefix(b"blob:limit=") {
            let limit = size(limit).ok_or_else(invalid)?;
            self.blobs_below = Some(self.blobs_below.map_or(limit, |other| other.min(limit)));
        } else if let Some(depth) = spec.strip_prefix(b"tree:") {
            let depth = depth.to_str().ok().and_then(|text| text.parse().ok());
            let depth: u64 = depth.ok_or_else(|| "expected 'tree:<depth>'".to_owned())?;
            self.depth = Some(self.depth.map_or(depth, |other| other.min(depth)));
        } else if let Some(kind) = spec.strip_prefix(b"object:type=") {
            let kind = Kind::from_bytes(kind).map_err(|_| {
                format!(
                    "'{}' for 'object:type=<type>' is not a valid object type",
                    kind.as_bstr()
                )
            })?;
            match &mut self.kinds {
                Some(kinds) => kinds.retain(|each| *each == kind),
                None => self.kinds = Some(vec![kind]),
            }
        } else if let Some(blob) = spec.strip_prefix(b"sparse:oid=") {
            self.sparse.push(Sparse::parse(&patterns(blob.as_bstr())?));
        } else if spec.starts_with(b"sparse:path=") {
            return Err("sparse:path filters support has been dropped".into());
        } else if let Some(list) = spec.strip_prefix(b"combine:") {
            if nesting > 8 {
                return Err("filters are nested too deeply".into());
            }
            for part in list.split_str("+") {
                let part = percent_decode(part).ok_or_else(invalid)?;
                if part.is_empty() {
                    return Err("expected something after combine:".into());
                }
                self.narrow(part.as_bstr(), patterns, nesting + 1)?;
            }
        } else {
            return Err(invalid());
        }
        Ok(())
    }

    /// Returns whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        self.kinds.is_none() && self.blobs_below.is_none() && self.depth.is_none() && self.sparse.is_empty()
    }

    /// Returns whether it can be told from kind and size alone which objects are sent.
    pub fn is_by_object(&self) -> bool {
        self.depth.is_none_or(|depth| depth == 0) && self.sparse.is_empty()
    }

    /// Returns whether objects of `kind` are sent at all.
    pub fn allows(&self, kind: Kind) -> bool {
        let in_trees = match kind {
            Kind::Tree => self.depth != Some(0),
            Kind::Blob => self.depth != Some(0) && self.blobs_below != Some(0),
            Kind::Commit | Kind::Tag => true,
        };
        in_trees && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }

    /// Returns whether all objects of `kind` are sent that are met.
    pub(super) fn allows_all(&self, kind: Kind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }

    /// Returns how many bytes a blob must not have to be sent; `None` where it does not matter.
    pub fn blobs_below(&self) -> Option<u64> {
        self.blobs_below
    }

    /// Returns how deep trees are looked into.
    pub(super) fn depth(&self) -> u64 {
        self.depth.unwrap_or(u64::MAX)
    }

    pub(super) fn sparse(&self) -> &[Sparse] {
        &self.sparse
    }

    pub(super) fn walk(&self) -> Walk {
        match (self.allows(Kind::Tree), self.allows(Kind::Blob)) {
            (false, false) => Walk::Nothing,
            _ if !self.is_by_object() => Walk::Paths,
            (true, false) => Walk::Trees,
            (_, true) => Walk::All,
        }
    }
}

/// Parses a number of bytes, which may end in k, m or g.
fn size(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 10),
        (b'm' | b'M', digits) => (digits, 20),
        (b'g' | b'G', digits) => (digits, 30),
        _ => (text, 0),
    };
    let number: u64 = digits.to_str().ok()?.parse().ok()?;
    number.checked_mul(1 << shift)
}

fn percent_decode(text: &[u8]) -> Option<BString> {
    let mut decoded = BString::default();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let (hex, after) = rest.split_at_checked(2)?;
        decoded.push(u8::from_str_radix(hex.to_str().ok()?, 16).ok()?);
        rest = after;
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: &str) -> Result<Filter, String> {
        Filter::parse(spec.into(), &mut |_| Ok(b"/a\n".to_vec()))
    }

    #[test]
    fn each_filter_narrows_and_a_combination_narrows_by_all() {
        assert!(Filter::default().is_everything());
        let walk = |spec| parse(spec).unwrap().walk();
        assert_eq!(walk("blob:none"), Walk::Trees);
        assert_eq!(walk("blob:limit=0"), Walk::Trees);
        assert_eq!(walk("blob:limit=1k"), Walk::All);
        assert_eq!(walk("tree:0"), Walk::Nothing);
        assert_eq!(walk("tree:2"), Walk::Paths);
        assert_eq!(walk("sparse:oid=main:x"), Walk::Paths);
        assert_eq!(walk("object:type=commit"), Walk::Nothing);
        assert_eq!(walk("object:type=tree"), Walk::Trees);
        assert_eq!(walk("object:type=blob"), Walk::All);
        assert_eq!(walk("combine:tree:3+blob:none"), Walk::Paths);
        assert_eq!(walk("combine:tree:3+tree:0"), Walk::Nothing);
        assert_eq!(walk("combine:object:type=tree+object:type=blob"), Walk::Nothing);
        let both = parse("combine:blob:limit=2k+combine%3Ablob%3Alimit=1k%2Btree%3A9").unwrap();
        assert_eq!((both.blobs_below(), both.depth()), (Some(1024), 9));
        assert_eq!(parse("blob:limit=3m").unwrap().blobs_below(), Some(3 << 20));
    }

    #[test]
    fn nonsense_is_refused() {
        for spec in [
            "",
            "blob:some",
            "blob:limit=",
            "blob:limit=x",
            "blob:limit=99999999999999999999",
            "blob:limit=99999999999999g",
            "tree:",
            "tree:-1",
            "object:type=thing",
            "sparse:path=/etc/passwd",
            "combine:",
            "combine:blob:none+",
            "combine:%zz",
            "combine:%4",
        ] {
            assert!(parse(spec).is_err(), "{spec}");
        }
        let deep = (0..20).fold("blob:none".to_owned(), |inner, _| {
            format!("combine:{}", inner.replace('%', "%25").replace('+', "%2B"))
        });
        assert!(parse(&deep).is_err());
    }
}
