#!/usr/bin/env python3
"""Restores a bare repository from a znippy archive with pyarrow and git alone: restore.py ARCHIVE DIRECTORY

The way out that needs no znippy. Layout: man/znippy-format.5.
"""
import subprocess
import sys

import pyarrow as pa

archive, target = sys.argv[1:]


def git(*args, **options):
    return subprocess.run(["git", "-C", target, *args], check=True, **options)


data = pa.memory_map(archive).read_buffer()
# Two slots name the last commit that was synced; the higher sequence wins, and only the bytes up to its end count.
slots = [dict(field.split(b"=", 1) for field in bytes(data[at : at + 256]).split(b"\0")[0].split() if b"=" in field)
         for at in (4096, 8192)]
slot = max((slot for slot in slots if b"sequence" in slot), key=lambda slot: int(slot[b"sequence"]))
rows = pa.ipc.open_file(data[: int(slot[b"end"])]).read_all()

sha256 = rows.schema.field("pack_id").type.byte_width == 32
subprocess.run(["git", "init", "-q", "--bare", f"--object-format={'sha256' if sha256 else 'sha1'}", target], check=True)
refs = {}
for row, edits in enumerate(rows["refs"].to_pylist()):
    for edit in edits:
        refs[edit["name"]] = edit["new_oid"], edit["symref"]
    parts = rows["pack"].slice(row, 1).combine_chunks().flatten()
    if len(parts):
        with subprocess.Popen(["git", "-C", target, "index-pack", "--stdin"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as index:
            for part in parts:
                index.stdin.write(memoryview(part.as_buffer()))
        assert index.returncode == 0, f"the pack of row {row} is damaged"
updates = b"".join(b"create %s\0%s\0" % (name, oid.hex().encode()) for name, (oid, symref) in refs.items() if oid and not symref)
git("update-ref", "-z", "--stdin", input=updates)
for name, (oid, symref) in refs.items():
    if symref:
        git("symbolic-ref", name, symref)
git("fsck", "--full", "--strict", "--no-dangling")
