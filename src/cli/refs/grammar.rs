//! The input of `znippy refs update --stdin`: the language of `git update-ref --stdin`.
//!
//! Requests are read one at a time, because a program may wait for the answer to one before it writes the next. A value
//! that is empty stands for all zeros; a value that is left out is `None`. Which values a request needs, and whether
//! they name objects, is not judged here.

use std::io::BufRead;

use bstr::{BString, ByteSlice};
use znippy::quote::unquoted;

use crate::cli::{escape, exit};

/// One request of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Start,
    Prepare,
    Commit,
    Abort,
    /// `option no-deref`: the next change is one of the reference itself, also if it is symbolic.
    NoDeref,
    Change(Change),
}

/// One change of one reference, with its values as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Update {
        name: BString,
        new: BString,
        old: Option<BString>,
    },
    Create {
        name: BString,
        new: BString,
    },
    Delete {
        name: BString,
        old: Option<BString>,
    },
    Verify {
        name: BString,
        old: Option<BString>,
    },
    SymrefUpdate {
        name: BString,
        target: BString,
        old: Option<SymrefOld>,
    },
    SymrefCreate {
        name: BString,
        target: BString,
    },
    SymrefDelete {
        name: BString,
        old: Option<BString>,
    },
    SymrefVerify {
        name: BString,
        old: Option<BString>,
    },
}

/// What `symref-update` expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymrefOld {
    /// A symbolic reference with this target.
    Target(BString),
    /// A reference to this object.
    Oid(BString),
}

/// Reads requests from `input`.
pub struct Requests<R> {
    input: R,
    /// Fields end in NUL (`-z`), else requests are lines.
    nul: bool,
}

impl<R: BufRead> Requests<R> {
    pub fn new(input: R, nul: bool) -> Requests<R> {
        Requests { input, nul }
    }

    /// Reads the next request; `None` at the end of the input.
    ///
    /// # Errors
    /// Fails where the input is none of the language, where it ends inside a request (a writer that died must not
    /// have half of its work committed), and where it cannot be read.
    pub fn next(&mut self) -> anyhow::Result<Option<Request>> {
        let Some(first) = self.piece()? else { return Ok(None) };
        if first.is_empty() {
            return Err(exit::usage("empty line in the input"));
        }
        let end = first.find_byte(b' ').unwrap_or(first.len());
        let (verb, rest) = first.split_at(end);
        let mut fields = if self.nul {
            Fields::Ended(self, Some(rest))
        } else {
            Fields::Line { rest, verb }
        };
        let request = parse(verb, &mut fields)?;
        if let Fields::Line {
            rest: rest @ [_, ..], ..
        }
        | Fields::Ended(_, Some(rest @ [_, ..])) = fields
        {
            return Err(wrong(verb, format!("unexpected: {}", escape::text(rest))));
        }
        Ok(Some(request))
    }

    /// Reads up to the next line feed or NUL, without it.
    fn piece(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let end = if self.nul { 0 } else { b'\n' };
        let mut piece = Vec::new();
        self.input
            .read_until(end, &mut piece)
            .map_err(|error| anyhow::anyhow!("cannot read the input: {error}"))?;
        match piece.pop() {
            None => Ok(None),
            Some(last) if last == end => Ok(Some(piece)),
            Some(_) => Err(exit::usage("the input ends inside a request; nothing of it was done")),
        }
    }
}

/// The fields after the verb of a request.
enum Fields<'a, R> {
    /// The rest of a line, which begins with the space before the next field.
    Line { rest: &'a [u8], verb: &'a [u8] },
    /// Further pieces of the input; first what follows the verb in its own piece.
    Ended(&'a mut Requests<R>, Option<&'a [u8]>),
}

