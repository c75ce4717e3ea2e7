#!/usr/bin/env python3
"""Reads an archive with pyarrow, Polars and DuckDB and compares what they see with git: interop.py ARCHIVE REPOSITORY

REPOSITORY holds what was pushed. Each reader must return the references and the objects of it, as a file and as a stream
where it can do both. Prints one line a reader; exits with 1 where one differs.
"""
import subprocess
import sys

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds

TYPES = ["commit", "tree", "blob", "tag"]


def git(repository, *args):
    return subprocess.run(["git", "-C", repository, *args], check=True, capture_output=True).stdout


def expected(repository):
    """Returns references and objects as git tells them."""
    lines = git(repository, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    refs = {tuple(reversed(line.split(b" ", 1))) for line in lines}
    lines = git(repository, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    objects = {oid: (kind, int(size)) for oid, kind, size in (line.decode().split() for line in lines)}
    return {(name, oid.decode()) for name, oid in refs}, objects


def from_rows(rows):
    """Returns references and objects from (txn, refs, objects), whatever reader made them. Later edits win."""
    refs, objects = {}, {}
    for _, edits, entries in sorted(rows, key=lambda row: row[0]):
        for edit in edits or []:
            refs[bytes(edit["name"])] = (edit["new_oid"], edit["symref"])
        for entry in entries or []:
            note(objects, bytes(entry["oid"]).hex(), entry["type"], entry["size"])
    live = {(name, bytes(oid).hex()) for name, (oid, symref) in refs.items() if oid is not None and symref is None}
    return live, objects


def note(objects, oid, kind, size):
    """Adds an entry; one whose type is not known yet never hides one whose type is."""
    if kind is not None:
        objects[oid] = (TYPES[kind - 1], size)
    else:
        objects.setdefault(oid, None)


def arrow_rows(table):
    return zip(*(table[name].to_pylist() for name in ("txn", "refs", "objects")))


def pyarrow_file(path):
    with pa.OSFile(path) as file:
        return from_rows(arrow_rows(pa.ipc.open_file(file).read_all()))


def pyarrow_mapped(path):
    with pa.memory_map(path) as file:
        reader = pa.ipc.open_file(file)
        tables = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        return from_rows(arrow_rows(pa.Table.from_batches(tables)))


def pyarrow_stream(path):
    with pa.OSFile(path) as file:
        file.seek(8)
        return from_rows(arrow_rows(pa.ipc.open_stream(file).read_all()))


def pyarrow_dataset(path):
    return from_rows(arrow_rows(ds.dataset(path, format="ipc").to_table(columns=["txn", "refs", "objects"])))


def polars_file(path):
    return from_rows(polars.read_ipc(path, columns=["txn", "refs", "objects"]).iter_rows())


def polars_scan(path):
    return from_rows(polars.scan_ipc(path).select("txn", "refs", "objects").collect().iter_rows())


def polars_stream(path):
    with open(path, "rb") as file:
        file.seek(8)
        return from_rows(polars.read_ipc_stream(file, columns=["txn", "refs", "objects"]).iter_rows())


def duckdb_dataset(path):
    archive = ds.dataset(path, format="ipc")
    return from_rows(duckdb.sql("SELECT txn, refs, objects FROM archive").fetchall())


def duckdb_stream(path):
    with pa.OSFile(path) as file:
        file.seek(8)
        archive = pa.ipc.open_stream(file).read_all()
    return from_rows(duckdb.sql("SELECT txn, refs, objects FROM archive").fetchall())


def duckdb_query(path):
    """Asks in SQL alone, as the README shows it."""
    archive = ds.dataset(path, format="ipc")
    refs = duckdb.sql("""
        WITH edits AS (SELECT txn, unnest(refs, recursive := true) FROM archive)
        SELECT name, lower(hex(arg_max(new_oid, txn))) FROM edits WHERE symref IS NULL
        GROUP BY name HAVING arg_max(new_oid IS NOT NULL, txn)""").fetchall()
    rows = duckdb.sql("""
        WITH entries AS (SELECT unnest(objects, recursive := true) FROM archive)
        SELECT DISTINCT lower(hex(oid)), type, size FROM entries""").fetchall()
    objects = {}
    for row in rows:
        note(objects, *row)
    return {(bytes(name), oid) for name, oid in refs}, objects


def main():
    path, repository = sys.argv[1:]
    refs, objects = expected(repository)
    failed = False
    readers = [pyarrow_file, pyarrow_mapped, pyarrow_stream, pyarrow_dataset, polars_file, polars_scan, polars_stream,
               duckdb_dataset, duckdb_stream, duckdb_query]
    for reader in readers:
        try:
            seen_refs, seen_objects = reader(path)
            problem = []
            if seen_refs != refs:
                problem.append(f"references: {len(refs - seen_refs)} missing, {len(seen_refs - refs)} wrong")
            # Objects that no reference reaches any more stay in the archive until gc.
            if missing := objects.keys() - seen_objects.keys():
                problem.append(f"objects: {len(missing)} missing")
            if wrong := [oid for oid, seen in seen_objects.items() if seen and seen != objects.get(oid, seen)]:
                problem.append(f"objects: {len(wrong)} with another type or size")
            resolved = sum(seen is not None for seen in seen_objects.values())
        except Exception as error:
            problem = [f"{type(error).__name__}: {error}"]
        failed |= bool(problem)
        print(f"{reader.__name__}: {'; '.join(problem) or f'ok, {len(seen_refs)} references, {len(seen_objects)} objects, {resolved} with type'}")
    sys.exit(failed)


main()
