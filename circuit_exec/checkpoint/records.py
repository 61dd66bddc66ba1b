"""What a checkpoint gives: its texts or metadata, the table of its tensors, and its files over memory maps."""

from typing import Literal

from msgspec import Struct, field

from circuit.errors import Problem, RunError
from circuit.text import Source
from circuit_exec.cache import Cache, Identity

Scalar = bool | int | float | str
Kind = Literal["safetensors", "gguf", "config"]


class MappedFile(Struct, frozen=True, kw_only=True, eq=False):
    """The bytes of a file, and its identity at the moment it was opened."""

    data: memoryview
    identity: Identity


class StoredTensor(Struct, frozen=True, kw_only=True):
    """One tensor of a weight file. `shape` is row-major (the last dimension is contiguous); `offset` is in the file."""

    name: str
    format: str  # a key of circuit.formats.FORMATS, or the file's own name for a type that has no decoder here
    shape: tuple[int, ...]
    file: str
    offset: int
    n_bytes: int


class LongArray(Struct, frozen=True, kw_only=True):
    """A metadata array that was walked but not decoded: `count` elements of type `type` from `offset` on."""

    type: str
    count: int
    offset: int


class Metadata(Struct, frozen=True, kw_only=True):
    """One GGUF key. `type` is "u32", "string", … or "array of string"."""

    key: str
    type: str
    value: Scalar | tuple[Scalar, ...] | LongArray


class Checkpoint(Struct, frozen=True, kw_only=True, eq=False):
    """An opened checkpoint. `texts` is empty for GGUF, `metadata` is empty otherwise; "config" has no tensors.

    `path` is what the user gave; `files` are the weight files by path, in the order of their names. `decoded` keeps the
    long arrays that were asked for. `exact_bf16` are f32 tensors that are known to hold bf16 values alone. `cache` is
    where what was read of the files is kept; None where nothing is.
    """

    path: str
    kind: Kind
    texts: tuple[Source, ...]
    metadata: tuple[Metadata, ...]
    tensors: dict[str, StoredTensor]
    files: dict[str, MappedFile]
    decoded: dict[str, tuple[Scalar, ...]] = field(default_factory=dict)
    exact_bf16: frozenset[str] = frozenset()
    cache: Cache | None = None


def require_weights(checkpoint: Checkpoint) -> None:
    """Refuses a checkpoint that can only be planned."""
    if checkpoint.kind == "config":
        raise RunError(
            Problem(
                message="this checkpoint has a config.json but no weights, so it can be planned but not run",
                fix="give a directory that has config.json and *.safetensors, or a .gguf file",
                file=checkpoint.path,
            )
        )
