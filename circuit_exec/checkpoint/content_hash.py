"""The content hash of a checkpoint: what its weight files hold, wherever they lie."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from circuit.errors import RunError
from circuit_exec.cache import Cache, recall, remember
from circuit_exec.checkpoint.records import Checkpoint, MappedFile

KIND = "hashes"
PIECE_BYTES = 1 << 23


def content_hash(checkpoint: Checkpoint, cache: Cache, read: Callable[[int], None]) -> str:
    """One weight file: its SHA-256. Several: the SHA-256 of theirs, in hex and in the order of the file names.

    A file's hash is remembered under its path, size, times and inode. `read` is told of the bytes of each piece.
    """
    hashes = [file_hash(Path(path), file, cache, read) for path, file in checkpoint.files.items()]
    assert hashes, "a checkpoint without weight files has no content hash"
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode("ascii")).hexdigest()


def unhashed_bytes(checkpoint: Checkpoint, cache: Cache) -> int:
    """How many bytes `content_hash` will read: those of the files whose hash is not remembered."""
    return sum(
        len(file.data)
        for path, file in checkpoint.files.items()
        if recall(cache, KIND, Path(path), file.identity) is None
    )


def file_hash(path: Path, file: MappedFile, cache: Cache, read: Callable[[int], None]) -> str:
    """The SHA-256 of one weight file, remembered as above."""
    known = recall(cache, KIND, path, file.identity)
    if known is not None:
        return known
    digest = hashlib.sha256()
    for at in range(0, len(file.data), PIECE_BYTES):
        piece = file.data[at : at + PIECE_BYTES]
        digest.update(piece)
        read(len(piece))
    found = digest.hexdigest()
    with suppress(RunError):  # A cache that cannot be written costs time here; whoever bakes into it reports it.
        remember(cache, KIND, path, file.identity, found)
    return found
