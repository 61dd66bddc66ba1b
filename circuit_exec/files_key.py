"""A hash of files, for keys of what depends on them."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path


def files_key(place: Path) -> str:
    """Of a file, or of every file below a folder with its name there, but for what Python made of them."""
    digest, at = hashlib.sha256(), str(place)
    for path in _files(at) if place.is_dir() else (at,):
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        for part in (path[len(at) :].encode(), content):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """Every file below a folder but what Python made of it, in the order of the names."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        else:
            yield entry.path
