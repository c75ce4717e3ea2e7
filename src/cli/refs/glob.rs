//! Patterns for names, as `git ls-remote` takes them.

/// Returns whether `pattern` matches `name` from the start of one of its parts to its end.
pub fn matches_tail(pattern: &[u8], name: &[u8]) -> bool {
    let starts = name
        .iter()
        .enumerate()
        .filter(|&(_, &byte)| byte == b'/')
        .map(|(index, _)| index + 1);
    std::iter::once(0)
        .chain(starts)
        .any(|start| matches(pattern, &name[start..]))
}

/// Returns whether `pattern` matches all of `text`. `*` stands for any bytes, `?` for one, `[a-z]` for one of a set
/// (`[!…]` or `[^…]`: one that is not in it), a backslash takes the next byte as it is. A `[` without its `]` is itself.
///
/// Linear in practice and never worse than the product of both lengths: only the last `*` is ever tried again.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = one(pattern, p, text[t]) {
            p = next;
            t += 1;
        } else if let Some((after_star, from)) = retry {
            retry = Some((after_star, from + 1));
            (p, t) = (after_star, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Returns where the pattern goes on if its element at `p` matches `byte`.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    let (wanted, next) = match *pattern.get(p)? {
        b'?' => return Some(p + 1),
        b'[' => match set(pattern, p + 1, byte) {
            Some((inside, next)) => return inside.then_some(next),
            None => (b'[', p + 1),
        },
        b'\\' => (*pattern.get(p + 1)?, p + 2),
        plain => (plain, p + 1),
    };
    (wanted == byte).then_some(next)
}

/// Reads the set whose first byte after `[` is at `p`: whether it holds `byte`, and where it ends. `None` if it does not.
fn set(pattern: &[u8], mut p: usize, byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(p), Some(b'!' | b'^'));
    p += usize::from(negated);
    let first = p;
    let mut inside = false;
    loop {
        let mut low = *pattern.get(p)?;
        if low == b']' && p > first {
            return Some((inside != negated, p + 1));
        }
        if low == b'\\' {
            p += 1;
            low = *pattern.get(p)?;
        }
        p += 1;
        let mut high = low;
        if pattern.get(p) == Some(&b'-') && pattern.get(p + 1).is_some_and(|&end| end != b']') {
            high = pattern[p + 1];
            p += 2;
        }
        inside |= (low..=high).contains(&byte);
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_tail};

    #[test]
    fn wildcards() {
        for (pattern, text) in [
            ("", ""),
            ("a", "a"),
            ("*", ""),
            ("*", "a/b"),
            ("a*c", "abcabc"),
            ("a*b*c", "a-b-b-c"),
            ("?", "/"),
            ("v[0-9].[!0-9]", "v1.x"),
            ("[]a]", "]"),
            ("[a-]", "-"),
            (r"\*", "*"),
            (r"[\]]", "]"),
            ("[x", "[x"),
            ("**a", "a"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "ab"),
            ("?", ""),
            ("[a-c]", "d"),
            ("[^a]", "a"),
            (r"\*", "a"),
            ("a", "aa"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn tails_begin_at_a_part() {
        assert!(matches_tail(b"main", b"refs/heads/main"));
        assert!(matches_tail(b"heads/*", b"refs/heads/a/b"));
        assert!(matches_tail(b"HEAD", b"HEAD"));
        assert!(matches_tail(b"refs/*", b"refs/tags/v1"));
        assert!(!matches_tail(b"ain", b"refs/heads/main"));
        assert!(!matches_tail(b"main", b"refs/heads/main/x"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!matches("*a".repeat(200).as_bytes(), "a".repeat(199).as_bytes()));
        assert!(!matches("*a*a*a*a*a*a*a*a*b".as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
