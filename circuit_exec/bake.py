"""Bakes a checkpoint: executes a manifest's recipes into one file in the cache, or opens the one that is there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from msgspec import Struct

from circuit.bake.manifest import Entry, Manifest, manifest_digest
from circuit.errors import LoadError, Problem, RunError
from circuit_exec.baked_file import Identification, PayloadWriter, open_payload
from circuit_exec.cache import Cache, entry_path, key_of, write_entry
from circuit_exec.checkpoint.content_hash import content_hash, unhashed_bytes
from circuit_exec.checkpoint.raw import Bytes, raw
from circuit_exec.checkpoint.records import Checkpoint, require_weights
from circuit_exec.pack import Words, pack_panels
from circuit_exec.recipe_rows import stored_rows

KIND = "weights"
CHUNK_BYTES = 1 << 20
"""Stored bytes that are packed at once: the working set stays in the processor's own cache."""

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all: those read for the content hash and those of the payload."""


class BakedWeights(Struct, frozen=True, kw_only=True, eq=False):
    """Baked weights over a memory map. `words` begins at a multiple of 64 bytes; an entry's place is in `manifest`.

    `note` says that a damaged file was found and made again.
    """

    path: Path
    manifest: Manifest
    content_hash: str
    words: Words
    note: str | None

    @property
    def address(self) -> int:
        """Where the payload begins in this process."""
        return self.words.ctypes.data


def bake(manifest: Manifest, checkpoint: Checkpoint, cache: Cache, progress: Progress) -> BakedWeights:
    """The baked weights of `checkpoint`, made if the cache does not have them whole."""
    require_weights(checkpoint)
    to_hash = unhashed_bytes(checkpoint, cache)
    report = _Counted(progress, to_hash + manifest.n_bytes)
    content = content_hash(checkpoint, cache, report)
    if report.done < to_hash:
        report(to_hash - report.done)  # what another process hashed meanwhile
    belongs = Identification(manifest=manifest_digest(manifest), content=content)
    path = entry_path(cache, KIND, f"{key_of('baked', belongs.manifest, belongs.content)}.weights")
    note = None
    if path.exists():
        found = open_payload(path, belongs, manifest.n_bytes, cache)
        if not isinstance(found, str):
            return BakedWeights(path=path, manifest=manifest, content_hash=content, words=found, note=None)
        note = f"the baked weights in {path} were made again: {found}"
    _check_equal(manifest, checkpoint)
    write_entry(path, lambda file: _write(file, manifest, checkpoint, belongs, report))
    written = open_payload(path, belongs, manifest.n_bytes, cache)
    if isinstance(written, str):
        raise RunError(
            Problem(
                message=f"the baked weights do not read back as they were written: {written}",
                fix="check the disk, or set XDG_CACHE_HOME to a folder on another one",
                file=str(path),
            )
        )
    return BakedWeights(path=path, manifest=manifest, content_hash=content, words=written, note=note)


def entry_words(baked: BakedWeights, entry: Entry) -> Words:
    """The words of one baked tensor."""
    return baked.words[entry.offset_bytes // 4 : (entry.offset_bytes + entry.n_bytes) // 4]


class _Counted:
    """Adds up the bytes that are done, and tells each time how many of the total they are."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.done = 0
        self._progress, self._total = progress, total

    def __call__(self, n_bytes: int) -> None:
        self.done += n_bytes
        self._progress(self.done, self._total)


def _check_equal(manifest: Manifest, checkpoint: Checkpoint) -> None:
    problems = []
    for first, second in manifest.equal:
        a, b = checkpoint.tensors[first], checkpoint.tensors[second]
        if (
            a.format != b.format
            or a.shape != b.shape
            or not np.array_equal(raw(checkpoint, first), raw(checkpoint, second))
        ):
            problems.append(
                Problem(
                    message=f"tensor {first}: differs from {second}, though the config ties the two",
                    fix="set tie_word_embeddings to false in config.json, or remove the tensor",
                    file=a.file,
                )
            )
    if problems:
        raise LoadError(problems)


def _write(
    file: BinaryIO, manifest: Manifest, checkpoint: Checkpoint, belongs: Identification, report: Callable[[int], None]
) -> None:
    writer = PayloadWriter(file, manifest.n_bytes)
    for entry in manifest.entries:
        report(writer.pad_to(entry.offset_bytes))
        for words in _chunks(entry, manifest.panel, checkpoint):
            report(writer.put(words.view(np.uint8)))
        assert writer.at == entry.offset_bytes + entry.n_bytes, f"{entry.name}: ends at {writer.at}"
    report(writer.pad_to(manifest.n_bytes))
    writer.finish(belongs)


def _chunks(entry: Entry, panel: int, checkpoint: Checkpoint) -> Iterator[Words]:
    """The words of an entry, a few panels at a time."""
    rows = stored_rows(entry, checkpoint)
    if entry.layout == "vector":
        yield np.ascontiguousarray(rows.slice(0, entry.shape[0])).view("<u4").reshape(-1)
        return
    n, k = entry.shape
    step = max(1, CHUNK_BYTES // (panel * rows.row_bytes)) * panel
    for at in range(0, n, step):
        chunk: Bytes = rows.slice(at, min(at + step, n))
        yield pack_panels(chunk, entry.format, k, panel)
