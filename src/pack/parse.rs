//! The parts of commits, trees and tags that a walk needs.
//!
//! As lenient as git: what it walks, this walks. Nothing is copied that is not asked for.

use bstr::ByteSlice;
use gix_hash::ObjectId;

use super::Kind;

/// A commit's links and dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit<'a> {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// The author line after `author `: name, address, time, zone. Empty where there is none.
    pub author: &'a [u8],
    /// The committer's time in seconds since 1970; 0 where it cannot be parsed, as in git.
    pub time: i64,
}

/// Parses a commit.
///
/// # Errors
/// Fails with the reason where there is no tree, or where an id is malformed.
pub fn commit(data: &[u8], format: gix_hash::Kind) -> Result<Commit<'_>, &'static str> {
    let (tree, mut rest) = id_line(data, b"tree ", format)?.ok_or("it does not start with a tree")?;
    let mut parents = Vec::new();
    while let Some((parent, after)) = id_line(rest, b"parent ", format)? {
        parents.push(parent);
        rest = after;
    }
    let mut author: &[u8] = b"";
    if let Some(line) = rest.strip_prefix(b"author ") {
        let end = line.find_byte(b'\n').unwrap_or(line.len());
        author = &line[..end];
        rest = &line[(end + 1).min(line.len())..];
    }
    let time = match rest.strip_prefix(b"committer ") {
        Some(line) => signature_time(&line[..line.find_byte(b'\n').unwrap_or(line.len())]),
        None => 0,
    };
    Ok(Commit {
        tree,
        parents,
        author,
        time,
    })
}

/// Returns the id on the line that starts with `key`, and what follows the line.
fn id_line<'a>(
    data: &'a [u8],
    key: &[u8],
    format: gix_hash::Kind,
) -> Result<Option<(ObjectId, &'a [u8])>, &'static str> {
    let Some(line) = data.strip_prefix(key) else {
        return Ok(None);
    };
    let (hex, rest) = line
        .split_at_checked(format.len_in_hex())
        .ok_or("an object id is cut off")?;
    let id = ObjectId::from_hex(hex).map_err(|_| "an object id is not hexadecimal")?;
    match rest.split_first() {
        Some((b'\n', rest)) => Ok(Some((id, rest))),
        _ => Err("an object id is not followed by a line feed"),
    }
}

/// Returns the time in a line `name <address> time zone`, 0 where there is none.
fn signature_time(line: &[u8]) -> i64 {
    let Some(end) = line.rfind_byte(b'>') else { return 0 };
    let digits = line[end + 1..].trim_start();
    let digits = &digits[..digits.find_not_byteset(b"0123456789").unwrap_or(digits.len())];
    // Times beyond what fits are as good as the furthest one: dates only order a walk.
    digits.iter().fold(0i64, |time, digit| {
        time.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    })
}

/// Parses what a tag points at: the object's id and the kind that the tag says it has.
///
/// # Errors
/// Fails with the reason where there is no object or no known type.
pub fn tag(data: &[u8], format: gix_hash::Kind) -> Result<(ObjectId, Kind), &'static str> {
    let (target, rest) = id_line(data, b"object ", format)?.ok_or("it does not start with an object")?;
    let line = rest.strip_prefix(b"type ").ok_or("it has no type")?;
    let kind = Kind::from_bytes(&line[..line.find_byte(b'\n').unwrap_or(line.len())])
        .map_err(|_| "the type of its object is not known")?;
    Ok((target, kind))
}

/// What a tree entry's mode makes of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryMode {
    Tree,
    /// A file, an executable file or a symbolic link.
    Blob,
    /// A commit of another repository, which this one does not have.
    Submodule,
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    pub mode: EntryMode,
    pub name: &'a [u8],
    /// The object id, as bytes.
    pub id: &'a [u8],
}

/// Splits the first entry off `tree`, whose ids have `width` bytes; `None` at the end.
///
/// # Errors
/// Fails with the reason where the entry is cut off or its mode is no mode.
#[inline]
pub fn tree_entry(tree: &[u8], width: usize) -> Result<Option<(TreeEntry<'_>, &[u8])>, &'static str> {
    if tree.is_empty() {
        return Ok(None);
    }
    let mut mode = 0u32;
    let mut at = 0;
    loop {
        match tree.get(at) {
            Some(b' ') if at > 0 => break,
            Some(digit @ b'0'..=b'7') if at < 7 => mode = mode << 3 | u32::from(digit - b'0'),
            _ => return Err("the mode of an entry is malformed"),
        }
        at += 1;
    }
    let named = &tree[at + 1..];
    let name_len = named.find_byte(0).ok_or("an entry is cut off")?;
    let (id, rest) = named[name_len + 1..]
        .split_at_checked(width)
        .ok_or("an entry is cut off")?;
    let mode = match mode & 0o170_000 {
        0o040_000 => EntryMode::Tree,
        0o160_000 => EntryMode::Submodule,
        _ => EntryMode::Blob,
    };
    Ok(Some((
        TreeEntry {
            mode,
            name: &named[..name_len],
            id,
        },
        rest,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: gix_hash::Kind = gix_hash::Kind::Sha1;

    #[test]
    fn commits() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!(
            "tree {a}\nparent {b}\nparent {a}\nauthor N <n@x> 1 +0000\ncommitter <x> N <n@x> 1234567890 -0130\n\nparent {a}\n"
        );
        let parsed = commit(text.as_bytes(), FORMAT).unwrap();
        assert_eq!(parsed.tree.to_string(), a);
        assert_eq!(
            parsed.parents.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [b, a.clone()]
        );
        assert_eq!(parsed.author.as_bstr(), "N <n@x> 1 +0000");
        assert_eq!(parsed.time, 1_234_567_890);
        let odd = |rest: &str| commit(format!("tree {a}\n{rest}").as_bytes(), FORMAT).map(|commit| commit.time);
        assert_eq!(odd(""), Ok(0));
        assert_eq!(odd("author N\ncommitter N\n"), Ok(0));
        assert_eq!(odd("author N\ncommitter N <> -5 +0000\n"), Ok(0));
        assert_eq!(odd("author N\ncommitter N <> 99999999999999999999 +0000"), Ok(i64::MAX));
        assert!(odd("parent 12\n").is_err());
        assert!(commit(b"", FORMAT).is_err());
        assert!(commit(&text.as_bytes()[5..], FORMAT).is_err());
    }

    #[test]
    fn trees() {
        let mut bytes = b"40000 dir\0".to_vec();
        bytes.extend([1; 20]);
        bytes.extend(b"100644 a b\0");
        bytes.extend([2; 20]);
        bytes.extend(b"160000 m\0");
        bytes.extend([3; 20]);
        let mut rest = &bytes[..];
        let mut seen = Vec::new();
        while let Some((entry, after)) = tree_entry(rest, 20).unwrap() {
            seen.push((entry.mode, entry.name.to_vec(), entry.id[0]));
            rest = after;
        }
        let expected = [
            (EntryMode::Tree, &b"dir"[..], 1),
            (EntryMode::Blob, b"a b", 2),
            (EntryMode::Submodule, b"m", 3),
        ];
        assert_eq!(seen, expected.map(|(mode, name, id)| (mode, name.to_vec(), id)));
        for bad in [
            &b" a\0"[..],
            b"8 a\0",
            b"100644",
            b"100644 a",
            b"12345670 a\0",
            &bytes[..29],
        ] {
            assert!(tree_entry(bad, 20).is_err(), "{:?}", bad.as_bstr());
        }
    }
}
