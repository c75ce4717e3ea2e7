//! gitoxide as a client of `znippy upload-pack`: a second implementation of the protocol beside git.

#[path = "../common/mod.rs"]
mod common;

use std::{
    fs,
    io::Write,
    num::NonZeroU32,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::atomic::AtomicBool,
};

use gix_error::Result;
use gix_hash::ObjectId;
use gix_protocol::{
    Handshake, LsRefsCommand,
    fetch::{
        Arguments, Context, Negotiate, Options, Response, Shallow, Tags,
        negotiate::{self, Action, Round},
    },
    handshake::Ref,
    transport::{
        Protocol, Service,
        client::git::{ConnectMode, blocking_io::Connection},
    },
};
use gix_utils::progress::Discard;

use crate::common::{Sandbox, subject_is_file};

/// Not version 1: gitoxide takes its first line for a list of capabilities, git's own server's too.
const VERSIONS: [Protocol; 2] = [Protocol::V0, Protocol::V2];

/// A repository `work` with branches, a merge and tags of both kinds, and an archive `app.znippy` of it.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.ok(
        "",
        "git init -q work && cd work && commit one two && git tag -m annotated v1 && git branch side && commit three &&
         git checkout -q side && commit aside && git checkout -q main && git merge -q --no-ff -m merged side && git tag light &&
         git tag -m again nested v1 2>/dev/null && git push -q --mirror \"znippy::$A/app\"",
    );
    s
}

/// A conversation with `znippy upload-pack`.
struct Client {
    server: Child,
    transport: Connection<ChildStdout, ChildStdin>,
    handshake: Handshake,
}

fn agent() -> (&'static str, Option<String>) {
    ("agent", Some("gitoxide/test".into()))
}

impl Client {
    fn connect(s: &Sandbox, version: Protocol) -> Client {
        let mut command = s.command("", "znippy");
        command.args(["upload-pack", "app"]);
        command.env("GIT_PROTOCOL", format!("version={}", version as usize));
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut transport = Connection::new(
            server.stdout.take().unwrap(),
            server.stdin.take().unwrap(),
            version,
            "app",
            None::<(String, Option<u16>)>,
            ConnectMode::Process,
            false,
        );
        let handshake = gix_protocol::handshake(
            &mut transport,
            Service::UploadPack,
            |_| unreachable!("nobody asks for a password"),
            vec![],
            &mut Discard,
        )
        .unwrap();
        // gitoxide calls 1 what does not say its version.
        assert_eq!(handshake.server_protocol_version, version.max(Protocol::V1));
        Client {
            server,
            transport,
            handshake,
        }
    }

    /// Returns the references: what came with the greeting, or what `ls-refs` says.
    fn refs(&mut self) -> Vec<Ref> {
        match self.handshake.refs.clone() {
            Some(refs) => refs,
            None => LsRefsCommand::new(None, &self.handshake.capabilities, agent())
                .invoke_blocking(&mut self.transport, &mut Discard, false)
                .unwrap(),
        }
    }

    /// Fetches what `wants` reach and `haves` do not, and lets git index it strictly into the repository `into`.
    fn fetch(&mut self, s: &Sandbox, wants: &[ObjectId], haves: &[ObjectId], shallow: &Shallow, into: &str) -> usize {
        let mut pack = Vec::new();
        let mut talk = Talk {
            wants,
            haves,
            rounds: 0,
            version: self.handshake.server_protocol_version,
        };
        let outcome = gix_protocol::fetch(
            &mut talk,
            |input, _, _| {
                std::io::copy(input, &mut pack).unwrap();
                Ok(true)
            },
            Discard,
            &AtomicBool::new(false),
            Context {
                handshake: &mut self.handshake,
                transport: &mut self.transport,
                user_agent: agent(),
                trace_packetlines: false,
            },
            Options {
                shallow_file: s.path(into).join("shallow"),
                shallow,
                tags: Tags::Included,
                reject_shallow_remote: false,
            },
        );
        outcome.unwrap().expect("a pack was sent");
        index(s, into, &pack)
    }

    fn end(mut self) {
        // Before version 2 a server ends with the pack.
        if self.handshake.server_protocol_version == Protocol::V2 {
            gix_protocol::indicate_end_of_interaction(&mut self.transport, false).unwrap();
        }
        drop(self.transport);
        assert!(self.server.wait().unwrap().success());
    }
}

/// Says what is wanted and what is there, first without an end, so that the server has to acknowledge it.
struct Talk<'a> {
    wants: &'a [ObjectId],
    haves: &'a [ObjectId],
    rounds: usize,
    version: Protocol,
}

impl Negotiate for Talk<'_> {
    fn mark_complete_and_common_ref(&mut self) -> Result<Action> {
        Ok(Action::MustNegotiate {
            remote_ref_target_known: vec![],
        })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, _: &[bool]) -> bool {
        for want in self.wants {
            arguments.want(want);
        }
        true
    }

    fn one_round(
        &mut self,
        _: &mut negotiate::one_round::State,
        arguments: &mut Arguments,
        previous: Option<&Response>,
    ) -> Result<(Round, bool)> {
        if let Some(previous) = previous {
            assert!(
                !previous.acknowledgements().is_empty(),
                "what both have is acknowledged"
            );
        }
        self.rounds += 1;
        let last = self.haves.is_empty() || self.rounds == 2;
        // Version 2 remembers nothing from one command to the next.
        if self.rounds == 1 || self.version == Protocol::V2 {
            for have in self.haves {
                arguments.have(have);
            }
        }
        let round = Round {
            haves_sent: self.haves.len(),
            in_vain: 0,
            haves_to_send: self.haves.len(),
            previous_response_had_at_least_one_in_common: self.rounds > 1,
        };
        Ok((round, last))
    }
}

