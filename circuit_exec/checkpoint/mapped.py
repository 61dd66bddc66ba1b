"""Files as read-only byte arrays over a memory map, and small text files; what cannot be read is a LoadError."""

import mmap
import os
from pathlib import Path

from circuit.errors import LoadError, Problem
from circuit.text import Source
from circuit_exec.cache import identity
from circuit_exec.checkpoint.records import MappedFile


def map_file(path: str) -> MappedFile:
    """The bytes of a weight file, mapped read-only."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size == 0:
                raise LoadError(Problem(message="the file is empty", fix="download it again", file=path))
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise unreadable(path, error) from error
    data = memoryview(mapped)
    if bytes(data[:23]) == b"version https://git-lfs":
        raise LoadError(
            Problem(
                message="the file is a Git LFS pointer, not the weights themselves",
                fix="run `git lfs pull` in the checkpoint's folder",
                file=path,
            )
        )
    return MappedFile(data=data, identity=identity(status))


def read_text(path: Path) -> Source:
    """A small text file of the checkpoint, as UTF-8."""
    try:
        return Source(path=str(path), text=path.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(str(path), error) from error
    except UnicodeDecodeError as error:
        raise LoadError(
            Problem(
                message=f"the file is not UTF-8 text (byte {error.start})",
                fix="save it as UTF-8, or download it again",
                file=str(path),
            )
        ) from error


def unreadable(path: str, error: OSError) -> LoadError:
    """The error of a file that exists but cannot be read, or that does not exist."""
    return LoadError(
        Problem(
            message=f"the file cannot be read: {(error.strerror or str(error)).lower()}",
            fix="check the path and its permissions",
            file=path,
        )
    )
