//! git's C-style quoting of values in protocol lines.

use bstr::{BString, ByteSlice};

/// Returns the value that `text` stands for: itself, or what its quotes hold. `None` where the quoting is broken.
pub fn unquote(text: &[u8]) -> Option<BString> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        return Some(text.into());
    };
    let mut out = Vec::with_capacity(rest.len());
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        match byte {
            b'"' => return rest.is_empty().then(|| out.into()),
            b'\\' => {
                let (&escape, tail) = rest.split_first()?;
                rest = tail;
                out.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let octal = [escape, *rest.first()?, *rest.get(1)?];
                        rest = &rest[2..];
                        octal.iter().try_fold(0u8, |value, digit| {
                            matches!(digit, b'0'..=b'7').then(|| value.wrapping_mul(8).wrapping_add(digit - b'0'))
                        })?
                    }
                    _ => return None,
                });
            }
            byte => out.push(byte),
        }
    }
}

/// Returns `text` as one line's worth of protocol: quoted where a control character, a quote or a backslash needs it.
pub fn quoted(text: &[u8]) -> BString {
    if !text
        .iter()
        .any(|&byte| byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f))
    {
        return text.into();
    }
    let mut out = BString::from("\"");
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte if byte < 0x20 || byte == 0x7f => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
    out
}

/// Returns `path` as an entry of a colon-separated list of object directories, quoted where a colon would split it.
pub fn list_entry(path: &[u8]) -> BString {
    if path.contains_str(":") || path.starts_with(b"\"") {
        let mut out = BString::from("\"");
        for &byte in path {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                byte if byte < 0x20 => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
                byte => out.push(byte),
            }
        }
        out.push(b'"');
        out
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquotes_what_git_quotes() {
        let cases: [(&[u8], Option<&[u8]>); 10] = [
            (b"plain text", Some(b"plain text")),
            (b"\"a\\\"b\"", Some(b"a\"b")),
            (b"\"a\\nb\\tc\\\\\"", Some(b"a\nb\tc\\")),
            (b"\"\\303\\244\"", Some("ä".as_bytes())),
            (b"\"\"", Some(b"")),
            (b"\"open", None),
            (b"\"a\" b", None),
            (b"\"\\q\"", None),
            (b"\"\\39x\"", None),
            (b"\"\\1\"", None),
        ];
        for (text, expected) in cases {
            assert_eq!(
                unquote(text).as_ref().map(|value| value.as_slice()),
                expected,
                "{}",
                text.as_bstr()
            );
        }
    }

    #[test]
    fn quoting_is_undone_by_unquoting() {
        let mut all: Vec<u8> = (0..=255).collect();
        all.extend(b"text with \" and \\");
        assert_eq!(unquote(&quoted(&all)).expect("well formed"), all);
        assert_eq!(quoted(b"non-fast forward"), "non-fast forward");
        assert_eq!(list_entry(b"/a:b"), "\"/a:b\"");
        assert_eq!(list_entry(b"/a b"), "/a b");
    }
}
