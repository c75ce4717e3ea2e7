//! The newest reference values, packed into the footer's metadata.
//!
//! ```text
//! inline = entry*                                  in name order
//! entry  = len: u16 LE, name, kind: u8, value
//! value  = nothing                                 kind 0: deleted
//!        | oid                                     kind 1
//!        | oid, peeled oid                         kind 2: an annotated tag
//!        | len: u16 LE, name                       kind 3: symbolic
//! ```

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};

use super::{Target, name::is_line};

/// The most bytes that are kept in a footer; twice as many characters of hex.
pub const MAX_LEN: usize = 1024;

/// What changed: a new value, or `None` for deleted.
pub type Changes = BTreeMap<BString, Option<Target>>;

/// Packs changes; `None` where a name is too long to be packed.
pub fn encode(changes: &Changes) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let name = |bytes: &mut Vec<u8>, name: &BStr| {
        bytes.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(name);
        Some(())
    };
    for (key, target) in changes {
        name(&mut bytes, key.as_ref())?;
        match target {
            None => bytes.push(0),
            Some(Target::Object { oid, peeled }) => {
                bytes.push(if peeled.is_some() { 2 } else { 1 });
                bytes.extend_from_slice(oid.as_slice());
                bytes.extend_from_slice(peeled.as_ref().map_or(&[], |peeled| peeled.as_slice()));
            }
            Some(Target::Symbolic(target)) => {
                bytes.push(3);
                name(&mut bytes, target.as_ref())?;
            }
        }
    }
    Some(bytes)
}

/// Unpacks what [`encode`] packed; `None` where the bytes are not that.
pub fn decode(mut bytes: &[u8], kind: Kind) -> Option<Changes> {
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        Some(taken)
    }
    fn name(bytes: &mut &[u8]) -> Option<BString> {
        let len = u16::from_le_bytes(take(bytes, 2)?.try_into().ok()?);
        let name = take(bytes, len as usize)?.as_bstr();
        is_line(name).then(|| name.to_owned())
    }
    let oid = |bytes: &mut &[u8]| ObjectId::try_from(take(bytes, kind.len_in_bytes())?).ok();
    let mut changes = Changes::new();
    while !bytes.is_empty() {
        let key = name(&mut bytes)?;
        let target = match take(&mut bytes, 1)?[0] {
            0 => None,
            1 => Some(Target::Object {
                oid: oid(&mut bytes)?,
                peeled: None,
            }),
            2 => Some(Target::Object {
                oid: oid(&mut bytes)?,
                peeled: Some(oid(&mut bytes)?),
            }),
            3 => Some(Target::Symbolic(name(&mut bytes)?)),
            _ => return None,
        };
        changes.insert(key, target);
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip_and_no_cut() {
        let oid = |n| ObjectId::Sha1([n; 20]);
        let changes = Changes::from([
            ("HEAD".into(), Some(Target::Symbolic("refs/heads/x".into()))),
            ("refs/heads/gone".into(), None),
            (
                "refs/heads/x".into(),
                Some(Target::Object {
                    oid: oid(1),
                    peeled: None,
                }),
            ),
            (
                BString::from(b"refs/tags/\xff".to_vec()),
                Some(Target::Object {
                    oid: oid(2),
                    peeled: Some(oid(3)),
                }),
            ),
        ]);
        let bytes = encode(&changes).unwrap();
        assert_eq!(decode(&bytes, Kind::Sha1), Some(changes.clone()));
        for len in 1..bytes.len() {
            assert_ne!(decode(&bytes[..len], Kind::Sha1), Some(changes.clone()), "cut at {len}");
        }
    }
}
