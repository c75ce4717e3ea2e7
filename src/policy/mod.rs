//! What an archive allows: settings that are stored in it and hold for whoever writes to it, and for whoever is served from it.
//!
//! The names are git's where git has one, and mean the same. All settings that are in force stand in the footer, so that they
//! are known as soon as the archive is open; a commit that changes them restates them in a row of its own, for the log.

mod hidden;
mod value;

use std::borrow::Cow;

use bstr::{BStr, BString, ByteSlice};

pub use hidden::Service;
use value::Kind;

/// A setting: its name, what its values are, and what it does.
#[derive(Debug)]
pub struct Key {
    /// As git spells it; compared without regard to case. What ends in `<msg-id>` stands for a setting for each of git's checks.
    pub name: &'static str,
    kind: Kind,
    /// One line for a person.
    pub help: &'static str,
}

impl Key {
    /// Returns whether the setting may have several values.
    pub fn is_list(&self) -> bool {
        self.kind == Kind::RefPrefix
    }

    /// Returns the name under which the setting is stored that a user calls `name`, if this is its key.
    fn full_name<'a>(&'a self, name: &'a str) -> Option<Cow<'a, str>> {
        let Some(family) = self.name.strip_suffix(MSG_ID) else {
            return self.name.eq_ignore_ascii_case(name).then_some(self.name.into());
        };
        let (start, id) = name.split_at_checked(family.len())?;
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (start.eq_ignore_ascii_case(family) && is_id).then(|| format!("{family}{id}").into())
    }
}

pub const READ_ONLY: &str = "znippy.readOnly";
pub const DENY_NON_FAST_FORWARDS: &str = "receive.denyNonFastForwards";
pub const DENY_DELETES: &str = "receive.denyDeletes";
pub const MAX_INPUT_SIZE: &str = "receive.maxInputSize";
pub const MAX_OBJECT_SIZE: &str = "znippy.maxObjectSize";
pub const RECEIVE_FSCK_OBJECTS: &str = "receive.fsckObjects";
pub const FSCK_OBJECTS: &str = "transfer.fsckObjects";
pub const RECEIVE_FSCK: &str = "receive.fsck.<msg-id>";
pub const HIDE_REFS: &str = "transfer.hideRefs";
pub const UPLOADPACK_HIDE_REFS: &str = "uploadpack.hideRefs";
pub const RECEIVE_HIDE_REFS: &str = "receive.hideRefs";

/// What stands for the name of a check.
const MSG_ID: &str = "<msg-id>";

/// All settings there are.
pub const KEYS: [Key; 11] = [
    Key {
        name: READ_ONLY,
        kind: Kind::Bool,
        help: "no reference may be changed",
    },
    Key {
        name: DENY_NON_FAST_FORWARDS,
        kind: Kind::Bool,
        help: "a branch may only move forward, even with --force",
    },
    Key {
        name: DENY_DELETES,
        kind: Kind::Bool,
        help: "branches may not be deleted",
    },
    Key {
        name: MAX_INPUT_SIZE,
        kind: Kind::Size,
        help: "the most bytes of packs in one push; 0 for no limit",
    },
    Key {
        name: MAX_OBJECT_SIZE,
        kind: Kind::Size,
        help: "the most bytes of one object; 0 for no limit",
    },
    Key {
        name: RECEIVE_FSCK_OBJECTS,
        kind: Kind::Bool,
        help: "pushed objects must pass git's checks of what is in them",
    },
    Key {
        name: FSCK_OBJECTS,
        kind: Kind::Bool,
        help: "the same, where receive.fsckObjects is not set",
    },
    Key {
        name: RECEIVE_FSCK,
        kind: Kind::Level,
        help: "what a check of these means: error, warn or ignore",
    },
    Key {
        name: HIDE_REFS,
        kind: Kind::RefPrefix,
        help: "references that are neither listed nor pushed to",
    },
    Key {
        name: UPLOADPACK_HIDE_REFS,
        kind: Kind::RefPrefix,
        help: "references that are not listed to who fetches",
    },
    Key {
        name: RECEIVE_HIDE_REFS,
        kind: Kind::RefPrefix,
        help: "references that are not listed to, nor changed by, who pushes",
    },
];

/// The most bytes that the settings of an archive take in its footers, of which every push writes one.
pub const MAX_LEN: usize = 2048;

