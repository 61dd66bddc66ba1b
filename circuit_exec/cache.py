"""The cache folder: entries under their key, written to a temporary file in the same folder and then renamed.

A reader sees a whole entry or none; where nobody waited for the disk, the entry's hash says so. Whoever writes holds a
lock on the temporary file, so that what a killed process left behind is told from a write in progress and removed by
the next writer.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import platformdirs
from msgspec import Struct

from circuit.errors import Problem, RunError

Identity = tuple[int, ...]
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Cache(Struct, frozen=True, kw_only=True):
    """Where entries live. The folder is made when the first entry is written."""

    root: Path


def user_cache() -> Cache:
    """The cache of this user, in the platform's folder."""
    return Cache(root=platformdirs.user_cache_path("met"))


def key_of(*parts: str) -> str:
    """A key for an entry that depends on `parts`: SHA-256, each part counted in by its length."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def entry_path(cache: Cache, kind: str, name: str) -> Path:
    """Where the entry `name` of a kind (weights, programs, models, …) lives, whether it exists or not."""
    return cache.root / kind / name


def write_entry(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Makes the entry at `path` from what `write` writes; on any error or interrupt nothing is left behind."""

    def to_disk(file: BinaryIO) -> None:
        write(file)
        file.flush()
        os.fsync(file.fileno())

    _write_renamed(path, to_disk)


def _write_renamed(path: Path, write: Callable[[BinaryIO], None]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        temporary, file = _temporary(path)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    try:
        with file:
            write(file)
            file.flush()
            temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise unwritable(path.parent, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_checked(path: Path, body: bytes) -> None:
    """Makes the entry at `path` of `body` and its hash, by which `read_checked` knows one that is not whole; so nobody
    waits for the disk, and a machine that stops meanwhile may leave one in part."""
    data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    _write_renamed(path, lambda file: _write_all(file, data))


def read_checked(path: Path) -> bytes | None:
    """The body that `write_checked` wrote; None where there is no entry or a damaged one, which is as good as none."""
    try:
        head, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if head == hashlib.sha256(body).hexdigest().encode() else None


def remove_oldest(folder: Path, most_bytes: int) -> None:
    """Deletes entries until those that are left take at most `most_bytes`, the one used longest ago first."""
    with suppress(OSError):  # another process may delete the same
        entries = [(entry.stat(), entry.path) for entry in os.scandir(folder)]
        total = sum(status.st_size for status, _ in entries)
        for status, path in sorted(entries, key=lambda each: (each[0].st_mtime_ns, each[1])):
            if total <= most_bytes:
                return
            os.unlink(path)
            total -= status.st_size


def used(path: Path) -> None:
    """Makes the entry the newest, for `remove_oldest`; a cache that can only be read stays as it is."""
    with suppress(OSError):
        os.utime(path)


def unwritable(folder: Path, error: OSError) -> RunError:
    """The error of a cache that cannot be written."""
    if error.errno in FULL:
        return RunError(
            Problem(
                message=f"the cache is full: {os.strerror(error.errno or 0).lower()}",
                fix="free space there, or delete the folder (it is made again)",
                file=str(folder),
            )
        )
    return RunError(
        Problem(
            message=f"the cache cannot be written: {(error.strerror or str(error)).lower()}",
            fix="make the folder writable, or set XDG_CACHE_HOME to one that is",
            file=str(folder),
        )
    )


def recall(cache: Cache, kind: str, path: Path, seen: Identity) -> str | None:
    """What was remembered about the file at `path` when it had the identity `seen`; None where nothing was."""
    try:
        stored = json.loads(_fact_path(cache, kind, path).read_text(encoding="utf-8"))
        if isinstance(stored, dict) and stored.get("identity") == list(seen):
            fact = stored.get("fact")
            return fact if isinstance(fact, str) else None
    except (OSError, ValueError):
        return None  # nothing was remembered, or a damaged note, which is as good as none
    return None


def remember(cache: Cache, kind: str, path: Path, seen: Identity, fact: str) -> None:
    """Remembers a fact about the file at `path`, which had the identity `seen` when it was opened."""
    text = json.dumps({"path": str(path.resolve()), "identity": seen, "fact": fact}) + "\n"
    write_entry(_fact_path(cache, kind, path), lambda file: _write_all(file, text.encode("utf-8")))


def identity(found: os.stat_result) -> Identity:
    """What of a file's status tells that it was written or replaced; nobody can set the change time back."""
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _fact_path(cache: Cache, kind: str, path: Path) -> Path:
    return entry_path(cache, kind, key_of(str(path.resolve())) + ".json")


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _temporary(path: Path) -> tuple[Path, BinaryIO]:
    """A new locked file beside `path`."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        file = temporary.open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink == 1:
            return temporary, file
        file.close()  # another writer took it for abandoned before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Removes temporary files whose writer is gone."""
    for found in sorted(folder.glob(".*.tmp")):
        try:
            with found.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.unlink()
        except OSError:
            continue  # somebody still writes it, or has just renamed it
