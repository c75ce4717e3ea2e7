//! A directory that is copied for each scenario, and what is seen in it afterwards.

use crate::common::Side;

/// What is told of a repository when all is done. A partial clone must not fetch what is asked for here.
const STATE: &str = r#"
export GIT_NO_LAZY_FETCH=1
echo "HEAD $(git symbolic-ref -q HEAD || git rev-parse -q --verify HEAD)"
git for-each-ref --format='%(refname) %(objectname) %(symref)'
echo shallow; LC_ALL=C sort "$(git rev-parse --git-path shallow)" 2>/dev/null
echo objects; git rev-list --objects --all --no-object-names --missing=print 2>/dev/null | LC_ALL=C sort -u
echo settings; git config --local --get-regexp '^(remote|branch|submodule|extensions)[.]' | grep -vi znippy | LC_ALL=C sort
echo index; git ls-files -s 2>/dev/null
echo tree; git status --porcelain 2>/dev/null
echo stash; git stash list 2>/dev/null
git fsck --full --no-dangling >/dev/null 2>&1; echo "fsck $?"
test -z "$(find "$(git rev-parse --git-path objects)" -name 'tmp_*' -o -name '*.keep')" || echo left behind
"#;

/// The clients that a scenario may name.
const CLIENTS: [&str; 8] = [
    "up",
    "reader",
    "mirror.git",
    "diverged",
    "shallow",
    "partial",
    "blank",
    "super",
];

/// One of the two sides, with a directory that is copied for each scenario.
pub struct Stage {
    side: Side,
    is_archive: bool,
}

/// Returns why what the archive names in `.git/shallow` differs.
pub fn reason(scenario: &str) -> Option<&str> {
    scenario.lines().find_map(|line| line.trim().strip_prefix("~ "))
}

/// Lets submodules use both kinds of remote, under a name that is the same on both sides.
fn settle(side: &Side) {
    let allow = "git config --global protocol.file.allow always && git config --global protocol.znippy.allow always";
    side.sandbox.ok(
        "",
        &format!(
            "{allow} && git config --global url.$URL.insteadOf there:lib && git config --global init.templateDir ''"
        ),
    );
}

/// Leaves the commits of `.git/shallow` out of a state.
pub fn without_shallow(state: &str) -> String {
    match (state.split_once("shallow\n"), state.split_once("objects\n")) {
        (Some((before, _)), Some((_, after))) => format!("{before}objects\n{after}"),
        _ => state.to_owned(),
    }
}

impl Stage {
    /// Makes the side with the bare repository, set up to allow what an archive allows whoever can read its file.
    pub fn bare() -> Stage {
        let config = ["uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true"];
        Stage {
            side: Side::bare("sha1", &config),
            is_archive: false,
        }
    }

    /// Makes the side with the archive.
    pub fn archive() -> Stage {
        Stage {
            side: Side::archive("sha1", &[]),
            is_archive: true,
        }
    }

    /// Runs the script that all scenarios start from.
    pub fn prepare(&self, script: &str) {
        settle(&self.side);
        self.side.play(script);
    }

    /// Plays a scenario in a copy of the prepared directory, and returns what was seen: pairs of what and its text.
    ///
    /// # Errors
    /// Says which line did not do what its mark says.
    pub fn play(&self, scenario: &str) -> Result<Vec<(String, String)>, String> {
        let copy = match self.is_archive {
            true => Side::archive("sha1", &[]),
            false => Side::bare("sha1", &[]),
        };
        settle(&copy);
        let (from_text, to_text) = (self.side.sandbox.root().display(), copy.sandbox.root().display());
        // Only what the scenario names: the rest would be the same before and after.
        let named = CLIENTS.iter().filter(|name| scenario.contains(**name));
        let named = named.map(|name| format!("{from_text}/{name} ")).collect::<String>();
        let config = "-name config -o -name .gitmodules -o -name .git";
        copy.sandbox.ok(
            "",
            &format!(
                r"cp -a {from_text}/remote* {named} . &&
                  find . -type f \( {config} \) -exec sed -i 's|{from_text}|{to_text}|g' {{}} +"
            ),
        );
        let mut seen = Vec::new();
        for line in scenario.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['~', '#']) {
                continue;
            }
            seen.push(copy.try_line(line)?);
        }
        let repositories = "ls -d */.git */HEAD */lib/.git 2>/dev/null | sed 's|/[^/]*$||' | grep -vx remote | sort -u";
        for name in copy.sandbox.ok("", repositories).text().lines() {
            let state = copy.sandbox.sh(name, STATE);
            seen.push((format!("state of {name}"), copy.neutral(&state.stdout)));
        }
        // What others see of the remote now, and that all of it is there.
        copy.sandbox.ok("", "rm -rf .seen && git clone -q --mirror $URL .seen");
        let state = copy.sandbox.sh(".seen", STATE);
        seen.push(("state of the remote".into(), copy.neutral(&state.stdout)));
        Ok(seen)
    }
}
