"""What the benchmarks share: an environment of their own, repositories to work on, a run with its costs. Python 3 alone."""

import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build():
    """Builds both binaries as they are released and returns their directory."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    return target / "release"


class Bench:
    """A directory with an environment: no configuration of the user, both binaries and one git on the path."""

    def __init__(self, work=None, git="git", binaries=None, keep=False):
        self.keep = keep
        self.dir = Path(tempfile.mkdtemp(prefix="znippy-bench-", dir=work))
        (self.dir / "bin").mkdir()
        (self.dir / "tmp").mkdir()
        (self.dir / "bin/git").symlink_to(shutil.which(git))
        for name in ["git-remote-znippy", "znippy"] if binaries else []:
            (self.dir / "bin" / name).symlink_to(Path(binaries).resolve() / name)
        (self.dir / ".gitconfig").write_text(
            "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[receive]\n\tautogc = false\n[maintenance]\n\tauto = false\n"
            "[user]\n\tname = bench\n\temail = bench@example.com\n[safe]\n\tdirectory = *\n"
        )
        self.env = {
            "PATH": f"{self.dir}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.dir),
            "TMPDIR": str(self.dir / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C",
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.keep:
            print(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def git(self, *args, cwd=None, data=None):
        """Runs git outside of any measurement and returns what it prints."""
        done = subprocess.run(["git", *map(str, args)], cwd=cwd or self.dir, env=self.env, input=data, capture_output=True)
        if done.returncode:
            raise SystemExit(f"git {' '.join(map(str, args))}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="surrogateescape").strip()

    def source(self, args):
        """Makes `source.git` from a copy of `--repo` or a generated history, with `--refs` references at least."""
        source = self.dir / "source.git"
        if args.repo:
            self.git("clone", "-q", "--mirror", "--no-hardlinks", Path(args.repo).resolve(), source)
            self.git("remote", "remove", "origin", cwd=source)
        else:
            self.git("init", "-q", "--bare", f"--object-format={args.object_format}", source)
            self.git("fast-import", "--quiet", cwd=source, data=history(args.generate))
        head = self.git("rev-parse", "HEAD", cwd=source)
        self.git("update-ref", "refs/heads/znippy-bench", head, cwd=source)
        self.git("symbolic-ref", "HEAD", "refs/heads/znippy-bench", cwd=source)
        have = len(self.git("for-each-ref", "--format=x", cwd=source).splitlines())
        if args.refs > have:
            commits = self.git("rev-list", "HEAD", cwd=source).splitlines()
            lines = (
                f"create refs/{'tags' if i % 3 == 0 else f'heads/team{i % 17}'}/synthetic-{i} {commits[i * 7919 % len(commits)]}\n"
                for i in range(args.refs - have)
            )
            self.git("update-ref", "--stdin", cwd=source, data="".join(lines).encode())
        self.git("pack-refs", "--all", cwd=source)
        self.git("repack", "-q", "-a", "-d", cwd=source)
        return source

    def append_commits(self, repository, count, seed):
        """Appends commits to `refs/heads/znippy-bench`; each adds a line to one to three of the files that are there."""
        draw = random.Random(seed)
        entries = [line.split(None, 4) for line in self.git("ls-tree", "-r", "-l", "HEAD", cwd=repository).splitlines()]
        files = [e[4] for e in entries if e[1] == "blob" and e[0] != "120000" and int(e[3]) < 100_000 and '"' not in e[4]]
        texts, stream = {}, []
        parent = self.git("rev-parse", "refs/heads/znippy-bench", cwd=repository)
        now = int(time.time())
        for i in range(count):
            message = f"bench {seed}-{i}\n".encode()
            stream.append(b"commit refs/heads/znippy-bench\ncommitter bench <bench@example.com> %d +0000\n" % (now + i))
            stream.append(b"data %d\n%s" % (len(message), message))
            if i == 0:
                stream.append(b"from %s\n" % parent.encode())
            for name in draw.sample(files, min(len(files), draw.randint(1, 3))):
                if name not in texts:
                    done = subprocess.run(["git", "cat-file", "blob", f"HEAD:{name}"], cwd=repository, env=self.env, capture_output=True)
                    texts[name] = done.stdout
                texts[name] += b"line %d of %s\n" % (i, str(seed).encode())
                path = name.encode(errors="surrogateescape")
                stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(texts[name]), texts[name]))
        self.git("fast-import", "--quiet", "--force", cwd=repository, data=b"".join(stream))

    def run(self, command, cwd=None, watch=()):
        """Runs a command and returns its costs; watches the anonymous memory of descendants with these names.

        All dirty pages are written first, so that no arm pays for the writes of the one before.
        """
        os.sync()
        peaks, done = {}, threading.Event()
        start = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), cwd=cwd or self.dir, env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = []
        drain = threading.Thread(target=lambda: output.append(process.stdout.read()))
        drain.start()
        sampler = threading.Thread(target=sample, args=(process.pid, watch, peaks, done))
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        drain.join()
        sampler.join()
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}: exit {process.returncode}\n{output[0].decode(errors='replace')}")
        return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "max_rss": usage.ru_maxrss * 1024, "anon": peaks,
                "output": output[0].decode(errors="surrogateescape")}


def history(commits):
    """Returns a fast-import stream: a history with directories, growing files and a merge now and then."""
    draw = random.Random(1)
    texts, stream = {}, []
    for i in range(1, commits + 1):
        message = b"change %d\n" % i
        stream.append(b"commit refs/heads/main\nmark :%d\ncommitter bench <bench@example.com> %d +0000\n" % (i, 1_500_000_000 + i * 600))
        stream.append(b"data %d\n%s" % (len(message), message))
        if i > 1:
            stream.append(b"from :%d\n" % (i - 1))
        if i % 10 == 0 and i > 20:
            stream.append(b"merge :%d\n" % (i - draw.randint(5, 15)))
        for _ in range(draw.randint(1, 4)):
            path = b"src/module%d/part%d/file%d.txt" % (draw.randint(0, 20), draw.randint(0, 10), draw.randint(0, 10))
            words = b" ".join(b"word%d" % draw.randint(0, 5000) for _ in range(12))
            lines = texts.setdefault(path, [])
            lines.insert(draw.randint(0, len(lines)), words)
            text = b"\n".join(lines) + b"\n"
            stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(text), text))
    return b"".join(stream)


def sample(pid, watch, peaks, done):
    """Notes the greatest RssAnon of the process's descendants by name, every 20 ms."""
    while watch and not done.wait(0.02):
        todo = [pid]
        while todo:
            each = todo.pop()
            try:
                todo += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
                status = dict(line.split(":\t", 1) for line in Path(f"/proc/{each}/status").read_text().splitlines() if ":\t" in line)
            except (OSError, ValueError):
                continue
            for name in watch:
                # The kernel cuts names after 15 bytes.
                if status.get("Name") == name[:15]:
                    peaks[name] = max(peaks.get(name, 0), int(status.get("RssAnon", "0 kB").split()[0]) * 1024)


def size_of(path):
    """Returns the bytes of a file, or of all files below a directory."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if each.is_file())


def arguments(parser):
    """Adds the options that say what repository to work on and where."""
    parser.add_argument("--repo", help="a repository to copy and work on")
    parser.add_argument("--generate", type=int, default=2000, metavar="N", help="else: a generated history of N commits (default 2000)")
    parser.add_argument("--object-format", default="sha1", choices=["sha1", "sha256"], help="of the generated history")
    parser.add_argument("--refs", type=int, default=0, metavar="N", help="add references until there are N")
    parser.add_argument("--work", metavar="DIR", help="where to work (default: the directory for temporary files)")
    parser.add_argument("--git", default="git", help="the git to measure")
    parser.add_argument("--binaries", metavar="DIR", help="directory of the binaries (default: builds them)")
    parser.add_argument("--keep", action="store_true", help="keep the directory with everything in it")
