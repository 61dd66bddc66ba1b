"""What `nsys export --type sqlite` writes: one row a kernel, whose names are in a table of strings.

Source: Nsight Systems' SQLite export schema: CUPTI_ACTIVITY_KIND_KERNEL (start, shortName, demangledName, mangledName)
and StringIds (id, value). Tables are made only where there is something to put into them.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from circuit.errors import LoadError, Problem

SQLITE = b"SQLite format 3\x00"
KERNELS, STRINGS = "CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"
NAMES = ("shortName", "demangledName", "mangledName")
"""Columns that name a kernel, the first that there is counts: a short name has no arguments."""
RECORD = "record with `nsys profile --trace=cuda`, and export with `nsys export --type sqlite`"


def nsight_launches(path: str) -> tuple[str, ...]:
    """The names of all kernels, in the order in which they began."""
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
            return _launches(path, database)
    except sqlite3.Error as error:
        message = f"the database is damaged or cut off: {error}"
        raise _wrong(path, message, "copy it, or export it again") from error


def _launches(path: str, database: sqlite3.Connection) -> tuple[str, ...]:
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if KERNELS not in tables:
        raise _wrong(path, f"the database has no table {KERNELS}: no kernel was recorded", RECORD)
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({KERNELS})")]
    named = next((name for name in NAMES if name in columns), None)
    if named is None or "start" not in columns:
        message = f"table {KERNELS} lacks `start`, or a name: it has {', '.join(columns)}"
        raise _wrong(path, message, RECORD)
    if STRINGS not in tables:
        raise _wrong(path, f"the database has no table {STRINGS}, where the names of kernels are", RECORD)
    rows = database.execute(
        f"SELECT {STRINGS}.value FROM {KERNELS} LEFT JOIN {STRINGS} ON {STRINGS}.id = {KERNELS}.{named} "
        f"ORDER BY {KERNELS}.start, {KERNELS}.rowid"
    ).fetchall()
    if not rows:
        raise _wrong(path, f"table {KERNELS} is empty: no kernel was recorded", RECORD)
    nameless = sum(not isinstance(name, str) for (name,) in rows)
    if nameless:
        message = f"{nameless} of {len(rows)} kernels have a {named} that is not in {STRINGS}"
        raise _wrong(path, message, "export it again")
    return tuple(name for (name,) in rows)


def _wrong(path: str, message: str, fix: str) -> LoadError:
    return LoadError(Problem(message=message, fix=fix, file=path))
