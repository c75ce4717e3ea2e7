//! Path patterns, as in a sparse checkout: the rules of gitignore(5), where a match means that a path is wanted.

use bstr::{BStr, ByteSlice};
use gix_glob::{Pattern, pattern::Case, wildmatch};

/// A list of patterns. The last one that matches decides.
#[derive(Debug, Clone)]
pub struct Sparse(Vec<Pattern>);

impl Sparse {
    /// Parses patterns, one a line.
    pub fn parse(text: &[u8]) -> Sparse {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = text.lines().filter(|line| !line.starts_with(b"#"));
        Sparse(lines.filter_map(Pattern::from_bytes).collect())
    }

    /// Returns whether the patterns want the path, or `None` where they do not say: what holds for its directory decides then.
    /// `name_at` is where its last component starts.
    pub(in crate::pack) fn wants(&self, path: &BStr, name_at: usize, is_dir: bool) -> Option<bool> {
        let matches = |pattern: &&Pattern| {
            pattern.matches_repo_relative_path(
                path,
                Some(name_at),
                Some(is_dir),
                Case::Sensitive,
                wildmatch::Mode::NO_MATCH_SLASH_LITERAL,
            )
        };
        self.0.iter().rev().find(matches).map(|pattern| !pattern.is_negative())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_decides() {
        let sparse = Sparse::parse(b"# all\n/*\n!/docs/\r\n/docs/keep.txt\n*.rs\n\n");
        let wants = |path: &str, is_dir| {
            let name_at = path.rfind('/').map_or(0, |at| at + 1);
            sparse.wants(path.into(), name_at, is_dir)
        };
        assert_eq!(wants("README", false), Some(true));
        assert_eq!(wants("docs", true), Some(false));
        assert_eq!(wants("docs", false), Some(true));
        assert_eq!(wants("docs/a", false), None);
        assert_eq!(wants("docs/keep.txt", false), Some(true));
        assert_eq!(wants("docs/deep/a.rs", false), Some(true));
    }
}
