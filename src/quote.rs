//! git's C-style quoting of names and values in lines of text.

use bstr::{BString, ByteSlice};

/// Returns the value that `text` stands for: itself, or what its quotes hold. `None` where the quoting is broken.
pub fn unquote(text: &[u8]) -> Option<BString> {
    if !text.starts_with(b"\"") {
        return Some(text.into());
    }
    let (value, rest) = unquoted(text).ok()?;
    rest.is_empty().then_some(value)
}

/// Splits the first field off `rest`; a field in double quotes may hold spaces, and escapes as in C.
pub fn unquoted(rest: &[u8]) -> Result<(BString, &[u8]), &'static str> {
    let Some(mut rest) = rest.strip_prefix(b"\"") else {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        return Ok((rest[..end].into(), &rest[end..]));
    };
    let mut field = Vec::new();
    loop {
        let (byte, after) = match *rest {
            [] => return Err("a quoted field does not end"),
            [b'"', ref after @ ..] if matches!(after, [] | [b' ', ..]) => return Ok((field.into(), after)),
            [b'"', ..] => return Err("a quoted field is followed by something else than a space"),
            [b'\\', ref after @ ..] => escaped(after).ok_or("a quoted field has an escape that C does not know")?,
            [byte, ref after @ ..] => (byte, after),
        };
        field.push(byte);
        rest = after;
    }
}

/// Reads what follows a backslash.
fn escaped(rest: &[u8]) -> Option<(u8, &[u8])> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'7').then(|| byte - b'0');
    let byte = match *rest.first()? {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        same @ (b'"' | b'\\') => same,
        high @ b'0'..=b'3' => {
            let (middle, low) = (digit(*rest.get(1)?)?, digit(*rest.get(2)?)?);
            return Some(((digit(high)? << 6) | (middle << 3) | low, &rest[3..]));
        }
        _ => return None,
    };
    Some((byte, &rest[1..]))
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

    #[test]
    fn a_field_ends_at_white_space() {
        assert_eq!(unquoted(b"a b"), Ok(("a".into(), &b" b"[..])));
        assert_eq!(unquoted(b"a\tb"), Ok(("a".into(), &b"\tb"[..])));
        assert_eq!(unquoted(b""), Ok(("".into(), &b""[..])));
        assert_eq!(unquoted(b"a\"b c"), Ok(("a\"b".into(), &b" c"[..])));
    }

    #[test]
    fn a_quoted_field_holds_anything() {
        let (field, rest) = unquoted(br#""o\303\244 \"x\" \a\b\t\n\v\f\r\\" rest"#).unwrap();
        assert_eq!(field, "o\u{e4} \"x\" \x07\x08\t\n\x0b\x0c\r\\");
        assert_eq!(rest, b" rest");
        assert_eq!(unquoted(br#""""#), Ok(("".into(), &b""[..])));
    }

    #[test]
    fn what_is_refused() {
        for bad in [
            r#"""#,
            r#""a b"#,
            r#""a"b"#,
            r#""\x41""#,
            r#""\400""#,
            r#""\1""#,
            r#""\"#,
            r#""\12"#,
            r#""\189""#,
        ] {
            assert!(unquoted(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
