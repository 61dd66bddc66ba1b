"""Keys of what the program makes: of the program itself, and of all that it reads of a checkpoint."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from circuit.load.inputs import Library
from circuit_exec.cache import key_of
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.checkpoint.texts import rope_factors
from circuit_exec.files_key import files_key

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
