//! The values of settings, as git writes them.

use bstr::{BStr, BString, ByteSlice};

/// What the values of a setting are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    /// A number of bytes, with k, m or g for its multiples of 1024.
    Size,
    /// The start of names of references; see git-config(1), `transfer.hideRefs`.
    RefPrefix,
    /// How serious what a check finds is; see git-config(1), `fsck.<msg-id>`.
    Level,
}

impl Kind {
    /// Returns a value in the form in which it is stored.
    ///
    /// # Errors
    /// Says what it should be.
    pub fn normalized(self, value: &BStr) -> Result<BString, &'static str> {
        match self {
            Kind::Bool => match parse_bool(value) {
                Some(true) => Ok("true".into()),
                Some(false) => Ok("false".into()),
                None => Err("true or false"),
            },
            Kind::Size => match parse_size(value) {
                Some(_) => Ok(value.to_ascii_lowercase().into()),
                None => Err("a number of bytes, such as 500000, 512k, 20m or 2g"),
            },
            Kind::RefPrefix => {
                let trimmed = value.trim_end_with(|char| char == '/');
                let name = trimmed.trim_start_with(|char| matches!(char, '!' | '^'));
                if name.is_empty() || value.iter().any(u8::is_ascii_control) {
                    return Err("the start of a reference's name, such as refs/pull or !refs/pull/1");
                }
                Ok(trimmed.into())
            }
            Kind::Level => match value.to_ascii_lowercase().as_slice() {
                level @ (b"error" | b"warn" | b"ignore") => Ok(level.into()),
                _ => Err("error, warn or ignore"),
            },
        }
    }
}

/// Reads a boolean as git does.
pub fn parse_bool(value: &BStr) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"yes" | b"on" => Some(true),
        b"false" | b"no" | b"off" | b"" => Some(false),
        number => number.to_str().ok()?.parse::<i64>().ok().map(|number| number != 0),
    }
}

/// Reads a number of bytes as git does.
pub fn parse_size(value: &BStr) -> Option<u64> {
    let text = value.to_str().ok()?;
    let (digits, shift) = match text.chars().last()?.to_ascii_lowercase() {
        'k' => (&text[..text.len() - 1], 10),
        'm' => (&text[..text.len() - 1], 20),
        'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_git_reads_them() {
        for (text, size) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("3k", Some(3 << 10)),
            ("3M", Some(3 << 20)),
            ("1g", Some(1 << 30)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("+1", None),
            ("1t", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551615k", None),
        ] {
            assert_eq!(parse_size(text.into()), size, "{text}");
        }
    }
}
