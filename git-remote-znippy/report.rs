//! The status lines that end a push. git knows some of their texts and explains them to the user.

use bstr::{BString, ByteSlice};
use znippy::{
    quote::quoted,
    refs::{EditResult, Rejection},
};

use crate::judge::{Update, Verdict};

/// Returns the line that tells git what became of an update.
pub fn status(update: &Update, result: Option<EditResult>) -> BString {
    let name = update.name.as_bstr();
    let error = |why: &str| line(&[b"error ", name, b" ", &quoted(why.as_bytes())]);
    let ok = |what: &str| line(&[b"ok ", name, what.as_bytes()]);
    match (&update.verdict, result) {
        (Verdict::Refused(why), _) => error(why),
        (Verdict::UpToDate, _) | (_, Some(EditResult::Unchanged)) => match update.new {
            Some(_) => ok(" \"up to date\""),
            None => ok(""),
        },
        (Verdict::Apply { rewinds, .. }, Some(EditResult::Applied { .. })) => ok(if *rewinds && update.new.is_some() {
            " \"forced update\""
        } else {
            ""
        }),
        (Verdict::Apply { .. }, Some(EditResult::Rejected(rejection))) => match rejection {
            Rejection::Stale { .. } if update.lease.is_some() => error("stale info"),
            Rejection::Stale { .. } if !update.forced && update.new.is_some() => error("fetch first"),
            Rejection::Stale { .. } => error("changed by another push meanwhile, try again"),
            // As git's own server says it. Why is told apart from that.
            Rejection::Pack(_) => error("unpacker error"),
            other => error(&other.to_string()),
        },
        (Verdict::Apply { .. }, None) => error("not done"),
    }
}

fn line(parts: &[&[u8]]) -> BString {
    parts.concat().into()
}

#[cfg(test)]
mod tests {
    use gix_hash::{Kind, ObjectId};

    use super::*;

    #[test]
    fn statuses_use_the_words_git_knows() {
        let id = ObjectId::null(Kind::Sha1);
        let update = |verdict, forced, new: Option<ObjectId>, lease| Update {
            name: "refs/heads/a".into(),
            source: None,
            old: None,
            new,
            forced,
            lease,
            verdict,
        };
        let apply = |rewinds| Verdict::Apply { rewinds, peeled: None };
        let stale = || {
            Some(EditResult::Rejected(Rejection::Stale {
                expected: String::new(),
                found: String::new(),
            }))
        };
        let applied = || Some(EditResult::Applied { old: None });
        let refused = Verdict::Refused("non-fast forward".into());
        for (update, result, line) in [
            (
                update(refused, false, Some(id), None),
                None,
                "error refs/heads/a non-fast forward",
            ),
            (
                update(Verdict::UpToDate, false, Some(id), None),
                None,
                "ok refs/heads/a \"up to date\"",
            ),
            (
                update(apply(false), false, Some(id), None),
                applied(),
                "ok refs/heads/a",
            ),
            (
                update(apply(true), true, Some(id), None),
                applied(),
                "ok refs/heads/a \"forced update\"",
            ),
            (update(apply(true), false, None, None), applied(), "ok refs/heads/a"),
            (
                update(apply(false), false, Some(id), None),
                stale(),
                "error refs/heads/a fetch first",
            ),
            (
                update(apply(true), false, Some(id), Some(id)),
                stale(),
                "error refs/heads/a stale info",
            ),
            (
                update(apply(false), false, Some(id), None),
                Some(EditResult::Rejected(Rejection::Atomic)),
                "error refs/heads/a atomic push failure",
            ),
        ] {
            assert_eq!(status(&update, result), line);
        }
    }
}
