"""Which f32 matrices of a checkpoint hold bf16 values alone: bake stores these in half of the bytes.

Checkpoints that were trained in bf16 and saved in f32 are such. The bytes that come out are the same, because a weight
means its decoded value.
"""

import json
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from circuit.errors import RunError
from circuit_exec.cache import Cache, recall, remember
from circuit_exec.checkpoint.records import Checkpoint

KIND = "exact"
PIECE_BYTES = 1 << 20


def with_exact_bf16(checkpoint: Checkpoint, cache: Cache) -> Checkpoint:
    """The checkpoint with `exact_bf16` known. Each file is read for it once; the cache remembers what was found."""
    found: list[str] = []
    for path, file in checkpoint.files.items():
        own = [t for t in checkpoint.tensors.values() if t.file == path and t.format == "f32" and len(t.shape) == 2]
        if not own:
            continue
        known = recall(cache, KIND, Path(path), file.identity)
        if known is None:
            known = json.dumps([tensor.name for tensor in own if _is_bf16(checkpoint, tensor.name)])
            with suppress(RunError):  # a cache that cannot be written costs time; whoever bakes into it reports it
                remember(cache, KIND, Path(path), file.identity, known)
        found += json.loads(known)
    return replace(checkpoint, exact_bf16=frozenset(found))


def _is_bf16(checkpoint: Checkpoint, name: str) -> bool:
    """Whether all low halves are zero; the first piece with another one ends the search."""
    import numpy as np  # where the cache does not know it

    from circuit_exec.checkpoint.raw import raw

    data = raw(checkpoint, name)
    pieces = (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
    return all(not np.any(np.frombuffer(piece.tobytes(), "<u4") & np.uint32(0xFFFF)) for piece in pieces)
