"""The metadata and the tensor table of one GGUF file, versions 2 and 3, little-endian.

Layout: "GGUF", u32 version, u64 tensors, u64 keys; per key a string, a u32 type and the value; per tensor a string, u32
dimensions, u64 each (fastest first), u32 type, u64 offset from the data, which begins at the next multiple of
general.alignment. A string is a u64 length and UTF-8.
Source: the GGUF specification in the ggml repository (docs/gguf.md).
"""

import itertools

from msgspec import Struct

from circuit.errors import LoadError, Problem
from circuit.formats import FORMATS
from circuit_exec.checkpoint.gguf_values import Cursor, read_value
from circuit_exec.checkpoint.records import Metadata, StoredTensor
from circuit_exec.checkpoint.safetensors import AGAIN, outside

FORMAT_OF = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k", 11: "q3_k", 12: "q4_k",
    13: "q5_k", 14: "q6_k", 20: "iq4_nl", 30: "bf16", 39: "mxfp4",
}  # fmt: skip

# Source: enum ggml_type in ggml.h; names for messages only.
UNSUPPORTED = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0",
    40: "NVFP4", 41: "Q1_0",
}  # fmt: skip

MIN_KEY_BYTES = 13  # an empty name, a type, one byte
MIN_TENSOR_BYTES = 32  # an empty name, one dimension, a type, an offset
MAX_DIMS = 4


class GgufTable(Struct, frozen=True, kw_only=True):
    """What the head of a GGUF file says; tensors are in the order of the table."""

    metadata: tuple[Metadata, ...]
    tensors: tuple[StoredTensor, ...]


def read_gguf(path: str, data: memoryview) -> GgufTable:
    """The table of the file; long arrays are walked, not decoded, and every tensor lies inside the file."""
    cursor = Cursor(path, data)
    n_tensors, n_keys = _counts(cursor)
    metadata = []
    for _ in range(n_keys):
        key = cursor.string("a key")
        metadata.append(read_value(cursor, key))
    _unique(path, "key", [entry.key for entry in metadata])
    alignment = _alignment(path, metadata)
    heads = [_tensor_head(cursor) for _ in range(n_tensors)]
    _unique(path, "tensor", [head.name for head in heads])
    start = -(-cursor.at // alignment) * alignment
    return GgufTable(metadata=tuple(metadata), tensors=_tensors(path, heads, start, alignment, len(data)))


class _Head(Struct, frozen=True, kw_only=True):
    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


def _counts(cursor: Cursor) -> tuple[int, int]:
    if (magic := cursor.take(4, "the magic")) != b"GGUF":
        cursor.refuse(f"the file does not begin with GGUF but with {magic!r}", "give a GGUF file, or download it again")
    version = cursor.u32("the version")
    if version in (2 << 24, 3 << 24):
        cursor.refuse("the file is big-endian GGUF", "convert it to little-endian with gguf_convert_endian.py")
    if version not in (2, 3):
        cursor.refuse(f"the file is GGUF version {version}, only 2 and 3 can be read", "convert the model again")
    n_tensors, n_keys = cursor.u64("the number of tensors"), cursor.u64("the number of keys")
    if n_tensors * MIN_TENSOR_BYTES + n_keys * MIN_KEY_BYTES > cursor.size - cursor.at:
        cursor.refuse(f"{n_tensors} tensors and {n_keys} keys cannot fit into {cursor.size} bytes", AGAIN)
    return n_tensors, n_keys


def _unique(path: str, what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise LoadError(
                Problem(
                    message=f"{what} {name} occurs twice",
                    fix="convert the model again, or download it again",
                    file=path,
                )
            )
        seen.add(name)


def _alignment(path: str, metadata: list[Metadata]) -> int:
    """The alignment of the data: 32 where the file does not say, as the format defines it."""
    for entry in metadata:
        if entry.key == "general.alignment":
            value = entry.value
            if entry.type != "u32" or not isinstance(value, int) or value == 0 or value & (value - 1):
                raise LoadError(
                    Problem(
                        message=f"general.alignment is {value} ({entry.type}), not a power of two (u32)",
                        fix=AGAIN,
                        file=path,
                    )
                )
            return value
    return 32


def _tensor_head(cursor: Cursor) -> _Head:
    name = cursor.string("the name of a tensor")
    n_dims = cursor.u32(f"tensor {name}")
    if not 1 <= n_dims <= MAX_DIMS:
        cursor.refuse(f"tensor {name}: has {n_dims} dimensions, 1 to {MAX_DIMS} are possible", AGAIN)
    dims = [cursor.u64(f"tensor {name}") for _ in range(n_dims)]
    if 0 in dims:
        cursor.refuse(f"tensor {name}: has a dimension of 0", AGAIN)
    type, offset = cursor.u32(f"tensor {name}"), cursor.u64(f"tensor {name}")
    return _Head(name=name, shape=tuple(reversed(dims)), type=type, offset=offset)


def _tensors(path: str, heads: list[_Head], start: int, alignment: int, size: int) -> tuple[StoredTensor, ...]:
    problems: list[Problem] = []
    unsupported: dict[str, list[str]] = {}
    tensors: list[StoredTensor] = []
    for head in heads:
        if head.type not in FORMAT_OF:
            type_name = UNSUPPORTED.get(head.type, f"the unknown ggml type {head.type}")
            unsupported.setdefault(type_name, []).append(head.name)
            continue
        format = FORMATS[FORMAT_OF[head.type]]
        if head.shape[-1] % format.block:
            problems.append(
                Problem(
                    message=f"tensor {head.name}: rows of {head.shape[-1]} values are not whole blocks "
                    f"of {format.block} ({format.name})",
                    fix=AGAIN,
                    file=path,
                )
            )
            continue
        n_bytes = format.row_bytes(head.shape[-1])
        for dim in head.shape[:-1]:
            n_bytes *= dim
        tensor = StoredTensor(
            name=head.name, format=format.name, shape=head.shape, file=path, offset=start + head.offset, n_bytes=n_bytes
        )
        tensors.append(tensor)
        if head.offset % alignment:
            problems.append(
                Problem(
                    message=f"tensor {head.name}: its offset {head.offset} is not a multiple of {alignment}",
                    fix=AGAIN,
                    file=path,
                )
            )
        if tensor.offset + n_bytes > size:
            problems.append(outside(path, tensor, size))
    problems += [_unsupported(path, type_name, names) for type_name, names in unsupported.items()]
    problems += _overlaps(path, tensors)
    if problems:
        raise LoadError(problems)
    return tuple(tensors)


def _unsupported(path: str, type_name: str, names: list[str]) -> Problem:
    """The problem of tensors whose stored type has no decoder here, one a type."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Problem(
        message=f"tensor {names[0]}{more}: stored as {type_name}, which cannot be decoded",
        fix=f"use a file whose tensors are stored as {', '.join(n.upper() for n in FORMAT_OF.values())}",
        file=path,
    )


def _overlaps(path: str, tensors: list[StoredTensor]) -> list[Problem]:
    problems = []
    ordered = sorted(tensors, key=lambda tensor: (tensor.offset, tensor.n_bytes))
    for before, after in itertools.pairwise(ordered):
        if after.offset < before.offset + before.n_bytes:
            problems.append(
                Problem(message=f"tensor {after.name}: overlaps tensor {before.name}", fix=AGAIN, file=path)
            )
    return problems
