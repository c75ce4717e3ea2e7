//! Which references are hidden: `transfer.hideRefs` and its two narrower forms, with git's rules.

use bstr::{BStr, ByteSlice};

use super::{HIDE_REFS, Policy, RECEIVE_HIDE_REFS, UPLOADPACK_HIDE_REFS};

/// Who asks for references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A fetch.
    UploadPack,
    /// A push.
    ReceivePack,
}

impl Policy {
    /// Returns whether the reference `name` is hidden from `service`. Of the settings that fit, the last one decides.
    pub fn hides(&self, service: Service, name: &BStr) -> bool {
        let rules: Vec<&BStr> = self.rules(service).collect();
        let fitting = rules.into_iter().rev().find_map(|rule| {
            let (shown, rule) = strip(rule, b'!');
            let (_, rule) = strip(rule, b'^');
            let rest = name.strip_prefix(rule.as_bytes())?;
            (rest.is_empty() || rest[0] == b'/').then_some(!shown)
        });
        fitting.unwrap_or(false)
    }

    /// Returns whether anything may be hidden from `service`.
    pub fn hides_any(&self, service: Service) -> bool {
        self.rules(service).next().is_some()
    }

    fn rules(&self, service: Service) -> impl Iterator<Item = &BStr> {
        let own = match service {
            Service::UploadPack => UPLOADPACK_HIDE_REFS,
            Service::ReceivePack => RECEIVE_HIDE_REFS,
        };
        self.entries()
            .filter(move |(key, _)| [HIDE_REFS, own].iter().any(|name| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value)
    }
}

/// Takes `mark` off the start of `rule`, and tells whether it was there.
fn strip(rule: &BStr, mark: u8) -> (bool, &BStr) {
    match rule.strip_prefix(&[mark]) {
        Some(rest) => (true, rest.as_bstr()),
        None => (false, rule),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_fits_decides() {
        let mut policy = Policy::default();
        for (key, value) in [
            (HIDE_REFS, "refs/secret"),
            (HIDE_REFS, "!refs/secret/shown"),
            (UPLOADPACK_HIDE_REFS, "refs/pull/"),
            (RECEIVE_HIDE_REFS, "^refs/tags/v1"),
        ] {
            policy.add(key, value.into()).unwrap();
        }
        for (name, from_fetch, from_push) in [
            ("refs/secret", true, true),
            ("refs/secret/x", true, true),
            ("refs/secrets", false, false),
            ("refs/secret/shown", false, false),
            ("refs/secret/shown/x", false, false),
            ("refs/pull/1/head", true, false),
            ("refs/tags/v1", false, true),
            ("refs/tags/v1.0", false, false),
            ("HEAD", false, false),
        ] {
            assert_eq!(policy.hides(Service::UploadPack, name.into()), from_fetch, "{name}");
            assert_eq!(policy.hides(Service::ReceivePack, name.into()), from_push, "{name}");
        }
    }
}
