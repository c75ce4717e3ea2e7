//! The client's git configuration, read once, in one process.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use bstr::{BStr, BString, ByteSlice};

/// `git config --list` under way: started early so that it runs beside the opening of the archive.
pub struct Pending(Child);

impl Pending {
    /// Starts reading.
    pub fn start() -> Result<Pending> {
        let child = Command::new("git")
            .args(["config", "--list", "-z"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run git config")?;
        Ok(Pending(child))
    }

    /// Returns the configuration.
    pub fn finish(self) -> Result<Config> {
        let output = self
            .0
            .wait_with_output()
            .context("cannot read the output of git config")?;
        if !output.status.success() {
            bail!("git config --list failed ({})", output.status);
        }
        Ok(Config::parse(&output.stdout))
    }
}

/// Reads the configuration, unless that was done.
///
/// # Errors
/// Fails where git does.
pub fn get_or_read(config: &mut Option<Config>) -> Result<&Config> {
    match config {
        Some(config) => Ok(config),
        none => Ok(none.insert(Pending::start()?.finish()?)),
    }
}

/// Settings in the order in which git reads them; the last one of a name wins.
#[derive(Debug, Default)]
pub struct Config(Vec<(BString, Option<BString>)>);

impl Config {
    fn parse(list: &[u8]) -> Config {
        let entries = list.split_str("\0").filter(|entry| !entry.is_empty());
        Config(
            entries
                .map(|entry| match entry.split_once_str("\n") {
                    Some((key, value)) => (key.into(), Some(value.into())),
                    // `key` without `=`: a boolean that is true.
                    None => (entry.into(), None),
                })
                .collect(),
        )
    }

    #[cfg(test)]
    pub fn with(list: &[(&str, &str)]) -> Config {
        Config(
            list.iter()
                .map(|&(key, value)| (key.into(), Some(value.into())))
                .collect(),
        )
    }

    fn last(&self, key: &[u8]) -> Option<Option<&BStr>> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name == key)?;
        Some(value.as_ref().map(|value| value.as_bstr()))
    }

    /// Returns a setting. Section and variable name in lower case, as git prints them.
    pub fn get(&self, key: &str) -> Option<&BStr> {
        self.last(key.as_bytes()).flatten()
    }

    /// Returns all values of a setting.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a BStr> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .filter_map(|(_, value)| Some(value.as_ref()?.as_bstr()))
    }

    /// Returns a boolean setting; `None` where it is not set.
    ///
    /// # Errors
    /// Fails where the value is no boolean, as git does.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.last(key.as_bytes()) else {
            return Ok(None);
        };
        let Some(value) = value else { return Ok(Some(true)) };
        match value.to_ascii_lowercase().as_slice() {
            b"true" | b"yes" | b"on" => Ok(Some(true)),
            b"false" | b"no" | b"off" | b"" => Ok(Some(false)),
            number => match number.to_str().ok().and_then(|text| text.parse::<i64>().ok()) {
                Some(number) => Ok(Some(number != 0)),
                None => bail!("bad boolean config value '{value}' for '{key}'"),
            },
        }
    }

    /// Returns `remote.<name>.<variable>`.
    pub fn remote(&self, name: &BStr, variable: &str) -> Option<&BStr> {
        self.last(&remote_key(name, variable)).flatten()
    }

    /// Returns the settings below `section.`, such as `fetch.fsck.`, without that prefix.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a BStr, &'a BStr)> {
        self.0.iter().filter_map(move |(key, value)| {
            Some((
                key.strip_prefix(prefix.as_bytes())?.as_bstr(),
                value.as_ref()?.as_bstr(),
            ))
        })
    }

    /// Returns whether objects of this repository may be missing because a promisor remote has them.
    pub fn is_partial_clone(&self) -> bool {
        self.0.iter().any(|(key, value)| {
            key == "extensions.partialclone"
                || (key.starts_with(b"remote.")
                    && key.ends_with(b".promisor")
                    && value.as_ref().is_none_or(|v| v != "false"))
        })
    }
}

/// Returns the full name of a remote's variable. The remote's name keeps its case.
pub fn remote_key(name: &BStr, variable: &str) -> BString {
    let mut key = BString::from("remote.");
    key.extend_from_slice(name);
    key.push(b'.');
    key.extend_from_slice(variable.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_wins_and_names_keep_their_case() {
        let config = Config::parse(
            b"core.bare\nfalse\0remote.Nas.url\nznippy::/a b\0a.flag\0a.flag2\nYES\0core.bare\ntrue\0a.text\nx\ny\0a.empty\n\0a.bad\nnope\0",
        );
        assert_eq!(config.get("core.bare").expect("set"), "true");
        assert_eq!(config.remote("Nas".into(), "url").expect("set"), "znippy::/a b");
        assert_eq!(config.remote("nas".into(), "url"), None);
        assert_eq!(config.get("a.text").expect("set"), "x\ny");
        assert_eq!(config.bool("a.flag").expect("boolean"), Some(true));
        assert_eq!(config.bool("a.flag2").expect("boolean"), Some(true));
        assert_eq!(config.bool("a.empty").expect("boolean"), Some(false));
        assert_eq!(config.bool("a.unset").expect("boolean"), None);
        assert!(config.bool("a.bad").is_err());
        assert!(!config.is_partial_clone());
        assert!(Config::parse(b"remote.o.promisor\ntrue\0").is_partial_clone());
        assert!(!Config::parse(b"remote.o.promisor\nfalse\0").is_partial_clone());
    }
}