impl<R: BufRead> Fields<'_, R> {
    /// Returns the next field, `None` where it is left out.
    fn next(&mut self) -> anyhow::Result<Option<BString>> {
        match self {
            Fields::Line { rest: [], .. } => Ok(None),
            Fields::Line { rest, verb } => {
                let field = rest
                    .strip_prefix(b" ")
                    .ok_or_else(|| wrong(verb, "fields are separated by one space"))?;
                let (field, after) = unquoted(field).map_err(|why| wrong(verb, why))?;
                *rest = after;
                Ok(Some(field))
            }
            Fields::Ended(_, own @ Some(_)) => {
                let own = own.take().expect("the pattern says so");
                Ok(own.strip_prefix(b" ").map(BString::from))
            }
            Fields::Ended(requests, None) => Ok(requests.piece()?.map(BString::from)),
        }
    }

    /// Returns the next field, which may be left out: at the end of a line, or by being empty where fields end in NUL.
    fn optional(&mut self, verb: &[u8]) -> anyhow::Result<Option<BString>> {
        match self {
            Fields::Line { .. } => self.next(),
            Fields::Ended(..) => {
                let field = self
                    .next()?
                    .ok_or_else(|| wrong(verb, "the input ends before its last field"))?;
                Ok(Some(field).filter(|field| !field.is_empty()))
            }
        }
    }
}

fn parse<R: BufRead>(verb: &[u8], fields: &mut Fields<'_, R>) -> anyhow::Result<Request> {
    match verb {
        b"start" => return Ok(Request::Start),
        b"prepare" => return Ok(Request::Prepare),
        b"commit" => return Ok(Request::Commit),
        b"abort" => return Ok(Request::Abort),
        b"option" => {
            return match fields.next()?.as_ref().map(|field| field.as_slice()) {
                Some(b"no-deref") => Ok(Request::NoDeref),
                _ => Err(wrong(verb, "the only option is no-deref")),
            };
        }
        b"update" | b"create" | b"delete" | b"verify" => {}
        b"symref-update" | b"symref-create" | b"symref-delete" | b"symref-verify" => {}
        _ => return Err(exit::usage(format!("unknown request: {}", escape::text(verb)))),
    }
    let name = fields
        .next()?
        .filter(|name| !name.is_empty())
        .ok_or_else(|| wrong(verb, "the name is missing"))?;
    let change = match verb {
        b"update" => {
            let new = fields
                .next()?
                .ok_or_else(|| wrong(verb, format!("{name}: the new value is missing")))?;
            Change::Update {
                name,
                new,
                old: fields.optional(verb)?,
            }
        }
        b"create" => {
            let new = fields
                .optional(verb)?
                .ok_or_else(|| wrong(verb, format!("{name}: the new value is missing")))?;
            Change::Create { name, new }
        }
        b"delete" => Change::Delete {
            name,
            old: fields.optional(verb)?,
        },
        b"verify" => Change::Verify {
            name,
            old: fields.optional(verb)?,
        },
        b"symref-delete" => Change::SymrefDelete {
            name,
            old: fields.optional(verb)?,
        },
        b"symref-verify" => Change::SymrefVerify {
            name,
            old: fields.optional(verb)?,
        },
        _ => {
            let target = fields.optional(verb)?;
            let target = target.filter(|target| !target.is_empty());
            let target = target.ok_or_else(|| wrong(verb, format!("{name}: the new target is missing")))?;
            if verb == b"symref-create" {
                Change::SymrefCreate { name, target }
            } else {
                let old = symref_old(fields).map_err(|why| wrong(verb, format!("{name}: {why}")))?;
                Change::SymrefUpdate { name, target, old }
            }
        }
    };
    Ok(Request::Change(change))
}

/// Reads `ref TARGET` or `oid ID`, or nothing. With NULs both fields are there, and empty for nothing.
fn symref_old<R: BufRead>(fields: &mut Fields<'_, R>) -> anyhow::Result<Option<SymrefOld>> {
    let Some(kind) = fields.next()? else { return Ok(None) };
    let value = fields.next()?;
    let missing = || anyhow::anyhow!("the old value after '{kind}' is missing");
    match (&kind[..], value.filter(|value| !value.is_empty())) {
        (b"", None) if matches!(fields, Fields::Ended(..)) => Ok(None),
        (b"ref", value) => Ok(Some(SymrefOld::Target(value.ok_or_else(missing)?))),
        (b"oid", value) => Ok(Some(SymrefOld::Oid(value.ok_or_else(missing)?))),
        _ => anyhow::bail!("the old value is written as 'ref TARGET' or 'oid ID'"),
    }
}

