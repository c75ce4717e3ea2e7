//! Edits of references: git's rules, and where their values are kept.

use super::*;

#[test]
fn ref_changes_move_from_footer_to_run_to_base() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let mut model = std::collections::BTreeMap::new();
    model.insert("refs/heads/b1".to_string(), 1);
    let mut next = 100;
    for round in 0..60u32 {
        let mut edits = vec![];
        for k in 0..1 + round % 17 * 10 {
            let name = format!("refs/heads/topic/{}", (round * 31 + k * 7) % 600);
            if edits.iter().any(|edit: &RefEdit| edit.name == name.as_str()) {
                continue;
            }
            if model.contains_key(&name) && k % 3 == 0 {
                model.remove(&name);
                edits.push(delete(&name));
            } else {
                model.insert(name.clone(), next);
                edits.push(set(&name, next));
            }
        }
        push(&path, pack(next, next + 1, 50), edits);
        next += 1;
        let snapshot = Snapshot::open(&path).unwrap();
        let refs: Vec<_> = snapshot
            .refs()
            .unwrap()
            .into_iter()
            .filter(|r| r.name != "HEAD")
            .collect();
        let expected: Vec<_> = model
            .iter()
            .map(|(name, n)| Ref {
                name: name.as_str().into(),
                target: Target::Object {
                    oid: oid(*n),
                    peeled: None,
                },
            })
            .collect();
        assert_eq!(refs, expected, "round {round}");
    }
}

/// R10: what a reference may be called and what it may name.
#[test]
fn r10_edits_are_judged_by_gits_rules() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let run = |edits: Vec<RefEdit>, atomic| {
        let transaction = Transaction {
            edits,
            atomic,
            ..Transaction::default()
        };
        commit(&path, transaction, WritePolicy::default()).unwrap()
    };
    let size = || fs::metadata(&path).unwrap().len();
    let before = size();
    let stale = RefEdit {
        expected: Expected::Oid(oid(9)),
        ..set("refs/heads/b1", 2)
    };
    for (edit, why) in [
        (stale.clone(), "stale info"),
        (
            RefEdit {
                expected: Expected::Absent,
                ..set("refs/heads/b1", 2)
            },
            "stale info",
        ),
        (set("refs/heads/b1/c", 1), "name conflicts with refs/heads/b1"),
        (set("refs/heads", 1), "name conflicts with"),
        (set("refs/heads/a..b", 1), "invalid ref name"),
        (set("heads/x", 1), "invalid ref name"),
        (set("refs/heads/new", 77), "is missing"),
        (set("HEAD", 1), "HEAD must name a branch"),
        (delete("HEAD"), "HEAD cannot be deleted"),
    ] {
        let outcome = run(vec![edit], false);
        let EditResult::Rejected(rejection) = &outcome.results[0] else {
            panic!("{why}: {outcome:?}")
        };
        assert!(rejection.to_string().contains(why), "{rejection} is not about {why}");
        assert!(!outcome.written);
    }
    let outcome = run(vec![set("refs/heads/ok", 1), stale.clone()], true);
    assert_eq!(outcome.results[0], EditResult::Rejected(Rejection::Atomic));
    assert_eq!(
        run(vec![set("refs/heads/b1", 1)], false).results,
        [EditResult::Unchanged]
    );
    assert_eq!(size(), before, "nothing was written by any of these");
    let outcome = run(vec![set("refs/heads/b1/c", 1), delete("refs/heads/b1"), stale], false);
    assert!(
        matches!(
            outcome.results[..2],
            [EditResult::Applied { .. }, EditResult::Applied { .. }]
        ),
        "{outcome:?}"
    );
    // HEAD named b1, which is gone: no candidate, no main, two branches left.
    assert!(outcome.head_unborn);
    let symbolic = |to: &str| RefEdit {
        new: Some(Target::Symbolic(to.into())),
        ..set("HEAD", 1)
    };
    assert!(matches!(
        run(vec![symbolic("refs/tags/x")], false).results[0],
        EditResult::Rejected(_)
    ));
    assert!(matches!(
        run(vec![symbolic("refs/heads/b2")], false).results[0],
        EditResult::Applied { .. }
    ));
    assert_eq!(
        Snapshot::open(&path).unwrap().resolve_ref("HEAD".into()).unwrap(),
        Some(oid(2))
    );
}

/// R10: a circle of symbolic references that another program left ends where it is followed, and can be undone.
#[test]
fn r10_a_circle_that_is_there_is_survived() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let link = |name: &str, to: &str| (name.into(), Some(Target::Symbolic(to.into())));
    let changes = [
        link("refs/heads/a", "refs/heads/b"),
        link("refs/heads/b", "refs/heads/a"),
        link("HEAD", "refs/heads/a"),
    ];
    let mut policy = WritePolicy::default();
    writer::with_writer(&path, None, &mut policy, |writer, policy| {
        let addition = prepare::Addition {
            changes: changes.into_iter().collect(),
            ..prepare::Addition::default()
        };
        writer.append(addition, policy)
    })
    .unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    for name in ["HEAD", "refs/heads/a", "refs/heads/b"] {
        assert_eq!(snapshot.resolve_ref(name.into()).unwrap(), None, "{name}");
    }
    assert_eq!(snapshot.refs().unwrap().len(), 4);
    let mend = |edit| {
        let transaction = Transaction {
            edits: vec![edit],
            ..Transaction::default()
        };
        commit(&path, transaction, WritePolicy::default()).unwrap()
    };
    let symbolic = RefEdit {
        new: Some(Target::Symbolic("refs/heads/a".into())),
        ..set("refs/heads/c", 1)
    };
    assert!(
        matches!(mend(symbolic).results[0], EditResult::Rejected(_)),
        "nothing more leads there"
    );
    assert!(matches!(
        mend(set("refs/heads/b", 1)).results[0],
        EditResult::Applied { .. }
    ));
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.resolve_ref("HEAD".into()).unwrap(), Some(oid(1)));
}
