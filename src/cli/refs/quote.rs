//! Fields of a line, with quotes as in C.

use bstr::BString;

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

#[cfg(test)]
mod tests {
    use super::unquoted;

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
