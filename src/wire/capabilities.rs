//! What a side can do: words with a value or without.

use bstr::{BStr, BString, ByteSlice};

/// The capabilities that the other side sent, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    list: Vec<(BString, Option<BString>)>,
}

impl Capabilities {
    /// Parses words that are separated by spaces, as of versions 0 and 1.
    pub fn parse(words: &[u8]) -> Capabilities {
        Capabilities::from_words(words.split_str(" "))
    }

    /// Takes words one by one, as of version 2.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Capabilities {
        let words = words.into_iter().filter(|word| !word.is_empty());
        let entry = |word: &[u8]| match word.split_once_str("=") {
            Some((name, value)) => (name.into(), Some(value.into())),
            None => (word.into(), None),
        };
        Capabilities {
            list: words.map(entry).collect(),
        }
    }

    /// Splits a first line of version 0 or 1 at its NUL byte.
    pub fn split_line(line: &[u8]) -> (&BStr, Capabilities) {
        match line.split_once_str("\0") {
            Some((line, words)) => (line.as_bstr(), Capabilities::parse(words)),
            None => (line.as_bstr(), Capabilities::default()),
        }
    }

    /// Returns whether `name` is among them, with a value or without.
    pub fn has(&self, name: &str) -> bool {
        self.list.iter().any(|(each, _)| each == name)
    }

    /// Returns the value of `name`.
    pub fn value(&self, name: &str) -> Option<&BStr> {
        let (_, value) = self.list.iter().find(|(each, _)| each == name)?;
        value.as_ref().map(|value| value.as_bstr())
    }

    /// Iterates over all of them.
    pub fn iter(&self) -> impl Iterator<Item = (&BStr, Option<&BStr>)> {
        self.list
            .iter()
            .map(|(name, value)| (name.as_bstr(), value.as_ref().map(|value| value.as_bstr())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_and_without_values() {
        let (line, capabilities) = Capabilities::split_line(b"want x\0 multi_ack agent=git/2 empty= ofs-delta");
        assert_eq!(line, "want x");
        assert!(capabilities.has("multi_ack") && capabilities.has("agent") && !capabilities.has("multi"));
        assert_eq!(capabilities.value("agent").unwrap(), "git/2");
        assert_eq!(capabilities.value("empty").unwrap(), "");
        assert_eq!(capabilities.value("ofs-delta"), None);
        assert_eq!(capabilities.iter().count(), 4);
        assert_eq!(Capabilities::split_line(b"alone").1, Capabilities::default());
    }
}
