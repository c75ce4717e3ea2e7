//! `znippy shell`: an ssh account for archives and nothing else.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        process::CommandExt,
    },
    path::{Component, Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use znippy::locate::EXTENSION;

use super::{Done, output::Output};

/// Restrict an ssh account to the archives below one directory
///
/// To be used as a forced command in ~/.ssh/authorized_keys, or as the login shell of an account. It runs what git asks for on
/// the other side (upload-pack, receive-pack, upload-archive) on archives below the directory, and nothing else. The
/// other side needs no setting: `git clone ssh://host/app` works as with a repository. Where the account's shell finds no znippy
/// (`command not found`), the line needs its full name, such as ~/.cargo/bin/znippy.
#[derive(clap::Args)]
#[command(after_help = "\
Examples, in ~/.ssh/authorized_keys:
  restrict,command=\"znippy shell --root /srv/archives\" ssh-ed25519 AAAA... someone
  restrict,command=\"znippy shell --root /srv/archives --read-only\" ssh-ed25519 AAAA... reader

Then, on the other side:
  git clone ssh://host/app              /srv/archives/app.znippy
  git push ssh://host/team/app main     /srv/archives/team/app.znippy

Paths count from the directory, with or without a slash in front. One with `..` in it, and symbolic links that lead out of the
directory, are refused. For protocol version 2 the server's sshd_config needs `AcceptEnv GIT_PROTOCOL`.

Environment:
  SSH_ORIGINAL_COMMAND    what the other side asked for, as sshd tells it to a forced command")]
pub struct Args {
    /// The directory that the archives are in; without it, the account's home directory
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Allow fetches only
    #[arg(long)]
    read_only: bool,

    /// What the other side asks for, as sshd gives it to a login shell
    #[arg(short = 'c', value_name = "COMMAND")]
    command: Option<OsString>,
}

/// Becomes the server that the other side asks for.
pub fn run(args: &Args, _: &mut Output) -> Done {
    let asked = args
        .command
        .clone()
        .or_else(|| std::env::var_os("SSH_ORIGINAL_COMMAND"));
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
        bail!("this account is for git only: interactive logins are not allowed");
    };
    let Request { verb, path } = Request::parse(asked.as_bytes())?;
    if args.read_only && verb == "receive-pack" {
        bail!("this account may not push");
    }
    let root = match &args.root {
        Some(root) => root.clone(),
        None => dirs::home_dir().context("the account has no home directory; use --root")?,
    };
    let path = below(&root, OsStr::from_bytes(&path))?;
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let error = Command::new(program).arg(verb).arg("--").arg(path).exec();
    Err(error).context("cannot run znippy")
}

/// What the other side asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    verb: &'static str,
    path: Vec<u8>,
}

impl Request {
    fn parse(command: &[u8]) -> anyhow::Result<Request> {
        let words = split(command).context("the command cannot be read")?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (verb, path) = match words[..] {
            [b"git" | b"znippy", verb, path] => (verb, path),
            [verb, path] => (verb.strip_prefix(b"git-").unwrap_or_default(), path),
            _ => (&b""[..], &b""[..]),
        };
        let verb = ["upload-pack", "receive-pack", "upload-archive"]
            .into_iter()
            .find(|known| known.as_bytes() == verb);
        match verb {
            Some(verb) if !path.is_empty() && !path.starts_with(b"-") => Ok(Request {
                verb,
                path: path.to_vec(),
            }),
            _ => bail!(
                "this account is for git only: '{}' is not allowed",
                super::escape::text(command)
            ),
        }
    }
}

