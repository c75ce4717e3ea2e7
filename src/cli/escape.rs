//! Text that came out of an archive or a path, made harmless for a terminal and for line-based readers.

use std::fmt::Write;

/// Returns `bytes` as text that stays on its line and cannot steer a terminal.
///
/// Control characters (C0, DEL, C1), line and paragraph separators, and the characters that reorder text become `\x1b` or
/// `\u{202e}`; bytes that are not UTF-8 become `\xff`. Everything else, the backslash too, is left alone.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\0'..='\x1f' | '\x7f' => write!(text, "\\x{:02x}", c as u32),
                _ if c.is_control() || reorders(c) => write!(text, "\\u{{{:x}}}", c as u32),
                _ => text.write_char(c),
            }
            .expect("writing to a string");
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("writing to a string");
        }
    }
    text
}

/// Returns whether `c` changes the direction or the lines of the text around it.
fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn leaves_ordinary_text_alone() {
        for ordinary in ["", "refs/heads/main", "/mnt/Ablage/Öl \u{1f600}", r"C:\x"] {
            assert_eq!(text(ordinary.as_bytes()), ordinary);
        }
    }

    #[test]
    fn r28_escapes_what_steers_a_terminal() {
        assert_eq!(text(b"a\x1b[31m\n\x7f"), r"a\x1b[31m\x0a\x7f");
        assert_eq!(text("a\u{9b}31m\u{202e}b".as_bytes()), r"a\u{9b}31m\u{202e}b");
        assert_eq!(text(b"a\xffb\xe2\x82"), r"a\xffb\xe2\x82");
    }
}
