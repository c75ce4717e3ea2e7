#!/bin/sh
# Pushes this checkout into a new archive, clones it back, and compares the two. Needs git, and both programs installed
# (`cargo install --locked --path .`). Leaves nothing behind. Exit code 0: the clone has the same references and is sound.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
export PATH
command -v git-remote-znippy >/dev/null || {
    echo "error: git-remote-znippy is not installed (run: cargo install --locked --path $here)" >&2
    exit 1
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 129' HUP INT TERM

repository=$here
if ! git -C "$here" rev-parse --git-dir >/dev/null 2>&1; then
    # An unpacked release has no history: make one commit of its sources.
    repository=$tmp/sources
    git init -q "$repository"
    for name in Cargo.toml Cargo.lock src git-remote-znippy README.md; do cp -R "$here/$name" "$repository/"; done
    git -C "$repository" add .
    git -C "$repository" -c user.name=first-run -c user.email=first-run@localhost commit -q -m sources
elif [ "$(git -C "$here" rev-parse --is-shallow-repository)" = true ]; then
    echo "error: this checkout is shallow, its history cannot be archived (run: git fetch --unshallow)" >&2
    exit 1
fi

git -C "$repository" push --quiet --mirror "znippy::$tmp/first-run"
git clone --quiet --mirror "znippy::$tmp/first-run" "$tmp/back.git"

refs='--format=%(objectname) %(objecttype) %(refname)'
git -C "$repository" for-each-ref "$refs" >"$tmp/expected"
git -C "$tmp/back.git" for-each-ref "$refs" >"$tmp/found"
if ! cmp -s "$tmp/expected" "$tmp/found"; then
    echo "error: the clone has other references:" >&2
    diff "$tmp/expected" "$tmp/found" >&2 || true
    exit 1
fi
git -C "$tmp/back.git" fsck --full --strict --no-progress

znippy info "$tmp/first-run"
echo "ok: pushed to one file and cloned back, $(wc -l <"$tmp/found" | tr -d ' ') references, fsck clean"