/// Why a setting cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("there is no setting '{0}' of an archive")]
    UnknownKey(String),
    #[error("{key}: '{value}' is not {wanted}")]
    BadValue {
        key: &'static str,
        value: BString,
        wanted: &'static str,
    },
    #[error("all settings together are longer than {MAX_LEN} bytes")]
    TooLong,
}

/// Finds a setting by its name.
///
/// # Errors
/// Fails where there is none of that name.
pub fn key(name: &str) -> Result<&'static Key, PolicyError> {
    Ok(setting(name)?.0)
}

/// Finds a setting and the name under which it is stored.
fn setting(name: &str) -> Result<(&'static Key, Cow<'_, str>), PolicyError> {
    KEYS.iter()
        .find_map(|key| Some((key, key.full_name(name)?)))
        .ok_or_else(|| PolicyError::UnknownKey(name.into()))
}

/// The settings of an archive, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    entries: Vec<(String, BString)>,
}

impl Policy {
    /// Takes the settings as they stand in a footer. What this program does not know is kept.
    pub fn from_entries(entries: Vec<(String, Vec<u8>)>) -> Policy {
        let entries = entries.into_iter().map(|(key, value)| (key, value.into()));
        Policy {
            entries: entries.collect(),
        }
    }

    /// Returns all settings.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &BStr)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_bstr()))
    }

    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the values of a setting, oldest first.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &BStr> {
        self.entries()
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Gives a setting one value in place of all that it had.
    ///
    /// # Errors
    /// Fails where there is no such setting or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &BStr) -> Result<(), PolicyError> {
        let mut changed = self.clone();
        changed.unset(name)?;
        changed.add(name, value)?;
        // Where it has just this value already, its place among the others stays.
        if !changed.values(name).eq(self.values(name)) {
            *self = changed;
        }
        Ok(())
    }

    /// Adds a value to a setting. One that is no list has then only this one.
    ///
    /// # Errors
    /// As [`Policy::set`].
    pub fn add(&mut self, name: &str, value: &BStr) -> Result<(), PolicyError> {
        let (key, full_name) = setting(name)?;
        if !key.is_list() && self.values(name).next().is_some() {
            return self.set(name, value);
        }
        let value = key.kind.normalized(value).map_err(|wanted| PolicyError::BadValue {
            key: key.name,
            value: value.to_owned(),
            wanted,
        })?;
        self.entries.push((full_name.into_owned(), value));
        let len: usize = self
            .entries
            .iter()
            .map(|(key, value)| key.len() + 2 * value.len())
            .sum();
        if len > MAX_LEN {
            self.entries.pop();
            return Err(PolicyError::TooLong);
        }
        Ok(())
    }

    /// Takes a setting away, and returns whether it was there.
    ///
    /// # Errors
    /// Fails where there is no such setting.
    pub fn unset(&mut self, name: &str) -> Result<bool, PolicyError> {
        let (_, full_name) = setting(name)?;
        let before = self.entries.len();
        self.entries
            .retain(|(other, _)| !other.eq_ignore_ascii_case(&full_name));
        Ok(self.entries.len() < before)
    }

    /// Returns whether a setting is on. A value that makes no sense, from another program, forbids rather than allows.
    fn is_on(&self, name: &str) -> bool {
        self.values(name)
            .last()
            .is_some_and(|value| value::parse_bool(value).unwrap_or(true))
    }

    /// Returns a limit in bytes, if there is one.
    fn limit(&self, name: &str) -> Option<u64> {
        let limit = value::parse_size(self.values(name).last()?).unwrap_or(1);
        (limit > 0).then_some(limit)
    }

    /// Returns whether no reference may be changed.
    pub fn is_read_only(&self) -> bool {
        self.is_on(READ_ONLY)
    }

    /// Returns whether a branch may only move forward.
    pub fn denies_non_fast_forwards(&self) -> bool {
        self.is_on(DENY_NON_FAST_FORWARDS)
    }

    /// Returns whether branches may not be deleted.
    pub fn denies_deletes(&self) -> bool {
        self.is_on(DENY_DELETES)
    }

    /// Returns whether git's own checks of what is in objects must be passed.
    pub fn checks_objects(&self) -> bool {
        match self.values(RECEIVE_FSCK_OBJECTS).next() {
            Some(_) => self.is_on(RECEIVE_FSCK_OBJECTS),
            None => self.is_on(FSCK_OBJECTS),
        }
    }

    /// Returns the checks that count for more or less than git says, with what they count for.
    pub fn check_levels(&self) -> impl Iterator<Item = (&str, &BStr)> {
        let family = RECEIVE_FSCK.trim_end_matches(MSG_ID);
        self.entries().filter_map(move |(key, value)| {
            let (start, id) = key.split_at_checked(family.len())?;
            start.eq_ignore_ascii_case(family).then_some((id, value))
        })
    }

    /// Returns the most bytes of packs in one push.
    pub fn max_input_size(&self) -> Option<u64> {
        self.limit(MAX_INPUT_SIZE)
    }

    /// Returns the most bytes of one object.
    pub fn max_object_size(&self) -> Option<u64> {
        self.limit(MAX_OBJECT_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_one_value_and_a_list_several() {
        let mut policy = Policy::default();
        policy.set("RECEIVE.DENYDELETES", "yes".into()).unwrap();
        assert!(policy.denies_deletes() && !policy.denies_non_fast_forwards());
        policy.add(DENY_DELETES, "0".into()).unwrap();
        assert!(!policy.denies_deletes());
        assert_eq!(policy.values(DENY_DELETES).count(), 1);
        policy.add(HIDE_REFS, "refs/a".into()).unwrap();
        policy.add(HIDE_REFS, "refs/b/".into()).unwrap();
        assert_eq!(policy.values(HIDE_REFS).collect::<Vec<_>>(), ["refs/a", "refs/b"]);
        policy.set(HIDE_REFS, "refs/c".into()).unwrap();
        assert_eq!(policy.values(HIDE_REFS).collect::<Vec<_>>(), ["refs/c"]);
        assert!(policy.unset(HIDE_REFS).unwrap() && !policy.unset(HIDE_REFS).unwrap());
        policy.set(MAX_OBJECT_SIZE, "2k".into()).unwrap();
        assert_eq!(policy.max_object_size(), Some(2048));
        policy.set(MAX_OBJECT_SIZE, "0".into()).unwrap();
        assert_eq!(policy.max_object_size(), None);
    }

    #[test]
    fn each_check_has_a_level_of_its_own() {
        let mut policy = Policy::default();
        policy.set("receive.fsck.missingEmail", "warn".into()).unwrap();
        policy.set("receive.FSCK.badTimezone", "Ignore".into()).unwrap();
        policy.set("receive.fsck.MISSINGEMAIL", "error".into()).unwrap();
        let levels: Vec<_> = policy.check_levels().collect();
        assert_eq!(
            levels,
            [("badTimezone", "ignore".into()), ("MISSINGEMAIL", BStr::new("error"))]
        );
        assert!(policy.unset("receive.fsck.badtimezone").unwrap());
        assert!(!policy.unset("receive.fsck.badtimezone").unwrap());
        assert_eq!(policy.values("receive.fsck.missingemail").count(), 1);
        for (key, value) in [
            ("receive.fsck.", "warn"),
            ("receive.fsck.a,b=c", "warn"),
            ("receive.fsck.<msg-id>", "warn"),
            ("receive.fsck.missingEmail", "perhaps"),
        ] {
            assert!(policy.set(key, value.into()).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        let mut policy = Policy::default();
        policy.set(DENY_DELETES, "true".into()).unwrap();
        let before = policy.clone();
        assert!(matches!(
            policy.set("receive.nothing", "1".into()),
            Err(PolicyError::UnknownKey(_))
        ));
        assert!(policy.set(DENY_DELETES, "perhaps".into()).is_err());
        assert!(policy.set(MAX_INPUT_SIZE, "-1".into()).is_err());
        assert!(policy.set(HIDE_REFS, "".into()).is_err());
        assert!(policy.set(HIDE_REFS, "refs/a\nb".into()).is_err());
        let long = "x".repeat(MAX_LEN);
        assert_eq!(policy.set(HIDE_REFS, long.as_str().into()), Err(PolicyError::TooLong));
        assert_eq!(policy, before);
    }

    #[test]
    fn a_value_of_another_program_forbids_rather_than_allows() {
        let policy = Policy::from_entries(vec![
            (DENY_DELETES.into(), b"only on sundays".to_vec()),
            ("receive.fromTheFuture".into(), b"x".to_vec()),
        ]);
        assert!(policy.denies_deletes());
        assert_eq!(policy.entries().count(), 2);
    }
}
