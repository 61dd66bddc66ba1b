"""Opens what the user named: a directory with config.json and safetensors, a GGUF file or the first of several, or a
bare config.json.
"""

import os
from pathlib import Path

from circuit.errors import LoadError, Problem
from circuit.text import Source
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.exact import with_exact_bf16
from circuit_exec.checkpoint.folder import read_folder
from circuit_exec.checkpoint.gguf_parts import read_gguf_model
from circuit_exec.checkpoint.gguf_values import read_array
from circuit_exec.checkpoint.kept_head import KeptHead
from circuit_exec.checkpoint.mapped import read_text, unreadable
from circuit_exec.checkpoint.records import Checkpoint, LongArray, Scalar

TEXTS = ("config.json", "generation_config.json", "hf_quant_config.json")
A_MODEL = "give a directory that has config.json and *.safetensors, a .gguf file, or a config.json"


def opened(path: str, cache: Cache) -> Checkpoint:
    """The checkpoint at `path`, with all that the cache knows of its files, or will know the next time."""
    return with_exact_bf16(open_checkpoint(path, cache), cache)


def open_checkpoint(path: str, cache: Cache | None = None) -> Checkpoint:
    """The checkpoint at `path`, with every table checked against its files; no tensor is read yet.

    `cache`: where what is read of a GGUF file's head is kept, so that it is read once.
    """
    at = Path(path)
    if not at.exists():
        raise LoadError(Problem(message="there is no such file or directory", fix=A_MODEL, file=path))
    if at.is_dir():
        return _open_directory(path, at)
    if at.suffix == ".json":
        return Checkpoint(path=path, kind="config", texts=(read_text(at),), metadata=(), tensors={}, files={})
    if at.suffix == ".gguf" or _magic(at) == b"GGUF":
        return _open_gguf(path, cache)
    if at.suffix == ".safetensors":
        raise LoadError(
            Problem(
                message="a weight file alone does not say which model it is",
                fix=f"give its folder, {at.parent}",
                file=path,
            )
        )
    raise LoadError(Problem(message="the file is no model: not GGUF and not a config.json", fix=A_MODEL, file=path))


def text(checkpoint: Checkpoint, name: str) -> Source | None:
    """Another text file of the checkpoint's folder, such as tokenizer.json; None where the folder has none."""
    assert checkpoint.kind != "gguf", "a GGUF file has metadata, not texts"
    at = Path(checkpoint.path)
    file = (at if at.is_dir() else at.parent) / name
    return read_text(file) if file.exists() else None


def metadata_value(checkpoint: Checkpoint, key: str) -> Scalar | tuple[Scalar, ...] | None:
    """The value of a GGUF key, long arrays decoded; None where the file does not have the key."""
    for entry in checkpoint.metadata:
        if entry.key == key:
            return long_array(checkpoint, key, entry.value) if isinstance(entry.value, LongArray) else entry.value
    return None


def long_array(checkpoint: Checkpoint, key: str, array: LongArray) -> tuple[Scalar, ...]:
    """The elements of a GGUF array that was too long to decode when the file was opened."""
    if key not in checkpoint.decoded:
        checkpoint.decoded[key] = _elements(checkpoint, key, array)
    return checkpoint.decoded[key]


def _elements(checkpoint: Checkpoint, key: str, array: LongArray) -> tuple[Scalar, ...]:
    path, cache = checkpoint.path, checkpoint.cache
    file = checkpoint.files[path]

    def read() -> tuple[Scalar, ...]:
        return read_array(path, file.data, key, array)

    if cache is None or array.type != "string":
        return read()
    return KeptHead(cache, path, file.identity).once(f"strings of {key}", tuple[Scalar, ...], read)


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError as error:
        raise unreadable(str(path), error) from error


def _open_gguf(path: str, cache: Cache | None) -> Checkpoint:
    found = read_gguf_model(path, cache)
    return Checkpoint(
        path=path,
        kind="gguf",
        texts=(),
        metadata=found.metadata,
        tensors=found.tensors,
        files=found.files,
        cache=cache,
    )


def _open_directory(path: str, folder: Path) -> Checkpoint:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable(path, error) from error
    if "config.json" not in names:
        raise LoadError(_no_model(path, names))
    texts = tuple(read_text(folder / name) for name in TEXTS if name in names)
    weights = read_folder(folder, names)
    return Checkpoint(
        path=path,
        kind="safetensors" if weights.files else "config",
        texts=texts,
        metadata=(),
        tensors=weights.tensors,
        files=weights.files,
    )


def _no_model(path: str, names: list[str]) -> Problem:
    ggufs = [name for name in names if name.endswith(".gguf")]
    found = f"; it has {', '.join(ggufs)}" if ggufs else ""
    return Problem(
        message=f"the directory is no model: looked for config.json and *.safetensors{found}",
        fix=f"give the file, {Path(path) / ggufs[0]}" if ggufs else A_MODEL,
        file=path,
    )
