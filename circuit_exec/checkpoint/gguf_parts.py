"""A model in several GGUF files, named PREFIX-00001-of-00003.gguf and on, or in one.

Every part says its place from 0 (split.no), how many there are (split.count) and how many tensors they have together
(split.tensors.count); the first has all other metadata. Offsets are each file's own.
Source: tools/gguf-split of llama.cpp, and GGUFWriter of the gguf package 0.19.0, which write such files.
"""

import re
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from circuit.errors import LoadError, Problem
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.gguf import GgufTable, read_gguf
from circuit_exec.checkpoint.kept_head import KeptHead
from circuit_exec.checkpoint.mapped import map_file
from circuit_exec.checkpoint.records import MappedFile, Metadata, StoredTensor
from circuit_exec.checkpoint.safetensors import AGAIN

NO, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"
MERGE = "merge the parts with `llama-gguf-split --merge`"
_NAME = re.compile(r"(?P<prefix>.*)-(?P<place>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)


class GgufModel(Struct, frozen=True, kw_only=True, eq=False):
    """The metadata of the first file, the tensors of all, and the files by path in their order."""

    metadata: tuple[Metadata, ...]
    tensors: dict[str, StoredTensor]
    files: dict[str, MappedFile]


def read_gguf_model(path: str, cache: Cache | None) -> GgufModel:
    """The model whose first or only file is at `path`; every part must be there and fit.

    `cache`: as in `open_checkpoint`.
    """
    files = {path: map_file(path)}
    first = _table(path, files[path], cache)
    tables = {path: first}
    count = _number(path, first, COUNT, absent=1)
    if count > 1:
        for part in _others(path, first, count):
            files[part] = map_file(part)
            tables[part] = _table(part, files[part], cache)
        _check(tables, count)
    tensors = {tensor.name: tensor for table in tables.values() for tensor in table.tensors}
    return GgufModel(metadata=first.metadata, tensors=tensors, files=files)


def _table(path: str, file: MappedFile, cache: Cache | None) -> GgufTable:
    def read() -> GgufTable:
        return read_gguf(path, file.data)

    return read() if cache is None else KeptHead(cache, path, file.identity).once("table", GgufTable, read)


def _others(path: str, first: GgufTable, count: int) -> list[str]:
    """The paths of the parts after the first; all exist."""
    place = _number(path, first, NO)
    named = _NAME.fullmatch(Path(path).name)
    if named is None or int(named["count"]) != count:
        message = f"the file is one of {count} parts of a model, but its name does not end in {_tail(place, count)}"
        _refuse(path, message, f"give every part its name back, or {MERGE}")
    parts = [str(Path(path).with_name(named["prefix"] + _tail(at, count))) for at in range(count)]
    if place:
        _refuse(path, f"the file is part {place + 1} of {count} of a model", f"give the first part, {parts[0]}")
    missing = [Path(part).name for part in parts[1:] if not Path(part).exists()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        _refuse(
            path, f"{missing[0]}{more} of the {count} parts of the model is missing", f"download it too, or {MERGE}"
        )
    return parts[1:]


def _check(tables: dict[str, GgufTable], count: int) -> None:
    """What the parts say of themselves and of each other."""
    problems: list[Problem] = []
    first, *_ = tables.values()
    known = {entry.key: (entry.type, entry.value) for entry in first.metadata}
    seen: dict[str, str] = {}
    for at, (path, table) in enumerate(tables.items()):
        said = (_number(path, table, NO) + 1, _number(path, table, COUNT))
        if said != (at + 1, count):
            message = f"the file says that it is part {said[0]} of {said[1]}, its name says part {at + 1} of {count}"
            problems.append(Problem(message=message, fix=AGAIN, file=path))
        for entry in table.metadata if at else ():
            if not entry.key.startswith("split.") and known.get(entry.key) != (entry.type, entry.value):
                message = f"key {entry.key}: is not what the first part says, which has the metadata of all"
                problems.append(
                    Problem(message=message, fix=f"use parts that were written together, or {MERGE}", file=path)
                )
        for tensor in table.tensors:
            if tensor.name in seen:
                message = f"tensor {tensor.name}: is also in {Path(seen[tensor.name]).name}"
                problems.append(Problem(message=message, fix=AGAIN, file=path))
            seen[tensor.name] = path
    n_tensors, path = sum(len(table.tensors) for table in tables.values()), next(iter(tables))
    wanted = _number(path, first, TENSORS)
    if n_tensors != wanted and not problems:
        message = f"the parts have {n_tensors} tensors, {TENSORS} says {wanted}"
        problems.append(Problem(message=message, fix=AGAIN, file=path))
    if problems:
        raise LoadError(problems)


def _number(path: str, table: GgufTable, key: str, absent: int | None = None) -> int:
    """The count that a part states; `absent` is that of a file that is no part."""
    value = next((entry.value for entry in table.metadata if entry.key == key), absent)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        shown = "is missing" if value is None else f"is {value!r}, no count"
        _refuse(path, f"key {key}: {shown}", f"use parts that were written together, or {MERGE}")
    return value


def _tail(place: int, count: int) -> str:
    return f"-{place + 1:05}-of-{count:05}.gguf"


def _refuse(path: str, message: str, fix: str) -> NoReturn:
    raise LoadError(Problem(message=message, fix=fix, file=path))
