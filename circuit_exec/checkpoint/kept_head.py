"""What was read of the head of a GGUF file before, kept in the cache: its table, and its long arrays of strings.

Walking 100,000 strings takes 30 ms and decoding them 100, more than all else that opening a model does. The key is of
the file's path and identity, as it is of what else is remembered about a file, and of the program that reads it. An
entry that is damaged is as good as none.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from circuit import formats
from circuit.errors import RunError
from circuit_exec.cache import Cache, Identity, entry_path, key_of, read_checked, remove_oldest, used, write_checked
from circuit_exec.files_key import files_key

T = TypeVar("T")

KIND = "heads"
MOST_BYTES = 64 << 20


class KeptHead:
    """The entries of one file, which had an identity when it was opened."""

    def __init__(self, cache: Cache, path: str, identity: Identity) -> None:
        reads = (files_key(Path(__file__).parent), files_key(Path(formats.__file__)))
        self._cache = cache
        self._of = (*reads, path, str(Path(path).resolve()), *map(str, identity))

    def once(self, what: str, kind: type[T], make: Callable[[], T]) -> T:
        """What `make` makes of the file, or what it made before; `kind` is its type."""
        path = entry_path(self._cache, KIND, key_of(KIND, what, *self._of))
        body = read_checked(path)
        if body is not None:
            used(path)
            with suppress(msgspec.DecodeError):
                return msgspec.msgpack.decode(body, type=kind)
        made = make()
        with suppress(RunError):  # a cache that cannot be written costs time and no more
            write_checked(path, msgspec.msgpack.encode(made))
            remove_oldest(path.parent, MOST_BYTES)
        return made