/// Has git index a pack into a repository, and returns how many objects it had.
fn index(s: &Sandbox, into: &str, pack: &[u8]) -> usize {
    let mut command = s.command(into, "git");
    command.args(["index-pack", "--strict", "--stdin", "--fix-thin"]);
    let mut git = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(pack).unwrap();
    assert!(git.wait_with_output().unwrap().status.success());
    u32::from_be_bytes(pack[8..12].try_into().unwrap()) as usize
}

fn ids(text: &str) -> Vec<ObjectId> {
    text.lines()
        .map(|line| ObjectId::from_hex(line.as_bytes()).unwrap())
        .collect()
}

/// Returns what a listing says, line by line as `git ls-remote --symref` writes it.
fn shown(refs: &[Ref]) -> Vec<String> {
    let mut lines = Vec::new();
    for each in refs {
        let (name, held, peeled, target) = match each {
            Ref::Peeled {
                full_ref_name,
                tag,
                object,
            } => (full_ref_name, tag, Some(object), None),
            Ref::Direct { full_ref_name, object } => (full_ref_name, object, None, None),
            Ref::Symbolic {
                full_ref_name,
                target,
                tag,
                object,
            } => (
                full_ref_name,
                tag.as_ref().unwrap_or(object),
                tag.as_ref().map(|_| object),
                Some(target),
            ),
            Ref::Unborn { .. } => panic!("{each:?}"),
        };
        lines.extend(target.map(|target| format!("ref: {target}\t{name}")));
        lines.push(format!("{held}\t{name}"));
        lines.extend(peeled.map(|peeled| format!("{peeled}\t{name}^{{}}")));
    }
    lines.sort();
    lines
}

/// Returns the objects that references are at.
fn values(refs: &[Ref]) -> Vec<ObjectId> {
    refs.iter()
        .map(|each| match each {
            Ref::Peeled { tag, .. } => *tag,
            Ref::Direct { object, .. } => *object,
            Ref::Symbolic { tag, object, .. } => tag.unwrap_or(*object),
            Ref::Unborn { .. } => panic!("{each:?}"),
        })
        .collect()
}

#[test]
fn everything_and_then_what_is_new() {
    if subject_is_file() {
        return;
    }
    for version in VERSIONS {
        let s = sandbox();
        let list = |s: &Sandbox| -> Vec<String> {
            let told = s.ok("work", "git ls-remote --symref .");
            let mut lines: Vec<String> = told.text().lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        s.ok("", "git init -q --bare copy");
        let mut client = Client::connect(&s, version);
        let refs = client.refs();
        assert_eq!(shown(&refs), list(&s), "{version:?}");
        let haves = values(&refs);
        let sent = client.fetch(&s, &haves, &[], &Shallow::NoChange, "copy");
        client.end();
        let objects = "git rev-list --objects --all --no-object-names | sort";
        let before = s.ok("work", objects).stdout;
        assert_eq!(sent, before.lines().count(), "{version:?}");
        s.ok(
            "work",
            "commit four five && git tag -m third v3 && git push -q --mirror \"znippy::$A/app\"",
        );
        let mut client = Client::connect(&s, version);
        let refs = client.refs();
        assert_eq!(shown(&refs), list(&s), "{version:?}");
        let wants: Vec<ObjectId> = values(&refs).into_iter().filter(|id| !haves.contains(id)).collect();
        let sent = client.fetch(&s, &wants, &haves, &Shallow::NoChange, "copy");
        client.end();
        let after = s.ok("work", objects).stdout;
        assert_eq!(sent, after.lines().count() - before.lines().count(), "{version:?}");
        s.ok(
            "work",
            "git for-each-ref --format='create %(refname) %(objectname)' >../refs",
        );
        s.ok(
            "copy",
            "git update-ref --stdin <../refs && git fsck --strict --no-dangling",
        );
        assert_eq!(s.ok("copy", objects).stdout, after, "{version:?}");
    }
}

#[test]
fn one_commit_and_then_the_rest() {
    if subject_is_file() {
        return;
    }
    // In version 0 gitoxide does not take note of the boundary, whoever tells it.
    let version = Protocol::V2;
    let s = sandbox();
    let tip = ids(s.ok("work", "git rev-parse main").text());
    s.ok(
        "",
        "git init -q --bare copy && git clone -q --bare --depth 1 file://$A/work theirs",
    );
    let mut client = Client::connect(&s, version);
    client.refs();
    let one = Shallow::DepthAtRemote(NonZeroU32::MIN);
    client.fetch(&s, &tip, &[], &one, "copy");
    client.end();
    let boundary = |name: &str| -> String { fs::read_to_string(PathBuf::from(name).join("shallow")).unwrap() };
    let at = |name: &str| s.path(name).display().to_string();
    assert_eq!(boundary(&at("copy")), boundary(&at("theirs")));
    let objects = "git rev-list --objects --no-object-names main | sort";
    s.ok(
        "copy",
        &format!("git update-ref refs/heads/main {} && git fsck --strict", tip[0]),
    );
    assert_eq!(
        s.ok("copy", objects).stdout,
        s.ok("theirs", objects).stdout,
        "{version:?}"
    );
    let mut client = Client::connect(&s, version);
    client.refs();
    client.fetch(&s, &tip, &tip, &Shallow::Deepen(100), "copy");
    client.end();
    assert!(!s.path("copy/shallow").exists(), "it is shallow no more");
    s.ok("copy", "git fsck --strict --no-dangling");
    assert_eq!(
        s.ok("copy", objects).stdout,
        s.ok("work", objects).stdout,
        "{version:?}"
    );
}
