#!/usr/bin/env bash
# Runs every test: bash tests/all.sh
#
# Needs a Rust toolchain and git. Gets what else the tests use where a package manager and the rights are there: strace, sshd, FUSE, and
# pyarrow, Polars and DuckDB in an environment of their own in target/interop-venv. What cannot run says NOT RUN and why, and
# is counted at the end; with ZNIPPY_TEST_STRICT=1 that is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
ZNIPPY_TEST_NOT_RUN=$(realpath "$target")/not-run.txt
export ZNIPPY_TEST_NOT_RUN
: >"$ZNIPPY_TEST_NOT_RUN"

not_run() { echo "NOT RUN: $*" | tee -a "$ZNIPPY_TEST_NOT_RUN"; }

# install PACKAGE...: as root or through sudo, or not at all.
install() {
	local sudo=
	command -v apt-get >/dev/null || return 1
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || return 1
		sudo="sudo -n"
	fi
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >/dev/null 2>&1 ||
		{ $sudo apt-get update -q >/dev/null 2>&1 &&
			$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >/dev/null 2>&1; }
}

command -v git >/dev/null || install git || { echo "git is needed"; exit 1; }
command -v strace >/dev/null || install strace || not_run "system call counts: no strace"
[ -x /usr/sbin/sshd ] || install openssh-server openssh-client || not_run "servers over ssh: no sshd"
command -v setfacl >/dev/null || install acl || not_run "access control lists: no setfacl"
if [ ! -e /dev/fuse ]; then
	not_run "disks that misbehave: no /dev/fuse"
elif ! command -v fusermount3 >/dev/null || ! command -v sshfs >/dev/null; then
	install fuse3 sshfs || not_run "disks over sshfs: no sshfs"
fi
command -v setpriv >/dev/null || install util-linux || true

# interop-venv holds the other readers of the file format.
venv=$target/interop-venv
if ! "$venv/bin/python" -c 'import pyarrow, polars, duckdb' 2>/dev/null; then
	python3 -c 'import venv, ensurepip' 2>/dev/null || install python3 python3-venv || true
	if ! { python3 -m venv --clear "$venv" && "$venv/bin/pip" install -q pyarrow polars duckdb; }; then
		rm -rf "$venv"
		echo "pyarrow, Polars and DuckDB could not be installed"
	fi
fi

cargo build --release
cargo test --release

# The same behaviour with each other git of the machine: the helper talks to all of them.
first=$(git --version)
for git in /usr/bin/git /usr/local/bin/git; do
	if [ -x "$git" ] && [ "$("$git" --version)" != "$first" ]; then
		echo "again with $("$git" --version)"
		ZNIPPY_TEST_GIT=$git cargo test --release --test parity --test matrix --test cli
	fi
done

# bench/syscalls asserts what a push and a listing may cost.
if command -v strace >/dev/null; then
	python3 bench/syscalls --check
fi

count=$(grep -c 'NOT RUN' "$ZNIPPY_TEST_NOT_RUN" || true)
sort -u "$ZNIPPY_TEST_NOT_RUN"
echo "all tests passed; $count not run"
if [ "${ZNIPPY_TEST_STRICT:-0}" = 1 ] && [ "$count" != 0 ]; then
	exit 1
fi