/// Splits a command as a shell would, but for everything that a shell would do something about: git puts paths into single
/// quotes, with `'\''` and `'\!'` for these characters.
fn split(command: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = command.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'\'') => break,
                        Some(byte) => word.push(byte),
                        None => bail!("a quote is open"),
                    }
                }
            }
            b'\\' => match bytes.next() {
                Some(byte) => word.get_or_insert_default().push(byte),
                None => bail!("it ends in a backslash"),
            },
            b'"' | b'$' | b'`' | b'&' | b';' | b'|' | b'<' | b'>' | b'(' | b')' | b'*' | b'?' | b'[' | b'#' | b'\n'
            | b'\0' => {
                bail!(
                    "'{}' is not allowed outside of single quotes",
                    (byte as char).escape_default()
                )
            }
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Returns the archive that `asked` names below `root`.
fn below(root: &Path, asked: &OsStr) -> anyhow::Result<PathBuf> {
    let shown = super::escape::text(asked.as_bytes());
    let root = root
        .canonicalize()
        .with_context(|| format!("the directory of the archives {} cannot be found", root.display()))?;
    let asked = Path::new(asked);
    let relative = asked
        .strip_prefix(&root)
        .or_else(|_| asked.strip_prefix("/"))
        .unwrap_or(asked);
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !relative.components().all(is_plain) || asked.as_os_str().as_bytes().contains(&0) {
        bail!("{shown}: the path leads out of the directory of the archives");
    }
    let exact = root.join(relative);
    let with_extension = PathBuf::from(OsString::from_vec(
        [exact.as_os_str().as_bytes(), EXTENSION.as_bytes()].concat(),
    ));
    let found = [exact, with_extension].into_iter().find(|path| path.is_file());
    // Where links lead counts, not what the path looks like.
    let real = found.and_then(|found| found.canonicalize().ok());
    match real {
        Some(real) if real.starts_with(&root) => Ok(real),
        Some(_) => bail!("{shown}: the path leads out of the directory of the archives"),
        None => bail!("{shown}: no such archive (`znippy init` on the server makes one, a push does not)"),
    }
}

#[cfg(test)]
mod tests {
    use bstr::ByteSlice;

    use super::*;

    #[test]
    fn git_asks_and_nothing_else_is_understood() {
        let parsed = |command: &str| {
            Request::parse(command.as_bytes())
                .ok()
                .map(|r| (r.verb, r.path.to_str_lossy().into_owned()))
        };
        let some = |verb, path: &str| Some((verb, path.to_owned()));
        assert_eq!(parsed("git-upload-pack '/a b'"), some("upload-pack", "/a b"));
        assert_eq!(parsed("git upload-pack 'x'"), some("upload-pack", "x"));
        assert_eq!(parsed("znippy receive-pack 'it'\\''s'"), some("receive-pack", "it's"));
        assert_eq!(parsed("git-upload-archive a'\\!'b"), some("upload-archive", "a\\!b"));
        assert_eq!(parsed("git-upload-archive 'a'\\!'b'"), some("upload-archive", "a!b"));
        for wrong in [
            "",
            "sh",
            "upload-pack x",
            "git-upload-pack",
            "git-upload-pack ''",
            "git-upload-pack -x",
            "git-upload-pack --strict x",
            "git-upload-pack 'x' y",
            "git-upload-pack 'x",
            "git-upload-pack x; sh",
            "git-upload-pack $(sh)",
            "git-upload-pack x\nsh",
            "git-shell x",
            "znippy shell x",
            "znippy config x",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn paths_stay_below_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let archives = root.join("archives");
        std::fs::create_dir_all(archives.join("team")).unwrap();
        for file in ["archives/app.znippy", "archives/team/b.znippy", "secret.znippy"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, archives.join(name)).unwrap();
        link("../secret.znippy", "out.znippy");
        link("..", "up");
        link("app.znippy", "in.znippy");
        let found = |asked: &str| below(&archives, OsStr::new(asked)).ok();
        for (asked, file) in [
            ("app", "app.znippy"),
            ("/app", "app.znippy"),
            ("//app.znippy", "app.znippy"),
            ("./team/b", "team/b.znippy"),
            ("in", "app.znippy"),
        ] {
            assert_eq!(found(asked), Some(archives.join(file)), "{asked}");
        }
        assert_eq!(
            found(archives.join("app").to_str().unwrap()),
            Some(archives.join("app.znippy"))
        );
        let outside = root.join("secret.znippy");
        for asked in [
            "../secret",
            "team/../../secret",
            "team/../app",
            "out",
            "up/secret",
            "nothing",
            "team",
            "~/app",
            "",
            outside.to_str().unwrap(),
        ] {
            assert_eq!(found(asked), None, "{asked}");
        }
    }
}
