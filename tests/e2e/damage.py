"""Damages files at random places, and changes rows of databases."""
import pathlib
import sqlite3


def hurt(path, rng, n=1, width=8):
    """Change `width` bytes at each of n random places."""
    path = pathlib.Path(path)
    data = bytearray(path.read_bytes())
    for _ in range(n):
        at = rng.randrange(len(data) - width)
        data[at:at + width] = bytes(b ^ rng.randrange(1, 256) for b in data[at:at + width])
    path.write_bytes(data)


def change(path, sql, args=()):
    """Run a statement on a database of the server's, and make it one of version 1: the next server writes the hashes
    of all rows, which nobody else can."""
    db = sqlite3.connect(path)
    with db:
        db.execute(sql, args)
        for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table' AND sql LIKE '%hash INTEGER%'").fetchall():
            db.execute(f"ALTER TABLE {table} DROP COLUMN hash")
        db.execute("PRAGMA user_version=1")
    db.close()
