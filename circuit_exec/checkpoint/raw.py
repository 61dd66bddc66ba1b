"""The bytes of a checkpoint as arrays. Who reads texts and tables alone does not wait for numpy, which this imports."""

import numpy as np
from numpy.typing import NDArray

from circuit_exec.checkpoint.records import Checkpoint, MappedFile

Bytes = NDArray[np.uint8]


def raw(checkpoint: Checkpoint, name: str) -> Bytes:
    """The bytes of the tensor `name` as the file stores them, without a copy."""
    stored = checkpoint.tensors[name]
    return as_array(checkpoint.files[stored.file])[stored.offset : stored.offset + stored.n_bytes]


def as_array(file: MappedFile) -> Bytes:
    """All bytes of a file, without a copy."""
    return np.frombuffer(file.data, dtype=np.uint8)
