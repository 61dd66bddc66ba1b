"""GGUF metadata values: a cursor over the mapped file that refuses to leave it, and arrays that decode on demand."""

import struct
from typing import NoReturn

from circuit.errors import LoadError, Problem
from circuit_exec.checkpoint.records import LongArray, Metadata, Scalar
from circuit_exec.checkpoint.safetensors import AGAIN

TYPE_OF = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64")
STRUCT_OF = {
    "u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "bool": "B",
    "f32": "f", "f64": "d",
}  # fmt: skip
SHORT_ARRAY = 1024
"""Arrays of at most this many elements are decoded when the file is opened; vocabularies are longer."""


class Cursor:
    """A place in a GGUF file; every read is checked against the end of the file and named in the message."""

    def __init__(self, path: str, data: memoryview) -> None:
        self.path = path
        self.buffer = data
        self.size = len(data)
        self.at = 0

    def refuse(self, message: str, fix: str) -> NoReturn:
        """Raises what is wrong with this file."""
        raise LoadError(Problem(message=message, fix=fix, file=self.path))

    def take(self, n_bytes: int, what: str) -> bytes:
        """The next `n_bytes`; `what` says in the message what ends too early."""
        if n_bytes > self.size - self.at:
            self.refuse(f"the file ends inside {what} (byte {self.at} of {self.size})", AGAIN)
        taken = bytes(self.buffer[self.at : self.at + n_bytes])
        self.at += n_bytes
        return taken

    def u32(self, what: str) -> int:
        """The next u32."""
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        """The next u64."""
        return int.from_bytes(self.take(8, what), "little")

    def string(self, what: str) -> str:
        """The next string."""
        text = self.take(self.u64(what), what)
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError:
            self.refuse(f"{what} is not UTF-8 text", "convert the model again, or download it again")


def read_value(cursor: Cursor, key: str) -> Metadata:
    """The type and value of `key`; an array longer than SHORT_ARRAY becomes a LongArray."""
    type = _type(cursor, key)
    if type != "array":
        return Metadata(key=key, type=type, value=_scalar(cursor, key, type))
    element, count = _type(cursor, key), cursor.u64(f"key {key}")
    if element == "array":
        cursor.refuse(f"key {key}: is an array of arrays", "convert the model again without this key")
    at = LongArray(type=element, count=count, offset=cursor.at)
    _skip(cursor, key, element, count)
    if count > SHORT_ARRAY:
        return Metadata(key=key, type=f"array of {element}", value=at)
    return Metadata(key=key, type=f"array of {element}", value=read_array(cursor.path, cursor.buffer, key, at))


def read_array(path: str, buffer: memoryview, key: str, array: LongArray) -> tuple[Scalar, ...]:
    """The elements of an array that was walked when the file was opened."""
    if array.type == "string":
        return _strings(path, buffer, key, array)
    values = struct.unpack_from(f"<{array.count}{STRUCT_OF[array.type]}", buffer, array.offset)
    return tuple(v != 0 for v in values) if array.type == "bool" else values


def _type(cursor: Cursor, key: str) -> str:
    number = cursor.u32(f"key {key}")
    if number >= len(TYPE_OF):
        cursor.refuse(f"key {key}: has the unknown value type {number}", AGAIN)
    return TYPE_OF[number]


def _scalar(cursor: Cursor, key: str, type: str) -> Scalar:
    if type == "string":
        return cursor.string(f"key {key}")
    code = STRUCT_OF[type]
    value: int | float = struct.unpack(f"<{code}", cursor.take(struct.calcsize(f"<{code}"), f"key {key}"))[0]
    if type == "bool":
        if value not in (0, 1):
            cursor.refuse(f"key {key}: the bool is {value}, not 0 or 1", AGAIN)
        return value == 1
    return value


def _skip(cursor: Cursor, key: str, element: str, count: int) -> None:
    """Moves behind the array. Walking 100,000 strings takes about 30 ms, decoding them about 100 ms."""
    if element != "string":
        n_bytes = count * struct.calcsize(f"<{STRUCT_OF[element]}")
        if n_bytes > cursor.size - cursor.at:
            cursor.refuse(f"key {key}: {count} elements reach behind the end of the file", AGAIN)
        cursor.at += n_bytes
        return
    buffer, at, length = cursor.buffer, cursor.at, struct.Struct("<Q").unpack_from
    if count > (cursor.size - at) // 8:
        cursor.refuse(f"key {key}: {count} elements reach behind the end of the file", AGAIN)
    try:
        for _ in range(count):
            at += 8 + length(buffer, at)[0]
    except (struct.error, OverflowError):
        at = cursor.size + 1
    if at > cursor.size:
        cursor.refuse(f"key {key}: its strings reach behind the end of the file", AGAIN)
    cursor.at = at


def _strings(path: str, buffer: memoryview, key: str, array: LongArray) -> tuple[str, ...]:
    at, length, found = array.offset, struct.Struct("<Q").unpack_from, []
    try:
        for _ in range(array.count):
            end = at + 8 + length(buffer, at)[0]
            found.append(str(buffer[at + 8 : end], "utf-8"))
            at = end
    except UnicodeDecodeError as error:
        raise LoadError(
            Problem(
                message=f"key {key}: element {len(found)} is not UTF-8 text",
                fix="convert the model again, or download it again",
                file=path,
            )
        ) from error
    return tuple(found)
