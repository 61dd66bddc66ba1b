"""Keys of what the program makes: of the program itself, and of all that it reads of a checkpoint."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from circuit.load.inputs import Library
from circuit_exec.cache import key_of
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.checkpoint.texts import rope_factors

PACKAGES = ("circuit", "circuit_exec", "cli")


def program_key(library: Library) -> str:
    """Of each source and data file of met's packages, of the library, and of the Python that runs them."""
    here = Path(__file__).resolve().parent.parent
    return key_of(sys.version, *(files_key(here / package) for package in PACKAGES), *library_parts(library))


def library_parts(library: Library) -> Iterator[str]:
    """Every text with its path."""
    for source in library.files:
        yield source.path
        yield source.text


def code_key() -> str:
    """Of the compiler alone: every file of the package `circuit`."""
    return files_key(Path(__file__).resolve().parent.parent / "circuit")


def files_key(place: Path) -> str:
    """Of a file, or of every file below a folder with its name there, but for what Python made of them."""
    digest, at = hashlib.sha256(), str(place)
    for path in _files(at) if place.is_dir() else (at,):
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        for part in (path[len(at) :].encode(), content):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def checkpoint_parts(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Everything that the compiler reads of a checkpoint, but the name of a GGUF file."""
    texts = [part for source in checkpoint.texts for part in (source.path, source.text)]
    exact = checkpoint.exact_bf16
    tensors = [f"{t.name} {t.format} {t.shape} {t.name in exact}" for t in checkpoint.tensors.values()]
    factors = [factor.hex() for factor in rope_factors(checkpoint) or ()]
    counted = (str(len(part)) for part in (texts, tensors, factors))
    return (_metadata_digest(checkpoint), *counted, *texts, *tensors, *factors)


def _metadata_digest(checkpoint: Checkpoint) -> str:
    """Of the bytes before the first tensor of a GGUF file, of several the first; the texts and tables say it all for
    other checkpoints."""
    if checkpoint.kind != "gguf":
        return checkpoint.kind
    file = checkpoint.files[checkpoint.path]
    own = (tensor.offset for tensor in checkpoint.tensors.values() if tensor.file == checkpoint.path)
    end = min(own, default=len(file.data))
    return hashlib.sha256(file.data[:end]).hexdigest()


def _files(folder: str) -> Iterator[str]:
    """Every file below a folder but what Python made of it, in the order of the names."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        else:
            yield entry.path
