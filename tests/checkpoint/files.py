"""Small checkpoint files, written byte by byte, so that a test can also write wrong ones."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

TYPE = {"u8": 0, "u16": 2, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "string": 8, "array": 9, "u64": 10}
CODE = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "bool": "B", "u64": "Q"}
GGML = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12,
    "q5_k": 13, "q6_k": 14, "iq4_nl": 20, "bf16": 30, "mxfp4": 39,
}  # fmt: skip

Scalar = bool | int | float | str


class GgufTensor(Struct, frozen=True, kw_only=True):
    """A tensor as it is put into a file; `offset` None is the next free one."""

    name: str
    type: int
    shape: tuple[int, ...]  # row-major
    data: bytes
    offset: int | None = None


def string(text: str | bytes) -> bytes:
    """A GGUF string."""
    encoded = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(encoded)) + encoded


def key(name: str, type: str, value: Scalar) -> bytes:
    """One metadata entry with a scalar value."""
    return string(name) + struct.pack("<I", TYPE[type]) + _value(type, value)


def array_key(name: str, element: str, values: Sequence[Scalar]) -> bytes:
    """One metadata entry with an array."""
    body = b"".join(_value(element, value) for value in values)
    return string(name) + struct.pack("<IIQ", TYPE["array"], TYPE[element], len(values)) + body


def gguf(
    keys: Sequence[bytes] = (), tensors: Sequence[GgufTensor] = (), *, version: int = 3, alignment: int = 32
) -> bytes:
    """A whole GGUF file."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for tensor in tensors:
        data += b"\0" * (-len(data) % alignment)
        at = len(data) if tensor.offset is None else tensor.offset
        dims = struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        head += string(tensor.name) + struct.pack("<I", len(tensor.shape)) + dims
        head += struct.pack("<IQ", tensor.type, at)
        data += tensor.data
    return head + b"\0" * (-len(head) % alignment) + data


class Tensor(Struct, frozen=True, kw_only=True):
    """A tensor of a safetensors file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes


def safetensors(tensors: Sequence[Tensor]) -> bytes:
    """A whole safetensors file."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in tensors:
        offsets = [at, at + len(tensor.data)]
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
        at += len(tensor.data)
    return with_header(json.dumps(header)) + b"".join(tensor.data for tensor in tensors)


def with_header(text: str) -> bytes:
    """The length and the header of a safetensors file."""
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def folder(at: Path, files: dict[str, bytes], config: str = "{}") -> Path:
    """A directory with a config.json and `files`."""
    at.mkdir(parents=True, exist_ok=True)
    (at / "config.json").write_text(config)
    for name, data in files.items():
        (at / name).write_bytes(data)
    return at


def _value(type: str, value: Scalar) -> bytes:
    return string(value) if isinstance(value, str) else struct.pack(f"<{CODE[type]}", value)
