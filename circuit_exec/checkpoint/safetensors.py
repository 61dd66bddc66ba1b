"""The table of one safetensors file.

Layout: a u64 length, a JSON header of that length {name: {dtype, shape, data_offsets: [begin, end]}}, then the data,
which the tensors cover without holes or overlaps; offsets count from the end of the header.
Source: the format section of the safetensors README (huggingface/safetensors, 0.8).
"""

import json

from circuit.errors import LoadError, Problem
from circuit_exec.checkpoint.records import StoredTensor

FORMAT_OF = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
"""Types with a decoder. A tensor of another type keeps the type's name: it may be one that no node reads."""
BYTES_OF = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I8": 1, "I32": 4, "I64": 8}
MAX_HEADER_BYTES = 100_000_000  # the limit of the published implementation
AGAIN = "download the file again; it is truncated or damaged"

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def read_safetensors(path: str, data: memoryview) -> tuple[StoredTensor, ...]:
    """The tensors of the file, in the order of their data; every offset lies inside the file."""
    header, start = _header(path, data)
    problems: list[Problem] = []
    tensors: list[StoredTensor] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        match _entry(path, name, entry, start):
            case StoredTensor() as tensor:
                tensors.append(tensor)
            case Problem() as problem:
                problems.append(problem)
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.n_bytes))
    if not problems:
        problems = _coverage(path, tensors, start, len(data))
    if problems:
        raise LoadError(problems)
    return tuple(tensors)


def _header(path: str, data: memoryview) -> tuple[dict[str, Json], int]:
    if len(data) < 8:
        raise LoadError(
            Problem(message=f"the file has {len(data)} bytes, a safetensors file at least 8", fix=AGAIN, file=path)
        )
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > MAX_HEADER_BYTES:
        raise LoadError(
            Problem(
                message=f"the header says it is {length} bytes long, {MAX_HEADER_BYTES} are possible",
                fix="give a safetensors file, or download it again; this one is damaged or of another kind",
                file=path,
            )
        )
    if length > len(data) - 8:
        raise LoadError(
            Problem(
                message=f"the header says it is {length} bytes long, but the file has {len(data) - 8} bytes after it",
                fix=AGAIN,
                file=path,
            )
        )
    try:
        header: Json = json.loads(data[8 : 8 + length].tobytes().decode("utf-8"), object_pairs_hook=unique_keys)
    except DuplicateKey as error:
        raise LoadError(
            Problem(message=f"the header names {error} twice", fix="write the file again without it", file=path)
        ) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise LoadError(Problem(message="the header is not JSON", fix=AGAIN, file=path)) from error
    if not isinstance(header, dict):
        raise LoadError(Problem(message="the header is not a JSON object", fix=AGAIN, file=path))
    return header, 8 + length


class DuplicateKey(Exception):
    """A JSON object has the same key twice."""


def unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The object of a JSON parser's pairs; a key that occurs twice is refused."""
    found: dict[str, Json] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKey(key)
        found[key] = value
    return found


def _entry(path: str, name: str, entry: Json, start: int) -> StoredTensor | Problem:
    """The tensor, or what is wrong with it."""
    if not isinstance(entry, dict):
        return Problem(message=f"tensor {name}: its header entry is not an object", fix=AGAIN, file=path)
    dtype, shape, offsets = entry.get("dtype"), _counts(entry.get("shape")), _counts(entry.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        return Problem(
            message=f"tensor {name}: its header entry needs dtype, shape and two data_offsets", fix=AGAIN, file=path
        )
    begin, end = offsets
    n_bytes = BYTES_OF.get(dtype, 0)
    for dim in shape:
        n_bytes *= dim
    if end < begin or (dtype in BYTES_OF and end - begin != n_bytes):
        return Problem(
            message=f"tensor {name}: {list(shape)} of {dtype} takes {n_bytes} bytes, its offsets {begin} to {end} span "
            f"{end - begin}",
            fix=AGAIN,
            file=path,
        )
    format = FORMAT_OF.get(dtype, dtype)
    return StoredTensor(name=name, format=format, shape=shape, file=path, offset=start + begin, n_bytes=end - begin)


def _counts(value: Json) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    counts = tuple(v for v in value if isinstance(v, int) and not isinstance(v, bool) and v >= 0)
    return counts if len(counts) == len(value) else None


def _coverage(path: str, tensors: list[StoredTensor], start: int, size: int) -> list[Problem]:
    problems = []
    at = start
    for tensor in tensors:
        if tensor.offset + tensor.n_bytes > size:
            problems.append(outside(path, tensor, size))
        elif tensor.offset < at:
            problems.append(Problem(message=f"tensor {tensor.name}: overlaps the one before it", fix=AGAIN, file=path))
        elif tensor.offset > at:
            problems.append(
                Problem(
                    message=f"{tensor.offset - at} bytes before tensor {tensor.name} belong to none",
                    fix=AGAIN,
                    file=path,
                )
            )
        at = max(at, tensor.offset + tensor.n_bytes)
    if not problems and at != size:
        problems.append(Problem(message=f"{size - at} bytes at the end belong to no tensor", fix=AGAIN, file=path))
    return problems


def outside(path: str, tensor: StoredTensor, size: int) -> Problem:
    """The problem of a tensor that ends behind the end of its file."""
    return Problem(
        message=f"tensor {tensor.name}: ends at byte {tensor.offset + tensor.n_bytes}, the file has {size}",
        fix=AGAIN,
        file=path,
    )
