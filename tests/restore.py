#!/usr/bin/env python3
"""Restores a bare repository from an archive with pyarrow and git alone, without znippy: restore.py ARCHIVE DIRECTORY"""
import hashlib, subprocess, sys

import pyarrow as pa

archive, target = sys.argv[1:]
data = pa.memory_map(archive).read_buffer()


def slot(at):
    """Returns (number of the write, end of the footer) of the slot at an offset, if its checksum holds."""
    line, _, checksum = bytes(data[at : at + 256]).split(b"\n")[0].rpartition(b" ")
    good = hashlib.sha256(line + b" ").hexdigest()[:32].encode() == checksum
    return (int(line.split()[2]), int(line.split()[4])) if good else (-1, 0)


def git(*args, **options):
    subprocess.run(["git", "-C", target, *args], check=True, **options)


# The newer of the two slots says where the last synced commit ends. Bytes behind it are not part of the archive.
write, end = max(slot(4096), slot(8192))
rows = pa.ipc.open_file(data[:end]).read_all().sort_by("txn")
object_format = rows.schema.metadata[b"znippy.object_format"].decode()
subprocess.run(["git", "init", "-q", "--bare", f"--object-format={object_format}", target], check=True)
refs = {}
for row in range(len(rows)):
    refs |= {edit["name"]: (edit["new_oid"], edit["symref"]) for edit in rows["refs"][row].as_py()}
    if rows["pack"][row].is_valid:  # A list of parts, which are adjacent bytes of one git pack.
        with subprocess.Popen(["git", "-C", target, "index-pack", "--stdin"], stdin=subprocess.PIPE) as index:
            for part in rows["pack"][row].values:
                index.stdin.write(memoryview(part.as_buffer()))
        index.returncode == 0 or sys.exit(f"the pack of transaction {rows['txn'][row]} is damaged")
creates = [b"create %s\0%s\0" % (name, oid.hex().encode()) for name, (oid, symref) in refs.items() if oid and not symref]
git("update-ref", "-z", "--stdin", input=b"".join(creates))
for name, symref in [(name, symref) for name, (_, symref) in refs.items() if symref]:
    git("symbolic-ref", name, symref)
git("fsck", "--full", "--strict", "--no-dangling")