fn wrong(verb: &[u8], why: impl std::fmt::Display) -> anyhow::Error {
    exit::usage(format!("{}: {why}", escape::text(verb)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], nul: bool) -> anyhow::Result<Vec<Request>> {
        let mut requests = Requests::new(input, nul);
        std::iter::from_fn(|| requests.next().transpose()).collect()
    }

    fn change(input: &[u8], nul: bool) -> Change {
        match read(input, nul).expect("valid").remove(0) {
            Request::Change(change) => change,
            other => panic!("{other:?}"),
        }
    }

    fn update(name: &str, new: &str, old: Option<&str>) -> Change {
        Change::Update {
            name: name.into(),
            new: new.into(),
            old: old.map(BString::from),
        }
    }

    #[test]
    fn lines() {
        assert_eq!(change(b"update a b c\n", false), update("a", "b", Some("c")));
        assert_eq!(change(b"update a b\n", false), update("a", "b", None));
        assert_eq!(change(b"update a b \n", false), update("a", "b", Some("")));
        assert_eq!(change(b"update a \"\"\n", false), update("a", "", None));
        assert_eq!(
            change(b"delete a\n", false),
            Change::Delete {
                name: "a".into(),
                old: None
            }
        );
        assert_eq!(
            change(b"verify a 0\n", false),
            Change::Verify {
                name: "a".into(),
                old: Some("0".into())
            }
        );
        let requests = read(b"start\noption no-deref\nprepare\ncommit\nabort\n", false).unwrap();
        let expected = [
            Request::Start,
            Request::NoDeref,
            Request::Prepare,
            Request::Commit,
            Request::Abort,
        ];
        assert_eq!(requests, expected);
    }

    #[test]
    fn fields_that_end_in_nul() {
        assert_eq!(change(b"update a\0b\0c\0", true), update("a", "b", Some("c")));
        assert_eq!(change(b"update a\0b\0\0", true), update("a", "b", None));
        assert_eq!(change(b"update a\0\0\0", true), update("a", "", None));
        assert_eq!(
            change(b"create a b\"\0c\0", true),
            Change::Create {
                name: "a b\"".into(),
                new: "c".into()
            }
        );
        let requests = read(b"start\0delete a\0\0commit\0", true).unwrap();
        assert_eq!(requests.len(), 3);
        assert_eq!(
            requests[1],
            Request::Change(Change::Delete {
                name: "a".into(),
                old: None
            })
        );
    }

    #[test]
    fn symbolic() {
        let update = |old| Change::SymrefUpdate {
            name: "a".into(),
            target: "b".into(),
            old,
        };
        assert_eq!(change(b"symref-update a b\n", false), update(None));
        assert_eq!(
            change(b"symref-update a b ref c\n", false),
            update(Some(SymrefOld::Target("c".into())))
        );
        assert_eq!(
            change(b"symref-update a\0b\0oid\x001\0", true),
            update(Some(SymrefOld::Oid("1".into())))
        );
        assert_eq!(change(b"symref-update a\0b\0\0\0", true), update(None));
        assert_eq!(change(b"symref-update a\0b\0", true), update(None));
        assert_eq!(
            change(b"symref-delete a\n", false),
            Change::SymrefDelete {
                name: "a".into(),
                old: None
            }
        );
        for bad in [
            "symref-update a\n",
            "symref-update a b c\n",
            "symref-update a b ref\n",
            "symref-update a b ref c d\n",
        ] {
            assert!(read(bad.as_bytes(), false).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_refused() {
        for bad in [
            "\n",
            " update a b\n",
            "bogus\n",
            "update\n",
            "update \n",
            "update a\n",
            "update  a b\n",
            "create a\n",
        ] {
            assert!(read(bad.as_bytes(), false).is_err(), "{bad}");
        }
        for bad in [
            "start x\n",
            "option x\n",
            "option\n",
            "update a b c d\n",
            "create a b c\n",
            "delete a b\r\n",
            "Start\n",
        ] {
            assert!(read(bad.as_bytes(), false).is_err(), "{bad}");
        }
        for bad in [
            "update a\0b\0",
            "create a\0\0",
            "delete a\0",
            "start x\0",
            "update \0b\0\0",
            "update\0",
            "\0",
        ] {
            assert!(read(bad.as_bytes(), true).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_input_that_was_cut_off_is_refused() {
        let (lines, nuls) = (&b"create refs/heads/a 12\n"[..], &b"update a\0b\0c\0"[..]);
        for cut in 1..lines.len() {
            assert!(read(&lines[..cut], false).is_err(), "{cut}");
        }
        for cut in 1..nuls.len() {
            assert!(read(&nuls[..cut], true).is_err(), "{cut}");
        }
    }
}
