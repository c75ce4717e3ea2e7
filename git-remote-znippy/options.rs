//! The options git sets before it asks for something.
//!
//! An option by which a fetch brings less than all history is only noted: git itself tells the server what it means
//! ([`crate::connect`]). The reply decides nothing, `git clone` goes on whatever it is.

use std::collections::HashMap;

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::quote::unquote;

use crate::ui::Voice;

/// The reply to one option.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Ok,
    /// git then ignores the option or stops, whichever fits.
    Unsupported,
    /// git warns or stops with this text.
    Error(String),
}

/// Everything git has set so far.
#[derive(Debug)]
pub struct Options {
    pub voice: Voice,
    /// git said how loud to be, as it does for a fetch, a clone or a push, and not for `git ls-remote`.
    pub is_transfer: bool,
    /// The client is a fresh clone: its configuration may be completed.
    pub cloning: bool,
    /// Tell whether everything that was asked for is known to be complete.
    pub check_connectivity: bool,
    /// Send everything, whatever the client has.
    pub refetch: bool,
    /// Send the annotated tags of what is sent: `git clone --single-branch` keeps those that it then has, and asks for none.
    pub follow_tags: bool,
    pub dry_run: bool,
    pub atomic: bool,
    /// Values expected by `--force-with-lease`, by reference name; the null id means that it must not exist.
    pub leases: HashMap<BString, ObjectId>,
    pub push_options: Vec<BString>,
    /// Which objects a partial clone leaves out.
    pub filter: Option<BString>,
    depth: bool,
    deepen_since: bool,
    deepen_not: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            voice: Voice {
                verbosity: 1,
                progress: false,
            },
            is_transfer: false,
            cloning: false,
            check_connectivity: false,
            refetch: false,
            follow_tags: false,
            dry_run: false,
            atomic: false,
            leases: HashMap::new(),
            push_options: Vec::new(),
            filter: None,
            depth: false,
            deepen_since: false,
            deepen_not: false,
        }
    }
}

impl Options {
    /// Sets what the line `option <name> <value>` asks for; `line` is what follows `option `.
    pub fn set(&mut self, line: &BStr) -> Reply {
        let (name, raw) = line.split_once_str(" ").unwrap_or((line.as_bytes(), b""));
        let Some(value) = unquote(raw) else {
            return Reply::Error("badly quoted value".into());
        };
        match name {
            b"verbosity" => match value.to_str().ok().and_then(|text| text.parse::<i32>().ok()) {
                Some(number) => {
                    self.voice.verbosity = number.clamp(0, 255) as u8;
                    self.is_transfer = true;
                }
                None => return Reply::Error(format!("verbosity '{value}' is not a number")),
            },
            b"progress" => return set_bool(&mut self.voice.progress, value.as_bstr()),
            b"cloning" => return set_bool(&mut self.cloning, value.as_bstr()),
            b"check-connectivity" => return set_bool(&mut self.check_connectivity, value.as_bstr()),
            b"followtags" => return set_bool(&mut self.follow_tags, value.as_bstr()),
            b"dry-run" => return set_bool(&mut self.dry_run, value.as_bstr()),
            b"atomic" => return set_bool(&mut self.atomic, value.as_bstr()),
            // `yes` from `git fetch`, `true` from the transport: both mean it.
            b"refetch" => self.refetch = value != "false",
            // A depth of 0 takes the limit back, as before a second batch for tags.
            b"depth" => self.depth = value != "0" && !value.is_empty(),
            b"deepen-since" => self.deepen_since = !value.is_empty(),
            b"deepen-not" => self.deepen_not = true,
            b"filter" => self.filter = Some(value).filter(|spec| !spec.is_empty()),
            b"cas" => return self.set_lease(value.as_bstr()),
            b"push-option" => self.push_options.push(value),
            b"pushcert" if value == "true" => {
                return Reply::Error("signed pushes are not supported by znippy archives".into());
            }
            // `if-asked`: nobody asks. The rest needs nothing: shallow archives do not exist, and the reflog test was made
            // by git.
            b"pushcert" | b"object-format" | b"rejectshallow" | b"updateshallow" | b"update-shallow"
            | b"deepen-relative" | b"from-promisor" | b"no-dependents" | b"force-if-includes" | b"family" => {}
            _ => return Reply::Unsupported,
        }
        Reply::Ok
    }

    fn set_lease(&mut self, value: &BStr) -> Reply {
        let Some((name, hex)) = value.rsplit_once_str(":") else {
            return Reply::Error("cas wants <ref>:<oid>".into());
        };
        match ObjectId::from_hex(hex) {
            Ok(oid) => {
                self.leases.insert(name.into(), oid);
                Reply::Ok
            }
            Err(_) => Reply::Error(format!("cas: '{}' is not an object id", hex.as_bstr())),
        }
    }

    /// Returns whether less than all history is asked for, or more of what was left out before.
    pub fn is_cut(&self) -> bool {
        self.depth || self.deepen_since || self.deepen_not
    }
}

fn set_bool(target: &mut bool, value: &BStr) -> Reply {
    *target = match value.as_bytes() {
        b"true" | b"1" | b"yes" => true,
        b"false" | b"0" | b"no" => false,
        _ => return Reply::Error(format!("'{value}' is neither true nor false")),
    };
    Reply::Ok
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(options: &mut Options, line: &str) -> Reply {
        options.set(line.into())
    }

    #[test]
    fn every_option_of_git_has_its_reply() {
        let mut options = Options::default();
        for line in [
            "progress true",
            "verbosity 4",
            "family ipv4",
            "rejectshallow 1",
            "depth 1",
            "deepen-since 2 days ago",
            "deepen-not \"refs/heads/\\303\\244\"",
            "deepen-relative true",
            "updateshallow yes",
            "update-shallow true",
            "refetch yes",
            "refetch true",
            "filter blob:none",
            "from-promisor 1",
            "followtags true",
            "object-format true",
            "check-connectivity true",
            "cloning true",
            "dry-run true",
            "pushcert if-asked",
            "atomic true",
            "force-if-includes true",
            "push-option ci.skip",
            "push-option \"a\\nb\"",
            "cas refs/heads/main:0000000000000000000000000000000000000000",
        ] {
            assert_eq!(set(&mut options, line), Reply::Ok, "{line}");
        }
        assert_eq!(set(&mut options, "servpath /bin/x"), Reply::Unsupported);
        assert_eq!(set(&mut options, "unheard-of 1"), Reply::Unsupported);
        for line in [
            "pushcert true",
            "progress maybe",
            "verbosity x",
            "cas nonsense",
            "push-option \"open",
        ] {
            assert!(matches!(set(&mut options, line), Reply::Error(_)), "{line}");
        }
        assert_eq!(options.push_options, ["ci.skip", "a\nb"]);
        assert_eq!(options.leases.len(), 1);
    }

    #[test]
    fn what_cuts_a_history_and_a_depth_of_zero_does_not() {
        for line in [
            "depth 1",
            "depth 2147483647",
            "deepen-since 2 days ago",
            "deepen-not v1",
        ] {
            let mut options = Options::default();
            assert!(!options.is_cut());
            set(&mut options, line);
            assert!(options.is_cut(), "{line}");
        }
        let mut options = Options::default();
        set(&mut options, "depth 3");
        set(&mut options, "depth 0");
        assert!(!options.is_cut());
        set(&mut options, "filter blob:none");
        assert!(!options.is_cut());
        assert_eq!(options.filter, Some("blob:none".into()));
    }
}
